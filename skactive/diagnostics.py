"""How fast scores age: how useful they still are after some of the labels have been bought.

A batch of the highest scores assumes that the second row would still rank high after the first was labelled.
`score_history` scores the same rows again after every batch; `rank_correlation` and `auroc` compare a step with later
ones; `FrozenQuery` lets an experiment buy from old scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from . import _containers as chunks
from . import _modal as modal
from . import _random as global_random
from ._bases import BaseEstimator
from ._checks import (
    Rule,
    Rules,
    as_array,
    check_cloneable,
    check_draws_shape,
    check_joint_draws,
    check_labels_of,
    check_n_instances,
    check_one_of,
    check_parameters,
    check_part,
    check_positions,
    check_query_answer,
    float64_array,
    integer,
    is_integer,
    look_up,
    shown,
)
from ._progress import progress
from ._random import check_random_state, seeded_clone
from ._statistics import area
from ._types import Posterior, Score
from .batchbald._outcomes import joint_information
from .posterior._unwrap import labels_to_fit
from .query import score_pool
from .scores import SCORES

__all__ = ["MEASURES", "FrozenQuery", "auroc", "moving_mean", "rank_correlation", "redundancy", "score_history"]

History = NDArray[np.float64]
Mask = NDArray[np.bool_]


def score_history(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    batches: Sequence[ArrayLike],
    *,
    score: Score = "bald",
    rows: ArrayLike | None = None,
    n_draws: int | None = None,
    posterior: Posterior = "auto",
    random_state: Any = None,
    verbose: int = 0,
) -> History:
    """Score rows after every batch of labels, with a new model fitted to all labels so far.

    Memory is one float64 for each step and row. Every step costs a fit and a pass over the draws.

    Parameters
    ----------
    estimator : estimator
        Cloned and seeded for every step; the object itself is not fitted.
    X : array-like of shape (n_points, ...)
        All rows, labelled and not.
    y : array-like of shape (n_points,)
        Labels; the model is fitted to those bought only.
    batches : sequence of array-like of int
        Positions in X of the first labels, then of each batch: the ``indices`` of the rounds of an `ExperimentResult`.
        An empty batch fits another model to the same labels: changes at that step are due to seeds, not labels.
    score : str or callable, default="bald"
        As in `StochasticBatchQuery`.
    rows : array-like of int, optional
        Positions in X of the rows to score; by default all. Test rows have a score at every step, while rows of the
        pool lose theirs when they are labelled.
    n_draws, posterior : optional
        As in `StochasticBatchQuery`.
    random_state : None, int, Generator or RandomState
        Seeds of models and draws, different at every step.
    verbose : int, default=0
        Whether to show a progress bar over steps.

    Returns
    -------
    ndarray of shape (len(batches), n_rows), float64
        Scores after each batch; NaN for rows that the model was fitted to.

    Raises
    ------
    ValueError, TypeError
        If ``batches`` are not distinct positions, the first is empty, or no row is left to score; or as
        `~skactive.query.score_pool` does.

    See Also
    --------
    diagnostics.rank_correlation : Compares its rows.
    diagnostics.auroc : Compares their tops.
    plotting.RankCorrelationDisplay : Draws it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive.diagnostics import score_history
    >>> X, y = load_iris(return_X_y=True)
    >>> batches = [[0, 50, 100], [20, 70], [120]]
    >>> score_history(RandomForestClassifier(10), X, y, batches, random_state=0).shape
    (3, 150)
    """
    check_cloneable(estimator)
    look_up("score", score, SCORES)
    X = chunks.prepare_pool(X, "X")
    n_points = chunks.count_rows(X)
    y = labels_to_fit(estimator, check_labels_of(n_points, chunks.aligned(y, X, "y")))
    batches = _check_batches(batches, n_points)
    rows = np.arange(n_points) if rows is None else check_positions("rows", rows, n_points)
    rng = check_random_state(random_state)
    history = np.empty((len(batches), len(rows)))
    X_scored = chunks.take_rows(X, rows)
    steps = progress(_labelled_so_far(batches), total=len(batches), doing="scoring", unit="step", verbose=verbose)
    for step, labelled in enumerate(steps):
        X_training, y_training = chunks.take_rows(X, labelled), y[labelled]
        with global_random.seeded_for(estimator, int(rng.integers(2**31))):
            model = seeded_clone(estimator, rng).fit(X_training, y_training)
        history[step] = score_pool(
            model,
            X_scored,
            {"score": score},
            n_draws=n_draws,
            posterior=posterior,
            X_training=X_training,
            y_training=y_training,
            candidates=_check_any_left(~np.isin(rows, labelled), step),
            random_state=rng,
        )["score"]
    return history


def _labelled_so_far(batches: Sequence[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    labelled = np.empty(0, dtype=np.int64)
    for batch in batches:
        labelled = np.concatenate([labelled, batch])
        yield labelled


def rank_correlation(
    scores: ArrayLike,
    start: int = 0,
    *,
    top: float | None = None,
    bottom: float | None = None,
    decimals: int | None = None,
) -> NDArray[np.float64]:
    """Spearman's rank correlation of the scores at a step with those at each later step.

    It is Pearson's correlation of ranks (ties have their mean rank) over the rows that have a score at both steps; with
    ``top`` or ``bottom``, over those of them that are in that part at ``start``.

    Parameters
    ----------
    scores : array-like of shape (n_steps, n_points)
        Scores of the same rows at each step, NaN where a row has none, as `score_history` makes them.
    start : int, default=0
        The step to compare with.
    top, bottom : float, optional
        Fraction of the rows to use: those with the highest, or lowest, scores at ``start``. 0.01 is one in a hundred,
        rounded to whole rows, at least one. Rows tied with the last of them are included.
    decimals : int, optional
        Round the scores before ranking, so that differences near 0 are ties (the paper: 2). The top is chosen before
        rounding.

    Returns
    -------
    ndarray of shape (n_steps - start,), float64
        From -1 to 1; the first is 1. NaN if all scores are equal, or fewer than two rows are left.

    Raises
    ------
    ValueError, TypeError
        If ``scores`` have another shape or infinite entries, there is no step ``start``, both ``top`` and ``bottom``
        are given, or one of them is not above 0 and at most 1.

    See Also
    --------
    diagnostics.score_history : Makes the scores.
    diagnostics.auroc : Whether the top stays above the rest.

    Notes
    -----
    Scores within the top differ little, and partly by noise of the draws. A low correlation is a sign of ageing only if
    a new model of the same labels (an empty batch in `score_history`) has a higher one.

    References
    ----------
    Spearman (1904), The Proof and Measurement of Association between Two Things; Kirsch et al. (2023), Stochastic Batch
    Acquisition, sec. 5.

    Examples
    --------
    >>> from skactive.diagnostics import rank_correlation
    >>> scores = [[4, 3, 2, 1], [4, 3, 2, 2], [1, 3, 4, 2]]
    >>> rank_correlation(scores).round(2)
    array([ 1.  ,  0.95, -0.4 ])
    >>> rank_correlation(scores, top=0.5)
    array([ 1.,  1., -1.])
    """
    history = _check_history(scores)
    today, later = _from_step(history, start)
    members = _members(today, top, bottom)
    today, later = _rounded(decimals, today, later)
    return np.array([_spearman(today[both], row[both]) for row in later for both in [members & ~np.isnan(row)]])


def auroc(
    scores: ArrayLike,
    start: int = 0,
    *,
    top: float | None = None,
    bottom: float | None = None,
    decimals: int | None = None,
) -> NDArray[np.float64]:
    """How well the scores at each later step separate the rows that were the top (or bottom) at a step from the others.

    The area under the ROC curve: the probability that a row of the top still scores higher than another row, or a row
    of the bottom lower; ties count half.

    Parameters
    ----------
    scores : array-like of shape (n_steps, n_points)
        Scores of the same rows at each step, NaN where a row has none, as `score_history` makes them.
    start : int, default=0
        The step at which the top is taken.
    top, bottom : float
        One of them, as in `rank_correlation`.
    decimals : int, optional
        Round the scores before comparing them. The top is chosen before rounding.

    Returns
    -------
    ndarray of shape (n_steps - start,), float64
        From 0 to 1, 0.5 for a random order; the first is 1. NaN if all rows with a score, or none, are of the top.

    Raises
    ------
    ValueError, TypeError
        As `rank_correlation` does; and if neither ``top`` nor ``bottom`` is given.

    See Also
    --------
    diagnostics.score_history : Makes the scores.
    diagnostics.rank_correlation : Whether the order lasts.

    References
    ----------
    Kirsch et al. (2023), Stochastic Batch Acquisition, sec. 5.

    Examples
    --------
    >>> from skactive.diagnostics import auroc
    >>> auroc([[4, 3, 2, 1], [4, 2, 3, 1], [1, 2, 3, 4]], top=0.5)
    array([1.  , 0.75, 0.  ])
    """
    history = _check_history(scores)
    check_one_of("top", top, "bottom", bottom)
    today, later = _from_step(history, start)
    members = _members(today, top, bottom)
    (later,) = _rounded(decimals, later if bottom is None else -later)
    return np.array(
        [area(row[known], members[known]) for row in later for known in [~np.isnan(today) & ~np.isnan(row)]]
    )


def redundancy(draws: ArrayLike, rows: ArrayLike, *, max_outcomes: int = 10_000, random_state: Any = None) -> float:
    """How much of what the rows of a batch tell one by one they tell more than once.

    The sum of their BALD scores, less what their labels tell of the model together, which is BatchBALD: the total
    correlation of the labels, less what is left of it once the model is known, which is nothing. It is what choosing
    by single scores counts twice, and falls as a model gets to know its parameters.

    Parameters
    ----------
    draws : array-like or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities.
    rows : array-like of shape (k,), int
        Positions of the batch, each of them once.
    max_outcomes : int, default=10,000
        Joint labels that are looked at: exact as long as there are no more of them, sampled beyond.
    random_state : None, int, numpy Generator or RandomState
        For that sample.

    Returns
    -------
    float
        In nats; from 0 to the sum of the scores, but for the chance of samples.

    Raises
    ------
    ValueError, TypeError
        If ``draws`` are no probabilities of classes from two draws or more, or ``rows`` are no distinct positions.

    See Also
    --------
    BatchBALDQuery : Chooses batches that repeat little.
    plotting.BatchDisplay : Shows a batch.

    References
    ----------
    Kirsch et al. (2023), Stochastic Batch Acquisition, sec. 5; Watanabe (1960), Information Theoretical Analysis of
    Multivariate Correlation.

    Examples
    --------
    Two rows on which draws disagree alike tell the same; a third tells other things.

    >>> import numpy as np
    >>> from skactive.diagnostics import redundancy
    >>> twin = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    >>> other = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    >>> draws = np.swapaxes([twin, twin, other], 0, 1)
    >>> round(redundancy(draws, [0, 1]), 3), round(redundancy(draws, [0, 2]), 3)
    (0.693, 0.0)
    """
    draws_KNC: Any = check_draws_shape(draws, "redundancy", ("classifier",))
    check_joint_draws(draws_KNC.shape, "redundancy")
    positions = check_positions("rows", rows, draws_KNC.shape[1])
    alone = as_array(SCORES["bald"](draws_KNC))[positions]
    together = joint_information(draws_KNC, positions, max_outcomes, check_random_state(random_state))
    return float(alone.sum()) - together


def moving_mean(values: ArrayLike, window: int) -> NDArray[np.float64]:
    """Smooth values over steps: the mean of ``window`` values around each, fewer at the ends.

    Parameters
    ----------
    values : array-like of shape (n_steps,)
        NaN are left out of means.
    window : int
        Number of values in a mean. If it is even, one more comes before the step than after it.

    Returns
    -------
    ndarray of shape (n_steps,), float64

    Raises
    ------
    ValueError, TypeError
        If ``values`` are no series of numbers, or ``window`` is not a positive integer.

    See Also
    --------
    diagnostics.rank_correlation : The curves that it smooths.

    Examples
    --------
    >>> from skactive.diagnostics import moving_mean
    >>> moving_mean([1, 2, 3, 7], 3)
    array([1.5, 2. , 4. , 5. ])
    """
    integer().check("window", window)
    values = _check_series(values)
    around = [values[max(0, i - window // 2) : i + (window + 1) // 2] for i in range(len(values))]
    known = [part[~np.isnan(part)] for part in around]
    return np.array([part.mean() if len(part) else np.nan for part in known])


class FrozenQuery(BaseEstimator):
    """Ask a query once for many batches, and buy them one after the other: how good a model gets on old scores.

    In `run_experiment`, next to the query itself, it shows for how long models do as well without new scores, and so
    how large a batch could be. For a query that samples, each batch has the law of a new query with the same scores on
    the rows left.

    Parameters
    ----------
    query : query
        Any callable ``query(learner, X_pool, n_instances=...)`` that returns positions, most preferred first.
    n_batches : int
        Batches to buy before the query is asked again.
    random_state : None, int, Generator or RandomState
        Source of every ``random_state`` in the query, which is cloned.

    Attributes
    ----------
    planned_ : ndarray of int64
        Rows that are still to be bought, as positions in the remaining pool.

    See Also
    --------
    run_experiment : Compares it with the query that it freezes.
    diagnostics.score_history : How scores age.

    Notes
    -----
    In each call the pool must be the previous one without the rows bought, in the same order, as `run_experiment` and
    ``np.delete`` leave it.

    References
    ----------
    Kirsch et al. (2023), Stochastic Batch Acquisition, sec. 5, where scores are frozen.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import StochasticBatchQuery, run_experiment
    >>> from skactive.diagnostics import FrozenQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> query = StochasticBatchQuery("entropy", "topk")
    >>> queries = {"scored anew": query, "frozen": FrozenQuery(query, n_batches=5)}
    >>> run_experiment(
    ...     LogisticRegression(max_iter=1000), queries, X, y, n_initial=6, n_rounds=5, batch_size=1, n_trials=2
    ... )
    ExperimentResult(2 queries, 2 trials, 24 rounds, scores: score)
    """

    rules: ClassVar[Rules] = {"n_batches": integer()}

    planned_: NDArray[np.int64]
    _n_left: int
    _rng: np.random.Generator

    def __init__(self, query: Any, n_batches: int, *, random_state: Any = None) -> None:
        self.query = query
        self.n_batches = n_batches
        self.random_state = random_state

    def get_state(self) -> dict[str, Any]:
        """What is planned, for `set_state`: experiments write it down between rounds."""
        return {name: vars(self)[name] for name in ("planned_", "_n_left", "_rng") if name in vars(self)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on where a query with the same parameters was when `get_state` was called."""
        self.__dict__.update(state)

    def __call__(self, learner: Any, X_pool: Any, n_instances: int = 1) -> Any:
        """Choose rows for a modAL learner.

        Parameters
        ----------
        learner : modAL.models.ActiveLearner or estimator
        X_pool : array-like of shape (n_points, ...)
        n_instances : int, default=1

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first; for versions of modAL that ask for one, in a pair.

        Raises
        ------
        ValueError
            If the pool is not the previous one without the rows bought, or the query does not return distinct
            positions.
        """
        check_parameters(self.rules, self.get_params(deep=False))
        n_points = chunks.count_rows(chunks.prepare_pool(X_pool))
        n_instances = check_n_instances(n_instances, n_points, n_points)
        if len(vars(self).get("planned_", ())) < n_instances:
            self.planned_ = self._ask(learner, X_pool, n_instances, n_points)
        else:
            self._check_pool_shrank(n_points)
        batch, rest = np.split(self.planned_, [n_instances])
        self.planned_ = rest - np.searchsorted(np.sort(batch), rest)  # rows move up as others before them leave
        self._n_left = n_points - n_instances
        return modal.answer(learner, batch, np.full(n_instances, np.nan))

    def _check_pool_shrank(self, n_points: int) -> None:
        if n_points != self._n_left:
            raise ValueError(
                f"`X_pool` must be the previous pool without the rows bought, {self._n_left} rows in the same order. "
                f"Got {n_points} rows. For another pool, clone the query."
            )

    def _ask(self, learner: Any, X_pool: Any, n_instances: int, n_points: int) -> NDArray[np.int64]:
        k = min(self.n_batches * n_instances, n_points)
        if "_rng" not in vars(self):
            self._rng = check_random_state(self.random_state)
        query = seeded_clone(self.query, self._rng) if hasattr(self.query, "get_params") else self.query
        return check_query_answer(query(learner, X_pool, n_instances=k), k, n_points, "FrozenQuery.query")


MEASURES: dict[str, Callable[..., NDArray[np.float64]]] = {"auroc": auroc, "rank_correlation": rank_correlation}
"""Measures of how much of a ranking is left, by name."""


_DECIMALS = Rule(is_integer, "an integer").or_none()


def _from_step(history: History, start: int) -> tuple[NDArray[np.float64], History]:
    """Scores at a step, and those from it on."""
    step = Rule(lambda value: is_integer(value) and 0 <= value < len(history), f"a step, from 0 to {len(history) - 1}")
    start = step.check("start", start)
    return history[start], history[start:]


def _rounded(decimals: int | None, *scores: History) -> tuple[History, ...]:
    _DECIMALS.check("decimals", decimals)
    return scores if decimals is None else tuple(np.round(values, decimals) for values in scores)


def _members(today: NDArray[np.float64], top: float | None, bottom: float | None) -> Mask:
    """The rows that have a score, and are in the top or bottom that is asked for."""
    part, sign = check_part(top, bottom)
    known = ~np.isnan(today)
    descending = np.sort(-sign * today[known])
    if not len(descending):
        return known
    last = descending[max(1, round(part * len(descending))) - 1]
    return known & (-sign * today <= last)


def _spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan
    # Twice the centred ranks are whole numbers, whose sums are exact: a step beside itself is 1, on every processor.
    x, y = (2 * rankdata(values) - (len(values) + 1) for values in (a, b))
    return float(np.sum(x * y) / np.sqrt(np.sum(x * x) * np.sum(y * y)))


def _check_batches(batches: Any, n_points: int) -> list[NDArray[np.int64]]:
    """Positions of the first labels and of each batch, which may be empty."""
    if isinstance(batches, str | bytes | Mapping | Set) or not isinstance(batches, Iterable):
        raise TypeError(f"`batches` must be a list of arrays of positions, one for each batch. Got {shown(batches)}.")
    batches = [check_positions("batches", batch, n_points, at_least=0) for batch in batches]
    if not batches or not len(batches[0]):
        raise ValueError("`batches` must start with the positions of the first labels. Got none.")
    check_positions("batches", np.concatenate(batches), n_points)
    return batches


def _check_series(values: Any) -> NDArray[np.float64]:
    values = float64_array("values", values)
    if values.ndim != 1:
        raise ValueError(f"`values` must have shape (n_steps,), one number for each step. Got shape {values.shape}.")
    return values


def _check_any_left(unlabelled: NDArray[np.bool_], step: int) -> NDArray[np.bool_]:
    if not unlabelled.any():
        raise ValueError(
            f"`rows` must hold a row without a label at every step. Got {len(unlabelled)} rows, all of them labelled "
            f"at step {step}. Use test rows, or fewer batches."
        )
    return unlabelled


def _check_history(scores: Any) -> NDArray[np.float64]:
    scores = float64_array("scores", scores)
    if scores.ndim != 2 or not len(scores):
        raise ValueError(
            "`scores` must have shape (n_steps, n_points): a row of scores for each step, one or more. "
            f"Got shape {scores.shape} instead."
        )
    n_infinite = int(np.isinf(scores).sum())
    if n_infinite:
        raise ValueError(f"`scores` must be finite, or NaN for rows without one. Got {n_infinite} infinite scores.")
    return scores
