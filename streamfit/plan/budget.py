"""Memory projected before anything runs, and refused with numbers where it does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dask.utils import format_bytes, parse_bytes

from streamfit.errors import BudgetError, InvalidParameterError

if TYPE_CHECKING:
    from streamfit.plan.layout import StoreLayout
    from streamfit.plan.sampling import RowSampling

__all__ = [
    "FIXED_NBYTES",
    "Budget",
    "parse_memory_limit",
    "stream_budget",
    "tasks_that_fit",
]

FIXED_NBYTES = 48 * 2**20
"""What threads, an event loop and the allocator's slack were seen to take, whatever the data."""
_SMALL_NBYTES = 2**20
"""Below this a part is taken to be in the fixed one, so that it moves no window."""

_DRAWN_NBYTES = 40
"""What making the order of a sampled window was seen to take for each row that is drawn, at the most."""
_SAMPLED_NBYTES = 24
"""And for each row that it is drawn from."""


def parse_memory_limit(limit: str | float | None) -> int | None:
    """Turn ``"2GB"`` into bytes; None stays None.

    Examples
    --------
    >>> parse_memory_limit("2GB"), parse_memory_limit(512), parse_memory_limit(None)
    (2000000000, 512, None)
    >>> parse_memory_limit("0")
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: memory_limit must be a number of bytes or a text such as '2GB', got '0'.
    """
    if limit is None:
        return None
    try:
        # True would be a number, and to dask a text without one is 1 of its unit.
        nbytes = 0 if isinstance(limit, bool) or not any(map(str.isdigit, str(limit))) else int(parse_bytes(limit))
    except (ValueError, TypeError, OverflowError, AttributeError):
        nbytes = 0
    if nbytes <= 0:
        raise InvalidParameterError(f"memory_limit must be a number of bytes or a text such as '2GB', got {limit!r}.")
    return nbytes


@dataclass(frozen=True, slots=True)
class Budget:
    """Projected peak of streamfit's own memory, part by part, in bytes."""

    parts: tuple[tuple[str, int], ...]
    """Name and bytes of each part."""

    @property
    def nbytes(self) -> int:
        """Projected peak in bytes."""
        return sum(nbytes for _, nbytes in self.parts)

    def check(self, limit: int | None, remedy: str) -> None:
        """Refuse work that does not fit.

        Raises
        ------
        BudgetError
            The projected peak exceeds `limit`; the message lists the parts and ends with `remedy`.
        """
        if limit is None or self.nbytes <= limit:
            return
        parts = ", ".join(f"{name} {format_bytes(nbytes)}" for name, nbytes in self.parts)
        raise BudgetError(
            f"{format_bytes(self.nbytes)} are needed and memory_limit is {format_bytes(limit)} ({parts}). {remedy}"
        )


def stream_budget(
    layout: StoreLayout,
    *,
    batch_size: int,
    window_chunks: int,
    prefetch: int,
    label_nbytes: int,
    n_epochs: int,
    sampling: RowSampling | None,
) -> Budget:
    """Project the memory of an ordered stream.

    Parameters
    ----------
    layout : StoreLayout
        Geometry of the store.
    batch_size : int
        Rows of a batch.
    window_chunks : int
        Chunks in a window.
    prefetch : int
        Windows read ahead.
    label_nbytes : int
        Bytes of one row's label and weight.
    n_epochs : int
        Epochs that follow each other in one stream: windows are read ahead across their edges.
    sampling : RowSampling or None
        How rows are chosen, where not each comes once: the order of a window may name more rows than it holds.

    Returns
    -------
    Budget
        Windows, row order, batches, the chunks that are being decoded, the order of the chunks where there are
        very many, and a fixed part.
    """
    window_rows = min(window_chunks, layout.n_chunks) * min(layout.chunk_rows, layout.n_rows)
    window_rows = min(window_rows, layout.n_rows)
    row_nbytes = layout.row_nbytes + label_nbytes
    batch_rows = min(batch_size, layout.n_rows)
    n_windows = min(1 + prefetch, n_epochs * -(-layout.n_chunks // window_chunks))
    drawn_rows = window_rows
    sampling_part: tuple[tuple[str, int], ...] = ()
    if sampling is not None:
        drawn_rows = max(window_rows, sampling.most_draws(layout.chunk_sizes, window_chunks))
        # Orders are made by two threads at the most.
        order_nbytes = 2 * (drawn_rows * _DRAWN_NBYTES + window_rows * _SAMPLED_NBYTES)
        sampling_part = ((f"{sampling.name} sampling", sampling.nbytes + order_nbytes),)
    # The order of all chunks in each epoch that is planned, and what it is made with. Usually it is next to nothing.
    order_nbytes = (4 + min(1 + prefetch, n_epochs)) * layout.n_chunks * 8
    chunk_order = (("chunk order", order_nbytes),) if order_nbytes > _SMALL_NBYTES else ()
    return Budget(
        (
            (f"{n_windows} window(s) of {window_chunks} chunks", n_windows * window_rows * row_nbytes),
            # Permutation and row numbers of each window are int64 each, and as much again for the window
            # that was just left and for the shift of each row by its chunk.
            ("row order", (n_windows + 2) * drawn_rows * 16),
            *sampling_part,
            # One in the estimator's hands, one being filled.
            ("2 batches", 2 * batch_rows * (row_nbytes + 8)),
            # Encoded bytes and decoded chunk, for the two chunks that are read at a time.
            ("decoding", 4 * layout.chunk_nbytes + 2 * layout.aside_nbytes),
            *chunk_order,
            ("fixed", FIXED_NBYTES),
        )
    )


def tasks_that_fit(
    *, task_nbytes: int, shared_nbytes: int, n_workers: int, memory_limit: int | None, remedy: str
) -> int:
    """Give the number of tasks that may run at once inside the limit, at least 1.

    Raises
    ------
    BudgetError
        Not even one task fits.
    """
    if memory_limit is None:
        return n_workers
    Budget((("one task", task_nbytes), ("shared", shared_nbytes), ("fixed", FIXED_NBYTES))).check(memory_limit, remedy)
    return max(1, min(n_workers, (memory_limit - shared_nbytes - FIXED_NBYTES) // max(1, task_nbytes)))
