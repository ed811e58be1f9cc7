"""How far a stream has come: a small value that JSON holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamfit.errors import InvalidParameterError, StreamfitError
from streamfit.options import check_count

__all__ = ["StreamState"]


@dataclass(frozen=True, slots=True)
class StreamState:
    """The next step of a stream, and whose stream it is; see `EpochPlan.state`.

    It tells the order of the rows, not which store they are of: keep ``store.digest`` beside it where that may change.

    Examples
    --------
    >>> state = StreamState("1f4e", epoch=2, step=7)
    >>> state.to_dict()
    {'fingerprint': '1f4e', 'epoch': 2, 'step': 7}
    >>> StreamState.from_dict(state.to_dict()) == state
    True
    >>> StreamState.from_dict({"fingerprint": "1f4e", "epoch": 2})
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: This is no state of a stream: step is missing. Give what to_dict() gave.
    """

    fingerprint: str
    """`EpochPlan.fingerprint` of the plan."""
    epoch: int
    """Number of the epoch, counted from 0."""
    step: int
    """The step that comes next in it; the ones before it are done."""
    definition: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """What the fingerprint is made of, so that another plan can be told what differs; may be left out."""

    def __post_init__(self) -> None:
        if not isinstance(self.fingerprint, str):
            raise InvalidParameterError(f"fingerprint must be a text, got {self.fingerprint!r}.")
        for name in ("epoch", "step"):
            object.__setattr__(self, name, check_count(name, getattr(self, name), least=0))
        if self.definition is not None and not isinstance(self.definition, Mapping):
            raise InvalidParameterError(f"definition must be a mapping or None, got {self.definition!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, as ``json.dumps`` takes them."""
        state: dict[str, Any] = {"fingerprint": self.fingerprint, "epoch": self.epoch, "step": self.step}
        return state if self.definition is None else {**state, "definition": dict(self.definition)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StreamState:
        """Read what `to_dict` gave.

        Raises
        ------
        InvalidParameterError
            It is something else.
        """
        wrong = "This is no state of a stream: {}. Give what to_dict() gave."
        if not isinstance(values, Mapping):
            raise InvalidParameterError(wrong.format(f"it is {values!r}"))
        missing = [name for name in ("fingerprint", "epoch", "step") if name not in values]
        if missing:
            raise InvalidParameterError(wrong.format(f"{missing[0]} is missing"))
        try:
            return cls(values["fingerprint"], values["epoch"], values["step"], values.get("definition"))
        except StreamfitError as error:
            raise InvalidParameterError(wrong.format(str(error).rstrip("."))) from error

    def check(self, fingerprint: str, definition: Mapping[str, Any]) -> None:
        """Refuse to go on with another plan.

        Parameters
        ----------
        fingerprint : str
            Of the plan that is to go on.
        definition : mapping
            What that is made of.

        Raises
        ------
        InvalidParameterError
            It has another order. The message names what differs, as far as the state knows.
        """
        known = self.definition or {}
        # Defaults are left out of a definition, so that one side may lack a name.
        names = sorted(known.keys() | definition.keys()) if known else []
        differences = [
            f"{name} was {known.get(name)!r} and is {definition.get(name)!r}"
            for name in names
            if known.get(name) != definition.get(name)
        ]
        if self.fingerprint == fingerprint and not differences:
            return
        told = "; ".join(differences) or f"its fingerprint is {self.fingerprint[:12]}… and not {fingerprint[:12]}…"
        raise InvalidParameterError(
            f"The state is of another plan: {told}. Make the plan of the state again, or begin without a state."
        )
