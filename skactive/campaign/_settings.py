"""Model and query of a campaign as plain settings: all there is to them, or what tells one from another."""

from __future__ import annotations

import json
from typing import Any

from sklearn.base import clone

from .._checks import ParameterError, check_parameters, shown
from .._fingerprint import digest
from .._random import check_random_state
from ..acsfw import ACSFWQuery
from ..badge import BADGEQuery
from ..batchbald import BatchBALDQuery
from ..kcenter import KCenterQuery
from ..query import StochasticBatchQuery
from ..query._sampling import check_coldness, check_keeps_apart
from ..scores import SCORES
from . import _models as models
from ._errors import CampaignError

QUERIES = {
    query.__name__: query for query in (StochasticBatchQuery, BatchBALDQuery, BADGEQuery, ACSFWQuery, KCenterQuery)
}

ONE_IN_TEN = 0.1
"""Picks of the default query that are uniform, so that accuracy can be estimated from labels that were not."""


def default_query() -> StochasticBatchQuery:
    return StochasticBatchQuery(epsilon=ONE_IN_TEN)


def settings_of(query: Any, kind: str) -> dict[str, Any]:
    """What to write down of a query: all of it, or what tells it from another one; refuse one that can never choose."""
    if not hasattr(query, "select") or not hasattr(query, "get_params"):
        raise TypeError(
            f"`query` must be a query, such as StochasticBatchQuery(). Got {query!r} of type {type(query).__name__}."
        )
    if hasattr(query, "rules"):
        check_parameters(query.rules, query.get_params(deep=False))
    if isinstance(query, StochasticBatchQuery):
        check_keeps_apart(query.diversity, query.sampler)
        check_coldness(query.beta, query.sampler)
        tasks = getattr(SCORES.get(query.score if isinstance(query.score, str) else ""), "tasks", ())
        task = "classifier" if kind == "classes" else "regressor"
        if tasks and task not in tasks:
            raise CampaignError(
                f'`score`={query.score!r} is not for a {task}, which the labels ask for. Leave it at "auto".'
            )
    params = {name: value for name, value in query.get_params(deep=False).items() if name != "random_state"}
    if QUERIES.get(type(query).__name__) is type(query) and _is_plain(params):
        return {"name": type(query).__name__, "params": params}
    return {"name": type(query).__name__, "description": digest(query)}


def _is_plain(params: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(params, allow_nan=False)) is not None)
    except (TypeError, ValueError):
        return False


def query_of(settings: dict[str, Any], given: Any, kind: str) -> Any:
    """The query that was written down, or the one that is handed in, if it is the same."""
    if given is not None:
        check_same("query", settings, settings_of(given, kind))
        return given
    if "params" in settings:
        return QUERIES[settings["name"]](**settings["params"])
    raise CampaignError(
        f"`query` must be handed in: the campaign was started with a {settings['name']} of your own parts, and its "
        "file holds no code. Give the same one."
    )


def model_settings(model: Any) -> dict[str, Any]:
    """What to write down of a model: its name, or what tells it from another one."""
    is_estimator = all(hasattr(model, name) for name in ("fit", "get_params", "set_params"))
    if isinstance(model, type) or not (is_estimator or model in tuple(models.MODELS)):
        raise ParameterError(
            f"`model` must be one of {sorted(models.MODELS)}, or an estimator that scikit-learn can clone. "
            f"Got {shown(model)}."
        )
    if isinstance(model, str):
        return {"name": model, "vectorizer": "skrub" if models.has_skrub() else "plain"}
    return {"type": type(model).__name__, "description": digest(clone(model))}


def model_of(settings: dict[str, Any], given: Any) -> Any:
    """The name of the model, or the one that is handed in, if it is the same."""
    if "name" not in settings:
        if given is None:
            raise CampaignError(
                f"`model` must be handed in: the campaign was started with a {settings['type']}, and its file holds no "
                "code. Give `Campaign.open` the same one."
            )
        check_same("model", settings, model_settings(given))
        return given
    if given is not None and given != settings["name"]:
        raise CampaignError(
            f"`model` must be the one that the campaign was started with, {settings['name']!r}. Got {shown(given)}: "
            "leave it out, or start a new campaign."
        )
    if settings["vectorizer"] == "skrub" and not models.has_skrub():
        raise CampaignError(
            "`model` needs skrub, which the campaign was started with and which is not installed. Install the extra "
            '"tabular": python -m pip install "skactive[tabular]".'
        )
    return settings["name"]


def check_same(name: str, before: Any, now: Any) -> None:
    """Check that something handed in has the settings that the campaign was started with."""
    if json.loads(json.dumps(before)) != json.loads(json.dumps(now)):
        raise CampaignError(
            f"`{name}` must be the one that the campaign was started with. Give the first one, or start a new campaign."
        )


def ready(query: Any, state: bytes | None, seed: int, verbose: int = 0) -> Any:
    """A copy of the query that goes on where the last batch left it, and shows its progress if asked to."""
    twin = clone(query)
    if "random_state" in twin.get_params(deep=False):
        twin.set_params(random_state=int(check_random_state([seed, 1]).integers(2**31 - 1)))
    if verbose and "verbose" in twin.get_params(deep=False):
        twin.set_params(verbose=verbose)
    return twin
