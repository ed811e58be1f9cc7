"""Compile with numba on the first call, and keep the machine code where a folder for it is writable."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["compiled"]

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a kernel: compiled when it is first called, without the interpreter's lock.

    Strict IEEE arithmetic in the order of the source: no fast-math, no contraction, so that a sum has the
    same bits wherever it is computed.
    """
    try:
        jitted = numba.njit(function, nogil=True, error_model="numpy", cache=True)
    except RuntimeError:
        # Neither the package's folder nor the user's cache folder is writable.
        jitted = numba.njit(function, nogil=True, error_model="numpy")
    return cast("Callable[P, R]", jitted)
