"""Features, weights and ids on their way to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.maths.csr_rows import canonical_rows, is_sparse, place_of_value
from streamfit.store.format import stored_dtype
from streamfit.store.masks import unmasked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.store.manifest import Manifest

__all__ = ["as_features", "as_ids", "as_weights", "nonfinite_error"]


def as_features(X: Any, manifest: Manifest, *, start: int) -> Any:
    """Check that rows fit a store: its columns, and a type that it holds without loss.

    A sparse store is given CSR rows in their canonical form, whatever comes; a dense one takes no sparse rows.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        The rows.
    manifest : Manifest
        Of the store.
    start : int
        Global number of the first row, for the message.

    Raises
    ------
    InvalidDataError
        They do not fit.
    """
    sparse = is_sparse(X)
    if sparse and not manifest.sparse:
        raise InvalidDataError(
            f"X is sparse from row {start} on and the store is dense. Give dense rows (X.toarray()), or write a store "
            "whose first rows are sparse."
        )
    rows = X if sparse else np.asarray(unmasked(X, what="X", start=start))
    if rows.ndim != 2 or rows.shape[1] != manifest.n_features:
        raise InvalidDataError(
            f"X has shape {rows.shape} from row {start} on. Give {manifest.n_features} columns for each row."
        )
    if not np.can_cast(stored_dtype(rows.dtype, what="X"), manifest.dtype, "safe"):
        wider = np.result_type(rows.dtype, manifest.dtype)
        raise InvalidDataError(
            f"X has dtype {rows.dtype} from row {start} on and the store has {manifest.dtype}, which does not hold "
            f'every such value. Convert the rows, or begin a store with dtype="{wider}".'
        )
    return canonical_rows(rows, manifest.dtype) if manifest.sparse else rows


def nonfinite_error(X: Any, manifest: Manifest, *, start: int) -> InvalidDataError:
    """Name the first value that is not finite in rows that have one."""
    if manifest.sparse:
        row, column = place_of_value(X, int(np.argmin(np.isfinite(X.data))))
    else:
        wrong = ~np.isfinite(X)
        row = int(wrong.any(axis=1).argmax())
        column = int(wrong[row].argmax())
    name = manifest.column_name(column)
    value = "NaN" if np.isnan(X[row, column]) else X[row, column]
    return InvalidDataError(
        f"X has {value} in row {start + row}, column {name}. "
        'Drop or fill such rows; a store keeps them if it is written with nonfinite="keep".',
        row=start + row,
        column=name,
    )


def as_weights(sample_weight: Any, *, start: int) -> NDArray[np.float64]:
    """Turn weights into float64.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,)
        Numbers.
    start : int
        Global number of the first row, for the message.

    Raises
    ------
    InvalidDataError
        There is not one finite number for each row.
    """
    weights = np.asarray(unmasked(sample_weight, what="sample_weight", start=start))
    if weights.ndim != 1 or weights.dtype.kind not in "biuf":
        raise InvalidDataError(
            f"sample_weight is {weights.dtype} of shape {weights.shape}. Give one number for each row."
        )
    weights = weights.astype(np.float64)
    if not np.isfinite(weights).all():
        place = int(np.argmin(np.isfinite(weights)))
        raise InvalidDataError(
            f"The sample_weight of row {start + place} is {weights[place]}. Give finite weights.", row=start + place
        )
    return weights


def as_ids(ids: Any, *, start: int) -> NDArray[np.int64]:
    """Turn ids into int64.

    Parameters
    ----------
    ids : array-like of shape (n_rows,)
        Signed integers.
    start : int
        Global number of the first row, for the message.

    Raises
    ------
    InvalidDataError
        There is not one signed integer for each row.
    """
    numbers = np.asarray(unmasked(ids, what="ids", start=start))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.dtype == np.uint64:
        raise InvalidDataError(
            f"ids is {numbers.dtype} of shape {numbers.shape}. Give one signed integer for each row; leave text ids "
            "out: scores come in the order of the source, by which they are joined to it again."
        )
    return numbers.astype(np.int64)
