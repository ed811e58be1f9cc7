"""Estimators as bytes, without arbitrary unpickling: reading a file never runs code that it brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import skops.io
from skops.io.exceptions import UnsupportedTypeException

from streamfit.errors import CheckpointError
from streamfit.run.trust import is_trusted

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["TRUSTED_TYPES", "decode_estimator", "decode_model", "encode_estimator", "encode_model", "refused_types"]

TRUSTED_TYPES = frozenset(
    {
        "numpy.dtype",
        "scipy.sparse._csr.csr_matrix",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    }
)
"""Types that are read besides those that skops trusts by itself (NumPy, SciPy, scikit-learn's estimators).

skops reads dtypes and sparse matrices with NumPy's and SciPy's own files, in which pickles are refused.
"""


def refused_types(data: bytes, *, trust: Collection[str]) -> list[str]:
    """Name the types in an encoded model that nobody vouches for; nothing in it is run for that.

    Parameters
    ----------
    data : bytes
        As `encode_model` gave them.
    trust : collection of str
        Full names of types, or of packages that hold them, that may be made besides those of scikit-learn.

    Returns
    -------
    list of str
        Full names, sorted.
    """
    unknown = set(skops.io.get_untrusted_types(data=data))
    return sorted(name for name in unknown - TRUSTED_TYPES if not is_trusted(name, trust))


def encode_model(model: Any) -> bytes:
    """Write a model in the format of skops.

    Raises
    ------
    UnsupportedTypeException, TypeError
        A type in it cannot be written without pickling.
    """
    data: bytes = skops.io.dumps(model)
    return data


def decode_model(data: bytes) -> Any:
    """Read a model of which `refused_types` has named nothing."""
    return skops.io.loads(data, trusted=sorted(skops.io.get_untrusted_types(data=data)))


def _check_trusted(data: bytes, trust: Collection[str], name: str) -> None:
    refused = refused_types(data, trust=trust)
    if refused:
        raise CheckpointError(
            f"{name} holds types that are not read back without being trusted by name: {', '.join(refused)}. "
            f"If you know them, pass checkpoint=CheckpointOptions(path, trust={tuple(refused)!r})."
        )


def encode_estimator(estimator: Any, *, trust: Collection[str]) -> bytes:
    """Write an estimator so that training can go on bit-equal.

    Parameters
    ----------
    estimator : estimator
        A scikit-learn estimator or pipeline.
    trust : collection of str
        Full names of further types that may be read back, or of packages that hold them.

    Returns
    -------
    bytes
        In the format of skops.

    Raises
    ------
    CheckpointError
        The estimator, or a type inside it, cannot be written without pickling, or could not be read back.
    """
    name = type(estimator).__name__
    try:
        data = encode_model(estimator)
    except (UnsupportedTypeException, TypeError) as error:
        raise CheckpointError(
            f"{name} cannot be written without pickling ({error}). Fit it without checkpoint, or use another "
            "estimator (for Birch: MiniBatchKMeans)."
        ) from error
    # An unreadable checkpoint is found out when it is written, not when it is needed.
    _check_trusted(data, trust, name)
    return data


def decode_estimator(data: bytes, *, trust: Collection[str]) -> Any:
    """Read what `encode_estimator` wrote.

    Raises
    ------
    CheckpointError
        The bytes are damaged, or hold a type that is not trusted.
    """
    try:
        _check_trusted(data, trust, "The checkpoint")
        return decode_model(data)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"The model in the checkpoint cannot be read: {error}") from error
