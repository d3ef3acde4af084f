"""What the last layer of a classifier sees of a row, and the probabilities it makes of that.

`represent` finds both for fitted estimators: nets bring the input of the linear layer that runs last, linear models
their features. What is neither is taken for a softmax regression on its features, those that the last step of a
Pipeline gets.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from skorch import NeuralNet
from torch import Tensor, nn

from .. import _dropout as thinning
from .._checks import as_array, check_one_output
from . import _nets as nets
from ._checks import check_embedding, check_features, check_has_probabilities, search_without_refit_error
from ._registry import Through

Represent = Callable[[Any], tuple[Any, Any]]
"""``represent(X)`` is (probabilities, embeddings): arrays (n_points, n_classes) and (n_points, n_units)."""

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "logistic": expit,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}


def represent_by(estimator: Any, embedding: str | Callable[..., Any]) -> Represent:
    """By the estimator's own embedding ("auto"), or by a function ``embedding(X)`` or ``embedding(estimator, X)``."""
    model = represent(estimator)
    if callable(embedding):
        embed = _of_rows(estimator, embedding)
        return lambda X: (model(X)[0], embed(X))
    check_embedding(embedding)
    return model


def _of_rows(estimator: Any, embedding: Callable[..., Any]) -> Callable[[Any], Any]:
    if _count_required(embedding) == 2:
        return lambda X: _on_host(embedding(estimator, X))
    return lambda X: _on_host(embedding(X))


def _count_required(function: Callable[..., Any]) -> int:
    """Positional parameters without a default; 1 for compiled functions that do not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return 1
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in positional if p.default is p.empty])


def represent(estimator: Any) -> Represent:
    """Find what makes probabilities and embeddings of rows."""
    if hasattr(estimator, "embed"):
        return _Embedding(estimator)
    return _represent(estimator)


@singledispatch
def _represent(estimator: Any) -> Represent:
    check_has_probabilities(estimator)
    return lambda X: (_probabilities(estimator, X), X)


@_represent.register
def _(estimator: MLPClassifier) -> Represent:
    activation = _ACTIVATIONS[estimator.activation]

    def hidden(X: Any) -> Any:
        for weights, bias in zip(estimator.coefs_[:-1], estimator.intercepts_[:-1], strict=True):
            X = activation(X @ weights + bias)
        return X

    return lambda X: (_probabilities(estimator, X), hidden(check_features(estimator, X)))


@_represent.register
def _(estimator: NeuralNet) -> Represent:
    check_has_probabilities(estimator)
    return TappedNet(nets.SkorchNet(estimator))


@_represent.register
def _(estimator: nn.Module) -> Represent:
    return TappedNet(nets.TorchModule(estimator))


@_represent.register
def _(estimator: Pipeline) -> Represent:
    model = represent(estimator.steps[-1][1])
    if len(estimator.steps) == 1:
        return model
    return Through(model, before=estimator[:-1].transform)


@_represent.register(GridSearchCV)
@_represent.register(RandomizedSearchCV)
def _(estimator: Any) -> Represent:
    if not hasattr(estimator, "best_estimator_"):
        raise search_without_refit_error(estimator)
    return represent(estimator.best_estimator_)


@_represent.register
def _(estimator: FrozenEstimator) -> Represent:
    return represent(estimator.estimator)


@_represent.register(FixedThresholdClassifier)
@_represent.register(TunedThresholdClassifierCV)
def _(estimator: Any) -> Represent:
    return represent(estimator.estimator_)


def _probabilities(estimator: Any, X: Any) -> Any:
    return check_one_output(estimator.predict_proba(X), estimator)


def _on_host(embeddings: Any) -> Any:
    return as_array(embeddings) if isinstance(embeddings, Tensor) else embeddings


class _Embedding:
    """An estimator with a method ``embed``."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self.batch_size = getattr(estimator, "predict_batch_size", None)

    def with_batch_size(self, n_rows: int) -> _Embedding:
        if self.batch_size is None:
            return self
        asked = copy.copy(self._estimator)
        asked.predict_batch_size = n_rows
        return _Embedding(asked)

    def __call__(self, X: Any) -> tuple[Any, Any]:
        return _probabilities(self._estimator, X), _on_host(self._estimator.embed(X))


class TappedNet(thinning.InBlocks):
    """A net with its dropout switched off, and what enters the linear layer that runs last."""

    def __init__(self, asked: nets.Asked) -> None:
        self._asked = asked
        self._net = thinning.FrozenNet(asked.module, asked.forward)
        super().__init__(asked.batch_size)
        self._has_looked = self._is_checked = False

    def __call__(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Embeddings have no columns if no linear layer ran."""
        rows = self._asked.rows(X)
        if not self._has_looked:
            with torch.no_grad():
                self._asked.learn(self._net, rows)
            self._has_looked = True
        if not self._is_checked and min(len(rows), self.batch_size) > 1:
            some = thinning.spread(range(min(len(rows), self.batch_size)))
            with torch.no_grad():
                self._net.check_rows(lambda batch, n: self._net.plain(batch, n)[0], rows, some)
            self._is_checked = thinning.differ(rows, some)
        parts: list[int] = []
        joined = as_array(thinning.forward_rows(partial(self._both, parts), rows, self._size))
        return joined[:, : parts[0]], joined[:, parts[0] :]

    def _both(self, parts: list[int], rows: thinning.Rows, block: range) -> Tensor:
        outputs, masks = self._net.plain(rows.take(block), len(block))
        probabilities = self._asked.answer(outputs.unsqueeze(0))[0]
        if outputs.dtype in (torch.bfloat16, torch.float16):  # whose rows miss the sum 1 by what float32 would not
            probabilities = probabilities.float()
            probabilities = probabilities / probabilities.sum(1, keepdim=True)
        parts.append(probabilities.shape[1])
        tapped = outputs.new_empty((len(block), 0)) if masks.last_linear is None else masks.last_linear
        return torch.cat([probabilities, thinning.row_by_row(tapped, len(block)).to(probabilities)], dim=1)
