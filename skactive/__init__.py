"""Stochastic batch active learning for scikit-learn users."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names by module, twice: for editors and type checkers, with all public modules, and for Python, which imports a
# module when one of its names is first used (PEP 562), because torch alone takes a second.
if TYPE_CHECKING:
    from . import acsfw as acsfw
    from . import badge as badge
    from . import batchbald as batchbald
    from . import campaign as campaign
    from . import causal as causal
    from . import cli as cli
    from . import datasets as datasets
    from . import experiment as experiment
    from . import kcenter as kcenter
    from . import last_layer as last_layer
    from . import mc_dropout as mc_dropout
    from . import plotting as plotting
    from . import posterior as posterior
    from . import query as query
    from . import risk as risk
    from . import samplers as samplers
    from . import scores as scores
    from . import stopping as stopping
    from ._containers import blocks as blocks
    from ._modal import repair_modal as repair_modal
    from .acsfw import ACSFWQuery as ACSFWQuery
    from .badge import BADGEQuery as BADGEQuery
    from .batchbald import BatchBALDQuery as BatchBALDQuery
    from .campaign import Campaign as Campaign
    from .causal import CausalBALDQuery as CausalBALDQuery
    from .experiment import ExperimentResult as ExperimentResult
    from .experiment import run_experiment as run_experiment
    from .kcenter import KCenterQuery as KCenterQuery
    from .last_layer import LastLayerClassifier as LastLayerClassifier
    from .mc_dropout import MCDropoutClassifier as MCDropoutClassifier
    from .mc_dropout import MCDropoutRegressor as MCDropoutRegressor
    from .plotting import LearningCurveDisplay as LearningCurveDisplay
    from .posterior import sample_posterior as sample_posterior
    from .query import Limits as Limits
    from .query import StochasticBatchQuery as StochasticBatchQuery
    from .stopping import StoppingReport as StoppingReport

_MODULE_OF = {
    "blocks": "_containers",
    "repair_modal": "_modal",
    "ACSFWQuery": "acsfw",
    "BADGEQuery": "badge",
    "BatchBALDQuery": "batchbald",
    "Campaign": "campaign",
    "CausalBALDQuery": "causal",
    "ExperimentResult": "experiment",
    "run_experiment": "experiment",
    "KCenterQuery": "kcenter",
    "LastLayerClassifier": "last_layer",
    "MCDropoutClassifier": "mc_dropout",
    "MCDropoutRegressor": "mc_dropout",
    "LearningCurveDisplay": "plotting",
    "sample_posterior": "posterior",
    "Limits": "query",
    "StochasticBatchQuery": "query",
    "StoppingReport": "stopping",
}

__all__ = sorted([*_MODULE_OF, "datasets", "samplers", "scores"])


if not TYPE_CHECKING:  # to checkers a module that has this has every name, misspelt ones as well

    def __getattr__(name: str) -> Any:
        if name in _MODULE_OF:
            return getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
        if name.isidentifier() and not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}"):
            return importlib.import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
