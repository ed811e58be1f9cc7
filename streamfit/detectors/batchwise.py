"""An ensemble of detectors, each fitted on one shuffled batch, for detectors without an exact way.

Each row is scored by members that did not train on it, each member's scores are calibrated by its own
training scores before they are combined, and one threshold holds for all rows. That is the classic loop
``for batch: detector.fit(batch)`` made right as far as it can be; it is not an approximation of the
detector fitted on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import joblib
import numpy as np
from dask.delayed import delayed
from sklearn.base import clone

from streamfit.detectors.algorithm import Method
from streamfit.detectors.members import Member, combine, draw_members
from streamfit.errors import InvalidDataError, StoreNotFoundError
from streamfit.plan.budget import FIXED_NBYTES, stream_budget, tasks_that_fit
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.window import resolve_window
from streamfit.run.blas import one_blas_thread
from streamfit.run.stream import stream_batches
from streamfit.store.lazy import ref_node
from streamfit.store.reader import open_reader

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamfit.batch import Chunk
    from streamfit.detectors.algorithm import FitContext
    from streamfit.options import BatchWise
    from streamfit.run.spool import ScoreSpool
    from streamfit.store.reader import StoreRef
    from streamfit.store.scratch import Scratch

__all__ = ["BatchWiseAlgorithm"]

_DRAW_STEPS = 3
_DRAW_NEW = 4
_DETECTOR_SEEDS = 5
_GROUP_NBYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where one member comes from, and where it lies."""

    number: int
    epoch: int
    step: int
    path: str
    keep: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Ensemble:
    """All that a task needs to fit members or to score rows by them."""

    plans: tuple[EpochPlan, ...]
    slots: tuple[_Slot, ...]
    options: BatchWise

    def load(self, slot: _Slot) -> Member:
        try:
            member: Member = joblib.load(slot.path)
        except FileNotFoundError as error:
            raise StoreNotFoundError(
                f"{slot.path}, a member of this ensemble, is gone. Fit again, and name a scratch folder that stays."
            ) from error
        return member


@dataclass(frozen=True, slots=True)
class _FittedBatchWise:
    ensemble: _Ensemble
    scratch: Scratch  # the members lie there
    detector: None = None
    needs_scratch: bool = True
    reads_rows: bool = False

    @property
    def method(self) -> Method:
        options = self.ensemble.options
        n_members = len(self.ensemble.slots)
        per_row = options.epochs if options.score == "in_batch" else min(options.members_per_row, n_members)
        return Method(
            "batch_wise",
            "Approximate",
            f"{n_members} members on batches of {options.batch_size:,} rows, {options.score}, {options.calibrate}, "
            f"{options.combine} of {per_row} a row.",
        )

    def score(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Score new rows by the same members, so that a row's score does not depend on the others."""
        options, slots = self.ensemble.options, self.ensemble.slots
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(options.random_state, spawn_key=(_DRAW_NEW,))))
        kept = [slot for slot in slots if slot.keep]
        drawn = np.sort(rng.permutation(len(kept))[: options.members_per_row])
        members = (self.ensemble.load(kept[i]) for i in drawn)
        scores = np.stack([member.new_scores(X, options.calibrate) for member in members], axis=1)
        return combine(scores, options.combine)


@dataclass(frozen=True, slots=True)
class BatchWiseAlgorithm:
    """Any PyOD detector, approximately, in bounded memory."""

    options: BatchWise

    def fit(self, detector: Any, context: FitContext) -> _FittedBatchWise:
        """Fit the members, then score each row by those that did not train on it."""
        ensemble = self._plan(context)
        self._fit_members(ensemble, detector, context)
        self._score_rows(ensemble, context)
        return _FittedBatchWise(ensemble, context.scratch)

    def _plan(self, context: FitContext) -> _Ensemble:
        options, layout = self.options, context.store.layout
        batch_size = min(options.batch_size, layout.n_rows)
        window = resolve_window(
            layout,
            batch_size=batch_size,
            requested=None,
            memory_limit=context.memory_limit,
            prefetch=0,
            label_nbytes=0,
            n_epochs=1,
            correlation=None,
            sampling=None,
        )
        plans = tuple(
            EpochPlan(
                layout,
                batch_size=batch_size,
                seed=options.random_state,
                epoch=epoch,
                shuffle="window",
                window_chunks=window,
                # A tail of a few rows cannot stand for the data, and many detectors refuse it.
                min_batch=max(1, batch_size // 2),
            )
            for epoch in range(options.epochs)
        )
        places = [(epoch, step) for epoch, plan in enumerate(plans) for step in range(len(plan))]
        seeds = np.random.SeedSequence(options.random_state, spawn_key=(_DRAW_STEPS,))
        order = np.random.Generator(np.random.PCG64(seeds)).permutation(len(places))
        kept = set(order[: options.max_members].tolist())
        # Scored in its batch, a row needs its own member's training scores: all batches are fitted then.
        fitted = range(len(places)) if options.score == "in_batch" else sorted(kept)
        slots = tuple(
            _Slot(
                number=number,
                epoch=places[place][0],
                step=places[place][1],
                path=str(context.scratch.path / f"member-{number}.joblib"),
                keep=place in kept,
            )
            for number, place in enumerate(fitted)
        )
        return _Ensemble(plans, slots, options)

    def _fit_members(self, ensemble: _Ensemble, detector: Any, context: FitContext) -> None:
        layout = context.store.layout
        plan = ensemble.plans[0]
        stream = stream_budget(
            layout,
            batch_size=plan.batch_size,
            window_chunks=plan.window_chunks,
            prefetch=0,
            label_nbytes=0,
            n_epochs=1,
            sampling=None,
        )
        n_tasks = tasks_that_fit(
            task_nbytes=max(1, stream.nbytes - FIXED_NBYTES),
            shared_nbytes=0,
            n_workers=context.engine.n_workers,
            memory_limit=context.memory_limit,
            remedy="Raise memory_limit or lower batch_size.",
        )
        runs = np.array_split(np.arange(len(ensemble.slots)), n_tasks)
        rows = ref_node(context.store.ref)
        tasks = [delayed(_fit_run, pure=False)(rows, ensemble, detector, run.tolist()) for run in runs if len(run)]
        context.engine.compute(*tasks, n_tasks=n_tasks)

    def _score_rows(self, ensemble: _Ensemble, context: FitContext) -> None:
        layout, engine, limit = context.store.layout, context.engine, context.memory_limit
        drawn_nbytes = 12 * len(ensemble.slots) + 16 * self.options.members_per_row
        chunk_nbytes = layout.chunk_rows * (3 * layout.row_nbytes + drawn_nbytes)
        # A member is loaded once a group of chunks: the larger the groups, the fewer the loads.
        affordable = _GROUP_NBYTES if limit is None else (limit - FIXED_NBYTES) // engine.n_workers
        group = max(1, min(_GROUP_NBYTES, affordable) // chunk_nbytes)
        # Few rows may lie in many chunks: of a view, each costs whole stored ones to read.
        group = min(group, -(-layout.n_chunks // engine.n_workers))
        n_tasks = tasks_that_fit(
            task_nbytes=group * chunk_nbytes + layout.aside_nbytes,
            shared_nbytes=0,
            n_workers=engine.n_workers,
            memory_limit=limit,
            remedy="Raise memory_limit or batch_size, or write the store with a smaller chunk_rows.",
        )
        rows = ref_node(context.store.ref)
        tasks = [
            delayed(_score_group, pure=False)(
                rows, ensemble, context.spool, range(first, min(first + group, layout.n_chunks))
            )
            for first in range(0, layout.n_chunks, group)
        ]
        engine.compute(*tasks, n_tasks=n_tasks)


@one_blas_thread()
def _fit_run(ref: StoreRef, ensemble: _Ensemble, detector: Any, numbers: list[int]) -> None:
    """Fit some members, in the order of the epoch, so that each window is read once."""
    reader = open_reader(ref)
    wanted = {(ensemble.slots[n].epoch, ensemble.slots[n].step): ensemble.slots[n] for n in numbers}
    for epoch, plan in enumerate(ensemble.plans):
        steps = sorted(step for e, step in wanted if e == epoch)
        if not steps:
            continue
        for batch in stream_batches(reader, plan, start_step=steps[0], prefetch=0, memory_limit=None):
            slot = wanted.get((epoch, batch.step))
            if slot is not None:
                member = clone(detector)
                _seed(member, ensemble.options.random_state, slot.number)
                try:
                    member.fit(batch.X)
                except ValueError as error:
                    raise InvalidDataError(
                        f"{type(detector).__name__} cannot be fitted on a batch of {batch.n_rows} rows "
                        f"({error}). Raise batch_size."
                    ) from error
                joblib.dump(Member.of(member, batch.rows, keep=slot.keep), slot.path)
            if batch.step == steps[-1]:
                break


def _seed(detector: Any, seed: int, number: int) -> None:
    """Give members different seeds, by number, where the detector draws: else all members draw alike."""
    params = detector.get_params(deep=False)
    if "random_state" in params:
        sequence = np.random.SeedSequence(seed, spawn_key=(_DETECTOR_SEEDS, number))
        detector.set_params(random_state=int(sequence.generate_state(1)[0] >> 1))


@dataclass(slots=True, eq=False)
class _ChunkScores:
    """Scores of one chunk while they come in, member by member."""

    start: int
    X: NDArray[Any]
    trained: NDArray[np.bool_]
    drawn: NDArray[np.bool_]
    scores: NDArray[np.float64]
    filled: NDArray[np.int64]

    @classmethod
    def of(cls, chunk: Chunk, ensemble: _Ensemble) -> Self:
        steps = [plan.steps_of_chunk(chunk.index) for plan in ensemble.plans]
        trained = np.stack([steps[slot.epoch] == slot.step for slot in ensemble.slots], axis=1)
        drawn = draw_members(trained, ensemble.options, chunk=chunk.index)
        scores = np.full((chunk.n_rows, int(drawn.sum(axis=1).max())), np.nan)
        return cls(chunk.start, chunk.X, trained, drawn, scores, np.zeros(chunk.n_rows, dtype=np.int64))

    def add(self, number: int, member: Member, calibrate: str) -> None:
        """Score the rows that drew a member: by its training scores where it trained on them."""
        for seen in (True, False):
            rows = np.flatnonzero(self.drawn[:, number] & (self.trained[:, number] == seen))
            if len(rows):
                self.scores[rows, self.filled[rows]] = (
                    member.training_scores(rows + self.start, calibrate)
                    if seen
                    else member.new_scores(self.X[rows], calibrate)
                )
                self.filled[rows] += 1


@one_blas_thread()
def _score_group(ref: StoreRef, ensemble: _Ensemble, spool: ScoreSpool, chunks: range) -> None:
    """Score the rows of some chunks, chunk by chunk; each member is loaded once for all of them."""
    reader, options = open_reader(ref), ensemble.options
    group = [_ChunkScores.of(reader.read_chunk(index), ensemble) for index in chunks]
    for slot in ensemble.slots:
        if any(part.drawn[:, slot.number].any() for part in group):
            member = ensemble.load(slot)
            for part in group:
                part.add(slot.number, member, options.calibrate)
    for part in group:
        spool.write(part.start, combine(part.scores, options.combine))
