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
from .._checks import ParameterError, Rule, check_parameters, float64_array, integer, is_integer, number, shown
from ..samplers._feasibility import Allowance, rows_of
from ._rows import rows_in_order

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


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
    """What a batch keeps to: so many rows of a group at most or at least, a budget, rows that must be in it.

    For ``limits`` of a query's ``select``, and of ``learner.query`` in modAL. Each pick follows the law of the query
    among the rows that are still allowed: those with which the batch can be completed. Log-probabilities are those.

    Parameters
    ----------
    groups : array-like of shape (n_points,), optional
        The group of each row of the pool: a customer, a stratum, a day. Any hashable values, none missing. A Series is
        matched to a DataFrame pool by its index.
    max_per_group : int or dict of group to int, optional
        How many rows of each group a batch takes at most; of a dict, groups that are not named have no such limit.
    at_least : dict of group to int, optional
        How many rows of some groups it takes at least.
    costs : array-like of shape (n_points,), optional
        What the label of each row of the pool costs: finite numbers, 0 or larger, matched as ``groups`` are.
    budget : float, optional
        What the batch costs at most. ``n_instances`` is then the most rows that it may have: it ends earlier once no
        row that is left fits, so that it may have fewer. Rows are not preferred for being cheap.
    must : array-like of int or bool, optional
        Rows that are in the batch: positions in the pool, or a mask. They come first, in the order given (of a mask, in
        that of the pool), and with log-probability 0. They count for all other limits and for ``n_instances``.

    Raises
    ------
    ValueError, TypeError
        If a number is none, ``max_per_group`` or ``at_least`` come without ``groups``, or ``budget`` without ``costs``,
        or the other way about, or a group shall have more rows than it may. What does not fit a pool is said when a
        query is given both, before anything is drawn.

    See Also
    --------
    StochasticBatchQuery : Takes them in ``select`` and in modAL's ``query``.
    Campaign : Takes them in ``ask``, by names of columns.

    Notes
    -----
    A row is allowed if it is not taken, its group has room, and, once it is taken, the rows that ``at_least`` still
    asks for fit the picks left and the rest of the budget. Rows in flight (``pending`` of ``select``) count for no
    limit. Sums of costs may exceed the budget by the rounding of floats: a budget of 0.3 pays for three rows of 0.1.

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
        for name in ("max_per_group", "at_least"):  # whoever changes a dict later changes no limits
            value = getattr(self, name)
            object.__setattr__(self, name, dict(value) if isinstance(value, Mapping) else value)
        asked = [name for name in ("max_per_group", "at_least") if getattr(self, name) is not None]
        if asked and self.groups is None:
            raise ValueError(f"`{asked[0]}` needs `groups`, the group of each row of the pool. Got None.")
        if self.groups is not None and not asked:
            raise ValueError(
                "`groups` need `max_per_group` or `at_least`, which say how many rows of each. Got neither."
            )
        if (self.costs is None) != (self.budget is None):
            given, other = ("costs", "a `budget`") if self.budget is None else ("budget", "`costs`, one for each row")
            raise ValueError(f"`{given}` must be given along with {other}. Got None.")
        for group, least in (self.at_least or {}).items():
            most = self.most_of(group)
            if most is not None and least > most:
                raise ValueError(
                    f"`at_least` must not ask for more rows of a group than `max_per_group` allows. Got {least} of "
                    f"{group!r}, which may have {most}."
                )

    def most_of(self, group: Any) -> int | None:
        """How many rows of a group a batch takes at most; None where that is not limited."""
        return self.max_per_group.get(group) if isinstance(self.max_per_group, Mapping) else self.max_per_group


_MANY = 2**62  # no pool has so many rows
_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class PoolLimits:
    """Limits as numbers of the rows of a pool.

    Attributes
    ----------
    n_points : int
        Rows of the pool.
    must : ndarray of int64
        Positions of the rows that are in the batch.
    names : list
        The groups.
    groups : ndarray of shape (n_points,), int64
        The group of each row, by its place in ``names``.
    most, least : ndarray of shape (n_groups,), int64
    costs : ndarray of shape (n_points,), float64, or None
    budget : float
    """

    n_points: int
    must: Indices
    names: list[Any]
    groups: Indices
    most: Indices
    least: Indices
    costs: Floats | None
    budget: float

    @classmethod
    def of(cls, limits: Any, X: Any, rows: Indices | None, pending: Indices | None) -> PoolLimits:
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
        places = {name: place for place, name in enumerate(names)}
        for name in ("max_per_group", "at_least"):
            _check_known(name, getattr(limits, name), places)
        most = [n_points if n is None else min(n, n_points) for n in map(limits.most_of, names)]
        least = [min((limits.at_least or {}).get(name, 0), _MANY) for name in names]
        return cls(
            n_points,
            _checked_must(limits.must, X, rows, pending),
            names,
            groups,
            np.array(most, dtype=np.int64),
            np.array(least, dtype=np.int64),
            None if limits.costs is None else _checked_costs(limits.costs, X),
            float(limits.budget or 0.0),
        )

    def allowance(self, rows: Indices | None, k: int) -> Allowance:
        """What a batch of k of these candidates may take; an error if there is no such batch."""
        must, groups, room, need = self._beside_must(rows)
        n_left = k - len(must)
        if n_left < 0:
            raise ValueError(f"`must` must not be more rows than `n_instances`={k}. Got {len(must)}.")
        of_must = np.bincount(groups[must], minlength=len(self.names))
        if (of_must > self.most).any():
            group = int(np.argmax(of_must > self.most))
            raise ValueError(
                f"`must` must keep to `max_per_group`. Got {of_must[group]} rows of {self.names[group]!r}, which may "
                f"have {self.most[group]}."
            )
        lacking = np.flatnonzero(need > room)
        if len(lacking):
            group = int(lacking[0])
            raise ValueError(
                f"`at_least` must not ask for more rows than there are. Got {self.least[group]} of "
                f"{self.names[group]!r}, of which {room[group] + of_must[group]} may be chosen."
            )
        if need.sum() > n_left:
            beside = f" beside the {len(must)} of `must`" if len(must) else ""
            raise ValueError(
                f"`at_least` must fit `n_instances`={k}. It asks for {need.sum()} rows{beside}: raise `n_instances`."
            )
        if self.costs is None:
            if room.sum() < n_left:
                raise ValueError(
                    f"`max_per_group` must leave `n_instances`={k} rows. Of these candidates a batch can have "
                    f"{len(must) + room.sum()} at most."
                )
            return Allowance(len(groups), n_left, must=must, groups=groups, room=room, need=need)
        costs = self.costs if rows is None else self.costs[rows]
        return self._with_costs(costs, k, must, groups, room, need)

    def _with_costs(
        self, costs: Floats, k: int, must: Indices, groups: Indices, room: Indices, need: Indices
    ) -> Allowance:
        is_free = np.ones(len(groups), dtype=bool)
        is_free[must] = False
        cheapest = {}
        for group, members in rows_of(groups, np.flatnonzero(need)):
            of_group = costs[members[is_free[members]]]
            cheapest[group] = np.sort(np.partition(of_group, need[group] - 1)[: need[group]]).tolist()
        with np.errstate(over="ignore"):
            at_least = float(costs[must].sum() + sum(map(np.sum, cheapest.values())))
        # Costs and budget are each off by half a unit in the last place from the decimals that were meant, and so is
        # each of up to three sums and differences for a row of the batch.
        slack = self.budget * (1 + (2 * k + 4) * _ROUNDING) - at_least
        if slack < 0:
            what = " and ".join(name for name, some in (("`must`", len(must)), ("`at_least`", len(cheapest))) if some)
            raise ValueError(f"`budget` must pay for {what}, which cost {at_least:g} or more. Got {self.budget:g}.")
        allowance = Allowance(
            len(groups),
            k - len(must),
            must=must,
            groups=groups,
            room=room,
            need=need,
            costs=costs,
            slack=slack,
            cheapest=cheapest,
        )
        if not len(must) and not allowance.allowed.any():
            if not room.any():
                raise ValueError("`max_per_group` must leave some rows. All groups of these candidates may have 0.")
            least = costs[room[groups] > 0].min()
            raise ValueError(
                f"`budget` must pay for a row. Got {self.budget:g}, and the cheapest row that may be chosen costs "
                f"{least:g}."
            )
        return allowance

    def _beside_must(self, rows: Indices | None) -> tuple[Indices, Indices, Indices, Indices]:
        """Among candidates: rows of ``must``; groups; of each group how many more may be taken, and have to be."""
        must, groups = self.must, self.groups
        if rows is not None:
            place = np.full(self.n_points, -1)
            place[rows] = np.arange(len(rows))
            must, groups = place[must], groups[rows]
        of_must = np.bincount(groups[must], minlength=len(self.names))
        left = np.bincount(groups, minlength=len(self.names)) - of_must
        return must, groups, np.clip(self.most - of_must, 0, left), np.maximum(self.least - of_must, 0)


def _numbered(groups: Any, X: Any) -> tuple[list[Any], Indices]:
    """The groups, and the number of each row's."""
    values = containers.aligned(containers.prepare_pool(groups, "groups"), X, "groups")
    n_points = containers.count_rows(X)
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"`groups` must have shape ({n_points},), one value for each row. Got {tuple(values.shape)}.")
    if containers.count_rows(values) != n_points:
        raise ValueError(
            f"`groups` must have a value for each of the {n_points} rows of the pool. Got "
            f"{containers.count_rows(values)} values."
        )
    try:
        numbers, names = pd.factorize(_one_axis(values))
    except TypeError as error:
        raise TypeError(f"`groups` must be of one axis, with values that can be hashed: {error}.") from error
    missing = np.flatnonzero(numbers < 0)
    if len(missing):
        raise ValueError(
            f"`groups` must have a value for every row. Got none in row {missing[0]}, and {len(missing)} such rows in "
            "all. Give them a group of their own."
        )
    # Python's own values, which read better in messages; dates and times stay what they are.
    return list(names) if names.dtype.kind in "mM" else names.tolist(), numbers.astype(np.int64, copy=False)


def _one_axis(values: Any) -> Any:
    """Values as pandas numbers them: a Series, or an array of one axis."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()  # None where the mask hides a value
    if isinstance(values, list | tuple):
        return pd.Series(values, dtype=object)  # in which a tuple is a value, not an axis
    return values if isinstance(values, pd.Series) else np.asarray(values)


def _check_known(name: str, numbers: Any, places: Mapping[Any, int]) -> None:
    for group in numbers if isinstance(numbers, Mapping) else ():
        if group not in places:
            some = ", ".join(repr(known) for known in list(places)[:10]) + (", ..." if len(places) > 10 else "")
            raise ValueError(f"`{name}` must name groups of the pool, {some}. Got {group!r}, which no row is of.")


def _checked_costs(given: Any, X: Any) -> Floats:
    costs = float64_array("costs", containers.aligned(given, X, "costs"), booleans=False)
    n_points = containers.count_rows(X)
    if costs.shape != (n_points,):
        raise ValueError(
            f"`costs` must have shape ({n_points},), one number for each row of the pool. Got {costs.shape} instead."
        )
    bad = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))
    if len(bad):
        raise ValueError(
            f"`costs` must be finite, 0 or larger. Got {costs[bad[0]]} in row {bad[0]}, and {len(bad)} such rows in "
            "all."
        )
    return costs


def _checked_must(given: Any, X: Any, rows: Indices | None, pending: Indices | None) -> Indices:
    if given is None:
        return np.empty(0, dtype=np.int64)
    must = rows_in_order(given, X, "must")
    if len(np.unique(must)) < len(must):
        values, counts = np.unique(must, return_counts=True)
        twice = values[counts > 1][0]
        raise ValueError(f"`must` must be distinct rows. Got {twice} more than once.")
    out = must[:0] if rows is None else must[~np.isin(must, rows)]
    if len(out):
        why = "is in flight (`pending`)" if pending is not None and out[0] in pending else "is none of the `candidates`"
        raise ValueError(
            f"`must` must be rows that may be chosen. Got row {out[0]}, which {why}, and {len(out)} such rows in all."
        )
    return must
