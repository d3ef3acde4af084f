"""Draws of nets that others made: fitted skorch nets and torch modules with dropout layers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import is_regressor
from skorch import NeuralNet, NeuralNetBinaryClassifier

from . import _thinning as thinning
from . import _validation as validation
from ._dispatch import DEFAULT_DRAWS, PredictDraws, source

_COST = "forward passes through thinned nets where the layers form a chain, else a forward pass a draw"


@source(NeuralNet, draws="a dropout mask", kind="approximate", cost=_COST)
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


@source(torch.nn.Module, draws="a dropout mask", kind="approximate", cost=_COST)
def _torch_module(estimator: torch.nn.Module, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    return _module_draws(estimator, n_draws, rng, _as_probabilities)


def _module_draws(
    module: torch.nn.Module,
    n_draws: int | None,
    rng: np.random.Generator,
    answer: Callable[[torch.Tensor], torch.Tensor],
    infer: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor] | None = None,
) -> PredictDraws:
    n_draws = DEFAULT_DRAWS if n_draws is None else validation.check_n_draws(n_draws)
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
    X = X.pin_memory() if like.is_cuda and not X.is_cuda else X  # fetched by the GPU while this thread goes on
    return X.to(like.device, like.dtype if X.is_floating_point() else X.dtype, non_blocking=True)


def _as_probabilities(outputs: torch.Tensor) -> torch.Tensor:
    """Of a bare module nobody says what it returns: it shows in the row sums. What fits nothing else are logits."""
    validation.check_class_outputs(outputs)
    for probabilities in (outputs, outputs.exp()):
        if bool((probabilities >= 0).all()) and bool(((probabilities.sum(-1) - 1).abs() < 1e-4).all()):
            return probabilities
    return outputs.softmax(-1)
