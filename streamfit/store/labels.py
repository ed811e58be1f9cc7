"""Labels on their way to disk and back: numbers as they are, texts as codes, classes counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from streamfit.store.label_counts import LabelCounts, most_classes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["LabelInfo"]


@dataclass(frozen=True, slots=True, eq=False)
class LabelInfo:
    """What is known about the labels of a store."""

    kind: Literal["classes", "target", "outputs"]
    """Few distinct whole numbers, booleans or texts; a target with any values; or several of these a row."""
    dtype: np.dtype[Any]
    """Type of the labels that a reader gives back."""
    classes: NDArray[Any]
    """Distinct labels in the order of `numpy.unique`, ``(n_classes,)``; empty for a target."""
    counts: NDArray[np.int64]
    """Rows of each class."""
    first_rows: NDArray[np.int64]
    """First row of each class."""
    code_order: NDArray[np.int64] | None = None
    """Texts only: position in `classes` of the class with code 0, 1, …; codes follow the first rows."""
    outputs: tuple[LabelInfo, ...] = ()
    """Of several labels a row, what is known about each; empty where a row has one."""

    @classmethod
    def of_counts(cls, counts: LabelCounts, dtype: np.dtype[Any]) -> Self:
        """Describe labels that are numbers or booleans, of type `dtype`."""
        keys = sorted(counts.counts)
        return cls(
            "target" if counts.is_target else "classes",
            dtype,
            np.array(keys, dtype=dtype),
            np.array([counts.counts[key] for key in keys], dtype=np.int64),
            np.array([counts.first_rows[key] for key in keys], dtype=np.int64),
        )

    @classmethod
    def of_outputs(cls, outputs: Sequence[LabelInfo]) -> Self:
        """Describe several labels a row, of one type."""
        none = np.empty(0, dtype=np.int64)
        dtype = outputs[0].dtype
        return cls("outputs", dtype, np.empty(0, dtype=dtype), none, none, outputs=tuple(outputs))

    @property
    def n_outputs(self) -> int | None:
        """Labels of a row where there are several; None where it has one."""
        return len(self.outputs) or None

    @property
    def row_nbytes(self) -> int:
        """Bytes of the labels of a row, decoded."""
        return self.dtype.itemsize * (self.n_outputs or 1)

    def decode(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Turn stored labels into those that were given."""
        if self.code_order is not None:
            labels: NDArray[Any] = self.classes[self.code_order[stored]]
            return labels
        return stored.view(self.dtype) if self.dtype.kind == "b" else stored

    def positions(self, stored: NDArray[Any]) -> NDArray[np.int64]:
        """Turn stored labels of known classes into positions in `classes`."""
        if self.code_order is not None:
            found: NDArray[np.int64] = self.code_order[stored]
            return found
        return np.searchsorted(self.classes, self.decode(stored))

    def of_part(self, stored: Iterable[NDArray[Any]]) -> LabelInfo:
        """Count the classes of a part of the rows anew; a target stays one.

        Parameters
        ----------
        stored : iterable of ndarray
            Stored labels of the rows, in order, in blocks of any length.
        """
        if self.kind == "target":
            return self
        if self.outputs:
            return self._of_part_of_outputs(stored)
        counts = np.zeros(len(self.classes), dtype=np.int64)
        first_rows = np.full(len(self.classes), -1)
        start = 0
        for block in stored:
            found, first, n_rows = np.unique(self.positions(block), return_index=True, return_counts=True)
            new = found[counts[found] == 0]
            first_rows[new] = start + first[counts[found] == 0]
            counts[found] += n_rows
            start += len(block)
        kept = np.flatnonzero(counts)
        # Codes of classes that are not there have no place.
        places = np.full(len(counts), -1)
        places[kept] = np.arange(len(kept))
        return LabelInfo(
            self.kind,
            self.dtype,
            self.classes[kept],
            counts[kept],
            first_rows[kept],
            None if self.code_order is None else places[self.code_order],
        )

    def _of_part_of_outputs(self, stored: Iterable[NDArray[Any]]) -> LabelInfo:
        most = most_classes(len(self.outputs))
        counted = {
            place: LabelCounts.empty(most) for place, output in enumerate(self.outputs) if output.kind == "classes"
        }
        start = 0
        for block in stored:
            for place, counts in counted.items():
                counts.add(block[:, place], start=start)
            start += len(block)
        return self.of_outputs(
            [
                LabelInfo.of_counts(counted[place], self.dtype) if place in counted else output
                for place, output in enumerate(self.outputs)
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """Give plain values."""
        classes = np.char.decode(self.classes, "latin-1") if self.dtype.kind == "S" else self.classes
        several = {"outputs": [output.to_json() for output in self.outputs]} if self.outputs else {}
        return several | {
            "kind": self.kind,
            "dtype": self.dtype.str,
            "classes": classes.tolist(),
            "counts": self.counts.tolist(),
            "first_rows": self.first_rows.tolist(),
            "code_order": None if self.code_order is None else self.code_order.tolist(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read what `to_json` gave."""
        dtype = np.dtype(values["dtype"])
        classes = values["classes"]
        if dtype.kind == "S":
            classes = [text.encode("latin-1") for text in classes]
        order = values["code_order"]
        return cls(
            values["kind"],
            dtype,
            np.array(classes, dtype=dtype),
            np.array(values["counts"], dtype=np.int64),
            np.array(values["first_rows"], dtype=np.int64),
            None if order is None else np.array(order, dtype=np.int64),
            tuple(LabelInfo.from_json(output) for output in values.get("outputs", ())),
        )
