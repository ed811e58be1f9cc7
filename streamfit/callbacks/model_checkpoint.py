"""Write the model as it is during a fit, and the best one."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamfit.callbacks.control import Verdict
from streamfit.callbacks.monitor import Mode, Watch
from streamfit.errors import CheckpointError, InvalidParameterError
from streamfit.options import check_count, check_flag
from streamfit.run.model_file import model_bytes
from streamfit.store.atomic import remove_file, write_atomically

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from os import PathLike

    from streamfit.callbacks.control import ControlPoint

__all__ = ["ModelCheckpoint"]

logger = logging.getLogger(__name__)

_BEST = "best.skops"
_MODELS = "model-e*-s*.skops"


class ModelCheckpoint:
    """Write the fitted model to a folder at control points, each time as a file that ``sf.load`` reads.

    A file has its whole content or is not there, whenever the process ends. They are models to be used; what a fit
    needs to go on after an interruption is ``StreamTrainer(checkpoint=)``, with which this goes on as well. The fit is
    not changed.

    ``model-e000003-s00000000.skops`` is the model after 3 epochs, ``model-e000003-s00000200.skops`` that after 200 more
    steps, so that names are in the order of time. ``best.skops`` is the model with the best value of the metric.

    Parameters
    ----------
    path : path
        Folder; it is made if it is missing. Each fit needs one of its own.
    monitor : str or None, default=None
        Name of the metric, such as ``"val_log_loss"``; None takes, at the first time, the first of ``val_log_loss``,
        ``val_mean_squared_error``, ``val_accuracy``, the same of ``prequential_...``, and then any other that there is,
        and does without ``best.skops`` where nothing is measured.
    mode : {"auto", "min", "max"}, default="auto"
        Whether less or more is better; "auto" knows it from the metric's name.
    save_best_only : bool, default=False
        Write ``best.skops`` alone, each time that the metric is better than ever before.
    every_steps : int or None, default=None
        Write also after each so many steps of an epoch. The metric is looked at there if it was measured.
    keep_last : int or None, default=None
        Remove all but the last so many models; ``best.skops`` always stays. None: keep all.
    trust : sequence of str, default=()
        Full names of types in the model that are neither of NumPy, SciPy nor scikit-learn, or of their packages.

    Attributes
    ----------
    best_ : float or None
        Best value so far. ``nan`` is never better.
    best_path_ : pathlib.Path or None
        ``best.skops``, once it is written.
    paths_ : list of pathlib.Path
        Models of this fit that are kept, in the order of time.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from streamfit.callbacks import ControlPoint
    >>> saving = ModelCheckpoint(tempfile.mkdtemp(), keep_last=1)
    >>> for epoch, accuracy in enumerate([0.8, 0.7]):
    ...     verdict = saving.judge(ControlPoint(epoch, 9, 9, {"val_accuracy": accuracy}, None, GaussianNB()))
    >>> [path.name for path in saving.paths_], saving.best_path_.name, saving.best_
    (['model-e000002-s00000000.skops'], 'best.skops', 0.8)
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        monitor: str | None = None,
        mode: Mode = "auto",
        save_best_only: bool = False,
        every_steps: int | None = None,
        keep_last: int | None = None,
        trust: Collection[str] = (),
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidParameterError(f"path must be that of a folder, got {path!r}.")
        self._watch = Watch(monitor, mode=mode, min_delta=0.0, by=type(self).__name__)
        check_flag("save_best_only", save_best_only)
        for name, count in (("every_steps", every_steps), ("keep_last", keep_last)):
            if count is not None:
                check_count(name, count, least=1)
        if isinstance(trust, str):
            raise InvalidParameterError(f"trust must be a sequence of names, got the text {trust!r}.")
        self.path = path
        self.monitor = monitor
        self.mode = mode
        self.save_best_only = save_best_only
        self.every_steps = every_steps
        self.keep_last = keep_last
        self.trust = trust
        self.best_path_: Path | None = None
        self.paths_: list[Path] = []
        self._begun = False

    @property
    def best_(self) -> float | None:
        """Best value so far."""
        return self._watch.best

    @property
    def _folder(self) -> Path:
        return Path(self.path).expanduser()

    def judge(self, point: ControlPoint) -> Verdict:
        """Write the model.

        Raises
        ------
        InvalidParameterError
            The metric was not measured at the end of an epoch, or it is not known whether less of it is better.
        CheckpointError
            The model cannot be written without pickling, or the file cannot be written.
        """
        if not self._begun:
            self._begin()
        better = self._improves(point)
        if better or not self.save_best_only:
            content = self._encode(point.model)
            if not self.save_best_only:
                self._write_numbered(point, content)
            if better:
                self.best_path_ = self._write(_BEST, content)
        return Verdict()

    def _encode(self, model: Any) -> bytes:
        try:
            return model_bytes(model, trust=self.trust)
        except CheckpointError as error:
            raise CheckpointError(
                f"ModelCheckpoint cannot write the model. {error} What ModelCheckpoint writes, its own trust= lets in."
            ) from error

    def _improves(self, point: ControlPoint) -> bool:
        name = self._watch.name
        measured = bool(point.metrics) if name is None else name in point.metrics
        needed = point.ended and (name is not None or self.save_best_only)
        return (measured or needed) and self._watch.improves(point.metrics)

    def _write_numbered(self, point: ControlPoint, content: bytes) -> None:
        epoch, step = (point.epoch + 1, 0) if point.ended else (point.epoch, point.step)
        path = self._write(f"model-e{epoch:06d}-s{step:08d}.skops", content)
        self.paths_.append(path)
        if self.keep_last is not None:
            for old in self.paths_[: -self.keep_last]:
                remove_file(old)
            self.paths_ = self.paths_[-self.keep_last :]

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        try:
            write_atomically(path, content)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be written: {error}. The models before it are kept.") from error
        return path

    def _begin(self) -> None:
        """Remove what an earlier process was writing when it ended, and tell of models that are of another fit."""
        self._begun = True
        for stray in (*self._folder.glob(f"{_MODELS}.partial"), *self._folder.glob(f"{_BEST}.partial")):
            remove_file(stray)
        others = sorted([*self._folder.glob(_MODELS), *self._folder.glob(_BEST)])
        if others and not self.paths_ and self.best_path_ is None:
            logger.warning(
                "%s has %d models already, such as %s: those that have the same names are replaced, the others stay. "
                "Give each fit a folder of its own.",
                self._folder,
                len(others),
                others[0].name,
            )

    def state(self) -> dict[str, Any]:
        """Give the best value so far and the names of the files."""
        return self._watch.state() | {
            "has_best": self.best_path_ is not None,
            "names": [path.name for path in self.paths_],
        }

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Go on from a checkpoint; files that are no longer there are forgotten."""
        self.paths_ = [path for name in state["names"] if (path := self._folder / name).exists()]
        if self._watch.restore(state) and state["has_best"]:
            best = self._folder / _BEST
            if best.exists():
                self.best_path_ = best
            else:
                self._watch.best = None  # of what can still be written, the next one is the best
        self._begin()
        return False
