"""Labels on their way to disk: their type, the codes of texts, and the counts of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streamfit.errors import InvalidDataError
from streamfit.store.format import stored_dtype
from streamfit.store.label_counts import MAX_CLASSES, LabelCounts, most_classes
from streamfit.store.label_values import as_label_array
from streamfit.store.labels import LabelInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LabelEncoder"]


class LabelEncoder:
    """Mutable state of a writer: the type of the labels, the codes of texts, the counts of classes.

    Codes are given when rows arrive; classes are counted when a chunk is written, so `info` tells of
    written rows only.
    """

    def __init__(self) -> None:
        self._dtype: np.dtype[Any] | None = None
        self._n_outputs: int | None = None
        """Labels of a row where there are several."""
        self._codes: dict[str | bytes, int] = {}
        self._counted: list[LabelCounts] = []
        """Of each label of a row; none before the first rows are counted."""

    @classmethod
    def restore(cls, info: LabelInfo) -> Self:
        """Go on where `info` was taken."""
        encoder = cls()
        encoder._dtype, encoder._n_outputs = info.dtype, info.n_outputs
        outputs = info.outputs or (info,)
        for output in outputs:
            keys = output.classes.tolist()
            if output.code_order is not None:
                encoder._codes = {keys[position]: code for code, position in enumerate(output.code_order.tolist())}
                keys = [encoder._codes[key] for key in keys]
            encoder._counted.append(
                LabelCounts(
                    most_classes(len(outputs)),
                    counts=dict(zip(keys, output.counts.tolist(), strict=True)),
                    first_rows=dict(zip(keys, output.first_rows.tolist(), strict=True)),
                    is_target=output.kind == "target",
                )
            )
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
            See `as_label_array`; or the type, or the number of labels a row, is not that of the rows before, or there
            are too many texts.
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
        columns = list(stored.T) if stored.ndim == 2 else [stored]
        if not self._counted:
            most = most_classes(len(columns))
            self._counted = [LabelCounts.empty(most) for _ in columns]
        for counts, column in zip(self._counted, columns, strict=True):
            counts.add(column, start=start)

    def info(self) -> LabelInfo | None:
        """Describe the labels of the written chunks; None before the first rows were given."""
        if self._dtype is None:
            return None
        if self._n_outputs is not None:
            if not self._counted:
                return None
            return LabelInfo.of_outputs([LabelInfo.of_counts(counts, self._dtype) for counts in self._counted])
        counts = self._counted[0] if self._counted else LabelCounts.empty(MAX_CLASSES)
        return self._info_of_texts(counts) if self.is_text else LabelInfo.of_counts(counts, self._dtype)

    def _info_of_texts(self, counts: LabelCounts) -> LabelInfo:
        # A code is given when its row arrives, so the last codes may not be written yet.
        texts = {code: text for text, code in self._codes.items() if code in counts.counts}
        keys = sorted(texts, key=texts.__getitem__)
        classes = [texts[code] for code in keys]
        kind: Any = "U" if self._dtype is None else self._dtype.kind
        return LabelInfo(
            "classes",
            np.array(classes, dtype=kind).dtype,
            np.array(classes, dtype=kind),
            np.array([counts.counts[key] for key in keys], dtype=np.int64),
            np.array([counts.first_rows[key] for key in keys], dtype=np.int64),
            np.argsort(np.array(keys, dtype=np.int64)),
        )
