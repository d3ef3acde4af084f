"""The classifier and the regressor: what the net is trained on, and what its outputs mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from .._utils.devices import best_float
from .._utils.types import ClassifierMixin, Output, RegressorMixin
from .._utils.validation import Rule, Rules, check_classes, float64_array, one_class_error, one_of, shown
from . import _training as training
from ._base import RULES, BaseMCDropout
from ._training import OUTPUTS, Data


@dataclass(eq=False, repr=False)
class MCDropoutClassifier(ClassifierMixin, BaseMCDropout):
    """Classify with a neural net whose dropout masks are draws from an approximate posterior.

    A draw θ_k is one dropout mask for the whole network and every row; ``predict_proba`` is the mean of
    p(y | x, θ_k) over ``n_draws`` of them. The net is trained by skorch.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(128, 128)
        Units of each hidden layer of the built-in net: linear, activation, dropout.
    dropout : float, default=0.5
        Rate after each hidden layer of the built-in net.
    activation : str or class, default="relu"
        "elu", "gelu", "leaky_relu", "relu", "selu", "sigmoid", "silu", "tanh", or a torch.nn.Module class.
    module : torch.nn.Module class, function or instance, optional
        A net of your own for float32 rows of any shape, images (channels, height, width) included. A class or function
        is called with ``module_params``, and with ``n_features_in`` (columns or channels) and ``n_outputs`` (number of
        classes) where its signature has these names. A copy of an instance is trained on from its weights.
    optimizer, lr, weight_decay : str or class, default="adam"; float, default=1e-3; float, default=0.0
        "adam", "adamw", "sgd" (momentum 0.9), or a torch.optim.Optimizer class; its learning rate and weight decay.
    batch_size, max_epochs : int, default=64; int, default=200
        Rows of a training step, -1 for all (a last batch of one row joins the batch before it); passes over the data.
    early_stopping : bool, default=False
        Hold out a fifth of the rows, in the proportions of the classes, stop when their loss has not improved for 20
        epochs, and keep the best weights. Below 10 rows: no early stopping, and a warning.
    n_draws : int, default=20
        Masks that a prediction averages over.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss; labels that a dict lacks have weight 1.
    warm_start : bool, default=False
        Let ``fit`` go on from the weights of the last fit, with the same classes.
    device : str or torch.device, default="auto"
        "auto" is CUDA if there is a device, else the CPU.
    classes : array-like, optional
        All labels, including those not seen yet: each gets a column.
    module_params : dict, optional
        Keyword arguments of ``module``.
    output : {"logits", "probabilities", "log_probabilities"}, default="logits"
        What ``module`` returns. A binary net may return one column, for ``classes_[1]``.
    predict_batch_size : int, default=256
        Rows of a forward pass in prediction and for draws; halved, with a warning, when memory runs out.
    random_state : int, RandomState, Generator or None, default=None
        Seeds weights, shuffling, validation rows and masks. Torch's global generator is neither read nor advanced.
    verbose : int, default=0
        Above 0 skorch prints a line for each epoch.
    callbacks : list of skorch callbacks, optional
        Passed to the skorch net.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels; for several labels per row, their columns.
    multilabel_ : bool
        Whether it was fitted to several labels per row.
    net_ : skorch.NeuralNetClassifier
        The trained net; ``net_.module_`` is the torch module and ``net_.history`` its losses. Its labels are the
        positions in ``classes_``.
    n_features_in_, feature_names_in_
        Number of columns of X (channels of images), and their names if X had any.
    n_iter_ : int
        Epochs trained by the last ``fit`` and the ``partial_fit`` calls after it.

    See Also
    --------
    MCDropoutRegressor : The same for numbers.
    LastLayerClassifier : Treats the last layer alone as uncertain.
    sample_posterior : Draws from this or any other model.

    References
    ----------
    Gal and Ghahramani (2016), Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep Learning,
    equation 6.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skactive import MCDropoutClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> net = MCDropoutClassifier(max_epochs=50, random_state=0).fit(X, y)
    >>> net.predict_proba(X).shape
    (150, 3)
    >>> bool(net.score(X, y) > 0.9)
    True
    >>> net.sample_proba(X, n_draws=5).shape
    (5, 150, 3)
    """

    rules: ClassVar[Rules] = {
        **RULES,
        "class_weight": Rule(lambda value: isinstance(value, Mapping), "a dict from label to weight")
        .or_word("balanced")
        .or_none(),
        "output": one_of(OUTPUTS),
    }
    _net_class = training.ClassifierNet
    classes_: NDArray[Any] = field(init=False)
    multilabel_: bool = field(init=False)

    _: KW_ONLY
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None
    classes: ArrayLike | None = None
    output: Output = "logits"

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train for one more epoch, optimizer state included; the first call starts a new net.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, optional
            All labels that may ever come. Needed at the first call, unless the parameter ``classes`` declares them.
        """
        if not hasattr(self, "net_") and classes is None and self.classes is None:
            raise ValueError("`classes` must list all labels that may ever come at the first call to partial_fit.")
        return self._partial_fit(X, y, sample_weight, classes=classes)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the label of the largest mean probability, (n_points,); of several labels those that are probable."""
        probabilities = self.predict_proba(X)
        return (probabilities > 0.5).astype(int) if self.multilabel_ else self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Average the probabilities of the model's own ``n_draws`` functions: the same ones at every call.

        A net without dropout answers with its one function.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)

        Returns
        -------
        ndarray of shape (n_points, n_classes)
            Columns in the order of ``classes_``; for several labels per row, the probability that each holds.
        """
        probabilities = self._predict_mean(X)
        probabilities /= probabilities.sum(axis=1, keepdims=True)  # float32 rows miss the sum 1 by 1e-7
        return probabilities[:, 1] if self.multilabel_ else probabilities

    def sample_proba(self, X: ArrayLike, n_draws: int | None = None) -> NDArray[np.float32]:
        """Give the probabilities of each draw; their mean over the model's own ``n_draws`` is `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)
        n_draws : int, optional
            Number of functions, by default the parameter ``n_draws``. The first ones are the same for every number.

        Returns
        -------
        ndarray of shape (n_draws, n_points, n_classes), float32
        """
        draws = self._sample(X, n_draws)
        return draws[:, :, 1] if self.multilabel_ else draws

    def _check_data(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Data:
        data = super()._check_data(X, y, sample_weight, reset)
        check_classification_targets(data.target)
        if data.target.ndim > 1:
            self._check_labels(data.target)
            return data
        return Data(data.X, data.target, data.weight * training.class_weights(self.class_weight, data.target))

    def _check_labels(self, target: NDArray[Any]) -> None:
        """Refuse what has no meaning for several labels a row."""
        if not np.isin(target, (0, 1)).all():
            row, label = np.argwhere(~np.isin(target, (0, 1)))[0].tolist()
            raise ValueError(
                "`y` of several columns must be 0 or 1, whether each label holds. Got "
                f"{target[row, label].item()!r} in row {row}, column {label}. MultiOutputClassifier takes others."
            )
        for name in ("class_weight", "classes"):
            if getattr(self, name) is not None:
                raise ValueError(f"`{name}` must be None for several labels per row. Got {shown(getattr(self, name))}.")

    def _encoded(self, data: Data, goes_on: bool, classes: Any = None) -> tuple[dict[str, Any], Data, int]:
        has_several = data.target.ndim > 1
        if goes_on and data.target.shape[1:] != self.classes_.shape * self.multilabel_:
            raise ValueError(f"`y` must have as many labels per row as before. Got shape {data.target.shape}.")
        if has_several:
            labels = np.arange(data.target.shape[1])
            learned = {"classes_": labels, "multilabel_": True}
            return learned, replace(data, target=data.target.astype(np.int64)), len(labels)
        declared = self.classes if classes is None else classes
        if goes_on and declared is not None and not np.array_equal(np.unique(declared), self.classes_):
            raise ValueError(
                f"`classes` must stay the same while training goes on. Got {np.unique(declared)}, but {self.classes_} "
                "before."
            )
        labels = check_classes(data.target, self.classes_ if goes_on else declared)
        if len(labels) < 2:
            raise one_class_error(labels)
        learned = {"classes_": labels, "multilabel_": False}
        return learned, replace(data, target=np.searchsorted(labels, data.target)), len(labels)

    def _net_params(self, has_several: bool) -> dict[str, Any]:
        is_shown = bool(self.verbose or self.callbacks)
        is_quiet = (has_several and (is_shown or self.early_stopping)) or (self.early_stopping and not is_shown)
        answers = training.label_probabilities if has_several else training.probabilities
        return {
            "criterion": training.CrossEntropy,
            "criterion__output": self.output,
            "predict_nonlinearity": partial(answers, output=self.output),
            **({"callbacks__valid_acc": None} if is_quiet else {}),
        }

    def _answer(self, outputs: Tensor) -> Tensor:
        outputs = outputs.reshape(*outputs.shape[:2], -1).float()
        answers = training.label_probabilities if self.multilabel_ else training.probabilities
        return answers(outputs, self.output)

    def _check_outputs(self, outputs: Tensor, n_outputs: int, has_several: bool) -> None:
        n_columns = outputs.shape[1]
        if n_columns != n_outputs and ((n_columns, n_outputs) != (1, 2) or has_several):
            raise ValueError(
                f"`module` must return one column for each of the {n_outputs} classes (or one for two classes). "
                f"Got {n_columns} columns instead."
            )
        training.check_declared(outputs.reshape(-1, 1) if has_several else outputs, self.output)


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
        As in `MCDropoutClassifier`, with one output per row.
    early_stopping, warm_start, device, predict_batch_size, random_state, verbose, callbacks
        As in `MCDropoutClassifier`.

    Attributes
    ----------
    net_, n_features_in_, feature_names_in_, n_iter_
        As in `MCDropoutClassifier`; the net predicts standardised targets.

    See Also
    --------
    MCDropoutClassifier : The same for classes.
    scores.std_dev : A score for its draws.

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

    _net_class = training.RegressorNet
    _target_scale: tuple[Any, Any]  # mean and standard deviation, of each target

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """As in `MCDropoutClassifier`, without ``classes``."""
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Average the predictions of the model's own ``n_draws`` functions, as `MCDropoutClassifier.predict_proba`."""
        return self._predict_mean(X)

    def sample_y(self, X: ArrayLike, n_draws: int | None = None) -> NDArray[np.float64]:
        """Give the predictions of each draw, (n_draws, n_points), as `MCDropoutClassifier.sample_proba` does.

        Draws come first, unlike in scikit-learn's method of that name for Gaussian processes.
        """
        return self._sample(X, n_draws)

    def _encoded(self, data: Data, goes_on: bool, classes: Any = None) -> tuple[dict[str, Any], Data, int]:
        target = float64_array("y", data.target)
        mean, scale = self._target_scale if goes_on else training.mean_and_scale(target)
        if np.shape(mean) != target.shape[1:]:
            raise ValueError(f"`y` must have as many targets per row as before. Got shape {target.shape}.")
        target = ((target - mean) / scale).astype(np.float32)
        return {"_target_scale": (mean, scale)}, replace(data, target=target), int(np.size(mean))

    def _net_params(self, has_several: bool) -> dict[str, Any]:
        return {"criterion": training.SquaredError}

    def _answer(self, outputs: Tensor) -> Tensor:
        # float64, where there is one: targets near 1e8 keep their digits
        outputs = outputs.to(best_float(outputs.device))
        mean, scale = (torch.as_tensor(x, dtype=outputs.dtype, device=outputs.device) for x in self._target_scale)
        return outputs.reshape(*outputs.shape[:2], *mean.shape) * scale + mean

    def _check_outputs(self, outputs: Tensor, n_outputs: int, has_several: bool) -> None:
        if outputs.shape[1] != n_outputs:
            raise ValueError(
                f"`module` must return one number for each target of a row of X, {n_outputs}. Got {outputs.shape[1]} "
                "columns instead."
            )
