"""Table of all estimators of scikit-learn that learn batch by batch, each trained and compared with the loop in memory.

Run ``python tests/benchmarks/estimator_table.py``; ``--markdown`` prints the table of the README.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from estimator_kinds import N_ROWS, differing, kinds
from sklearn.base import clone

import streamfit as sf
from streamfit.callbacks import Verdict
from streamfit.errors import CheckpointError, StreamfitError

METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")


class PauseAt:
    """Ends a call after a number of steps."""

    every_steps = 1

    def __init__(self, step):
        self.step = step

    def judge(self, point):
        return Verdict(pause=point.total_steps == self.step)

    def state(self):
        return {}

    def restore(self, _state):
        return False


def trainer_of(kind, **options):
    return sf.StreamTrainer(kind.estimator, batch_size=30, epochs=2, **options)


def resumes(kind, store, whole):
    """Interrupt a fit at four steps, and compare its end with that of an undisturbed one."""
    with tempfile.TemporaryDirectory() as run:
        try:
            for step in (1, 6, 7, 11):
                trainer_of(kind, checkpoint=run, callbacks=[PauseAt(step)]).fit(store)
            resumed = trainer_of(kind, checkpoint=run).fit(store, resume="always")
        except CheckpointError:
            return "no: skops cannot hold it"
        return "bit-equal" if differing(resumed.estimator_, whole.estimator_) == [] else "DIFFERS"


def least_rows(kind):
    """Rows that a batch must have at least, found by asking."""
    for rows in (1, 2, 3, 4):
        try:
            sf.StreamTrainer(kind.estimator, batch_size=rows).fit(kind.X[:41], None if kind.y is None else kind.y[:41])
        except StreamfitError:
            continue
        return rows
    return "more"


def weights(kind):
    if not kind.takes_weights:
        return "-"
    weight = np.linspace(0.1, 2, N_ROWS)
    trainer = trainer_of(kind).fit(kind.X, kind.y, sample_weight=weight)
    return "bit-equal" if differing(trainer.estimator_, kind.loop(trainer, weight)) == [] else "DIFFERS"


def table():
    rows = []
    for kind in kinds():
        with tempfile.TemporaryDirectory() as folder:
            store = sf.ingest(kind.X, Path(folder) / "store", y=kind.y, chunk_rows=40)
            whole = trainer_of(kind).fit(store)
            differs = differing(whole.estimator_, kind.loop(whole)) + differing(kind.estimator, clone(kind.estimator))
            rows.append(
                {
                    "estimator": kind.name,
                    "fit": "bit-equal" if differs == [] else f"DIFFERS: {differs}",
                    "resumed": resumes(kind, store, whole),
                    "weights": weights(kind),
                    "least batch": least_rows(kind),
                    "methods": ", ".join(method for method in METHODS if hasattr(whole, method)),
                }
            )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true")
    markdown = parser.parse_args().markdown
    warnings.simplefilter("ignore")
    rows = table()
    names = list(rows[0])
    if markdown:
        lines = [names, ["---"] * len(names), *([str(value) for value in row.values()] for row in rows)]
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return
    widths = [max(len(name), *(len(str(row[name])) for row in rows)) for name in names]
    for line in [names, *(row.values() for row in rows)]:
        print("  ".join(f"{value!s:<{width}}" for value, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
