"""Models as bytes, without arbitrary unpickling: reading them never runs code that they bring.

An estimator is written in the format of skops, an archive; the state of each net of skorch in it is a further part of
that archive, ``net-0.pt``. Checkpoints, `streamfit.callbacks.ModelCheckpoint`, ``streamfit.save`` and the command line
write models here and nowhere else.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import skops.io

from streamfit.errors import CheckpointError, UntrustedTypesError, UnwritableError
from streamfit.run.net_state import net_bytes, with_nets, without_nets
from streamfit.run.sealed import sealed_archive
from streamfit.run.trust import is_known, is_trusted

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["decode_estimator", "encode_estimator", "packages_of", "untrusted_types"]

_SCHEMA = "schema.json"
_NET = "net-{}.pt"


def untrusted_types(data: bytes, *, trust: Collection[str]) -> list[str]:
    """Name the types in an encoded model that nobody vouches for; nothing in it is run for that.

    Parameters
    ----------
    data : bytes
        As `encode_estimator` gave them.
    trust : collection of str
        Full names of types that may be made besides those that streamfit knows, or of packages that hold them.

    Returns
    -------
    list of str
        Full names, sorted.
    """
    unknown = set(skops.io.get_untrusted_types(data=data))
    return sorted(name for name in unknown if not is_trusted(name, trust) and not is_known(name))


def encode_estimator(estimator: Any, *, trust: Collection[str], complete: bool) -> bytes:
    """Write an estimator so that training can go on bit-equal.

    Parameters
    ----------
    estimator : estimator
        A scikit-learn estimator or pipeline, a PyOD detector, a net of skorch or a pipeline that ends in one.
    trust : collection of str
        Full names of further types that may be read back, or of packages that hold them.
    complete : bool
        Whether nets can be read without the user's object.

    Returns
    -------
    bytes
        In the format of skops.

    Raises
    ------
    UnwritableError
        The estimator, or something inside it, cannot be written without pickling.
    UntrustedTypesError
        It holds types that could not be read back.
    """
    name = type(estimator).__name__
    model, nets = without_nets(estimator, complete=complete)
    states = {_NET.format(number): net_bytes(net) for number, net in enumerate(nets)}
    try:
        data: bytes = skops.io.dumps(model)
        _check_keys(data)
    except Exception as error:
        # skops lets through whatever the parts of a model raise.
        raise UnwritableError(
            f"{name} cannot be written without pickling ({error}). Use another estimator (for Birch: "
            "MiniBatchKMeans); where it must be this one, fit it without checkpoint, and pickle it for machines and "
            "versions that you know."
        ) from error
    # What cannot be read back is found out when it is written, not when it is needed.
    _check_trusted(data, trust, name)
    return sealed_archive(states, base=data) if states else data


def decode_estimator(data: bytes, *, trust: Collection[str], like: Any) -> Any:
    """Read what `encode_estimator` wrote.

    Parameters
    ----------
    data : bytes
        The model.
    trust : collection of str
        Full names of types that may be made besides those that streamfit knows, or of packages that hold them.
    like : estimator or None
        The user's model, unfitted, whose nets are copied and get what was saved; None where the file tells all.

    Raises
    ------
    UntrustedTypesError
        They hold a type that nobody vouches for.
    CheckpointError
        They are damaged.
    """
    try:
        _check_trusted(data, trust, "The file of the model")
        model = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
        return with_nets(model, _states(data), like=like)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"The model cannot be read: {error}") from error


def packages_of(data: bytes) -> set[str]:
    """Name the packages, besides NumPy, SciPy and scikit-learn, that types in an encoded model are of."""
    names = {name.partition(".")[0] for name in skops.io.get_untrusted_types(data=data)}
    return names | ({"skorch", "torch"} if _states(data) else set())


def _check_trusted(data: bytes, trust: Collection[str], name: str) -> None:
    refused = untrusted_types(data, trust=trust)
    if refused:
        raise UntrustedTypesError(
            f"{name} holds types that are not read back without being trusted by name: {', '.join(refused)}. If you "
            f"know them, and where they come from, pass trust={tuple(refused)!r}: to sf.save and sf.load, "
            "CheckpointOptions or ModelCheckpoint.",
            types=refused,
        )


def _check_keys(data: bytes) -> None:
    """Refuse keys of dicts that skops reads back as others: it writes them as text, and makes them of that.

    Raises
    ------
    TypeError
        Such a key is there.
    """

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        node = dict(pairs)
        if len(node) < len(pairs):
            raise TypeError("two keys of a dict are the same as text")
        if node.get("__loader__") == "DictNode":
            kinds = {kind["__class__"] for kind in node["key_types"]["content"]}
            if kinds & {"bool", "bool_", "NoneType"}:
                raise TypeError("a dict has True, False or None among its keys; use 1 and 0, or texts")
        return node

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        json.loads(archive.read(_SCHEMA), object_pairs_hook=checked)


def _states(data: bytes) -> dict[int, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        nets = {number: _NET.format(number) for number in range(len(names)) if _NET.format(number) in names}
        return {number: archive.read(name) for number, name in nets.items()}
