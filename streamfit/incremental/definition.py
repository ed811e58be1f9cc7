"""What defines a fit: seed, order of the rows, parameters. Two fits that are defined alike are bit-equal."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.errors import InvalidParameterError
from streamfit.incremental.suitability import rows_needed
from streamfit.options import check_count
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.seeds import streams_canary
from streamfit.plan.window import resolve_window
from streamfit.run.correlation import order_correlation
from streamfit.run.described import describe_estimator
from streamfit.store.row_sampling import stored_sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamfit.feature_store import FeatureStore
    from streamfit.incremental.transformers import TransformerMethod
    from streamfit.options import Shuffle, StreamOptions

__all__ = ["define_run", "plan_fit", "resolve_seed"]


def resolve_seed(random_state: Any, earlier: Mapping[str, Any] | None) -> int:
    """Turn a ``random_state`` into the seed of a fit.

    Parameters
    ----------
    random_state : int, RandomState or None
        None takes the seed of the earlier fit, or draws one.
    earlier : mapping or None
        Definition of the run that is gone on with.

    Raises
    ------
    InvalidParameterError
        It is none of these.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0] if earlier is None else earlier["seed"])
    if isinstance(random_state, np.random.RandomState):
        # Drawn from a copy: the same fit gives the same result again.
        return int(deepcopy(random_state).randint(2**31))
    if isinstance(random_state, Integral):
        return check_count("random_state", random_state, least=0)
    raise InvalidParameterError(f"random_state must be an integer, a RandomState or None, got {random_state!r}.")


def plan_fit(
    store: FeatureStore,
    model: Any,
    *,
    batch_size: int,
    n_epochs: int,
    shuffle: Shuffle,
    stream: StreamOptions,
    seed: int,
    memory_limit: int | None,
    earlier: Mapping[str, Any] | None,
) -> EpochPlan:
    """Plan the first epoch of a fit.

    Parameters
    ----------
    store : FeatureStore
        The training rows.
    model : estimator
        The prepared estimator, which may need a number of rows in each batch.
    batch_size, shuffle, stream, seed, memory_limit
        As in `StreamTrainer`.
    n_epochs : int
        Epochs in all: they take memory, and leave the plan as it is.
    earlier : mapping or None
        Definition of the run that is gone on with: its window is taken where none is asked for, since the
        memory limit may have changed and the order must not.

    Raises
    ------
    BudgetError
        The window does not fit `memory_limit`.
    InvalidParameterError
        A parameter is out of its range, or a batch exceeds the window.
    InvalidDataError
        The store has no labels or weights by which rows could be sampled.
    StoreCorruptError
        Labels or weights, by which a default window is chosen or rows are sampled, are damaged.
    """
    window = int(earlier["window_chunks"]) if stream.window is None and earlier is not None else stream.window
    sampling = stored_sampling(replace(store.ref, verify=stream.verify), stream.sampling, layout=store.layout)
    return EpochPlan(
        layout=store.layout,
        batch_size=batch_size,
        seed=seed,
        epoch=0,
        shuffle=shuffle,
        window_chunks=resolve_window(
            store.layout,
            batch_size=batch_size,
            requested=window,
            memory_limit=memory_limit,
            prefetch=stream.prefetch,
            label_nbytes=store.label_nbytes,
            n_epochs=n_epochs,
            correlation=order_correlation(store.reader, shuffle) if window is None else None,
            sampling=sampling,
        ),
        min_batch=max(stream.min_batch, rows_needed(model, store, batch_size)),
        drop_last=stream.drop_last,
        sampling=sampling,
    )


def define_run(
    store: FeatureStore, plan: EpochPlan, model: Any, methods: Sequence[TransformerMethod], *, cached: bool
) -> dict[str, Any]:
    """All that the bits of the result follow from but the number of epochs, as plain values."""
    return {
        # Runs that were begun before this was written down go on with the transformers that they hold.
        "transformers": [f"{method.transformer}: {method.method}" for method in methods],
        # Whole chunks are transformed instead of batches: sums along a row may end in other bits.
        "cached": cached,
        "data": store.digest,
        "numpy_streams": streams_canary(),
        "sampling": None,  # unless the plan tells another one
        **plan.describe(),
        **describe_estimator(model),
    }
