"""How a column of categories became numbers, as a store remembers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ColumnCategories"]


@dataclass(frozen=True, slots=True)
class ColumnCategories:
    """One column of a table, encoded."""

    column: str
    """Name of the column in the source."""
    encode: Literal["codes", "onehot"]
    """A number a row, or a column a category."""
    unknown: Literal["error", "ignore"]
    """What became, and becomes, of a value that is none of the categories, missing ones included: refused, or code
    −1 or no column."""
    categories: tuple[Any, ...]
    """The categories in the order of their codes: texts, whole numbers or booleans."""

    def to_json(self) -> dict[str, Any]:
        """Give plain values for the manifest."""
        return {
            "column": self.column,
            "encode": self.encode,
            "unknown": self.unknown,
            "categories": list(self.categories),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave."""
        return cls(values["column"], values["encode"], values["unknown"], tuple(values["categories"]))
