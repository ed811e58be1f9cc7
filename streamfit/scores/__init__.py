"""What users ask of scores: thresholds, flags, top rows, partitions, quality, drift, probabilities, agreement, files.

NumPy in gives NumPy and floats out, at once. Dask in gives Dask out: building runs nothing, and aggregates
that are computed together by one ``dask.compute`` read the scores once.
"""

from __future__ import annotations

from streamfit.scores.calibration import Calibration, calibrate
from streamfit.scores.combination import combine
from streamfit.scores.confusion import confusion_matrix
from streamfit.scores.drift import KolmogorovSmirnov, ks, partition_drift, psi
from streamfit.scores.flagging import flags, threshold
from streamfit.scores.histograms import histogram
from streamfit.scores.nonfinite import NonFinite, nonfinite
from streamfit.scores.partitions import partition_summary
from streamfit.scores.quantiles import ecdf, quantile
from streamfit.scores.rank_agreement import agreement, overlap_at_k, rank_correlation, ranks
from streamfit.scores.ranking import average_precision, lift, precision_at_k, recall_at_k, roc_auc
from streamfit.scores.saving import open, save  # noqa: A004  # as scores.open, beside scores.save
from streamfit.scores.sketch import QuantileSketch, quantile_sketch
from streamfit.scores.top import TopK, top_k

__all__ = [
    "Calibration",
    "KolmogorovSmirnov",
    "NonFinite",
    "QuantileSketch",
    "TopK",
    "agreement",
    "average_precision",
    "calibrate",
    "combine",
    "confusion_matrix",
    "ecdf",
    "flags",
    "histogram",
    "ks",
    "lift",
    "nonfinite",
    "open",
    "overlap_at_k",
    "partition_drift",
    "partition_summary",
    "precision_at_k",
    "psi",
    "quantile",
    "quantile_sketch",
    "rank_correlation",
    "ranks",
    "recall_at_k",
    "roc_auc",
    "save",
    "threshold",
    "top_k",
]
