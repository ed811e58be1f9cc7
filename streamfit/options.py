"""Named groups of options, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streamfit.errors import InvalidParameterError

__all__ = ["BatchWise", "Exact", "Shuffle", "StreamOptions", "VerifyMode"]

VerifyMode = Literal["always", "first", "never"]
Shuffle = Literal["window", "none"]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How rows are streamed to an estimator.

    ``window``, ``min_batch`` and ``drop_last`` define the order of the rows; ``prefetch`` and ``verify``
    do not.
    """

    window: int | None = None
    """Chunks that are held in memory and shuffled together; None: 16, at most 256 MiB, fewer where an
    explicit memory limit asks for it."""
    min_batch: int = 1
    """A last batch with fewer rows than this is merged into the one before."""
    drop_last: bool = False
    """Leave the last batch out if it is short."""
    prefetch: int = 1
    """Windows read ahead while the model computes; 0 reads in the thread of the model."""
    verify: VerifyMode = "always"
    """Compare checksums at every read, at the first read of each chunk in this process, or never."""

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise InvalidParameterError(f"window must be at least 1 chunk, got {self.window}.")
        if self.min_batch < 1:
            raise InvalidParameterError(f"min_batch must be at least 1 row, got {self.min_batch}.")
        if self.prefetch < 0:
            raise InvalidParameterError(f"prefetch must be 0 or more windows, got {self.prefetch}.")
        if self.verify not in ("always", "first", "never"):
            raise InvalidParameterError(f"verify must be 'always', 'first' or 'never', got {self.verify!r}.")


@dataclass(frozen=True, slots=True)
class Exact:
    """Scores equal to fitting the detector on all rows in memory, or an error where no such way exists."""

    max_hours: float = 24.0
    """Refuse, with the projected time, work that would take longer on this machine."""

    def __post_init__(self) -> None:
        if not self.max_hours > 0:
            raise InvalidParameterError(f"max_hours must be above 0, got {self.max_hours}.")


@dataclass(frozen=True, slots=True)
class BatchWise:
    """An ensemble of detectors, each fitted on one shuffled batch; an approximation, by name.

    Small batches cannot stand in for neighbours: where anomalies are rows without a companion in the
    whole data set, a batch that holds a few of the companions of each row cannot tell them apart.
    """

    batch_size: int = 10_000
    """Rows that one member is fitted on."""
    epochs: int = 1
    """Times that each row is trained on, by a member each time."""
    members_per_row: int = 8
    """Members that score a row, drawn by seed among those that did not train on it."""
    max_members: int = 64
    """Members kept, on scratch; drawn by seed where there are more batches."""
    score: Literal["out_of_batch", "in_batch"] = "out_of_batch"
    """``"in_batch"``: each row is scored by the member that trained on it, the classic loop made right."""
    calibrate: Literal["zscore", "rank", "none"] = "zscore"
    """How a member's scores are made comparable, always by that member's own training scores."""
    combine: Literal["mean", "median", "max"] = "mean"
    """How the calibrated scores of a row are combined."""
    random_state: int = 0
    """Seed of the shuffle and of the draw of members."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "members_per_row", "max_members"):
            if getattr(self, name) < 1:
                raise InvalidParameterError(f"{name} must be at least 1, got {getattr(self, name)}.")
        choices = {
            "score": ("out_of_batch", "in_batch"),
            "calibrate": ("zscore", "rank", "none"),
            "combine": ("mean", "median", "max"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InvalidParameterError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}.")
