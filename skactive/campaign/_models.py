"""Models by name, with preprocessing for texts, dates, categories and gaps; fits; settings of a file.

Preprocessing is fitted to all rows of the table, labelled or not, so that it knows each category; the model itself to
the labelled rows. Every fit starts anew, with the seed of the campaign and the rows in the order of the table.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from .._utils.fingerprint import digest
from .._utils.randomness import check_random_state, seeded_clone, seeded_for
from .._utils.validation import ParameterError, shown
from ..posterior._registry import class_probabilities
from ..query import BatchQuery, StochasticBatchQuery
from ..scores import SCORES
from ._columns import MOST_CATEGORIES, Reading, read, some_of
from ._store import CampaignError


def _net(kind: str) -> Any:
    from .. import mc_dropout  # loads torch

    net: Any = mc_dropout.MCDropoutClassifier if kind == "classes" else mc_dropout.MCDropoutRegressor
    return net(max_epochs=150, batch_size=32, lr=3e-3)


def _auto(kind: str) -> Any:
    """The mean of the probabilities of a forest and a linear model; of numbers, a forest."""
    if kind == "numbers":
        return MODELS["forest"](kind)
    linear = make_pipeline(StandardScaler(), MODELS["logistic"](kind))
    return VotingClassifier([("forest", MODELS["forest"](kind)), ("logistic", linear)], voting="soft")


MODELS: dict[str, Callable[[str], Any]] = {
    "auto": _auto,
    "forest": lambda kind: (
        RandomForestClassifier(100) if kind == "classes" else RandomForestRegressor(100, min_samples_leaf=2)
    ),
    "logistic": lambda kind: LogisticRegression(max_iter=1000) if kind == "classes" else BayesianRidge(),
    "boosting": lambda kind: (
        HistGradientBoostingClassifier(min_samples_leaf=5, max_iter=50)
        if kind == "classes"
        else HistGradientBoostingRegressor(min_samples_leaf=5, max_iter=50)
    ),
    "net": _net,
}
"""By name, for classes and for numbers; "logistic" is a linear model of either."""


def has_skrub() -> bool:
    return importlib.util.find_spec("skrub") is not None


def fitted_preprocessing(X: pd.DataFrame, readings: dict[str, Reading], vectorizer: str, seed: int) -> Any:
    """A transformer from columns of a table to numbers, fitted to its rows, or to `MOST_ROWS` at even distances."""
    if vectorizer == "skrub" and not {one.kind for one in readings.values()} <= {"number", "embedding", "empty"}:
        from skrub import TableVectorizer  # which does nothing to numbers, slowly

        steps = [FunctionTransformer(_with_categories), TableVectorizer(), _gaps()]
    else:
        steps = [Columns()]
    prepared = seeded_clone(make_pipeline(Clean(readings), *steps), np.random.default_rng(seed))
    return Preprocessing(prepared.fit(some_of(X)))


class Preprocessing(FrozenEstimator):
    """The first step of a model by name, the same in all fits of a campaign."""


def without_preprocessing(model: Any, *tables: pd.DataFrame) -> tuple[Any, ...]:
    """A model by name behind its preprocessing, and what that makes of tables; of other models nothing changes."""
    if not (isinstance(model, Pipeline) and isinstance(model[0], Preprocessing)):
        return model, *tables
    return model[1:], *(pd.DataFrame(model[0].transform(X), X.index, copy=False) for X in tables)


def named_model(name: str, prepared: Any, kind: str) -> Pipeline:
    """A pipeline that takes rows of the table; ``prepared`` is the fitted preprocessing."""
    scale = [StandardScaler()] if name in ("logistic", "net") else []
    return make_pipeline(prepared, *scale, MODELS[name](kind))


def in_words(settings: dict[str, Any], kind: str) -> str:
    """The model of a campaign, and what "auto" is."""
    chosen = {"classes": " (mean of a forest and a logistic regression)", "numbers": " (a forest)"}
    return settings["name"] + (chosen[kind] if settings["name"] == "auto" else "")


def _gaps() -> SimpleImputer:
    """Gaps of numbers as their median, with a mark beside."""
    return SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)


def _with_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Texts in a type that skrub does not read once more, as numbers or dates."""
    return X.astype(dict.fromkeys(X.select_dtypes(object), "category"))


class Clean(TransformerMixin, BaseEstimator):
    """Columns as they are read: numbers, dates or texts, and a column for each place in lists."""

    def __init__(self, readings: dict[str, Reading]) -> None:
        self.readings = readings

    def fit(self, X: pd.DataFrame, y: Any = None) -> Clean:
        self.feature_names_in_ = np.array(X.columns, dtype=object)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        found = {name: read(X[name], reading) for name, reading in self.readings.items()}
        parts = ({name: one} if isinstance(one, pd.Series) else dict(one.items()) for name, one in found.items())
        return pd.DataFrame({name: column for part in parts for name, column in part.items()}, index=X.index)


class Columns(TransformerMixin, BaseEstimator):
    """Numbers of columns that `Clean` left: gaps marked, texts as categories, dates as days and parts of a year."""

    def fit(self, X: pd.DataFrame, y: Any = None) -> Columns:
        numbers = [name for name in X.columns if X[name].dtype.kind == "f"]
        dates = [name for name in X.columns if X[name].dtype.kind == "M"]
        texts = [name for name in X.columns if name not in (*numbers, *dates)]
        categories = OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES, sparse_output=False
        )
        self.columns_ = make_column_transformer(
            (_gaps(), numbers),
            (make_pipeline(FunctionTransformer(_parts_of_dates), _gaps()), dates),
            (categories, texts),
        ).fit(X)
        return self

    def transform(self, X: pd.DataFrame) -> Any:
        return self.columns_.transform(X)


def _parts_of_dates(X: pd.DataFrame) -> Any:
    parts: dict[str, Any] = {}
    for name in X.columns:
        days = (X[name] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        parts |= {f"{name} day": days, f"{name} month": X[name].dt.month, f"{name} weekday": X[name].dt.day_of_week}
    return pd.DataFrame(parts, index=X.index).astype(np.float64)


# --- fits ----------------------------------------------------------------------------------------

FOLDS = 5


def fitted(model: Any, X: pd.DataFrame, y: NDArray[Any], seed: int) -> Any:
    """A fitted clone; a classifier that refuses labels as they are learns their numbers."""
    try:
        return _fitted(model, X, y, seed)
    except Exception as error:
        if y.dtype.kind != "f":
            with suppress(Exception):  # what is wrong with the labels as they are is told
                return _fitted(Numbered(model), X, y, seed)
        raise CampaignError(
            f"`model` could not be fitted to the {len(y)} labels so far. {type(error).__name__}: {error}"
        ) from error


def _fitted(model: Any, X: pd.DataFrame, y: NDArray[Any], seed: int) -> Any:
    twin = seeded_clone(model, check_random_state([seed, 0]))
    with seeded_for(twin, seed):
        return twin.fit(X, y)


class Numbered(ClassifierMixin, BaseEstimator):
    """A classifier, such as XGBoost's, that takes no labels but 0, 1, ..., for any labels."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Numbered:
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self.estimator_ = clone(self.estimator).fit(X, numbers)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[self.estimator_.predict(X)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return self.estimator_.predict_proba(X)


def handed_in(model: Any) -> Any:
    """A model that can be cloned: CatBoost copies lists that it is given, which `clone` refuses, and tuples not."""
    try:
        return clone(model)
    except RuntimeError:
        lists = {name: value for name, value in model.get_params().items() if type(value) is list}
        names = {name: tuple(some) for name, some in lists.items() if all(isinstance(one, str | int) for one in some)}
        return clone(copy.deepcopy(model).set_params(**names))


def guesses_of(model: Any, X: pd.DataFrame, kind: str) -> tuple[list[Any], NDArray[np.float64]]:
    """Predictions, and their probabilities, which need not be the largest."""
    model, X = without_preprocessing(model, X)
    guesses = np.asarray(model.predict(X)).reshape(len(X))  # CatBoost gives a column
    return guesses.tolist(), _of_labels(model, X, guesses, kind)


def guesses_beside(model: Any, X: pd.DataFrame, labels: pd.Series, kind: str) -> dict[str, pd.Series]:
    """Columns with predictions for the rows without a label."""
    is_open = labels.isna().to_numpy(dtype=bool)
    guesses = pd.Series(None, index=X.index, dtype=float if kind == "numbers" else object)
    sure = pd.Series(np.nan, index=X.index)
    if is_open.any():
        guesses[is_open], sure[is_open] = guesses_of(model, X[is_open], kind)
    return {"guess": guesses, "guess_probability": sure}


def has_enough(labels: Sequence[Any], kind: str) -> bool:
    """True if a model can be fitted: two labels, of two classes."""
    return len(labels) > 1 and (kind == "numbers" or len(set(labels)) > 1)


def folds_of(
    y: NDArray[Any], kind: str, seed: int, groups: NDArray[Any] | None = None
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None:
    """Training and test rows of each fold, which has all rows of a group; None if there are too few labels for it."""
    rng = check_random_state([seed, 2])
    shuffled = rng.permutation(len(y))
    if groups is not None:
        of_fold = _dealt_out(groups, shuffled)
    else:
        if kind == "classes":
            shuffled = shuffled[np.argsort(y[shuffled], kind="stable")]  # each class is dealt out to the folds in turn
        of_fold = np.empty(len(y), dtype=np.int64)
        of_fold[shuffled] = np.arange(len(y)) % max(min(FOLDS, len(y)), 1)
    n_folds = int(of_fold.max(initial=-1)) + 1
    folds = [(np.flatnonzero(of_fold != fold), np.flatnonzero(of_fold == fold)) for fold in range(n_folds)]
    return folds if len(folds) > 1 and all(has_enough(y[fit].tolist(), kind) for fit, _ in folds) else None


def _dealt_out(groups: NDArray[Any], shuffled: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fold of each row: groups, the largest first and else in random order, go to the fold with the fewest rows."""
    sizes = pd.Series(groups[shuffled]).value_counts(sort=False).sort_values(ascending=False, kind="stable")
    rows_in, fold_of = np.zeros(min(FOLDS, len(sizes))), {}
    for group, size in sizes.items():
        fold_of[group] = int(rows_in.argmin())
        rows_in[fold_of[group]] += size
    return np.array([fold_of[group] for group in groups], dtype=np.int64)


@dataclass(frozen=True)
class Judged:
    """Guesses for labelled rows, out of fold and of the model itself, and how these two sorts of models differ."""

    out_of_fold: pd.DataFrame  # guesses, their probabilities, and those of the labels
    own: list[Any]  # the guesses of the model that is fitted to all labels
    differ: float  # share of rows without a label for which the guesses differ; 0 of numbers
    differ_of: Mapping[Any, float]  # share for which only one of them guesses this class


def judged(
    model: Any,
    fitted_model: Any,
    X: pd.DataFrame,
    y: NDArray[Any],
    others: pd.DataFrame,
    kind: str,
    seed: int,
    groups: NDArray[Any] | None = None,
) -> Judged | None:
    """What judges a model that is fitted to X and y; ``others`` are rows without a label. None with too few labels."""
    folds = folds_of(y, kind, seed, groups)
    if folds is None:
        return None
    model, both = without_preprocessing(model, pd.concat([X, others]))  # in one, as there may be no others
    X, others, of_others = both.iloc[: len(y)], both.iloc[len(y) :], []
    guesses, sure, of_label = np.empty(len(y), dtype=object), np.empty(len(y)), np.empty(len(y))
    for fit, test in folds:
        one = fitted(model, X.iloc[fit], y[fit], seed)
        guesses[test], sure[test] = guesses_of(one, X.iloc[test], kind)
        if kind == "classes" and len(others):
            of_others.append(guesses_of(one, others, kind)[0])
        of_label[test] = _of_labels(one, X.iloc[test], y[test], kind)
    frame = pd.DataFrame({"guess": guesses, "guess_probability": sure, "label_probability": of_label}, index=X.index)
    own = guesses_of(without_preprocessing(fitted_model)[0], both, kind)[0]
    theirs, ours = np.array(of_others, dtype=object), np.array(own[len(y) :], dtype=object)
    differ = float((theirs != ours).mean()) if of_others else 0.0
    differ_of = {c: float(((theirs == c) != (ours == c)).mean()) if of_others else 0.0 for c in set(y.tolist())}
    return Judged(frame.infer_objects(), own[: len(y)], differ, differ_of)


def _of_labels(model: Any, X: pd.DataFrame, y: NDArray[Any], kind: str) -> NDArray[np.float64]:
    """The probability of each label; 0 for a class that the model does not know, NaN if it gives none."""
    if kind == "numbers" or not hasattr(model, "predict_proba"):
        return np.full(len(X), np.nan)
    probabilities, classes = class_probabilities(model, X)
    known = {label: i for i, label in enumerate(classes.tolist())}
    return np.array([probabilities[i, known[v]] if v in known else 0.0 for i, v in enumerate(y.tolist())])


# --- settings: names and parameters, or digests that recognise what is handed in again ------------


def _class_of(name: str) -> Any:
    """The query of the package of this name, whose parameters a file can hold; None of any other name."""
    import skactive

    found = getattr(skactive, name, None)
    return found if isinstance(found, type) and issubclass(found, BatchQuery) else None


def query_settings(query: Any, kind: str, model: Any = None) -> dict[str, Any]:
    """The parameters of a query, or a digest of them; refuse a query that can never choose, by this model say."""
    if not hasattr(query, "select") or not hasattr(query, "get_params"):
        raise TypeError(f"`query` must be a query, such as StochasticBatchQuery(). Got {shown(query)}.")
    if hasattr(query, "check_parameters"):
        query.check_parameters()
    if isinstance(query, StochasticBatchQuery):
        check_score(query.score, kind, model)
    name = type(query).__name__
    params = {key: value for key, value in query.get_params(deep=False).items() if key != "random_state"}
    if _class_of(name) is type(query) and _is_plain(params):
        return {"name": name, "params": params}
    return {"name": name, "digest": _digest("query", query)}


def check_score(score: Any, kind: str, model: Any = None) -> None:
    """Refuse a score that is not for these labels, or of which the model, if it has a name, cannot say a part."""
    known = SCORES.get(score) if isinstance(score, str) else None
    tasks = getattr(known, "tasks", ())
    task = "classifier" if kind == "classes" else "regressor"
    if tasks and task not in tasks:
        raise CampaignError(f'`score`={score!r} is not for a {task}, which these labels need. Leave it at "auto".')
    asks_for_noise = known is not None and "noise_variance" in inspect.signature(known).parameters
    if asks_for_noise and isinstance(model, str) and model != "logistic":
        raise CampaignError(f'`score`={score!r} needs noise, which a {model} does not estimate. Leave it at "auto".')


def _is_plain(params: dict[str, Any]) -> bool:
    """True of words and finite numbers; a list of numbers can be a row."""
    if any(isinstance(value, list | tuple | dict) for value in params.values()):
        return False
    try:
        json.dumps(params, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def query_of(settings: dict[str, Any], given: Any, kind: str) -> Any:
    """The query of the settings, or the given one, if it is the same."""
    if given is None and "params" in settings:
        return _class_of(settings["name"])(**settings["params"])
    return _same("query", settings, given, None if given is None else query_settings(given, kind))


def model_settings(model: Any) -> dict[str, Any]:
    """The name of a model, or a digest of its parameters."""
    if isinstance(model, str) and model in MODELS:
        return {"name": model, "vectorizer": "skrub" if has_skrub() else "plain"}
    if isinstance(model, type) or not all(hasattr(model, name) for name in ("fit", "get_params", "set_params")):
        raise ParameterError(
            f"`model` must be one of {sorted(MODELS)}, or an estimator that scikit-learn can clone. Got {shown(model)}."
        )
    return {"name": type(model).__name__, "digest": _digest("model", handed_in(model))}


def model_of(settings: dict[str, Any], given: Any) -> Any:
    """The name of the model, or the given model, if it is the same."""
    if settings.get("vectorizer") == "skrub" and not has_skrub():
        raise CampaignError("`model` needs skrub, as the campaign was started with it: python -m pip install skrub.")
    if given is None and "digest" not in settings:
        return settings["name"]
    return _same("model", settings, given, None if given is None else model_settings(given))


def _digest(name: str, part: Any) -> str:
    """What recognises a model or query; random states count for nothing, as the campaign has seeds of its own."""
    try:
        return digest(part)
    except ValueError as error:
        raise CampaignError(f"`{name}` cannot be recognised when the campaign is opened again: {error}.") from error


def _same(name: str, before: dict[str, Any], given: Any, now: dict[str, Any] | None) -> Any:
    """What is handed in, if its settings are those from the start of the campaign."""
    if now is None:
        raise CampaignError(
            f"`{name}` must be passed again: the campaign was started with a {before['name']}, and its file holds no "
            "code. Pass the same one to `Campaign.open`."
        )
    now = json.loads(json.dumps(now))  # tuples are lists in the file
    if any(before.get(key) != now.get(key) for key in ("name", "params", "digest")):
        raise CampaignError(
            f"`{name}` must be the one that the campaign was started with, a {before['name']} with the same "
            f"parameters. Got {shown(given)}: pass the first one, or start a new campaign."
        )
    return given
