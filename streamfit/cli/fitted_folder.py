"""The folder that ``fit`` writes and ``score`` reads.

::

    out/
      checkpoint/     estimators: the state of a fit that is not done, where no other folder is named
      summary.json    written last: a folder without it is unfinished
      model.skops     the fitted estimator or detector, where it can be written without pickling
      history.json    estimators: metrics of each epoch
      scores.npy      detectors: one float64 a row
      top.csv         detectors: the rows with the highest scores
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfit.cli.json_text import json_text
from streamfit.cli.model_path import is_detector
from streamfit.detectors.saved import without_scores
from streamfit.errors import (
    CheckpointError,
    StoreExistsError,
    StoreLockedError,
    StoreNotFoundError,
    UnsupportedError,
    UntrustedTypesError,
    UnwritableError,
)
from streamfit.run.model_file import model_bytes, read_model_file
from streamfit.store.atomic import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FittedFolder"]

logger = logging.getLogger(__name__)

_SUMMARY = "summary.json"
_FORMAT = 1


class FittedFolder:
    """Results of one fit.

    Parameters
    ----------
    path : str
        The folder.
    trusted : sequence of str
        Packages whose types may be in the model, besides those that streamfit knows.
    """

    def __init__(self, path: str, *, trusted: Sequence[str]) -> None:
        self.path = Path(path).expanduser().absolute()
        self.trusted = tuple(trusted)

    @property
    def model_file(self) -> Path:
        """The model."""
        return self.path / "model.skops"

    @property
    def scores_file(self) -> Path:
        """Training scores of a detector."""
        return self.path / "scores.npy"

    @property
    def checkpoint_folder(self) -> Path:
        """State of an estimator's fit, where the user names no other folder for it."""
        return self.path / "checkpoint"

    def remove_checkpoint(self) -> None:
        """Remove the state in `checkpoint_folder`."""
        shutil.rmtree(self.checkpoint_folder, ignore_errors=True)

    @contextmanager
    def begin(self, *, overwrite: bool, resume: bool) -> Iterator[None]:
        """Make the folder, and hold it for the length of a ``with`` block.

        Parameters
        ----------
        overwrite : bool
            Results that are there are removed.
        resume : bool
            They stay until there are others.

        Raises
        ------
        StoreExistsError
            Another fit has finished there, and neither is asked for.
        StoreLockedError
            Another fit is writing there.
        """
        if (self.path / _SUMMARY).exists() and not (overwrite or resume):
            if self.checkpoint_folder.exists():
                raise StoreExistsError(
                    f"{self.path} holds a fit that ended before its last epoch. Add --resume to go on with it, add "
                    "--overwrite to begin anew, or choose another --out."
                )
            raise StoreExistsError(f"{self.path} holds a finished fit. Choose another --out or add --overwrite.")
        self.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.path, os.O_RDONLY)
        try:
            try:
                # On the folder itself: nothing is left in it, and it is let go when the process dies.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreLockedError(
                    f"Another fit is writing to {self.path}. Wait for it, or choose another --out."
                ) from error
            except OSError as error:  # such as network drives
                logger.debug("%s cannot be locked: %s", self.path, error)
            if not resume:
                for file in (self.path / _SUMMARY, self.model_file, self.scores_file):
                    file.unlink(missing_ok=True)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a folder for the length of a ``with`` block. What a killed fit left there goes first."""
        path = self.path / "scratch"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file."""
        (self.path / name).write_text(json_text(value, indent=2) + "\n", encoding="utf-8")

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary: the fit is done."""
        self.write_json(_SUMMARY, {"format": _FORMAT} | summary)

    def write_model(self, model: Any) -> str | None:
        """Write the model, or say in a sentence why that cannot be done."""
        (self.path / _SUMMARY).unlink(missing_ok=True)  # of an earlier model
        # Of a detector one value a row lies in scores.npy already, or follows from it.
        model = without_scores(model) if is_detector(model) else model
        try:
            content = model_bytes(model, trust=self.trusted)
        except UnwritableError as error:
            return str(error)
        except UntrustedTypesError as error:
            return _told_to_trust(f"{type(model).__name__}", error)
        write_atomically(self.model_file, content)
        return None

    def read(self) -> tuple[dict[str, Any], Any]:
        """Give the summary and the model.

        Raises
        ------
        StoreNotFoundError
            There is no finished fit.
        UnsupportedError
            The fit has no model on disk.
        CheckpointError
            Summary or model are damaged, or the model holds types that are not trusted.
        """
        try:
            summary: dict[str, Any] = json.loads((self.path / _SUMMARY).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise StoreNotFoundError(f"There is no finished fit in {self.path}. Run streamfit fit first.") from None
        except ValueError as error:
            raise CheckpointError(f"{self.path / _SUMMARY} cannot be read: {error}. Fit again.") from error
        if summary.get("format") != _FORMAT:
            raise CheckpointError(f"{self.path} was not written by this version of streamfit. Fit again.")
        if summary["not_saved"] is not None:
            raise UnsupportedError(f"The fit in {self.path} left no model to score with: {summary['not_saved']}")
        model = self._read_model()
        if is_detector(model):
            # PyOD takes a detector for fitted when these are there.
            model.decision_scores_ = np.load(self.scores_file, mmap_mode="r")
            model.labels_ = np.empty(0, dtype=np.int64)
        return summary, model

    def _read_model(self) -> Any:
        try:
            held = read_model_file(self.model_file.read_bytes(), str(self.model_file))
            held.warn_of_versions(str(self.model_file), stacklevel=3)
            return held.decode("model", trust=self.trusted)
        except UntrustedTypesError as error:
            raise CheckpointError(_told_to_trust(str(self.model_file), error)) from error
        except CheckpointError as error:
            raise CheckpointError(str(error).replace("Save the model again", "Fit again")) from error
        except OSError as error:
            raise CheckpointError(f"{self.model_file} cannot be read: {error}. Fit again.") from error


def _told_to_trust(what: str, error: UntrustedTypesError) -> str:
    return (
        f"{what} holds types that are not trusted: {', '.join(error.types)}. "
        f"If you know them, add --trust {error.types[0].partition('.')[0]}."
    )
