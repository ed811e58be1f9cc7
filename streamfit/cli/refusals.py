"""What a model refuses, in its own words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamfit.errors import InvalidDataError, StreamfitError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["refusals_of"]


@contextmanager
def refusals_of(model: Any) -> Iterator[None]:
    """Give the model's own words about its parameters or the rows; --debug shows where they come from.

    Raises
    ------
    InvalidDataError
        The model has raised a ``ValueError``.
    """
    try:
        yield
    except ValueError as error:
        if isinstance(error, StreamfitError):
            raise
        raise InvalidDataError(f"{type(model).__name__} refuses these rows or parameters: {error}") from error
