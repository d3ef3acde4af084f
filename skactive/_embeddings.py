"""What the last layer of a classifier sees of a row, and the probabilities it makes of that.

`represent` finds both for fitted estimators: nets bring the input of the linear layer that runs last, linear models
their features. What is neither is taken for a softmax regression on its features, those that the last step of a
Pipeline gets.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import singledispatch
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
from skorch import NeuralNet, NeuralNetBinaryClassifier
from torch import Tensor, nn

from . import _thinning as thinning
from . import _validation as validation
from . import _validation_batches as batches_checks
from ._nets import _as_probabilities, _as_tensor

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
    batches_checks.check_embedding(embedding)
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
        return lambda X: (_probabilities(estimator, X), _on_host(estimator.embed(X)))
    return _represent(estimator)


@singledispatch
def _represent(estimator: Any) -> Represent:
    batches_checks.check_has_probabilities(estimator)
    return lambda X: (_probabilities(estimator, X), X)


@_represent.register
def _(estimator: MLPClassifier) -> Represent:
    activation = _ACTIVATIONS[estimator.activation]

    def hidden(X: Any) -> Any:
        for weights, bias in zip(estimator.coefs_[:-1], estimator.intercepts_[:-1], strict=True):
            X = activation(X @ weights + bias)
        return X

    return lambda X: (_probabilities(estimator, X), hidden(validation.check_features(estimator, X)))


@_represent.register
def _(estimator: NeuralNet) -> Represent:
    batches_checks.check_has_probabilities(estimator)
    nonlinearity = estimator._get_predict_nonlinearity()  # what predict_proba applies to the module's outputs
    binary = isinstance(estimator, NeuralNetBinaryClassifier)

    def forward(module: nn.Module, x: Tensor) -> Tensor:
        net = copy.copy(estimator)
        vars(net)["module_"] = module
        outputs = net.infer(x)
        outputs = outputs[0] if isinstance(outputs, tuple) else outputs
        return nonlinearity(outputs.squeeze(-1) if binary and outputs.ndim == 2 else outputs)

    return _TappedModule(estimator.module_, forward)


@_represent.register
def _(estimator: nn.Module) -> Represent:
    return _TappedModule(estimator, lambda module, x: _as_probabilities(module(x)[None])[0])


@_represent.register
def _(estimator: Pipeline) -> Represent:
    model = represent(estimator.steps[-1][1])
    if len(estimator.steps) == 1:
        return model
    transform = estimator[:-1].transform
    return lambda X: model(transform(X))


@_represent.register(GridSearchCV)
@_represent.register(RandomizedSearchCV)
def _(estimator: Any) -> Represent:
    if not hasattr(estimator, "best_estimator_"):
        raise validation.search_without_refit_error(estimator)
    return represent(estimator.best_estimator_)


@_represent.register
def _(estimator: FrozenEstimator) -> Represent:
    return represent(estimator.estimator)


@_represent.register(FixedThresholdClassifier)
@_represent.register(TunedThresholdClassifierCV)
def _(estimator: Any) -> Represent:
    return represent(estimator.estimator_)


def _probabilities(estimator: Any, X: Any) -> Any:
    return validation.check_one_output(estimator.predict_proba(X), estimator)


def _on_host(embeddings: Any) -> Any:
    return embeddings.detach().cpu().numpy() if isinstance(embeddings, Tensor) else embeddings


class _TappedModule:
    """A copy of a module in evaluation mode that remembers what entered the linear layer that ran last."""

    def __init__(self, module: nn.Module, forward: Callable[[nn.Module, Tensor], Tensor]) -> None:
        self._module, self._forward = thinning._frozen(module), forward
        self._like = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(0))
        self._tapped = torch.empty(0)
        self._n_classes = 0
        for layer in self._module.modules():
            if isinstance(layer, nn.Linear):
                layer.register_forward_pre_hook(self._remember)

    def __call__(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Embeddings have no columns if no linear layer ran."""
        with validation.net_failure_explained(X):
            joined = thinning.forward_rows(self._both, _as_tensor(X, self._like)).cpu().numpy()
        return joined[:, : self._n_classes], joined[:, self._n_classes :]

    def _both(self, x: Tensor) -> Tensor:
        self._tapped = x.new_empty((len(x), 0))
        probabilities = self._forward(self._module, x)
        self._n_classes = probabilities.shape[1]
        return torch.cat([probabilities, self._tapped.reshape(len(x), -1)], dim=1)

    def _remember(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._tapped = inputs[0]
