"""Training data of a net, and rows to predict, as tensors on its device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight
from skorch.dataset import Dataset
from torch import Tensor

from .._checks import float64_array

_VALIDATION_FRACTION = 0.2
_MIN_ROWS_TO_VALIDATE = 10


@dataclass(frozen=True)
class Data:
    """Rows to train on, their targets, and their weights in the loss."""

    X: Any
    target: NDArray[Any]
    weight: NDArray[np.float64]

    def take(self, rows: NDArray[Any]) -> Data:
        return Data(self.X[rows], self.target[rows], self.weight[rows])

    def encoded(self, classes: NDArray[Any]) -> Data:
        return replace(self, target=np.searchsorted(classes, self.target))

    def standardised(self, mean: float, scale: float) -> Data:
        return replace(self, target=((self.target - mean) / scale).astype(np.float32))

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


def check_sample_weight(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    """Weights of the rows in the loss; 1 for each if none are given."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = float64_array("sample_weight", sample_weight)
    if weight.shape != (n_rows,):
        raise ValueError(f"`sample_weight` must be of shape ({n_rows},). Got shape {weight.shape} instead.")
    return _check_weights(weight, "sample_weight")


def class_weights(class_weight: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    """Weight of each row's class. A label that a dict lacks has weight 1, since classes may come late in a loop."""
    if class_weight is None:
        return np.ones(len(y))
    if isinstance(class_weight, Mapping):
        weight = np.array([class_weight.get(label, 1.0) for label in y.tolist()], dtype=np.float64)
        return _check_weights(weight, "class_weight")
    return compute_sample_weight(class_weight, y)


def _check_weights(weight: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    if not np.isfinite(weight).all() or weight.min() < 0 or weight.max() == 0:
        raise ValueError(
            f"`{name}` must hold finite weights, 0 or larger, and not zeros alone. Got weights from {weight.min()} to "
            f"{weight.max()}."
        )
    return weight


# Targets


def mean_and_scale(y: NDArray[Any]) -> tuple[float, float]:
    """Mean and standard deviation of the targets; 1 in place of a deviation of 0."""
    peak = float(np.abs(y).max()) or 1.0  # dividing by it first keeps squares of large targets finite
    return float(np.mean(y / peak)) * peak, float(np.std(y / peak)) * peak or 1.0


def rows_to_hold_out(strata: NDArray[Any], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark a fixed share of each stratum, never its last row; mark none if there are too few rows."""
    n_rows = len(strata)
    held_out = np.zeros(n_rows, dtype=bool)
    if n_rows < _MIN_ROWS_TO_VALIDATE:
        return held_out
    order = rng.permutation(n_rows)
    _, stratum, counts = np.unique(strata[order], return_inverse=True, return_counts=True)
    rank = np.empty(n_rows, dtype=np.int64)  # position within the row's stratum
    rank[np.argsort(stratum, kind="stable")] = np.concatenate([np.arange(count) for count in counts])
    # Sorted by their share of the stratum that precedes them, first rows hold every stratum in proportion.
    share = np.where(rank < counts[stratum] - 1, (rank + 0.5) / counts[stratum], np.inf)
    first = np.argsort(share, kind="stable")[: round(_VALIDATION_FRACTION * n_rows)]
    held_out[order[first[np.isfinite(share[first])]]] = True
    return held_out
