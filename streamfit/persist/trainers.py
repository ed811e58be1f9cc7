"""The file of a `StreamTrainer`."""

from __future__ import annotations

from dataclasses import asdict, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any

from sklearn.multioutput import MultiOutputClassifier

from streamfit.incremental.transformers import TransformerMethod
from streamfit.options import StreamOptions
from streamfit.persist.parts import FITTED, LEFT_OUT, UNFITTED, column_names, file_bytes, name_columns
from streamfit.plan.epoch import EpochPlan
from streamfit.plan.layout import SparseSize, StoreLayout
from streamfit.run.codecs import encode_estimator
from streamfit.run.links import links_of
from streamfit.trainer import StreamTrainer

if TYPE_CHECKING:
    from collections.abc import Collection

    from streamfit.run.model_file import ModelFile

__all__ = ["read_trainer", "trainer_bytes"]

_FACTS = ("history_", "seed_", "n_epochs_", "n_steps_", "stopped_by_", "n_features_in_")


def trainer_bytes(trainer: StreamTrainer, *, trust: Collection[str]) -> bytes:
    """Write a trainer as the content of a file.

    Raises
    ------
    UnwritableError, UntrustedTypesError
        Its estimator or one of its parameters cannot be written, or not be read back.
    """
    parameters = {name: value for name, value in trainer.get_params(deep=False).items() if name not in LEFT_OUT}
    stream = parameters.pop("stream")
    fitted = hasattr(trainer, "estimator_")
    seed = parameters["random_state"]
    if seed is not None and not isinstance(seed, Integral):
        # A RandomState: the seed that the fit drew from it.
        parameters["random_state"] = trainer.seed_ if fitted else None
    facts: dict[str, Any] = {
        "parameters": parameters,
        "stream": None if stream is None else asdict(stream),
        "fitted": None,
    }
    parts = {UNFITTED: encode_estimator(trainer.estimator, trust=trust, complete=True)}
    if fitted:
        facts["fitted"] = {name: getattr(trainer, name) for name in _FACTS} | {
            "feature_names": column_names(trainer),
            "transformer_methods": [asdict(method) for method in trainer.transformer_methods_],
            "plan": None if getattr(trainer, "plan_", None) is None else _plan_facts(trainer.plan_),
        }
        parts[FITTED] = encode_estimator(trainer.estimator_, trust=trust, complete=True)
    return file_bytes("trainer", facts, parts)


def read_trainer(held: ModelFile, *, trust: Collection[str]) -> StreamTrainer:
    """Read a trainer.

    Raises
    ------
    CheckpointError
        As `sf.load`.
    """
    facts = held.facts
    stream = None if facts["stream"] is None else StreamOptions(**facts["stream"])
    trainer = StreamTrainer(held.decode(UNFITTED, trust=trust), stream=stream, **facts["parameters"])
    fitted = facts["fitted"]
    if fitted is None:
        return trainer
    trainer.estimator_ = held.decode(FITTED, trust=trust)
    for name in _FACTS:
        setattr(trainer, name, fitted[name])
    name_columns(trainer, fitted["feature_names"])
    trainer.transformer_methods_ = tuple(TransformerMethod(**method) for method in fitted["transformer_methods"])
    trainer.callbacks_ = []
    if fitted["plan"] is not None:
        trainer.plan_ = _plan(fitted["plan"])
    last = links_of(trainer.estimator_)[-1]
    if hasattr(trainer.estimator_, "classes_"):
        trainer.classes_ = trainer.estimator_.classes_
    elif isinstance(last, MultiOutputClassifier):  # which has them only of each label
        trainer.classes_ = [each.classes_ for each in last.estimators_]
    return trainer


def _plan_facts(plan: EpochPlan) -> dict[str, Any] | None:
    if plan.sampling is not None:
        return None  # it reads values of rows in the store
    return {item.name: getattr(plan, item.name) for item in fields(plan) if item.init and item.name != "layout"} | {
        "layout": {item.name: getattr(plan.layout, item.name) for item in fields(plan.layout) if item.init}
        | {"sparse": None if plan.layout.sparse is None else asdict(plan.layout.sparse)}
    }


def _plan(facts: dict[str, Any]) -> EpochPlan:
    layout = facts["layout"]
    sparse, starts = layout["sparse"], layout["starts"]
    known = layout | {
        "sparse": None if sparse is None else SparseSize(**sparse),
        "starts": None if starts is None else tuple(starts),
    }
    return EpochPlan(**facts | {"layout": StoreLayout(**known)})
