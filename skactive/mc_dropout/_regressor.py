"""The regressor: standardised targets, and values in the units of y."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .. import _devices as devices
from .._bases import RegressorMixin
from ._base import BaseMCDropout
from ._modules import SquaredError
from ._training import Data, RegressorNet, mean_and_scale


class MCDropoutRegressor(RegressorMixin, BaseMCDropout):
    """Predict numbers with a neural net whose dropout masks are draws from an approximate posterior.

    A draw is one dropout mask for the whole network and every row; ``predict`` is the mean of ``n_draws`` of them.
    The loss is the squared error. Targets are standardised inside, with the mean and the standard deviation of the
    first training set, so the learning rate suits targets of any size.

    Parameters
    ----------
    hidden_layer_sizes, dropout, activation, lr, optimizer, weight_decay, batch_size, max_epochs, n_draws
        As in `MCDropoutClassifier`.
    module, module_params
        As in `MCDropoutClassifier`, with one output a row.
    early_stopping, warm_start, device, predict_batch_size, random_state, verbose, callbacks
        As in `MCDropoutClassifier`.

    Attributes
    ----------
    net_ : skorch.NeuralNetRegressor
        The trained net, which predicts standardised targets.
    n_features_in_ : int
        Columns of X (channels of images).
    feature_names_in_ : ndarray
        Column names, if X had any.
    n_iter_ : int
        Epochs trained by the last ``fit`` and the ``partial_fit`` calls after it.

    See Also
    --------
    MCDropoutClassifier : The same for classes.
    scores.std_dev : A score for its draws.

    References
    ----------
    Gal and Ghahramani (2016), Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep Learning,
    equation 6.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skactive import MCDropoutRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> net = MCDropoutRegressor(max_epochs=50, random_state=0).fit(X, y)
    >>> bool(net.score(X, y) > 0.4)
    True
    >>> net.sample_y(X, n_draws=5).shape
    (5, 442)
    """

    _net_class = RegressorNet
    _target_scale: tuple[float, float]  # mean and standard deviation

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train for one more epoch, optimizer state included; the first call begins a new net.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Average the predictions of the model's own ``n_draws`` functions: the same ones at every call.

        A net without dropout answers with its one function.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)

        Returns
        -------
        ndarray of shape (n_points,)
        """
        return self._predict_mean(X)

    def sample_y(self, X: ArrayLike, n_draws: int | None = None) -> NDArray[np.float64]:
        """Give the predictions of each draw; their mean over the model's own ``n_draws`` is `predict`.

        Draws come first, unlike in scikit-learn's method of that name for Gaussian processes.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)
        n_draws : int, optional
            Number of functions, by default the parameter ``n_draws``. The first ones are the same for every number.

        Returns
        -------
        ndarray of shape (n_draws, n_points)

        Raises
        ------
        ValueError
            If the net has no dropout.
        """
        return self._sample(X, n_draws)

    def _learned(self, target: NDArray[Any], goes_on: bool, classes: Any = None) -> dict[str, Any]:
        return {"_target_scale": self._target_scale if goes_on else mean_and_scale(target)}

    def _encoded(self, data: Data, learned: dict[str, Any]) -> tuple[Data, int]:
        return data.standardised(*learned["_target_scale"]), 1

    def _net_params(self) -> dict[str, Any]:
        return {"criterion": SquaredError}

    def _answer(self, outputs: Tensor) -> Tensor:
        mean, scale = self._target_scale
        # float64, where there is one: targets near 1e8 keep their digits
        return outputs.reshape(outputs.shape[:2]).to(devices.best_float(outputs.device)) * scale + mean

    def _check_outputs(self, outputs: Tensor, n_outputs: int) -> None:
        if outputs.shape[1] != n_outputs:
            raise ValueError(
                f"`module` must return one number for each row of X. Got {outputs.shape[1]} columns instead."
            )
