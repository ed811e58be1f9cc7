"""A fit from its definition to its result: transformers, the cache of what they give, then the epochs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.control import Control
from streamfit.events import Observer
from streamfit.feature_store import FeatureStore
from streamfit.incremental.caching import over_cached_rows
from streamfit.incremental.definition import define_run
from streamfit.incremental.fit_state import FitState, keyed_controls
from streamfit.incremental.fitting import OrderedFit
from streamfit.incremental.partial_fit import links_of
from streamfit.incremental.transformers import OrderedPass, fit_links
from streamfit.run.checkpoint import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streamfit.incremental.defined_fit import DefinedFit
    from streamfit.incremental.fit_state import Checkpoints
    from streamfit.inputs import Cache
    from streamfit.options import StreamOptions
    from streamfit.plan.epoch import EpochPlan
    from streamfit.run.checkpoint import Checkpoint
    from streamfit.run.engine import Engine
    from streamfit.store.scratch import Scratch

__all__ = ["FinishedFit", "run_fit", "run_further"]


@dataclass(frozen=True, slots=True, eq=False)
class FinishedFit:
    """What a fit leaves."""

    state: FitState
    """The model and its history."""
    plan: EpochPlan
    """Order of the first epoch, of cached rows where there were some."""
    callbacks: list[Any]
    """The user's callbacks; those that act on the fit are copies with their state at its end."""


def run_fit(
    defined: DefinedFit,
    store: FeatureStore,
    *,
    evaluate: Callable[[Any], dict[str, float]] | None,
    validate_every_steps: int | None,
    callbacks: Sequence[Any],
    checkpoints: Checkpoints | None,
    found: tuple[dict[str, Any], Checkpoint] | None,
    stream: StreamOptions,
    cache: Cache,
    scratch: Scratch,
    engine: Engine,
) -> FinishedFit:
    """Fit the transformers, or take them back from a checkpoint, and do the epochs that are left.

    Parameters
    ----------
    defined : DefinedFit
        What is to be done.
    store : FeatureStore
        The training rows.
    evaluate : callable or None
        Metrics of a model on the validation rows.
    validate_every_steps : int or None
        Steps of an epoch after which they are measured, besides its end.
    callbacks : sequence of Observer or Control
        The user's.
    checkpoints : Checkpoints or None
        Where the state is written.
    found : tuple of dict and Checkpoint, or None
        The run that is gone on with.
    stream, cache
        As in `StreamTrainer`.
    scratch : Scratch
        Where a cache without a path is written.
    engine : Engine
        Where steps are done.

    Raises
    ------
    CheckpointError, CheckpointMismatchError
        The run cannot be written, or is another one.
    InvalidDataError
        The estimator refuses a batch.
    """
    task, limit = defined.task, defined.task.memory_limit
    controls = keyed_controls([callback for callback in callbacks if isinstance(callback, Control)])
    definition = (
        {}
        if checkpoints is None
        else define_run(store, task.plan, defined.model, defined.methods, cached=defined.cached)
    )
    if checkpoints is not None and found is not None:
        state = checkpoints.restore(found, definition, controls, like=defined.model, n_epochs=task.n_epochs)
    else:
        if checkpoints is not None:
            checkpoints.folder.begin(definition)
        ordered = OrderedPass(
            plan=replace(task.plan, shuffle="none", drop_last=False, sampling=None), prefetch=task.prefetch
        )
        rows = FeatureStore(task.ref)
        state = FitState(
            fit_links(defined.model, rows, defined.methods, ordered=ordered, memory_limit=limit, engine=engine)
        )
    if defined.cached:
        task = over_cached_rows(
            task,
            defined.learner,
            links_of(state.model)[:-1],
            prefetch=stream.prefetch,
            cache=cache,
            scratch=scratch,
        )
    OrderedFit(
        task=task,
        engine=engine,
        evaluate=evaluate,
        validate_every_steps=validate_every_steps,
        controls=controls,
        observers=[callback for callback in callbacks if isinstance(callback, Observer)],
        checkpoints=checkpoints,
        parameters=_told(defined),
    ).run(state)
    copies = iter(controls.values())
    return FinishedFit(state, task.plan, [next(copies) if isinstance(c, Control) else c for c in callbacks])


def run_further(
    defined: DefinedFit,
    *,
    n_epochs_done: int,
    history: Sequence[Mapping[str, Any]],
    observers: Sequence[Observer],
    engine: Engine,
) -> FitState:
    """Train a fitted model for one more epoch, whose order is that of the epoch that would have followed.

    Parameters
    ----------
    defined : DefinedFit
        What is to be done; its model learns on.
    n_epochs_done : int
        Epochs before this one.
    history : sequence of mapping
        What was measured in them.
    observers : sequence of Observer
        Who is told.
    engine : Engine
        Where steps are done.

    Raises
    ------
    InvalidDataError
        The estimator refuses a batch.
    """
    state = FitState(defined.model, position=Position(n_epochs_done, 0), history=[dict(entry) for entry in history])
    OrderedFit(
        task=defined.task,
        engine=engine,
        evaluate=None,
        validate_every_steps=None,
        controls={},
        observers=observers,
        checkpoints=None,
        parameters=_told(defined),
    ).run(state)
    return state


def _told(defined: DefinedFit) -> dict[str, Any]:
    """Give what observers are told of a fit: its parameters as plain values, others by their repr."""
    task, plan = defined.task, defined.task.plan
    told: dict[str, Any] = {
        "estimator": type(links_of(defined.model)[-1]).__name__,
        "epochs": task.n_epochs,
        "batch_size": plan.batch_size,
        "shuffle": plan.shuffle,
        "window_chunks": plan.window_chunks,
        "seed": defined.seed,
        "n_rows": plan.layout.n_rows,
        "n_features": plan.layout.n_features,
        "memory_limit": task.memory_limit,
    }
    parameters = sorted(defined.model.get_params(deep=True).items())
    return told | {f"estimator.{name}": _plain(value) for name, value in parameters}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
