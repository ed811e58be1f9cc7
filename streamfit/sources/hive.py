"""Keys in the names of folders, ``year=2024/month=2/part.parquet``, as columns of the files below."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import xxhash
from pyarrow import fs

from streamfit.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["FolderKeys", "describe_keys", "folder_keys"]


class FolderKeys:
    """What the folders of some files say about their rows.

    Parameters
    ----------
    schema : pyarrow.Schema
        Names and types of the keys.
    values : sequence of dict
        For each file, its values by key; None where the folder says that there is none.
    """

    def __init__(self, schema: Any, values: Sequence[dict[str, Any]]) -> None:
        self.schema = schema
        self.values = values

    @property
    def names(self) -> list[str]:
        """Names of the keys, from the outer folder to the inner one."""
        return list(self.schema.names)

    def column(self, file: int, name: str, n_rows: int) -> Any:
        """Give the column of a key for rows of one file."""
        return pa.repeat(pa.scalar(self.values[file][name], self.schema.field(name).type), n_rows)


def folder_keys(files: Sequence[Path], base: Path | None) -> FolderKeys:
    """Read the keys of files below a folder, by the rules of pyarrow: whole numbers of 32 bits, else texts.

    Parameters
    ----------
    files : sequence of Path
        The files.
    base : Path or None
        The folder that was named; what is above it says nothing. None: there are no keys.

    Raises
    ------
    InvalidDataError
        A file lacks a key that others have.
    """
    below = [] if base is None else [file.relative_to(base).parent.parts for file in files]
    if not any("=" in part for parts in below for part in parts):
        return FolderKeys(pa.schema([]), [{} for _ in files])
    hive = ds.partitioning(flavor="hive")
    found = ds.FileSystemDatasetFactory(
        fs.LocalFileSystem(),
        [str(file) for file in files],
        ds.ParquetFileFormat(),
        ds.FileSystemFactoryOptions(partition_base_dir=str(base), partitioning=hive),
    )
    # The last one is that of the keys alone: whether a file has a column of that name is told by who reads it.
    schema = found.inspect_schemas()[-1]
    data = found.finish(schema)
    by_path = {fragment.path: ds.get_partition_keys(fragment.partition_expression) for fragment in data.get_fragments()}
    values = [by_path[str(file)] for file in files]
    for file, parts, keys in zip(files, below, values, strict=True):
        given = [part.partition("=")[0] for part in parts if "=" in part]
        for name in schema.names:
            if name not in given:
                raise InvalidDataError(
                    f"The folders of {file.name} have no key {name!r}, which those of other files have. Name the files "
                    "that belong together.",
                    column=name,
                )
            keys.setdefault(name, None)
    return FolderKeys(schema, values)


def describe_keys(
    described: list[dict[str, Any]], keys: FolderKeys, files: Sequence[Path], base: Path | None
) -> list[dict[str, Any]]:
    """Make the keys a part of what files are known by: the same file under another key has other rows."""
    if base is None or not keys.names:
        return described
    return [
        {
            **entry,
            "name": file.relative_to(base).as_posix(),
            "hash": xxhash.xxh3_64(f"{entry['hash']}{json.dumps(values, sort_keys=True)}".encode()).hexdigest(),
        }
        for entry, file, values in zip(described, files, keys.values, strict=True)
    ]
