"""Embeddings of rows, the probabilities that a classifier computes from them, and leaves of trees.

The embedding of a net is the input of the layer that makes its outputs; that of a model with a method ``embed`` is what
this returns. All others are treated as linear models: their embedding is the input of a Pipeline's last step. The share
of trees in which two rows share a leaf is a kernel (Breiman and Cutler's proximity).
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from skorch import NeuralNet
from torch import Tensor, nn

from .._dropout import FrozenNet, InBlocks, Rows, rows_of_outputs, spread
from .._utils.types import Embedding
from .._utils.validation import as_array, class_outputs, name_or_callable
from ._ensembles import FORESTS, leaf_type, of_trees
from ._nets import NetAdapter, adapter_of, method_of_user
from ._registry import PredictDraws, WithPlaces, check_features, innermost, prediction_as_draw
from ._wrappers import Composed, Unwrapped, is_of_user, unwrap

Embed = Callable[[Any], Any]
"""``embed(X)`` is an array (n_points, n_units)."""

Represent = Callable[[Any], tuple[Any, Any]]
"""``represent(X)`` is (probabilities, embeddings): arrays (n_points, n_classes) and (n_points, n_units)."""

Leaves = Callable[[Any], NDArray[Any]]
"""``leaves(X)`` is an array (n_rows, n_trees) of whole numbers, or of values: (n_rows, n_values) of float32."""

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "logistic": expit,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}
_EMBEDDING = name_or_callable(["auto"])
_WITHOUT_NUMBERS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
_HALF = (torch.bfloat16, torch.float16)


def embed_by(estimator: Any, embedding: Embedding = "auto") -> Embed:
    """Return a function that embeds rows; embeddings have no columns if no layer of a net makes its outputs."""
    _EMBEDDING.check("embedding", embedding)
    if callable(embedding):
        takes_estimator = _count_required(embedding) == 2
        return lambda X: _on_host(embedding(estimator, X) if takes_estimator else embedding(X))
    return _embed(estimator)


def represent_by(estimator: Any, embedding: Embedding = "auto") -> Represent:
    """Return a function that computes probabilities of rows and their embeddings, those of a net in one pass."""
    represent = _represent(estimator)
    if not callable(_EMBEDDING.check("embedding", embedding)):
        return represent
    embed = embed_by(estimator, embedding)
    return lambda X: (represent(X)[0], embed(X))


def predictions_by(estimator: Any, *, is_apart: bool = False) -> PredictDraws:
    """A classifier's own probabilities as a single draw; a net is evaluated in blocks of rows, as for draws.

    Where rows are to keep apart, their embeddings come with them; those of a net always do.
    """
    if _is_net(net := innermost(estimator)):
        is_apart = not method_of_user(net)
    if not (is_apart and has_embeddings(estimator)):
        return prediction_as_draw(estimator)
    return WithPlaces(Composed(represent_by(estimator), after=lambda both: (both[0][np.newaxis], both[1])))


def has_embeddings(estimator: Any) -> bool:
    """Whether a model has embeddings of its own: it is a net or a linear model, or embeds rows by a method."""
    if is_embedded_by_a_pass(estimator):
        return True
    wrapped = _model_inside(estimator)
    return hasattr(estimator, "coef_") if wrapped is None else has_embeddings(wrapped.estimator)


def is_embedded_by_a_pass(estimator: Any) -> bool:
    """Whether embeddings take a forward pass: those of nets, and of models with a method for them."""
    if hasattr(estimator, "embed") or isinstance(estimator, MLPClassifier | MLPRegressor) or _is_net(estimator):
        return True
    wrapped = unwrap(estimator)
    return wrapped is not None and is_embedded_by_a_pass(wrapped.estimator)


def _model_inside(estimator: Any) -> Unwrapped | None:
    """What a wrapper holds; of a mixture of models, a linear one."""
    if not isinstance(estimator, VotingClassifier | VotingRegressor):
        return unwrap(estimator)
    linear = [m for m in estimator.estimators_ if has_embeddings(m) and not is_embedded_by_a_pass(m)]
    return Unwrapped(linear[0]) if linear else None


def _count_required(function: Callable[..., Any]) -> int:
    """Positional parameters without a default."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in positional if p.default is p.empty])


def _embed(estimator: Any) -> Embed:
    if hasattr(estimator, "embed"):
        return _ByMethods(estimator, lambda model, X: _on_host(getattr(model, "_embeddings", model.embed)(X)))
    if _is_net(estimator):
        return TappedNet(adapter_of(estimator))
    if isinstance(estimator, MLPClassifier | MLPRegressor):
        return partial(_hidden_layers, estimator)
    wrapped = _model_inside(estimator)
    return (lambda X: X) if wrapped is None else Composed(_embed(wrapped.estimator), before=wrapped.rows)


def _represent(estimator: Any) -> Represent:
    if _is_net(estimator) and not method_of_user(estimator):
        return RepresentedNet(adapter_of(estimator))
    has_both = hasattr(estimator, "embed") or is_of_user(estimator, "predict_proba")
    wrapped = None if has_both else unwrap(estimator)
    if wrapped is not None:
        return Composed(_represent(wrapped.estimator), before=wrapped.rows)
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"`estimator` must be a classifier with predict_proba. Got a {type(estimator).__name__} without it. "
            "CalibratedClassifierCV adds it to any classifier."
        )
    return _ByMethods(estimator, lambda model, X: (class_outputs(model.predict_proba(X), model), _embed(model)(X)))


def _is_net(estimator: Any) -> bool:
    """Whether it is a net whose layers can be tapped, and that does not embed rows by itself."""
    return isinstance(estimator, NeuralNet | nn.Module) and not hasattr(estimator, "embed")


def _hidden_layers(estimator: Any, X: Any) -> NDArray[Any]:
    activation, X = _ACTIVATIONS[estimator.activation], check_features(estimator, X)
    for weights, bias in zip(estimator.coefs_[:-1], estimator.intercepts_[:-1], strict=True):
        X = activation(X @ weights + bias)
    return X


def _on_host(embeddings: Any) -> Any:
    return as_array(embeddings) if isinstance(embeddings, Tensor) else embeddings


class _ByMethods:
    """A function of rows by an estimator's own methods, with the batch size of the net inside, if any."""

    def __init__(self, estimator: Any, answer: Callable[[Any, Any], Any]) -> None:
        self._estimator, self._answer = estimator, answer
        self.batch_size = getattr(estimator, "predict_batch_size", None)

    def with_batch_size(self, n_rows: int) -> _ByMethods:
        if self.batch_size is None:
            return self
        estimator = copy.copy(self._estimator)
        estimator.predict_batch_size = n_rows
        return _ByMethods(estimator, self._answer)

    def __call__(self, X: Any) -> Any:
        return self._answer(self._estimator, X)


class TappedNet(InBlocks):
    """Input of the layer that makes a net's outputs, with dropout switched off."""

    def __init__(self, adapter: NetAdapter) -> None:
        self._adapter = adapter
        self._net = FrozenNet(adapter.module, adapter.forward)
        super().__init__(adapter.batch_size)
        self._is_checked = self._has_looked = False

    def __call__(self, X: Any) -> Any:
        rows = self._adapter.rows(X)
        self._look(rows)
        return as_array(self.joined(self._tapped, rows))

    def _look(self, rows: Rows, learn: Callable[[FrozenNet, Rows], None] | None = None) -> None:
        """Learn from the first row how many may be in a block, and what outputs mean."""
        if not self._has_looked:
            with torch.no_grad():
                if learn is not None:
                    learn(self._net, rows)
                one = self._net.plain(rows.take(range(1)), 1)[0]
            self.batch_size, self._has_looked = rows_of_outputs(self.batch_size, one, 1), True

    def _checked(self, rows: Rows, block: range) -> tuple[Tensor, Tensor]:
        """Outputs and embeddings of a block, whose rows do not depend on other rows."""

        def plain(batch: Any, n_rows: int) -> Tensor:
            return self._net.plain(batch, n_rows)[0]

        if not self._is_checked and len(block) > 1:
            self._net.check_rows(plain, rows, spread(block))
            self._is_checked = True
        outputs, embeddings = self._net.tapped(rows, block)
        self._net.check_one(plain, rows, block, outputs)
        return outputs, embeddings

    def _tapped(self, rows: Rows, block: range) -> Tensor:
        _, embeddings = self._checked(rows, block)
        return embeddings.float() if embeddings.dtype in _HALF else embeddings


class RepresentedNet(TappedNet):
    """A net's probabilities, and the input of the layer that makes them, in one pass."""

    def __call__(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        rows = self._adapter.rows(X)
        self._look(rows, self._adapter.learn)
        shapes: list[torch.Size] = []
        joined = as_array(self.joined(partial(self._both, shapes), rows))
        width = math.prod(shapes[0])
        return joined[:, :width].reshape(-1, *shapes[0]), joined[:, width:]

    def _both(self, shapes: list[torch.Size], rows: Rows, block: range) -> Tensor:
        outputs, embeddings = self._checked(rows, block)
        probabilities = self._adapter.answer(outputs.unsqueeze(0))[0]
        if outputs.dtype in _HALF:  # whose rows miss the sum 1 by more than is allowed to float32
            probabilities = probabilities.float()
            probabilities = probabilities / probabilities.sum(1, keepdim=True)
        shapes.append(probabilities.shape[1:])
        return torch.cat([probabilities.flatten(1), embeddings.to(probabilities)], dim=1)


def leaves_by(estimator: Any) -> Leaves | None:
    """Return a function that computes the leaves of rows; None for models that are not made of trees."""
    leaves = _leaves(estimator)
    wrapped = unwrap(estimator) if leaves is None else None
    inside = None if wrapped is None else leaves_by(wrapped.estimator)
    return leaves if wrapped is None or inside is None else Composed(inside, before=wrapped.rows)


def is_of_leaves(estimator: Any) -> bool:
    """Whether `leaves_by` gives numbers of leaves, not values."""
    return not isinstance(innermost(estimator), _WITHOUT_NUMBERS)


def _leaves(estimator: Any) -> Leaves | None:
    if isinstance(estimator, BaggingClassifier | BaggingRegressor):
        return _of_members(estimator)
    if isinstance(estimator, _WITHOUT_NUMBERS):
        return lambda X: _values_of_stages(estimator, X)
    if isinstance(estimator, nn.Module) or not hasattr(estimator, "apply"):  # that of a module is something else
        return None
    dtype = leaf_type([estimator])
    if isinstance(estimator, FORESTS):
        trees = estimator.estimators_
        return lambda X: of_trees(estimator, trees, "apply", X).T.astype(dtype)
    return lambda X: _apply(estimator, X).astype(dtype)


def _of_members(bagging: Any) -> Leaves | None:
    members = list(zip(bagging.estimators_, bagging.estimators_features_, strict=True))
    if not all(hasattr(member, "apply") for member, _ in members):
        return None
    dtype = leaf_type([member for member, _ in members])

    def leaves(X: Any) -> NDArray[Any]:
        X = check_features(bagging, X, dtype=None)
        X = X.tocsc() if sparse.issparse(X) else X
        return np.hstack([_apply(member, X[:, features]) for member, features in members]).astype(dtype)

    return leaves


def _apply(model: Any, X: Any) -> NDArray[Any]:
    """Leaves of each row on one axis, over trees and classes."""
    leaves = np.asarray(model.apply(X))
    return leaves.reshape(len(leaves), -1)


def _values_of_stages(boosting: Any, X: Any) -> NDArray[np.float32]:
    """Contribution of each tree to the decision: equal for rows of one leaf."""
    is_classifier = hasattr(boosting, "staged_decision_function")
    stages = boosting.staged_decision_function(X) if is_classifier else boosting.staged_predict(X)
    sums = np.stack([np.reshape(stage, (len(stage), -1)) for stage in stages], axis=1)
    return np.diff(sums, axis=1, prepend=0).reshape(len(sums), -1).astype(np.float32)
