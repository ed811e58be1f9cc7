"""Fitted transformers as a mapping of rows that travels in tasks."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from streamfit.errors import CheckpointError, InvalidDataError, InvalidParameterError, UnsupportedError
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
    work_row_nbytes: int
    """Bytes that the result and what is between take for one row."""
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
            The rows. Some are read where the transformer refuses made-up ones.
        transformer : transformer
            With ``transform``: fitted, or without a state.

        Raises
        ------
        InvalidParameterError
            It is no transformer, or it is not fitted.
        InvalidDataError
            The rows are not those that it was fitted on, or it gives no matrix of numbers.
        UnsupportedError
            It gives sparse rows, or it cannot be told from another one.
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
            work_row_nbytes=_work_row_nbytes(probe) + (0 if earlier is None else earlier.work_row_nbytes),
            digest=_digest((*kept, *added)),
        )

    def after(self, earlier: RowMapping | None) -> TransformerChain:
        """Give the part behind `earlier`, with which this chain begins."""
        if not isinstance(earlier, TransformerChain):
            return self
        rest = self.transformers[len(earlier.transformers) :]
        return replace(self, transformers=rest, digest=_digest(rest))

    @one_blas_thread()  # with more threads, sums depend on their number
    def apply(self, X: Any, *, start: int) -> NDArray[Any]:
        """Transform some rows; see `streamfit.store.transformed.RowMapping.apply`."""
        n_rows, link, given = X.shape[0], None, X
        try:
            for link in self.transformers:  # the one that refuses is named
                given = link.transform(as_it_was_fitted(link, given))
        except ValueError as error:
            raise InvalidDataError(
                f"{type(link).__name__} refuses the rows {start} to {start + n_rows - 1}: {error}"
            ) from error
        values = np.asarray(given)
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
        return values


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


def _probe(links: Sequence[Any], reader: Reader, name: str) -> list[NDArray[Any]]:
    """Give two rows, and what the transformers make of them one after the other, the last as an array."""
    # Ones are in the range of logarithms and quotients, where zeros are not.
    made_up: Any = np.ones((2, reader.layout.n_features), dtype=reader.dtype)
    if reader.is_sparse:
        made_up = csr_array(made_up)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about rows that nobody has
        try:
            given = _stages(links, made_up)
        except NotFittedError as error:
            raise InvalidParameterError(f"{name} is not fitted: {error}") from error
        except ValueError:
            # Such as a category that no row has. Where real rows are refused too, their error is the one to tell.
            try:
                given = _stages(links, reader.take("X", [0, 0]))
            except ValueError as error:
                raise InvalidDataError(
                    f"{name} refuses the first row of {reader.layout.n_features} columns: {error}"
                ) from error
    if issparse(given[-1]):
        raise UnsupportedError(
            f"{name} gives sparse rows. Ask it for dense ones (such as sparse_output=False), or add a transformer that "
            "makes dense ones of them."
        )
    given[-1] = np.asarray(given[-1])
    if given[-1].ndim != 2 or len(given[-1]) != 2 or given[-1].shape[1] == 0:
        raise InvalidDataError(
            f"{name} makes {given[-1].shape} of 2 rows. A matrix with as many rows and at least 1 column is needed."
        )
    return given


def _stages(links: Sequence[Any], X: Any) -> list[Any]:
    given = [X]
    for link in links:
        given.append(link.transform(as_it_was_fitted(link, given[-1].copy())))
    return given


def _work_row_nbytes(given: Sequence[Any]) -> int:
    """Bytes of what is there at once for one row: what goes into a transformer, what comes out, and a copy of that."""
    sizes = [_nbytes(rows) // 2 for rows in given]
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
