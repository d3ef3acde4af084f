"""Queries that need draws from the posterior: where the draws come from, the same for all of them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

from .. import _containers as chunks
from .. import posterior as posteriors
from .._checks import (
    NoPosteriorError,
    NoTrainingDataError,
    as_array,
    check_classifier,
    check_draws_of,
    check_joint_draws,
    check_positive_integers,
    failure_explained,
    few_rows,
    labels_to_fit,
    more_draws,
)
from . import _fingerprint as fingerprint
from ._base import BatchQuery, Request
from ._checks import (
    check_functions,
    check_posterior,
    check_surrogate_classes,
    check_training_data,
    no_draws_error,
    warn_bootstrap,
)

__all__ = ["DrawsQuery", "PoolDraws"]

_FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
"""Their draws, and members of a bootstrap, are functions by the way they are made; asking each takes time."""


@dataclass(frozen=True)
class PoolDraws:
    """Draws from the posterior, and what those of one row look like.

    Attributes
    ----------
    predict : callable
        ``predict(X) -> draws`` of shape (n_draws, n_rows, ...): the same functions at every call.
    shape : tuple of int
        Of the draws of a single row: (n_draws, 1, n_classes) for classifiers, (n_draws, 1) for regressors.
    model : object
        The fitted estimator that is drawn from: the learner's, or a surrogate.
    """

    predict: posteriors.PredictDraws
    shape: tuple[int, ...]
    model: Any

    @property
    def batch_size(self) -> int | None:
        """Rows that a net is asked for at once; None for models that are no nets."""
        return getattr(self.predict, "batch_size", None)

    @property
    def n_draws(self) -> int:
        return self.shape[0]

    @property
    def n_values(self) -> int:
        """How many numbers the draws of one row are."""
        return int(np.prod(self.shape))


class DrawsQuery(BatchQuery):
    """Base of queries over posterior draws, which `_draws` finds.

    A subclass has the parameters below, and those of `BatchQuery`; it may have ``predict_batch_size``.
    """

    n_draws: int | None
    posterior: Any
    n_jobs: int | None

    def _draws(self, request: Request, *, one_draw: bool = False) -> PoolDraws:
        """Find draws for the request's estimator, and check that they are functions.

        ``one_draw``: ``predict_proba`` will do where there are no draws.
        """
        batch_size = getattr(self, "predict_batch_size", None)
        check_positive_integers(chunk_size=self.chunk_size, predict_batch_size=batch_size)
        model = request.estimator if isinstance(self.posterior, str) else self._fitted_surrogate(request)
        predict_draws = posteriors.in_batches(self._predict_draws(model, request, one_draw), batch_size)
        first = chunks.take_rows(request.X_pool, np.array([0]) if request.rows is None else request.rows[:1])
        with failure_explained("Drawing predictions for one row of the pool"):
            draws = predict_draws(first)
            check_draws_of(draws, 1)
            is_refitted = predict_draws is vars(self).get("_members", (None, None))[1]
            if not (is_refitted or type(model) in _FORESTS or getattr(predict_draws, "checks_rows", False)):
                self._check_functions(predict_draws, draws, request)
        return PoolDraws(predict_draws, tuple(draws.shape), posteriors.innermost(model))

    def _check_functions(self, predict_draws: posteriors.PredictDraws, draws: Any, request: Request) -> None:
        """Draw the first candidate once more, behind another one: nothing may come of either."""
        ends = np.array([0, request.n_candidates - 1]) if request.rows is None else request.rows[[0, -1]]
        pair = chunks.take_rows(request.X_pool, np.unique(ends)[::-1])
        again = predict_draws(pair)
        n_classes = draws.shape[2] if len(draws.shape) == 3 else None
        check_draws_of(again, len(np.unique(ends)), n_classes, draws.shape[0])
        check_functions(draws, again[:, -1:], int(ends[0]))

    def _joint_draws(self, request: Request, method: str) -> PoolDraws:
        """Draws of class probabilities for a method that looks at rows together."""
        check_classifier(request.estimator, method)
        if not isinstance(self.posterior, str):
            check_classifier(self.posterior, method, "posterior")
        draws = self._draws(request)
        check_joint_draws(draws.shape, method)
        return draws

    def _remedies(self, request: Request, draws: PoolDraws) -> dict[str, str]:
        """What to say of a batch with rows that tell nothing: of too few distinct rows, and how to have more draws."""
        n_distinct = _count_distinct(request)
        is_refitted = isinstance(self.posterior, str) and self.posterior == "bootstrap"
        members = None if is_refitted else posteriors.members(draws.model)
        ensemble = None if members is None or draws.n_draws < len(members) else draws.model
        return {
            "few_rows": few_rows(n_distinct) if n_distinct < request.k else "",
            "more_draws": more_draws(ensemble),
        }

    def _predict_draws(self, estimator: Any, request: Request, one_draw: bool) -> posteriors.PredictDraws:
        rng = request.draws_rng
        if isinstance(self.posterior, str) and check_posterior(self.posterior) == "bootstrap":
            return self._bootstrap(estimator, request)
        training = {"X_training": request.X_training, "y_training": request.y_training}
        try:
            return posteriors.sample_posterior(estimator, self.n_draws, rng, **training)
        except (NoPosteriorError, NoTrainingDataError) as error:
            if one_draw and hasattr(estimator, "predict_proba"):
                return posteriors.one_draw(estimator)
            if request.X_training is None:
                raise no_draws_error(posteriors.innermost(estimator), self, one_draw) from error
            self._tell_of_bootstrap(error)
        return self._bootstrap(estimator, request)

    def _tell_of_bootstrap(self, error: Exception) -> None:
        if not vars(self).get("_told_of_bootstrap"):
            warn_bootstrap(error)
            self._told_of_bootstrap = True

    def _fitted_surrogate(self, request: Request) -> Any:
        X, y = check_training_data(request.X_training, request.y_training)
        surrogate = posteriors.seeded_clone(self.posterior, request.draws_rng)
        with failure_explained(f"Fitting {type(surrogate).__name__}, the `posterior`, to the training data"):
            surrogate.fit(X, y if np.ndim(y) == 1 else labels_to_fit(surrogate, y))
        check_surrogate_classes(surrogate, request.estimator)
        return surrogate

    def _bootstrap(self, estimator: Any, request: Request) -> posteriors.PredictDraws:
        """Refitted members, those of the last query again if nothing has been taught since."""
        X, y = check_training_data(request.X_training, request.y_training)
        data = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in (X, y)]  # strides are no data
        made_of = str(estimator.get_params()), str(fingerprint.describe(estimator))  # which tells long arrays apart
        fitted_to = type(estimator), *made_of, self.n_draws, joblib.hash(data)
        known, predict_draws = vars(self).get("_members", (None, None))
        if known != fitted_to:
            with failure_explained(f"Refitting {type(estimator).__name__} to resampled training data"):
                predict_draws = posteriors.bootstrap(
                    estimator, X, y, self.n_draws, request.draws_rng, n_jobs=self.n_jobs
                )
            self._members = fitted_to, predict_draws
        return predict_draws


def _count_distinct(request: Request) -> int:
    """Distinct rows among the candidates, counted up to the size of the batch."""
    seen: set[bytes] = set()
    for chunk in chunks.iter_chunks(request.X_pool, request.rows, 1000):
        rows = chunk.toarray() if sparse.issparse(chunk) else chunk
        for row in rows if isinstance(rows, list | tuple) else as_array(rows):
            seen.add(pickle.dumps(row))
            if len(seen) >= request.k:
                return request.k
    return len(seen)
