"""Torch modules, what their outputs mean, and their training by skorch on tensors on the device.

Three things differ from skorch: batches are cut from tensors (torch's DataLoader goes row by row and takes a seed from
the global generator), rows have weights, and torch's random numbers come from the estimator's generator.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import Tensor, nn
from torch.nn import functional as F

from .._dropout import TrainingRandom, copy_of
from .._utils.types import Output
from .._utils.validation import check_sample_weight, shown, warn

_VALIDATION_FRACTION = 0.2
_MIN_ROWS_TO_VALIDATE = 10

OPTIMIZERS: dict[Any, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
}

OUTPUTS = get_args(Output)

ACTIVATIONS: dict[Any, type[nn.Module]] = {
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": nn.LeakyReLU,
    "relu": nn.ReLU,
    "selu": nn.SELU,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


def mlp(n_features: int, hidden: int | Sequence[int], n_outputs: int, activation: Any, dropout: float) -> nn.Sequential:
    """The built-in net: linear, activation and dropout for each hidden layer, then a linear layer."""
    sizes = [n_features, *np.atleast_1d(hidden).astype(int).tolist()]
    activation = ACTIVATIONS.get(activation, activation)
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), activation(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], n_outputs))


def module_of_user(source: Any, params: Mapping[str, Any] | None, n_features_in: int, n_outputs: int) -> nn.Module:
    """A copy of a module, or what a class or function makes; it gets the dimensions that its signature names."""
    if isinstance(source, nn.Module):
        return copy_of(source, {}).cpu()
    dimensions = {"n_features_in": n_features_in, "n_outputs": n_outputs}
    named = {name: dimensions[name] for name in inspect.signature(source).parameters if name in dimensions}
    module = source(**{**named, **(params or {})})
    if not isinstance(module, nn.Module):
        raise ValueError(f"`module` must make a torch.nn.Module. Got {type(module).__name__} instead.")
    return module


def try_module(module: nn.Module, x: Tensor) -> Tensor:
    try:
        with torch.no_grad():
            outputs = module.eval()(x.clone())
    except Exception as error:
        raise ValueError(
            f"`module` failed on float32 rows of shape {tuple(x.shape[1:])}. {type(error).__name__}: {error}"
        ) from error
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != x.shape[:1]:
        raise ValueError(
            f"`module` must return a tensor with one output for each row of X. Got {shown(outputs)} for {len(x)} rows."
        )
    return outputs.reshape(len(x), -1)


# Outputs


def probabilities(outputs: Tensor, output: str) -> Tensor:
    """Probabilities of all classes, on the last axis, from what a module returned."""
    outputs = _two_columns(outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs, output)
    if output == "logits":
        # Over a short last axis torch is ten times slower than over the axis before it.
        return outputs.mT.softmax(-2).mT if outputs.shape[-1] <= 32 else outputs.softmax(-1)
    return outputs.exp() if output == "log_probabilities" else outputs


def _two_columns(outputs: Tensor, output: str) -> Tensor:
    """Two columns for a binary net that returns one, that of the second class."""
    if outputs.shape[-1] > 1:
        return outputs
    if output == "logits":
        other = torch.zeros_like(outputs)
    elif output == "probabilities":
        other = 1 - outputs
    else:
        # log(1 - p) from log p; expm1 keeps its digits where p is near 0, and the clamp keeps it finite at p = 1
        other = torch.log(-torch.expm1(outputs.clamp(max=-1e-7)))
    return torch.cat([other, outputs], dim=-1)


def label_probabilities(outputs: Tensor, output: str) -> Tensor:
    """Probabilities that labels hold and do not, (..., 2, n_labels): each is a binary net of one column."""
    return probabilities(outputs.unsqueeze(-1), output).movedim(-1, -2)


class CrossEntropy(nn.Module):
    """-log p(y) of each row, the mean over its labels."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def forward(self, outputs: Tensor, codes: Tensor) -> Tensor:
        if codes.ndim > 1:
            return self.forward(outputs.reshape(-1, 1), codes.reshape(-1)).reshape(codes.shape).mean(1)
        outputs = _two_columns(outputs.reshape(len(codes), -1), self.output)
        if self.output == "logits":
            return F.cross_entropy(outputs, codes, reduction="none")
        if self.output == "probabilities":
            outputs = torch.log(outputs + torch.finfo(outputs.dtype).eps)
        return F.nll_loss(outputs, codes, reduction="none")


class SquaredError(nn.Module):
    """Squared error of each row, the mean over its targets."""

    def forward(self, outputs: Tensor, target: Tensor) -> Tensor:
        return ((outputs.reshape(target.shape) - target) ** 2).reshape(len(target), -1).mean(1)


def check_declared(outputs: Tensor, output: str) -> None:
    if output == "logits":
        if outputs.shape[1] > 1 and _are_probabilities(outputs, 1e-6):
            raise ValueError(
                "`output`='logits' declares numbers of any sign and sum, but this `module` returns probabilities. "
                'Set `output`="probabilities".'
            )
    elif not _are_probabilities(outputs.exp() if output == "log_probabilities" else outputs, 1e-3):
        raise ValueError(
            f"`output`={output!r} declares the {output} of classes, but this `module` returns none. "
            f"Got {outputs[0].tolist()} for the first row."
        )


def _are_probabilities(outputs: Tensor, tolerance: float) -> bool:
    within = (outputs >= 0) & (outputs <= 1 + tolerance)
    return bool(within.all()) and (outputs.shape[1] == 1 or bool(((outputs.sum(1) - 1).abs() <= tolerance).all()))


# Data


@dataclass(frozen=True)
class Data:
    """Rows to train on, their targets, and their weights in the loss."""

    X: Any
    target: NDArray[Any]
    weight: NDArray[np.float64]

    def take(self, rows: NDArray[Any]) -> Data:
        return Data(self.X[rows], self.target[rows], self.weight[rows])

    def to_dataset(self, device: torch.device) -> Dataset:
        """A skorch dataset whose rows are pairs (x, weight), the weights of mean 1, on the device."""
        weight = torch.from_numpy((self.weight / self.weight.mean()).astype(np.float32))
        target = torch.from_numpy(self.target)
        return Dataset((to_tensor(self.X, device), weight.to(device)), target.to(device))


class HostRows:
    """Rows that are copied to the device, as float32, a block at a time."""

    def __init__(self, X: Any, device: torch.device) -> None:
        self._X, self._device = X, device

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def take(self, rows: range | list[int]) -> Tensor:
        return to_tensor(self._X[rows.start : rows.stop] if isinstance(rows, range) else self._X[rows], self._device)


def to_tensor(X: Any, device: torch.device) -> Tensor:
    """Contiguous float32 on the device; always a copy, because a module may work in place."""
    X = X.toarray() if hasattr(X, "toarray") else X
    # A GPU fetches pinned memory by itself, while this thread goes on to the next rows.
    x = torch.empty(X.shape, dtype=torch.float32, device="cpu", pin_memory=device.type == "cuda")
    x.numpy()[...] = X
    return x.to(device, non_blocking=device.type == "cuda")


# Weights


def row_weights(weight: Any, n_rows: int, name: str = "sample_weight") -> NDArray[np.float64]:
    """Weights of the rows in the loss; 1 for each if none are given."""
    checked = check_sample_weight(weight, n_rows, name)
    return np.ones(n_rows) if checked is None else checked


def class_weights(class_weight: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    """Weight of each row's class. A label that a dict lacks has weight 1, since classes may come late in a loop."""
    if isinstance(class_weight, Mapping):
        return row_weights([class_weight.get(label, 1.0) for label in y.tolist()], len(y), "class_weight")
    return compute_sample_weight(class_weight, y)


# Targets


def mean_and_scale(y: NDArray[Any]) -> tuple[Any, Any]:
    """Mean and standard deviation of each target; 1 in place of a deviation of 0."""
    if y.ndim > 1:
        return tuple(np.array([mean_and_scale(of_one) for of_one in y.T]).T)
    peak = float(np.abs(y).max()) or 1.0  # dividing by it first keeps squares of large targets finite
    return float(np.mean(y / peak)) * peak, float(np.std(y / peak)) * peak or 1.0


def rows_to_hold_out(strata: NDArray[Any], rng: np.random.Generator) -> NDArray[np.bool_] | None:
    """Mark a fixed share of each stratum, never its last row; None, with a warning, if there are too few rows."""
    n_rows = len(strata)
    held_out = np.zeros(n_rows, dtype=bool)
    if n_rows >= _MIN_ROWS_TO_VALIDATE:
        held_out[_share_of_each(strata, rng)] = True
    if held_out.any():
        return held_out
    warn(
        f"`early_stopping` needs validation rows, but {n_rows} training rows leave none to spare: the net trained on "
        "all of them for `max_epochs`."
    )
    return None


def _share_of_each(strata: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    order = rng.permutation(len(strata))
    _, stratum, counts = np.unique(strata[order], return_inverse=True, return_counts=True)
    rank = np.empty(len(strata), dtype=np.int64)  # position within the row's stratum
    rank[np.argsort(stratum, kind="stable")] = np.concatenate([np.arange(count) for count in counts])
    # Sorted by their share of the stratum that precedes them, first rows hold every stratum in proportion.
    share = np.where(rank < counts[stratum] - 1, (rank + 0.5) / counts[stratum], np.inf)
    first = np.argsort(share, kind="stable")[: round(_VALIDATION_FRACTION * len(strata))]
    return order[first[np.isfinite(share[first])]]


# Nets


class Batches:
    """Batches of a dataset of tensors, in a new order every time if there is an ``rng``. Equal weights are left out."""

    def __init__(self, dataset: Dataset, batch_size: int, rng: np.random.Generator | None = None) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.rng = rng
        weight = dataset.X[1]
        self.is_weighted = bool((weight != weight[:1]).any())

    def __iter__(self) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        (x, weight), y = self.dataset.X, self.dataset.y
        order = np.arange(len(x)) if self.rng is None else self.rng.permutation(len(x))
        batches = list(torch.from_numpy(order).to(x.device).split(int(self.batch_size)))
        if len(batches) > 1 and len(batches[-1]) == 1:  # batch norm cannot train on one row
            batches[-2:] = [torch.cat(batches[-2:])]
        for rows in batches:
            yield (x[rows], weight[rows]) if self.is_weighted else (x[rows],), y[rows]


class StopTraining(Exception):  # noqa: N818
    """A callback stopped the training."""


class StopEarly(EarlyStopping):
    """skorch's early stopping, idle where nothing was held out."""

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        if "valid_loss" in net.history[-1]:
            super().on_epoch_end(net, **kwargs)


class _Net:
    """A skorch net with batches of tensors, weighted rows and random numbers of the estimator."""

    random_: Any = None

    def train(self: Any, training: Dataset, valid: Dataset | None, epochs: int, random: TrainingRandom) -> None:
        self.random_, self.train_split = random, predefined_split(valid) if valid is not None else None
        X, y = training.X, training.y
        try:
            self.notify("on_train_begin", X=X, y=y)
            with contextlib.suppress(StopTraining), torch.enable_grad():
                self.fit_loop(X, y, epochs=epochs)
            self.notify("on_train_end", X=X, y=y)
        finally:
            self.random_ = self.train_split = None
            self.module_.eval()

    def fit_loop(self: Any, X: Any, y: Any = None, epochs: int | None = None, **options: Any) -> Any:
        """Epochs as skorch runs them; without callbacks by a shorter loop, in two thirds of the time of a small net."""
        if self.callbacks_ or self.train_split is not None:
            return super().fit_loop(X, y, epochs=epochs, **options)  # type: ignore[misc]
        batches = self.get_iterator(self.get_dataset(X, y), training=True)
        self._set_training(True)
        for _ in range(self.max_epochs if epochs is None else epochs):
            self.history.append({"epoch": len(self.history) + 1, **self._epoch(batches)})
        return self

    def _epoch(self: Any, batches: Batches) -> dict[str, Any]:
        """Train for an epoch; what skorch's history says of it."""
        losses: list[Tensor] = []
        sizes: list[int] = []
        for X, y in batches:
            tried: list[Tensor] = []  # some optimizers, such as LBFGS, evaluate the loss several times a step
            self.optimizer_.step(partial(self._loss_and_gradients, X, y, tried))
            losses.append(tried[0])
            sizes.append(len(y))
        seen = torch.stack(losses).tolist()  # leaves the device once an epoch
        entries = [{"train_loss": loss, "train_batch_size": n} for loss, n in zip(seen, sizes, strict=True)]
        mean = sum(loss * n for loss, n in zip(seen, sizes, strict=True)) / sum(sizes)
        return {"batches": entries, "train_batch_count": len(sizes), "train_loss": mean}

    def _loss_and_gradients(self: Any, X: tuple[Tensor, ...], y: Tensor, tried: list[Tensor]) -> Tensor:
        for parameter in self.module_.parameters():
            parameter.grad = None
        loss = self.get_loss(self.infer(X), y, X)
        loss.backward()
        tried.append(loss.detach())
        return loss

    def notify(self, method_name: str, **kwargs: Any) -> None:
        # Callbacks stop the training by a KeyboardInterrupt, which skorch swallows. One from the keyboard must not be.
        try:
            super().notify(method_name, **kwargs)  # type: ignore[misc]
        except KeyboardInterrupt as interrupt:
            raise StopTraining from interrupt

    def get_dataset(self: Any, X: Any, y: Any = None) -> Dataset:
        """A dataset of tensors or arrays; callbacks, and users of the bare net, predict for arrays."""
        if isinstance(X, torch.utils.data.Dataset):
            return X
        if not isinstance(X, tuple):
            x = torch.as_tensor(np.asarray(X, dtype=np.float32), device=self.device)
            X = (x, torch.ones(len(x), device=self.device))
        y = torch.zeros(len(X[0]), device=self.device) if y is None else torch.as_tensor(y, device=self.device)
        return Dataset(X, y)

    def infer(self: Any, x: Any, **fit_params: Any) -> Any:
        x = x[0] if isinstance(x, tuple | list) else x
        if self.random_ is None or not self.module_.training:
            return self.module_(x)
        with self.random_:
            return self.module_(x)

    def get_loss(self: Any, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False) -> Tensor:
        losses = self.criterion_(y_pred, y_true)
        return (losses * X[1]).mean() if len(X) > 1 else losses.mean()


class ClassifierNet(_Net, NeuralNetClassifier):
    """A skorch classifier of label positions."""


class RegressorNet(_Net, NeuralNetRegressor):
    """A skorch regressor of standardised targets."""
