"""Guards the private attributes that a fitted PyOD object must have.

Exact algorithms fill in a PyOD object instead of calling its ``fit``. If a PyOD release adds or renames an
attribute, the object would look fitted and fail later, far from here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from streamfit.errors import UnsupportedError

__all__ = ["check_fitted_attributes"]


def check_fitted_attributes(detector: Any) -> None:
    """Compare the attributes of a filled-in detector with those that its own ``fit`` sets on a few rows.

    Parameters
    ----------
    detector : pyod BaseDetector
        Fitted by streamfit.

    Raises
    ------
    UnsupportedError
        The installed PyOD sets attributes that streamfit does not know of.
    """
    few = np.random.default_rng(0).normal(size=(64, 3))
    missing = vars(clone(detector).fit(few)).keys() - vars(detector).keys()
    if missing:
        import pyod

        version = getattr(pyod, "__version__", "of an unknown version")
        raise UnsupportedError(
            f"PyOD {version} gives a fitted {type(detector).__name__} the attributes {sorted(missing)}, which this "
            "streamfit does not fill in. Install the PyOD that streamfit was tested with "
            "(deploy/image/constraints.txt) or use method=sf.BatchWise()."
        )
