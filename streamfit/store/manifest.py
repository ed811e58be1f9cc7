"""The manifest: the one file that says which rows count, replaced as a whole."""

from __future__ import annotations

import errno
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from streamfit.errors import StoreCorruptError, StoreIncompleteError, StoreNotFoundError, UnsupportedError
from streamfit.maths.csr_rows import csr_nbytes
from streamfit.plan.layout import SparseSize, StoreLayout
from streamfit.store.atomic import write_atomically
from streamfit.store.categories import ColumnCategories
from streamfit.store.format import (
    CODECS,
    FORMAT_VERSION,
    MANIFEST_FILE,
    OWN_FOLDER,
    ArraySpec,
)
from streamfit.store.labels import LabelInfo
from streamfit.store.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

    from streamfit.store.format import Compression

__all__ = ["Manifest", "NonFinite", "commit_manifest", "load_manifest", "read_manifest", "write_manifest"]

NonFinite = Literal["error", "keep"]

_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """Everything that counts about a store. What is on disk besides does not."""

    n_rows: int
    """Committed rows."""
    n_features: int
    """Columns of ``X``."""
    chunk_rows: int
    """Rows of a chunk of every array; only the last chunk may hold fewer."""
    dtype: np.dtype[Any]
    """Type of ``X``."""
    nonfinite: NonFinite
    """Whether NaN and infinities in ``X`` were refused or kept."""
    source: Mapping[str, Any]
    """Where the rows came from, in plain values."""
    statistics: Statistics | None
    """Of the columns of ``X``, over the committed rows; None of a sparse store, which may have millions of columns."""
    complete: bool = False
    """Whether the writer reached the end of its source."""
    n_rows_expected: int | None = None
    """Rows of the source, where they were known beforehand."""
    feature_names: tuple[str, ...] | None = None
    """Names of the columns, where the source had them."""
    labels: LabelInfo | None = None
    """Of ``y``, over the committed rows; None without labels."""
    arrays: Mapping[str, ArraySpec] = field(default_factory=dict)
    """The stored arrays by name; none before the first chunk."""
    checksums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By array, the checksum of each chunk's committed rows: decoded, little-endian, C order."""
    whole_statistics: Statistics | None = None
    """Over whole chunks only, where the last chunk is not whole: an append goes on from here."""
    whole_labels: LabelInfo | None = None
    """As `whole_statistics`, for labels."""
    appended: tuple[Mapping[str, Any], ...] = ()
    """What was appended to the first source, in order: the ``source`` and its ``n_rows``."""
    categories: tuple[ColumnCategories, ...] = ()
    """How columns of categories became numbers; none in a store that does not say."""
    sparse: bool = False
    """Whether ``X`` is stored as CSR parts."""
    nnz: tuple[int, ...] = ()
    """Of a sparse store, the stored values of each chunk's committed rows."""
    compression: Compression = "auto"
    """What its arrays were asked to be compressed by, those that are attached later too."""
    format_version: int = field(init=False)
    """Format in which it is written, the lowest that holds it."""
    extends: str | None = None
    """Digest of the version that this one adds rows or columns to."""
    digest: str = field(init=False)
    """Hash of all the above, as it is written."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "format_version", self._lowest_format())
        object.__setattr__(self, "digest", hashlib.sha256(self.to_bytes()).hexdigest())

    def _lowest_format(self) -> int:
        if any(name != "X" and spec.n_columns is not None for name, spec in self.arrays.items()):
            return 4
        if self.compression == "zstd" or any(spec.codec == "zstd" for spec in self.arrays.values()):
            return 3
        return 2 if self.sparse else 1

    @property
    def layout(self) -> StoreLayout:
        """Geometry of the committed rows."""
        several = self.labels is not None and self.labels.n_outputs is not None
        return StoreLayout(
            self.n_rows,
            self.n_features,
            self.chunk_rows,
            self.dtype.itemsize,
            sparse=self._sparse_size(),
            outputs_nbytes=self.labels.row_nbytes if several and self.labels is not None else 0,
        )

    def _sparse_size(self) -> SparseSize | None:
        if not self.sparse:
            return None
        sizes = [
            csr_nbytes(min(self.chunk_rows, self.n_rows - index * self.chunk_rows), nnz, self.dtype.itemsize)
            for index, nnz in enumerate(self.nnz)
        ]
        return SparseSize(sum(sizes), max(sizes, default=0))

    @property
    def has_sample_weight(self) -> bool:
        """Whether each row has a weight."""
        return "sample_weight" in self.arrays

    @property
    def has_ids(self) -> bool:
        """Whether each row has an id."""
        return "ids" in self.arrays

    @property
    def label_nbytes(self) -> int:
        """Bytes of the label and the weight of one row, decoded."""
        return (0 if self.labels is None else self.labels.row_nbytes) + 8 * self.has_sample_weight

    def column_name(self, column: int) -> str:
        """Name of a column, or its number where the columns have no names."""
        return str(column) if self.feature_names is None else self.feature_names[column]

    def to_bytes(self) -> bytes:
        """Give the manifest as canonical JSON."""
        whole = (self.whole_statistics or self.whole_labels) and {
            "statistics": self.whole_statistics and self.whole_statistics.to_json(),
            "labels": self.whole_labels and self.whole_labels.to_json(),
        }
        values = {
            "format_version": self.format_version,
            "n_rows": self.n_rows,
            "n_features": self.n_features,
            "chunk_rows": self.chunk_rows,
            "dtype": self.dtype.str,
            "nonfinite": self.nonfinite,
            "source": dict(self.source),
            "statistics": self.statistics and self.statistics.to_json(),
            "complete": self.complete,
            "n_rows_expected": self.n_rows_expected,
            "feature_names": self.feature_names,
            "labels": self.labels and self.labels.to_json(),
            "arrays": {
                name: {"dtype": spec.dtype.str, "codec": spec.codec, "folder": spec.folder}
                | ({} if name == "X" or spec.n_columns is None else {"n_columns": spec.n_columns})
                for name, spec in self.arrays.items()
            },
            "checksums": dict(self.checksums),
            "whole": whole,
            "appended": [dict(part) for part in self.appended],
            "extends": self.extends,
        }
        if self.categories:
            values["categories"] = [encoding.to_json() for encoding in self.categories]
        if self.sparse:
            values["sparse"] = {"nnz": self.nnz}
        if self.compression != "auto":
            values["compression"] = self.compression
        return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Manifest:
        """Read what `to_bytes` gave, in this version or an earlier one.

        Raises
        ------
        UnsupportedError
            A later streamfit wrote it in a format that this one would misread.
        """
        import numpy as np

        values = json.loads(content)
        if values["format_version"] > FORMAT_VERSION:
            raise UnsupportedError(
                f"The store has format {values['format_version']}; this streamfit reads formats up to "
                f"{FORMAT_VERSION}. Update streamfit."
            )
        codecs = {array["codec"] for array in values["arrays"].values()}
        if not codecs <= set(CODECS):
            raise UnsupportedError(
                f"The store has the codecs {', '.join(sorted(codecs))}; this streamfit reads {', '.join(CODECS)}. "
                "Update streamfit."
            )
        whole = values["whole"]
        names = values["feature_names"]
        manifest = cls(
            n_rows=values["n_rows"],
            n_features=values["n_features"],
            chunk_rows=values["chunk_rows"],
            dtype=np.dtype(values["dtype"]),
            nonfinite=values["nonfinite"],
            source=values["source"],
            statistics=values["statistics"] and Statistics.from_json(values["statistics"]),
            complete=values["complete"],
            n_rows_expected=values["n_rows_expected"],
            feature_names=None if names is None else tuple(names),
            labels=values["labels"] and LabelInfo.from_json(values["labels"]),
            arrays={
                name: ArraySpec(
                    name=name,
                    dtype=np.dtype(array["dtype"]),
                    n_columns=values["n_features"] if name == "X" else array.get("n_columns"),
                    chunk_rows=values["chunk_rows"],
                    codec=array["codec"],
                    folder=array["folder"],
                    sparse=name == "X" and "sparse" in values,
                )
                for name, array in values["arrays"].items()
            },
            checksums={name: tuple(sums) for name, sums in values["checksums"].items()},
            whole_statistics=whole and whole["statistics"] and Statistics.from_json(whole["statistics"]),
            whole_labels=whole and whole["labels"] and LabelInfo.from_json(whole["labels"]),
            appended=tuple(values["appended"]),
            extends=values["extends"],
            categories=tuple(ColumnCategories.from_json(encoding) for encoding in values.get("categories", ())),
            sparse="sparse" in values,
            nnz=tuple(values["sparse"]["nnz"]) if "sparse" in values else (),
            compression=values.get("compression", "auto"),
        )
        # What an earlier version wrote has fewer keys: its digest is that of its own bytes.
        object.__setattr__(manifest, "format_version", values["format_version"])
        object.__setattr__(manifest, "digest", hashlib.sha256(content).hexdigest())
        return manifest


# The file is JSON too: {"digest":"…","manifest":{…}}, so that a damaged manifest is noticed.
_HEAD = b'{"digest":"%s","manifest":'
_HEAD_LENGTH = len(_HEAD % (b"0" * 64))


def write_manifest(file: Path, manifest: Manifest) -> None:
    """Write a file that holds a manifest and its digest, as a whole."""
    write_atomically(file, _HEAD % manifest.digest.encode() + manifest.to_bytes() + b"}\n")


def read_manifest(file: Path) -> Manifest:
    """Read what `write_manifest` wrote.

    Raises
    ------
    StoreCorruptError
        The file is damaged.
    OSError
        It cannot be read.
    """
    content = file.read_bytes()
    body = content[_HEAD_LENGTH:-2]
    digest = hashlib.sha256(body).hexdigest().encode()
    if content != _HEAD % digest + body + b"}\n":
        raise StoreCorruptError(
            f'The manifest {file} is damaged. Write the store again with if_exists="overwrite", or restore the file.'
        )
    return Manifest.from_bytes(body)


def load_manifest(folder: Path, *, allow_incomplete: bool = False) -> Manifest:
    """Read the manifest of a store.

    Raises
    ------
    StoreNotFoundError
        There is no store.
    StoreIncompleteError
        Its writer has not reached the end, and `allow_incomplete` is False.
    StoreCorruptError
        The manifest is damaged.
    """
    try:
        manifest = read_manifest(folder / OWN_FOLDER / MANIFEST_FILE)
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
        raise StoreNotFoundError(f"There is no store at {folder}. Check the path or run ingest.") from None
    if not (manifest.complete or allow_incomplete):
        expected = manifest.n_rows_expected
        raise StoreIncompleteError(
            f"The store {folder} is incomplete: {manifest.n_rows} of "
            f"{'an unknown number of' if expected is None else expected} rows are written. "
            "Run the same ingest again: it goes on from there."
        )
    return manifest


def commit_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a manifest the one that counts, all at once."""
    write_manifest(folder / OWN_FOLDER / MANIFEST_FILE, manifest)
