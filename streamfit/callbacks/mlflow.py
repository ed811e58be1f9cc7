"""Track a fit with MLflow."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.fit_record import FitRecord, begins_anew
from streamfit.callbacks.log_path import check_path
from streamfit.errors import InvalidParameterError, UnsupportedError
from streamfit.events import FitEnded, FitStarted
from streamfit.store.atomic import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamfit.events import Event

__all__ = ["MLflow"]

logger = logging.getLogger(__name__)

_PARAMETERS_A_REQUEST, _METRICS_A_REQUEST = 100, 1_000
_NAME_LENGTH = 250


class MLflow:
    """Log parameters and metrics of a fit to an MLflow run.

    Parameters are those of the fit and of the estimator. Metrics are each metric by its name, ``learning_rate`` where
    the estimator has one, ``rows_per_second`` of the epoch so far and ``epoch_seconds``, over steps counted from the
    first epoch on. The run ends as FINISHED, or as FAILED where the fit raised; that of a process that was killed stays
    RUNNING.

    Each fit that begins anew makes a run, unless `run_id` names one, or one is active (``with mlflow.start_run():``)
    and nothing here asks for another; that is used and left open. A fit that goes on from a checkpoint goes on with the
    run whose id `run_file` holds, and logs what that lacks, nothing twice; without `run_file` another process makes a
    run of its own, with all that was measured before. Parameters that a run has stay as they are. Where the server does
    not answer in the middle of a fit, a warning of the log says so; what it missed is kept and sent with what follows.

    ``pip install 'streamfit[mlflow]'`` brings what this takes, with SQLite instead of a server as well:
    ``tracking_uri="sqlite:///mlflow.db"``.

    Parameters
    ----------
    experiment : str or None, default=None
        Name of the experiment, which is made where there is none; None: the one that MLflow has active.
    run_name : str or None, default=None
        Name of the run; None: MLflow makes one up.
    tracking_uri : str or None, default=None
        Where to log; None: as MLflow is set.
    tags : mapping or None, default=None
        Tags of the run, texts by name.
    run_id : str or None, default=None
        A run that is there, to log to.
    run_file : str or path-like or None, default=None
        A file that remembers the id of the run, so that a resumed fit goes on with it. The folder of the checkpoints is
        a good place.

    Attributes
    ----------
    run_id_ : str or None
        The run of the last fit.

    Raises
    ------
    InvalidParameterError
        An argument is of another kind, or `run_id` is given with what only a new run can have.
    UnsupportedError
        MLflow is not installed; raised when the fit begins.

    Examples
    --------
    >>> MLflow(run_id="1f", run_name="first")
    Traceback (most recent call last):
    ...
    streamfit.errors.InvalidParameterError: run_id names a run that is there, so experiment, run_name and run_file ...
    """

    def __init__(
        self,
        *,
        experiment: str | None = None,
        run_name: str | None = None,
        tracking_uri: str | None = None,
        tags: Mapping[str, str] | None = None,
        run_id: str | None = None,
        run_file: str | os.PathLike[str] | None = None,
    ) -> None:
        texts: dict[str, object] = {
            "experiment": experiment,
            "run_name": run_name,
            "tracking_uri": tracking_uri,
            "run_id": run_id,
        }
        for name, value in texts.items():
            if value is not None and (not isinstance(value, str) or not value):
                raise InvalidParameterError(f"{name} must be a text or None, got {value!r}.")
        _check_tags(tags)
        if run_id is not None and any(value is not None for value in (experiment, run_name, run_file)):
            raise InvalidParameterError(
                "run_id names a run that is there, so experiment, run_name and run_file cannot be given with it. Leave "
                "them out, or leave out run_id."
            )
        self.experiment = experiment
        self.run_name = run_name
        self.tracking_uri = tracking_uri
        self.tags = None if tags is None else dict(tags)
        self.run_id = run_id
        self.run_file = None if run_file is None else check_path("run_file", run_file)
        self.run_id_: str | None = None
        self._record = FitRecord()
        self._client: Any = None
        self._owns = False
        self._sent: set[tuple[str, int]] = set()
        self._unsent: list[tuple[str, float, int, int]] = []

    def notify(self, event: Event) -> None:
        """Log what was measured."""
        entry = self._record.take(event)
        if isinstance(event, FitStarted):
            self._begin(event)
        elif self._client is None:
            return
        elif isinstance(event, FitEnded):
            self._try(self._send)
            self._try(lambda: self._end(event))
            self._client = None
        elif entry is not None:
            self._queue(entry)
            self._try(self._send)

    # -- the run -------------------------------------------------------------------------------------

    # -- the run -------------------------------------------------------------------------------------

    def _begin(self, event: FitStarted) -> None:
        self._client, self._unsent, self._sent = None, [], set()
        mlflow = _imported()
        client = mlflow.MlflowClient(tracking_uri=self.tracking_uri)
        chosen = (self.run_id, self.experiment, self.run_name, self.run_file, self.tracking_uri)
        free = all(choice is None for choice in chosen)
        active = mlflow.active_run() if free else None
        self._owns, anew = active is None, begins_anew(event)
        run_id = self.run_id or (active.info.run_id if active else None if anew else self._remembered())
        if run_id is None:
            run_id = client.create_run(self._experiment_id(client), run_name=self.run_name, tags=self.tags).info.run_id
        else:
            if self._owns:
                client.update_run(run_id, status="RUNNING")
            for name, value in (self.tags or {}).items():
                client.set_tag(run_id, name, value)
        if self.run_file is not None:
            write_atomically(self.run_file, (json.dumps({"run_id": run_id}) + "\n").encode())
        self._client, self.run_id_ = client, run_id
        there = client.get_run(run_id).data
        self._log_parameters(event.parameters, but=there.params)
        if not anew:
            points = [point for name in there.metrics for point in client.get_metric_history(run_id, name)]
            self._sent = {(point.key, point.step) for point in points}
        for entry in event.history:
            self._queue(entry)
        self._send()

    def _remembered(self) -> str | None:
        """Give the run of the fit that goes on, where it is known."""
        if self.run_file is None or not self.run_file.exists():
            return self.run_id_
        try:
            return str(json.loads(self.run_file.read_text(encoding="utf-8"))["run_id"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidParameterError(
                f"{self.run_file} holds no run of MLflow. Name another file as run_file, or remove it; then a new run "
                "is made."
            ) from error

    def _experiment_id(self, client: Any) -> str:
        name = self.experiment
        if name is None:
            # What `mlflow.set_experiment` has set, or the user for this process; "0" is the one that is always there.
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
            chosen = os.environ.get("MLFLOW_EXPERIMENT_ID")
            if chosen is not None or name is None:
                return chosen or "0"
        found = client.get_experiment_by_name(name)
        return str(client.create_experiment(name) if found is None else found.experiment_id)

    def _end(self, event: FitEnded) -> None:
        if self._owns:
            self._client.set_terminated(self.run_id_, "FINISHED" if event.error is None else "FAILED")

    # -- what is logged ------------------------------------------------------------------------------

    def _log_parameters(self, parameters: Mapping[str, Any], *, but: Mapping[str, str]) -> None:
        from mlflow.entities import Param
        from mlflow.utils.validation import MAX_PARAM_VAL_LENGTH

        named = [(_name(name), _cut(str(value), MAX_PARAM_VAL_LENGTH)) for name, value in parameters.items()]
        new = [Param(name, value) for name, value in named if name not in but]
        for start in range(0, len(new), _PARAMETERS_A_REQUEST):
            self._client.log_batch(self.run_id_, params=new[start : start + _PARAMETERS_A_REQUEST])

    def _queue(self, entry: Mapping[str, Any]) -> None:
        step, now = self._record.total_steps(entry["epoch"], entry["step"]), int(time.time() * 1_000)
        values = {_name(name): float(value) for name, value in self._record.scalars(entry).items()}
        self._unsent += [(name, value, now, step) for name, value in values.items() if (name, step) not in self._sent]

    def _send(self) -> None:
        from mlflow.entities import Metric

        while self._unsent:
            metrics = [Metric(*point) for point in self._unsent[:_METRICS_A_REQUEST]]
            self._client.log_batch(self.run_id_, metrics=metrics)
            del self._unsent[: len(metrics)]

    def _try(self, send: Callable[[], None]) -> None:
        from mlflow.exceptions import MlflowException

        try:
            send()
        except (MlflowException, OSError) as error:
            # The model is worth more than its log.
            logger.warning("MLflow did not take what run %s was to log: %s", self.run_id_, error)


def _imported() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise UnsupportedError(
            "callbacks.MLflow needs MLflow, which is not installed: pip install 'streamfit[mlflow]'."
        ) from error
    return mlflow


def _check_tags(tags: object) -> None:
    texts = isinstance(tags, Mapping) and all(isinstance(text, str) for pair in tags.items() for text in pair)
    if tags is not None and not texts:
        raise InvalidParameterError(
            f"tags must be a mapping of texts, got {tags!r}. Write values as texts: str(value)."
        )


def _name(name: str) -> str:
    """Give a name that MLflow takes.

    Examples
    --------
    >>> _name("val_f1 (macro)")
    'val_f1 _macro_'
    """
    return re.sub(r"[^\w.\- :/]", "_", name)[:_NAME_LENGTH]


def _cut(text: str, length: int) -> str:
    """Shorten a text that is too long, so that this can be seen.

    Examples
    --------
    >>> _cut("abcdefgh", 8), _cut("abcdefghi", 8)
    ('abcdefgh', 'abcde...')
    """
    return text if len(text) <= length else text[: length - 3] + "..."
