"""What an exact fit of a transformer is, and what all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamfit.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["ExactFit", "column_error", "fit_stand_in", "float_dtype"]


class ExactFit(Protocol):
    """How one class of transformers is fitted by passes over a store.

    The result is that of its own ``fit`` on all rows in memory. Names of columns are not given to it, since rows
    come to it as arrays: the names are those of whoever holds the store.
    """

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:
        """Say which parameter, or which kind of rows, has no exact form, or give None.

        Parameters
        ----------
        transformer : transformer
            As the user made it.
        sparse : bool or None
            Whether the rows that reach it are sparse; None where nobody knows before it is reached.
        """

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes.

        Parameters
        ----------
        transformer : transformer
            Not fitted; it is changed.
        store : FeatureStore
            The rows that reach it.
        memory_limit : int or None
            Limit in bytes.
        engine : Engine or None
            Where passes run; None: the current engine.

        Raises
        ------
        InvalidDataError
            scikit-learn would refuse these rows.
        InvalidParameterError
            scikit-learn would refuse its parameters.
        BudgetError
            `memory_limit` is too small.
        """


def fit_stand_in(transformer: Any, rows: Any) -> None:
    """Let scikit-learn fit a few rows that stand for all, so that it checks parameters and sets what all rows share.

    Raises
    ------
    InvalidParameterError
        It refuses them.
    """
    try:
        transformer.fit(rows)
    except (ValueError, TypeError) as error:
        raise InvalidParameterError(f"{type(transformer).__name__} refuses to be fitted: {error}") from error


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give the type that scikit-learn turns rows into: float32 and float64 stay, integers become float64."""
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


def column_error(transformer: Any, store: FeatureStore, bad: NDArray[Any], what: str) -> InvalidDataError:
    """Make the error for columns with values that a transformer does not take.

    Parameters
    ----------
    transformer : transformer
        Which one refuses.
    store : FeatureStore
        The rows that reach it.
    bad : ndarray of shape (n_features,)
        How many values of each column are refused.
    what : str
        What they are, such as ``"infinite values"``.
    """
    column = int(np.flatnonzero(bad)[0])
    name = store.column_name(column)
    return InvalidDataError(
        f"{type(transformer).__name__} takes no {what}, and column {name!r} of the rows that reach it holds "
        f"{int(bad[column])}. Replace them before, or drop these rows.",
        column=name,
    )
