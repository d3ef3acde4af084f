"""How large the next batch should be: models fitted again to part of the labels say how fast the ranking ages.

The mathematics stand in `_ageing`; here are the models. Suggestions have random numbers apart from those of batches,
and leave nothing in the query but what was seen, so that asking for one changes no batch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _containers as containers
from .. import _modal as modal
from .._checks import check_cloneable, check_n_instances, is_committee, is_fitted, task
from .._random import beside, seeded_clone, seeded_for
from ..posterior._bootstrap import check_can_be_refitted, fit_with
from ..posterior._wrappers import labels_to_fit, without_searches
from . import _ageing as ageing
from ._base import Streams
from ._model import check_fits, pool_for
from ._pool import Pool
from ._reference import some_candidates
from ._sampling import ScoringParameters
from ._training import has_nothing_to_tell

_APART = 1  # keeps the random numbers of suggestions apart from those of batches


def suggested_batch_size(query: Any, learner: Any, X_pool: Any, **given: Any) -> int:
    """The suggestion of a `ScoringParameters`; what it saw stays in the memory of the query."""
    query.check_parameters()
    with query.on_a_copy() as call:
        least, most = (int(size) for size in call.batch_range)
        model, pool = pool_for(learner, X_pool, **given)
        check_n_instances(1, len(pool), pool.n_points)
        size = float(least)
        if is_fitted(model) and not has_nothing_to_tell(learner, pool.y_training):
            check_fits(model, pool)
            if pool.X_training is None:
                raise ValueError(_unknown_training_data(learner))
            if call.memory_.batch_sizes:
                size = _labels_that_hold(call, learner, pool)
        return int(min(max(size, least), most, len(pool), call.max_candidates or len(pool)))


def _labels_that_hold(call: Any, learner: Any, pool: Pool) -> float:
    n_labelled = containers.count_rows(pool.X_training)
    seen = _seen(_apart(call), learner, pool)
    # One record for each number of labels: asking twice is no more evidence.
    others = {n: of for n, of in call.memory_.ageing.items() if n != n_labelled}
    latest = dict([*others.items()][1 - ageing.MOST_ROUNDS :])
    call.memory_ = replace(call.memory_, ageing={**latest, n_labelled: seen})
    return ageing.labels_that_hold(n_labelled, ageing.measured_rate(call.memory_.ageing.values()), call.hold)


def _apart(query: Any) -> Any:
    """A copy that has random numbers of its own, and leaves no trace: what it keeps, the query does not."""
    twin = copy.copy(query)
    memory = query.memory_.restarted(beside(query.memory_.rng, _APART))
    twin.memory_ = replace(memory, refits=replace(memory.refits, is_known=True))
    return twin


def _seen(query: Any, learner: Any, pool: Pool) -> ageing.Ageing:
    """What the newer half of the labels did to the ranking of some rows."""
    rngs = query.streams()
    pool = query.limited(pool, 1, rngs.batch)
    model = modal.unwrap(learner)[0]
    X, y = pool.X_training, labels_to_fit(model, pool.y_training)
    older = ageing.older_labels(y, by_class=task(model) == "classifier")
    rows = pool.take(some_candidates(pool, rngs.batch))
    now = replace(pool, X=rows, rows=None, X_training=X, y_training=y)
    past = now.fitted_to(older)
    return ageing.compare(
        query.row_scorer(learner, now, rngs.draws)(now),
        _scores_of_refit(query, learner, now, rngs),
        _scores_of_refit(query, learner, past, rngs),
        growth=len(y) / len(older),
    )


def _scores_of_refit(query: ScoringParameters, learner: Any, pool: Pool, rngs: Streams) -> NDArray[np.float64]:
    """Scores by a model that is fitted again to the training data of the pool."""
    estimator = without_searches(modal.unwrap(learner)[0])
    check_cloneable(estimator)
    check_can_be_refitted(estimator)
    X, y = pool.X_training, pool.y_training
    with seeded_for(estimator, int(rngs.batch.integers(2**31))), _refit_explained(estimator, len(y)):
        model = fit_with(seeded_clone(estimator, rngs.batch), X, y, pool.sample_weight, pool.fit_params)
    return query.row_scorer(modal.with_estimator(learner, model, X, y), pool, rngs.draws)(pool)


@contextmanager
def _refit_explained(estimator: Any, n_labels: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        kind = next((k for k in (ValueError, TypeError) if isinstance(error, k)), RuntimeError)
        raise kind(
            f"Fitting {type(estimator).__name__} again to {n_labels} of the labels, for a suggested batch size "
            f'(`n_instances`="auto"), failed: {error}. Give `n_instances` a number until there are more labels.'
        ) from error


def _unknown_training_data(learner: Any) -> str:
    if is_committee(learner):
        return (
            '`n_instances`="auto" and suggest_batch_size fit a model again to some of the labels, which cannot be done '
            "with a Committee, whose members have labels of their own. Give `n_instances` a number."
        )
    return (
        '`X_training` and `y_training` must be known for a suggested batch size (`n_instances`="auto"): models are '
        "fitted to part of them. Got an estimator by itself. Give both, query through a modAL learner that was fitted, "
        "or give `n_instances` a number."
    )
