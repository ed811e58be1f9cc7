"""The file of a model: a sealed archive that says what it holds, by which format and versions.

::

    streamfit.json    format, kind, versions, and what else there is to know as plain values
    schema.json, …    kind "model": an estimator as skops writes it, so that ``skops.io.load`` reads the file too
    name.skops, …     other kinds: their parts
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning

from streamfit.errors import CheckpointError, OtherVersionsWarning
from streamfit.run.codecs import decode_estimator, encode_estimator, packages_of
from streamfit.run.sealed import opened_archive, sealed_archive

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["ModelFile", "model_bytes", "model_file_bytes", "read_model_file"]

_FORMAT = 1
_ABOUT = "streamfit.json"
_ALWAYS = ("streamfit", "scikit-learn", "numpy")
_DISTRIBUTIONS = {"pyod": "pyod", "skorch": "skorch", "torch": "torch"}


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What a file of a model holds."""

    kind: str
    """What it was made of, such as "model"."""
    facts: Mapping[str, Any]
    """What is known of it, as plain values."""
    parts: Mapping[str, bytes]
    """Its parts by name; "model" of the kind "model" is the whole file."""
    versions: Mapping[str, str]
    """Versions of what wrote it."""

    def decode(self, part: str, *, trust: Collection[str]) -> Any:
        """Read an estimator among the parts.

        Raises
        ------
        UntrustedTypesError
            It holds a type that nobody vouches for.
        CheckpointError
            It cannot be read.
        """
        with warnings.catch_warnings():
            # Told of once for the whole file, and of NumPy too.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            return decode_estimator(self.parts[part], trust=trust, like=None)

    def warn_of_versions(self, where: str, *, stacklevel: int) -> None:
        """Warn where versions are others than those that wrote the file."""
        differences = [
            f"{name} {written}, and here is {here or 'none'}"
            for name, written in self.versions.items()
            if (here := _version(name)) != written
        ]
        if differences:
            warnings.warn(
                f"{where} was written with {'; '.join(differences)}. What it holds may predict or learn otherwise, or "
                "not at all. Use the same versions, or save it anew with these.",
                OtherVersionsWarning,
                stacklevel=stacklevel + 1,
            )


def model_bytes(estimator: Any, *, trust: Collection[str]) -> bytes:
    """Write an estimator as the content of a file of its own.

    Raises
    ------
    UnwritableError, UntrustedTypesError
        As `encode_estimator`.
    """
    data = encode_estimator(estimator, trust=trust, complete=True)
    return sealed_archive({_ABOUT: _about("model", {}, packages_of(data))}, base=data)


def model_file_bytes(kind: str, facts: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """Write something that is made of several parts, of which those named ``.skops`` are estimators.

    Raises
    ------
    TypeError
        A fact is no plain value.
    """
    estimators = [data for name, data in parts.items() if name.endswith(".skops")]
    packages = sorted({name for data in estimators for name in packages_of(data)})
    return sealed_archive({_ABOUT: _about(kind, facts, packages), **parts})


def read_model_file(content: bytes, where: str) -> ModelFile:
    """Read the content of a file; nothing in it is run.

    Raises
    ------
    CheckpointError
        It is damaged, no file of a model, or of a later format.
    """
    if _is_of_skops(content):
        raise CheckpointError(f"{where} is a file of skops, and not of sf.save. Read it by skops.io.load.")
    try:
        with opened_archive(content) as archive:
            about = json.loads(archive.read(_ABOUT))
            parts = {name: archive.read(name) for name in archive.namelist() if name != _ABOUT}
            kind = about["kind"]
            if about["format"] > _FORMAT:
                raise CheckpointError(
                    f"{where} has format {about['format']}; this streamfit reads format {_FORMAT}. Use a later one."
                )
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError, NotImplementedError, EOFError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{where} is damaged, or is no file that sf.save wrote: {error}. Save the model again."
        ) from error
    return ModelFile(kind, about["facts"], {"model": content} if kind == "model" else parts, about["versions"])


def _is_of_skops(content: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return False
    # Not by the names alone: of a cut file zipfile finds the end of a part which is an archive itself.
    return "schema.json" in names and _ABOUT.encode() not in content


def _about(kind: str, facts: Mapping[str, Any], packages: Collection[str]) -> str:
    names = (*_ALWAYS, *(_DISTRIBUTIONS[name] for name in packages if name in _DISTRIBUTIONS))
    versions = {name: _version(name) for name in names}
    return json.dumps({"format": _FORMAT, "kind": kind, "versions": versions, "facts": facts}, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is no plain value")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
