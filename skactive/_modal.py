"""What modAL 0.4 needs on today's scikit-learn and pandas: the only file that knows modAL's versions.

modAL is imported here alone, where it is installed. `repair_modal` replaces names inside modAL's own modules where the
installed scikit-learn, pandas and numpy no longer have what they call. Learners are recognised by what they carry.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import _containers as containers
from ._utils.validation import kind_of_labels, mixed_labels_error, plain_labels

_FIT_KEYWORDS, _FIT_FAILURE = "_skactive_fit_keywords", "_skactive_fit_failure"
_FITTED_TO = "_skactive_fitted_to"  # new rows and labels alone, if the last fit was to these


def unwrap(learner: Any, X: Any = None, y: Any = None) -> tuple[Any, Any, Any]:
    """The estimator of a modAL learner, or an estimator by itself; training data as given, else those of its fit."""
    if hasattr(learner, "estimator") and hasattr(learner, "query_strategy"):
        known = _fitted_to(learner)
        return learner.estimator, known[0] if X is None else X, known[1] if y is None else y
    return learner, X, y


def _fitted_to(learner: Any) -> tuple[Any, Any]:
    """Rows and labels of the last fit of a learner: all, unless it began anew with ``only_new``."""
    new = getattr(learner, _FITTED_TO, None)
    parameters: dict[str, Any] = getattr(learner.estimator, "get_params", dict)()
    goes_on = any(name.split("__")[-1] == "warm_start" and value is True for name, value in parameters.items())
    if new is not None and not goes_on:
        return new
    return getattr(learner, "X_training", None), getattr(learner, "y_training", None)


def fit_keywords(learner: Any) -> dict[str, Any]:
    """Keywords that the estimator of a learner was last fitted with; nothing where that is not known."""
    return dict(getattr(learner, _FIT_KEYWORDS, {}))


def fit_failure(learner: Any) -> str:
    """What the last fit of a learner's estimator failed with; empty if it did not, or that is not known."""
    return getattr(learner, _FIT_FAILURE, "")


def is_score_of_certainty(score: Any) -> bool:
    """Whether it is modAL's margin, which is large where the model is sure: alone among its utilities."""
    name = f"{getattr(score, '__module__', '')}.{getattr(score, '__name__', '')}"
    return name == "modAL.uncertainty.classifier_margin"


def answer(learner: Any, indices: NDArray[np.int64], metrics: NDArray[np.float64]) -> Any:
    """What the learner's ``query`` expects of a strategy.

    modAL 0.4.1 takes bare indices. 0.4.2 unpacks a pair and, given anything else, calls the strategy a second time
    (or, given two indices, loses one).
    """
    query = getattr(learner, "query", None)
    if query is not None and "return_metrics" in inspect.signature(query).parameters:
        return indices, metrics
    return indices


def committee_types() -> tuple[type, ...]:
    """ModAL's Committee and CommitteeRegressor; nothing if it is not installed."""
    if importlib.util.find_spec("modAL") is None:
        return ()
    models = importlib.import_module("modAL.models")
    return models.Committee, models.CommitteeRegressor


def fitted_learner(estimator: Any, X: Any, y: Any, **fit_keywords: Any) -> Any:
    """A modAL learner that has fitted this estimator to these rows; its query strategy is still modAL's own."""
    repair_modal()
    learner_class = importlib.import_module("modAL.models").ActiveLearner
    return learner_class(estimator=estimator, X_training=X, y_training=y, **fit_keywords)


def repair_modal() -> None:
    """Make modAL 0.4 work with the installed scikit-learn and pandas.

    Done when `skactive.query` is loaded; call it yourself if modAL is used without a query of this package. Only names
    inside modAL's own modules are replaced: what fails on current versions, what turns lists of mixed types into text,
    what loses labels, and what forgets how the last fit was made. Labels of any containers are joined; those with an
    index are matched to their rows by it; missing ones, and those of a wrong shape, leave a learner as it was. If modAL
    is not installed, or was repaired before, nothing happens.

    Examples
    --------
    >>> from skactive import repair_modal
    >>> repair_modal()
    """
    if importlib.util.find_spec("modAL") is None:
        return
    data = importlib.import_module("modAL.utils.data")
    base = importlib.import_module("modAL.models.base")
    learners = importlib.import_module("modAL.models.learners")
    if getattr(data.data_vstack, "__module__", "") == __name__:
        return
    for module in (base, learners):
        if hasattr(module, "check_X_y"):
            module.check_X_y = _checking(module.check_X_y)  # type: ignore[attr-defined]
    _replace_everywhere("data_vstack", _stack)
    _replace_everywhere("retrieve_rows", _retrieve_rows)
    for function in (_add_training_data, _fit_to_known, _fit_on_new):
        _replace(learners.ActiveLearner.__mro__, function.__name__, function)
    _replace(learners.ActiveLearner.__mro__, "fit", _fit)
    next(c for c in learners.ActiveLearner.__mro__ if "fit" in vars(c)).bootstrap_init = False  # for `repr`
    _replace(learners.Committee.__mro__[::-1], "_add_training_data", _add_to_all)
    learners.Committee.vote = _vote


def _replace_everywhere(name: str, replacement: Any) -> None:
    """ModAL's modules import these functions by name: replace each copy."""
    for key, module in list(sys.modules.items()):
        if key.partition(".")[0] == "modAL" and hasattr(module, name):
            setattr(module, name, replacement)


def _replace(classes: tuple[type, ...], name: str, function: Any) -> None:
    """Let ``function(original, self, ...)`` do the work of a method, in the first class that defines it."""
    owner = next(c for c in classes if name in vars(c))
    original = vars(owner)[name]

    @functools.wraps(original)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return function(original, self, *args, **options)

    setattr(owner, name, method)


def _checking(check: Any) -> Any:
    """The check of new data under scikit-learn's keyword, renamed in 1.6; gaps in a DataFrame are the estimator's."""

    def checked(X: Any, y: Any, *, force_all_finite: Any = True, **options: Any) -> Any:
        finite = False if hasattr(X, "iloc") else force_all_finite
        if isinstance(X, Mapping):  # no array, so that its length is all there is to check
            X = np.zeros((containers.count_rows(X), 1))
        y = y.reshape(len(y), -1) if getattr(y, "ndim", 1) > 2 else y  # of pixels
        return check(X, y, ensure_all_finite=finite, **options)

    return checked


def _stack(blocks: Any) -> Any:
    """Rows below rows; modAL's own knows few containers, no pandas >= 2, and turns mixed lists into strings."""
    return functools.reduce(containers.join_rows, blocks)


def _retrieve_rows(X: Any, I: Any) -> Any:  # noqa: E741 - modAL's name
    """Rows, or one of them; modAL's own knows few containers, and turns mixed lists into strings."""
    X = containers.prepare_pool(X)
    return getattr(X, "iloc", X)[I] if np.ndim(I) == 0 else containers.take_rows(X, np.asarray(I))


def _vote(committee: Any, X: Any, **predict_kwargs: Any) -> NDArray[Any]:
    """Votes of any type, on any container: modAL's buffer holds numbers only."""
    return np.stack([learner.predict(X, **predict_kwargs) for learner in committee.learner_list], axis=1)


# --- labels and fits: by the index of their rows, in any container; bad ones leave a learner as it was ---


@contextlib.contextmanager
def _as_before(learners: Any) -> Iterator[None]:
    """What fails here leaves the training data of learners as they were."""
    before = [(learner.X_training, learner.y_training) for learner in learners]
    try:
        yield
    except Exception:
        for learner, (X, y) in zip(learners, before, strict=True):
            learner.X_training, learner.y_training = X, y
        raise


def _add_training_data(add: Callable[..., Any], learner: Any, X: Any, y: Any) -> Any:
    with _as_before([learner]):
        y = _checked_labels(X, y)
        if learner.X_training is not None:
            learner.y_training, y = _of_one_container(learner.y_training, y)
        return add(learner, X, y)


def _add_to_all(add: Callable[..., Any], committee: Any, X: Any, y: Any) -> Any:
    """What one learner of a committee refuses, none of them keeps."""
    with _as_before(committee.learner_list):
        return add(committee, X, y)


def _fit(fit: Callable[..., Any], learner: Any, X: Any, y: Any, *args: Any, **options: Any) -> Any:
    return fit(learner, X, _checked_labels(X, y), *args, **options)


def _fit_to_known(fit: Callable[..., Any], learner: Any, bootstrap: bool = False, **options: Any) -> Any:
    with _recorded(learner, options):
        known = learner.y_training = _checked_labels(learner.X_training, learner.y_training)  # of the constructor
        try:
            if bootstrap:
                learner.y_training = plain_labels(known, "y")  # modAL takes them by position, which a Series is not
            return fit(learner, bootstrap=bootstrap, **options)
        finally:
            learner.y_training = known


def _fit_on_new(fit: Callable[..., Any], learner: Any, X: Any, y: Any, bootstrap: bool = False, **options: Any) -> Any:
    with _recorded(learner, options):
        y = _checked_labels(X, y)
        setattr(learner, _FITTED_TO, (X, y))
        return fit(learner, X, plain_labels(y, "y") if bootstrap else y, bootstrap=bootstrap, **options)


@contextlib.contextmanager
def _recorded(learner: Any, options: Mapping[str, Any]) -> Iterator[None]:
    """Keep the keywords of a fit, weights of rows among them, with the learner, and the error if it fails."""
    setattr(learner, _FIT_KEYWORDS, dict(options))
    setattr(learner, _FIT_FAILURE, "")
    setattr(learner, _FITTED_TO, None)
    try:
        yield
    except Exception as error:
        setattr(learner, _FIT_FAILURE, str(error).strip().partition("\n")[0] or type(error).__name__)
        raise


def _checked_labels(X: Any, y: Any) -> Any:
    """Labels in the order of their rows, none missing; as an array where modAL does not know their container."""
    containers.check_plain(X, "X")
    y = containers.aligned(y, X, "y")
    plain = plain_labels(y, "y")
    is_known = hasattr(y, "iloc") or isinstance(y, list) or hasattr(y, "detach") or sp.issparse(y)
    return y if is_known else plain


def _of_one_container(known: Any, new: Any) -> tuple[Any, Any]:
    """The labels of a learner and those to be added, as arrays unless they can be joined as they are."""
    before, after = plain_labels(known, "y"), plain_labels(new, "y")
    if before.size and after.size and {kind_of_labels(before), kind_of_labels(after)} == {"numbers", "text"}:
        raise mixed_labels_error("y", [before.item(0), after.item(0)])
    if type(known) is type(new) and list(getattr(known, "columns", ())) == list(getattr(new, "columns", ())):
        return known, new
    if before.ndim == 2 and before.shape[1] == 1 and after.ndim == 1:
        return before, after[:, np.newaxis]
    is_column = hasattr(new, "iloc") and after.shape[1:] == (1,)
    return before, after.ravel() if is_column and before.ndim == 1 else after
