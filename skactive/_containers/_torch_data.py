"""Datasets of torch, and loaders of them: items are read when their block is, by as many workers as a loader has."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ._kinds import Arrays, Indices
from ._lazy import ReadInBlocks
from ._registry import kind_of
from ._sizes import rows_of_block
from ._streams import Source

_ITEMS = 4096
"""Items of a block, at most."""


def _is_of_torch_data(X: Any, name: str) -> bool:
    return any(kind.__module__.startswith("torch.utils.data") and kind.__name__ == name for kind in type(X).__mro__)


class TensorSets(Arrays):
    """A TensorDataset of rows, or of rows and labels, which are left out: the tensor of rows."""

    def holds(self, X: Any) -> bool:
        return _is_of_torch_data(X, "TensorDataset")

    def prepare(self, X: Any, name: str) -> Any:
        if len(X.tensors) > 2:
            raise TypeError(
                f"`{name}` must be a TensorDataset of rows, or of rows and labels. Got one of {len(X.tensors)} tensors:"
                " give a dict of them, by the names that the net has for them."
            )
        return kind_of(X.tensors[0]).prepare(X.tensors[0], name)

    def count_rows(self, X: Any) -> int:
        return int(X.tensors[0].shape[0])

    def take(self, X: Any, rows: Indices) -> Any:
        return X.tensors[0][rows]


class TorchData(ReadInBlocks):
    """Datasets, with or without a length, and loaders."""

    def holds(self, X: Any) -> bool:
        return _is_of_torch_data(X, "Dataset") or _is_of_torch_data(X, "DataLoader")

    def source(self, X: Any, name: str) -> Source:
        if _is_of_torch_data(X, "DataLoader"):
            return TorchLoader(X, name)
        return TorchItems(X)


class TorchItems(Source):
    """The items of a Dataset, one after the other: a row each, or a pair of a row and a label, which is left out."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._has_places = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        self.name = type(dataset).__name__

    def n_rows(self) -> int | None:
        return len(self._dataset) if self._has_places else None

    def read(self, wanted: Indices | None) -> Iterator[tuple[Any, Any]]:
        places: Any = range(len(self._dataset)) if wanted is None and self._has_places else wanted
        items = (self._dataset[int(i)] for i in places) if self._has_places else iter(self._dataset)
        block: list[Any] = []
        size, n = 1, 0
        for item in items:
            block.append(_row_of(item))
            if len(block) == 1:
                size = _items_at_once(block[0])
            if len(block) == size:
                yield self._where(places, n, len(block)), _collated(block)
                n, block = n + len(block), []
        if block:
            yield self._where(places, n, len(block)), _collated(block)

    def _where(self, places: Any, n: int, length: int) -> Any:
        return np.asarray(places[n : n + length]) if isinstance(places, np.ndarray) and self._has_places else n


class TorchLoader(Source):
    """The batches of a DataLoader, in the order of its dataset."""

    name = "DataLoader"

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        order = type(getattr(loader, "sampler", None)).__name__
        if order not in {"SequentialSampler", "_InfiniteConstantSampler", "NoneType"} or loader.drop_last:
            got = "drop_last=True, which leaves rows out" if loader.drop_last else f"a {order}"
            raise ValueError(
                f"`{name}` must give its rows in the order of its dataset, or their positions would mean nothing. Got "
                f"a DataLoader with {got}: make one with shuffle=False and drop_last=False."
            )

    def n_rows(self) -> int | None:
        try:
            return len(self._loader.dataset)
        except TypeError:  # an IterableDataset
            return None

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        start = 0
        for batch in self._loader:
            rows = _rows_of(batch)
            yield start, rows
            start += kind_of(rows).count_rows(rows)


def _row_of(item: Any) -> Any:
    """The row of an item; as everywhere with torch, a pair is a row and its label."""
    return _first_of_pair(item) if isinstance(item, tuple) else item


def _rows_of(batch: Any) -> Any:
    """The rows of a batch that was collated, which is a list of arrays where items are tuples."""
    is_tuple = isinstance(batch, list | tuple) and len(batch) > 0 and hasattr(batch[0], "shape")
    rows = _first_of_pair(batch) if is_tuple else batch
    return kind_of(rows).prepare(rows, "X_pool") if isinstance(rows, Mapping) else rows


def _first_of_pair(parts: Any) -> Any:
    if len(parts) in (1, 2):
        return parts[0]
    raise TypeError(
        f"items of a Dataset must be rows, or pairs of a row and a label. Got tuples of {len(parts)}: let "
        "`__getitem__` return a dict, by the names that the net has for its parts"
    )


def _collated(rows: list[Any]) -> Any:
    torch = sys.modules["torch"]
    if isinstance(rows[0], str):
        return rows
    collated = torch.utils.data.default_collate(rows)
    return kind_of(collated).prepare(collated, "X_pool") if isinstance(collated, Mapping) else collated


def _items_at_once(row: Any) -> int:
    parts = row.values() if isinstance(row, Mapping) else [row]
    n_bytes = sum(part.nbytes if hasattr(part, "nbytes") else 1024 for part in parts)
    return rows_of_block(n_bytes, _ITEMS)
