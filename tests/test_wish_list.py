"""What one wants of an epoch, in one script on real beats: metrics, learning rate, best model, TensorBoard, memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamfit as sf

ECG = Path(__file__).parents[2] / "shared" / "data" / "ecg_mitbih" / "ecg_mitbih.npz"
BEFORE, AFTER = 90, 110
"""Samples of a beat before and after its annotation, at 360 Hz."""


@pytest.fixture(scope="module")
def beats():
    if not ECG.exists():
        pytest.skip(f"{ECG.name} is not here")
    with np.load(ECG) as record:
        signal = (record["rec100"][:, 0] - record["baseline"][0]) / record["adc_gain"][0]
        places, symbols = record["rec100_beat_sample"], record["rec100_beat_symbol"]
    inside = (places >= BEFORE) & (places + AFTER <= len(signal)) & (symbols != "+")
    X = np.stack([signal[place - BEFORE : place + AFTER] for place in places[inside]]).astype(np.float32)
    return X, np.where(symbols[inside] == "N", "normal", "abnormal")


def test_the_wish_list(tmp_path, beats):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    store = sf.ingest(beats[0], tmp_path / "beats.zarr", y=beats[1], chunk_rows=256)
    train, test = store.split(0.8, seed=0, stratify=True)
    trainer = sf.StreamTrainer(
        make_pipeline(StandardScaler(), MLPClassifier((32,), solver="sgd", learning_rate_init=0.2)),
        batch_size=64,
        epochs=12,
        memory_limit="100MB",
        metrics=["average_precision", "log_loss", "accuracy"],
        checkpoint=tmp_path / "run",
        callbacks=[
            sf.callbacks.ReduceLROnPlateau("val_log_loss", factor=0.5, patience=1),
            sf.callbacks.ModelCheckpoint(tmp_path / "best", monitor="val_log_loss", save_best_only=True),
            sf.callbacks.TensorBoard(tmp_path / "logs"),
            sf.callbacks.CSVLogger(tmp_path / "log.csv"),
        ],
    )

    estimate = trainer.plan(train)
    assert estimate.n_steps == -(-len(train) // 64)
    assert sum(nbytes for _, nbytes in estimate.memory) <= estimate.memory_limit == 100_000_000
    assert estimate.largest_batch_size >= 64
    trainer.fit(train, validation_data=test)

    history = trainer.history_
    assert [entry["epoch"] for entry in history] == list(range(12))
    reduced, best, *_ = trainer.callbacks_
    rates = [entry["learning_rate"] for entry in history]
    assert rates[0] == 0.2
    assert rates == sorted(rates, reverse=True)
    # (The rate that the last epoch leads to is taken by none.)
    used = [rate for epoch, rate in reduced.reductions_ if epoch < 11]
    assert used == sorted(set(rates), reverse=True)[1:]
    assert reduced.reductions_  # it did so on these data
    # The best model is the one that its metrics say.
    losses = [entry["val_log_loss"] for entry in history]
    model = sf.load(best.best_path_)
    X, y = test.take(np.arange(len(test))), test.y.compute()
    probabilities = model.predict_proba(X)
    true = probabilities[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    assert -np.log(true).mean() == pytest.approx(min(losses), rel=1e-5)
    ap = average_precision_score(y == "normal", probabilities[:, 1])
    assert history[int(np.argmin(losses))]["val_average_precision"] == pytest.approx(ap)
    # What TensorBoard shows is the history.
    events = event_accumulator.EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    for name in ("val_average_precision", "val_log_loss", "val_accuracy", "learning_rate"):
        shown = events.Scalars(name)
        assert [event.step for event in shown] == [(epoch + 1) * trainer.n_steps_ for epoch in range(12)]
        np.testing.assert_array_equal([event.value for event in shown], np.float32([e[name] for e in history]))
