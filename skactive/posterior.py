"""Posterior draws: a fitted estimator in, K fixed functions out.

`sample_posterior` answers with ``predict_draws``; every call of it evaluates the *same* K functions, so a pool can be
streamed through them chunk by chunk. It asks, in this order: the estimator's own method
``sample_posterior(n_draws, rng)``; a function registered for its type; one step down a Pipeline or a search. What
has no draws of its own can be given some: by `bootstrap`, or by a surrogate estimator.

Adding a source is one registration::

    @sample_posterior.register(MyEstimator)
    def _(estimator, n_draws, rng):
        return predict_draws
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from skorch import NeuralNet, NeuralNetBinaryClassifier

from . import _chunks as chunks
from . import _thinning as thinning
from . import _validation as validation

__all__ = ["bootstrap", "one_draw", "sample_posterior", "seeded_clone"]

PredictDraws = Callable[[Any], Any]

NET_DRAWS = 100
BOOTSTRAP_DRAWS = 20


@singledispatch
def sample_posterior(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    """Draw functions from what a fitted estimator believes.

    Parameters
    ----------
    estimator : object
        A fitted `MCDropoutClassifier` or `MCDropoutRegressor`; a random forest or extra trees; a skorch net or a torch
        module with dropout layers; a Pipeline or a GridSearchCV / RandomizedSearchCV around one of these; or anything
        with a method ``sample_posterior(n_draws, rng)``.
    n_draws : int or None
        Number of functions. None is all members of an ensemble and 100 draws of everything else. Fewer than an ensemble
        has are distinct members, chosen at random.
    rng : numpy.random.Generator

    Returns
    -------
    predict_draws : callable
        ``predict_draws(X)`` is an array or tensor (n_draws, n_points, n_classes) of probabilities with columns in the
        order of ``classes_``, or (n_draws, n_points) of predicted values for a regressor; the same functions at every
        call. Our nets' rows are equal to the bit, on the CPU, however X is cut into chunks.

    Raises
    ------
    NoPosteriorError
        A TypeError: the estimator has no draws of its own; `bootstrap` gives any estimator some.
    ValueError
        If ``n_draws`` is more than an ensemble has members, a net has no dropout, or the estimator has several outputs.
    sklearn.exceptions.NotFittedError

    References
    ----------
    Gal and Ghahramani (2016), Dropout as a Bayesian Approximation; Kirsch et al. (2019), BatchBALD, on why one mask
    is needed for all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import sample_posterior
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> predict_draws = sample_posterior(forest, 5, np.random.default_rng(0))
    >>> predict_draws(X).shape
    (5, 150, 3)
    """
    if hasattr(estimator, "sample_posterior"):
        return estimator.sample_posterior(NET_DRAWS if n_draws is None else n_draws, rng)
    raise validation.NoPosteriorError(estimator)


@sample_posterior.register(RandomForestClassifier)
@sample_posterior.register(ExtraTreesClassifier)
def _forest_classifier(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    # Trees know the classes as 0, 1, ...: their columns already are those of the forest.
    return _tree_draws(estimator, "predict_proba", n_draws, rng)


@sample_posterior.register(RandomForestRegressor)
@sample_posterior.register(ExtraTreesRegressor)
def _forest_regressor(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    return _tree_draws(estimator, "predict", n_draws, rng)


def _tree_draws(forest: Any, method: str, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(forest)
    validation.check_single_output(forest)
    trees = _choose_members(forest.estimators_, n_draws, rng)

    def predict_draws(X: Any) -> NDArray[np.float64]:
        X = _plain_float32(validation.check_features(forest, X))
        with joblib.parallel_config("threading"):
            return np.stack(joblib.Parallel(n_jobs=forest.n_jobs)(joblib.delayed(getattr(t, method))(X) for t in trees))

    return predict_draws


def _plain_float32(X: Any) -> Any:
    """What trees work on: they were fitted without feature names and warn if they get any."""
    return X.astype(np.float32) if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float32)


def _choose_members(members: Sequence[Any], n_draws: int | None, rng: np.random.Generator) -> list[Any]:
    """All members, or ``n_draws`` distinct ones at random, in the ensemble's order."""
    if n_draws is None:
        return list(members)
    n_draws = validation.check_k(n_draws, len(members), "n_draws", "members of the ensemble")
    return [members[i] for i in np.sort(rng.choice(len(members), n_draws, replace=False))]


@sample_posterior.register(Pipeline)
def _pipeline(estimator: Pipeline, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    predict_draws = sample_posterior(estimator.steps[-1][1], n_draws, rng)
    if len(estimator.steps) == 1:
        return predict_draws
    transform = estimator[:-1].transform
    return lambda X: predict_draws(transform(X))


@sample_posterior.register(GridSearchCV)
@sample_posterior.register(RandomizedSearchCV)
def _search(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    if not hasattr(estimator, "best_estimator_"):
        raise validation.search_without_refit_error(estimator)
    return sample_posterior(estimator.best_estimator_, n_draws, rng)


@sample_posterior.register(NeuralNet)
def _skorch_net(estimator: NeuralNet, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    estimator.check_is_fitted()
    nonlinearity = estimator._get_predict_nonlinearity()  # what predict_proba applies to the module's outputs
    binary = type(estimator).infer is NeuralNetBinaryClassifier.infer
    own_infer = not binary and type(estimator).infer is not NeuralNet.infer

    def infer(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        net = copy.copy(estimator)
        vars(net)["module_"] = module
        outputs = net.infer(x)
        return outputs[0] if isinstance(outputs, tuple) else outputs

    def answer(outputs: torch.Tensor) -> torch.Tensor:
        outputs = outputs.squeeze(-1) if binary and outputs.ndim == 3 else outputs
        # One draw at a time: the function may take its first axis for the rows.
        predictions = torch.stack([nonlinearity(draw) for draw in outputs])
        return validation.check_one_target(predictions) if is_regressor(estimator) else predictions

    return _module_draws(estimator.module_, n_draws, rng, answer, infer if own_infer else None)


@sample_posterior.register(torch.nn.Module)
def _torch_module(estimator: torch.nn.Module, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    return _module_draws(estimator, n_draws, rng, _as_probabilities)


def _module_draws(
    module: torch.nn.Module,
    n_draws: int | None,
    rng: np.random.Generator,
    answer: Callable[[torch.Tensor], torch.Tensor],
    infer: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor] | None = None,
) -> PredictDraws:
    n_draws = NET_DRAWS if n_draws is None else validation.check_n_draws(n_draws)
    draws = thinning.fixed_mask_draws(module, n_draws, rng, forward=infer)
    first = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(0))
    # The last step belongs into the micro-batch, too: vectorised functions round by position.

    def predict_draws(X: Any) -> torch.Tensor:
        with validation.net_failure_explained(X):
            return thinning.forward_rows(lambda batch: answer(draws(batch)), _as_tensor(X, first), axis=1)

    return predict_draws


def _as_tensor(X: Any, like: torch.Tensor) -> torch.Tensor:
    """The rows on the device, and of the float type, of the net; whole numbers stay whole (they may be embedded)."""
    if not isinstance(X, torch.Tensor):
        X = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        X = torch.from_numpy(X if X.flags.writeable and X.dtype.isnative and X.flags.c_contiguous else np.array(X))
    return X.to(like.device, like.dtype if X.is_floating_point() else X.dtype)


def _as_probabilities(outputs: torch.Tensor) -> torch.Tensor:
    """Of a bare module nobody says what it returns: it shows in the row sums. What fits nothing else are logits."""
    validation.check_class_outputs(outputs)
    for probabilities in (outputs, outputs.exp()):
        if bool((probabilities >= 0).all()) and bool(((probabilities.sum(-1) - 1).abs() < 1e-4).all()):
            return probabilities
    return outputs.softmax(-1)


def one_draw(estimator: Any) -> PredictDraws:
    """The predictive distribution as a single draw, for scores that need no more."""
    check_is_fitted(estimator)
    return lambda X: validation.check_one_output(estimator.predict_proba(X), estimator)[np.newaxis]


def bootstrap(
    estimator: Any, X: Any, y: Any, n_draws: int | None, rng: np.random.Generator, *, n_jobs: int | None = None
) -> PredictDraws:
    """Draw functions by refitting clones of an estimator to resampled training data.

    Parameters
    ----------
    estimator : estimator
        Anything that scikit-learn can clone; a fitted search is represented by its best estimator. Members without
        ``predict_proba`` vote.
    X : array-like of shape (n_labelled, ...)
        Training data.
    y : array-like of shape (n_labelled,)
        Labels. Classes are resampled one by one, so every member knows all of them.
    n_draws : int or None
        Number of members; None is 20.
    rng : numpy.random.Generator
    n_jobs : int, optional
        Members fitted at once, as in joblib.

    Returns
    -------
    predict_draws : callable
        As of `sample_posterior`; columns in the order of the estimator's ``classes_`` (sorted labels, if it has none).

    References
    ----------
    Efron (1979), Bootstrap Methods; Lakshminarayanan et al. (2017), on ensembles as draws.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive.posterior import bootstrap
    >>> X, y = load_iris(return_X_y=True)
    >>> predict_draws = bootstrap(LogisticRegression(max_iter=500), X, y, 4, np.random.default_rng(0))
    >>> predict_draws(X).shape
    (4, 150, 3)
    """
    n_draws = BOOTSTRAP_DRAWS if n_draws is None else validation.check_n_draws(n_draws)
    estimator = getattr(estimator, "best_estimator_", estimator)
    X, y = chunks.prepare_pool(X), validation.check_labels(y)
    labels = y if is_classifier(estimator) else np.zeros(len(y))
    resamples = [_stratified_resample(labels, rng) for _ in range(n_draws)]
    clones = [seeded_clone(estimator, rng) for _ in range(n_draws)]
    members = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(member.fit)(chunks.take_rows(X, rows), y[rows])
        for member, rows in zip(clones, resamples, strict=True)
    )
    if not is_classifier(estimator):
        return lambda X: np.stack([member.predict(X) for member in members])
    classes = np.asarray(getattr(estimator, "classes_", np.unique(y)))
    return lambda X: np.stack([_member_probabilities(member, X, classes) for member in members])


def seeded_clone(estimator: Any, rng: np.random.Generator) -> Any:
    """A clone whose every ``random_state``, also of its parts, is a new seed."""
    twin = clone(estimator)
    names = sorted(name for name in twin.get_params() if name.split("__")[-1] == "random_state")
    return twin.set_params(**{name: int(rng.integers(2**31 - 1)) for name in names})


def _stratified_resample(labels: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """As many rows of each label as there are, drawn with replacement."""
    _, which = np.unique(labels, return_inverse=True)
    rows_of = [np.flatnonzero(which == c) for c in range(which.max() + 1)]
    return np.sort(np.concatenate([rng.choice(rows, len(rows)) for rows in rows_of]))


def _member_probabilities(member: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """(n_points, n_classes) in the order of ``classes``; one-hot votes where there is no predict_proba."""
    if not hasattr(member, "predict_proba"):
        return (member.predict(X)[:, np.newaxis] == classes).astype(np.float64)
    probabilities = np.asarray(member.predict_proba(X))
    aligned = np.zeros((len(probabilities), len(classes)))
    aligned[:, np.searchsorted(classes, member.classes_)] = probabilities
    return aligned
