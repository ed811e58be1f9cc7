"""What a stream or a fit will take, told before it begins: memory by part, steps, time, and how well rows are mixed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dask.utils import format_bytes

from streamfit.store.info_layout import Table, as_html, as_text

if TYPE_CHECKING:
    from streamfit.options import Shuffle
    from streamfit.plan.batch_costs import BatchMemory, EstimatorCost
    from streamfit.plan.shuffle_quality import ShuffleQuality

__all__ = ["FitProjection"]


@dataclass(frozen=True, slots=True)
class FitProjection:
    """What a fit or a stream will take. Printed, it is a table for people; `to_dict` gives plain values.

    Order, steps, window, prefetch and the parts of memory are those of the fit itself. Seconds and the memory of the
    estimator were measured on a few rows in this process, and are as good as that.
    """

    store: str
    """Folder of the store."""
    n_rows: int
    """Rows that an epoch takes."""
    n_features: int
    """Columns, as they are stored."""
    dtype: str
    """Type of the features."""
    batch_size: int
    """Rows of a batch."""
    n_epochs: int
    """Epochs in all."""
    shuffle: Shuffle
    """Order of the rows."""
    n_steps: int
    """Batches in an epoch."""
    n_windows: int
    """Windows in an epoch."""
    window_chunks: int
    """Chunks in a window; the last one may have fewer."""
    window_rows: int
    """Rows of the largest window."""
    window_bound: str
    """Why the window is not larger, in a few words."""
    prefetch: int
    """Windows read ahead."""
    memory: tuple[tuple[str, int], ...]
    """Projected peak of streamfit's own memory: name and bytes of each part."""
    memory_limit: int | None
    """Limit in bytes of that memory; None without one."""
    estimator: EstimatorCost | None
    """What the estimator takes on top; None where there is none."""
    read_seconds: float
    """Projected wall time of reading the rows of an epoch, as quickly as the sampled chunks were read."""
    compute_seconds: float | None
    """Projected wall time of the steps of an epoch; None without an estimator."""
    passes_before: int
    """Passes over all rows before the first step, at the least: one for each transformer that is fitted, and one where
    transformed rows are cached."""
    before_seconds: float
    """Projected wall time of these passes, one after the other on one core."""
    correlation: float | None
    """Intraclass correlation of the labels within chunks; None without labels."""
    quality: ShuffleQuality | None
    """How close an epoch comes to a full shuffle; None without labels."""
    largest_batch_size: int | None
    """Rows of the largest batch that is accepted within `memory_limit`; None without one."""
    largest_batch_size_in_all: int | None
    """Rows of the largest batch for which streamfit and the estimator together stay within `memory_limit`, if that part
    of it is given as ``memory_limit`` which the estimator leaves; None without a limit or an estimator."""
    batch_sizes: tuple[BatchMemory, ...]
    """What batches of some sizes take, ascending."""

    @property
    def own_nbytes(self) -> int:
        """Projected peak of streamfit's own memory in bytes."""
        return sum(nbytes for _, nbytes in self.memory)

    @property
    def estimator_nbytes(self) -> int | None:
        """Measured peak of what the estimator allocates on top, in bytes; None without one."""
        return None if self.estimator is None else self.estimator.nbytes(min(self.batch_size, self.n_rows))

    @property
    def epoch_seconds(self) -> float:
        """Projected wall time of an epoch: the longer of reading and computing with windows read ahead, else both."""
        compute = self.compute_seconds or 0.0
        return max(self.read_seconds, compute) if self.prefetch else self.read_seconds + compute

    @property
    def seconds(self) -> float:
        """Projected wall time in all."""
        return self.before_seconds + self.n_epochs * self.epoch_seconds

    def to_dict(self) -> dict[str, Any]:
        """Give plain values.

        Returns
        -------
        dict
            The fields by name, ``memory`` as an object of bytes by part; and besides ``own_nbytes``,
            ``estimator_nbytes``, ``epoch_seconds`` and ``seconds``.
        """
        values = asdict(self)
        quality = values["quality"]
        if quality is not None and hasattr(quality["lacking_class"], "item"):
            quality["lacking_class"] = quality["lacking_class"].item()
        return {
            **values,
            "memory": dict(self.memory),
            "batch_sizes": [{**asdict(size), "nbytes": size.nbytes} for size in self.batch_sizes],
            "own_nbytes": self.own_nbytes,
            "estimator_nbytes": self.estimator_nbytes,
            "epoch_seconds": self.epoch_seconds,
            "seconds": self.seconds,
        }

    # -- for people ----------------------------------------------------------------------------------

    def __str__(self) -> str:
        return as_text(self._title, _facts_of(self), _tables_of(self))

    def _repr_html_(self) -> str:
        return as_html(self._title, _facts_of(self), _tables_of(self))

    @property
    def _title(self) -> str:
        return self.store if self.estimator is None else f"{self.estimator.name} on {self.store}"


# -- in words -------------------------------------------------------------------------------------


def _facts_of(found: FitProjection) -> dict[str, str]:
    """Give a projection as names and texts."""
    facts = {
        "rows": f"{found.n_rows:,} x {found.n_features:,} of {found.dtype}",
        "steps": f"{found.n_steps:,} an epoch, of {found.batch_size:,} rows; {_times(found.n_epochs, 'epoch')}",
        "windows": f"{found.n_windows:,} an epoch, of {_times(found.window_chunks, 'chunk')} and up to "
        f"{found.window_rows:,} rows ({found.window_bound}); {_times(found.prefetch, 'window')} read ahead",
        "memory": _memory_text(found),
        "time": _time_text(found),
        "order": _order_text(found),
    }
    if found.quality is not None and found.quality.problem is not None:
        facts["warning"] = " ".join(filter(None, (found.quality.problem, found.quality.remedy)))
    if found.largest_batch_size is not None:
        facts["largest batch"] = _largest_text(found)
    return facts


def _times(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _memory_text(found: FitProjection) -> str:
    limit = "no memory_limit" if found.memory_limit is None else f"memory_limit is {format_bytes(found.memory_limit)}"
    text = f"up to {format_bytes(found.own_nbytes)} of streamfit's own, {limit}"
    if found.estimator is None or found.estimator_nbytes is None:
        return text
    return f"{text}; about {format_bytes(found.estimator_nbytes)} of {found.estimator.name} on top"


def _time_text(found: FitProjection) -> str:
    text = f"about {_seconds(found.seconds)}"
    if found.n_epochs > 1:
        text += f", {_seconds(found.epoch_seconds)} an epoch"
    if found.compute_seconds is not None:
        how = "at the same time" if found.prefetch else "one after the other"
        text += f": reading {_seconds(found.read_seconds)} and computing {_seconds(found.compute_seconds)}, {how}"
    if found.passes_before:
        text += f"; transformers take about {_seconds(found.before_seconds)} of it, by {found.passes_before:,} "
        text += f"pass{'es' * (found.passes_before > 1)} over all rows or more"
    return text


def _order_text(found: FitProjection) -> str:
    kept = found.shuffle == "none"
    if found.quality is None:
        return "as stored" if kept else "shuffled in windows; without labels nothing is known about how well"
    quality, text = found.quality, "as stored" if kept else "shuffled in windows"
    text += f"; labels within chunks correlate by {found.correlation:.3g}"
    text += f", the mean of a batch varies {quality.batch_variance:.3g} times as much as after a full shuffle"
    if not kept:
        text += f", that of a window {quality.remaining_drift:.3g} times"
    return text


def _largest_text(found: FitProjection) -> str:
    text = f"{found.largest_batch_size:,} rows within memory_limit"
    if found.estimator is None or found.largest_batch_size_in_all is None:
        return text
    if found.largest_batch_size_in_all == 0:
        return f"{text}, which leaves no room for {found.estimator.name} beside it"
    left = (found.memory_limit or 0) - found.estimator.nbytes(found.largest_batch_size_in_all)
    return (
        f"{text}; {found.largest_batch_size_in_all:,} with {found.estimator.name} inside it too, by memory_limit={left}"
    )


def _seconds(seconds: float) -> str:
    """Give a time in the unit that suits it."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _tables_of(found: FitProjection) -> list[Table]:
    """Give memory by part and by batch size as tables."""
    parts = [(name, format_bytes(nbytes)) for name, nbytes in found.memory]
    parts.append(("together", format_bytes(found.own_nbytes)))
    if found.estimator is not None and found.estimator_nbytes is not None:
        parts.append((f"{found.estimator.name}, measured", format_bytes(found.estimator_nbytes)))
    name = "estimator" if found.estimator is None else found.estimator.name
    heading = ["batch size", "window", "ahead", "streamfit", *([name, "together"] if found.estimator else []), ""]
    rows = [_row(size) for size in found.batch_sizes]
    return [Table(("memory", "bytes"), parts, n_left=1), Table(heading, rows, n_left=0)]


def _row(size: BatchMemory) -> list[str]:
    estimator = (
        [] if size.estimator_nbytes is None else [format_bytes(size.estimator_nbytes), format_bytes(size.nbytes)]
    )
    refused = "" if size.fits else "refused"
    return [
        f"{size.batch_size:,}",
        f"{size.window_chunks:,}",
        f"{size.prefetch:,}",
        format_bytes(size.own_nbytes),
        *estimator,
        refused,
    ]
