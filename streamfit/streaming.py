"""Rows of a stored matrix in the order of an epoch: planned, projected, streamed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, get_args

from streamfit.errors import InvalidParameterError
from streamfit.options import Shuffle, StreamOptions, check_choice, check_count
from streamfit.plan.budget import parse_memory_limit
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.window import resolve_prefetch, resolve_window
from streamfit.store.reader import open_reader
from streamfit.store.row_sampling import stored_sampling
from streamfit.store.stored_matrix import StoredMatrix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamfit.batch import Batch
    from streamfit.options import Sampling, VerifyMode
    from streamfit.plan.state import StreamState
    from streamfit.run.projection import FitProjection

__all__ = ["StreamableMatrix"]


class StreamableMatrix(StoredMatrix):
    """A stored matrix whose rows are given batch by batch."""

    def plan(
        self,
        *,
        batch_size: int,
        seed: int = 0,
        epoch: int = 0,
        shuffle: Shuffle = "window",
        window: int | None = None,
        min_batch: int = 1,
        drop_last: bool = False,
        rank: int = 0,
        n_ranks: int = 1,
        sampling: Sampling | None = None,
        memory_limit: str | float | None = None,
    ) -> EpochPlan:
        """Plan one epoch: each row exactly once, in a reproducible order; or as many rows, sampled by class or weight.

        Parameters
        ----------
        batch_size : int
            Rows of a batch; only the last one is shorter (or, with `min_batch`, longer).
        seed, epoch : int
            Seed of the order, and the number of the epoch: each epoch has another order.
        shuffle : {"window", "none"}
            Shuffle rows within windows of shuffled chunks, or keep the order of the store.
        window : int, optional
            Chunks held in memory and shuffled together. By default 16; with labels as few, from 4 or 32 MiB on,
            as let the mean of a batch vary at most 1.1 times as much as after a full shuffle. In a view, whose chunks
            may hold few rows, both stand for as many rows. At most 256 MiB, and fewer where `memory_limit` asks for
            it; where the labels ask for more, as many as fit a `memory_limit`.
        min_batch : int
            A last batch with fewer rows is merged into the one before.
        drop_last : bool
            Leave the last batch out if it is short.
        rank, n_ranks : int
            Plan the part of one of so many processes that train together. No chunk is read by two of them, and together
            they take each row exactly once. Shuffled chunks are dealt out anew in each epoch, and the numbers of rows
            of two ranks differ by at most one chunk; with ``shuffle="none"`` each rank has consecutive rows, in their
            order, at most one chunk more or less than its even share. A rank for which no chunk is left has no steps. A
            rank has as many rows in each epoch, but for ``"balanced"`` and ``"weighted"`` rows: of these those that are
            drawn count, and epochs may differ by some.
        sampling : {"stratified", "balanced", "weighted"}, optional
            Which rows an epoch takes, and how a window orders them. Labels or weights are read once to be counted, and
            again with each window. By default each row comes exactly once, at random.

            - ``"stratified"``: each row exactly once. The classes of a window are spread evenly over its rows: of two
              classes every run of rows of a window, and so every batch in it, holds the window's proportion within one
              row; of more, less than 3.4 rows off, and seldom 2. A batch across the edge of windows has a part of each.
            - ``"balanced"``: as many rows as the store has, of each class an equal number, within one. A row of a class
              with `n_k` of `n` rows in `K` classes comes n / (K n_k) times, rounded down or up: which ones, the seed
              and the epoch tell. So of a frequent class an epoch leaves rows out, which come in other epochs. A batch
              is made up as its window is, as stratified ones are: of equal numbers where the rows are mixed.
            - ``"weighted"``: as many rows as the store has, each n w / Σw times by its ``sample_weight`` `w`, rounded
              down or up by systematic resampling. Batches hold no weights, since they would count twice.
        memory_limit : int or str, optional
            Bytes, or a text such as ``"2GB"``.

        Returns
        -------
        EpochPlan
            For `stream`; ``plan[step].rows`` are the rows of any step.

        Raises
        ------
        BudgetError
            The window does not fit `memory_limit`.
        InvalidParameterError
            A parameter is out of its range, the batch exceeds the window, or rows are to be sampled with
            ``shuffle="none"``.
        InvalidDataError
            There are no classes or weights to sample by, or a weight is negative, or all are zero; or a rank has fewer
            rows than `min_batch`, or no batch is left.
        StoreCorruptError
            Labels or weights are damaged, which are read to know how rows lie.

        Warns
        -----
        ShuffleWarning
            Rows lie sorted by label, or nearly so, and no window can make up for that: the means of windows vary more
            than 30 times as much as with all rows shuffled, or a window lacks a class of which it should hold 20 rows
            or more with a probability above .05. It says how to write the rows in another order. There is none of
            ``shuffle="none"``.
        """
        from streamfit.run.correlation import order_correlation
        from streamfit.run.shuffle_warning import warn_of_order

        check_choice("shuffle", shuffle, get_args(Shuffle))
        rows = stored_sampling(self.ref, sampling, layout=self.layout)
        window_chunks = resolve_window(
            self.layout,
            batch_size=batch_size,
            requested=window,
            memory_limit=parse_memory_limit(memory_limit),
            prefetch=None,
            label_nbytes=self.label_nbytes,
            correlation=order_correlation(self.reader, shuffle) if window is None else None,
            sampling=rows,
            n_epochs=1,
        )
        plan = EpochPlan(
            layout=self.layout,
            batch_size=batch_size,
            seed=seed,
            epoch=epoch,
            shuffle=shuffle,
            window_chunks=window_chunks,
            min_batch=min_batch,
            drop_last=drop_last,
            rank=rank,
            n_ranks=n_ranks,
            sampling=rows,
        )
        warn_of_order(self.reader, plan, stacklevel=2)
        return plan

    def project(
        self,
        *,
        batch_size: int,
        epochs: int = 1,
        shuffle: Shuffle = "window",
        window: int | None = None,
        min_batch: int = 1,
        drop_last: bool = False,
        sampling: Sampling | None = None,
        memory_limit: str | float | None = None,
        prefetch: int | None = None,
    ) -> FitProjection:
        """Tell what a stream will take before it begins: memory by part, steps, seconds of reading, order.

        The window, steps and memory are those of `plan` and `stream` with the same arguments. A few chunks are read,
        to see how long that takes. `StreamTrainer.plan` tells of an estimator too.

        Parameters
        ----------
        batch_size : int
            Rows of a batch.
        epochs : int
            Epochs that follow each other in one stream, as a fit reads them.
        shuffle, window, min_batch, drop_last, sampling, memory_limit
            As in `plan`.
        prefetch : int, optional
            As in `stream`.

        Returns
        -------
        FitProjection
            Print it, or ask its fields.

        Raises
        ------
        BudgetError
            The stream does not fit `memory_limit`; the message has the numbers.
        InvalidParameterError
            A parameter is out of its range, or the batch exceeds the window.
        InvalidDataError
            There are no classes or weights to sample by, or no batch is left.
        StoreCorruptError
            A chunk is damaged.
        """
        from streamfit.run.projecting import project_stream, request_of

        check_choice("shuffle", shuffle, get_args(Shuffle))
        request = request_of(
            self.reader,
            shuffle=shuffle,
            window=window,
            stream=StreamOptions(prefetch=prefetch, sampling=sampling),
            memory_limit=parse_memory_limit(memory_limit),
            n_epochs=check_count("epochs", epochs, least=1),
        )
        return project_stream(self.reader, request, batch_size=batch_size, min_batch=min_batch, drop_last=drop_last)

    def stream(
        self,
        plan: EpochPlan,
        *,
        start_step: int = 0,
        state: StreamState | None = None,
        memory_limit: str | float | None = None,
        prefetch: int | None = None,
        verify: VerifyMode | None = None,
    ) -> Iterator[Batch]:
        """Give the batches of a plan in order, from `start_step` on; each owns its memory.

        Parameters
        ----------
        plan : EpochPlan
            See `plan`.
        start_step : int
            First step, counted from 0.
        state : StreamState, optional
            Go on with the step that comes next, to the end of its epoch, which may be another one than the plan's; see
            `EpochPlan.state`.
        memory_limit : int or str, optional
            Refuse to begin where the stream would need more.
        prefetch : int, optional
            Windows read ahead; by default 1, or 0 where `memory_limit` leaves room for one window alone. It never
            changes the order of the rows.
        verify : {"always", "first", "never"}, optional
            When checksums are compared; by default as the store was opened.

        Returns
        -------
        iterator of Batch
            ``X`` of shape (n_rows, n_features), dense or CSR as the store is.

        Raises
        ------
        InvalidParameterError
            The plan is of a store with other rows or chunks, the state is of another plan, or a parameter is out of its
            range.
        BudgetError
            The stream does not fit `memory_limit`.
        StoreCorruptError
            From the iterator: a chunk is damaged.
        InvalidDataError
            From the iterator, where rows are sampled: labels or weights are others than when the plan was made.
        """
        from streamfit.run.stream import stream_batches  # what runs is imported when it runs

        if plan.layout != self.layout:
            raise InvalidParameterError(
                f"The plan is of other rows or chunks: {plan.layout}, and {self} has {self.layout}. "
                "Make the plan with the plan() of this store."
            )
        if state is not None:
            if start_step != 0:
                raise InvalidParameterError("start_step and state both tell where to begin. Give one of them.")
            plan, start_step = plan.at(state), state.step
        if len(plan) == 0 and start_step == 0:  # more ranks than chunks
            return iter(())
        options = StreamOptions(prefetch=prefetch, verify=self.ref.verify if verify is None else verify)
        limit = parse_memory_limit(memory_limit)
        return stream_batches(
            open_reader(dataclasses.replace(self.ref, verify=options.verify)),
            plan,
            start_step=start_step,
            memory_limit=limit,
            prefetch=resolve_prefetch(
                self.layout,
                batch_size=plan.batch_size,
                window_chunks=plan.window_chunks,
                requested=options.prefetch,
                memory_limit=limit,
                label_nbytes=self.label_nbytes,
                n_epochs=1,
                sampling=plan.sampling,
            ),
        )
