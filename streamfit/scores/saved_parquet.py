"""Scores as one Parquet file, a row group a block."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from streamfit.errors import InvalidDataError, StoreCorruptError, StoreExistsError
from streamfit.store.part_file import part_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.scores.score_columns import ScoreColumns

__all__ = ["check_parquet_target", "open_parquet", "write_parquet"]

_NOTE = b"streamfit.scores"
"""Key of the metadata by which the file is known."""

_Stamp = tuple[int, int, int]


def check_parquet_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a path where something is.

    Raises
    ------
    StoreExistsError
        Something is there, and it is not to be replaced or is no file.
    """
    if path.is_dir():
        raise StoreExistsError(f"{path} is a folder. Choose another path for the file.")
    if path.exists() and not overwrite:
        raise StoreExistsError(f"{path} exists already. Choose another path or say overwrite=True.")


def write_parquet(columns: ScoreColumns, path: Path) -> None:
    """Write columns ``row``, ``id`` (where there are ids) and the scores with their types.

    Parquet has checksums of pages and none of what says how they are read, so hashes of the values are added.
    """
    hashes: list[list[str]] = []
    lengths: list[int] = []
    fields = [("row", pa.int64())]
    if columns.ids is not None:
        fields.append(("id", pa.from_numpy_dtype(columns.ids.dtype)))
    fields += [(name, pa.from_numpy_dtype(values.dtype)) for name, values in columns.columns.items()]
    schema = pa.schema(fields)
    with (
        part_file(path) as file,
        # Scores and ids hardly repeat, so dictionaries would only cost.
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=False,
            column_encoding={"row": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
        ) as writer,
    ):
        for start, scores, ids in columns.blocks():
            n_rows = len(next(iter(scores.values())))
            arrays = [np.arange(start, start + n_rows, dtype=np.int64), *([] if ids is None else [ids])]
            arrays += list(scores.values())
            table = pa.table([pa.array(np.ascontiguousarray(values)) for values in arrays], schema=schema)
            writer.write_table(table, row_group_size=n_rows)
            lengths.append(n_rows)
            hashes.append([_hash(values) for values in scores.values()])
        note = {
            "columns": {name: values.dtype.str for name, values in columns.columns.items()},
            "mapping": columns.named,
            "lengths": lengths,
            "hashes": hashes,
        }
        writer.add_key_value_metadata({_NOTE: _sealed(note)})


def open_parquet(path: Path) -> dict[str, da.Array] | da.Array:
    """Give the scores of a file, a block a row group.

    Raises
    ------
    InvalidDataError
        It is a Parquet file of something else.
    StoreCorruptError
        It is none, or cut.
    """
    stamp = _stamp(path)
    note = _note(path, stamp)
    lengths = tuple(note["lengths"])
    columns = {}
    for place, (name, descr) in enumerate(note["columns"].items()):
        dtype = np.dtype(descr)
        columns[name] = da.map_blocks(
            _read_group,
            da.arange(len(lengths), chunks=1, dtype=np.int64),
            str(path),
            stamp,
            place,
            dtype=dtype,
            chunks=(lengths,),
            meta=np.empty(0, dtype=dtype),
        )
    return columns if note["mapping"] else next(iter(columns.values()))


def _read_group(group: NDArray[np.int64], path: str, stamp: _Stamp, place: int) -> NDArray[Any]:
    block, note = int(group[0]), _note(path, stamp)
    name = list(note["columns"])[place]
    try:
        with pq.ParquetFile(path, metadata=_metadata(path, stamp), page_checksum_verification=True) as file:
            table = file.read_row_group(block, columns=[name])
        values: NDArray[Any] = np.asarray(table.column(0).to_numpy())
    except (OSError, IndexError, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    if _stamp(path) != stamp:
        raise _replaced(path)
    if (
        values.dtype != np.dtype(note["columns"][name])
        or len(values) != note["lengths"][block]
        or _hash(values) != note["hashes"][block][place]
    ):
        raise _damaged(path, f"the values of {name!r} in row group {block} are not those that were written")
    return values


@lru_cache(maxsize=16)
def _note(path: Path | str, stamp: _Stamp) -> dict[str, Any]:
    """Give what `write_parquet` noted."""
    text = (_metadata(path, stamp).metadata or {}).get(_NOTE)
    if text is None:
        raise InvalidDataError(
            f"{path} was not written by streamfit.scores.save. Read it as a table, such as by pandas.read_parquet."
        )
    seal, _, content = text.partition(b" ")
    if seal != xxhash.xxh3_64_hexdigest(content).encode():
        raise _damaged(path, "what is noted of its scores was altered")
    note: dict[str, Any] = json.loads(content)
    return note


def _sealed(note: dict[str, Any]) -> bytes:
    content = json.dumps(note).encode()
    return b" ".join((xxhash.xxh3_64_hexdigest(content).encode(), content))


def _hash(values: NDArray[Any]) -> str:
    # Of little-endian bytes, as everywhere on disk.
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return xxhash.xxh3_64_hexdigest(little.view(np.uint8).data)


@lru_cache(maxsize=16)
def _metadata(path: Path | str, stamp: _Stamp) -> Any:
    if _stamp(path) != stamp:
        raise _replaced(path)
    try:
        return pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error


def _stamp(path: Path | str) -> _Stamp:
    status = Path(path).stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _replaced(path: Path | str) -> StoreCorruptError:
    return StoreCorruptError(f"{path} was replaced since its scores were opened. Open them again.")


def _damaged(path: Path | str, why: Exception | str) -> StoreCorruptError:
    return StoreCorruptError(f"{path} is damaged or no Parquet file ({why}). Save the scores again.")
