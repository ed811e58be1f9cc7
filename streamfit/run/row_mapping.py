"""Fitted transformers as a mapping of rows that travels in tasks."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from streamfit.errors import CheckpointError, InvalidDataError, InvalidParameterError, UnsupportedError
from streamfit.maths.csr_rows import canonical_rows
from streamfit.run.blas import one_blas_thread
from streamfit.run.column_order import column_order
from streamfit.run.described import digest_of
from streamfit.run.links import as_it_was_fitted, links_of
from streamfit.store.format import stored_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamfit.store.reader import Reader
    from streamfit.store.transformed import RowMapping

__all__ = ["TransformerChain"]

_SAMPLE_ROWS = 256
"""From which the size of sparse rows is estimated."""


@dataclass(frozen=True, slots=True, eq=False)
class TransformerChain:
    """Fitted transformers, one after the other; known by a hash of all that they hold."""

    transformers: tuple[Any, ...] = field(repr=False)
    """The transformers: copies, so that nobody changes them."""
    name: str
    """What they are called in messages."""
    dtype: np.dtype[Any]
    """Stored type of the result."""
    n_features: int
    """Columns of the result."""
    feature_names: tuple[str, ...] | None = field(repr=False)
    """Names of the columns of the result, where the transformers tell them."""
    mean_row_nnz: float | None
    """Stored values of a row on average, of some rows, where the result is sparse; None where it is dense."""
    work_row_nbytes: int
    """Bytes that the result and what is between take for one row, on average where that is sparse."""
    digest: str = field(repr=False)
    """Hash of what the transformers hold."""

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, TransformerChain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __dask_tokenize__(self) -> Any:
        return type(self).__qualname__, self.digest

    @classmethod
    def over(cls, reader: Reader, transformer: Any) -> TransformerChain:
        """Chain a fitted transformer to the rows of a reader, and to what they are mapped by already.

        Parameters
        ----------
        reader : Reader
            The rows. Some are read where they are sparse or become so, or where the transformer refuses made-up ones.
        transformer : transformer
            With ``transform``: fitted, or without a state.

        Raises
        ------
        InvalidParameterError
            It is no transformer, or it is not fitted.
        InvalidDataError
            The rows are not those that it was fitted on, or it gives no matrix of numbers.
        UnsupportedError
            It cannot be told from another one.
        """
        added = [_checked(link) for link in links_of(copy.deepcopy(transformer))]
        # A table with the same columns in another order means the same rows.
        trained = getattr(added[0], "feature_names_in_", None) if added else None
        order = column_order(reader.feature_names, trained)
        added = added if order is None else [order, *added]
        earlier = reader.ref.mapping
        kept = earlier.transformers if isinstance(earlier, TransformerChain) else ()
        name = type(transformer).__name__
        name = f"{earlier.name}, {name}" if isinstance(earlier, TransformerChain) else name
        probe = _probe(added, reader, name)
        return cls(
            transformers=(*kept, *added),
            name=name,
            dtype=stored_dtype(probe[-1].dtype, what=f"What {name} gives"),
            n_features=probe[-1].shape[1],
            feature_names=_names_out(added, reader.feature_names, probe[-1].shape[1]),
            mean_row_nnz=probe[-1].nnz / probe[-1].shape[0] if issparse(probe[-1]) else None,
            work_row_nbytes=_work_row_nbytes(probe) + (0 if earlier is None else earlier.work_row_nbytes),
            digest=_digest((*kept, *added)),
        )

    @classmethod
    def of(
        cls,
        links: Sequence[Any],
        *,
        name: str,
        dtype: np.dtype[Any],
        n_features: int,
        feature_names: tuple[str, ...] | None,
        mean_row_nnz: float | None,
        work_row_nbytes: int,
    ) -> TransformerChain:
        """Chain transformers of which all is known, as those of a chain that was saved."""
        return cls(
            transformers=tuple(links),
            name=name,
            dtype=dtype,
            n_features=n_features,
            feature_names=feature_names,
            mean_row_nnz=mean_row_nnz,
            work_row_nbytes=work_row_nbytes,
            digest=_digest(links),
        )

    def after(self, earlier: RowMapping | None) -> TransformerChain:
        """Give the part behind `earlier`, with which this chain begins."""
        if not isinstance(earlier, TransformerChain):
            return self
        rest = self.transformers[len(earlier.transformers) :]
        return replace(self, transformers=rest, digest=_digest(rest))

    @one_blas_thread()  # with more threads, sums depend on their number
    def apply(self, X: Any, *, start: int) -> Any:
        """Transform some rows; see `streamfit.store.transformed.RowMapping.apply`."""
        n_rows, link, given = X.shape[0], None, X
        try:
            for link in self.transformers:  # the one that refuses is named
                given = link.transform(as_it_was_fitted(link, given))
        except ValueError as error:
            raise InvalidDataError(
                f"{type(link).__name__} refuses the rows {start} to {start + n_rows - 1}: {error}"
            ) from error
        values = given if self.mean_row_nnz is not None and issparse(given) else _as_array(given)
        if values.shape != (n_rows, self.n_features):
            raise InvalidDataError(
                f"{self.name} makes {values.shape} of {n_rows} rows, and {(n_rows, self.n_features)} is needed: "
                "a row of its own for each row."
            )
        if not np.can_cast(values.dtype, self.dtype, "safe") and values.dtype.kind != "b":
            raise InvalidDataError(
                f"{self.name} gives {values.dtype} for the rows from {start} on, and {self.dtype} for others. "
                "Make it give one type."
            )
        return values if self.mean_row_nnz is None else canonical_rows(values, self.dtype)


def _as_array(rows: Any) -> NDArray[Any]:
    return np.asarray(rows.toarray() if issparse(rows) else rows)


def _checked(link: Any) -> Any:
    name = type(link).__name__
    if isinstance(link, type) or not callable(getattr(link, "transform", None)):
        raise InvalidParameterError(
            f"A transformer with transform is needed, got {link!r}. Use a fitted transformer of scikit-learn, or a "
            "pipeline of them."
        )
    if isinstance(link, BaseEstimator) and hasattr(link, "fit"):
        try:
            check_is_fitted(link)
        except NotFittedError as error:
            raise InvalidParameterError(
                f"{name} is not fitted. Fit it first, such as by StreamTrainer or on some rows in memory."
            ) from error
    return link


def _probe(links: Sequence[Any], reader: Reader, name: str) -> list[Any]:
    """Give some rows, and what the transformers make of them one after the other, the last as an array or sparse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about rows that nobody has
        try:
            given = _made_up_stages(links, reader)
            if given is None or issparse(given[-1]):  # how many values such a row has, made-up ones do not tell
                given = _first_stages(links, reader, name, n_rows=_SAMPLE_ROWS)
        except NotFittedError as error:
            raise InvalidParameterError(f"{name} is not fitted: {error}") from error
        except ValueError:
            # Such as a category that no row has. Where real rows are refused too, their error is the one to tell.
            given = _first_stages(links, reader, name, n_rows=1)
    if not issparse(given[-1]):
        given[-1] = np.asarray(given[-1])
    n_rows = given[0].shape[0]
    if given[-1].ndim != 2 or given[-1].shape[0] != n_rows or given[-1].shape[1] == 0:
        raise InvalidDataError(
            f"{name} makes {given[-1].shape} of {n_rows} rows. A matrix with as many rows and at least 1 column is "
            "needed."
        )
    return given


def _made_up_stages(links: Sequence[Any], reader: Reader) -> list[Any] | None:
    if reader.is_sparse:
        return None
    # Ones are in the range of logarithms and quotients, where zeros are not.
    return _stages(links, np.ones((2, reader.layout.n_features), dtype=reader.dtype))


def _first_stages(links: Sequence[Any], reader: Reader, name: str, *, n_rows: int) -> list[Any]:
    try:
        return _stages(links, reader.take("X", np.arange(min(n_rows, reader.layout.n_rows))))
    except ValueError as error:
        raise InvalidDataError(
            f"{name} refuses the first rows of {reader.layout.n_features} columns: {error}"
        ) from error


def _stages(links: Sequence[Any], X: Any) -> list[Any]:
    given = [X]
    for link in links:
        given.append(link.transform(as_it_was_fitted(link, given[-1].copy())))
    return given


def _work_row_nbytes(given: Sequence[Any]) -> int:
    """Bytes of what is there at once for one row: what goes into a transformer, what comes out, and a copy of that."""
    sizes = [-(-_nbytes(rows) // rows.shape[0]) for rows in given]
    return max((before + 2 * after for before, after in pairwise(sizes)), default=0)


def _nbytes(rows: Any) -> int:
    if issparse(rows):
        return int(rows.nnz) * int(rows.dtype.itemsize + 4)
    return np.asarray(rows).nbytes


def _names_out(links: Sequence[Any], names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Give the names of the columns of the result, where each transformer tells them."""
    known: Any = names
    try:
        for link in links:
            known = link.get_feature_names_out(known)
    except (AttributeError, TypeError, ValueError):
        return None
    if np.ndim(known) != 1 or len(known) != n_features or len(set(known)) != n_features:
        return None
    # scikit-learn makes these up for columns without names.
    if names is None and list(known) == [f"x{column}" for column in range(n_features)]:
        return None
    return tuple(map(str, known))


def _digest(links: Sequence[Any]) -> str:
    try:
        return digest_of(links)
    except CheckpointError as error:
        raise UnsupportedError(
            f"A transformer cannot be told from another one, so its rows would not be known again: {error}"
        ) from error
