"""``PCA``: the eigenvectors of the covariance matrix of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition._pca import _infer_dimension
from sklearn.utils.extmath import svd_flip

from streamfit.errors import InvalidDataError, InvalidParameterError
from streamfit.maths.summaries.covariance import Covariance, RowScatter
from streamfit.preprocessing.exact_fit import column_error, float_dtype
from streamfit.run.blas import one_blas_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.feature_store import FeatureStore
    from streamfit.run.engine import Engine

__all__ = ["PCAFit"]


class PCAFit:
    """``PCA`` with ``svd_solver="covariance_eigh"``, ``"full"``, or ``"auto"``, which are the same exact answer.

    Where scikit-learn's ``"auto"`` would take the randomized solver, this is what that one approximates. Sums are in
    float64; what is fitted has the type that scikit-learn would give it.
    """

    def refusal(self, transformer: Any, *, sparse: bool | None) -> str | None:
        """Refuse solvers that are approximate, and sparse rows."""
        if sparse:
            return "PCA of sparse rows would make them dense; use TruncatedSVD fitted beforehand"
        if transformer.svd_solver in ("arpack", "randomized"):
            return (
                f"svd_solver={transformer.svd_solver!r} is an approximation that needs all rows at once; use 'auto', "
                "'covariance_eigh' or 'full'"
            )
        return None

    def fit(self, transformer: Any, store: FeatureStore, *, memory_limit: int | None, engine: Engine | None) -> None:
        """Fill in the fitted attributes."""
        n_rows, n_features = store.n_rows, store.n_features
        if n_rows < 2:
            raise InvalidDataError("PCA needs at least 2 rows, and there is 1. Give more rows.")
        n_components = transformer.n_components
        most = min(n_rows, n_features)
        if n_components == "mle" and n_rows < n_features:
            raise InvalidParameterError(
                f"PCA(n_components='mle') needs at least as many rows as columns, and there are {n_rows} rows of "
                f"{n_features} columns. Give a number."
            )
        if n_components is not None and n_components != "mle" and not 0 <= n_components <= most:
            raise InvalidParameterError(
                f"PCA(n_components={n_components}) must be between 0 and min(n_samples, n_features)={most}. Lower it."
            )
        scatter: RowScatter = store.reduce(Covariance(n_features), memory_limit=memory_limit, engine=engine)
        bad = ~np.isfinite(scatter.mean)
        if bad.any():
            raise column_error(transformer, store, bad, "values that are not finite")
        with one_blas_thread():
            spectrum, components = _eigen(scatter)
        dtype = float_dtype(store.dtype)
        if transformer.svd_solver != "covariance_eigh":
            spectrum = spectrum[:most]  # as many singular values as a decomposition of all rows has
        kept = _n_components(n_components, spectrum, most, n_rows)
        singular = np.sqrt(spectrum * (n_rows - 1))
        with np.errstate(invalid="ignore"):
            ratio = spectrum / spectrum.sum()
        transformer.n_features_in_ = n_features
        transformer._fit_svd_solver = "covariance_eigh"  # noqa: SLF001  # see canary
        transformer.mean_ = scatter.mean.astype(dtype)
        transformer.noise_variance_ = dtype.type(spectrum[kept:].mean()) if kept < most else 0.0
        transformer.n_samples_ = n_rows
        transformer.n_components_ = kept
        transformer.components_ = components[:kept].astype(dtype)
        transformer.explained_variance_ = spectrum[:kept].astype(dtype)
        transformer.explained_variance_ratio_ = ratio[:kept].astype(dtype)
        transformer.singular_values_ = singular[:kept].astype(dtype)


def _eigen(scatter: RowScatter) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variances along the components, falling, ``(n_features,)``, and the components as rows."""
    values, vectors = np.linalg.eigh(scatter.scatter / (scatter.count - 1))
    _, components = svd_flip(None, np.ascontiguousarray(vectors.T[::-1]), u_based_decision=False)
    return np.maximum(values[::-1], 0.0), components


def _n_components(n_components: Any, spectrum: NDArray[np.float64], most: int, n_rows: int) -> Any:
    """Resolve a share of the variance, or ``"mle"``, with scikit-learn's own rule."""
    if n_components is None:
        return most
    if n_components == "mle":
        return _infer_dimension(spectrum, n_rows)
    if 0 < n_components < 1.0:
        share = np.cumsum(spectrum / spectrum.sum())
        return np.searchsorted(share, n_components, side="right") + 1
    return n_components
