"""Normal laws of what is linear in features: a regressor's values, or the log-odds of classes.

Letters: n rows, T target rows, p features, C classes (one, for a binary model or a regressor), u columns of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.types import Floats

Weights = tuple[Floats, Floats]
"""Coefficients and intercepts: (C, p) and (C,) of the mode, (p, C, K) and (C, K) of draws."""


@dataclass(frozen=True)
class NormalLaw:
    """A normal law of weights, and what closed forms ask of it."""

    draw: Callable[[int, np.random.Generator], Weights]
    covariance: Callable[[], Covariance | None]  # None if its matrices would fill the memory
    log_odds: Callable[[Any], Floats] | None = None  # (n, C) of rows of features, by a classifier's mode
    noise_variance: float | None = None  # of a label, of a regressor


@dataclass(frozen=True)
class Covariance:
    """Covariance of two rows of features x and x', for each class: u M_c u', where u is x, and a constant if M has one.

    Where labelled rows X are fewer than features, it is ``scale`` x P x' + u M_c u', with u = x P X' and the constant.
    """

    matrices: Floats  # (C, u, u)
    X: Any = None
    prior_p: Floats | None = None
    scale: float = 1.0

    def variances(self, rows: Any) -> Floats:
        """Of each class and row, (C, n)."""
        inputs_nu = self._inputs(rows)
        own_Cn = np.stack([((inputs_nu @ matrix) * inputs_nu).sum(axis=1) for matrix in self.matrices])
        if self.prior_p is not None:
            own_Cn += self.scale * _squares(rows, self.prior_p)
        return np.maximum(own_Cn, 0)  # differences of large numbers round

    def with_targets(self, targets: Any) -> Callable[[Any], Iterator[Floats]]:
        """A function of rows that gives their covariances with the targets, (n, T) for one class after the other."""
        return partial(self._between, targets, self.matrices @ self._inputs(targets).T)

    def _between(self, targets: Any, weights_CuT: Floats, rows: Any) -> Iterator[Floats]:
        inputs_nu = self._inputs(rows)
        prior_nT = 0.0 if self.prior_p is None else self.scale * kernel(rows, self.prior_p, targets)
        return (inputs_nu @ weights_uT + prior_nT for weights_uT in weights_CuT)

    def _inputs(self, rows: Any) -> Floats:
        inputs = dense(rows) if self.prior_p is None else kernel(rows, self.prior_p, self.X)
        n_constant = self.matrices.shape[1] - inputs.shape[1]
        return np.hstack([inputs, np.ones((len(inputs), n_constant))])


def kernel(rows: Any, prior_p: Floats, others: Any) -> Floats:
    """Inner products of rows, arrays or sparse matrices, with others, each feature weighted."""
    scaled = rows.multiply(prior_p).tocsr() if sparse.issparse(rows) else rows * prior_p
    return dense(scaled @ others.T)


def dense(rows: Any) -> Floats:
    """An array of an array or a sparse matrix."""
    return rows.toarray() if sparse.issparse(rows) else rows


def _squares(rows: Any, prior_p: Floats) -> Floats:
    return (rows.multiply(rows) if sparse.issparse(rows) else rows * rows) @ prior_p
