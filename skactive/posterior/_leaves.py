"""The leaves that rows fall into, of models made of trees.

Two rows that share a leaf in most trees are treated alike by the model: the share of these trees is a kernel (Breiman
and Cutler's proximity). Models whose trees do not say which leaf it is give each tree's value instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from torch import nn

from ._checks import check_features
from ._ensembles import FORESTS, of_trees
from ._unwrap import Through, inside

_WITHOUT_NUMBERS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
"""Models whose leaves are known by the values of rows alone."""

Leaves = Callable[[Any], NDArray[Any]]
"""``leaves(X)`` is an array (n_rows, n_trees) of whole numbers, or of values: (n_rows, n_values) of float32."""


def leaves_by(estimator: Any) -> Leaves | None:
    """Find a function that says into which leaves rows fall; None for models that are not made of trees."""
    leaves = _leaves(estimator)
    if leaves is not None:
        return leaves
    wrapped = inside(estimator)
    found = None if wrapped is None else leaves_by(wrapped.estimator)
    return found if found is None or wrapped is None else Through(found, before=wrapped.rows)


def is_of_leaves(estimator: Any) -> bool:
    """Whether `leaves_by` gives whole numbers, which say which leaf it is, and no values."""
    wrapped = None if _leaves(estimator) else inside(estimator)
    return is_of_leaves(wrapped.estimator) if wrapped else not isinstance(estimator, _WITHOUT_NUMBERS)


def _leaves(estimator: Any) -> Leaves | None:
    if isinstance(estimator, BaggingClassifier | BaggingRegressor):
        return _of_members(estimator)
    if isinstance(estimator, _WITHOUT_NUMBERS):
        return lambda X: _values_of_stages(estimator, X)
    if isinstance(estimator, FORESTS):
        trees, dtype = estimator.estimators_, _dtype([estimator])
        return lambda X: of_trees(estimator, trees, "apply", X).T.astype(dtype)
    if hasattr(estimator, "apply") and not isinstance(estimator, nn.Module):  # whose `apply` is something else
        dtype = _dtype([estimator])
        return lambda X: _in_one_line(estimator.apply(X)).astype(dtype)
    return None


def _of_members(bagging: Any) -> Leaves | None:
    members = list(zip(bagging.estimators_, bagging.estimators_features_, strict=True))
    if not all(hasattr(member, "apply") for member, _ in members):
        return None

    dtype = _dtype([member for member, _ in members])

    def leaves(X: Any) -> NDArray[Any]:
        X = check_features(bagging, X, dtype=None)
        X = X.tocsc() if sparse.issparse(X) else X
        return np.hstack([_in_one_line(member.apply(X[:, features])) for member, features in members]).astype(dtype)

    return leaves


def _values_of_stages(boosting: Any, X: Any) -> NDArray[np.float32]:
    """What each tree adds to the decision, as rows of one leaf in a tree get the same."""
    is_classifier = hasattr(boosting, "staged_decision_function")
    stages = boosting.staged_decision_function(X) if is_classifier else boosting.staged_predict(X)
    sums = np.stack([np.reshape(stage, (len(stage), -1)) for stage in stages], axis=1)
    return np.diff(sums, axis=1, prepend=0).reshape(len(sums), -1).astype(np.float32)


def _in_one_line(leaves: Any) -> NDArray[Any]:
    """The leaves of a row, whatever axes trees and classes have."""
    leaves = np.asarray(leaves)
    return leaves.reshape(len(leaves), -1)


def _dtype(models: list[Any]) -> type[np.integer[Any]]:
    """The narrowest integers that hold the numbers of all nodes, where they are known."""
    trees = [tree for model in models for tree in np.ravel(getattr(model, "estimators_", model))]
    counts = [tree.tree_.node_count if hasattr(tree, "tree_") else np.inf for tree in trees]
    return np.int16 if max(counts, default=np.inf) < np.iinfo(np.int16).max else np.int32
