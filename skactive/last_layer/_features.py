"""Features of rows, from a net or from the user's own encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from skorch import NeuralNet
from torch import nn

from ..posterior._embeddings import embed_by
from ..posterior._unwrap import Through


def last_step(net: Any) -> Any:
    return last_step(net.steps[-1][1]) if isinstance(net, Pipeline) else net


def has_features(net: Any) -> bool:
    """Whether the net embeds rows itself, or the input of its last linear layer can be had."""
    if isinstance(net, type):
        return False
    if isinstance(net, FrozenEstimator):
        return has_features(net.estimator)
    last = last_step(net)
    return hasattr(last, "embed") or isinstance(last, NeuralNet | nn.Module | MLPClassifier)


def features_of(net: Any) -> Callable[[Any], NDArray[Any]]:
    """A function from rows to features (n_points, n_units)."""
    return Through(embed_by(net), after=_checked)


def _checked(features: Any) -> NDArray[Any]:
    features = np.asarray(features)
    if features.ndim == 2 and features.shape[1] == 0:
        raise ValueError(
            "`net` gives the input of its last torch.nn.Linear layer as features, and no such layer ran in it. Give it "
            "a method `embed(X)`, or compute the features yourself and leave `net` out."
        )
    if features.ndim != 2 or not np.isfinite(features).all():
        got = f"shape {features.shape}" if features.ndim != 2 else "features that are infinite or NaN"
        raise ValueError(f"`net` must embed rows as finite features of shape (n_points, n_units). Got {got}.")
    return features
