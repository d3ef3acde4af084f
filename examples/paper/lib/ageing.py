"""How fast scores age: scores of the same rows by later and later models, and purchases by scores of the past."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import roc_auc_score

from skactive.query import score_pool

Floats = NDArray[np.float64]


def score_history(
    model: Any, X: Any, y: Any, batches: Iterable[Any], rows: Any, *, n_draws: int, random_state: int
) -> Floats:
    """BALD of these rows, (n_batches, n_rows), after each batch of labels, by a new model of all labels so far.

    An empty batch is another model of the same labels: what changes at that step is noise.
    """
    seeds, labelled, history = np.random.default_rng(random_state), np.empty(0, dtype=np.int64), []
    for batch in batches:
        labelled = np.concatenate([labelled, np.asarray(batch, dtype=np.int64)])
        fitted = clone(model).set_params(random_state=int(seeds.integers(2**31))).fit(X[labelled], y[labelled])
        history.append(score_pool(fitted, X[rows], "bald", n_draws=n_draws, random_state=seeds)["bald"])
    return np.array(history)


def rank_correlation(history: Floats, start: int, *, top: float = 1.0, decimals: int = 2) -> Floats:
    """Spearman's correlation of the scores at a step with those at each step from it on, among its top rows.

    Scores are rounded, so that differences near 0 are ties.
    """
    chosen = np.round(history[start:, top_rows(history[start], top)], decimals)
    return np.array(
        [spearmanr(chosen[0], later)[0] if np.ptp(later) and np.ptp(chosen[0]) else np.nan for later in chosen]
    )


def auroc(history: Floats, start: int, *, top: float) -> Floats:
    """The probability that a row of the top at a step still scores higher than another, at each step from it on."""
    members = top_rows(history[start], top)
    return np.array([roc_auc_score(members, later) for later in history[start:]])


def top_rows(scores: Floats, top: float) -> NDArray[np.bool_]:
    """The rows of this part with the highest scores, and those tied with the last of them."""
    return scores >= np.sort(scores)[::-1][max(1, round(top * len(scores))) - 1]


class FrozenQuery(BaseEstimator):
    """The rows of highest BALD by a model of the first labels, however many have been bought since."""

    def __init__(self, n_first: int, n_draws: int, seed: int = 0) -> None:
        self.n_first = n_first
        self.n_draws = n_draws
        self.seed = seed  # not `random_state`, which experiments set anew for every batch

    def __call__(self, learner: Any, X_pool: Any, n_instances: int = 1) -> NDArray[np.int64]:
        model = clone(learner.estimator).set_params(random_state=self.seed)
        model.fit(learner.X_training[: self.n_first], learner.y_training[: self.n_first])
        scores = score_pool(model, X_pool, "bald", n_draws=self.n_draws, random_state=self.seed)["bald"]
        return np.argsort(-scores, kind="stable")[:n_instances]
