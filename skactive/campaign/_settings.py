"""Model and query of a campaign as settings in its file: names and parameters, or digests that recognise them."""

from __future__ import annotations

import json
from typing import Any

from sklearn.base import clone

from .._utils.fingerprint import digest
from .._utils.validation import ParameterError, shown
from ..query import BatchQuery, StochasticBatchQuery
from ..scores import SCORES
from ._models import MODELS, has_skrub
from ._store import CampaignError


def _class_of(name: str) -> Any:
    """The query of the package of this name, whose parameters a file can hold; None of any other name."""
    import skactive

    found = getattr(skactive, name, None)
    return found if isinstance(found, type) and issubclass(found, BatchQuery) else None


def query_settings(query: Any, kind: str) -> dict[str, Any]:
    """The parameters of a query, or a digest of them; refuse a query that can never choose."""
    if not hasattr(query, "select") or not hasattr(query, "get_params"):
        raise TypeError(f"`query` must be a query, such as StochasticBatchQuery(). Got {shown(query)}.")
    if hasattr(query, "check_parameters"):
        query.check_parameters()
    if isinstance(query, StochasticBatchQuery):
        _check_score(query.score, kind)
    name = type(query).__name__
    params = {key: value for key, value in query.get_params(deep=False).items() if key != "random_state"}
    if _class_of(name) is type(query) and _is_plain(params):
        return {"name": name, "params": params}
    return {"name": name, "digest": _digest("query", query)}


def _check_score(score: Any, kind: str) -> None:
    tasks = getattr(SCORES.get(score if isinstance(score, str) else ""), "tasks", ())
    task = "classifier" if kind == "classes" else "regressor"
    if tasks and task not in tasks:
        raise CampaignError(f'`score`={score!r} is not for a {task}, which the labels ask for. Leave it at "auto".')


def _is_plain(params: dict[str, Any]) -> bool:
    try:
        json.dumps(params, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def query_of(settings: dict[str, Any], given: Any, kind: str) -> Any:
    """The query of the settings, or the given one, if it is the same."""
    if given is None and "params" in settings:
        return _class_of(settings["name"])(**settings["params"])
    _check_same("query", settings, given, None if given is None else query_settings(given, kind))
    return given


def model_settings(model: Any) -> dict[str, Any]:
    """The name of a model, or a digest of its parameters."""
    if isinstance(model, str) and model in MODELS:
        return {"name": model, "vectorizer": "skrub" if has_skrub() else "plain"}
    if isinstance(model, type) or not all(hasattr(model, name) for name in ("fit", "get_params", "set_params")):
        raise ParameterError(
            f"`model` must be one of {sorted(MODELS)}, or an estimator that scikit-learn can clone. Got {shown(model)}."
        )
    return {"name": type(model).__name__, "digest": _digest("model", clone(model))}


def model_of(settings: dict[str, Any], given: Any) -> Any:
    """The name of the model, or the given model, if it is the same."""
    if settings.get("vectorizer") == "skrub" and not has_skrub():
        raise CampaignError(
            "`model` needs skrub, which the campaign was started with and which is not installed. Install the extra "
            '"tabular": python -m pip install "skactive[tabular]".'
        )
    if given is None and "digest" not in settings:
        return settings["name"]
    _check_same("model", settings, given, None if given is None else model_settings(given))
    return given


def _digest(name: str, part: Any) -> str:
    """What recognises a model or query; random states count for nothing, as the campaign has seeds of its own."""
    try:
        return digest(part)
    except ValueError as error:
        raise CampaignError(f"`{name}` cannot be recognised when the campaign is opened again: {error}.") from error


def _check_same(name: str, before: dict[str, Any], given: Any, now: dict[str, Any] | None) -> None:
    """Check that something is handed in, and has the settings from the start of the campaign."""
    if now is None:
        raise CampaignError(
            f"`{name}` must be handed in: the campaign was started with a {before['name']}, and its file holds no "
            "code. Give `Campaign.open` the same one."
        )
    now = json.loads(json.dumps(now))  # tuples are lists in the file
    if any(before.get(key) != now.get(key) for key in ("name", "params", "digest")):
        raise CampaignError(
            f"`{name}` must be the one that the campaign was started with, a {before['name']} with the same "
            f"parameters. Got {shown(given)}: give the first one, or start a new campaign."
        )
