"""What is known about the chunks that are written: checksums, statistics, classes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

from streamfit.store.label_encoder import LabelEncoder
from streamfit.store.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamfit.store.format import ArraySpec
    from streamfit.store.manifest import Manifest

__all__ = ["WrittenChunks"]


class WrittenChunks:
    """Grows by one chunk at a time, and gives the manifest of what it has seen.

    Parameters
    ----------
    manifest : Manifest
        Gives what does not change while rows are added.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._blank = manifest
        self.n_chunks = 0
        self.arrays: dict[str, ArraySpec] = {}
        self.labels = LabelEncoder()
        self._checksums: dict[str, list[str]] = {}
        self._statistics = None if manifest.sparse else Statistics.empty(manifest.n_features)
        self._nnz: list[int] = []

    @classmethod
    def restore(cls, blank: Manifest, stored: Manifest) -> Self:
        """Know what `stored` tells of its whole chunks."""
        written = cls(blank)
        written.n_chunks, n_tail = divmod(stored.n_rows, stored.chunk_rows)
        written.arrays = dict(stored.arrays)
        written._checksums = {name: list(sums[: written.n_chunks]) for name, sums in stored.checksums.items()}
        written._nnz = list(stored.nnz[: written.n_chunks])
        statistics, labels = stored.statistics, stored.labels
        if n_tail:
            statistics = None if blank.sparse else stored.whole_statistics or Statistics.empty(blank.n_features)
            labels = stored.whole_labels
        written._statistics = statistics
        if labels is not None:
            written.labels = LabelEncoder.restore(labels)
        return written

    @property
    def n_rows(self) -> int:
        """Rows of the whole chunks."""
        return self.n_chunks * self._blank.chunk_rows

    def add(self, chunk: Mapping[str, Any], statistics: Statistics | None, checksums: Mapping[str, str]) -> None:
        """Take the next chunk, once it is in its files. A sparse one has no statistics."""
        if "y" in chunk:
            self.labels.count(chunk["y"], start=self.n_rows)
        if self._statistics is None or statistics is None:
            self._nnz.append(chunk["X"].nnz)
        else:
            self._statistics = self._statistics.merge(statistics)
        for name, value in checksums.items():
            self._checksums.setdefault(name, []).append(value)
        self.n_chunks += 1

    def manifest(self, *, n_rows: int, complete: bool) -> Manifest:
        """Give the manifest of the chunks so far, of which `n_rows` rows count."""
        return dataclasses.replace(
            self._blank,
            n_rows=n_rows,
            complete=complete,
            statistics=self._statistics,
            nnz=tuple(self._nnz),
            labels=self.labels.info() if "y" in self.arrays else None,
            arrays=dict(self.arrays),
            checksums={name: tuple(self._checksums.get(name, ())) for name in self.arrays},
        )
