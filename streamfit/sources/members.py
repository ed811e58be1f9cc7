"""Which array of a file or group of several is the matrix, and which are labels, weights and ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamfit.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streamfit.sources.source import Names

__all__ = ["choose_matrix", "choose_roles"]

_MOST_TOLD = 20


def choose_matrix(
    shapes: Mapping[str, tuple[int, ...]], names: Names, *, member: str | None, what: str, prefix: str
) -> str:
    """Choose the member that holds the features: the one named, else ``X``, else the only matrix.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
        Shape of each member.
    names : Names
        Members that are used for something else.
    member : str or None
        Name that the caller gave.
    what : str
        What has the members, for messages.
    prefix : str
        What comes before a member's name where the caller names it.

    Raises
    ------
    InvalidParameterError
        There is no such member.
    InvalidDataError
        None is named, and there is not exactly one matrix.

    Examples
    --------
    >>> from streamfit.sources.source import Names
    >>> choose_matrix({"data": (3, 2), "label": (3,)}, Names(), member=None, what="a.npz", prefix="a.npz::")
    'data'
    >>> choose_matrix({"X": (3, 2), "Z": (3, 2)}, Names(), member=None, what="a.npz", prefix="a.npz::")
    'X'
    >>> choose_matrix({"Y": (3, 2), "Z": (3, 2)}, Names(), member=None, what="a.npz", prefix="a.npz::")
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidDataError: a.npz has 2 matrices: Y (3, 2), Z (3, 2). Name one: a.npz::Y.
    """
    if member is not None:
        if member not in shapes:
            raise _lacks(shapes, member, role="X", what=what)
        return member
    if "X" in shapes:
        return "X"
    matrices = [name for name, shape in shapes.items() if len(shape) == 2 and name not in names.roles.values()]
    if len(matrices) == 1:
        return matrices[0]
    if matrices:
        raise InvalidDataError(
            f"{what} has {len(matrices)} matrices: {_told(shapes, matrices)}. Name one: {prefix}{matrices[0]}."
        )
    has = _told(shapes, shapes) or "nothing"
    raise InvalidDataError(f"{what} has no matrix (n_rows, n_features). It has {has}.")


def choose_roles(shapes: Mapping[str, tuple[int, ...]], names: Names, *, n_rows: int, what: str) -> dict[str, str]:
    """Find the members for labels, weights and ids.

    Raises
    ------
    InvalidParameterError
        There is no such member.
    InvalidDataError
        One has not a value for each row.
    """
    if isinstance(names.y, tuple):
        raise InvalidParameterError(
            f"y names the columns {', '.join(names.y)}, and {what} is no table. Name one array of shape "
            "(n_rows, n_outputs)."
        )
    for role, name in names.roles.items():
        if name not in shapes:
            raise _lacks(shapes, name, role=role, what=what)
        if len(shapes[name]) != 1 and not (role == "y" and len(shapes[name]) == 2):
            raise InvalidDataError(f"{role} is {name} of shape {shapes[name]}. Give one value for each row.")
        if shapes[name][0] != n_rows:
            raise InvalidDataError(
                f"{role} has {shapes[name][0]} rows and X has {n_rows}. Give one value for each row."
            )
    return names.roles


def _lacks(shapes: Mapping[str, tuple[int, ...]], member: str, *, role: str, what: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"{what} has no member {member!r} for {role}. It has {_told(shapes, shapes) or 'nothing'}."
    )


def _told(shapes: Mapping[str, tuple[int, ...]], some: Iterable[str]) -> str:
    names = [f"{name} {shapes[name]}" for name in some]
    return ", ".join([*names[:_MOST_TOLD], *(["…"] if len(names) > _MOST_TOLD else [])])
