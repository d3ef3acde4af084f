"""Active learning for scikit-learn: which unlabelled rows to label next."""

from __future__ import annotations

import importlib.util
import pkgutil
from typing import Any

__version__ = "0.1.0.dev0"

# Public names by module, which is imported when one of its names is first used (PEP 562), because torch alone takes a
# second. `__init__.pyi` has the same names for editors and type checkers.
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


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    if name.isidentifier() and not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    modules = {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}
    return sorted({*__all__, *modules, "__version__"})
