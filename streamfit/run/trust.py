"""Which types may be made when a file is read: those that somebody vouches for by name.

A trusted name is more than a type: a file may ask for it to be called with any arguments while it is read. So what is
trusted without the user's word are classes that keep what they are given, each by its own name or by what it is, and
never whole packages.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["is_known", "is_trusted"]

_NAMES = frozenset(
    {
        "numpy.dtype",  # skops reads dtypes and sparse matrices with NumPy's and SciPy's own files
        "scipy.sparse._csr.csr_matrix",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
        *(  # functions that compute and do nothing else
            f"sklearn.feature_selection._univariate_selection.{name}"
            for name in ("chi2", "f_classif", "f_regression", "r_regression")
        ),
        "pyod.models.kpca.PyODKernelPCA",
        "streamfit.run.column_order.ColumnOrder",
        "streamfit.run.net_state.SavedNet",
        "torch.utils.data.dataloader.DataLoader",
        "skorch.dataset.Dataset",
        "skorch.dataset.ValidSplit",
    }
)

_KINDS = (
    (r"sklearn\.neighbors\._(kd|ball)_tree\.\w+", r"sklearn\.neighbors\._(kd|ball)_tree\.BinaryTree(32|64)?"),
    (r"sklearn\.metrics\._dist_metrics\.\w+", r"sklearn\.metrics\._dist_metrics\.DistanceMetric(32|64)?"),
    (r"sklearn(\.\w+)+", r"sklearn\.base\.BaseEstimator"),
    (r"pyod\.models(\.\w+)+", r"pyod\.models\.base\.BaseDetector"),
    (r"skorch(\.\w+)+", r"skorch\.(net\.NeuralNet|callbacks\.base\.Callback)"),
    (r"torch\.nn\.modules(\.\w+)+", r"torch\.nn\.modules\.module\.Module"),
    (r"torch\.optim(\.\w+)+", r"torch\.optim\.optimizer\.Optimizer"),
)
"""Names of classes, and of a class one of which each of them must inherit from."""


def is_trusted(name: str, trust: Collection[str]) -> bool:
    """Whether a full name is among names of types, or lies in a package or module among them.

    Examples
    --------
    >>> is_trusted("mine.models.Tree", ["mine"]), is_trusted("mine.models.Tree", ["mine.models.Tree"])
    (True, True)
    >>> is_trusted("mineral.Tree", ["mine"]), is_trusted("mine.Tree", [])
    (False, False)
    """
    return any(f"{name}.".startswith(f"{trusted.rstrip('.')}.") for trusted in trust)


def is_known(name: str) -> bool:
    """Whether a name is that of a class that streamfit vouches for: of scikit-learn, PyOD, skorch and torch.

    Their modules are imported to see what it is.

    Examples
    --------
    >>> is_known("sklearn.tree._tree.Tree"), is_known("sklearn.multiclass._ConstantPredictor")
    (True, True)
    >>> is_known("sklearn.datasets._base.clear_data_home"), is_known("sklearn.datasets._base.Bunch")
    (False, False)
    """
    if name in _NAMES:
        return True
    parents = [parent for pattern, parent in _KINDS if re.fullmatch(pattern, name)]
    if not parents:
        return False
    kind = _find(name)
    # Defined there, and not merely imported there from elsewhere.
    if not isinstance(kind, type) or _full_name(kind) != name:
        return False
    bases = [_full_name(base) for base in kind.__mro__]
    return any(re.fullmatch(parent, base) for parent in parents for base in bases)


def _find(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except Exception:  # noqa: BLE001  # a module may need what is not installed, and say so in any way
        return None


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
