"""Scores of the candidates of a pool, in one pass over the draws.

A score may name more than draws by keyword-only parameters without a default. What each of these names means stands in
a table, from the name to a function that finds it; a query hands in its own table.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .. import _modal as modal
from .. import posterior as posteriors
from .._utils import types
from .._utils.randomness import check_random_state, spawn
from .._utils.validation import (
    ParameterError,
    Rule,
    Rules,
    as_array,
    check_n_instances,
    check_parameters,
    failure_explained,
    float64_array,
    has_outputs,
    look_up,
    name_or_callable,
    plain_array,
    task,
    whole_fit,
)
from ..posterior._registry import has_source, innermost
from ..posterior._wrappers import Composed, InEqualBlocks, linear_part
from ..scores import SCORES
from ..scores._outputs import reduce_outputs, score_outputs
from ._base import RULES
from ._draws import Places, PoolDraws, draws_of, explained, has_own_predictions
from ._pool import Pool, check_fits, check_last_fit, model_of, pool_for

Values = NDArray[np.float64]
Score = Callable[..., Any]
ReadyScore = Callable[[Any, Any], Any]  # `score(draws, chunk)`: all else that it asks for is found by then
Group = tuple[PoolDraws | None, Mapping[str, ReadyScore]]  # scores, and the draws that serve them all
Outputs = tuple[str, types.Reduce, Any]  # what draws are of, and what `reduce` and `mask` say of several outputs
Source = Callable[[str], Callable[[Any], Any]]  # finds what the score of a name asks for: a function of a chunk of rows

# of the pool, if none are given: of 2,500 images of digits, scores by these are within 5 % of those by all rows
_MOST_TARGETS = 1000

RULES_OF_OUTPUTS: Rules = {
    "reduce": name_or_callable(["max", "mean", "sum"]),
    "mask": Rule(
        lambda value: callable(value) or containers.holds_rows(value), "an array (n_points, ...) or a function of rows"
    ).or_none(),
}
IS_TARGET = Rule(lambda value: value is None or containers.holds_rows(value), "None or rows like those of the pool")


def score_rows(
    pool: Pool,
    draws: PoolDraws | None,
    scores: Mapping[str, ReadyScore],
    *,
    chunk_size: int | None = None,
    verbose: int = 0,
) -> Values:
    """Scores of the candidates, (n_scores, n_candidates), one chunk of draws alive at a time.

    ``draws`` is None if no score needs any.
    """
    return score_groups(pool, [(draws, scores)], chunk_size, verbose)


def score_groups(
    pool: Pool, groups: Sequence[Group], chunk_size: int | None, verbose: int, places: Places | None = None
) -> Values:
    """Scores of several groups, each by draws of its own, in one pass over the pool; it fills ``places`` of one."""
    draws = [of_group for of_group, _ in groups if of_group is not None]
    sizes = [one.batch_size for one in (*draws, places and places.arrays) if one and one.batch_size is not None]
    n_values = max([1, *(of_group.n_values for of_group in draws)]) + (places.n_values if places else 0)
    how = {"chunk_size": chunk_size, "batch_size": max(sizes, default=None)}
    asked = (places.arrays, places.most_rows) if places else (None, 0.0)
    parts = pool.mapped(functools.partial(_columns, groups, *asked), n_values, "scoring", verbose=verbose, **how)
    n_columns, n_done = sum(len(scores) for _, scores in groups), 0
    # Filled in place, if their number is known: scores of many rows are not held twice.
    columns, joined = None if pool.is_open else np.empty((n_columns, len(pool))), [np.empty((n_columns, 0))]
    for rows, (values, arrays) in parts:
        if places:
            places.add(rows, arrays)
        if columns is None:
            joined.append(values)
        else:
            columns[:, rows] = values
        n_done += rows.stop - rows.start
    if n_done != len(pool):
        raise RuntimeError(f"`X_pool` has {len(pool)} rows to score, but {n_done} were read: it has changed meanwhile.")
    return np.concatenate(joined, axis=1) if columns is None else columns


def _columns(groups: Sequence[Group], places: Any, most_rows: float, rows: slice, chunk: Any) -> tuple[Values, Any]:
    """All scores of a chunk, ``rows`` of the candidates, one below the other; and its places, up to ``most_rows``."""
    model = next((draws.model for draws, _ in groups if draws is not None), None)
    of_places = places.of if places and rows.stop <= most_rows else None
    with explained("Scoring", rows, model):
        parts = [_score_chunk(chunk, rows, *group, of_places) for group in groups]
        return np.stack([column for columns, _ in parts for column in columns]), parts[-1][1]


def _score_chunk(
    chunk: Any, rows: slice, draws: PoolDraws | None, scores: Mapping[str, ReadyScore], of_places: Any
) -> tuple[list[Values], Any]:
    """A function by itself, so that the draws of a chunk are gone before those of the next are made."""
    n_points = rows.stop - rows.start
    of_chunk, beside = (None, None) if draws is None else draws.both(chunk, n_points)
    arrays = None if of_places is None else of_places(chunk, of_chunk, beside)
    return [_one_a_row(_answer(score, of_chunk, chunk, rows), n_points) for score in scores.values()], arrays


def _answer(score: Any, draws: Any, chunk: Any, rows: slice) -> Any:
    """A ready score of a chunk; one made here knows which candidates these are, for the rows of a mask."""
    is_made_here = getattr(score, "func", None) is _of_draws
    return score(draws, chunk, rows) if is_made_here else score(draws, chunk)


def _one_a_row(scores: Any, n_points: int) -> Values:
    scores = float64_array("score", scores, rule="return real numbers")
    if scores.shape != (n_points,):
        raise ValueError(
            f"`score` must return one number per row, shape ({n_points},) for this chunk. Got shape {scores.shape}. "
            "(The draws of a net are a torch tensor; np.asarray(draws) makes them an array.)"
        )
    return scores


def groups_for(
    scores: Mapping[str, Any], pool: Pool, learner: Any, rng: Any, X_target: Any, reduced: Any, **options: Any
) -> list[Group]:
    """Scores that are ready, by what they are made of: draws or, unless draws are asked for, the law behind them."""
    model = model_of(learner)
    are_asked_for = options["n_draws"] is not None or options["posterior"] != "auto"
    may_have_law = has_source(innermost(model)) and not are_asked_for
    of_law = [name for name, score in scores.items() if may_have_law and hasattr(score, "of_law")]
    for name in [name for name in scores if name not in of_law]:
        check_task(model, name, scores[name])
    draws = draws_for(scores, pool, learner, rng, **options)
    targets = functools.cache(lambda: _targets(pool, X_target, rng))  # the same rows for all that ask
    forms = {name: _closed_form(scores[name].of_law, draws, targets) for name in of_law}
    for name in [name for name, form in forms.items() if form is None]:
        check_task(model, name, scores[name])
    others = {name: score for name, score in scores.items() if forms.get(name) is None}
    how = None if draws is None else (draws.kind, reduced[0], _mask_of(reduced[1], pool, draws))
    ready = ready_scores(others, learner, sources_of(learner, draws, targets), how)
    by_law: list[Group] = [(form, {name: lambda found, chunk: found[0]}) for name, form in forms.items() if form]
    return [*by_law, (draws, ready)] if ready else by_law


def _mask_of(mask: Any, pool: Pool, draws: PoolDraws) -> Any:
    """A function of a chunk of rows, or an array of the candidates, that says which outputs count; None if all do."""
    if mask is None or callable(mask):
        return mask or getattr(draws.predict, "mask", None)
    mask = as_array(plain_array("mask", mask))
    if len(mask) != pool.n_points:
        raise ValueError(
            f"`mask` must have an entry for each of the {pool.n_points} rows of the pool. Got {len(mask)}."
        )
    return mask if pool.rows is None else mask[pool.rows]


def _closed_form(of_law: Callable[..., Any], draws: Any, targets: Callable[[], Any]) -> PoolDraws | None:
    """The score by the law that draws come from, in the place of draws: one number a row; None where there is none."""
    features, law = linear_part(draws.predict) or (None, None)
    covariance = None if law is None else law.covariance()
    if features is None or covariance is None:
        return None
    function = Composed(features, after=of_law(law, covariance, _at_targets(features, targets())))
    predict = InEqualBlocks(function)
    return replace(draws, predict=predict, shape=(1, 1), batch_size=predict.batch_size, of_first=())


def draws_for(
    scores: Mapping[str, Score], pool: Pool, learner: Any, rng: np.random.Generator, **options: Any
) -> PoolDraws | None:
    """Draws that serve all of these scores; None if none of them needs any."""
    of_draws = {name: score for name, score in scores.items() if not is_of_learner(score)}
    if not of_draws:
        return None
    one_draw = all(getattr(score, "one_draw", False) for score in of_draws.values())
    draws = draws_of(pool, learner, rng, one_draw=one_draw, **options)
    for name, score in of_draws.items():
        check_enough_draws(draws.n_draws, name, score)
    return draws


def check_enough_draws(n_draws: int, name: Any, score: Any) -> None:
    if n_draws < 2 and not getattr(score, "one_draw", True):
        raise ValueError(
            f"`score`={name!r} needs at least two draws, but there is {n_draws}: it would be 0 everywhere. Raise "
            "`n_draws`, use an ensemble of more members (a frozen calibrated model counts as one), or "
            'posterior="bootstrap".'
        )


def ready_scores(
    scores: Mapping[str, Score], learner: Any, sources: Mapping[str, Source], outputs: Outputs | None = None
) -> dict[str, ReadyScore]:
    """Scores with what they ask for by name."""
    return {name: _ready(name, score, learner, sources, outputs) for name, score in scores.items()}


def _ready(name: str, score: Score, learner: Any, sources: Mapping[str, Source], outputs: Outputs | None) -> ReadyScore:
    if is_of_learner(score):
        return functools.partial(_of_learner, score, learner)
    found = {keyword: sources[keyword](name) for keyword in _keywords_asked(score) & sources.keys()}
    return functools.partial(_of_draws, score, found, outputs)


def _of_draws(
    score: Score, sources: Mapping[str, Any], outputs: Outputs | None, draws: Any, chunk: Any, rows: slice
) -> Any:
    given = {keyword: source(chunk) for keyword, source in sources.items()}
    if not any(score is known for known in SCORES.values()):
        score = functools.partial(_of_user, score)
    kind, reduce, mask_of = outputs or ("classes", "mean", None)
    if outputs is None or (mask_of is None and not has_outputs(draws, kind)):
        return score(draws, **given)
    mask = mask_of(chunk) if callable(mask_of) else mask_of if mask_of is None else mask_of[rows]
    score = functools.partial(score, kind=kind) if score in SCORES.values() else score
    return reduce_outputs(score_outputs(score, draws, kind, given, mask), reduce, mask)


def _of_user(score: Score, draws: Any, **given: Any) -> Values:
    """A score of the user's may write into what it gets, which others get as well: it gets a copy of its own."""
    found = score(_own(draws), **{keyword: _own(value) for keyword, value in given.items()})
    return _one_a_row(found, draws.shape[1])


def _own(values: Any) -> Any:
    return values.clone() if hasattr(values, "clone") else values.copy() if hasattr(values, "copy") else values


def _of_learner(score: Score, learner: Any, draws: Any, chunk: Any) -> Any:
    return score(learner, chunk)


def sources_of(learner: Any, draws: Any, targets: Callable[[], Any]) -> dict[str, Source]:
    """Where scores of predictions find what they ask for."""
    return {
        "target_draws": lambda name: _for_all_rows(_at_targets(draws.predict, targets())),
        "noise_variance": lambda name: _for_all_rows(posteriors.noise_variance(model_of(learner))),
    }


def _for_all_rows(found: Any) -> Callable[[Any], Any]:
    return lambda chunk: found


def _targets(pool: Pool, X_target: Any, rng: np.random.Generator) -> Any:
    """The rows that predictions matter for: those given, or some of the candidates."""
    if X_target is None:
        return _some_candidates(pool, rng)
    targets = containers.in_columns_of(pool.X, containers.prepare_pool(X_target, "X_target"), "X_target")
    n_targets = containers.count_rows(targets)
    if n_targets == 0:
        raise ValueError("`X_target` must hold at least one row. Got 0 rows.")
    return containers.take_rows(targets, np.arange(n_targets))


def _some_candidates(pool: Pool, rng: np.random.Generator) -> Any:
    if containers.is_read_once(pool.X):
        raise ValueError(
            "`X_target` must be given if the pool can be read only once: the targets would be rows of it that are read "
            "before the others. Give `X_target`, or give `skactive.blocks` a function that starts again."
        )
    return pool.take(np.sort(rng.choice(len(pool), min(len(pool), _MOST_TARGETS), replace=False)))


def _at_targets(predict: Callable[[Any], Any], targets: Any) -> Any:
    with failure_explained("Drawing predictions for `X_target`"):
        return predict(targets)


def named_scores(scores: Any) -> dict[str, Score]:
    """Scores by name: of a mapping, or of one name or callable or a list of either."""
    listed = scores if isinstance(scores, Mapping | list | tuple) else [scores]
    if not isinstance(scores, Mapping):
        scores = {name_of(score): score for score in listed}
    if len(scores) < len(listed) or not listed:
        raise ValueError(f"`scores` must be one or more, of different names. Got {list(listed)}. Give a dict of names.")
    found = {name: look_up("scores", score, SCORES) for name, score in scores.items()}
    for name, score in found.items():
        check_is_of_predictions(name, score)
    return found


def name_of(score: Any) -> str:
    return score if isinstance(score, str) else getattr(score, "__name__", type(score).__name__)


def check_is_of_predictions(name: Any, score: Any) -> None:
    """Refuse scores of potential outcomes, and those that are small for informative rows."""
    if getattr(score, "tasks", ()) == ("outcomes",):
        raise ParameterError(
            f"`score`={name!r} is a score of potential outcomes. CausalBALDQuery(score={name!r}, treatment=...) knows "
            "which column is the treatment."
        )
    if modal.is_score_of_certainty(score):
        raise ParameterError(
            "`score` must be larger for more informative rows, and modAL's classifier_margin is smaller for them. "
            'Use score="margin", one minus it.'
        )


def check_task(estimator: Any, name: Any, score: Any) -> None:
    """Check that the estimator is of a kind that can be drawn from, and the score one for its kind."""
    kind = task(estimator)
    if kind is None:
        if has_source(innermost(estimator)):
            return
        raise TypeError(
            f"`estimator` must be a classifier or a regressor. Got a {type(estimator).__name__}, which is neither. "
            "Give a classifier or regressor fitted to the labels that you have (a class of your own names "
            "ClassifierMixin before BaseEstimator), or give your class a method `sample_posterior(n_draws, rng)`."
        )
    if kind not in getattr(score, "tasks", (kind,)):
        fitting = '"std_dev", "variance" or "gaussian_bald"' if kind == "regressor" else '"bald" or "std_dev"'
        raise ValueError(
            f"`score`={name!r} is not a score for a {kind} such as {type(estimator).__name__}. Use score={fitting}, a "
            f"callable that takes its draws, or a {'classifier' if kind == 'regressor' else 'regressor'}."
        )


def _keywords_asked(function: Score) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}


def is_of_learner(score: Callable[..., Any]) -> bool:
    """Whether it is called as ``score(learner, X)``: two positional parameters, or (as modAL's combinations) any."""
    parameters = inspect.signature(score).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional:
        return any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return len([p for p in positional if p.default is p.empty]) == 2


def score_pool(
    estimator: Any,
    X_pool: Any,
    scores: types.Score | Sequence[types.Score] | Mapping[str, types.Score] = ("bald", "entropy"),
    *,
    n_draws: int | None = None,
    posterior: types.Posterior = "auto",
    X_target: Any = None,
    reduce: types.Reduce = "mean",
    mask: Callable[[Any], ArrayLike] | ArrayLike | None = None,
    X_training: Any = None,
    y_training: Any = None,
    candidates: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    fit_params: Mapping[str, Any] | None = None,
    chunk_size: int | None = None,
    predict_batch_size: int | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> dict[str, NDArray[np.float64]]:
    """Score a pool by several scores at once: those of draws share one pass, those of one draw another.

    Parameters
    ----------
    estimator : fitted estimator, or modAL learner
    X_pool : array-like of shape (n_points, ...)
        Any container that `StochasticBatchQuery.select` takes.
    scores : str, callable, list of these, or dict of name to either, default=("bald", "entropy")
        Names in `skactive.scores.SCORES`, or functions of draws or of (learner, X), as `StochasticBatchQuery` takes.
    n_draws, posterior, X_target, reduce, mask, chunk_size, predict_batch_size, n_jobs, random_state, verbose
        As in `StochasticBatchQuery`.
    candidates, X_training, y_training, sample_weight, fit_params : optional
        As in `StochasticBatchQuery.select`. Rows that are not candidates get NaN.

    Returns
    -------
    dict of str to ndarray of shape (n_points,), float64
        A column for each score, in the order asked for; ``pandas.DataFrame`` takes it as it is.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive.query import score_pool
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> columns = score_pool(forest, X, ["bald", "entropy"])
    >>> {name: column.shape for name, column in columns.items()}
    {'bald': (150,), 'entropy': (150,)}
    """
    check_parameters(RULES | RULES_OF_OUTPUTS | {"X_target": IS_TARGET}, locals())
    named = named_scores(scores)
    given = {"X_training": X_training, "y_training": y_training, "candidates": candidates}
    model, pool = pool_for(estimator, X_pool, **given, sample_weight=sample_weight, fit_params=fit_params)
    check_last_fit(estimator, pool.y_training)
    if not pool.is_open:
        check_n_instances(1, len(pool), pool.n_points)
    check_fits(model, pool)
    rng = spawn(check_random_state(random_state), 2)[0]
    options: dict[str, Any] = {"n_draws": n_draws, "posterior": posterior}
    options |= {"predict_batch_size": predict_batch_size, "n_jobs": n_jobs, "reduced": (reduce, mask)}
    with whole_fit(model, lambda: pool.first_rows()[0], pool.y_training):
        by_draws = n_draws is not None or posterior != "auto" or not has_own_predictions(model)
        groups = [named] if by_draws else _by_source(named)
        ready = [part for group in groups for part in groups_for(group, pool, estimator, rng, X_target, **options)]
        names = [name for _, scores_of_part in ready for name in scores_of_part]
        columns = dict(zip(names, score_groups(pool, ready, chunk_size, verbose), strict=True))
    return {name: pool.of_pool(columns[name]) for name in named}


def _by_source(scores: Mapping[str, Score]) -> list[dict[str, Score]]:
    """Scores of one draw apart from those of several: what a score is does not depend on what stands beside it."""
    is_of_one = {name: bool(getattr(score, "one_draw", False)) for name, score in scores.items()}
    groups = [{name: scores[name] for name in scores if is_of_one[name] is of_one} for of_one in (False, True)]
    return [group for group in groups if group]
