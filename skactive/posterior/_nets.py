"""Draws from the user's nets: fitted skorch nets and torch modules with dropout layers.

A module is called with a tensor of rows, a skorch net with batches of its own, through its own evaluation step.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import is_regressor
from skorch import NeuralNet, NeuralNetBinaryClassifier
from skorch.dataset import Dataset
from skorch.helper import SliceDict
from torch import Tensor, nn

from .. import _containers as containers
from .._dropout import BLOCK, FixedDraws, FrozenNet, InBlocks, Pass, Rows, TensorRows, is_close, plain_pass
from .._utils.devices import Lock
from .._utils.validation import NetError, sum_tolerance
from ._registry import DEFAULT_DRAWS, PredictDraws, source
from ._wrappers import is_of_user

_IN_ORDER = {"shuffle": False, "drop_last": False, "persistent_workers": False, "prefetch_factor": None}
_MOST_AT_ONCE = 4096  # rows, where a net's batches hold all rows there are


class NetAdapter(ABC):
    """How a net is called, and what its outputs mean."""

    module: nn.Module
    batch_size: int

    @abstractmethod
    def rows(self, X: Any) -> Rows:
        """Wrap rows so that batches for `forward` can be taken from them."""

    def forward(self, module: nn.Module, batch: Any) -> Any:
        """Evaluate a copy of the net's module on a batch."""
        return module(batch)

    def learn(self, net: FrozenNet, rows: Rows) -> None:  # noqa: B027 (there may be nothing to learn)
        """Determine once, from the first row, what outputs mean, or check that they are what the net predicts."""

    @abstractmethod
    def answer(self, outputs: Tensor) -> Tensor:
        """Outputs (n_draws, n_rows, ...) as probabilities (n_draws, n_rows, n_classes) or values (n_draws, n_rows)."""


class NetDraws(InBlocks):
    """Functions drawn from a net: ``predict_draws`` of `sample_posterior`. Several threads may call it at once."""

    checks_rows = True
    """The net was checked to answer each row by itself, so that no caller needs to."""

    def __init__(self, adapter: NetAdapter, n_draws: int | None, rng: np.random.Generator) -> None:
        self._adapter = adapter
        self._draws = FixedDraws(adapter.module, DEFAULT_DRAWS if n_draws is None else n_draws, rng, adapter.forward)
        super().__init__(adapter.batch_size)
        self._lock, self._has_looked = Lock(), False

    def __call__(self, X: Any) -> Tensor:
        rows = self._adapter.rows(X)
        with torch.no_grad(), self._lock:
            if not self._has_looked:
                self._adapter.learn(self._draws, rows)
                self._draws.learn(rows)
                self.batch_size = self._draws.rows_at_once(self.batch_size)
                self._has_looked = True
        return self.joined(self._answers, rows, axis=1)

    def _answers(self, rows: Rows, block: range) -> Tensor:
        # The last step belongs into the block, too: vectorised functions round by position.
        return self._adapter.answer(self._draws(rows, block))


@source.register(NeuralNet | nn.Module)
def _net(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    changed = method_of_user(estimator)
    if changed:
        raise _other_prediction_error(f"{type(estimator).__name__} has a `{changed}` of its own", changed)
    return NetDraws(adapter_of(estimator), n_draws, rng)


def method_of_user(net: Any) -> str:
    """The method of the user's by which a net predicts, which may be more than a pass through its module; or ""."""
    names = ["predict_proba"]
    if isinstance(net, NeuralNet):
        names = ["predict" if is_regressor(net) else "predict_proba", "forward", "forward_iter"]
    return next((name for name in names if is_of_user(net, name)), "")


def adapter_of(net: Any) -> NetAdapter:
    if isinstance(net, nn.Module):
        return TorchModule(net)
    net.check_is_fitted()
    return SkorchNet(net)


class TorchModule(NetAdapter):
    """A bare module; whether it returns logits or probabilities is inferred from its first output."""

    batch_size = BLOCK

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._like = first_floats(module)
        self._returns, self._axis = "", 1

    def rows(self, X: Any) -> Rows:
        return TensorRows(as_tensor(X, self._like))

    def learn(self, net: FrozenNet, rows: Rows) -> None:
        outputs, masks = net.plain(rows.take(range(1)), 1, range(sys.maxsize))
        if outputs.ndim < 2 or outputs[0].numel() < 2:
            raise ValueError(
                "`estimator` is a torch module and must return one column for each class. Got outputs of shape "
                f"{tuple(outputs.shape)} for a batch. Wrap a binary or a regression net in skorch's "
                "NeuralNetBinaryClassifier or NeuralNetRegressor, or in MCDropoutClassifier or MCDropoutRegressor."
            )
        self._returns, axis = _what_is_returned(outputs, masks, getattr(self.module, "class_axis", None))
        self._axis = 1 if self._returns == "sigmoids" else class_axis_of(self.module, outputs, axis)

    def answer(self, outputs: Tensor) -> Tensor:
        if self._returns == "sigmoids":
            return torch.stack([1 - outputs, outputs], 2)
        outputs = outputs.movedim(self._axis + 1, 2)
        if self._returns == "logits":
            return outputs.softmax(2)
        return outputs.exp() if self._returns == "log_probabilities" else outputs


def _what_is_returned(outputs: Tensor, masks: Pass, class_axis: int | None) -> tuple[str, int | None]:
    """Whether a module returns probabilities, log-probabilities, logits or sigmoids of labels, by those of a real row.

    And the axis of classes, if that can be told. The function that made the outputs says what they are. Where none did
    that is known, sums of 1 do; the rest are logits.
    """
    made, values = masks.last_normalised or ("", outputs)
    by_layer = masks.axis_of_units(outputs)
    if outputs.device.type == "meta":  # holds no values
        return made or "logits", by_layer
    outputs, values = outputs.cpu(), values.cpu()
    # The same numbers, in any arrangement: an axis may be gone, or stand elsewhere.
    both = (x.to(outputs.dtype).flatten().sort().values for x in (values, outputs))
    is_tail = bool(made) and torch.equal(*both)
    dtype = values.dtype if is_tail else outputs.dtype
    axes = range(1, outputs.ndim) if class_axis is None else [class_axis % outputs.ndim]
    for name, p in (("probabilities", outputs), ("log_probabilities", outputs.exp())):
        found = [axis for axis in axes if _sums_to_one(p, axis, dtype)]
        if found:
            return name, found[0] if len(found) == 1 else by_layer
    return ("sigmoids" if is_tail and made == "sigmoids" else "logits"), by_layer


def _sums_to_one(p: Tensor, axis: int, dtype: torch.dtype) -> bool:
    tolerance = sum_tolerance(p.movedim(axis, -1).to(dtype))
    return bool((p >= 0).all()) and bool(((p.double().sum(axis) - 1).abs() <= tolerance).all())


def class_axis_of(net: Any, outputs: Tensor, found: int | None) -> int:
    """The axis of classes of a net's outputs (n_rows, ...): what it says by an attribute, else what was found."""
    n_axes = outputs.ndim
    axis: Any = getattr(net, "class_axis", found)
    if axis is None and n_axes != 3:
        axis = 1  # as torch's losses have it
    if axis not in {*range(1, n_axes), *range(1 - n_axes, 0)} or outputs.shape[axis] < 2:
        raise NetError(
            "`estimator` must name by an attribute `class_axis` the axis of its outputs that holds the classes, "
            f"two or more, where this is ambiguous. Got {axis} from this {type(net).__name__}, whose outputs have "
            f"shape {tuple(outputs.shape)} for one row. It is 1 for (n_rows, n_classes, n_tokens), as torch's losses "
            "have it, and -1 for (n_rows, n_tokens, n_classes). Outputs that are labels each leave a module by a "
            "sigmoid, or a skorch net by BCEWithLogitsLoss."
        )
    return int(axis) % n_axes


def first_floats(module: nn.Module) -> Tensor:
    """The first floating-point parameter; inputs are moved to its device and dtype."""
    floats = (p for p in (*module.parameters(), *module.buffers()) if p.is_floating_point())
    return next(floats, torch.zeros(0, device="cpu"))


def as_tensor(X: Any, like: Tensor) -> Tensor:
    """Move rows to the net's device and float dtype; integers stay integers, since they may be embedded."""
    if isinstance(X, Mapping):
        raise TypeError("`X_pool` must be one array for a torch module. Got a dict: wrap the module in a skorch net.")
    if not isinstance(X, Tensor):
        X = _from_array(X.toarray() if hasattr(X, "toarray") else _array_of(X))
    X = X.to(like.dtype) if X.is_floating_point() else X  # where the rows are: of float64 half need not travel
    X = X.pin_memory() if like.is_cuda and not X.is_cuda else X  # fetched by the GPU while this thread goes on
    return X.to(like.device, non_blocking=like.is_cuda)


def _array_of(X: Any) -> Any:
    return X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)


def _from_array(rows: Any) -> Tensor:
    """Share the array's memory where torch can."""
    is_plain = rows.flags.writeable and rows.dtype.isnative and rows.flags.c_contiguous
    return torch.from_numpy(rows if is_plain else np.array(rows, dtype=rows.dtype.newbyteorder("=")))


# skorch nets


class SkorchNet(NetAdapter):
    """A fitted skorch net, called through its own batches and evaluation step."""

    def __init__(self, net: NeuralNet) -> None:
        self.module = net.module_
        self.batch_size = _batch_size(net)
        self._net = self._twin = _with_module(net, net.module_)
        self._is_binary = type(net).infer is NeuralNetBinaryClassifier.infer
        self._is_regressor = is_regressor(net)
        self._method = "predict" if self._is_regressor else "predict_proba"
        self._nonlinearity = net._get_predict_nonlinearity()  # what predict_proba applies to the module's outputs
        self._like = first_floats(net.module_)
        self._axis: int | None = None  # of classes, where there are several outputs
        self._takes_all = False  # whether the nonlinearity was given outputs of several parts, as skorch does

    def rows(self, X: Any) -> Rows:
        X = _rows_for_skorch(X, self._like)
        if isinstance(X, Tensor) and _has_plain_batches(self._net):
            return _PlainRows(X)
        return _BatchRows(self._net, X)

    def forward(self, module: nn.Module, batch: Any) -> Any:
        outputs = self._around(module).evaluation_step(batch, training=False)
        outputs = outputs[0] if isinstance(outputs, tuple) else outputs
        if isinstance(outputs, Tensor):
            return outputs
        self._takes_all = True
        return self._nonlinearity(outputs)

    def _around(self, module: nn.Module) -> NeuralNet:
        """The skorch net with a copy of its module, created once per copy."""
        net = self._twin
        if net.module_ is not module:
            self._twin = net = _with_module(self._net, module)
        return net

    def learn(self, net: FrozenNet, rows: Any) -> None:
        """Check that the outputs used for draws agree with the net's own prediction."""
        outputs, masks = net.plain(rows.take(range(1)), 1, range(sys.maxsize))
        if self._has_softmax_of_loss(outputs):  # skorch's own is along the last axis
            self._axis = self._class_axis(outputs, masks.axis_of_units(outputs))
            return
        ours = self._predictions(outputs.unsqueeze(0))[0]
        if ours.ndim > 2 and not self._is_regressor:
            axes = [axis for axis in range(1, ours.ndim) if _sums_to_one(ours.cpu(), axis, ours.dtype)]
            self._axis = self._class_axis(ours, axes[0] if len(axes) == 1 else None)
        if ours.device.type == "meta" or ours.dtype is torch.bfloat16:  # which numpy, and skorch, lack
            return
        with plain_pass(1):
            predicted = getattr(self._around(net.module), self._method)(containers.take_rows(rows.x, np.array([0])))
        theirs = torch.from_numpy(np.asarray(predicted, dtype=np.float64)).reshape(ours.shape)
        if not is_close(ours.to("cpu"), theirs.to(ours.dtype)):
            ours_first, theirs_first = ([round(v, 4) for v in p.flatten().tolist()[:5]] for p in (ours, theirs))
            found = f"{self._method} of this {type(self._net).__name__} gives {theirs_first} for the first row, they"
            raise _other_prediction_error(f"{found} give {ours_first}", self._method)

    def _class_axis(self, outputs: Tensor, found: int | None) -> int:
        """The axis of classes: that of torch's losses, which one made of them may turn round, or what was found."""
        is_of_loss = type(self._net.criterion_) in (nn.CrossEntropyLoss, nn.NLLLoss)
        told_by = self._net if hasattr(self._net, "class_axis") else self.module
        return class_axis_of(told_by, outputs, 1 if is_of_loss else found)

    def answer(self, outputs: Tensor) -> Tensor:
        predictions = self._predictions(outputs)
        return predictions if self._axis is None else predictions.movedim(self._axis + 1, 2)

    def _predictions(self, outputs: Tensor) -> Tensor:
        """What the net predicts of its module's outputs (n_draws, n_rows, ...)."""
        if self._axis is not None and self._has_softmax_of_loss(outputs[0]):
            return outputs.softmax(self._axis + 1)
        if not self._takes_all:  # one draw at a time: the function may take its first axis for the rows
            outputs = outputs.squeeze(-1) if self._is_binary and outputs.ndim == 3 else outputs
            outputs = torch.stack([self._nonlinearity(draw) for draw in outputs])
        is_column = self._is_regressor and outputs.ndim == 3 and outputs.shape[-1] == 1  # else several targets
        return outputs[..., 0] if is_column else outputs

    def _has_softmax_of_loss(self, outputs: Tensor) -> bool:
        """Whether skorch takes the softmax of several outputs a row, (n_rows, ...), where their loss takes it."""
        is_auto = self._net.predict_nonlinearity == "auto" and not self._takes_all
        return is_auto and outputs.ndim > 2 and isinstance(self._net.criterion_, nn.CrossEntropyLoss)


def _other_prediction_error(found: str, method: str) -> NetError:
    return NetError(
        "`estimator` must predict what its module and its `predict_nonlinearity` give, since draws are made of these. "
        f"{found}: put what else {method} does into `predict_nonlinearity` or the module's forward pass, or give the "
        "class a method `sample_posterior(n_draws, rng)`."
    )


class _PlainRows(TensorRows):
    """Batches equal to those that skorch makes of an array."""

    def take(self, rows: range | list[int]) -> Any:
        x = super().take(rows)
        return x, torch.zeros(len(x), device="cpu")


class _BatchRows:
    """Batches by the net's own dataset, iterator and collate function."""

    def __init__(self, net: NeuralNet, X: Any) -> None:
        self._net, self.x = net, X

    def __len__(self) -> int:
        return containers.count_rows(self.x)

    def take(self, rows: range | list[int]) -> Any:
        dataset = self._net.get_dataset(containers.take_rows(self.x, np.array(rows)))
        net = _with_module(self._net, self._net.module_, iterator_valid__batch_size=len(rows))
        (batch,) = net.get_iterator(dataset, training=False)
        return batch


def _with_module(net: NeuralNet, module: nn.Module, **params: Any) -> NeuralNet:
    """A copy of the net with another module, whose training mode it does not change.

    Its batches hold all rows in their order, are made here, and draw nothing from torch's global generator.
    """
    twin = object.__new__(type(net))  # skorch's own copies are made by way of files
    vars(twin).update(vars(net), module_=module, _set_training=_leave_mode, **params)
    if net.iterator_valid is torch.utils.data.DataLoader:
        device = torch.get_default_device()  # on which torch's DataLoader draws a number
        own = torch.Generator("cpu" if device.type == "meta" else device)
        vars(twin).update(iterator_valid__generator=own, iterator_valid__num_workers=0)
        given = {f"iterator_valid__{name}": value for name, value in _IN_ORDER.items()}
        vars(twin).update({name: value for name, value in given.items() if name in vars(twin)})
    return twin


def _leave_mode(training: bool = True) -> None:
    """Replaces skorch's switch between training and evaluation."""


def _batch_size(net: NeuralNet) -> int:
    size = net.get_params_for("iterator_valid").get("batch_size", net.batch_size)
    return _MOST_AT_ONCE if size is None or size < 1 else int(size)


def _has_plain_batches(net: NeuralNet) -> bool:
    """Whether the net's batches of an array are plain slices of it."""
    options = net.get_params_for("iterator_valid").keys() - {"batch_size", "generator", "num_workers", "pin_memory"}
    is_usual = net.dataset is Dataset and net.iterator_valid is torch.utils.data.DataLoader
    is_changed = any(is_of_user(net, name) for name in ("get_dataset", "get_iterator"))
    return is_usual and not is_changed and type(net).get_dataset is NeuralNet.get_dataset and not options


def _rows_for_skorch(X: Any, like: Tensor) -> Any:
    """Convert numeric arrays to tensors of the net's float dtype, and dicts of arrays to what can be indexed."""
    if isinstance(X, Tensor):
        return X.to(like.dtype) if X.is_floating_point() else X
    if isinstance(X, Mapping):
        return SliceDict(**X)
    if isinstance(X, torch.utils.data.Dataset) or hasattr(X, "toarray"):
        return X
    rows = _array_of(X)
    return rows if rows.dtype.kind not in "biuf" else _rows_for_skorch(_from_array(rows), like)
