"""What an algorithm is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from streamfit.errors import InvalidDataError
from streamfit.maths.csr_rows import is_sparse
from streamfit.row_map import check_finite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from streamfit.batch import Chunk
    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine
    from streamfit.run.spool import ScoreSpool
    from streamfit.store.scratch import Scratch

__all__ = ["Algorithm", "ExactAlgorithm", "FitContext", "FittedAlgorithm", "Method", "score_chunk"]


@dataclass(frozen=True, slots=True)
class Method:
    """How a detector was fitted, and how close that is to fitting it on all rows in memory."""

    name: Literal["exact", "in_memory", "batch_wise"]
    """``"exact"``: all rows, streamed. ``"in_memory"``: all rows, by PyOD itself. ``"batch_wise"``: an
    ensemble over batches."""
    rung: Literal["Bit-equal", "Equal", "Approximate"]
    """Rung of equality with PyOD fitted on all rows in memory."""
    note: str
    """What else there is to know, in a sentence."""

    def __str__(self) -> str:
        """Give one line for people."""
        return f"{self.name} ({self.rung}): {self.note}"


@dataclass(frozen=True, slots=True)
class FitContext:
    """Where rows come from, where training scores go, and what may be used on the way."""

    store: FeatureStore
    """The training rows."""
    engine: Engine
    """Where passes run."""
    spool: ScoreSpool
    """Takes one training score a row."""
    scratch: Scratch
    """A folder for intermediate results. Whoever needs its files later holds it, for it goes with its holders."""
    memory_limit: int | None
    """Limit in bytes that the user gave, or None."""


class FittedAlgorithm(Protocol):
    """A fitted detector: picklable, and pure when it scores."""

    @property
    def method(self) -> Method:
        """How it was fitted."""

    @property
    def detector(self) -> Any:
        """A fitted PyOD object, or None where its class cannot hold the result at bounded size."""

    @property
    def needs_scratch(self) -> bool:
        """Whether `score` reads files of the scratch folder."""

    @property
    def reads_rows(self) -> bool:
        """Whether `score` reads the training rows."""

    def score(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Score new rows ``(n_rows, n_features)``; a row's score does not depend on the others."""


class Algorithm(Protocol):
    """Fits one kind of detector."""

    def fit(self, detector: Any, context: FitContext) -> FittedAlgorithm:
        """Fit a clone of `detector` to all rows and write their training scores to the spool.

        `detector` is a clone already: it may be changed.
        """


class ExactAlgorithm(Algorithm, Protocol):
    """Fits one kind of detector as if all rows were in memory."""

    def refusal(self, detector: Any) -> str | None:
        """Say which parameter of `detector` has no exact form here, or None if all have one."""


def score_chunk(fitted: FittedAlgorithm, chunk: Chunk) -> NDArray[np.float64]:
    """Score the rows of a chunk; the function that passes over a store are given.

    Raises
    ------
    InvalidDataError
        The rows are sparse; or a value is not finite, as a store may keep it: a lookup would give it the score of some
        other value.
    """
    if is_sparse(chunk.X):
        raise InvalidDataError(
            "X is sparse, and the detector was fitted on dense rows. Give X.toarray(), some rows at a time."
        )
    check_finite(chunk.X, chunk.start)
    return fitted.score(chunk.X)
