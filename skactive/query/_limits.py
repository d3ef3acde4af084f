"""Limits that a batch keeps to, as a user states them, and as numbers of the rows of a pool.

What a pool cannot meet is said before anything is drawn. Which rows are left at each pick, `Allowance` knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .._utils.types import Floats, Indices
from .._utils.validation import (
    ParameterError,
    Rule,
    as_array,
    check_parameters,
    failure_explained,
    float64_array,
    integer,
    is_integer,
    number,
    plain_array,
    shown,
)
from ..samplers._feasibility import Allowance, rows_of


def _holds_numbers_of_rows(value: Any) -> bool:
    return isinstance(value, Mapping) and all(is_integer(n) and n >= 0 for n in value.values())


_NUMBERS = "a dict of groups and integers, 0 or larger"
_RULES = {
    "max_per_group": Rule(
        lambda v: v is None or integer().holds(v) or _holds_numbers_of_rows(v),
        f"None, an integer, 1 or larger, or {_NUMBERS}",
    ),
    "at_least": Rule(lambda v: v is None or _holds_numbers_of_rows(v), f"None or {_NUMBERS}"),
    "budget": number(0).or_none(),
}


@dataclass(frozen=True, eq=False)
class Limits:
    """Constraints on a batch: the most or fewest rows per group, a budget, rows that must be in it.

    For ``limits`` of a query's ``select``, and of ``learner.query`` in modAL. Each pick follows the law of the query
    among the rows that are still allowed: those that a full batch can contain. Log-probabilities are of this law.

    Parameters
    ----------
    groups : array-like of shape (n_points,), optional
        The group of each row of the pool: a customer, a stratum, a day. Any hashable values, none missing. A Series is
        matched to a DataFrame pool by its index.
    max_per_group : int or dict of group to int, optional
        The most rows of each group in a batch; groups that a dict does not name have no such limit.
    at_least : dict of group to int, optional
        The fewest rows of some groups in a batch.
    costs : array-like of shape (n_points,), optional
        Cost of the label of each row of the pool: finite numbers, 0 or larger, matched as ``groups`` are.
    budget : float, optional
        The most that the batch may cost. ``n_instances`` is then the most rows that it may have: it ends earlier once
        no row that is left fits. Rows are not preferred for being cheap.
    must : array-like of int or bool, optional
        Rows that must be in the batch: positions in the pool, or a mask. They come first, in the order given (for a
        mask, that of the pool), with log-probability 0. They count for all other limits and for ``n_instances``.

    See Also
    --------
    StochasticBatchQuery : Takes them in ``select`` and in modAL's ``query``.
    Campaign : Takes them in ``ask``, by column names.

    Notes
    -----
    A row is allowed if it is not taken, its group has room, and, once it is taken, the rows that ``at_least`` still
    asks for fit the picks left and the rest of the budget. Rows in flight (``pending`` of ``select``) count for no
    limit. A budget of 0.3 pays for three rows of 0.1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import Limits, StochasticBatchQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> plants = np.arange(150) // 5
    >>> query = StochasticBatchQuery(random_state=0)
    >>> batch = query.select(forest, X, n_instances=10, limits=Limits(plants, max_per_group=1, must=[7]))
    >>> batch[0], len(set(plants[batch]))
    (np.int64(7), 10)
    """

    groups: Any = None
    max_per_group: int | Mapping[Any, int] | None = None
    at_least: Mapping[Any, int] | None = None
    costs: ArrayLike | None = None
    budget: float | None = None
    must: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_parameters(_RULES, vars(self))
        is_of_groups = self.max_per_group is not None or self.at_least is not None
        if (self.groups is not None) != is_of_groups or (self.costs is None) != (self.budget is None):
            raise ValueError(
                "`groups` must be given along with `max_per_group` or `at_least`, and `costs` along with `budget`. Got "
                "one of them alone."
            )


_MANY = 2**62  # no pool has so many rows
_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class PoolLimits:
    """Limits as numbers of the rows of a pool, whose groups are numbered by their place in ``names``."""

    must: Indices
    names: list[Any]
    groups: Indices  # (n_points,)
    most: Indices  # (n_groups,), and so are the least
    least: Indices
    costs: Floats | None  # (n_points,)
    budget: float

    @classmethod
    def of(cls, limits: Any, X: Any, rows: Indices | None) -> PoolLimits:
        """The limits of a pool whose candidates are ``rows``, checked."""
        if not isinstance(limits, Limits):
            raise ParameterError(
                f"`limits` must be None or `skactive.Limits`, such as Limits(groups, max_per_group=1). Got "
                f"{shown(limits)} instead."
            )
        n_points = containers.count_rows(X)
        names, groups = ([None], np.zeros(n_points, dtype=np.int64))
        if limits.groups is not None:
            names, groups = _numbered(limits.groups, X)
        for name in ("max_per_group", "at_least"):
            _check_known(name, getattr(limits, name), names)
        most = limits.max_per_group
        most_of = [most.get(name) if isinstance(most, Mapping) else most for name in names]
        least = [min((limits.at_least or {}).get(name, 0), _MANY) for name in names]
        return cls(
            np.empty(0, dtype=np.int64) if limits.must is None else _checked_must(limits.must, X, rows),
            names,
            groups,
            np.array([n_points if n is None else min(n, n_points) for n in most_of], dtype=np.int64),
            np.array(least, dtype=np.int64),
            None if limits.costs is None else _checked_costs(limits.costs, X),
            float(limits.budget or 0.0),
        )

    def allowance(self, rows: Indices | None, k: int) -> Allowance:
        """What a batch of k of these candidates may take; an error if there is no such batch."""
        must, groups = self._among(rows)
        of_must = np.bincount(groups[must], minlength=len(self.names))
        most = np.minimum(self.most, np.bincount(groups, minlength=len(self.names)))
        least = np.maximum(self.least, of_must)
        self._check_meets(k, most, least)
        room, need = most - of_must, least - of_must  # of each group: how many more may be taken, and have to be
        if self.costs is None:
            return Allowance(len(groups), k - len(must), must=must, groups=groups, room=room, need=need)
        costs = self.costs if rows is None else self.costs[rows]
        return self._with_costs(costs, k, must=must, groups=groups, room=room, need=need)

    def _among(self, rows: Indices | None) -> tuple[Indices, Indices]:
        """Rows of ``must`` and groups, among the candidates."""
        if rows is None:
            return self.must, self.groups
        place = np.full(len(self.groups), -1)
        place[rows] = np.arange(len(rows))
        return place[self.must], self.groups[rows]

    def _check_meets(self, k: int, most: Indices, least: Indices) -> None:
        lacking = np.flatnonzero(least > most)
        if len(lacking):
            group = lacking[0]
            raise ValueError(
                f"`at_least` and `must` ask for more rows of group {self.names[group]!r} than can be chosen. Got "
                f"{least[group]}, but `max_per_group` and the candidates allow {most[group]}."
            )
        if least.sum() > k:
            raise ValueError(f"`at_least` and `must` ask for {least.sum()} rows. Got `n_instances`={k}: raise it.")
        n_wanted = k if self.costs is None else 1  # a budget may end a batch early
        if most.sum() < n_wanted:
            raise ValueError(
                f"With `max_per_group` at most {most.sum()} of these candidates can be chosen. Got `n_instances`={k}: "
                "lower it, or raise `max_per_group`."
            )

    def _with_costs(self, costs: Floats, k: int, **of_groups: Indices) -> Allowance:
        must, groups, room, need = of_groups.values()
        is_free = np.ones(len(groups), dtype=bool)
        is_free[must] = False
        cheapest = {}
        for group, members in rows_of(groups, np.flatnonzero(need)):
            of_group = costs[members[is_free[members]]]
            cheapest[group] = np.sort(of_group)[: need[group]].tolist()
        with np.errstate(over="ignore"):
            at_least = float(costs[must].sum() + sum(map(np.sum, cheapest.values())))
        # Costs and budget are each off by half a unit in the last place from the decimals that were meant, and so is
        # each of up to three sums and differences for a row of the batch.
        slack = self.budget * (1 + (2 * k + 4) * _ROUNDING) - at_least
        allowance = Allowance(len(groups), k - len(must), costs=costs, slack=slack, cheapest=cheapest, **of_groups)
        if slack < 0 or not (len(must) or allowance.allowed.any()):
            least = at_least or float(costs[room[groups] > 0].min())
            raise ValueError(
                f"`budget` must cover the cheapest non-empty batch with all rows of `must` and `at_least`, "
                f"{least:g}. Got {self.budget:g}."
            )
        return allowance


def _numbered(groups: Any, X: Any) -> tuple[list[Any], Indices]:
    values = containers.aligned(containers.prepare_pool(groups, "groups"), X, "groups")
    n_points = containers.count_rows(X)
    shape = tuple(getattr(values, "shape", (containers.count_rows(values),)))
    if shape != (n_points,):
        raise ValueError(f"`groups` must have shape ({n_points},), one value for each row. Got {shape} instead.")
    with failure_explained("Numbering the `groups`"):
        if isinstance(values, list | tuple):
            values = pd.Series(values, dtype=object)  # in which a tuple is a value, not an axis
        numbers, names = pd.factorize(values if isinstance(values, pd.Series) else np.asarray(values))
    missing = np.flatnonzero(numbers < 0)
    if len(missing):
        raise ValueError(
            f"`groups` must have a value for every row. Got none in row {missing[0]}; {len(missing)} such rows in "
            "all. Give them a group of their own."
        )
    # Python's own values, which read better in messages; dates and times stay what they are.
    return list(names) if names.dtype.kind in "mM" else names.tolist(), numbers.astype(np.int64, copy=False)


def _check_known(name: str, numbers: Any, groups: list[Any]) -> None:
    known = set(groups)
    for group in numbers if isinstance(numbers, Mapping) else ():
        if group not in known:
            raise ValueError(f"`{name}` must name groups of the pool. Got {group!r}, which has no rows.")


def _checked_costs(given: Any, X: Any) -> Floats:
    costs = float64_array("costs", containers.aligned(given, X, "costs"), booleans=False)
    n_points = containers.count_rows(X)
    if costs.shape != (n_points,) or not (np.isfinite(costs) & (costs >= 0)).all():
        raise ValueError(
            f"`costs` must be finite, 0 or larger, of shape ({n_points},), one for each row of the pool. Got shape "
            f"{costs.shape}, with numbers from {costs.min(initial=np.inf):g} to {costs.max(initial=-np.inf):g}."
        )
    return costs


def _checked_must(given: Any, X: Any, rows: Indices | None) -> Indices:
    must = rows_in_order(given, X, "must")
    out = must[:0] if rows is None else must[~np.isin(must, rows)]
    if len(out) or len(np.unique(must)) < len(must):
        got = f"row {out[0]}, which is not among the `candidates` or is `pending`" if len(out) else "a row twice"
        raise ValueError(f"`must` must be distinct rows that may be chosen. Got {got}.")
    return must


def distinct_rows(given_rows: ArrayLike, X: Any, name: str) -> Indices:
    """Sorted distinct positions, from positions in any order or a mask."""
    rows = rows_in_order(given_rows, X, name)
    return rows if (rows[1:] > rows[:-1]).all() else np.unique(rows)  # as those of a mask are, a million of them


def rows_in_order(given_rows: ArrayLike, X: Any, name: str) -> Indices:
    """Positions as they are given, or from a mask in the order of the pool."""
    n_points = containers.count_rows(X)
    if hasattr(given_rows, "get_indexer"):  # a pandas Index
        raise TypeError(
            f"`{name}` must be positions of rows or a mask, but a pandas Index holds ids. Give "
            "`np.flatnonzero(X_pool.index.isin(ids))` for a DataFrame `X_pool`."
        )
    given = _as_array(given_rows, name)
    if given.dtype == bool:
        if given.shape != (n_points,):
            raise ValueError(f"`{name}` as a mask must have shape ({n_points},), like the pool. Got {given.shape}.")
        return np.flatnonzero(_as_array(containers.aligned(given_rows, X, name), name))
    is_integers = given.ndim == 1 and (not given.size or given.dtype.kind in "iu")
    if not is_integers or (len(given) == n_points > 2 and np.isin(given, (0, 1)).all()):
        raise TypeError(
            f"`{name}` must be a mask of booleans (of 0 and 1 with `.astype(bool)`), or positions of rows, an array of "
            f"integers. Got an array of shape {given.shape} and dtype {given.dtype} instead."
        )
    if given.size and not (given.min() >= 0 and given.max() < n_points):
        raise ValueError(
            f"`{name}` must be positions from 0 to {n_points - 1} (not index labels). "
            f"Got positions from {given.min()} to {given.max()}."
        )
    return given.astype(np.int64)


def _as_array(given_rows: Any, name: str) -> NDArray[Any]:
    given = as_array(plain_array(name, given_rows, objects=False))
    is_of_booleans = given.dtype == object and all(isinstance(value, bool | np.bool_) for value in given.flat)
    return given.astype(bool) if is_of_booleans else given
