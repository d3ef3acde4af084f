"""The rows that a query may choose, their container, and the training data of the model.

`Pool` is the only place that asks whether all rows may be chosen or some: everyone else speaks of candidates, by their
positions among the candidates.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .. import _modal as modal
from .._utils.types import Floats, Indices
from .._utils.validation import (
    ParameterError,
    Rule,
    UnfittedError,
    check_fitted,
    check_is_model,
    check_sample_weight,
    plain_labels,
    progress,
    warn,
)
from ..posterior._wrappers import weight_keyword
from ..samplers._feasibility import Allowance
from ._limits import Limits, PoolLimits, distinct_rows

_IS_KEYWORDS = Rule(lambda v: v is None or isinstance(v, Mapping), "None or a dict from keywords of `fit` to values")

_MOST_IN_MEMORY = 256 * 2**20  # bytes of what is kept of the rows of a pool that is read in blocks


@dataclass(frozen=True)
class Pool:
    """Candidates of a query.

    Attributes
    ----------
    X : array-like of shape (n_points, ...)
        The whole pool, as ``_containers.prepare_pool`` leaves it.
    rows : ndarray of shape (n_candidates,), int64, or None
        Positions in the pool of the rows that may be chosen, in increasing order; None if all may be.
    X_training, y_training : array-like or None
        What the model was fitted to, if known.
    sample_weight : ndarray of shape (n_labelled,), float64, or None
        Weights of these rows in the fit; None if each counts once.
    fit_params, surrogate_params : dict or None
        Further keywords for refits of the model, and for fits of another one in its place.
    pending : ndarray of shape (n_pending,), int64
        Positions in the pool of the rows in flight: none is a candidate, and where rows of a batch keep apart, all
        count as chosen.
    limits : PoolLimits or None
        Constraints on a batch of these rows; `allowance` says which candidates they leave.
    """

    X: Any
    rows: Indices | None = None
    X_training: Any = None
    y_training: Any = None
    sample_weight: Floats | None = None
    fit_params: Mapping[str, Any] | None = None
    surrogate_params: Mapping[str, Any] | None = None
    pending: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    limits: PoolLimits | None = None

    @classmethod
    def of(
        cls,
        X_pool: Any,
        candidates: ArrayLike | None = None,
        *,
        pending: ArrayLike | None = None,
        limits: Limits | None = None,
        X_training: Any = None,
        y_training: Any = None,
        **fit: Any,
    ) -> Pool:
        """A pool as a user gives it, checked; ``candidates`` and ``pending`` are positions of rows, or masks.

        ``fit`` are the other attributes, which say how the model was fitted.
        """
        X = containers.prepare_pool(X_pool)
        if containers.is_open(X) and not (candidates is None and pending is None and limits is None):
            containers.count_rows(X)
        rows = None if candidates is None else distinct_rows(candidates, X, "candidates")
        if pending is not None:
            pending = distinct_rows(pending, X, "pending")
            free = np.ones(containers.count_rows(X), dtype=bool)
            free[pending] = False
            rows = np.flatnonzero(free) if rows is None else rows[free[rows]]
            fit["pending"] = pending
        if limits is not None:
            fit["limits"] = PoolLimits.of(limits, X, rows)
        n_rows, n_labels = (None if a is None else containers.count_rows(a) for a in (X_training, y_training))
        if n_rows != n_labels:
            raise ValueError(
                "`X_training` and `y_training` must be given together, a label for each row. Got "
                f"{'no' if n_rows is None else n_rows} rows and {'no' if n_labels is None else n_labels} labels."
            )
        if y_training is not None:
            y_training = plain_labels(containers.aligned(y_training, X_training, "y_training"), "y_training")
        return cls(X, rows, X_training, y_training, **fit)

    def __len__(self) -> int:
        """How many candidates there are."""
        return self.n_points if self.rows is None else len(self.rows)

    @property
    def n_points(self) -> int:
        """Rows of the whole pool."""
        return containers.count_rows(self.X)

    @property
    def n_columns(self) -> int | None:
        containers.look(self.X, self.rows)
        return containers.count_columns(self.X)

    @property
    def training(self) -> dict[str, Any]:
        """The attributes that say what the model was fitted to, and how."""
        names = ("X_training", "y_training", "sample_weight", "fit_params", "surrogate_params")
        return {name: getattr(self, name) for name in names}

    def positions(self, candidates: Indices) -> Indices:
        """Where in the pool some candidates are."""
        return candidates if self.rows is None else self.rows[candidates]

    def take(self, candidates: Indices) -> Any:
        """The rows that some candidates are, in the pool's own kind of container."""
        return containers.take_candidates(self.X, self.rows, candidates)

    @property
    def is_open(self) -> bool:
        """Whether the number of rows is unknown before they are read: asking for it reads the pool, and keeps it."""
        return containers.is_open(self.X)

    @property
    def is_read_in_blocks(self) -> bool:
        """Whether rows come in blocks, from a file or another machine, so that a second pass is expensive."""
        return containers.is_read_in_blocks(self.X)

    def first_rows(self) -> tuple[Any, Any]:
        """The first candidate, and it again behind another one, if there are two: rows of a pass that goes on."""
        ends = np.unique([containers.n_first(self.X, self.rows) - 1, 0])
        return self.take(ends[:1]), self.take(ends[::-1])

    def store(self, why: str) -> None:
        """Read candidates that come in blocks, and rows in flight, now, and keep them; ``why`` is for a warning."""
        rows = self.with_pending().rows
        containers.store(self.X, None if rows is None else np.sort(rows), why)

    def room(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array to fill with what is kept of all rows: on disk if it is large, and the pool too may be."""
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        is_on_disk = self.is_read_in_blocks or isinstance(self.X, np.memmap)
        if not is_on_disk or n_bytes <= _MOST_IN_MEMORY:
            return np.empty(shape, dtype)
        with tempfile.TemporaryFile(prefix="skactive-") as file:  # the map holds what it needs of it
            return np.memmap(file, dtype, "w+", shape=shape)

    def only(self, candidates: Indices) -> Pool:
        """The same pool, where only these may be chosen."""
        return replace(self, rows=self.positions(candidates))

    def with_pending(self) -> Pool:
        """The same pool, with the rows in flight behind the candidates."""
        return self if len(self.pending) == 0 else replace(self, rows=np.concatenate([self.rows, self.pending]))

    def in_flight(self) -> Pool:
        """The rows in flight, as a pool of their own."""
        return replace(self, rows=self.pending, pending=self.pending[:0], limits=None)

    def allowance(self, k: int) -> Allowance:
        """Which candidates a batch of k rows may still take.

        It is new at every call, and changes as rows are taken. ``must`` are the candidates that come first in the
        batch, ``allowed`` is a mask of those that may be next, ``take(candidate)`` says which is, and ``n_left`` how
        many may follow. ``batch`` are all of them in the end. If no batch can obey the limits, it is an error.
        """
        return Allowance(len(self), k) if self.limits is None else self.limits.allowance(self.rows, k)

    def of_pool(self, values: Floats) -> Floats:
        """One number a candidate as one number a row of the pool, NaN for rows that are no candidates."""
        if self.rows is None:
            return values
        of_pool = np.full(self.n_points, np.nan)
        of_pool[self.rows] = values
        return of_pool

    def blocks(self, size: int) -> Iterator[tuple[slice, Any]]:
        """Candidates in order, ``size`` at a time: where they stand among the candidates, and their rows."""
        done = 0
        for chunk in containers.iter_chunks(self.X, self.rows, size):
            start, done = done, done + containers.count_rows(chunk)
            yield slice(start, done), chunk

    def chunks(
        self,
        n_values: int,
        doing: str,
        *,
        chunk_size: int | None = None,
        batch_size: int | None = None,
        verbose: int = 0,
    ) -> Iterator[tuple[slice, Any]]:
        """`blocks` of as many rows as fit the memory of a chunk, under a progress bar.

        ``n_values`` is how many float64 a row takes on the way. A chunk is a multiple of ``batch_size``, the rows that
        a net is asked for at once: then the net sees the same blocks whatever the size of the chunks.
        """
        return self._shown(self.blocks(self.chunk_size(n_values, chunk_size, batch_size)), doing, verbose)

    def mapped(
        self,
        function: Callable[[slice, Any], Any],
        n_values: int,
        doing: str,
        *,
        verbose: int = 0,
        **sizes: int | None,
    ) -> Iterator[tuple[slice, Any]]:
        """What ``function(where, chunk)`` gives for all `chunks`, in order.

        Of a pool of dask it is called where the blocks are, which may need to pickle it, and chunks begin anew with
        each block.
        """
        size = self.chunk_size(n_values, **sizes)
        if self.is_read_in_blocks:
            return self._shown(self.X.mapped(function, self.rows, size), doing, verbose)
        return self._shown(((rows, function(rows, chunk)) for rows, chunk in self.blocks(size)), doing, verbose)

    def _shown(self, parts: Iterator[tuple[slice, Any]], doing: str, verbose: int) -> Iterator[tuple[slice, Any]]:
        total = None if self.is_open else len(self)
        with progress(total=total, doing=doing, unit="row", verbose=verbose) as bar:
            for rows, part in parts:
                yield rows, part
                bar.update(rows.stop - rows.start)

    def chunk_size(self, n_values: int, chunk_size: int | None, batch_size: int | None) -> int:
        """Rows of a chunk: as wanted, or as fit the memory of a chunk, in whole batches of a net, one at least."""
        size = chunk_size or containers.rows_per_chunk(self.X, n_values)
        return size if batch_size is None else max(1, size // batch_size) * batch_size


def model_of(learner: Any) -> Any:
    """The fitted estimator of a modAL learner; an estimator by itself is its own."""
    return modal.unwrap(learner)[0]


def pool_for(
    learner: Any,
    X_pool: Any,
    *,
    candidates: ArrayLike | None = None,
    pending: ArrayLike | None = None,
    limits: Limits | None = None,
    **training: Any,
) -> tuple[Any, Pool]:
    """The estimator of a learner, and the pool with the training data: those given, else the learner's own."""
    known = _training_of(learner, **training)
    return model_of(learner), Pool.of(X_pool, candidates, pending=pending, limits=limits, **known)


def check_fits(model: Any, pool: Pool) -> None:
    """Check that a model is fitted, and to rows like those of the pool."""
    check_is_model(model)
    check_fitted(model, lambda: pool.first_rows()[0])
    fitted_on = getattr(model, "n_features_in_", None)
    if fitted_on is not None and pool.n_columns is not None and pool.n_columns != fitted_on:
        raise ValueError(
            f"`X_pool` has {pool.n_columns} columns, but {type(model).__name__} was fitted on {fitted_on} (of the "
            "second axis). Give the pool the shape of the training data."
        )


def _training_of(
    learner: Any,
    *,
    X_training: Any = None,
    y_training: Any = None,
    sample_weight: Any = None,
    fit_params: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Attributes of a `Pool` that say what the model of a learner was fitted to, checked.

    Weights and keywords that a learner was fitted with go with its own training data alone.
    """
    model, X, y = modal.unwrap(learner, X_training, y_training)
    X = None if X is None else containers.prepare_pool(X, "X_training")
    _check_fit_params(fit_params, model)
    kept = modal.fit_keywords(learner) if X_training is None and y_training is None else {}
    keyword = weight_keyword(model) if kept else None
    of_learner = _weights_kept(kept.pop(keyword, None), X, model) if keyword else None
    if sample_weight is None:
        sample_weight = of_learner
    elif X is None:
        raise ValueError(
            "`sample_weight` must be given along with `X_training` and `y_training`, whose rows it weights. Got it "
            "alone."
        )
    else:
        sample_weight = containers.aligned(sample_weight, X, "sample_weight")
    return {
        "X_training": X,
        "y_training": y,
        "sample_weight": None if X is None else check_sample_weight(sample_weight, containers.count_rows(X)),
        "fit_params": kept if fit_params is None else fit_params,
        "surrogate_params": fit_params,
    }


def check_last_fit(learner: Any, y_training: Any) -> None:
    """Refuse a learner whose last fit failed at labels of one class, as at a cold start: there is nothing to go by."""
    failure = modal.fit_failure(learner)
    labels = np.unique(np.asarray(y_training)).tolist() if failure and y_training is not None else []
    if len(labels) == 1:
        raise UnfittedError(
            f"The last fit of this {type(model_of(learner)).__name__} failed ({failure.rstrip('.')}), and its labels "
            f"are all {labels[0]!r}",
            "Teach labels of another class.",
        )


def _weights_kept(sample_weight: Any, X_training: Any, model: Any) -> Any:
    """Weights of the last fit of a learner, unless that was to its new rows alone."""
    if sample_weight is None or X_training is None or len(sample_weight) == containers.count_rows(X_training):
        return sample_weight
    warn(
        f"The learner holds {containers.count_rows(X_training)} training rows, but its {type(model).__name__} was last "
        f"fitted with {len(sample_weight)} weights: draws that need the training data count each row once. Give "
        "`sample_weight`, a weight for each row."
    )
    return None


def _check_fit_params(fit_params: Any, model: Any) -> None:
    _IS_KEYWORDS.check("fit_params", fit_params)
    weights = {"sample_weight", weight_keyword(model)} & set(fit_params or ())
    if weights:
        raise ParameterError(f"`fit_params` must not hold row weights ({weights.pop()!r}): use `sample_weight`.")
