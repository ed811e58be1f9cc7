"""What a summary is: a small state over rows that may be built in pieces and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from streamfit.batch import Chunk

__all__ = ["Gathering", "Summary"]

StateT = TypeVar("StateT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Summary(Protocol[StateT, ResultT_co]):
    """A picklable, immutable description of a state over rows.

    The laws, checked for every summary by one contract test: ``empty`` is the identity of ``merge`` (also
    of two empty states), ``merge`` is associative and commutative, updating with all rows equals merging
    the states of any split, a state survives pickling, and its size does not grow with the rows. Where
    sums of floats are involved the laws hold at the rung *Equal*; counts, minima and maxima are
    *Identical*.
    """

    def empty(self) -> StateT:
        """Give the state of no rows."""

    def update(self, state: StateT, chunk: Chunk) -> StateT:
        """Add the rows of one chunk. The given state may be changed and must not be used again."""

    def merge(self, left: StateT, right: StateT) -> StateT:
        """Join the states of two disjoint sets of rows. Neither is changed."""

    def finalize(self, state: StateT) -> ResultT_co:
        """Turn the state of all rows into the result."""

    @property
    def state_nbytes(self) -> int:
        """Upper bound of the size of one state in bytes; a budget counts with it."""


@runtime_checkable
class Gathering(Protocol):
    """A summary whose states hold something of each of their rows besides what `state_nbytes` bounds."""

    @property
    def rows_nbytes(self) -> int:
        """Bytes of that for all rows together, with what is needed to turn it into the result."""
