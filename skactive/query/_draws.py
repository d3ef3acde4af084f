"""Draws from the posterior of the model that a query asks about: where they come from, the same for all queries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import BaggingClassifier

from .. import _modal as modal
from .._utils.randomness import seeded_clone
from .._utils.types import Posterior
from .._utils.validation import (
    FewMembersError,
    NoPosteriorError,
    NoTrainingDataError,
    check_classifier,
    check_draws_of,
    check_joint_draws,
    check_one_target,
    check_same_functions,
    failure_explained,
    probabilities_of,
    real_array,
    warn,
)
from ..posterior import bootstrap, sample_posterior
from ..posterior._embeddings import predictions_by
from ..posterior._ensembles import FORESTS
from ..posterior._registry import PredictDraws, innermost, members_of, prediction_as_draw
from ..posterior._wrappers import FitParams, bytes_on_the_way, fit_with, in_batches, labels_to_fit
from ._pool import Pool

_AVERAGED = (*FORESTS, BaggingClassifier)
"""The mean of all their draws is their ``predict_proba``."""


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
    batch_size : int or None
        Rows that a net is asked for at once; None for models that are no nets.
    checks_rows : bool
        Whether ``predict`` itself sees to it that the draws of a row do not depend on the rows beside it.
    n_beside : int
        How many float64 a row takes on the way beside its draws: between the steps of a Pipeline, say.

    See Also
    --------
    query.draws_of : Makes them.
    """

    predict: PredictDraws
    shape: tuple[int, ...]
    model: Any
    batch_size: int | None
    checks_rows: bool
    n_beside: int = 0

    @property
    def n_draws(self) -> int:
        return self.shape[0]

    @property
    def n_values(self) -> int:
        """How many numbers a row takes."""
        return int(np.prod(self.shape)) + self.n_beside

    def of(self, X: Any, n_rows: int) -> Any:
        """Draws of some rows, in the shape that the first row's had."""
        draws, shape = self.predict(X), (self.shape[0], n_rows, *self.shape[2:])
        if tuple(draws.shape) != shape:
            raise ValueError(
                "`predict_draws` must return as many draws, and classes, for all rows. Got shape "
                f"{tuple(draws.shape)} for a chunk, and by the first row it should be {shape}."
            )
        return draws

    def chunks(
        self, pool: Pool, doing: str, *, chunk_size: int | None = None, verbose: int = 0
    ) -> Iterator[tuple[slice, Any]]:
        """Chunks of a pool that these draws are to be made for."""
        return pool.chunks(self.n_values, doing, chunk_size=chunk_size, batch_size=self.batch_size, verbose=verbose)


def draws_of(
    pool: Pool,
    learner: Any,
    rng: np.random.Generator,
    *,
    n_draws: int | None = None,
    posterior: Posterior = "auto",
    predict_batch_size: int | None = None,
    n_jobs: int | None = None,
    one_draw: bool = False,
    instead: str = 'Or use a score that a single prediction serves: "entropy", "margin", "variation_ratio".',
) -> PoolDraws:
    """Find draws for a learner's model, and check on the first candidate that they are functions.

    Parameters
    ----------
    pool : Pool
    learner : fitted estimator, or modAL learner
    rng : numpy.random.Generator
    n_draws, posterior, predict_batch_size, n_jobs
        As in `StochasticBatchQuery`.
    one_draw : bool, default=False
        Whether the model's own ``predict_proba`` will do: it is asked if there is one, unless ``n_draws`` or
        ``posterior`` ask for draws.
    instead : str, optional
        What a message says of queries that need no draws, where there are none.

    See Also
    --------
    query.PoolDraws : What it returns.
    query.score_rows : Scores by these draws.
    sample_posterior : Draws without a pool.
    """
    model = modal.unwrap(learner)[0]
    check_one_target(model)
    is_own, fit_params = isinstance(posterior, str), pool.fit_params
    if not is_own:
        model, fit_params = _fitted_surrogate(posterior, model, pool, rng), pool.surrogate_params
    finder = _Finder(pool, rng, n_draws, n_jobs, one_draw, instead, fit_params)
    if is_own and posterior == "bootstrap":
        found = finder.refitted(model), True
    elif is_own and one_draw and n_draws is None and has_own_predictions(model):
        found = predictions_by(model), False
    else:
        found = finder.own(model)
    predict, is_refitted = in_batches(found[0], predict_batch_size), found[1]
    checks_rows = bool(getattr(predict, "checks_rows", False))
    with failure_explained("Drawing predictions for one row of the pool"):
        first = pool.take(np.array([0]))
        draws = predict(first)
        check_draws_of(draws, 1)
        real_array("draws", draws, objects=False)
        if not (is_refitted or type(model) in FORESTS or checks_rows):  # these can be nothing but functions
            _check_functions(predict, draws, pool)
        n_beside = math.ceil(bytes_on_the_way(model, first) / 8)
    if n_draws not in (None, draws.shape[0]) and not one_draw:  # a mean is best over all that there are
        raise ValueError(
            f"`n_draws`={n_draws} must be how many functions `sample_posterior` draws, and that of this "
            f"{type(model).__name__} drew {draws.shape[0]}. Leave `n_draws` at None, which takes what it gives."
        )
    batch_size = getattr(predict, "batch_size", None)
    return PoolDraws(predict, tuple(draws.shape), innermost(model), batch_size, checks_rows, n_beside)


def has_own_predictions(model: Any) -> bool:
    """Whether scores of one draw are made of ``predict_proba``, which is not the mean of all draws anyway."""
    return hasattr(model, "predict_proba") and not isinstance(innermost(model), _AVERAGED)


def options_of(query: Any) -> dict[str, Any]:
    """The keywords of `draws_of` that a query has as parameters."""
    return {name: getattr(query, name) for name in ("n_draws", "posterior", "predict_batch_size", "n_jobs")}


def joint_draws_of(pool: Pool, learner: Any, rng: np.random.Generator, method: str, **options: Any) -> PoolDraws:
    """`draws_of` class probabilities, for a method that looks at rows together."""
    check_classifier(modal.unwrap(learner)[0], method)
    posterior = options.get("posterior", "auto")
    if not isinstance(posterior, str):
        check_classifier(posterior, method, "posterior")
    instead = 'BADGEQuery and StochasticBatchQuery("entropy") need no draws.'
    draws = draws_of(pool, learner, rng, instead=instead, **options)
    check_joint_draws(draws.shape, method)
    return draws


def remedies(pool: Pool, draws: PoolDraws, k: int, posterior: Any) -> dict[str, str]:
    """What to say of a batch with rows that add nothing: too few distinct rows, and how to have more draws."""
    n_distinct = pool.n_distinct(k)
    is_refitted = isinstance(posterior, str) and posterior == "bootstrap"
    members = None if is_refitted else members_of(draws.model)
    more = "Increase `n_draws`: more draws can distinguish more rows."
    if members is not None and draws.n_draws >= len(members):
        more = (
            f"All members of the {type(draws.model).__name__} are draws already: more of them (`n_estimators`, say) "
            "can distinguish more rows."
        )
    few = f"Only {n_distinct} of the rows to choose from are distinct." if n_distinct < k else ""
    return {"few_rows": few, "more_draws": more}


def why_filled_up(
    *, all_agree: bool, exhausted: bool, few_rows: str = "", more_draws: str = "More draws can distinguish more rows."
) -> str:
    """Say what there was too little of: disagreement, distinct rows, or draws if those are exhausted."""
    if all_agree:
        return "All draws agree on every row, as of a model that learned nothing yet, or that is sure of everything."
    no_other = "No remaining row separates draws that the chosen rows cannot separate."
    return few_rows or (more_draws if exhausted else no_other)


@contextmanager
def explained(doing: str, rows: slice, model: Any) -> Iterator[None]:
    """Name the rows and the model where something fails that is done with their draws."""
    with failure_explained(f"{doing} rows {rows.start} to {rows.stop - 1}"), probabilities_of(model):
        yield


@dataclass(frozen=True)
class _Finder:
    """Looks for the draws of an estimator."""

    pool: Pool
    rng: np.random.Generator
    n_draws: int | None
    n_jobs: int | None
    one_draw: bool
    instead: str
    fit_params: FitParams | None

    def own(self, estimator: Any) -> tuple[PredictDraws, bool]:
        """Its own; else its ``predict_proba``, if one draw will do; else those of a bootstrap, and whether they are."""
        try:
            return self._sampled(estimator), False
        except (NoPosteriorError, NoTrainingDataError) as error:
            if self.one_draw and hasattr(estimator, "predict_proba"):
                return prediction_as_draw(estimator), False
            if self.pool.X_training is None:
                name = type(innermost(estimator)).__name__
                raise ValueError(
                    f'`posterior`="auto" found no draws: {name} gives none without the training data it was fitted to. '
                    f"Give `X_training` and `y_training`, or posterior=<an estimator to draw from instead>. "
                    + ("Or calibrate it: this score needs `predict_proba` alone." if self.one_draw else self.instead)
                ) from error
            warn(
                f"{getattr(error, 'why', str(error))}: it is refitted to resampled training data at every query. "
                'posterior="bootstrap" asks for that without this warning; posterior=<estimator> draws from another '
                "model, such as a random forest, fitted to the same data."
            )
        return self.refitted(estimator), True

    def _sampled(self, estimator: Any) -> PredictDraws:
        training = {name: getattr(self.pool, name) for name in ("X_training", "y_training", "sample_weight")}
        try:
            return sample_posterior(estimator, self.n_draws, self.rng, **training)
        except FewMembersError:
            if not self.one_draw:
                raise
            return sample_posterior(estimator, None, self.rng, **training)  # a mean is best over all of them

    def refitted(self, estimator: Any) -> PredictDraws:
        """Draws by members that are fitted to resampled training data."""
        X, y = _training_data(self.pool)
        how: dict[str, Any] = {"sample_weight": self.pool.sample_weight, "fit_params": self.fit_params}
        with failure_explained(f"Refitting {type(estimator).__name__} to resampled training data"):
            return bootstrap(estimator, X, y, self.n_draws, self.rng, n_jobs=self.n_jobs, **how)


def _training_data(pool: Pool) -> tuple[Any, Any]:
    if pool.X_training is None or pool.y_training is None:
        raise ValueError(
            "`posterior` needs the training data to refit on, and there is none at hand. Give `X_training` and "
            "`y_training`, or query through a modAL learner that was fitted."
        )
    return pool.X_training, pool.y_training


def _fitted_surrogate(posterior: Any, estimator: Any, pool: Pool, rng: np.random.Generator) -> Any:
    X, y = _training_data(pool)
    surrogate = seeded_clone(posterior, rng)
    with failure_explained(f"Fitting {type(surrogate).__name__}, the `posterior`, to the training data"):
        labels = y if np.ndim(y) == 1 else labels_to_fit(surrogate, y)
        fit_with(surrogate, X, labels, pool.sample_weight, pool.surrogate_params)
    _check_classes(surrogate, estimator)
    return surrogate


def _check_classes(surrogate: Any, estimator: Any) -> None:
    theirs, ours = getattr(surrogate, "classes_", None), getattr(estimator, "classes_", None)
    if theirs is None or ours is None or set(np.ravel(theirs).tolist()) <= set(np.ravel(ours).tolist()):
        return
    raise ValueError(
        f"`posterior` was fitted to the classes {np.ravel(theirs).tolist()}, and the learner knows "
        f"{np.ravel(ours).tolist()}. Give `X_training` and `y_training` with the learner's labels."
    )


def _check_functions(predict: PredictDraws, draws: Any, pool: Pool) -> None:
    """Draw the first candidate once more, behind another one: neither may make a difference."""
    ends = np.unique([0, pool.n_first - 1])
    pair = predict(pool.take(ends[::-1]))
    n_classes = draws.shape[2] if len(draws.shape) == 3 else None
    check_draws_of(pair, len(ends), n_classes, draws.shape[0])
    row = int(pool.positions(ends)[0])
    check_same_functions(draws, pair[:, -1:], f"row {row}, drawn a second time and beside another,", within_spread=True)
