"""Labels on their way to disk and back: numbers as they are, texts as codes, classes counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.store.format import stored_dtype
from streamfit.store.label_values import as_label_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["MAX_CLASSES", "LabelEncoder", "LabelInfo"]

MAX_CLASSES = 10_000
"""Most classes that are counted; whole numbers with more distinct values are a target."""


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
            encoder = LabelEncoder()
            for start, block in _with_starts(stored):
                encoder.count_outputs(block, start=start)
            counted = encoder.info_of_outputs(self.dtype)
            pairs = zip(self.outputs, counted.outputs, strict=True)
            return replace(counted, outputs=tuple(whole if whole.kind == "target" else part for whole, part in pairs))
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
    def from_json(cls, values: dict[str, Any]) -> LabelInfo:
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
            tuple(cls.from_json(output) for output in values.get("outputs", ())),
        )


def _with_starts(blocks: Iterable[NDArray[Any]]) -> Iterator[tuple[int, NDArray[Any]]]:
    start = 0
    for block in blocks:
        yield start, block
        start += len(block)


class LabelEncoder:
    """Mutable state of a writer: the type of the labels, the codes of texts, the counts of classes.

    Codes are given when rows arrive; classes are counted when a chunk is written, so `info` tells of
    written rows only.
    """

    def __init__(self) -> None:
        self._dtype: np.dtype[Any] | None = None
        self._codes: dict[str | bytes, int] = {}
        self._counts: dict[Any, int] = {}
        self._first_rows: dict[Any, int] = {}
        self._kind: Literal["classes", "target"] = "classes"
        self._outputs: list[LabelEncoder] = []
        self._n_outputs: int | None = None

    @classmethod
    def restore(cls, info: LabelInfo) -> LabelEncoder:
        """Go on where `info` was taken."""
        encoder = cls()
        encoder._dtype = info.dtype
        if info.kind == "outputs":
            encoder._outputs = [cls.restore(output) for output in info.outputs]
            encoder._n_outputs = len(info.outputs)
            return encoder
        encoder._kind = info.kind
        keys = info.classes.tolist()
        if info.code_order is not None:
            encoder._codes = {keys[position]: code for code, position in enumerate(info.code_order.tolist())}
            keys = [encoder._codes[key] for key in keys]
        encoder._counts = dict(zip(keys, info.counts.tolist(), strict=True))
        encoder._first_rows = dict(zip(keys, info.first_rows.tolist(), strict=True))
        return encoder

    @property
    def is_text(self) -> bool:
        """Whether labels are stored as codes."""
        return self._dtype is not None and self._dtype.kind in "US"

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Type of the labels on disk; known after the first `encode`."""
        if self._dtype is None:
            raise AssertionError("no labels were encoded yet")
        return np.dtype("<i4") if self.is_text else stored_dtype(self._dtype, what="y")

    def encode(self, y: Any, *, start: int) -> NDArray[Any]:
        """Turn labels into what is stored.

        Raises
        ------
        InvalidDataError
            See `as_label_array`; or the type is not that of the rows before, or there are too many texts.
        """
        labels = as_label_array(y, start=start)
        n_outputs = labels.shape[1] if labels.ndim == 2 else None
        if self._dtype is None:
            self._dtype, self._n_outputs = labels.dtype, n_outputs
        if n_outputs != self._n_outputs:
            raise InvalidDataError(
                f"y has {n_outputs or 1} label(s) a row from row {start} on and {self._n_outputs or 1} before. Give as "
                "many for all rows."
            )
        if self.is_text and labels.dtype.kind == self._dtype.kind:
            return self._encode_texts(labels)
        if self.is_text or not np.can_cast(labels.dtype, self._dtype, "safe"):
            raise InvalidDataError(
                f"y has dtype {labels.dtype} from row {start} on and {self._dtype} before. Give one type for all rows."
            )
        return labels.astype(self.stored_dtype, copy=False)

    def _encode_texts(self, labels: NDArray[Any]) -> NDArray[Any]:
        distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        codes = np.empty(len(distinct), dtype=np.int32)
        texts = distinct.tolist()
        for position in np.argsort(first).tolist():
            codes[position] = self._codes.setdefault(texts[position], len(self._codes))
        if len(self._codes) > MAX_CLASSES:
            raise InvalidDataError(f"y has more than {MAX_CLASSES} distinct texts. Give class numbers instead.")
        return codes[inverse]

    def count(self, stored: NDArray[Any], *, start: int) -> None:
        """Count the stored labels of one written chunk whose first row is `start`."""
        if stored.ndim == 2:
            self.count_outputs(stored, start=start)
            return
        if self._kind == "target":
            return
        if stored.dtype.kind == "f" and not (stored == np.trunc(stored)).all():
            self._become_target()
            return
        values, first, counts = np.unique(stored, return_index=True, return_counts=True)
        for value, row, count in zip(values.tolist(), first.tolist(), counts.tolist(), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count
            self._first_rows.setdefault(value, start + row)
        if len(self._counts) > MAX_CLASSES:
            self._become_target()

    def count_outputs(self, stored: NDArray[Any], *, start: int) -> None:
        """Count each column of stored labels, as `count` does one."""
        if not self._outputs:
            self._outputs = [LabelEncoder() for _ in range(stored.shape[1])]
        for output, column in zip(self._outputs, stored.T, strict=True):
            output.count(column, start=start)

    def info_of_outputs(self, dtype: np.dtype[Any]) -> LabelInfo:
        """Describe several labels a row, of which rows were counted."""
        for output in self._outputs:
            output._dtype = dtype  # noqa: SLF001  # its own kind
        # One without a dtype has seen no rows.
        known = [output.info() for output in self._outputs]
        none = np.empty(0, dtype=np.int64)
        return LabelInfo(
            "outputs", dtype, np.empty(0, dtype=dtype), none, none, outputs=tuple(info for info in known if info)
        )

    def _become_target(self) -> None:
        self._kind = "target"
        self._counts.clear()
        self._first_rows.clear()

    def info(self) -> LabelInfo | None:
        """Describe the labels of the written chunks; None before the first."""
        if self._dtype is None:
            return None
        if self._n_outputs is not None:
            return self.info_of_outputs(self._dtype) if self._outputs else None
        keys = sorted(self._counts)
        classes: list[Any] = keys
        order = None
        dtype = self._dtype
        if self.is_text:
            # A code is given when its row arrives, so the last codes may not be written yet.
            texts = {code: text for text, code in self._codes.items() if code in self._counts}
            keys = sorted(texts, key=texts.__getitem__)
            classes = [texts[code] for code in keys]
            order = np.argsort(np.array(keys, dtype=np.int64))
            dtype = np.array(classes, dtype=dtype.kind).dtype
        return LabelInfo(
            self._kind,
            dtype,
            np.array(classes, dtype=dtype),
            np.array([self._counts[key] for key in keys], dtype=np.int64),
            np.array([self._first_rows[key] for key in keys], dtype=np.int64),
            order,
        )
