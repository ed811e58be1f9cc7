"""``streamfit score``: new rows by a model that ``fit`` has written."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streamfit.cli.json_text import json_text
from streamfit.cli.model_path import is_detector
from streamfit.cli.options import AsJson, Overwrite, Scheduler, StorePath, Trust
from streamfit.errors import InvalidDataError, InvalidParameterError, StreamfitError, UnsupportedError

if TYPE_CHECKING:
    import dask.array as da
    from numpy.typing import NDArray

    from streamfit.batch import Chunk
    from streamfit.feature_store import FeatureStore

__all__ = ["score"]


def score(
    store: StorePath,
    fitted: Annotated[str, typer.Argument(metavar="FITTED_DIR", help="What streamfit fit --out has written.")],
    out: Annotated[
        str, typer.Option(metavar="FILE", help="What to write, one result a row: FILE.npy, .zarr or .parquet.")
    ],
    function: Annotated[
        Literal["predict", "decision_function", "predict_proba"] | None,
        typer.Option(help="What to compute.", show_default="decision_function of a detector, else predict"),
    ] = None,
    top: Annotated[int | None, typer.Option(help="Show so many rows with the highest scores.", min=1)] = None,
    top_out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the rows of --top, with ids and up to 1,000 features, to .csv or .json."
        ),
    ] = None,
    scheduler: Scheduler = "threads",
    trust: Trust = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Score the rows of a store by a fitted model. Scores are higher where a row is more anomalous."""
    from streamfit.cli.fitted_folder import FittedFolder
    from streamfit.cli.row_output import check_out, check_top_out, top_facts, top_of_file, write_results, write_top
    from streamfit.feature_store import open_store
    from streamfit.reporting.waiting import waiting
    from streamfit.row_map import matched
    from streamfit.run.connect import connect

    target = Path(out).expanduser().absolute()
    check_out(target, overwrite=overwrite)
    if top_out is not None:
        check_top_out(Path(top_out))
        if top is None:
            raise InvalidParameterError("--top-out writes the rows of --top. Add --top, such as --top 20.")
    summary, model = FittedFolder(fitted, trusted=trust or ()).read()
    rows = open_store(store)
    _check_columns(rows, summary)
    rows = matched(rows, summary["feature_names"])
    name = function or ("decision_function" if is_detector(model) else "predict")
    began = time.monotonic()
    with connect(scheduler), waiting("score"):
        try:
            values = _results(rows, model, name)
            if top is not None and (values.ndim != 1 or values.dtype.kind not in "fiu"):
                raise InvalidParameterError(f"--top needs one number a row, which {name} does not give. Leave it out.")
            called = "score" if name == "decision_function" else name
            write_results(target, values, rows, name=called, overwrite=overwrite)
        except ValueError as error:
            if isinstance(error, StreamfitError):
                raise
            raise InvalidDataError(f"{type(model).__name__} refuses these rows: {error}") from error
        highest = None if top is None else top_of_file(target, rows, top)
    if highest is not None and top_out is not None:
        write_top(Path(top_out).expanduser(), highest)
    shown = [] if highest is None else top_facts(highest)
    facts = {
        "out": str(target),
        "function": name,
        "shape": list(values.shape),
        "dtype": str(values.dtype),
        "seconds": time.monotonic() - began,
        "top": shown,
    }
    if as_json:
        print(json_text(facts))
        return
    from streamfit.reporting.tables import print_records

    print(f"{target}: {name} of {rows.n_rows:,} rows, {values.dtype}, in {facts['seconds']:.1f} s")
    print_records(shown)


def _check_columns(store: "FeatureStore", summary: dict[str, Any]) -> None:
    if store.n_features != summary["n_features"]:
        raise InvalidDataError(
            f"{store.path} has {store.n_features} features and the model was fitted on {summary['n_features']}. "
            "Give the same columns."
        )


@dataclass(frozen=True, slots=True)
class _Call:
    """One function of a model. A value, so that tasks can carry it."""

    function: str
    """Name of the method."""
    sign: int
    """-1 for scikit-learn's outlier detectors, which give low values to anomalies."""

    def of(self, model: Any, X: "NDArray[Any]") -> "NDArray[Any]":
        import numpy as np

        results = np.asarray(getattr(model, self.function)(X))
        return -results if self.sign < 0 else results

    def __call__(self, model: Any, chunk: "Chunk") -> "NDArray[Any]":
        return self.of(model, chunk.X)


def _results(store: "FeatureStore", model: Any, function: str) -> "da.Array":
    import numpy as np
    from sklearn.base import is_outlier_detector

    if not callable(getattr(model, function, None)):
        raise UnsupportedError(f"{type(model).__name__} has no {function}. Choose another --function.")
    flips = function == "decision_function" and not is_detector(model) and is_outlier_detector(model)
    call = _Call(function, -1 if flips else 1)
    # Dtype and width of the results are the model's affair: a few rows tell them.
    sample = call.of(model, store.take(np.arange(min(2, store.n_rows))))
    return store.map(call, model=model, dtype=sample.dtype, n_outputs=None if sample.ndim == 1 else sample.shape[1])
