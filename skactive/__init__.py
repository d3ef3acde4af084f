"""Stochastic batch active learning for scikit-learn users."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# Where each public name lives. Nothing is imported before it is asked for (PEP 562): torch alone takes a second.
_MODULE_OF = {
    "ACSFWQuery": "acsfw",
    "BADGEQuery": "badge",
    "BatchBALDQuery": "batchbald",
    "CausalBALDQuery": "causal",
    "ExperimentResult": "experiment",
    "LastLayerClassifier": "last_layer",
    "LearningCurveDisplay": "plotting",
    "MCDropoutClassifier": "mc_dropout",
    "MCDropoutRegressor": "mc_dropout",
    "StochasticBatchQuery": "query",
    "StoppingReport": "stopping",
    "repair_modal": "_modal",
    "run_experiment": "experiment",
    "sample_posterior": "posterior",
}
_MODULES = {
    "acsfw",
    "badge",
    "batchbald",
    "causal",
    "datasets",
    "diagnostics",
    "plotting",
    "posterior",
    "risk",
    "samplers",
    "scores",
    "stopping",
}

__all__ = [
    "ACSFWQuery",
    "BADGEQuery",
    "BatchBALDQuery",
    "CausalBALDQuery",
    "ExperimentResult",
    "LastLayerClassifier",
    "LearningCurveDisplay",
    "MCDropoutClassifier",
    "MCDropoutRegressor",
    "StochasticBatchQuery",
    "StoppingReport",
    "datasets",
    "repair_modal",
    "run_experiment",
    "sample_posterior",
    "samplers",
    "scores",
]

if TYPE_CHECKING:
    from . import datasets, samplers, scores
    from ._modal import repair_modal
    from .acsfw import ACSFWQuery
    from .badge import BADGEQuery
    from .batchbald import BatchBALDQuery
    from .causal import CausalBALDQuery
    from .experiment import ExperimentResult, run_experiment
    from .last_layer import LastLayerClassifier
    from .mc_dropout import MCDropoutClassifier, MCDropoutRegressor
    from .plotting import LearningCurveDisplay
    from .posterior import sample_posterior
    from .query import StochasticBatchQuery
    from .stopping import StoppingReport


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
