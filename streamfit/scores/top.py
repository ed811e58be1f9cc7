"""The rows with the highest scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import compute

from streamfit.options import check_count
from streamfit.scores.checked import block_starts, checked_scores, require_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TopK", "top_k"]

_RANKED = np.dtype([("score", np.float64), ("row", np.int64)])
_MERGED_AT_ONCE = 16


@dataclass(frozen=True, slots=True, eq=False)
class TopK:
    """Rows with the highest scores, highest first.

    Of lazy scores it holds two lazy arrays: `compute` runs both in one pass, and so does ``dask.compute``
    of it together with other aggregates.
    """

    rows: Any
    """Global row numbers, int64, ``(k,)``."""
    scores: Any
    """Their scores, float64, ``(k,)``."""

    def compute(self) -> TopK:
        """Give the same with NumPy arrays."""
        computed: tuple[TopK] = compute(self)
        return computed[0]


def top_k(scores: Any, k: int) -> TopK:
    """Find the rows with the `k` highest scores.

    Parameters
    ----------
    scores : dask.array.Array or array-like, (n_rows,)
        Higher is more anomalous.
    k : int
        Rows to give, at least 1; all of them where there are fewer.

    Returns
    -------
    TopK
        Row numbers and scores, highest first; of equal scores the row with the lower number comes first, and
        is kept.

    Raises
    ------
    InvalidDataError
        There is no score, or a score is NaN.
    InvalidParameterError
        `k` is below 1, or no integer.

    Examples
    --------
    >>> top_k([1.0, 3.0, 3.0, 2.0], k=2)
    TopK(rows=array([1, 2]), scores=array([3., 3.]))
    >>> top_k(da.from_array(np.array([1.0, 3.0, 3.0, 2.0]), chunks=3), k=3).compute()
    TopK(rows=array([1, 2, 3]), scores=array([3., 3., 2.]))
    """
    k = check_count("k", k, least=1)
    checked = checked_scores(scores)
    require_rows(checked, purpose="A top")
    k = min(k, checked.shape[0])
    if not isinstance(checked, da.Array):
        top = _sorted_best(_with_rows(checked, np.zeros(1, dtype=np.int64), block_id=(0,)), k=k)
    else:
        meta = np.empty(0, dtype=_RANKED)
        ranked = da.map_blocks(_with_rows, checked, block_starts(checked), dtype=_RANKED, meta=meta)
        top = da.reduction(
            ranked,
            chunk=partial(_best, k=k),
            combine=partial(_best, k=k),
            aggregate=partial(_sorted_best, k=k),
            axis=0,
            keepdims=True,
            output_size=k,
            split_every=_MERGED_AT_ONCE,
            dtype=_RANKED,
            meta=meta,
        )
    return TopK(rows=top["row"], scores=top["score"])


def _with_rows(scores: NDArray[np.float64], starts: NDArray[np.int64], *, block_id: tuple[int]) -> NDArray[Any]:
    ranked = np.empty(len(scores), dtype=_RANKED)
    ranked["score"] = scores
    ranked["row"] = np.arange(len(scores)) + starts[block_id[0]]
    return ranked


def _best(ranked: NDArray[Any], *, k: int, axis: Any = 0, keepdims: bool = True) -> NDArray[Any]:  # noqa: ARG001  # dask's signature
    """Keep the k best, in the order of the rows, which is the order in which dask joins the pieces."""
    surplus = len(ranked) - k
    if surplus <= 0:
        return ranked
    scores = ranked["score"]
    cut = np.partition(scores, surplus)[surplus]
    kept = scores > cut
    tied = np.flatnonzero(scores == cut)
    kept[tied[: k - np.count_nonzero(kept)]] = True
    best: NDArray[Any] = ranked[kept]
    return best


def _sorted_best(ranked: NDArray[Any], *, k: int, axis: Any = 0, keepdims: bool = True) -> NDArray[Any]:
    best = _best(ranked, k=k, axis=axis, keepdims=keepdims)
    return best[np.lexsort((best["row"], -best["score"]))]
