"""What a Bayesian last layer refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._checks import warn


def no_embed_error(net: Any) -> TypeError:
    return TypeError(
        "`net` must have a method `embed(X)` that returns features (n_points, n_units), or be a skorch net, a torch "
        f"module, an MLPClassifier or a Pipeline that ends in one. Got a {type(net).__name__} without one. None takes "
        "the rows of X for features."
    )


def net_class_error(net: type) -> TypeError:
    return TypeError(
        f"`net` must be a net, not a class of nets. Got the class {net.__name__}: make an instance, and fit it "
        "if it is a torch module, which is taken as it is."
    )


def no_tapped_layer_error() -> ValueError:
    return ValueError(
        "`net` must run a torch.nn.Linear layer, whose input is what its features are. Got a net in which none ran: "
        "give it a method `embed(X)`, or make the features yourself and leave `net` out."
    )


def embedding_error(features: NDArray[Any]) -> ValueError:
    got = f"shape {features.shape}" if features.ndim != 2 else "features that are infinite or NaN"
    return ValueError(f"`net` must embed rows as finite features of shape (n_points, n_units). Got {got}.")


def warn_last_layer(n_steps: int) -> None:
    warn(
        f"The search for the weights of the last layer has not converged after {n_steps} steps: scale the features of "
        "`net`, or raise `prior_precision`.",
        ConvergenceWarning,
    )
