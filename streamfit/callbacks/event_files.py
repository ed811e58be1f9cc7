"""The files that TensorBoard reads: framed protocol buffers, written and read without TensorFlow.

A folder is a run; its files are read in the order of their names. An event is framed by its length and by checksums
(CRC-32C, masked). It has a time, a step and named values, or marks that a run goes on from a step, at which readers
drop what they have seen of that step and later ones. Only what this takes is known here; what other writers put there
is kept as it is.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = [
    "StoredEvent",
    "append_events",
    "begin_event",
    "event_files",
    "new_event_file",
    "read_events",
    "values_event",
]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers
_STRING = 7  # DT_STRING


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event that was read."""

    content: bytes
    """Its bytes."""
    step: int
    """Steps done."""
    tags: frozenset[str]
    """Names of its values."""
    begins: bool
    """Whether the run goes on from this step, so that what came before it, of this step and later ones, is void."""


def event_files(folder: Path) -> list[Path]:
    """Give the files of a run in the order in which they are read."""
    return sorted(folder.glob("*tfevents*"))


def new_event_file(folder: Path) -> Path:
    """Begin a file that is read after those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    before = event_files(folder)
    now = time.time_ns()
    while True:
        path = folder / f"events.out.tfevents.{now}.{socket.gethostname()}.{os.getpid()}"
        if not before or path > before[-1]:
            break
        # The clock was put back, or another machine's goes ahead.
        now = max(now, _number_of(before[-1])) + 1
    with path.open("xb") as file:
        file.write(_framed(_fixed64(1, time.time()) + _bytes(3, b"brain.Event:2")))
    return path


def append_events(path: Path, events: Iterable[bytes]) -> None:
    """Add events to the end of a file, so that they outlive this process from here on."""
    content = b"".join(map(_framed, events))
    with path.open("ab") as file:
        file.write(content)


def read_events(files: Iterable[Path]) -> Iterator[StoredEvent]:
    """Give the events of some files; the rest of a file is passed over from where one was written in part."""
    for path in files:
        content = path.read_bytes()
        start = 0
        while start + 12 <= len(content):
            (length,) = struct.unpack_from("<Q", content, start)
            event = content[start + 12 : start + 12 + length]
            start += 16 + length
            if start > len(content) or struct.unpack_from("<I", content, start - 4)[0] != _masked_crc(event):
                break
            yield _stored(event)


def values_event(step: int, wall_time: float, values: Mapping[str, float | str]) -> bytes:
    """Make an event of scalars, kept as float32, and of texts in Markdown, by name."""
    summary = b"".join(_bytes(1, _value(tag, value)) for tag, value in values.items())
    return _fixed64(1, wall_time) + _varint(2, step) + _bytes(5, summary)


def begin_event(step: int, wall_time: float) -> bytes:
    """Make the mark that a run goes on: what lies before it in the files, of this step and later ones, is void."""
    return _fixed64(1, wall_time) + _varint(2, step) + _bytes(7, _varint(1, 1))  # session_log { status: START }


def _number_of(path: Path) -> int:
    digits = path.name.partition("tfevents.")[2].partition(".")[0]
    # The names of other writers have seconds, which sort as the same time in nanoseconds does.
    return int(digits.ljust(19, "9")) if digits.isdecimal() else 0


# -- framing ---------------------------------------------------------------------------------------


def _masked_crc(content: bytes) -> int:
    import google_crc32c

    crc = int(google_crc32c.value(content))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _framed(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + struct.pack("<I", _masked_crc(length)) + event + struct.pack("<I", _masked_crc(event))


def _value(tag: str, value: float | str) -> bytes:
    if not isinstance(value, str):
        return _bytes(1, tag.encode()) + _key(2, _FIXED32) + struct.pack("<f", ctypes.c_float(value).value)
    metadata = _bytes(1, _bytes(1, b"text"))  # plugin_data { plugin_name }
    return (
        _bytes(1, tag.encode())
        + _bytes(9, metadata)
        + _bytes(8, _varint(1, _STRING) + _bytes(2, b"") + _bytes(8, value.encode()))  # a scalar: its shape is empty
    )


def _stored(event: bytes) -> StoredEvent:
    step, begins = 0, False
    tags: list[str] = []
    for number, content in _fields(event):
        if number == 2:
            step = int.from_bytes(content, "little")
        elif number == 5:
            tags += [dict(_fields(value)).get(1, b"").decode() for _, value in _fields(content)]
        elif number == 7:
            begins = (1, b"\x01") in _fields(content)
    return StoredEvent(event, step, frozenset(tags), begins)


# -- protocol buffers --------------------------------------------------------------------------------


def _key(number: int, wire_type: int) -> bytes:
    return bytes([number << 3 | wire_type])


def _integer(value: int) -> bytes:
    coded = bytearray()
    while value > 0x7F:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*coded, value])


def _varint(number: int, value: int) -> bytes:
    return _key(number, _VARINT) + _integer(value)


def _fixed64(number: int, value: float) -> bytes:
    return _key(number, _FIXED64) + struct.pack("<d", value)


def _bytes(number: int, value: bytes) -> bytes:
    return _key(number, _BYTES) + _integer(len(value)) + value


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the fields of a message with their content; whole numbers as little-endian bytes."""
    position = 0

    def integer() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(message):
        key = integer()
        if key & 7 == _VARINT:
            value = integer()
            yield key >> 3, value.to_bytes(max(1, (value.bit_length() + 7) // 8), "little")
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(key & 7)
        length = integer() if length is None else length
        yield key >> 3, message[position : position + length]
        position += length
