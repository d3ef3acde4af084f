"""Neural nets with Monte Carlo dropout as scikit-learn estimators, trained by skorch.

`MCDropoutClassifier` and `MCDropoutRegressor` share one base: parameters are checked and data become float32 tensors
on the device here, once; `_training` runs the epochs of a skorch net over batches of those tensors. Whatever is random
in building and training a net (weights, shuffling, dropout) comes from generators of ours, so torch's and numpy's
global states are neither read nor written. Predictions are means over fixed dropout masks that belong to the fitted
model.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier, is_regressor
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch.dataset import Dataset
from torch import Tensor, nn

from .. import _devices as devices
from .._checks import (
    NetError,
    NoDropoutError,
    check_n_draws,
    one_class_error,
    parameter_error,
    undeclared_labels_error,
    weights_error,
)
from .._dropout import _draws as thinning
from .._random import check_random_state
from ..posterior import _nets as nets
from . import _training as training
from ._checks import (
    changed_classes_error,
    diverged_error,
    first_partial_fit_error,
    last_layer_error,
    module_error,
    needs_module_error,
    no_linear_layer_error,
    warn_no_validation,
)

__all__ = ["MCDropoutClassifier", "MCDropoutRegressor"]

_OUTPUTS = ("logits", "probabilities", "log_probabilities")
_POSTERIOR_DRAWS = 100
_SMALL_NET = 1_000_000  # parameters: below, a second thread costs more than it brings
_VALIDATION_FRACTION = 0.2
_MIN_ROWS_TO_VALIDATE = 10
_PATIENCE = 20


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _is_sizes(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, Sequence | np.ndarray) and all(_is_count(size) for size in value))


def _is_one_of(names: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names


def _is_name_or_callable(names: Any) -> Callable[[Any], bool]:
    return lambda value: callable(value) or _is_one_of(names)(value)


_FLAG = (lambda v: isinstance(v, bool | np.bool_), "True or False")
_COUNT = (_is_count, "an integer, 1 or larger")
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden_layer_sizes": (_is_sizes, "a sequence of integers, each 1 or larger"),
    "dropout": (lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 up to, but not including, 1"),
    "activation": (
        _is_name_or_callable(training.ACTIVATIONS),
        f"one of {sorted(training.ACTIVATIONS)}, or a torch.nn.Module class",
    ),
    "module": (
        lambda v: v is None or callable(v),
        "None, a torch.nn.Module class or instance, or a function that makes one",
    ),
    "module_params": (lambda v: v is None or isinstance(v, Mapping), "None or a dict of keyword arguments"),
    "lr": (lambda v: _is_number(v) and v > 0, "a number larger than 0"),
    "optimizer": (
        _is_name_or_callable(training.OPTIMIZERS),
        f"one of {sorted(training.OPTIMIZERS)}, or a torch.optim.Optimizer class",
    ),
    "weight_decay": (lambda v: _is_number(v) and v >= 0, "a number, 0 or larger"),
    "batch_size": (
        lambda v: _is_count(v) or (_is_number(v) and v == -1),
        "an integer, 1 or larger, or -1 for all rows",
    ),
    "max_epochs": _COUNT,
    "n_draws": _COUNT,
    "predict_batch_size": _COUNT,
    "callbacks": (lambda v: v is None or isinstance(v, list | tuple), "None or a list of skorch callbacks"),
    "early_stopping": _FLAG,
    "warm_start": _FLAG,
    "output": (_is_one_of(_OUTPUTS), f"one of {list(_OUTPUTS)}"),
    "class_weight": (
        lambda v: v is None or isinstance(v, Mapping) or _is_one_of(["balanced"])(v),
        'None, "balanced" or a dict from label to weight',
    ),
}


class _MCDropout(BaseEstimator, ABC):
    """What the classifier and the regressor share: the net, its training and its draws."""

    _net_class: Any  # a skorch net

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (128, 128),
        *,
        dropout: float = 0.5,
        activation: str | Callable[[], nn.Module] = "relu",
        module: nn.Module | Callable[..., nn.Module] | None = None,
        lr: float = 1e-3,
        optimizer: str | Callable[..., torch.optim.Optimizer] = "adam",
        weight_decay: float = 0.0,
        batch_size: int = 64,
        max_epochs: int = 200,
        early_stopping: bool = False,
        n_draws: int = 20,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        module_params: Mapping[str, Any] | None = None,
        predict_batch_size: int = thinning.BLOCK,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.dropout = dropout
        self.activation = activation
        self.module = module
        self.lr = lr
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.n_draws = n_draws
        self.warm_start = warm_start
        self.device = device
        self.module_params = module_params
        self.predict_batch_size = predict_batch_size
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def sample_posterior(self, n_draws: int | None, rng: Any) -> Callable[[Any], Tensor]:
        """Draw functions from the net: one dropout mask each, the same for all rows.

        Parameters
        ----------
        n_draws : int or None
            Number of functions; None is 100.
        rng : numpy.random.Generator
            Source of the masks.

        Returns
        -------
        predict_draws : callable
            ``predict_draws(X)`` is a tensor on the net's device: float32 probabilities of shape
            (n_draws, n_points, n_classes), or float64 values of shape (n_draws, n_points) for the regressor. Every
            call evaluates the same functions. The net sees blocks of ``predict_batch_size`` rows from the first row on,
            so that X in chunks of whole blocks gives the same bits as X in one piece.

        Raises
        ------
        ValueError
            If the net has no dropout, or X does not fit the training data.
        """
        check_is_fitted(self, "net_")
        self._check_has_dropout()
        n_draws = _POSTERIOR_DRAWS if n_draws is None else check_n_draws(n_draws)
        # The functions stay what they are if this estimator is fitted again.
        return nets.NetDraws(_AskedNet(copy.copy(self)), n_draws, check_random_state(rng))

    def embed(self, X: ArrayLike) -> NDArray[np.float32]:
        """Represent rows by what enters the last linear layer of the net, with dropout switched off.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)

        Returns
        -------
        ndarray of shape (n_points, n_units), float32
        """
        check_is_fitted(self, "net_")
        net = thinning.FrozenNet(self.net_.module_)

        def embed(rows: thinning.Rows, block: range) -> Tensor:
            _, masks = net.plain(rows.take(block), len(block))
            if masks.last_linear is None:
                raise no_linear_layer_error()
            return thinning.row_by_row(masks.last_linear, len(block)).float()

        return self._forward(embed, X).cpu().numpy()

    def _sample(self, X: ArrayLike, n_draws: int | None) -> NDArray[Any]:
        check_is_fitted(self, "net_")
        n_draws = self.n_draws if n_draws is None else n_draws
        return self.sample_posterior(n_draws, np.random.default_rng(self._mask_seed))(X).cpu().numpy()

    def _predict_mean(self, X: ArrayLike) -> NDArray[np.float64]:
        """Mean answer of the model's own ``n_draws`` functions; the plain net's answer if it has no dropout."""
        check_is_fitted(self, "net_")
        module, rng = self.net_.module_, np.random.default_rng(self._mask_seed)
        draws: Callable[[thinning.Rows, range], Tensor] = (
            thinning.FixedDraws(module, self.n_draws, rng) if self._has_dropout else thinning.FrozenNet(module).one_draw
        )

        def mean(rows: thinning.Rows, block: range) -> Tensor:
            answers = self._answer(draws(rows, block))
            answers = answers.movedim(1, -1)  # rows last, as they lie in memory: three times as fast
            return answers.mean(0, dtype=devices.best_float(answers.device)).movedim(-1, 0)

        return self._forward(mean, X).cpu().numpy().astype(np.float64, copy=False)

    def _check_has_dropout(self) -> None:
        if not self._has_dropout:
            raise NoDropoutError(
                f"`estimator` must have a dropout layer with a rate above 0 to be drawn from, and the net of this "
                f"{type(self).__name__} has none: all draws would be the same function and BALD 0 everywhere. Set "
                '`dropout` above 0, add dropout layers to `module`, or give the query posterior="bootstrap".'
            )

    def _forward(self, function: Callable[[thinning.Rows, range], Tensor], X: Any) -> Tensor:
        """Apply ``function`` to one block of X after the other."""
        size = thinning.BlockSize(self.predict_batch_size)
        return thinning.forward_rows(function, self._rows(X), size)

    def _rows(self, X: Any) -> _HostRows:
        return _HostRows(self._validate(X), torch.device(self.net_.device))

    def _validate(self, X: Any, *y: Any, reset: bool = False) -> Any:
        options: dict[str, Any] = {"dtype": np.float32, "accept_sparse": "csr", "allow_nd": True}
        if y and is_regressor(self):
            options["y_numeric"] = True
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf, which is refused
            return validate_data(self, X, *y, reset=reset, **options)

    # Training

    def _check_parameters(self) -> None:
        for name, (is_valid, rule) in _RULES.items():
            if hasattr(self, name) and not is_valid(getattr(self, name)):
                raise parameter_error(name, rule, getattr(self, name))
        if isinstance(self.module, nn.Module) and self.module_params:
            raise parameter_error("module_params", "None if `module` is an instance", self.module_params)
        training.resolve_device(self.device)

    def _check_data(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> _Data:
        X, y = self._validate(X, y, reset=reset)
        weight = _check_sample_weight(sample_weight, len(y))
        data = _Data(X, y, weight)
        return data if weight.all() else data.take(weight > 0)

    def _continues(self) -> bool:
        return self.warm_start and hasattr(self, "net_")

    def _fit_net(self, data: _Data, make_module: Callable[[Tensor], nn.Module], n_outputs: int, epochs: int) -> None:
        """Train a new skorch net around the module that is made here; self changes only if all goes well."""
        with torch.inference_mode(False):  # whatever goes on around, this is training
            self._fit_new_net(data, make_module, n_outputs, epochs)

    def _fit_new_net(
        self, data: _Data, make_module: Callable[[Tensor], nn.Module], n_outputs: int, epochs: int
    ) -> None:
        rng = check_random_state(self.random_state)
        mask_seed = rng.integers(2**63, size=4).tolist()
        x = _to_tensor(data.X[:8], torch.device("cpu"))
        with torch.device("cpu"), training.OwnRandom(rng):
            module = make_module(x).float()
            outputs = training.try_module(module, x)  # layers that wait for their input draw their weights now
        self._check_outputs(outputs, n_outputs)
        net = self._new_net(module, rng)
        held_out = self._held_out_rows(data, rng) if self.early_stopping and epochs > 1 else None
        self._train(net, data, held_out, epochs, rng)
        self.net_, self.n_iter_, self._rng = net, len(net.history), rng
        with torch.device("cpu"):
            self._mask_seed, self._has_dropout = mask_seed, _has_dropout(net.module_, x[:1])

    def _build_module(self, n_outputs: int, x: Tensor) -> nn.Module:
        if self.module is None:
            if x.ndim != 2:
                raise needs_module_error(x.shape[1:])
            return training.mlp(x.shape[1], self.hidden_layer_sizes, n_outputs, self.activation, self.dropout)
        if isinstance(self.module, nn.Module):
            return copy.deepcopy(self.module).cpu()
        dimensions = {"n_features_in": x.shape[1], "n_outputs": n_outputs}
        named = {name: dimensions[name] for name in training.parameter_names(self.module) & dimensions.keys()}
        module = self.module(**{**named, **(self.module_params or {})})
        if not isinstance(module, nn.Module):
            raise module_error("make a torch.nn.Module", type(module).__name__)
        return module

    def _new_net(self, module: nn.Module, rng: np.random.Generator) -> Any:
        optimizer, options = training.OPTIMIZERS.get(self.optimizer, (self.optimizer, {}))
        if self.weight_decay:
            options = {**options, "weight_decay": self.weight_decay}
        net = self._net_class(
            module,
            optimizer=optimizer,
            **{f"optimizer__{name}": value for name, value in options.items()},
            lr=self.lr,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            iterator_train=training.Batches,
            iterator_train__rng=rng,
            iterator_valid=training.Batches,
            train_split=None,
            callbacks=self._net_callbacks(),
            verbose=int(self.verbose),
            device=str(training.resolve_device(self.device)),
            **self._net_params(),
        )
        net.initialize()
        net.module = type(module)  # `module_` alone is kept: a pickle would hold the weights twice
        return net

    def _net_callbacks(self) -> Any:
        if not (self.verbose or self.callbacks or self.early_stopping):
            return "disable"
        callbacks = list(self.callbacks or [])
        if self.early_stopping:
            callbacks.append(training.StopEarly(patience=_PATIENCE, load_best=True))
        return callbacks

    def _held_out_rows(self, data: _Data, rng: np.random.Generator) -> NDArray[np.bool_] | None:
        strata = data.target if is_classifier(self) else np.zeros(len(data.target))
        held_out = _stratified_rows(strata, rng)
        if not held_out.any():
            warn_no_validation(len(held_out))
            return None
        return held_out

    def _train(
        self, net: Any, data: _Data, held_out: NDArray[np.bool_] | None, epochs: int, rng: np.random.Generator
    ) -> None:
        device, valid = torch.device(net.device), None
        if held_out is not None:
            data, valid = data.take(~held_out), data.take(held_out).to_dataset(device)
        n_parameters = sum(parameter.numel() for parameter in net.module_.parameters())
        with training.one_thread(data.X.ndim == 2 and n_parameters < _SMALL_NET):
            net.train(data.to_dataset(device), valid, epochs, training.OwnRandom(rng))
        if not all(bool(parameter.isfinite().all()) for parameter in net.module_.parameters()):
            raise diverged_error()

    def _train_once_more(self, data: _Data) -> Self:
        with torch.inference_mode(False):
            self._train(self.net_, data, None, 1, self._rng)
        self.n_iter_ = len(self.net_.history)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # What the classifier and the regressor do in their own ways

    @abstractmethod
    def _net_params(self) -> dict[str, Any]:
        """What the skorch net is told beside the parameters that both share."""

    @abstractmethod
    def _answer(self, outputs: Tensor) -> Tensor:
        """The module's outputs (n_draws, n_points, ...) as draws: probabilities, or values in the units of y."""

    @abstractmethod
    def _check_outputs(self, outputs: Tensor, n_outputs: int) -> None:
        """Refuse a module that does not return what it should."""


class MCDropoutClassifier(ClassifierMixin, _MCDropout):
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
        A net of your own for rows of any shape, images (channels, height, width) included; it is given float32. A
        class or function is called with ``module_params``, and with ``n_features_in`` (columns of X, or channels) and
        ``n_outputs`` (number of classes) where its signature has these names. An instance is copied and trained on
        from the weights that it has.
    lr : float, default=1e-3
        Learning rate.
    optimizer : str or class, default="adam"
        "adam", "adamw", "sgd" (momentum 0.9), or a torch.optim.Optimizer class.
    weight_decay : float, default=0.0
        Weight decay, as the optimizer understands it.
    batch_size : int, default=64
        Rows of a training step; -1 is all rows. A last batch of one row joins the batch before it.
    max_epochs : int, default=200
        Passes over the training data.
    early_stopping : bool, default=False
        Hold out a fifth of the rows, in the proportions of the classes (a class's last row is never taken), stop when
        their loss has not improved for 20 epochs, and keep the best weights. Below 10 rows: no early stopping, and a
        warning.
    n_draws : int, default=20
        Masks that a prediction averages over.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss; labels that a dict lacks have weight 1.
    warm_start : bool, default=False
        Let ``fit`` go on from the weights of the last fit. New classes get new units in the last linear layer.
    device : str or torch.device, default="auto"
        "auto" is CUDA if there is a device, else the CPU.
    classes : array-like, optional
        All labels, those not seen yet included: each gets a column.
    module_params : dict, optional
        Keyword arguments of ``module``.
    output : {"logits", "probabilities", "log_probabilities"}, default="logits"
        What ``module`` returns. A binary net may return one column, for ``classes_[1]``.
    predict_batch_size : int, default=256
        Rows of a forward pass in prediction and for draws. Fewer take less memory; when it runs out, the number is
        halved, with a warning.
    random_state : int, RandomState, Generator or None, default=None
        Seeds weights, shuffling, validation rows and masks. Random numbers of the usual kinds that a ``module`` asks
        torch for come from here as well.
    verbose : int, default=0
        Above 0 skorch prints a line for each epoch.
    callbacks : list of skorch callbacks, optional
        Passed to the skorch net.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    net_ : skorch.NeuralNetClassifier
        The trained net; ``net_.module_`` is the torch module and ``net_.history`` its losses. Its labels are the
        positions in ``classes_``.
    n_features_in_ : int
        Columns of X (channels of images).
    feature_names_in_ : ndarray
        Column names, if X had any.
    n_iter_ : int
        Epochs trained by the last ``fit`` and the ``partial_fit`` calls after it.

    Notes
    -----
    One fitted net may be asked by several threads at once. Neither training nor prediction reads or moves torch's
    global generator, the dropout inside of recurrent and attention layers included.

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

    _net_class = training.ClassifierNet

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (128, 128),
        *,
        dropout: float = 0.5,
        activation: str | Callable[[], nn.Module] = "relu",
        module: nn.Module | Callable[..., nn.Module] | None = None,
        lr: float = 1e-3,
        optimizer: str | Callable[..., torch.optim.Optimizer] = "adam",
        weight_decay: float = 0.0,
        batch_size: int = 64,
        max_epochs: int = 200,
        early_stopping: bool = False,
        n_draws: int = 20,
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        classes: ArrayLike | None = None,
        module_params: Mapping[str, Any] | None = None,
        output: str = "logits",
        predict_batch_size: int = thinning.BLOCK,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            dropout=dropout,
            activation=activation,
            module=module,
            lr=lr,
            optimizer=optimizer,
            weight_decay=weight_decay,
            batch_size=batch_size,
            max_epochs=max_epochs,
            early_stopping=early_stopping,
            n_draws=n_draws,
            warm_start=warm_start,
            device=device,
            module_params=module_params,
            predict_batch_size=predict_batch_size,
            random_state=random_state,
            verbose=verbose,
            callbacks=callbacks,
        )
        self.class_weight = class_weight
        self.classes = classes
        self.output = output

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the net.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or (n_rows, ...) with a ``module``
        y : array-like of shape (n_rows,)
            Labels of any type that sorts.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows in the loss. Rows of weight 0 are left out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X or y hold what is not finite, y holds one class and `classes` declares no other, a parameter is out of
            its range, or `module` does not return what `output` says.
        """
        self._check_parameters()
        continues = self._continues()
        data = self._check_data(X, y, sample_weight, reset=not continues)
        classes = _find_classes(data.target, self.classes)
        if continues:
            return self._fit_classes(data, np.union1d(self.classes_, classes), self._grown_module)
        return self._fit_classes(data, classes, self._build_for)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train for one more epoch, optimizer state included.

        Parameters
        ----------
        X : array-like of shape (n_rows, ...)
        y : array-like of shape (n_rows,)
        classes : array-like, optional
            All labels that may ever come. Needed at the first call, unless the parameter `classes` declares them.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        first = not hasattr(self, "net_")
        data = self._check_data(X, y, sample_weight, reset=first)
        if first:
            classes = self.classes if classes is None else classes
            if classes is None:
                raise first_partial_fit_error()
            return self._fit_classes(data, _find_classes(data.target, classes), self._build_for, epochs=1)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise changed_classes_error(np.unique(classes), self.classes_)
        return self._train_once_more(data.encoded(_find_classes(data.target, self.classes_)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the label of the largest mean probability.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)

        Returns
        -------
        ndarray of shape (n_points,)
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Average the probabilities of the model's own ``n_draws`` functions: the same ones at every call.

        A net without dropout answers with its one function.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)

        Returns
        -------
        ndarray of shape (n_points, n_classes)
            Columns in the order of ``classes_``.
        """
        probabilities = self._predict_mean(X)
        return probabilities / probabilities.sum(axis=1, keepdims=True)  # float32 rows miss the sum 1 by 1e-7

    def sample_proba(self, X: ArrayLike, n_draws: int | None = None) -> NDArray[np.float32]:
        """Give the probabilities of each draw; their mean over the model's own ``n_draws`` is `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)
        n_draws : int, optional
            Number of functions, by default the parameter `n_draws`. The first ones are the same for every number.

        Returns
        -------
        ndarray of shape (n_draws, n_points, n_classes), float32

        Raises
        ------
        ValueError
            If the net has no dropout.
        """
        return self._sample(X, n_draws)

    def _check_data(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> _Data:
        data = super()._check_data(X, y, sample_weight, reset)
        check_classification_targets(data.target)
        return _Data(data.X, data.target, data.weight * _class_weights(self.class_weight, data.target))

    def _fit_classes(
        self,
        data: _Data,
        classes: NDArray[Any],
        make_module: Callable[[NDArray[Any], Tensor], nn.Module],
        epochs: int | None = None,
    ) -> Self:
        if len(classes) < 2:
            raise one_class_error(classes)
        self._fit_net(data.encoded(classes), partial(make_module, classes), len(classes), epochs or self.max_epochs)
        self.classes_ = classes
        return self

    def _build_for(self, classes: NDArray[Any], x: Tensor) -> nn.Module:
        return self._build_module(len(classes), x)

    def _grown_module(self, classes: NDArray[Any], x: Tensor) -> nn.Module:
        """A copy of the trained module with units for new classes; the known ones keep their weights."""
        module = copy.deepcopy(self.net_.module_).cpu().eval()
        n_before, n_now = len(self.classes_), len(classes)
        if n_now == n_before:
            return module
        with torch.no_grad():
            found = training.last_linear(module, x)
            if found and module.get_submodule(found[0]).out_features == n_before:
                module = training.with_more_units(module, found[0], np.searchsorted(classes, self.classes_), n_now)
        try:
            n_columns = training.try_module(module, x).shape[1]
        except ValueError as error:
            raise last_layer_error(n_before, n_now) from error
        if n_columns != n_now:
            raise last_layer_error(n_before, n_now)
        return module

    def _net_params(self) -> dict[str, Any]:
        quiet = {} if self.verbose or self.callbacks or not self.early_stopping else {"callbacks__valid_acc": None}
        return {
            "criterion": training.CrossEntropy,
            "criterion__output": self.output,
            "predict_nonlinearity": partial(training.probabilities, output=self.output),
            **quiet,
        }

    def _answer(self, outputs: Tensor) -> Tensor:
        return training.probabilities(outputs.reshape(*outputs.shape[:2], -1).float(), self.output)

    def _check_outputs(self, outputs: Tensor, n_outputs: int) -> None:
        n_columns = outputs.shape[1]
        if n_columns != n_outputs and (n_columns, n_outputs) != (1, 2):
            rule = f"return one column for each of the {n_outputs} classes (or one for two classes)"
            raise module_error(rule, f"{n_columns} columns")
        training.check_declared(outputs, self.output)


class MCDropoutRegressor(RegressorMixin, _MCDropout):
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

    _net_class = training.RegressorNet

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the net.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or (n_rows, ...) with a ``module``
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows in the loss. Rows of weight 0 are left out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X or y hold what is not finite, a parameter is out of its range, or `module` does not return one
            output a row.
        """
        self._check_parameters()
        continues = self._continues()
        data = self._check_data(X, y, sample_weight, reset=not continues)
        if continues:
            return self._fit_scaled(data, self._target_scale, lambda x: copy.deepcopy(self.net_.module_).cpu())
        return self._fit_scaled(data, _mean_and_scale(data.target), partial(self._build_module, 1))

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train for one more epoch, optimizer state included.

        Parameters
        ----------
        X : array-like of shape (n_rows, ...)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        first = not hasattr(self, "net_")
        data = self._check_data(X, y, sample_weight, reset=first)
        if first:
            return self._fit_scaled(data, _mean_and_scale(data.target), partial(self._build_module, 1), epochs=1)
        return self._train_once_more(data.standardised(*self._target_scale))

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
            Number of functions, by default the parameter `n_draws`. The first ones are the same for every number.

        Returns
        -------
        ndarray of shape (n_draws, n_points)

        Raises
        ------
        ValueError
            If the net has no dropout.
        """
        return self._sample(X, n_draws)

    def _fit_scaled(
        self,
        data: _Data,
        scale: tuple[float, float],
        make_module: Callable[[Tensor], nn.Module],
        epochs: int | None = None,
    ) -> Self:
        self._fit_net(data.standardised(*scale), make_module, 1, epochs or self.max_epochs)
        self._target_scale = scale
        return self

    def _net_params(self) -> dict[str, Any]:
        return {"criterion": training.SquaredError}

    def _answer(self, outputs: Tensor) -> Tensor:
        mean, scale = self._target_scale
        # float64, where there is one: targets near 1e8 keep their digits
        return outputs.reshape(outputs.shape[:2]).to(devices.best_float(outputs.device)) * scale + mean

    def _check_outputs(self, outputs: Tensor, n_outputs: int) -> None:
        if outputs.shape[1] != n_outputs:
            raise module_error("return one number for each row of X", f"{outputs.shape[1]} columns")


# The net, as it is asked for draws


class _AskedNet(nets.Asked):
    """A fitted estimator's own net."""

    def __init__(self, fitted: _MCDropout) -> None:
        self._fitted = fitted
        self.module = fitted.net_.module_
        self.batch_size = fitted.predict_batch_size

    def rows(self, X: Any) -> thinning.Rows:
        return self._fitted._rows(X)

    def forward(self, module: nn.Module, batch: Any) -> Any:
        return module(batch)

    def learn(self, net: thinning.FrozenNet, rows: thinning.Rows) -> None:
        """Nothing: what the net returns was checked when it was fitted."""

    def answer(self, outputs: Tensor) -> Tensor:
        return self._fitted._answer(outputs)


class _HostRows:
    """Rows that are copied to the device, as float32, a block at a time."""

    def __init__(self, X: Any, device: torch.device) -> None:
        self._X, self._device = X, device

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def take(self, rows: range | list[int]) -> Tensor:
        return _to_tensor(self._X[rows.start : rows.stop] if isinstance(rows, range) else self._X[rows], self._device)


def _has_dropout(module: nn.Module, x: Tensor) -> bool:
    """Whether anything is random in training. What cannot be held fixed is refused when draws are asked for."""
    draws = thinning.FixedDraws(module, 1, np.random.default_rng(0))
    draws.module.cpu()  # a copy
    try:
        with torch.no_grad():
            draws.learn(thinning.TensorRows(x))
    except NoDropoutError:
        return False
    except NetError:
        return True
    return True


# Data


@dataclass(frozen=True)
class _Data:
    """Rows to train on, what they are to answer, and their weights in the loss."""

    X: Any
    target: NDArray[Any]
    weight: NDArray[np.float64]

    def take(self, rows: NDArray[Any]) -> _Data:
        return _Data(self.X[rows], self.target[rows], self.weight[rows])

    def encoded(self, classes: NDArray[Any]) -> _Data:
        return replace(self, target=np.searchsorted(classes, self.target))

    def standardised(self, mean: float, scale: float) -> _Data:
        return replace(self, target=((self.target - mean) / scale).astype(np.float32))

    def to_dataset(self, device: torch.device) -> Dataset:
        """A skorch dataset whose rows are pairs (x, weight), the weights of mean 1, on the device."""
        weight = torch.from_numpy((self.weight / self.weight.mean()).astype(np.float32))
        target = torch.from_numpy(self.target)
        return Dataset((_to_tensor(self.X, device), weight.to(device)), target.to(device))


def _to_tensor(X: Any, device: torch.device) -> Tensor:
    """Contiguous float32 on the device; always a copy: a module may work in place."""
    X = X.toarray() if hasattr(X, "toarray") else X
    # A GPU fetches pinned memory by itself, while this thread goes on to the next rows.
    x = torch.empty(X.shape, dtype=torch.float32, device="cpu", pin_memory=device.type == "cuda")
    x.numpy()[...] = X
    return x.to(device, non_blocking=device.type == "cuda")


def _check_sample_weight(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise parameter_error("sample_weight", f"of shape ({n_rows},)", weight.shape)
    return _check_weights(weight, "sample_weight")


def _check_weights(weight: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    if not np.isfinite(weight).all() or weight.min() < 0 or weight.max() == 0:
        raise weights_error(name, f"weights from {weight.min()} to {weight.max()}")
    return weight


def _class_weights(class_weight: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    """Weight of each row's class. A label that a dict lacks has 1: in a loop classes may come late."""
    if class_weight is None:
        return np.ones(len(y))
    if isinstance(class_weight, Mapping):
        weight = np.array([class_weight.get(label, 1.0) for label in y.tolist()], dtype=np.float64)
        return _check_weights(weight, "class_weight")
    return compute_sample_weight(class_weight, y)


def _find_classes(y: NDArray[Any], declared: ArrayLike | None) -> NDArray[Any]:
    if declared is None:
        return np.unique(y)
    classes = np.unique(declared)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise undeclared_labels_error(unknown, classes)
    return classes


def _mean_and_scale(y: NDArray[Any]) -> tuple[float, float]:
    peak = float(np.abs(y).max()) or 1.0  # whose square might overflow
    return float(np.mean(y / peak)) * peak, float(np.std(y / peak)) * peak or 1.0


def _stratified_rows(strata: NDArray[Any], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which rows to hold out: a fixed share of each stratum, never its last row; none if there are too few rows."""
    n_rows = len(strata)
    held_out = np.zeros(n_rows, dtype=bool)
    if n_rows < _MIN_ROWS_TO_VALIDATE:
        return held_out
    order = rng.permutation(n_rows)
    _, stratum, counts = np.unique(strata[order], return_inverse=True, return_counts=True)
    rank = np.empty(n_rows, dtype=np.int64)  # position within the own stratum
    rank[np.argsort(stratum, kind="stable")] = np.concatenate([np.arange(count) for count in counts])
    share = np.where(rank < counts[stratum] - 1, (rank + 0.5) / counts[stratum], np.inf)
    first = np.argsort(share, kind="stable")[: round(_VALIDATION_FRACTION * n_rows)]
    held_out[order[first[np.isfinite(share[first])]]] = True
    return held_out
