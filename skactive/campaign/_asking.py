"""Which rows a campaign asks for next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import Rule, warn
from .._random import check_random_state
from ..query import Limits
from ..query._pool import Pool as Candidates
from ..query._scoring import name_of
from ..samplers._law import draw_batch
from ._errors import CampaignError, shown
from ._first import first_rows
from ._settings import ready
from ._state import State
from ._table import Pool

FIRST_AUTO = 20
"""Rows of a batch of size "auto" while there is no model to suggest one."""


@dataclass(frozen=True)
class Chosen:
    """Rows of a batch, with the query that chose them, if one did, and facts for the record."""

    rows: NDArray[np.int64]
    log_proba: NDArray[np.float64]
    facts: dict[str, Any]
    query: Any = None


def choose(campaign: Any, state: State, model: Any, n: int | str, limits: Any) -> Chosen:
    """Choose rows in view of what has happened; without a model by chance, or by how unlike each other they are."""
    table, free = campaign._table(), state.candidates()
    n_free = int(free.sum())
    if n_free == 0:
        raise CampaignError(
            "No row is left to ask for: all have a label, are out or were skipped. `withdraw` puts rows back."
        )
    if not isinstance(n, str) and n > n_free:
        warn(f"{n_free} rows are left, fewer than the {n} asked for: the batch is all of them.")
        n = n_free
    limits = _of_columns(limits, table)
    facts: dict[str, Any] = {"n_candidates": n_free, "limited": limits is not None}
    if model is None:
        k = min(FIRST_AUTO, n_free) if isinstance(n, str) else n
        rows, log_proba = _first(campaign, state, free, k, limits)
        return Chosen(rows, log_proba, {**facts, "query": campaign._settings["first"]})
    query = ready(campaign._query, campaign._store.last_state(), campaign.random_state, campaign._verbose)
    X_training, y_training = campaign._training(list(state.labels), state)
    rows = query.select(
        model,
        table.pool(),
        n,
        X_training=X_training,
        y_training=y_training,
        candidates=free,
        pending=np.array(state.out, dtype=np.int64),
        **({} if limits is None else {"limits": limits}),
    )
    known = getattr(query, "log_proba_", None)
    score, beta = getattr(query, "score_", None), getattr(query, "beta_", getattr(query, "beta", None))
    facts |= {"query": type(query).__name__, "score": None if score is None else name_of(score)}
    facts |= {"beta": beta if isinstance(beta, float | int) and np.isfinite(beta) else None}
    if known is not None:
        facts["largest_weight"] = _largest_weight(query)
    return Chosen(rows, np.full(len(rows), np.nan) if known is None else known, facts, query)


def _of_columns(limits: Any, table: Pool) -> Any:
    """Limits with columns in the place of their names."""
    if limits is None:
        return None
    LIMITS.check("limits", limits)
    columns = {}
    for name in ("groups", "costs"):
        column = getattr(limits, name)
        if isinstance(column, str):
            if column not in table.columns:
                raise CampaignError(
                    f"`limits.{name}` must be a column of the table, or a value for each row. Got {column!r}; the "
                    f"columns are {shown(table.columns, 12)}."
                )
            columns[name] = table.column(column)
        elif column is not None:
            columns[name] = table.aligned(column, f"limits.{name}")
    return replace(limits, **columns)


def _largest_weight(query: Any) -> float | None:
    """How much less probable the least probable row is than by uniform choice; None if one is impossible."""
    log_proba = query.first_log_proba_
    least = float(log_proba.min())
    with np.errstate(over="ignore"):
        weight = float(np.exp(-least)) / len(log_proba)
    return weight if np.isfinite(weight) else None


LIMITS = Rule(lambda value: isinstance(value, Limits), "a skactive.Limits")


def _first(
    campaign: Any, state: State, free: NDArray[np.bool_], k: int, limits: Any
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A batch without a model."""
    how = campaign._settings["first"]
    candidates = np.flatnonzero(free)
    n_batches = len(campaign._store.batches())
    rng = check_random_state([campaign.random_state, 3, n_batches])
    if limits is not None and how != "uniform":
        raise CampaignError(
            f'`limits` go with first="uniform" while there is no model to choose by. Got {how!r}: leave them out of '
            "the first batch, or start a campaign with the other."
        )
    if limits is not None:
        pool = Candidates.of(campaign._table().pool(), free, pending=np.array(state.out, dtype=np.int64), limits=limits)
        chosen, law = draw_batch("uniform", np.zeros(len(pool)), k, rng, allowance=pool.allowance(k))
        return pool.positions(chosen), law.log_proba()  # type: ignore[union-attr] # a sampler of ours has a law
    if how == "uniform":
        rows = rng.choice(candidates, k, replace=False)
        return rows, -np.log(len(candidates) - np.arange(k))
    points = campaign._points(candidates, k, rng)
    return points[0][first_rows(points[1], k, rng, how)], np.full(k, np.nan)
