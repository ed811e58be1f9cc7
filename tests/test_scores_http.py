"""Scores of 567,498 connections, of which 2,211 are attacks, none among the first 200,000."""

from __future__ import annotations

from pathlib import Path

import dask
import numpy as np
import pytest
from pyod.models.hbos import HBOS
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

import streamfit as sf
from streamfit.demo.data import load_npz

HTTP = Path(__file__).parents[2] / "shared" / "data" / "adbench" / "16_http.npz"
CONTAMINATION = 0.004


@pytest.mark.slow
@pytest.mark.skipif(not HTTP.exists(), reason="needs ADBench's 16_http.npz, which is not shipped")
def test_one_threshold_for_all_rows_beside_one_a_chunk(tmp_path):
    rows = load_npz(HTTP)
    store = sf.ingest(HTTP, tmp_path / "http.zarr", chunk_rows=10_000)
    detector = sf.StreamDetector(HBOS(contamination=CONTAMINATION)).fit(store)
    pyod = HBOS(contamination=CONTAMINATION).fit(rows.X)
    scores = detector.decision_scores_.rechunk(10_000)
    threshold = sf.scores.threshold(scores, CONTAMINATION)
    flags = sf.scores.flags(scores, threshold)
    summary = sf.scores.partition_summary(scores, threshold, labels=rows.y, contamination=CONTAMINATION)
    measures = (
        sf.scores.roc_auc(rows.y, scores),
        sf.scores.average_precision(rows.y, scores),
        sf.scores.confusion_matrix(rows.y, scores, threshold),
        sf.scores.precision_at_k(rows.y, scores, 500),
    )
    threshold, flags, table, (auc, precision, matrix, at_500) = dask.compute(threshold, flags, summary, measures)

    assert threshold == pyod.threshold_ == detector.threshold_
    np.testing.assert_array_equal(flags, pyod.labels_)
    np.testing.assert_array_equal(detector.labels_.compute(), pyod.labels_)
    assert auc == pytest.approx(roc_auc_score(rows.y, pyod.decision_scores_), rel=1e-12)
    assert precision == pytest.approx(average_precision_score(rows.y, pyod.decision_scores_), rel=1e-12)
    np.testing.assert_array_equal(matrix, confusion_matrix(rows.y, pyod.labels_))
    # Of the rows that score as high as the 500th, those that are missing to 500 are a mean one each.
    cut = np.sort(pyod.decision_scores_)[-500]
    above, tied = pyod.decision_scores_ > cut, pyod.decision_scores_ == cut
    found = rows.y[above].sum() + (500 - above.sum()) * rows.y[tied].mean()
    assert at_500 == pytest.approx(found / 500, rel=1e-12)

    starts = np.arange(0, len(rows.y), 10_000)
    assert table["first_row"].tolist() == starts.tolist()
    assert table["n_anomalies"].tolist() == np.add.reduceat(rows.y, starts).tolist()
    assert table["flagged"].tolist() == np.add.reduceat(pyod.labels_, starts).tolist()
    assert np.flatnonzero(table["n_anomalies"]).tolist() == [20, 31, 33, 39, 43, 46, 50, 51]
    # Where nothing is wrong, a threshold of each chunk flags its share all the same.
    chunks = [slice(start, start + 10_000) for start in range(0, 200_000, 10_000)]
    alone = [HBOS(contamination=CONTAMINATION).fit(rows.X[chunk]).labels_.sum() for chunk in chunks]
    own = [
        (part > np.percentile(part, 100 * (1 - CONTAMINATION))).sum()
        for part in (pyod.decision_scores_[chunk] for chunk in chunks)
    ]
    first = table[table["first_row"] < 200_000]
    assert first["n_anomalies"].sum() == 0
    assert sum(alone) == 636
    assert first["own_flagged"].tolist() == own
    assert first["own_flagged"].sum() == 605
    assert first["flagged"].sum() == 272
