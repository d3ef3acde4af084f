"""Model and query of a campaign as settings in its file: names and parameters, or digests that recognise them."""

from __future__ import annotations

import json
from typing import Any

from sklearn.base import clone

from .._checks import ParameterError, check_parameters, shown, warn
from .._fingerprint import digest
from .._random import check_random_state
from ..acsfw import ACSFWQuery
from ..badge import BADGEQuery
from ..batchbald import BatchBALDQuery
from ..kcenter import KCenterQuery
from ..query import StochasticBatchQuery
from ..scores import SCORES
from . import _models as models
from ._store import CampaignError

QUERIES = {
    query.__name__: query for query in (StochasticBatchQuery, BatchBALDQuery, BADGEQuery, ACSFWQuery, KCenterQuery)
}
"""Queries that a file can hold: by name, with parameters that JSON can hold."""

ONE_IN_TEN = 0.1
"""Picks of the default query that are uniform, so that labels estimate the accuracy on the whole pool."""


def default_query() -> StochasticBatchQuery:
    return StochasticBatchQuery(epsilon=ONE_IN_TEN)


def query_settings(query: Any, kind: str) -> dict[str, Any]:
    """The parameters of a query, or digests of them; refuse a query that can never choose."""
    if not hasattr(query, "select") or not hasattr(query, "get_params"):
        raise TypeError(
            f"`query` must be a query, such as StochasticBatchQuery(). Got {query!r} of type {type(query).__name__}."
        )
    if hasattr(query, "rules"):
        check_parameters(query.rules, query.get_params(deep=False))
    if isinstance(query, StochasticBatchQuery):
        _check_can_choose(query, kind)
    params = {name: value for name, value in query.get_params(deep=False).items() if name != "random_state"}
    if QUERIES.get(type(query).__name__) is type(query) and _is_plain(params):
        return {"name": type(query).__name__, "params": params}
    return {"name": type(query).__name__, **_digests("query", query)}


def _check_can_choose(query: StochasticBatchQuery, kind: str) -> None:
    query.check_parameters()
    tasks = getattr(SCORES.get(query.score if isinstance(query.score, str) else ""), "tasks", ())
    task = "classifier" if kind == "classes" else "regressor"
    if tasks and task not in tasks:
        raise CampaignError(
            f'`score`={query.score!r} is not for a {task}, which the labels ask for. Leave it at "auto".'
        )


def _is_plain(params: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(params, allow_nan=False)) is not None)
    except (TypeError, ValueError):
        return False


def query_of(settings: dict[str, Any], given: Any, kind: str) -> Any:
    """The query of the settings, or the given one, if it is the same."""
    if given is not None:
        _check_same("query", settings, query_settings(given, kind))
        return given
    if "params" in settings:
        return QUERIES[settings["name"]](**settings["params"])
    raise CampaignError(
        f"`query` must be handed in: the campaign was started with a {settings['name']} of your own parts, and its "
        "file holds no code. Give the same one."
    )


def model_settings(model: Any) -> dict[str, Any]:
    """The name of a model, or digests of its parameters."""
    is_estimator = all(hasattr(model, name) for name in ("fit", "get_params", "set_params"))
    if isinstance(model, type) or not (is_estimator or model in tuple(models.MODELS)):
        raise ParameterError(
            f"`model` must be one of {sorted(models.MODELS)}, or an estimator that scikit-learn can clone. "
            f"Got {shown(model)}."
        )
    if isinstance(model, str):
        return {"name": model, "vectorizer": "skrub" if models.has_skrub() else "plain"}
    return {"type": type(model).__name__, **_digests("model", clone(model))}


def model_of(settings: dict[str, Any], given: Any) -> Any:
    """The name of the model, or the given model, if it is the same."""
    if "name" not in settings:
        if given is None:
            raise CampaignError(
                f"`model` must be handed in: the campaign was started with a {settings['type']}, and its file holds no "
                "code. Give `Campaign.open` the same one."
            )
        _check_same("model", settings, model_settings(given))
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


def _digests(name: str, part: Any) -> dict[str, Any]:
    """What recognises a model or query: a digest of it, and of each parameter, to name those that differ.

    Random states count for nothing: the campaign has seeds of its own.
    """
    params = {key: value for key, value in part.get_params().items() if not key.endswith("random_state")}
    try:
        return {"digest": digest(part), "digests": {key: digest(value) for key, value in params.items()}}
    except ValueError as error:
        raise CampaignError(f"`{name}` cannot be recognised when the campaign is opened again: {error}.") from error


def _check_same(name: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Check that something handed in has the settings from the start of the campaign."""
    now = json.loads(json.dumps(now))  # tuples are lists in the file
    if before == now:
        return
    old, new = ({**one.get("params", {}), **one.get("digests", {})} for one in (before, now))
    others = [param for param in {**old, **new} if old.get(param) != new.get(param)]
    # Of "steps" and "scaler__with_mean", which hold the same difference, the latter says more.
    what = f"parameter `{max(others, key=len)}`" if others else "class"
    raise CampaignError(
        f"`{name}` must be the one that the campaign was started with. Its {what} is another one now: give the first "
        "one, or start a new campaign."
    )


def query_of_batch(query: Any, seed: int, number: int, verbose: int = 0) -> Any:
    """A clone of the query with a seed made of the campaign's and of the number of the batch."""
    twin = _seeded(query, int(check_random_state([seed, 1, number]).integers(2**31 - 1)))
    if verbose and "verbose" in twin.get_params(deep=False):
        twin.set_params(verbose=verbose)
    return twin


def _seeded(query: Any, seed: int | None) -> Any:
    twin = clone(query)
    if "random_state" in twin.get_params(deep=False):
        twin.set_params(random_state=seed)
    return twin


def warn_of_state(query: Any) -> None:
    """Warn if a user's query has kept something beside its parameters and its results, whose names end in "_"."""
    if type(query).__module__.partition(".")[0] == "skactive":
        return
    known = {*query.get_params(deep=False), "_batch"}
    kept = [name for name in vars(query) if name not in known and not name.endswith("_")]
    if kept:
        warn(
            f"`query` has kept {', '.join(kept)} beside its parameters. A campaign gives each batch a clone of the "
            "query: this is not there for the next batch."
        )
