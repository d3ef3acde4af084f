"""The plan of an experiment: which rows each trial tests on and starts from, how much it buys, and every seed.

All of it follows from the data and one entropy, before anything runs. A seed is a function of (trial, purpose, round),
never of what was drawn before: so queries are compared on the same trials and models, and a round can be run by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from .._checks import check_counts, check_one_of, check_positions, check_positive_integers
from ._checks import (
    check_batch_size,
    check_by_trial,
    check_n_initial,
    check_split,
    check_start,
    check_test_size,
    check_word_or_count,
)

Rows = NDArray[np.int64]

_SPLIT, _INITIAL, MODEL, QUERY = range(4)


@dataclass(frozen=True)
class Limits:
    """How many labels are bought: in a round (None: the query says how many), in how many rounds, and in all."""

    batch_size: int | None
    n_rounds: int | None
    n_labels: int

    def room(self, n_rounds: int, n_bought: int) -> int:
        """The largest batch that may follow so many rounds and labels: 0 is the end."""
        if n_rounds == self.n_rounds:
            return 0
        return min(self.n_labels - n_bought, self.batch_size or self.n_labels)


@dataclass(frozen=True)
class Trial:
    """One trial: positions of rows in the caller's X, and how many more are labelled.

    ``test`` is None where there is a test set of its own.
    """

    number: int
    train: Rows
    test: Rows | None
    initial: Rows
    limits: Limits


def seed(entropy: Sequence[int], purpose: int, trial: int, round_: int = 0) -> int:
    """A seed that any library takes, 31 bits."""
    return int(np.random.SeedSequence(entropy, spawn_key=(purpose, trial, round_)).generate_state(1)[0] >> 1)


def plan_trials(
    n_points: int,
    strata: NDArray[Any] | None,
    entropy: Sequence[int],
    n_trials: int,
    sizes: dict[str, Any],
    *,
    has_test_set: bool = False,
    test_size: Any = None,
    splits: Any = None,
    n_initial: Any = None,
    initial: Any = None,
) -> list[Trial]:
    """Trials with the given splits and first labels, or with random ones, in the proportions of ``strata``.

    Parameters are those of `run_experiment`, which come unchecked; ``sizes`` are those of `limits_of`.
    """
    check_counts(n_trials=n_trials)
    sizes = {**sizes, "batch_size": check_word_or_count(sizes["batch_size"])}
    check_one_of("n_rounds", sizes["n_rounds"], "budget", sizes["budget"])
    check_positive_integers(n_rounds=sizes["n_rounds"], budget=sizes["budget"], n_initial=n_initial)
    check_one_of("n_initial", n_initial, "initial", initial)
    sides = None if splits is None else _checked_splits(splits, n_points, n_trials)
    starts = None if initial is None else _checked_starts(initial, n_points, n_trials)
    n_test = 0 if has_test_set else check_test_size(0.25 if test_size is None else test_size, n_points)
    trials = []
    for t in range(n_trials):
        start = None if starts is None else starts[t]
        train, test = sides[t] if sides else _split(n_points, start, strata, n_test, seed(entropy, _SPLIT, t))
        if start is None:
            check_n_initial(n_initial, len(train), None if strata is None else np.unique(strata[train]))
            start = choose_initial(train, strata, n_initial, np.random.default_rng(seed(entropy, _INITIAL, t)))
        check_start(start, train, t)
        trials.append(Trial(t, train, test, start, limits_of(len(train) - len(start), **sizes)))
    return trials


def _checked_splits(splits: Any, n_points: int, n_trials: int) -> list[tuple[Rows, Rows]]:
    pairs = []
    for t, pair in enumerate(check_by_trial("splits", splits, n_trials)):
        train, test = (np.sort(check_positions(f"splits[{t}]", rows, n_points)) for rows in pair)
        check_split(train, test, t)
        pairs.append((train, test))
    return pairs


def _checked_starts(initial: Any, n_points: int, n_trials: int) -> list[Rows]:
    starts = check_by_trial("initial", initial, n_trials)
    return [check_positions(f"initial[{t}]", rows, n_points) for t, rows in enumerate(starts)]


def _split(
    n_points: int, start: Rows | None, strata: NDArray[Any] | None, n_test: int, seed: int
) -> tuple[Rows, Rows | None]:
    """Rows to train on and to test on, stratified if every class can be on both sides; first labels are trained on."""
    rows: Rows = np.arange(n_points)
    if n_test == 0:
        return rows, None
    free = rows if start is None else np.setdiff1d(rows, start)
    check_test_size(n_test, len(free))
    by = None if strata is None else strata[free]
    if by is not None:
        counts = np.unique(by, return_counts=True)[1]
        if counts.min() < 2 or len(counts) > min(n_test, len(free) - n_test):
            by = None
    _, test = train_test_split(free, test_size=n_test, stratify=by, random_state=seed)
    return np.setdiff1d(rows, test), np.sort(test)


def choose_initial(train: Rows, strata: NDArray[Any] | None, n_initial: int, rng: np.random.Generator) -> Rows:
    """First labels at random, or of each class its share, but at least one; in random order."""
    if strata is None:
        return rng.choice(train, n_initial, replace=False)
    _, class_of, available = np.unique(strata[train], return_inverse=True, return_counts=True)
    share = n_initial * available / len(train) + 1e-6 * rng.random(len(available))  # ties are broken at random
    counts = np.ones(len(available), dtype=int)
    for _ in range(n_initial - len(available)):
        counts[np.argmax(share - counts)] += 1
    return rng.permutation(
        np.concatenate([rng.choice(train[class_of == c], k, replace=False) for c, k in enumerate(counts)])
    )


def limits_of(n_pool: int, batch_size: int | str, n_rounds: int | None, budget: int | None) -> Limits:
    """Full batches, and a smaller last one where the budget or the pool ends."""
    n_labels = n_pool if budget is None else min(n_pool, budget)
    if isinstance(batch_size, str):
        return Limits(None, n_rounds, n_labels)
    check_batch_size(batch_size, n_pool)
    return Limits(batch_size, n_rounds, n_labels)
