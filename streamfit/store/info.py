"""What a store holds, as values for programs, a text for terminals and a table for notebooks."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dask.utils import format_bytes

from streamfit.errors import InvalidParameterError
from streamfit.plan.budget import parse_memory_limit
from streamfit.store.info_layout import Table, as_html, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ArrayInfo", "ColumnInfo", "StoreInfo"]

_SHOWN_COLUMNS = 10
_SHOWN_CLASSES = 20
_SHOWN_FILES = 5


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """One stored array."""

    name: str
    """``"X"``, ``"y"``, ``"sample_weight"`` or ``"ids"``."""
    dtype: str
    """Stored type; of text labels that of their codes."""
    codec: str
    """``"raw"``, ``"blosc-lz4"`` or ``"blosc-lz4-bits"``."""
    decoded_nbytes: int
    """Bytes of the rows, decoded."""
    disk_nbytes: int | None
    """Bytes of the chunk files, a lost one counted as nothing; None for a view or transformed rows: they have none."""

    @property
    def ratio(self) -> float | None:
        """Decoded bytes for one byte on disk; None where there is none."""
        return self.decoded_nbytes / self.disk_nbytes if self.disk_nbytes else None


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """One feature. NaN where it has no finite value."""

    name: str
    """Its name, or its number where columns have no names."""
    minimum: float
    """Smallest finite value."""
    mean: float
    """Mean of the finite values."""
    maximum: float
    """Largest finite value."""
    std: float
    """Standard deviation of the finite values (``ddof=0``)."""
    n_nonfinite: int
    """NaN and infinite values."""


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store or a view of one holds; see `to_json` for programs. Printed, it is a text for people."""

    path: str
    """Folder of the store."""
    view_of: int | None
    """Rows of the store of which this is a view; None for all of a store."""
    transformed_by: str | None
    """Names of the transformers that the rows are read through; None where they are read as they are stored."""
    complete: bool
    """Whether the writer reached the end of its source."""
    n_rows: int
    """Rows; of an incomplete store those that are committed."""
    n_rows_expected: int | None
    """Rows of the source of an incomplete store, where they are known."""
    n_features: int
    """Columns of ``X``."""
    dtype: str
    """Type of ``X``."""
    nonfinite: str
    """``"error"``: NaN and infinities were refused; ``"keep"``: they were kept."""
    chunk_rows: int
    """Rows of a chunk; some chunks may have fewer."""
    n_chunks: int
    """Chunks of each array."""
    arrays: tuple[ArrayInfo, ...]
    """The stored arrays."""
    label_kind: str | None
    """``"classes"``, ``"target"``, ``"outputs"`` where a row has several, or None without labels."""
    n_outputs: int | None
    """Labels of a row, where it has several."""
    label_dtype: str | None
    """Type of the labels, decoded; None without labels."""
    classes: tuple[Any, ...]
    """Distinct labels in the order of `numpy.unique`; empty for a target and without labels."""
    class_counts: tuple[int, ...]
    """Rows of each class."""
    output_classes: tuple[tuple[Any, ...] | None, ...]
    """Of several labels a row, the distinct values of each, None of a target; empty where a row has one or none."""
    columns: tuple[ColumnInfo, ...]
    """Ranges of the features, over exactly these rows; empty where they are sparse."""
    source: Mapping[str, Any]
    """Where the rows came from."""
    appended: tuple[Mapping[str, Any], ...]
    """What was appended to that, in order: ``source`` and ``n_rows``."""
    format_version: int
    """Version of the format; this streamfit reads all up to `streamfit.store.format.FORMAT_VERSION`."""
    digest: str
    """Identity of exactly these rows."""
    nnz: int | None
    """Stored values of a sparse store; None of a dense one and of a view."""
    row_nbytes: int
    """Bytes of one row in memory: features, label, weight and id, decoded; on average where features are sparse."""
    memory_limit: int | None
    """Limit in bytes that the text and the JSON tell about; None without."""

    @property
    def decoded_nbytes(self) -> int:
        """Bytes of all arrays, decoded."""
        return sum(array.decoded_nbytes for array in self.arrays)

    @property
    def disk_nbytes(self) -> int | None:
        """Bytes of all chunk files; None for a view or transformed rows."""
        sizes = [array.disk_nbytes for array in self.arrays if array.disk_nbytes is not None]
        return None if self.arrays and not sizes else sum(sizes)

    @property
    def ratio(self) -> float | None:
        """Decoded bytes for one byte on disk; None where there is none."""
        return self.decoded_nbytes / self.disk_nbytes if self.disk_nbytes else None

    @property
    def n_nonfinite(self) -> int:
        """NaN and infinite values of all columns."""
        return sum(column.n_nonfinite for column in self.columns)

    def rows_that_fit(self, memory_limit: str | float) -> int:
        """Tell how many of these rows, decoded with their labels, weights and ids, fit in so much memory.

        Parameters
        ----------
        memory_limit : int or str
            Bytes, or a text such as ``"2GB"``.

        Returns
        -------
        int
            At most `n_rows`: equal to it where all rows fit.

        Raises
        ------
        InvalidParameterError
            It is no number of bytes.
        """
        limit = parse_memory_limit(memory_limit)
        if limit is None:
            raise InvalidParameterError("memory_limit must be a number of bytes or a text such as '2GB', got None.")
        return min(self.n_rows, limit // self.row_nbytes)

    def to_json(self) -> dict[str, Any]:
        """Give plain values.

        Returns
        -------
        dict
            The fields by name, but for

            - ``arrays``: by name, objects of ``dtype``, ``codec``, ``decoded_nbytes``, ``disk_nbytes`` and ``ratio``;
            - ``labels``: None, or an object of ``kind``, ``n_outputs``, ``dtype``, ``classes``, ``counts`` and
              ``output_classes``;
            - ``columns``: objects of ``name``, ``minimum``, ``mean``, ``maximum``, ``std``, ``n_nonfinite``;
            - ``rows_that_fit``: None without a memory limit, or an object of ``memory_limit``, ``n_rows`` and ``all``;

            and besides ``decoded_nbytes``, ``disk_nbytes``, ``ratio`` and ``n_nonfinite`` over all. Numbers that do not
            exist, such as the mean of a column without a finite value, are NaN, and null as the command prints them.
        """
        values = asdict(self)
        labels = {
            "kind": values.pop("label_kind"),
            "n_outputs": values.pop("n_outputs"),
            "dtype": values.pop("label_dtype"),
            "classes": list(values.pop("classes")),
            "counts": list(values.pop("class_counts")),
            "output_classes": [known and list(known) for known in values.pop("output_classes")],
        }
        arrays = {
            array.pop("name"): {**array, "ratio": info.ratio}
            for array, info in zip(values["arrays"], self.arrays, strict=True)
        }
        limit = values.pop("memory_limit")
        n_fit = None if limit is None else self.rows_that_fit(limit)
        return {
            **values,
            "arrays": arrays,
            "decoded_nbytes": self.decoded_nbytes,
            "disk_nbytes": self.disk_nbytes,
            "ratio": self.ratio,
            "n_nonfinite": self.n_nonfinite,
            "labels": None if self.label_kind is None else labels,
            "rows_that_fit": n_fit
            if n_fit is None
            else {"memory_limit": limit, "n_rows": n_fit, "all": n_fit == self.n_rows},
        }

    # -- for people ----------------------------------------------------------------------------------

    def __str__(self) -> str:
        return as_text(self.path, self._facts(), self._tables())

    def _repr_html_(self) -> str:
        return as_html(self.path, self._facts(), self._tables())

    def _facts(self) -> dict[str, str]:
        facts = {"rows": self._rows_text(), "features": f"{self.n_features:,} of {self.dtype}"}
        if self.nnz is not None and self.n_rows:
            share = self.nnz / (self.n_rows * self.n_features)
            facts["sparse"] = f"{self.nnz:,} stored values, {self.nnz / self.n_rows:,.1f} a row, {share:.3%} of all"
        if self.n_chunks:
            facts["chunks"] = f"{self.n_chunks:,} of {'up to ' * (self.view_of is not None)}{self.chunk_rows:,} rows"
            facts["in memory"] = f"{format_bytes(self.n_rows * self.row_nbytes)}, {self.row_nbytes:,} bytes a row"
        if self.disk_nbytes:
            facts["on disk"] = f"{format_bytes(self.disk_nbytes)}, decoded {self.ratio:.2f} times as many"
        if self.memory_limit is not None:
            n_fit = self.rows_that_fit(self.memory_limit)
            how_many = "all rows fit" if n_fit == self.n_rows else f"{n_fit:,} of {self.n_rows:,} rows fit"
            facts[f"in {format_bytes(self.memory_limit)}"] = how_many
        kept = f"{self.n_nonfinite:,} values, kept"
        facts["not finite"] = kept if self.nonfinite == "keep" else "none, such rows are refused"
        if self.label_kind == "target":
            facts["labels"] = f"a target of {self.label_dtype}"
        elif self.label_kind == "outputs":
            facts["labels"] = f"{self.n_outputs} a row, of {self.label_dtype}{self._outputs_text()}"
        elif self.label_kind is not None:
            facts["classes"] = self._classes_text()
        facts["source"] = _source_text(self.source)
        for part in self.appended:
            facts["appended"] = facts.get("appended", "") + f"{', ' * ('appended' in facts)}{_appended_text(part)}"
        facts["digest"] = f"{self.digest[:16]}, format {self.format_version}"
        return facts

    def _rows_text(self) -> str:
        by = "" if self.transformed_by is None else f", transformed by {self.transformed_by}"
        if self.view_of is not None:
            return f"{self.n_rows:,}, a view of {self.view_of:,}{by}"
        if self.complete:
            return f"{self.n_rows:,}{by}"
        expected = "" if self.n_rows_expected is None else f" of {self.n_rows_expected:,}"
        begun = "" if self.n_rows else "nothing is written yet, "
        return f"{self.n_rows:,}{expected}, INCOMPLETE: {begun}run the same ingest again"

    def _classes_text(self) -> str:
        shown = zip(self.classes[:_SHOWN_CLASSES], self.class_counts, strict=False)
        text = ", ".join(f"{name}: {count:,}" for name, count in shown)
        hidden = len(self.classes) - _SHOWN_CLASSES
        return f"{text}, and {hidden:,} more" if hidden > 0 else text

    def _outputs_text(self) -> str:
        if not any(self.output_classes):
            return ""
        texts = [
            "target" if known is None else f"{len(known):,} class{'es' * (len(known) != 1)}"
            for known in self.output_classes
        ]
        hidden = len(texts) - _SHOWN_CLASSES
        return ": " + ", ".join(texts[:_SHOWN_CLASSES]) + (f", and {hidden:,} more" if hidden > 0 else "")

    def _tables(self) -> list[Table]:
        arrays = [
            (
                array.name,
                array.dtype,
                array.codec,
                format_bytes(array.decoded_nbytes),
                "-" if array.disk_nbytes is None else format_bytes(array.disk_nbytes),
                "-" if array.ratio is None else f"{array.ratio:.2f}",
            )
            for array in self.arrays
        ]
        columns = [
            (
                column.name,
                *(_number(value) for value in (column.minimum, column.mean, column.maximum, column.std)),
                f"{column.n_nonfinite:,}",
            )
            for column in self.columns[:_SHOWN_COLUMNS]
        ]
        hidden = len(self.columns) - _SHOWN_COLUMNS
        tables = [
            Table(("array", "dtype", "codec", "decoded", "on disk", "ratio"), arrays, n_left=3),
            Table(
                ("column", "minimum", "mean", "maximum", "std", "not finite"),
                columns,
                n_left=1,
                note=f"and {hidden:,} more columns" if hidden > 0 else "",
            ),
        ]
        # A sparse store has too many columns for a table.
        return tables[: 1 + bool(self.columns)] if self.n_rows else []


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "-"


def _source_text(source: Mapping[str, Any]) -> str:
    kind = str(source.get("kind", "unknown"))
    files = source.get("files")
    names = [str(file.get("name")) for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    hidden = len(names) - _SHOWN_FILES
    shown = ", ".join(names[:_SHOWN_FILES]) + (f" and {hidden:,} more" if hidden > 0 else "")
    return f"{kind}: {shown}" if shown else kind


def _appended_text(part: Mapping[str, Any]) -> str:
    return f"{part['n_rows']:,} rows of {_source_text(part['source'])}"
