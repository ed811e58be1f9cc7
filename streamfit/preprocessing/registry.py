"""Which transformer has an exact fit, by the path of its class, so that nothing is imported early."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from streamfit.preprocessing.exact_fit import ExactFit

__all__ = ["Entry", "entries", "find"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An exact fit for one class."""

    transformer: str
    """Path of the class, as Python knows it."""
    fit: str
    """Path of the exact fit's class."""
    rung: str
    """Rung of equality with its ``fit`` on all rows in memory."""
    how: str
    """What is streamed, in a few words."""
    keeps_sparse: bool | None = True
    """Whether sparse rows leave it sparse; None where that depends on its parameters."""

    def load(self) -> ExactFit:
        """Import and make the exact fit."""
        module, _, name = self.fit.rpartition(".")
        return cast("ExactFit", getattr(importlib.import_module(module), name)())


_ENTRIES = (
    Entry(
        "sklearn.decomposition._pca.PCA",
        "streamfit.preprocessing.pca.PCAFit",
        "Equal",
        "mean and covariances of all rows",
        keeps_sparse=False,
    ),
    Entry(
        "sklearn.feature_extraction.text.TfidfTransformer",
        "streamfit.preprocessing.text.TfidfTransformerFit",
        "Bit-equal",
        "document frequencies of all rows",
    ),
    Entry(
        "sklearn.feature_selection._variance_threshold.VarianceThreshold",
        "streamfit.preprocessing.selecting.VarianceThresholdFit",
        "Equal",
        "variances and ranges of all rows",
    ),
    Entry(
        "sklearn.impute._base.SimpleImputer",
        "streamfit.preprocessing.imputing.SimpleImputerFit",
        "Equal",
        "means or medians of all rows, without missing values",
    ),
    Entry(
        "sklearn.kernel_approximation.PolynomialCountSketch",
        "streamfit.preprocessing.shape_only.ShapeFit",
        "Bit-equal",
        "nothing: it needs the number of columns alone",
        keeps_sparse=False,
    ),
    Entry(
        "sklearn.kernel_approximation.RBFSampler",
        "streamfit.preprocessing.shape_only.ShapeFit",
        "Bit-equal",
        "nothing: it needs the number of columns alone",
        keeps_sparse=False,
    ),
    Entry(
        "sklearn.kernel_approximation.SkewedChi2Sampler",
        "streamfit.preprocessing.shape_only.ShapeFit",
        "Bit-equal",
        "nothing: it needs the number of columns alone",
        keeps_sparse=False,
    ),
    Entry(
        "sklearn.preprocessing._data.MaxAbsScaler",
        "streamfit.preprocessing.scalers.MaxAbsScalerFit",
        "Bit-equal",
        "smallest and largest values of all rows",
    ),
    Entry(
        "sklearn.preprocessing._data.MinMaxScaler",
        "streamfit.preprocessing.scalers.MinMaxScalerFit",
        "Bit-equal",
        "smallest and largest values of all rows",
    ),
    Entry(
        "sklearn.preprocessing._data.RobustScaler",
        "streamfit.preprocessing.quantiles.RobustScalerFit",
        "Bit-equal",
        "medians and percentiles of all rows, by counts of digits",
    ),
    Entry(
        "sklearn.preprocessing._data.StandardScaler",
        "streamfit.preprocessing.scalers.StandardScalerFit",
        "Equal",
        "means and variances of all rows",
    ),
    Entry(
        "sklearn.preprocessing._polynomial.PolynomialFeatures",
        "streamfit.preprocessing.shape_only.ShapeFit",
        "Bit-equal",
        "nothing: it needs the number of columns alone",
    ),
    Entry(
        "sklearn.random_projection.GaussianRandomProjection",
        "streamfit.preprocessing.shape_only.RandomProjectionFit",
        "Bit-equal",
        "nothing: it needs the shape alone",
        keeps_sparse=False,
    ),
    Entry(
        "sklearn.random_projection.SparseRandomProjection",
        "streamfit.preprocessing.shape_only.RandomProjectionFit",
        "Bit-equal",
        "nothing: it needs the shape alone",
        keeps_sparse=None,
    ),
)


def entries() -> tuple[Entry, ...]:
    """Give all exact fits, sorted by class."""
    return tuple(sorted(_ENTRIES, key=lambda entry: entry.transformer))


def find(transformer: Any) -> Entry | None:
    """Give the exact fit of a transformer, or None. A subclass may learn otherwise: it has none."""
    path = f"{type(transformer).__module__}.{type(transformer).__qualname__}"
    return next((entry for entry in _ENTRIES if entry.transformer == path), None)
