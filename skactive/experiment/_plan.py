"""The plan of an experiment: the test rows and first labels of each trial, how many labels it acquires, every seed.

All of it follows from the data and one entropy, before the first run. A seed is a function of (trial, purpose, round),
never of earlier random numbers. So queries are compared on the same trials and models, and a round can be run alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from .._utils.validation import check_positions, is_integer

Rows = NDArray[np.int64]

_SPLIT, _INITIAL, MODEL, QUERY = range(4)


@dataclass(frozen=True)
class Trial:
    """One trial: positions of rows in the caller's X; ``test`` is None where there is a separate test set."""

    number: int
    train: Rows
    test: Rows | None
    initial: Rows


def seed(entropy: Sequence[int], purpose: int, trial: int, round_: int = 0) -> int:
    """A seed of 31 bits, which every library accepts."""
    return int(np.random.SeedSequence(entropy, spawn_key=(purpose, trial, round_)).generate_state(1)[0] >> 1)


def plan_trials(
    n_points: int,
    strata: NDArray[Any] | None,
    entropy: Sequence[int],
    n_trials: int,
    batch_size: int,
    *,
    has_test_set: bool = False,
    test_size: Any = None,
    splits: Any = None,
    n_initial: Any = None,
    initial: Any = None,
) -> list[Trial]:
    """Trials with the given splits and first labels, or with random ones, in the proportions of ``strata``.

    Parameters are those of `run_experiment`, each by itself valid.
    """
    sides = None if splits is None else _checked_splits(splits, n_points, n_trials)
    starts = None if initial is None else _check_by_trial("initial", initial, n_trials)
    n_test = 0 if has_test_set else _number_of_test_rows(0.25 if test_size is None else test_size, n_points)
    trials = []
    for t in range(n_trials):
        start = None if starts is None else check_positions(f"initial[{t}]", starts[t], n_points)
        train, test = sides[t] if sides else _split(n_points, start, strata, n_test, seed(entropy, _SPLIT, t))
        if start is None:
            _check_n_initial(n_initial, len(train), None if strata is None else np.unique(strata[train]))
            start = choose_initial(train, strata, n_initial, np.random.default_rng(seed(entropy, _INITIAL, t)))
        if len(outside := np.setdiff1d(start, train)):
            raise ValueError(f"`initial` must hold only training rows. Got row {outside[0]} in trial {t}.")
        if batch_size > len(train) - len(start) > 0:
            raise ValueError(
                f"`batch_size` must be at most the rows of the pool, {len(train) - len(start)} without the test rows "
                f"and the first labels. Got {batch_size}."
            )
        trials.append(Trial(t, train, test, start))
    return trials


def _checked_splits(splits: Any, n_points: int, n_trials: int) -> list[tuple[Rows, Rows]]:
    pairs = []
    for t, pair in enumerate(_check_by_trial("splits", splits, n_trials)):
        train, test = (np.sort(check_positions(f"splits[{t}]", rows, n_points)) for rows in pair)
        if len(common := np.intersect1d(train, test)):
            raise ValueError(f"`splits` must have no row on both sides. Got row {common[0]} in trial {t}.")
        pairs.append((train, test))
    return pairs


def _split(
    n_points: int, start: Rows | None, strata: NDArray[Any] | None, n_test: int, seed: int
) -> tuple[Rows, Rows | None]:
    """Training and test rows, stratified if every class can be on both sides; first labels are training rows."""
    rows: Rows = np.arange(n_points)
    if n_test == 0:
        return rows, None
    free = rows if start is None else np.setdiff1d(rows, start)
    _number_of_test_rows(n_test, len(free))
    by = None if strata is None else strata[free]
    if by is not None:
        counts = np.unique(by, return_counts=True)[1]
        if counts.min() < 2 or len(counts) > min(n_test, len(free) - n_test):
            by = None
    _, test = train_test_split(free, test_size=n_test, stratify=by, random_state=seed)
    return np.setdiff1d(rows, test), np.sort(test)


def choose_initial(train: Rows, strata: NDArray[Any] | None, n_initial: int, rng: np.random.Generator) -> Rows:
    """First labels at random, in random order. With strata, each class has its share, but at least one."""
    if strata is None:
        return rng.choice(train, n_initial, replace=False)
    _, class_of, available = np.unique(strata[train], return_inverse=True, return_counts=True)
    share = n_initial * available / len(train) + 1e-6 * rng.random(len(available))  # ties broken at random
    counts = np.ones(len(available), dtype=int)
    for _ in range(n_initial - len(available)):
        counts[np.argmax(share - counts)] += 1
    return rng.permutation(
        np.concatenate([rng.choice(train[class_of == c], k, replace=False) for c, k in enumerate(counts)])
    )


def _number_of_test_rows(test_size: float, n_points: int) -> int:
    n_test = int(test_size) if is_integer(test_size) else int(np.ceil(test_size * n_points))
    if n_test >= n_points:
        raise ValueError(
            f"`test_size` must leave rows to train on: it must be a number of rows below {n_points}, or a smaller "
            f"fraction. Got {test_size!r} instead."
        )
    return n_test


def _check_by_trial(name: str, values: list[Any], n_trials: int) -> list[Any]:
    if len(values) != n_trials:
        raise ValueError(f"`{name}` must have one entry for each of the n_trials={n_trials}. Got {len(values)}.")
    return values


def _check_n_initial(n_initial: int, n_train: int, classes: NDArray[Any] | None) -> None:
    if n_initial > n_train:
        raise ValueError(f"`n_initial` must be at most the {n_train} rows that are not test rows. Got {n_initial}.")
    if classes is not None and n_initial < len(classes):
        raise ValueError(
            f"`n_initial` must be at least the number of classes, {len(classes)}, to start with a row of each. Got "
            f"{n_initial}. With stratify=False, or positions as `initial`, classes may be missing, if the estimator "
            "accepts that."
        )
