"""Names that parameters take, and what functions of users are called with: for type checkers and editors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Auto = Literal["auto"]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

PredictionScore = Literal[
    "bald", "entropy", "epig", "gaussian_bald", "margin", "std_dev", "variance", "variation_ratio"
]
OutcomeScore = Literal["mu", "mu_pi", "mu_rho", "rho", "tau"]
SamplerName = Literal["power", "softmax", "softrank", "topk", "uniform"]

OwnScore = Callable[..., Any]
"""``score(draws)``, with side information as keywords, or ``score(learner, X)``: one number per row."""

Reduce = Literal["max", "mean", "sum"] | Callable[[NDArray[np.float64]], ArrayLike]
"""How a row's score is computed from those of its outputs (n_points, n_outputs)."""


class OwnSampler(Protocol):
    """``sampler(scores, k, rng, *, beta)``: k distinct positions, most preferred first."""

    def __call__(
        self, scores: NDArray[np.float64], k: int, rng: np.random.Generator, /, *, beta: float
    ) -> ArrayLike: ...


Score = PredictionScore | OwnScore
CausalScore = OutcomeScore | OwnScore
Sampler = SamplerName | OwnSampler


class Estimator(Protocol):
    """What scikit-learn can clone and fit. Only the names count: signatures of ``fit`` differ."""

    @property
    def fit(self) -> Callable[..., Any]: ...

    @property
    def get_params(self) -> Callable[..., Any]: ...

    @property
    def set_params(self) -> Callable[..., Any]: ...


PosteriorName = Literal["auto", "bootstrap"]
Posterior = PosteriorName | Estimator
SpaceName = Literal["auto", "embeddings", "gradients"]
Space = SpaceName | Callable[..., Any]
Embedding = Auto | Callable[..., Any]
Activation = Literal["elu", "gelu", "leaky_relu", "relu", "selu", "sigmoid", "silu", "tanh"]
Optimizer = Literal["adam", "adamw", "sgd"]
Output = Literal["logits", "probabilities", "log_probabilities"]

LossName = Literal["absolute_error", "brier", "log_loss", "squared_error", "zero_one"]
Loss = LossName | Callable[..., Any]
Side = Literal["both", "lower", "upper"]
StoppingMeasure = Literal["accuracy", "average_precision", "balanced_accuracy", "log_loss"]
Verdict = Literal["go on", "stop", "too early", "cannot be told"]
Scorer = str | Callable[..., Any]
"""A name of scikit-learn's, or ``scorer(estimator, X, y)``."""
Scoring = Scorer | Sequence[Scorer] | Mapping[str, Scorer]

ModelName = Literal["auto", "forest", "logistic", "boosting", "net"]
Task = Literal["auto", "classification", "regression"]
DisputeRule = Literal["latest", "majority", "open"]
FirstRows = Literal["uniform", "typical"]
Changes = Literal["refuse", "take"]


class Query(Protocol):
    """A query of a campaign: `BatchQuery` and whatever else selects rows and has scikit-learn's parameters."""

    @property
    def select(self) -> Callable[..., Any]: ...

    @property
    def get_params(self) -> Callable[..., Any]: ...


TableName = Literal["hpc", "penguins"]

# --- scikit-learn's base classes, which have no types: of an unknown base a checker takes every attribute -----------

if TYPE_CHECKING:

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_score_request(self, **requests: bool | str | None) -> Self: ...

    class RegressorMixin(ClassifierMixin): ...

else:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import RegressorMixin as RegressorMixin
