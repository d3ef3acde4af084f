"""Training of a torch module by skorch, on tensors that lie on the device.

skorch keeps the history and runs the epochs; without callbacks a shorter loop runs them. Three things differ from
skorch: batches are cut from tensors (torch's DataLoader goes row by row and takes a seed from the global generator),
rows have weights, and torch's random numbers come from `_own_random`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import Tensor, nn

from ._own_random import OwnRandom

# Fused: one kernel for all parameters, which halves the time of a step of a small net.
OPTIMIZERS: dict[Any, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"fused": True}),
    "adamw": (torch.optim.AdamW, {"fused": True}),
    "sgd": (torch.optim.SGD, {"fused": True, "momentum": 0.9}),
}


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
    """A skorch net with batches of tensors, weighted rows and random numbers from `_own_random`."""

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
        """The same as `fit_loop`, without callbacks, which take a quarter of a small net's time."""
        batches, parameters = self.get_iterator(training, training=True), list(self.module_.parameters())
        losses: list[Tensor] = []
        sizes: list[int] = []
        self._set_training(True)
        with self.random_.forward(self.module_) as forward:
            for _ in range(epochs):
                for X, y in batches:
                    tried: list[Tensor] = []  # some optimizers, such as LBFGS, evaluate the loss several times a step
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
        """Add the same entries to the history as skorch, from losses that leave the device once, after training."""
        n, n_rows = len(losses) // epochs, sum(sizes) // epochs
        for start in range(0, len(losses), n):
            seen = zip(losses[start : start + n], sizes, strict=False)  # all epochs have batches of the same sizes
            batches = [{"train_loss": loss, "train_batch_size": size} for loss, size in seen]
            mean = sum(batch["train_loss"] * batch["train_batch_size"] for batch in batches) / n_rows
            epoch = {"epoch": len(self.history) + 1, "train_batch_count": n, "train_loss": mean}
            self.history.append({"batches": batches, **epoch})

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
            self.optimizer__fused = False  # there is no fused kernel for these parameters or this device
            return super().initialize_optimizer(*args, **kwargs)  # type: ignore[misc]


class ClassifierNet(_Net, NeuralNetClassifier):
    """A skorch classifier of label positions."""


class RegressorNet(_Net, NeuralNetRegressor):
    """A skorch regressor of standardised targets."""


@contextmanager
def _frozen_batch_norm(module: nn.Module) -> Iterator[None]:
    """Normalise by running statistics, because a single row has no variance."""
    layers = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training]
    for layer in layers:
        layer.eval()
    yield
    for layer in layers:
        layer.train()
