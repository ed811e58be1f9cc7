"""One run a folder: what defines it, and the newest states to go on from.

::

    run/
      lock                              held by the one fit
      run.json                          what defines the run
      checkpoint-000002-00000130.zip    130 steps of epoch 2 are done, counted from 0
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from streamfit.errors import CheckpointError, CheckpointMismatchError, InvalidParameterError
from streamfit.options import check_choice, check_count
from streamfit.run.sealed import opened_archive, sealed_archive

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Checkpoint",
    "CheckpointOptions",
    "Position",
    "RunFolder",
    "as_checkpoint_options",
    "check_same_run",
    "definition_to_go_on",
]

logger = logging.getLogger(__name__)

_FORMAT = 3
_KEPT_CHECKPOINTS = 2
_RUN_FILE = "run.json"
_LOCK_FILE = "lock"
_PATTERN = "checkpoint-*.zip"


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """Where and how often a fit writes its state."""

    path: str | os.PathLike[str]
    """Folder of the run; it is made when it is not there."""
    every_steps: int | None = None
    """Steps between two checkpoints, besides those at the ends of epochs; None: only those."""
    trust: tuple[str, ...] = ()
    """Full names of types in the estimator, or of packages that hold them, that may be read back besides those of
    scikit-learn."""
    other_versions: Literal["refuse", "accept"] = "refuse"
    """Go on with a run of other versions of streamfit, NumPy or scikit-learn, or of another kind of machine, or not.
    The bits may then be others than those of an undisturbed fit."""

    def __post_init__(self) -> None:
        check_choice("other_versions", self.other_versions, ("refuse", "accept"))
        path: Any = self.path
        trust: Any = self.trust
        if not (isinstance(path, str | os.PathLike) and os.fspath(path)):
            raise InvalidParameterError(f"checkpoint must be the path of a folder, got {self.path!r}.")
        if self.every_steps is not None:
            check_count("every_steps", self.every_steps, least=1)
        if not (isinstance(trust, list | tuple) and all(isinstance(name, str) for name in trust)):
            raise InvalidParameterError(f"trust must be a tuple of full names of types, got {self.trust!r}.")


def as_checkpoint_options(checkpoint: CheckpointOptions | str | os.PathLike[str]) -> CheckpointOptions:
    """Let a path stand for its options."""
    return checkpoint if isinstance(checkpoint, CheckpointOptions) else CheckpointOptions(checkpoint)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two steps of a fit."""

    epoch: int
    """Epochs that are done."""
    step: int
    """Steps of the next epoch that are done; less than there are in an epoch."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that a fit needs to go on."""

    position: Position
    """Where the fit stands."""
    model: bytes
    """The model at `position`, encoded."""
    kept: bytes | None = None
    """The model that is the result instead, where a callback kept one."""
    kept_by: str | None = None
    """Which callback kept it."""
    stopped_by: str | None = None
    """Which callback ended the fit here."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """What was measured, at the ends of epochs and in between."""
    epoch_seconds: float = 0.0
    """Wall time of the steps of the epoch under way."""
    controls: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """State of each control callback."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of what the bits of the model depend on."""

    def to_bytes(self) -> bytes:
        """Give one file's content. It ends in a checksum of all of it: an archive's own do not cover its directory."""
        state = {name: value for name, value in asdict(self).items() if name not in ("model", "kept")}
        parts: dict[str, bytes | str] = {"state.json": json.dumps(state | {"format": _FORMAT}), "model": self.model}
        return sealed_archive(parts if self.kept is None else parts | {"kept": self.kept})

    @classmethod
    def from_bytes(cls, content: bytes) -> Checkpoint:
        """Read what `to_bytes` gave.

        Raises
        ------
        zipfile.BadZipFile
            It is something else.
        CheckpointError
            It was given by another version of streamfit.
        """
        with opened_archive(content) as archive:
            state = json.loads(archive.read("state.json"))
            if state.pop("format") != _FORMAT:
                raise CheckpointError("The checkpoint was written by another version of streamfit. Use that one.")
            kept = archive.read("kept") if "kept" in archive.namelist() else None
            position = Position(**state.pop("position"))
            return cls(position=position, model=archive.read("model"), kept=kept, **state)


def check_same_run(path: Path, stored: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Refuse to go on with a run that was defined otherwise.

    Raises
    ------
    CheckpointMismatchError
        The message names each difference.
    """
    # A parameter that one side does not know is of another version of the estimator, where it has its default.
    differences = [
        f"{name} was {stored[name]!r} and is {current[name]!r}"
        for name in sorted(stored.keys() & current.keys())
        if stored[name] != current[name]
    ]
    if differences:
        raise CheckpointMismatchError(
            f"The checkpoint in {path} belongs to another fit: {'; '.join(differences)}. "
            "Fit with the same values, or pass resume='never' to start anew, or use another folder: each fit, such "
            "as those of a grid search, needs one of its own."
        )


def definition_to_go_on(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Read what defines the run in a folder that has a checkpoint, without holding or making the folder.

    Raises
    ------
    CheckpointError
        It is damaged.
    """
    folder = Path(path)
    return _definition(folder) if any(folder.glob(_PATTERN)) else None


def _definition(folder: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads((folder / _RUN_FILE).read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{folder / _RUN_FILE} is damaged. Use another folder, or pass resume='never'."
        ) from error


class RunFolder:
    """The folder of one run, held by one fit at a time.

    Parameters
    ----------
    path : path-like
        The folder; it is made when it is not there.

    Raises
    ------
    CheckpointError
        Another fit holds the folder, or it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if "://" in os.fspath(path):
            raise InvalidParameterError(
                f"checkpoint must be a local or mounted folder, got {os.fspath(path)!r}. Use such a folder."
            )
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise CheckpointError(f"The folder {self.path} cannot be used for checkpoints: {error}.") from error
        try:
            # It is let go when the process dies, however it dies.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise CheckpointError(
                f"Another fit writes its checkpoints to {self.path}. Wait for it or use another folder: each fit needs "
                "one of its own."
            ) from error
        for stray in self.path.glob("*.part"):
            stray.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._lock)

    def definition(self) -> dict[str, Any] | None:
        """Give what defines the run, or None where none was begun."""
        return _definition(self.path)

    def begin(self, definition: Mapping[str, Any]) -> None:
        """Start a run: checkpoints of an earlier one are removed first."""
        for file in self.path.glob(_PATTERN):
            file.unlink()
        self._write(_RUN_FILE, json.dumps(definition, indent=1, sort_keys=True).encode())

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint beside the others, put it in place at once, and remove the oldest."""
        position = checkpoint.position
        name = f"checkpoint-{position.epoch:06d}-{position.step:08d}.zip"
        self._write(name, checkpoint.to_bytes())
        for file in sorted(self.path.glob(_PATTERN))[:-_KEPT_CHECKPOINTS]:
            file.unlink()

    def latest(self) -> Checkpoint | None:
        """Read the newest checkpoint; one that is damaged gives way to the one before.

        Raises
        ------
        CheckpointError
            There are checkpoints, and none can be read.
        """
        files = sorted(self.path.glob(_PATTERN), reverse=True)
        for file in files:
            try:
                return Checkpoint.from_bytes(file.read_bytes())
            except (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError) as error:
                if isinstance(error, CheckpointError):
                    raise
                logger.warning("%s cannot be read (%s); the checkpoint before it is used.", file, error)
        if files:
            raise CheckpointError(
                f"No checkpoint in {self.path} can be read. Use another folder, or pass resume='never'."
            )
        return None

    def _write(self, name: str, content: bytes) -> None:
        part = self.path / f"{name}.part"
        try:
            with part.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(self.path / name)
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise CheckpointError(
                f"{self.path / name} cannot be written: {error}. The checkpoints before it are kept."
            ) from error
