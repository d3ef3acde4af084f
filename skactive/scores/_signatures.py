"""What a type checker is told of scores: a tensor in, a tensor out; an array in, an array out.

A kernel's side information, which is of tensors, says which signature its score has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array = NDArray[Any] | Sequence[Any]
Floats = NDArray[np.float64]


class Score(Protocol):
    @overload
    def __call__(self, draws: Tensor) -> Tensor: ...
    @overload
    def __call__(self, draws: Array) -> Floats: ...


class ScoreOfNoise(Protocol):
    @overload
    def __call__(self, draws: Tensor, *, noise_variance: ArrayLike) -> Tensor: ...
    @overload
    def __call__(self, draws: Array, *, noise_variance: ArrayLike) -> Floats: ...


class ScoreOfTargets(Protocol):
    @overload
    def __call__(
        self, draws: Tensor, *, target_draws: ArrayLike, target_weights: ArrayLike | None = None
    ) -> Tensor: ...
    @overload
    def __call__(self, draws: Array, *, target_draws: ArrayLike, target_weights: ArrayLike | None = None) -> Floats: ...


class ScoreOfTreatment(Protocol):
    @overload
    def __call__(self, draws: Tensor, *, treatment: ArrayLike) -> Tensor: ...
    @overload
    def __call__(self, draws: Array, *, treatment: ArrayLike) -> Floats: ...


class ScoreOfPropensity(Protocol):
    @overload
    def __call__(self, draws: Tensor, *, treatment: ArrayLike, propensity: ArrayLike) -> Tensor: ...
    @overload
    def __call__(self, draws: Array, *, treatment: ArrayLike, propensity: ArrayLike) -> Floats: ...


class _Kernel(Protocol):
    def __call__(self, draws: Tensor, /) -> Tensor: ...


class _KernelOfNoise(Protocol):
    def __call__(self, draws: Tensor, /, *, noise_variance: Tensor) -> Tensor: ...


class _KernelOfTargets(Protocol):
    def __call__(self, draws: Tensor, /, *, target_draws: Tensor, target_weights: Tensor | None = None) -> Tensor: ...


class _KernelOfTreatment(Protocol):
    def __call__(self, draws: Tensor, /, *, treatment: Tensor) -> Tensor: ...


class _KernelOfPropensity(Protocol):
    def __call__(self, draws: Tensor, /, *, treatment: Tensor, propensity: Tensor) -> Tensor: ...


class Register(Protocol):
    """A decorator of kernels."""

    @overload
    def __call__(self, kernel: _Kernel, /) -> Score: ...
    @overload
    def __call__(self, kernel: _KernelOfNoise, /) -> ScoreOfNoise: ...
    @overload
    def __call__(self, kernel: _KernelOfTargets, /) -> ScoreOfTargets: ...
    @overload
    def __call__(self, kernel: _KernelOfTreatment, /) -> ScoreOfTreatment: ...
    @overload
    def __call__(self, kernel: _KernelOfPropensity, /) -> ScoreOfPropensity: ...
