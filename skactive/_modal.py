"""What modAL 0.4 needs on today's scikit-learn and pandas: the only file that knows modAL's versions.

modAL is imported by nobody but `repair_modal`, which replaces names inside modAL's own modules where the installed
scikit-learn, pandas and numpy no longer have what they call. Learners are recognised by what they carry.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import _containers as containers
from ._checks import kind_of_labels, mixed_labels_error, plain_labels

_FIT_KEYWORDS, _FIT_FAILURE = "_skactive_fit_keywords", "_skactive_fit_failure"


def unwrap(learner: Any, X: Any = None, y: Any = None) -> tuple[Any, Any, Any]:
    """The estimator of a modAL learner, or an estimator by itself; training data as given, else the learner's own."""
    if hasattr(learner, "estimator") and hasattr(learner, "query_strategy"):
        known = getattr(learner, "X_training", None), getattr(learner, "y_training", None)
        return learner.estimator, known[0] if X is None else X, known[1] if y is None else y
    return learner, X, y


def fit_keywords(learner: Any) -> dict[str, Any]:
    """Keywords that the estimator of a learner was last fitted with; nothing where that is not known."""
    return dict(getattr(learner, _FIT_KEYWORDS, {}))


def fit_failure(learner: Any) -> str:
    """What the last fit of a learner's estimator failed with; empty if it did not, or that is not known."""
    return getattr(learner, _FIT_FAILURE, "")


def with_estimator(learner: Any, estimator: Any, X: Any, y: Any) -> Any:
    """A learner like this one, around another estimator and its training data; an estimator by itself stays one."""
    if unwrap(learner)[0] is learner:
        return estimator
    twin = copy.copy(learner)
    twin.estimator, twin.X_training, twin.y_training = estimator, X, y
    return twin


def is_score_of_certainty(score: Any) -> bool:
    """Whether it is modAL's margin, which is large where the model is sure: alone among its utilities."""
    return (getattr(score, "__module__", ""), getattr(score, "__name__", "")) == (
        "modAL.uncertainty",
        "classifier_margin",
    )


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
    """A modAL learner that has fitted this estimator to these rows, without a query strategy yet."""
    repair_modal()
    learner_class = importlib.import_module("modAL.models").ActiveLearner
    return learner_class(estimator=estimator, query_strategy=_no_strategy, X_training=X, y_training=y, **fit_keywords)


def _no_strategy(learner: Any, X_pool: Any, **options: Any) -> Any:
    raise NotImplementedError


def repair_modal() -> list[str]:
    """Make modAL 0.4 work with the installed scikit-learn and pandas.

    Done when `skactive.query` is loaded; call it yourself if modAL is used without a query of this package. Only names
    inside modAL's own modules are replaced: what fails on current versions, what turns lists of mixed types into text,
    what loses labels, and what forgets how the last fit was made: its keywords, such as weights, and its error, which
    queries ask for. Labels of containers that modAL does not know, or of two of them, are joined; those with an index
    go by that of their rows; missing ones, and those of a wrong shape, leave a learner as it was. Gaps in DataFrames
    of rows are left to the estimator.

    Returns
    -------
    list of str
        What was replaced; empty if modAL is not installed or needs nothing (any more).

    See Also
    --------
    StochasticBatchQuery : Repairs modAL by itself when it is imported.

    Examples
    --------
    >>> from skactive import repair_modal
    >>> repaired = repair_modal()
    >>> repair_modal()
    []
    """
    if importlib.util.find_spec("modAL") is None:
        return []
    data = importlib.import_module("modAL.utils.data")
    base = importlib.import_module("modAL.models.base")
    learners = importlib.import_module("modAL.models.learners")
    repaired: list[str] = []
    if not hasattr(data.data_vstack, "_repaired"):
        repaired += [_replace_check(module) for module in (base, learners) if hasattr(module, "check_X_y")]
        repaired += _replace_everywhere("data_vstack", _stacking(data.data_vstack))
        repaired += _replace_everywhere("data_hstack", _stacking(data.data_hstack, axis=1))
        repaired += _replace_everywhere("retrieve_rows", _retrieving(data.retrieve_rows))
        repaired += _make_learner_whole(learners.ActiveLearner)
        repaired += [_make_committee_whole(learners.Committee), _repair_vote(learners.Committee)]
        repaired += [_keep_record(learners.ActiveLearner, name) for name in ("_fit_to_known", "_fit_on_new")]
    return repaired


def _replace_check(module: ModuleType) -> str:
    """The check of new data under the keyword that scikit-learn has for it, which was renamed in 1.6 and gone in 1.8.

    Gaps in a DataFrame pass: they are the business of the estimator, a pipeline that fills them, say.
    """
    check = module.check_X_y
    keyword = "ensure_all_finite" if "ensure_all_finite" in inspect.signature(check).parameters else "force_all_finite"

    def checked(X: Any, y: Any, *, force_all_finite: Any = True, **options: Any) -> Any:
        finite = False if hasattr(X, "iloc") else force_all_finite
        if isinstance(X, Mapping):  # no array, so that its length is all there is to check
            X = np.zeros((containers.count_rows(X), 1))
        return check(X, y, **{keyword: finite}, **options)

    module.check_X_y = checked  # type: ignore[attr-defined]
    return f"{module.__name__}.check_X_y"


def _stacking(original: Any, axis: int = 0) -> Any:
    """ModAL's stacking, which knows few containers, no pandas >= 2, and turns mixed lists into strings."""

    @functools.wraps(original)
    def stack(blocks: Any) -> Any:
        if axis == 0:
            return functools.reduce(containers.join_rows, blocks)
        first = blocks[0]
        if hasattr(first, "iloc"):
            return sys.modules["pandas"].concat(blocks, axis=axis)
        if hasattr(first, "detach"):
            return sys.modules["torch"].cat(list(blocks), dim=axis)
        if any(sp.issparse(block) for block in blocks):
            return sp.hstack(blocks, format="csr")  # so that the rows can be addressed again
        return original(blocks)

    stack._repaired = True  # type: ignore[attr-defined]
    return stack


def _retrieving(original: Any) -> Any:
    """ModAL's row access, which knows few containers and turns mixed lists into strings."""

    @functools.wraps(original)
    def retrieve_rows(X: Any, I: Any) -> Any:  # noqa: E741 - modAL's name
        if np.ndim(I) == 0 and isinstance(X, list | tuple):
            return X[I]
        if isinstance(X, np.ndarray | sys.modules["pandas"].DataFrame):
            return original(X, I)
        if hasattr(X, "detach"):
            return containers.prepare_pool(X)[I]
        return containers.take_rows(containers.prepare_pool(X), np.atleast_1d(np.asarray(I)))

    return retrieve_rows


def _make_learner_whole(learner_class: Any) -> list[str]:
    """Labels go by the index of their rows, in any container; bad ones leave the learner as it was.

    ``repr`` finds every parameter.
    """
    owner = next(c for c in learner_class.__mro__ if "_add_training_data" in vars(c))
    add, fit, fit_to_known, fit_on_new = (getattr(owner, name) for name in _TAKE_LABELS)

    @functools.wraps(add)
    def _add_training_data(self: Any, X: Any, y: Any) -> Any:
        before = self.X_training, self.y_training
        try:
            y = _checked_labels(X, y)
            if before[0] is not None:
                self.y_training, y = _of_one_container(self.y_training, y)
            return add(self, X, y)
        except Exception:
            self.X_training, self.y_training = before
            raise

    @functools.wraps(fit)
    def fit_checked(self: Any, X: Any, y: Any, *args: Any, **options: Any) -> Any:
        return fit(self, X, _checked_labels(X, y), *args, **options)

    @functools.wraps(fit_to_known)
    def _fit_to_known(self: Any, bootstrap: bool = False, **options: Any) -> Any:
        known = self.y_training = _checked_labels(self.X_training, self.y_training)  # those of the constructor
        try:
            if bootstrap:
                self.y_training = plain_labels(known, "y")  # modAL takes them by position, which a Series is not
            return fit_to_known(self, bootstrap=bootstrap, **options)
        finally:
            self.y_training = known

    @functools.wraps(fit_on_new)
    def _fit_on_new(self: Any, X: Any, y: Any, bootstrap: bool = False, **options: Any) -> Any:
        y = _checked_labels(X, y)
        return fit_on_new(self, X, plain_labels(y, "y") if bootstrap else y, bootstrap=bootstrap, **options)

    for name, function in zip(_TAKE_LABELS, (_add_training_data, fit_checked, _fit_to_known, _fit_on_new), strict=True):
        setattr(owner, name, function)
    owner.bootstrap_init = False
    return [f"{owner.__module__}.{owner.__name__}.{name}" for name in _TAKE_LABELS]


_TAKE_LABELS = ("_add_training_data", "fit", "_fit_to_known", "_fit_on_new")


def _make_committee_whole(committee_class: Any) -> str:
    """What one learner of a committee refuses, none of them keeps."""
    owner = next(c for c in reversed(committee_class.__mro__) if "_add_training_data" in vars(c))
    add = owner._add_training_data

    @functools.wraps(add)
    def _add_training_data(self: Any, X: Any, y: Any) -> Any:
        before = [(learner.X_training, learner.y_training) for learner in self.learner_list]
        try:
            return add(self, X, y)
        except Exception:
            for learner, (X_before, y_before) in zip(self.learner_list, before, strict=True):
                learner.X_training, learner.y_training = X_before, y_before
            raise

    owner._add_training_data = _add_training_data
    return f"{owner.__module__}.{owner.__name__}._add_training_data"


def _checked_labels(X: Any, y: Any) -> Any:
    """Labels in the order of their rows, none missing; as an array where modAL does not know their container."""
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


def _keep_record(learner_class: Any, name: str) -> str:
    """A fit whose keywords, weights of rows among them, stay with the learner, as does the error if it fails."""
    owner = next(c for c in learner_class.__mro__ if name in vars(c))
    fit = vars(owner)[name]

    @functools.wraps(fit)
    def keeping(self: Any, *args: Any, **options: Any) -> Any:
        setattr(self, _FIT_KEYWORDS, {key: value for key, value in options.items() if key != "bootstrap"})
        setattr(self, _FIT_FAILURE, "")
        try:
            return fit(self, *args, **options)
        except Exception as error:
            setattr(self, _FIT_FAILURE, str(error).strip().partition("\n")[0] or type(error).__name__)
            raise

    setattr(owner, name, keeping)
    return f"{owner.__module__}.{owner.__name__}.{name}"


def _repair_vote(committee_class: Any) -> str:
    """Votes of any type, on any container: modAL's buffer holds numbers only."""

    def vote(self: Any, X: Any, **predict_kwargs: Any) -> NDArray[Any]:
        return np.stack([learner.predict(X, **predict_kwargs) for learner in self.learner_list], axis=1)

    committee_class.vote = vote
    return f"{committee_class.__module__}.{committee_class.__name__}.vote"


def _replace_everywhere(name: str, replacement: Any) -> list[str]:
    """ModAL's modules import these functions by name: replace each copy."""
    modules = [m for key, m in sys.modules.items() if key.partition(".")[0] == "modAL" and hasattr(m, name)]
    for module in modules:
        setattr(module, name, replacement)
    return [f"{module.__name__}.{name}" for module in modules]
