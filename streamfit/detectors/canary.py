"""Guards the private attributes that a fitted PyOD object must have.

Exact algorithms fill in a PyOD object instead of calling its ``fit``. If a PyOD release adds or renames an
attribute, the object would look fitted and fail later, far from here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from streamfit.errors import UnsupportedError

__all__ = ["check_fitted_attributes"]


@lru_cache(maxsize=64)
def _reference_attributes(detector_class: type, params: tuple[tuple[str, Any], ...]) -> frozenset[str]:
    # Distinct, unordered and finite, which every detector accepts.
    X = np.random.default_rng(0).normal(size=(64, 3))
    return frozenset(vars(detector_class(**dict(params)).fit(X)))


def check_fitted_attributes(detector: Any) -> None:
    """Compare the attributes of a filled-in detector with those that its own ``fit`` sets.

    Parameters
    ----------
    detector : pyod BaseDetector
        Fitted by streamfit.

    Raises
    ------
    UnsupportedError
        The installed PyOD sets attributes that streamfit does not know of.
    """
    detector_class = type(detector)
    params = tuple(sorted(detector.get_params(deep=False).items()))
    missing = _reference_attributes(detector_class, params) - frozenset(vars(detector))
    if missing:
        import pyod

        version = getattr(pyod, "__version__", "of an unknown version")
        raise UnsupportedError(
            f"PyOD {version} gives a fitted {detector_class.__name__} the attributes {sorted(missing)}, which "
            "this streamfit does not fill in. Install the PyOD that streamfit was tested with "
            "(deploy/image/constraints.txt) or use method=sf.BatchWise()."
        )
