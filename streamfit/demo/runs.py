"""The jobs of the demonstration, each timed and measured."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from dask_ml.model_selection import train_test_split
from dask_ml.preprocessing import StandardScaler
from pyod.models.hbos import HBOS
from pyod.models.knn import KNN
from sklearn.linear_model import SGDClassifier

from streamfit.demo.data import wide_batches
from streamfit.detector import StreamDetector
from streamfit.reporting.memory import PeakMemory
from streamfit.run.connect import connect
from streamfit.scores import average_precision, roc_auc
from streamfit.sources.ingest import ingest
from streamfit.trainer import StreamTrainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from streamfit.demo.data import LabelledRows
    from streamfit.feature_store import FeatureStore

__all__ = ["Job", "Outcome", "Session", "run_labelled", "run_wide"]

_CONTAMINATION = 0.02
_RAW_CHUNK_ROWS = 8_000
"""Small chunks, since dask-ml holds several float64 copies of each block that it works on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the table."""

    data: str
    """Name of the data."""
    how: str
    """What was done."""
    n_rows: int
    """Rows that were scored."""
    roc_auc: float
    """Area under the ROC curve over those rows."""
    average_precision: float
    """Average precision over those rows."""
    seconds: float
    """Wall time of fitting and scoring."""
    peak_nbytes: int
    """Highest resident memory beyond the start of the demonstration."""
    thresholds: tuple[float, ...]
    """Thresholds that rows were flagged by: one, or one a batch."""
    flagged_share: float
    """Share of rows that were flagged."""


@dataclass(slots=True)
class Job:
    """What a job found out; `seconds` and `peak_nbytes` are filled in when it ends."""

    seconds: float = 0.0
    peak_nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """What all jobs of one demonstration share."""

    folder: Path
    """Where stores are written."""
    memory_limit: str
    """Limit for each job, such as ``"256MB"``."""
    start_nbytes: int
    """Resident bytes after the imports, from which growth is counted."""
    tell: Callable[[str], None]
    """Takes a line on what is under way."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Lines of the table, in order."""

    @contextmanager
    def job(self, text: str) -> Iterator[Job]:
        """Announce a job, time it, and measure its memory."""
        self.tell(text)
        job = Job()
        started = time.perf_counter()
        with PeakMemory(self.start_nbytes) as peak:
            yield job
            job.seconds = time.perf_counter() - started
        job.peak_nbytes = peak.growth_nbytes

    def add(
        self,
        job: Job,
        *,
        data: str,
        how: str,
        labels: Any,
        scores: Any,
        thresholds: tuple[float, ...],
        flagged_share: float,
    ) -> None:
        """Judge scores by labels and add a line."""
        self.outcomes.append(
            Outcome(
                data=data,
                how=how,
                n_rows=len(scores),
                roc_auc=float(_value(roc_auc(labels, scores))),
                average_precision=float(_value(average_precision(labels, scores))),
                seconds=job.seconds,
                peak_nbytes=job.peak_nbytes,
                thresholds=thresholds,
                flagged_share=flagged_share,
            )
        )


def _value(result: Any) -> Any:
    return result.compute() if hasattr(result, "compute") else result


def run_wide(session: Session, *, n_rows: int) -> None:
    """Write a store, split and scale it with dask-ml, then SGD and HBOS inside the limit."""
    limit = session.memory_limit
    # What is written once is written here: only the fits and scores go where the engine is.
    with connect("threads"):
        train, test = _scaled_stores(session, n_rows)
    name = f"{train.layout.nbytes / 1e9:.2f} GB store"
    train_classifier(session, name, "SGD, 2 epochs", train, test, epochs=2)
    with session.job("Fitting HBOS to all rows, exactly") as job:
        detector = StreamDetector(HBOS(contamination=_CONTAMINATION), memory_limit=limit).fit(train)
    add_detector(session, job, name, "HBOS, exact", detector, _value(train.y))


def _scaled_stores(session: Session, n_rows: int) -> tuple[FeatureStore, FeatureStore]:
    """Write rows batch by batch, split them, scale them by the training rows, and write both parts."""
    limit = session.memory_limit
    with session.job(f"Writing {n_rows:,} rows × 100 to Zarr, batch by batch"):
        raw = ingest(
            lambda: wide_batches(n_rows),
            session.folder / "raw.zarr",
            chunk_rows=_RAW_CHUNK_ROWS,
            memory_limit=limit,
        )
    with session.job("Splitting and scaling with dask-ml"):
        X, y = raw.to_dask(block_nbytes=raw.layout.chunk_nbytes)
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.1, random_state=0, shuffle=True)
        scaler = StandardScaler().fit(X_train)
        train = ingest(scaler.transform(X_train), session.folder / "train.zarr", y=y_train, memory_limit=limit)
        test = ingest(scaler.transform(X_test), session.folder / "test.zarr", y=y_test, memory_limit=limit)
    return train, test


def train_classifier(
    session: Session, name: str, how: str, train: FeatureStore, test: FeatureStore, *, epochs: int
) -> None:
    """Train an SGDClassifier over epochs; the line is about the validation rows."""
    with session.job(f"Training an SGDClassifier for {epochs} epochs, validated on {test.n_rows:,} rows") as job:
        trainer = StreamTrainer(
            SGDClassifier(loss="log_loss"),
            batch_size=min(10_000, max(1, train.n_rows // 10)),
            epochs=epochs,
            random_state=0,
            memory_limit=session.memory_limit,
            metrics=("accuracy",),
        ).fit(train, validation_data=test)
        scores = _value(trainer.decision_function(test))
    session.add(
        job,
        data=name,
        how=how,
        labels=_value(test.y),
        scores=scores,
        thresholds=(0.0,),
        flagged_share=float((scores > 0).mean()),
    )


def add_detector(
    session: Session, job: Job, name: str, how: str, detector: StreamDetector, labels: NDArray[np.int64]
) -> None:
    """Add the line of a fitted detector."""
    session.add(
        job,
        data=name,
        how=how,
        labels=labels,
        scores=_value(detector.decision_scores_),
        thresholds=(float(detector.threshold_),),
        flagged_share=float(_value(detector.labels_.mean())),
    )


def run_labelled(session: Session, rows: LabelledRows, *, detector: Any) -> None:
    """Compare the classic loop with the exact answer, and train a classifier on the same rows."""
    name, n_rows = rows.name, len(rows.X)
    kind = type(detector).__name__
    store = ingest(rows.X, session.folder / "rows.zarr", y=rows.y, memory_limit=session.memory_limit)
    with session.job(f"The classic loop: {kind}.fit(batch) on batches of {rows.batch_rows:,} rows") as job:
        scores, flags, thresholds = classic_loop(detector, rows)
    session.add(
        job,
        data=name,
        how=f"(a) {kind}, loop",
        labels=rows.y,
        scores=scores,
        thresholds=thresholds,
        flagged_share=float(flags.mean()),
    )
    with session.job(f"streamfit: {kind} on all {n_rows:,} rows, exactly") as job:
        exact = StreamDetector(detector, memory_limit=session.memory_limit).fit(store)
    add_detector(session, job, name, f"(b) {kind}, {exact.method_.name}", exact, rows.y)
    # One row in nine for validation, the last ones: in the snapshots, the last day.
    edge = n_rows - max(1, n_rows // 9)
    parts = [("fit", slice(0, edge)), ("validation", slice(edge, n_rows))]
    if all(len(np.unique(rows.y[part])) == 2 for _, part in parts):
        train, test = (
            ingest(rows.X[part], session.folder / f"rows-{label}.zarr", y=rows.y[part]) for label, part in parts
        )
        train_classifier(session, name, "(c) SGD, 5 epochs", train, test, epochs=5)


def classic_loop(detector: Any, rows: LabelledRows) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[float, ...]]:
    """Do what people do: fit each batch anew, and put the batches' scores side by side."""
    scores, flags, thresholds = [], [], []
    for start in range(0, len(rows.X), rows.batch_rows):
        batch = rows.X[start : start + rows.batch_rows]
        detector.fit(batch)
        scores.append(detector.decision_scores_)
        flags.append(detector.labels_)
        thresholds.append(float(detector.threshold_))
    return np.concatenate(scores), np.concatenate(flags), tuple(thresholds)


def default_detector(rows: LabelledRows) -> Any:
    """Give KNN, or HBOS where all pairs of rows would take minutes."""
    contamination = float(np.clip(rows.y.mean(), 1e-4, 0.5))
    return KNN(contamination=contamination) if len(rows.X) <= 120_000 else HBOS(contamination=contamination)


def warm_up() -> None:
    """Import and compile what the jobs use, so that their memory and time are theirs alone."""
    with connect("threads"):
        _try_everything()


def _try_everything() -> None:
    X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    y = np.arange(200) % 2
    for detector in (HBOS(), KNN()):
        StreamDetector(detector).fit(X)
        detector.fit(X)
    StreamTrainer(SGDClassifier(loss="log_loss"), batch_size=100, metrics=("accuracy",)).fit(
        X, y, validation_data=(X, y)
    )
