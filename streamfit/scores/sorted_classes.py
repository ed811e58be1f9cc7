"""Scores beside labels, sorted block by block with both classes apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamfit.scores.blockwise import per_block
from streamfit.scores.labelled import check_missing, known_rows, labelled
from streamfit.scores.sorting import sort_block, sorting_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from streamfit.maths.sorted_runs import SortedRun
    from streamfit.scores.blockwise import Blocks
    from streamfit.scores.labelled import MissingLabels
    from streamfit.scores.sorting import SortedBlock

    KnownRows = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]]

__all__ = ["class_totals", "n_rows_of", "one_class", "sorted_labelled"]


def sorted_labelled(
    labels: Any, scores: Any, sample_weight: Any, missing: MissingLabels, *, known: KnownRows = known_rows
) -> Blocks:
    """Sort each block of other rows and of anomalies, see `sorted_blocks`; `known` tells which rows count."""
    check_missing(missing)
    checked, truth, weights = labelled(labels, scores, sample_weight)
    arguments = sorting_arguments(checked, truth, weights)
    return per_block(_sort_labelled, checked, truth, weights, arguments=(known, missing, *arguments))


def _sort_labelled(
    scores: NDArray[Any],
    labels: NDArray[Any],
    weights: NDArray[Any] | None,
    start: int,
    known: KnownRows,
    missing: MissingLabels,
    *arguments: Any,
) -> SortedBlock:
    return sort_block(*known(scores, labels, weights, start, missing), start, *arguments)


def class_totals(groups: SortedBlock, weight: str | None) -> tuple[float, float]:
    """Give the rows, or the weight, of other rows and of anomalies."""
    if weight is None:
        return n_rows_of(groups[0]), n_rows_of(groups[1])
    others, anomalies = (sum(float(run.read(0, run.n_values, name=weight).sum()) for run in runs) for runs in groups)
    return others, anomalies


def one_class(groups: SortedBlock) -> str:
    """Say what is missing where a measure needs both classes."""
    others, anomalies = map(n_rows_of, groups)
    if others and anomalies:
        return "The weights of one class add up to 0. Give both classes some weight."
    return (
        f"The labels hold one class only ({anomalies} anomalies, {others} other rows). "
        "Give labels with both, 1 for anomalies and 0 for the rest."
    )


def n_rows_of(runs: Sequence[SortedRun]) -> int:
    """Count the rows of runs."""
    return sum(run.n_values for run in runs)
