"""What metrics over all rows of a store cost: one, five that share a pass, and scikit-learn's scorers in memory.

python tests/benchmarks/bench_metrics.py [--rows 1000000] [--features 20] [--folder FOLDER]

Each way does the same rows with the same fitted model; scikit-learn has them in memory, calls the model once a scorer,
and uses all cores for what its linear algebra does, where streamfit uses as many threads with one core each.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import get_scorer
from sklearn.naive_bayes import GaussianNB
from stream_table import Way, measure, print_seconds

import streamfit as sf

COUNTED = ["accuracy", "f1", "matthews_corrcoef", "jaccard", "balanced_accuracy"]
MIXED = ["accuracy", "neg_log_loss", "roc_auc", "average_precision", "matthews_corrcoef"]
OF_FOUR = ["f1_macro", "neg_log_loss", "roc_auc_ovr", "top_k_accuracy", "matthews_corrcoef"]
OF_NUMBERS = ["r2", "neg_mean_squared_error", "neg_mean_absolute_error", "neg_max_error", "neg_median_absolute_error"]


def ways(model, store, X, y, names):
    def in_memory():
        return [get_scorer(name)(model, X, y) for name in names]

    return [
        Way(f"streamfit: {names[0]}", lambda: sf.evaluate(model, store, metrics=names[:1])),
        Way(f"streamfit: {', '.join(names)}", lambda: sf.evaluate(model, store, metrics=names)),
        Way("scikit-learn in memory: all five", in_memory),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((arguments.rows, arguments.features), dtype="f4")
    target = X[:, 0] + rng.standard_normal(arguments.rows)
    two, four = (target > 0).astype(int), np.digitize(target, [-1, 0, 1])
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for number, (model, y, names) in enumerate(
            [
                (SGDClassifier(loss="log_loss"), two, COUNTED),
                (SGDClassifier(loss="log_loss"), two, MIXED),
                (GaussianNB(), four, OF_FOUR),
                (SGDRegressor(), target, OF_NUMBERS),
            ]
        ):
            store = sf.ingest(X, f"{folder}/{number}", y=y)
            model.fit(X[:50_000], y[:50_000])
            print(f"\n{type(model).__name__}, {arguments.rows} x {arguments.features}")
            print_seconds(measure(ways(model, store, X, y, names), arguments.repetitions), arguments.rows)


if __name__ == "__main__":
    main()
