"""The base of the two nets: checked parameters, a module trained by skorch, means and draws over dropout masks."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from .._dropout import BLOCK, FixedDraws, FrozenNet, InBlocks, Rows, TrainingRandom, copy_of
from .._utils.devices import best_float, one_torch_thread
from .._utils.randomness import check_random_state
from .._utils.types import Activation, BaseEstimator, Optimizer
from .._utils.validation import (
    FLAG,
    NoDropoutError,
    Rule,
    Rules,
    check_parameters,
    integer,
    is_number,
    is_real,
    name_or_callable,
    number,
    plain_labels,
    shown,
)
from ..posterior import _nets as nets
from ..posterior._embeddings import TappedNet
from . import _training as training
from ._training import ACTIVATIONS, OPTIMIZERS, Data, HostRows, row_weights, rows_to_hold_out, to_tensor

_SMALL_NET = 1_000_000  # parameters: below, a second thread costs more than it brings
_PATIENCE = 20

_COUNT = integer()


RULES: Rules = {
    "hidden_layer_sizes": Rule(
        lambda v: _COUNT.holds(v) or (isinstance(v, Sequence | np.ndarray) and all(map(_COUNT.holds, v))),
        "a sequence of integers, each 1 or larger",
    ),
    "dropout": number(0, 1, ends="[)"),
    "activation": name_or_callable(ACTIVATIONS, what="a torch.nn.Module class"),
    "module": Rule(callable, "a torch.nn.Module class or instance, or a function that makes one").or_none(),
    "module_params": Rule(lambda value: isinstance(value, Mapping), "a dict of keyword arguments").or_none(),
    "lr": number(0, ends="()"),
    "optimizer": name_or_callable(OPTIMIZERS, what="a torch.optim.Optimizer class"),
    "weight_decay": number(0),
    "batch_size": Rule(
        lambda value: _COUNT.holds(value) or (is_number(value) and value == -1),
        "an integer, 1 or larger, or -1 for all rows",
    ),
    "max_epochs": _COUNT,
    "n_draws": _COUNT,
    "predict_batch_size": _COUNT,
    "callbacks": Rule(lambda value: isinstance(value, list | tuple), "a list of skorch callbacks").or_none(),
    "early_stopping": FLAG,
    "warm_start": FLAG,
}


@dataclass(eq=False, repr=False)
class BaseMCDropout(BaseEstimator, ABC):
    """What the classifier and the regressor share: the net, its training and its draws."""

    rules: ClassVar[Rules] = RULES
    _net_class: ClassVar[Any]  # a skorch net
    net_: Any = field(init=False)
    n_iter_: int = field(init=False)
    _rng: np.random.Generator = field(init=False)  # of training that goes on
    _mask_seed: list[int] = field(init=False)  # of the model's own draws

    hidden_layer_sizes: int | Sequence[int] = (128, 128)
    _: KW_ONLY
    dropout: float = 0.5
    activation: Activation | Callable[[], nn.Module] = "relu"
    module: nn.Module | Callable[..., nn.Module] | None = None
    lr: float = 1e-3
    optimizer: Optimizer | Callable[..., torch.optim.Optimizer] = "adam"
    weight_decay: float = 0.0
    batch_size: int = 64
    max_epochs: int = 200
    early_stopping: bool = False
    n_draws: int = 20
    warm_start: bool = False
    device: str | torch.device = "auto"
    module_params: Mapping[str, Any] | None = None
    predict_batch_size: int = BLOCK
    random_state: Any = None
    verbose: int = 0
    callbacks: Sequence[Any] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the net.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or (n_rows, ...) with a ``module``
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Labels of any type that sorts, or numbers for the regressor. Several labels per row are columns of 0 and 1,
            each a label that holds or does not; several targets are columns of numbers.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows in the loss. Rows of weight 0 are left out.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, goes_on=self.warm_start and hasattr(self, "net_"))

    def sample_posterior(self, n_draws: int | None, rng: Any) -> Callable[[Any], Tensor]:
        """Draw functions from the net: one dropout mask each, the same for all rows.

        Parameters
        ----------
        n_draws : int or None
            Number of functions; None is 100.
        rng : numpy.random.Generator

        Returns
        -------
        predict_draws : callable
            ``predict_draws(X)`` is a tensor on the net's device: float32 probabilities, or float64 values for the
            regressor, with several outputs on the last axis. X in chunks of whole blocks of ``predict_batch_size`` rows
            gives the same bits as in one piece.
        """
        check_is_fitted(self, "net_")
        # A copy, so that the functions stay the same if this estimator is fitted again.
        return nets.NetDraws(_AskedNet(copy.copy(self)), n_draws, check_random_state(rng))

    def embed(self, X: ArrayLike) -> NDArray[np.float32]:
        """Represent rows by the input of the layer that makes the outputs, without dropout: (n_points, n_units)."""
        embeddings = self._embeddings(X)
        if not embeddings.shape[1]:
            raise ValueError(
                "`embed` gives the input of the linear or convolution layer that makes the outputs, but no single one "
                "makes them. Let the module's forward pass return what such a layer does."
            )
        return embeddings.astype(np.float32, copy=False)

    def _embeddings(self, X: ArrayLike) -> NDArray[Any]:
        """As `embed`, without columns where no layer makes the outputs."""
        check_is_fitted(self, "net_")
        return TappedNet(_AskedNet(self))(X)

    def _sample(self, X: ArrayLike, n_draws: int | None) -> NDArray[Any]:
        check_is_fitted(self, "net_")
        n_draws = self.n_draws if n_draws is None else n_draws
        return self.sample_posterior(n_draws, np.random.default_rng(self._mask_seed))(X).cpu().numpy()

    def _predict_mean(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self, "net_")
        rows_of_x = self._rows(X)
        draws = self._own_draws(rows_of_x)

        def mean(rows: Rows, block: range) -> Tensor:
            answers = self._answer(draws(rows, block))
            answers = answers.movedim(1, -1)  # rows last, as they lie in memory: three times as fast
            return answers.mean(0, dtype=best_float(answers.device)).movedim(-1, 0)

        means = InBlocks(self.predict_batch_size).joined(mean, rows_of_x)
        return means.cpu().numpy().astype(np.float64, copy=False)

    def _own_draws(self, rows: Rows) -> Callable[[Rows, range], Tensor]:
        """The model's fixed ``n_draws`` functions; the plain net as the only one if it has no dropout."""
        draws = FixedDraws(self.net_.module_, self.n_draws, np.random.default_rng(self._mask_seed))
        try:
            with torch.no_grad():
                draws.learn(rows)
        except NoDropoutError:
            return FrozenNet(self.net_.module_).one_draw
        return draws

    def _rows(self, X: Any) -> HostRows:
        return HostRows(self._validate(X), torch.device(self.net_.device))

    def _validate(self, X: Any, *y: Any, reset: bool = False) -> Any:
        options: dict[str, Any] = {"dtype": np.float32, "accept_sparse": "csr", "allow_nd": True}
        if y and is_regressor(self):
            options["y_numeric"] = True
        if y and np.ndim(y[0]) == 2 and np.shape(y[0])[1] > 1:
            options["multi_output"] = True
        with np.errstate(over="ignore"):  # numbers too large for float32 become inf, which is refused
            return validate_data(self, X, *y, reset=reset, **options)

    # Training

    def _check_parameters(self) -> None:
        check_parameters(self.rules, self.get_params(deep=False))
        if isinstance(self.module, nn.Module) and self.module_params:
            raise ValueError(
                f"`module_params` must be None if `module` is an instance. Got {shown(self.module_params)} instead."
            )
        resolve_device(self.device)

    def _check_data(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Data:
        if y is not None and not (type(y) is np.ndarray and is_real(y)):  # which scikit-learn looks at
            y = plain_labels(y, "y")
        X, y = self._validate(X, y, reset=reset)
        data = Data(X, y, row_weights(sample_weight, len(y)))
        return data if data.weight.all() else data.take(data.weight > 0)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, *, goes_on: bool, epochs: int | None = None, **declared: Any
    ) -> Self:
        """Train a new skorch net around a new module, or a copy of the last one; self changes only if all goes well."""
        self._check_parameters()
        twin = copy.copy(self)  # takes the number of columns and their names
        data = twin._check_data(X, y, sample_weight, reset=not goes_on)
        learned, data, n_outputs = self._encoded(data, goes_on, **declared)
        with torch.inference_mode(False):  # the caller may be in inference mode, which has no gradients
            fitted = self._fit_net(data, n_outputs, goes_on, epochs or self.max_epochs)
        self.__dict__ = {**vars(twin), **learned, **fitted}
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, **declared: Any) -> Self:
        if not hasattr(self, "net_"):
            return self._fit(X, y, sample_weight, goes_on=False, epochs=1, **declared)
        self._check_parameters()
        _, data, _ = self._encoded(self._check_data(X, y, sample_weight, reset=False), goes_on=True, **declared)
        with torch.inference_mode(False):  # as in `_fit`
            self._train(self.net_, data, None, 1, self._rng)
        self.n_iter_ = len(self.net_.history)
        return self

    def _fit_net(self, data: Data, n_outputs: int, goes_on: bool, epochs: int) -> dict[str, Any]:
        rng = check_random_state(self.random_state)
        mask_seed = rng.integers(2**63, size=4).tolist()
        x = to_tensor(data.X[:8], torch.device("cpu"))
        with torch.device("cpu"), TrainingRandom(rng):
            module = copy_of(self.net_.module_, {}).cpu() if goes_on else self._build_module(n_outputs, x)
            outputs = training.try_module(module.float(), x)  # lazy layers draw their weights now
        has_several = data.target.ndim > 1
        self._check_outputs(outputs, n_outputs, has_several)
        net = self._new_net(module, rng, self._net_params(has_several))
        strata = data.target if is_classifier(self) and not has_several else np.zeros(len(data.target))
        held_out = rows_to_hold_out(strata, rng) if self.early_stopping and epochs > 1 else None
        self._train(net, data, held_out, epochs, rng)
        return {"net_": net, "n_iter_": len(net.history), "_rng": rng, "_mask_seed": mask_seed}

    def _build_module(self, n_outputs: int, x: Tensor) -> nn.Module:
        if self.module is not None:
            return training.module_of_user(self.module, self.module_params, x.shape[1], n_outputs)
        if x.ndim != 2:
            raise ValueError(
                f"`X` must be 2-dimensional for the built-in net. Got rows of shape {tuple(x.shape[1:])}. Give a net "
                "for such rows as `module`."
            )
        return training.mlp(x.shape[1], self.hidden_layer_sizes, n_outputs, self.activation, self.dropout)

    def _new_net(self, module: nn.Module, rng: np.random.Generator, params: dict[str, Any]) -> Any:
        device = resolve_device(self.device)
        optimizer, options = OPTIMIZERS.get(self.optimizer, (self.optimizer, {}))
        if self.optimizer in OPTIMIZERS:
            # One kernel for all parameters, where there is one, halves the time of a step of a small net.
            options = {**options, "fused": device.type in ("cpu", "cuda")}
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
            device=str(device),
            **params,
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

    def _train(
        self, net: Any, data: Data, held_out: NDArray[np.bool_] | None, epochs: int, rng: np.random.Generator
    ) -> None:
        device, valid = torch.device(net.device), None
        if held_out is not None:
            data, valid = data.take(~held_out), data.take(held_out).to_dataset(device)
        n_parameters = sum(parameter.numel() for parameter in net.module_.parameters())
        is_small = data.X.ndim == 2 and n_parameters < _SMALL_NET
        with one_torch_thread() if is_small else nullcontext():
            net.train(data.to_dataset(device), valid, epochs, TrainingRandom(rng))
        if not all(bool(parameter.isfinite().all()) for parameter in net.module_.parameters()):
            raise ValueError("Training diverged: some weights are not finite. Lower `lr`, or scale the features.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Where the classifier and the regressor differ

    @abstractmethod
    def _encoded(self, data: Data, goes_on: bool, classes: Any = None) -> tuple[dict[str, Any], Data, int]:
        """Attributes learned of the targets, as before if training goes on; targets for the net; number of outputs."""

    @abstractmethod
    def _net_params(self, has_several: bool) -> dict[str, Any]:
        """Parameters of the skorch net beside those that both share; targets of a row may be several."""

    @abstractmethod
    def _answer(self, outputs: Tensor) -> Tensor:
        """The module's outputs (n_draws, n_points, ...) as draws: probabilities, or values in the units of y."""

    @abstractmethod
    def _check_outputs(self, outputs: Tensor, n_outputs: int, has_several: bool) -> None:
        """Refuse a module whose outputs do not fit the task."""


class _AskedNet(nets.NetAdapter):
    """The net of a fitted estimator, as it is asked for draws: its outputs were checked when it was fitted."""

    def __init__(self, fitted: BaseMCDropout) -> None:
        self._fitted = fitted
        self.module = fitted.net_.module_
        self.batch_size = fitted.predict_batch_size

    def rows(self, X: Any) -> Rows:
        return self._fitted._rows(X)

    def answer(self, outputs: Tensor) -> Tensor:
        return self._fitted._answer(outputs)


def resolve_device(device: Any) -> torch.device:
    """The device that a parameter `device` names, if this machine has it."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        float(torch.zeros((), device=resolved))  # fails unless it is there and holds values
    except Exception as error:  # of many types, one for each kind of device
        raise ValueError(
            f'`device` must be "auto", "cpu" or a torch device of this machine. Got {device!r}: {error}'
        ) from error
    return resolved
