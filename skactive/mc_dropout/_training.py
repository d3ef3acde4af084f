"""Training a torch module by skorch on tensors, with random numbers of our own.

skorch keeps the history and runs the epochs, except where there is no callback to call: then a shorter loop does.
Changed here: batches are cut from tensors that lie on the device already (torch's DataLoader goes row by row and takes
a seed from the global generator); rows have weights; and torch is given random numbers of ours.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import Tensor, nn
from torch.nn import functional as F

from ._checks import device_error, module_error, module_failed_error, output_error
from ._own_random import OwnRandom

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
# Fused: one kernel for all parameters, which halves the time of a step of a small net.
OPTIMIZERS: dict[Any, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"fused": True}),
    "adamw": (torch.optim.AdamW, {"fused": True}),
    "sgd": (torch.optim.SGD, {"fused": True, "momentum": 0.9}),
}


def two_columns(outputs: Tensor, output: str) -> Tensor:
    """What a binary net with one column, for the second class, would return with two."""
    if outputs.shape[-1] > 1:
        return outputs
    if output == "logits":
        other = torch.zeros_like(outputs)
    elif output == "probabilities":
        other = 1 - outputs
    else:
        other = torch.log(-torch.expm1(outputs.clamp(max=-1e-7)))
    return torch.cat([other, outputs], dim=-1)


def probabilities(outputs: Tensor, output: str) -> Tensor:
    """Probabilities of all classes, on the last axis, from what a module returned."""
    outputs = two_columns(outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs, output)
    if output == "logits":
        return _softmax(outputs)
    return outputs.exp() if output == "log_probabilities" else outputs


def _softmax(outputs: Tensor) -> Tensor:
    # Over a short last axis torch is ten times slower than over the axis before it.
    return outputs.mT.softmax(-2).mT if outputs.shape[-1] <= 32 else outputs.softmax(-1)


class CrossEntropy(nn.Module):
    """-log p(y) of each row."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def forward(self, outputs: Tensor, codes: Tensor) -> Tensor:
        outputs = two_columns(outputs.reshape(len(codes), -1), self.output)
        if self.output == "logits":
            return F.cross_entropy(outputs, codes, reduction="none")
        if self.output == "probabilities":
            outputs = torch.log(outputs + torch.finfo(outputs.dtype).eps)
        return F.nll_loss(outputs, codes, reduction="none")


class SquaredError(nn.Module):
    """Squared error of each row."""

    def forward(self, outputs: Tensor, target: Tensor) -> Tensor:
        return (outputs.reshape(len(target)) - target) ** 2


# Training with skorch


class Batches:
    """Batches of a dataset of tensors; in a new order every time if there is an ``rng``. Equal weights are left out.

    skorch's own iterator is torch's DataLoader, which goes row by row and takes a seed from the global generator.
    """

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
        if len(batches) > 1 and len(batches[-1]) == 1:  # which batch norm could not be trained on
            batches[-2:] = [torch.cat(batches[-2:])]
        for rows in batches:
            yield (x[rows], weight[rows]) if self.is_weighted else (x[rows],), y[rows]


class StopTraining(Exception):  # noqa: N818
    """A callback wants no more epochs."""


class StopEarly(EarlyStopping):
    """skorch's early stopping, idle where nothing was held out."""

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        if "valid_loss" in net.history[-1]:
            super().on_epoch_end(net, **kwargs)


class _Net:
    """What we change in a skorch net: tensors come in batches of ours, rows are weighted, randomness is our own."""

    random_: Any = None

    def train(self: Any, training: Dataset, valid: Dataset | None, epochs: int, random: OwnRandom) -> None:
        self.random_, self.train_split = random, predefined_split(valid) if valid is not None else None
        X, y = training.X, training.y
        try:
            self.notify("on_train_begin", X=X, y=y)
            with contextlib.suppress(StopTraining), torch.enable_grad():
                if self.callbacks_ or valid is not None:
                    self.fit_loop(X, y, epochs=epochs)
                else:
                    self._fit_unwatched(training, epochs)
            self.notify("on_train_end", X=X, y=y)
        finally:
            self.random_ = self.train_split = None
            self.module_.eval()

    def _fit_unwatched(self: Any, training: Dataset, epochs: int) -> None:
        """What `fit_loop` does where no callback watches; being watched is a quarter of a small net's time."""
        batches, parameters = self.get_iterator(training, training=True), list(self.module_.parameters())
        losses: list[Tensor] = []
        sizes: list[int] = []
        self._set_training(True)
        with self.random_.forward(self.module_) as forward:
            for _ in range(epochs):
                for X, y in batches:
                    tried: list[Tensor] = []  # some optimizers ask more than once
                    self.optimizer_.step(partial(self._loss_and_gradients, forward, parameters, X, y, tried))
                    losses.append(tried[0])
                    sizes.append(len(y))
        self._record(epochs, torch.stack(losses).tolist(), sizes)

    def _loss_and_gradients(
        self: Any,
        forward: Callable[[Tensor], Tensor],
        parameters: list[nn.Parameter],
        X: tuple[Tensor, ...],
        y: Tensor,
        tried: list[Tensor],
    ) -> Tensor:
        for parameter in parameters:
            parameter.grad = None
        with _frozen_batch_norm(self.module_) if len(y) == 1 else contextlib.nullcontext():
            outputs = forward(X[0])
        loss = self.get_loss(outputs, y, X)
        loss.backward()
        tried.append(loss.detach())
        return loss

    def _record(self: Any, epochs: int, losses: list[float], sizes: list[int]) -> None:
        """Add to the history what skorch would, from the losses of all batches: one look at the device in the end."""
        n, n_rows = len(losses) // epochs, sum(sizes) // epochs
        for start in range(0, len(losses), n):
            seen = zip(losses[start : start + n], sizes, strict=False)  # all epochs have batches of the same sizes
            batches = [{"train_loss": loss, "train_batch_size": size} for loss, size in seen]
            mean = sum(batch["train_loss"] * batch["train_batch_size"] for batch in batches) / n_rows
            epoch = {"epoch": len(self.history) + 1, "train_batch_count": n, "train_loss": mean}
            self.history.append({"batches": batches, **epoch})

    def notify(self, method_name: str, **kwargs: Any) -> None:
        # Callbacks end the training by a KeyboardInterrupt; the user's own, from the keyboard, is not to be swallowed.
        try:
            super().notify(method_name, **kwargs)  # type: ignore[misc]
        except KeyboardInterrupt as interrupt:
            raise StopTraining from interrupt

    def get_dataset(self: Any, X: Any, y: Any = None) -> Dataset:
        """Also of arrays, for callbacks and users that predict with the bare net."""
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
        with self.random_, _frozen_batch_norm(self.module_) if len(x) == 1 else contextlib.nullcontext():
            return self.module_(x)

    def get_loss(self: Any, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False) -> Tensor:
        losses = self.criterion_(y_pred, y_true)
        return (losses * X[1]).mean() if len(X) > 1 else losses.mean()

    def initialize_optimizer(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().initialize_optimizer(*args, **kwargs)  # type: ignore[misc]
        except RuntimeError:
            if not getattr(self, "optimizer__fused", False):
                raise
            self.optimizer__fused = False  # not for these parameters or on this device
            return super().initialize_optimizer(*args, **kwargs)  # type: ignore[misc]


class ClassifierNet(_Net, NeuralNetClassifier):
    """A skorch classifier of label positions."""


class RegressorNet(_Net, NeuralNetRegressor):
    """A skorch regressor of standardised targets."""


@contextmanager
def _frozen_batch_norm(module: nn.Module) -> Iterator[None]:
    """A single row has no variance: normalise it by what was seen before."""
    layers = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training]
    for layer in layers:
        layer.eval()
    yield
    for layer in layers:
        layer.train()


@contextmanager
def one_thread(wanted: bool) -> Iterator[None]:
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def resolve_device(device: Any) -> torch.device:
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise device_error(device, "no such device type.") from error
    if resolved.type == "cpu":
        return resolved
    if resolved.type == "meta":
        raise device_error(device, "it holds no values.")
    module = getattr(torch, resolved.type, None)
    if module is None or not module.is_available():
        raise device_error(device, f"there is no {resolved.type.upper()} device.")
    if resolved.index is not None and resolved.index >= module.device_count():
        raise device_error(device, f"there are {module.device_count()}, counted from 0.")
    return resolved


# Modules


def mlp(n_features: int, hidden: int | Sequence[int], n_outputs: int, activation: Any, dropout: float) -> nn.Sequential:
    sizes = [n_features, *np.atleast_1d(hidden).astype(int).tolist()]
    activation = ACTIVATIONS.get(activation, activation)
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), activation(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], n_outputs))


def parameter_names(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except ValueError:  # some built-in types have no signature
        return set()


def last_linear(module: nn.Module, x: Tensor) -> tuple[str, Tensor] | None:
    """Name and input of the linear layer that runs last, if any runs."""
    last: list[tuple[str, Tensor]] = []

    def remember(name: str, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        last[:] = [(name, inputs[0])]

    layers = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    hooks = [layer.register_forward_pre_hook(partial(remember, name)) for name, layer in layers]
    try:
        module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return last[0] if last else None


def with_more_units(module: nn.Module, name: str, rows: NDArray[Any], n_units: int) -> nn.Module:
    """Replace a linear layer by a larger one, whose ``rows`` are the old layer's units in their order."""
    old: Any = module.get_submodule(name)
    new = nn.Linear(
        old.in_features, n_units, bias=old.bias is not None, dtype=old.weight.dtype, device=old.weight.device
    )
    new.weight[rows] = old.weight
    if old.bias is not None:
        new.bias[rows] = old.bias
    if not name:
        return new
    parent, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(parent), attribute, new)
    return module


def try_module(module: nn.Module, x: Tensor) -> Tensor:
    """Outputs (n_rows, n_columns) in evaluation mode; errors name the parameter."""
    try:
        with torch.no_grad():
            outputs = module.eval()(x.clone())
    except Exception as error:
        raise module_failed_error(x.shape[1:], error) from error
    if not isinstance(outputs, Tensor):
        raise module_error("return one tensor", type(outputs).__name__)
    if outputs.ndim < 1 or len(outputs) != len(x):
        got = f"outputs of shape {tuple(outputs.shape)} for {len(x)} rows"
        raise module_error("return one output for each row of X", got)
    return outputs.reshape(len(x), -1)


def check_declared(outputs: Tensor, output: str) -> None:
    """Compare what a module returns with what it is said to return."""
    if output == "logits":
        if outputs.shape[1] > 1 and _are_probabilities(outputs, 1e-6):
            raise output_error(output, "numbers of any sign and sum", 'Set `output`="probabilities".')
    elif not _are_probabilities(outputs.exp() if output == "log_probabilities" else outputs, 1e-3):
        raise output_error(output, f"the {output} of classes", f"The first row is {outputs[0].tolist()}.")


def _are_probabilities(outputs: Tensor, tolerance: float) -> bool:
    within = (outputs >= 0) & (outputs <= 1 + tolerance)
    return bool(within.all()) and (outputs.shape[1] == 1 or bool(((outputs.sum(1) - 1).abs() <= tolerance).all()))
