"""Named groups of options, as values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

from streamfit.errors import InvalidParameterError

__all__ = [
    "BatchWise",
    "Categorical",
    "CategoricalChoice",
    "Exact",
    "Passes",
    "Sampling",
    "Shuffle",
    "StreamOptions",
    "TransformersFitted",
    "VerifyMode",
    "check_choice",
    "check_count",
    "check_flag",
    "check_number",
]

VerifyMode = Literal["always", "first", "never"]
Shuffle = Literal["window", "none"]
Sampling = Literal["stratified", "balanced", "weighted"]
Passes = Literal["full"] | int
TransformersFitted = Literal["before", "online"]
Encoding = Literal["codes", "onehot"]


def check_count(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Give a whole number as an ``int``.

    Raises
    ------
    InvalidParameterError
        It is no whole number, or out of its range.

    Examples
    --------
    >>> check_count("epochs", 3, least=1)
    3
    >>> check_count("epochs", 1.5, least=1)
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: epochs must be an integer of at least 1, got 1.5.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        allowed = f"of at least {least}" if most is None else f"in {least}..{most}"
        raise InvalidParameterError(f"{name} must be an integer {allowed}, got {value!r}.")
    return int(value)


def check_number(name: str, value: Any, *, least: float) -> float:
    """Give a number as a ``float``.

    Raises
    ------
    InvalidParameterError
        It is no number, or below `least`.
    """
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not number >= least:  # nan is not
        raise InvalidParameterError(f"{name} must be a number of at least {least}, got {value!r}.")
    return number


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse what is none of the allowed texts.

    Raises
    ------
    InvalidParameterError
        The message lists them.
    """
    # Not by `in` alone: an array compared with a text is an array.
    if not isinstance(value, str) or value not in allowed:
        *others, last = map(repr, allowed)
        raise InvalidParameterError(f"{name} must be {', '.join(others)} or {last}, got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    InvalidParameterError
        It is something else, however true.
    """
    if not isinstance(value, bool):
        raise InvalidParameterError(f"{name} must be True or False, got {value!r}.")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How rows are streamed to an estimator.

    ``window``, ``min_batch``, ``drop_last`` and ``sampling`` define the order of the rows; ``prefetch`` and
    ``verify`` do not.
    """

    window: int | None = None
    """Chunks that are held in memory and shuffled together; None: chosen by the labels, or 16, at most 256 MiB, fewer
    where an explicit memory limit asks for it; see `FeatureStore.plan`."""
    min_batch: int = 1
    """A last batch with fewer rows than this is merged into the one before."""
    drop_last: bool = False
    """Leave the last batch out if it is short."""
    prefetch: int | None = None
    """Windows read ahead while the model computes; 0 reads in the thread of the model. None: 1, or 0 where an
    explicit memory limit leaves room for one window alone."""
    verify: VerifyMode = "always"
    """Compare checksums at every read, at the first read of each chunk in this process, or never."""
    sampling: Sampling | None = None
    """Which rows an epoch takes. None: each exactly once. ``"stratified"``: so too, and every batch is made up of the
    classes as its window is. ``"balanced"``: of every class an equal number. ``"weighted"``: each in proportion to its
    ``sample_weight``, which the model does not get again. See `FeatureStore.plan`."""

    def __post_init__(self) -> None:
        if self.sampling is not None:
            check_choice("sampling", self.sampling, get_args(Sampling))
        if self.window is not None:
            check_count("window", self.window, least=1)
        check_count("min_batch", self.min_batch, least=1)
        if self.prefetch is not None:
            check_count("prefetch", self.prefetch, least=0)
        check_choice("verify", self.verify, get_args(VerifyMode))
        check_flag("drop_last", self.drop_last)


@dataclass(frozen=True, slots=True)
class Exact:
    """Scores equal to fitting the detector on all rows in memory, or an error where no such way exists."""

    max_hours: float = 24.0
    """Refuse, with the projected time, work that would take longer on this machine."""

    def __post_init__(self) -> None:
        if check_number("max_hours", self.max_hours, least=0) == 0:
            raise InvalidParameterError("max_hours must be above 0, got 0.")


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
            check_count(name, getattr(self, name), least=1)
        check_count("random_state", self.random_state, least=0)
        choices = {
            "score": ("out_of_batch", "in_batch"),
            "calibrate": ("zscore", "rank", "none"),
            "combine": ("mean", "median", "max"),
        }
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)


@dataclass(frozen=True, slots=True)
class Categorical:
    """How a column of categories becomes numbers, for ``streamfit.ingest(..., categorical=)``.

    Examples
    --------
    >>> Categorical("onehot", categories=["red", "green"])
    Categorical(encode='onehot', unknown='error', categories=('red', 'green'))
    >>> Categorical(categories=["red", "red"])
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: categories must be different values, got 'red' twice.
    """

    encode: Encoding = "codes"
    """One column with the place of the category, 0, 1, …; or one column a category, with 1 where the row is of it."""
    unknown: Literal["error", "ignore"] = "error"
    """What becomes of a value that is none of the categories, missing ones included: refused with row and column; or
    the code −1, or 0 in every column."""
    categories: tuple[Any, ...] | None = None
    """The categories in the order of their codes: texts, whole numbers, or booleans. None: those that the column holds,
    sorted, for which the column is read once before."""

    def __post_init__(self) -> None:
        check_choice("encode", self.encode, ("codes", "onehot"))
        check_choice("unknown", self.unknown, ("error", "ignore"))
        if self.categories is None:
            return
        given: Any = self.categories
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise InvalidParameterError(f"categories must be a sequence of values, got {given!r}.")
        values = tuple(_category(value) for value in given)
        object.__setattr__(self, "categories", values)
        if not values:
            raise InvalidParameterError("categories must be at least one value, got none.")
        if len({type(value) for value in values}) > 1:
            raise InvalidParameterError(f"categories must be values of one type, got {values[:3]!r} and others.")
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise InvalidParameterError(f"categories must be different values, got {twice!r} twice.")


CategoricalChoice = Encoding | Categorical | Mapping[str, Encoding | Categorical] | None
"""What ``categorical=`` takes."""


def _category(value: Any) -> str | int | bool:
    """Give a category as JSON holds it."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool) or type(value).__name__ in {"bool", "bool_"}:
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    raise InvalidParameterError(f"categories must be texts, whole numbers or booleans, got {value!r}.")
