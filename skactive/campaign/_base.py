"""What the public methods of a campaign are made of: its file, its rows, and the model fitted to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from .._utils.randomness import check_random_state
from .._utils.types import Changes
from .._utils.validation import FLAG, Rule, Rules, check_parameters, each_warning_once, integer, one_of, warn
from ..query import Limits
from ..query._pool import Pool
from ..samplers._law import draw_batch
from ..stopping import StoppingReport
from . import _models as models
from ._accuracy import Accuracy, accuracy_of, picks_of
from ._columns import MOST_ROWS, Reading, described, settled, told_of_odd
from ._first_batch import FIRST, first_rows
from ._labels import Answer, Told, Vocabulary, events_of, kind_of, told_of_kind
from ._status import report_on
from ._store import RULES, CampaignError, Event, Overtaken, Rows, State, Store, labelled, shown
from ._table import Match, Table, rows_of

TASKS = {"auto": "", "classification": "classes", "regression": "numbers"}

TEXT_OR_NONE = Rule(lambda value: isinstance(value, str) and value != "", "a text").or_none()

TRIES = 20  # how often to decide anew if other processes write meanwhile

Result = TypeVar("Result")


class CampaignBase:
    """The file of a campaign, its rows, in the order in which they came, and fits of its model."""

    path: Path
    target: str
    id: str | None
    random_state: int
    _query: Any
    _model: Any
    _X: pd.DataFrame | None
    _names: pd.Index  # of the rows, in messages
    _readings: dict[str, Reading]
    _fits: dict[str, Any]

    rules: ClassVar[Rules] = {
        **dict.fromkeys(("unasked", "accuracy", "report", "guesses"), FLAG),
        "id": TEXT_OR_NONE,
        "annotator": TEXT_OR_NONE,
        "task": one_of(TASKS),
        "rule": one_of(RULES),
        "first": one_of(("auto", *FIRST)),
        "changes": one_of(get_args(Changes)),
        "labels": Rule(lambda v: hasattr(v, "__len__") and len(v) > 0 and not isinstance(v, str), "a list").or_none(),
        "target": Rule(lambda value: isinstance(value, str), "the name of a column"),
        "random_state": integer(0).or_none(),
        "n": integer(),
        "limits": Rule(lambda value: isinstance(value, Limits), "a skactive.Limits").or_none(),
    }

    @classmethod
    def _check(cls, **values: Any) -> None:
        check_parameters(cls.rules, values)

    # --- the file and the rows --------------------------------------------------------------------

    def _connect(self, path: str | os.PathLike[str], verbose: int) -> None:
        """Read the settings in a file."""
        self._store, self._verbose = Store(path), verbose
        self._settings = settings = self._store.settings()
        self.path, self.target, self.id = self._store.path, settings["target"], settings["id"]
        self.random_state = settings["random_state"]
        self._X, self._fits = None, {}

    @property
    def kind(self) -> str:
        """What labels are: "classes", also while there are none that say so, or "numbers"."""
        return self._known_kind() or "classes"

    def _known_kind(self) -> str | None:
        if self._settings["kind"] is None:  # another process may have told the first labels
            self._settings["kind"] = self._store.settings()["kind"]
        return self._settings["kind"]

    def _take_kind(self, labels: Sequence[Any]) -> None:
        """Keep what labels are, if these are the first."""
        kind = kind_of(labels)
        if kind is not None and self._known_kind() is None:
            self._store.note({"kind": kind})
            if said := told_of_kind(labels, kind):
                warn(said)

    def _take_rows(self) -> None:
        """Read ids and labels, without a table."""
        rows = self._store.rows()
        self._ids, self._came = rows.ids, labelled(rows.labels)  # the labels that rows came with
        self._gone = np.array(self._settings.get("gone", []), dtype=np.int64)

    def _take_table(self, table: Table, changes: str) -> None:
        """Put the rows in the order of the campaign, new ones behind; refuse those that are gone or changed."""
        rows, taken = self._store.rows(), self._store.settings().get("gone", [])
        readings = {name: Reading(**one) for name, one in self._settings["readings"].items()}
        self._readings = settled(readings, table.X, table.decimal)
        match = Match.of(rows, table, self._readings)
        places = np.concatenate([match.positions[match.changed], match.new])
        self._warn_of_odd(described(table.X.take(places), self._readings, table.names.take(places)))
        match.check_changes(rows.ids, set(taken), changes)
        known = State.of(len(rows.ids), labelled(rows.labels), self._store.events(), self._settings["rule"])
        labels = [table.labels[i] for i in match.new.tolist()]
        came = self._vocabulary(known, labels).labels(labels)
        ids = rows.ids.append(table.ids[match.new]) if len(match.new) else rows.ids
        now = Rows(ids, match.all_hashes(rows.hashes), [*rows.labels, *came])
        self._take_kind(labels)
        if len(match.new) or len(match.changed):
            self._store.replace_rows(now, len(rows.ids))
        if match.gone.tolist() != taken:
            self._store.note({"gone": match.gone.tolist()})
        self._ids, self._came, self._gone = ids, labelled(now.labels), match.gone
        self._X, self._names = match.rows(ids)

    def _warn_of_odd(self, found: pd.DataFrame) -> None:
        """Name cells that are gaps to a model by name."""
        for line in told_of_odd(found) if isinstance(self._model, str) else ():
            warn(line)

    def _state(self) -> State:
        events, rule = self._store.events(), self._settings["rule"]
        return State.of(len(self._ids), self._came, events, rule, self._gone.tolist())

    def _rows_of(self, ids: Sequence[Any]) -> list[int]:
        return rows_of(self._ids, ids, frozenset(self._gone.tolist()))

    def _vocabulary(self, state: State, labels: Sequence[Any]) -> Vocabulary:
        """What labels may be; ``labels`` decide if they are the first."""
        kind = self._known_kind() or kind_of(labels) or "classes"
        models.check_score(self._settings["query"].get("params", {}).get("score"), kind)
        return Vocabulary(kind, self._settings["labels"], state.all_labels())

    def _table(self) -> pd.DataFrame:
        """The columns of the model, in the order of the campaign."""
        if self._X is None:
            raise CampaignError("`frame` is needed for this, and the campaign was opened without: give it to `open`.")
        return self._X

    def _named_ids(self) -> pd.Index:
        return self._ids.rename(self.id or "id")

    # --- what changes the file --------------------------------------------------------------------

    @each_warning_once()
    def _ask(self, n: int, limits: Limits | None) -> pd.DataFrame:
        number = len(self._store.batches()) + 1  # first: a batch that comes in between is in the state then
        state = self._state()
        model = self._fitted(state) if self._can_fit(state) else None
        choice = self._choice(state, model, n, limits and with_columns(limits, self._table()), number)
        events = [
            Event("ask", row, batch=number, log_proba=None if np.isnan(p) else p)
            for row, p in zip(choice.rows.tolist(), choice.log_proba.tolist(), strict=True)
        ]
        batch = self._table().take(choice.rows)
        guesses = (None, np.nan) if model is None else models.guesses_of(model, batch, self.kind)
        batch = batch.assign(guess=guesses[0], guess_probability=guesses[1], log_proba=choice.log_proba)
        batch.attrs["batch"] = number
        self._store.add_batch(number, choice.facts, events, state.seen)
        return batch

    def _choice(self, state: State, model: Any, n: int, limits: Limits | None, number: int) -> Choice:
        n_free = int(state.candidates().sum())
        if n_free == 0:
            raise CampaignError(
                "No row is left to ask for: all have a label, wait for one or were skipped. `withdraw` puts rows back."
            )
        if n > n_free:
            warn(f"{n_free} rows are left, fewer than the {n} asked for: the batch is all of them.")
        k = min(n, n_free)
        if model is None:
            rng = check_random_state([self.random_state, 3, number - 1])
            return first_choice(self._settings["first"], self._table(), self._prepared, state, k, limits, rng)
        query = query_of_batch(self._query, self.random_state, number, self._verbose)
        return chosen(query, model, self._table(), self._training(list(state.labels), state), state, k, limits)

    def _take(self, answers: Sequence[Answer], unasked: bool = False) -> Told:
        """Write labels and skips."""
        told = until_written(lambda: self._tell(answers, unasked))
        if told.new:
            warn(
                f"{shown(told.new)} {'is a label' if len(told.new) == 1 else 'are labels'} that no row had before. "
                "If that is a slip, tell the right one; `labels` at the start closes the set."
            )
        return told

    def _tell(self, answers: Sequence[Answer], unasked: bool) -> Told:
        state, rows = self._state(), self._rows_of([answer.id for answer in answers])
        labels = [answer.label for answer in answers if not answer.skipped]
        events, told = events_of(answers, rows, state, self._came, self._vocabulary(state, labels), unasked)
        self._take_kind(labels)
        if events:
            self._store.add_events(events, state.seen)
        return told

    def _withdraw(self, ids: Sequence[Any]) -> None:
        state, rows = self._state(), self._rows_of(ids)
        free = state.candidates()
        entries = [entry for entry, row in enumerate(rows) if free[row]]
        if entries:
            raise CampaignError(
                f"{shown([ids[i] for i in entries])} can be asked for already: there is nothing to withdraw.", entries
            )
        self._store.add_events([Event("withdraw", row) for row in rows], state.seen)

    # --- the model --------------------------------------------------------------------------------

    def _can_fit(self, state: State) -> bool:
        return models.has_enough(list(state.labels.values()), self.kind)

    def _estimator(self) -> Any:
        """The model, not fitted; a named one with preprocessing that knows the table."""
        if not isinstance(self._model, str):
            return self._model
        return models.named_model(self._model, self._prepared(), self.kind)

    def _prepared(self) -> Any:
        """The fitted preprocessing of a named model."""
        if "prepared" not in self._fits:
            vectorizer = self._settings["model"].get("vectorizer", "plain")
            given = self._table(), self._readings, vectorizer, self.random_state
            self._fits["prepared"] = models.fitted_preprocessing(*given)
        return self._fits["prepared"]

    def _training(self, rows: Sequence[int], state: State) -> tuple[pd.DataFrame, NDArray[Any]]:
        return self._table().take(rows), np.array([state.labels[row] for row in rows])

    def _kept(self, name: str, state: State, make: Callable[[pd.DataFrame, NDArray[Any]], Any]) -> Any:
        """The result of ``make(X, y)`` for the labels that count; kept until these change."""
        key = tuple(state.labels.items())
        if self._fits.get(name, (None, None))[0] != key:
            self._fits[name] = key, make(*self._training(list(state.labels), state))
        return self._fits[name][1]

    def _fitted(self, state: State) -> Any:
        return self._kept("model", state, lambda X, y: models.fitted(self._estimator(), X, y, self.random_state))

    def _judged(self, state: State) -> pd.DataFrame | None:
        """Out-of-fold predictions of the labelled rows; None with too few labels."""
        seed = self.random_state
        return self._kept("judged", state, lambda X, y: models.cross_fitted(self._estimator(), X, y, self.kind, seed))

    def _accuracy(self, state: State) -> Accuracy | None:
        judged = self._judged(state)
        if judged is None:
            return None
        picks = picks_of(self._store.batches(), self._store.events(), state)
        return accuracy_of(judged, list(state.labels.values()), list(state.labels), state, picks, self.kind)

    def _report(self, state: State, tolerance: float, patience: int) -> StoppingReport | None:
        def fit(rows: Sequence[int]) -> tuple[Any, pd.DataFrame, NDArray[Any]]:
            X, y = self._training(rows, state)
            return models.fitted(self._estimator(), X, y, self.random_state), X, y

        options = {"tolerance": tolerance, "patience": patience, "random_state": self.random_state}
        return report_on(state, self._table(), fit, self.kind, options, self._verbose)


def until_written(attempt: Callable[[], Result]) -> Result:
    """Repeat what reads, decides and writes, until no other process has written in between."""
    for _ in range(TRIES):
        try:
            return attempt()
        except Overtaken:
            continue
    raise CampaignError(f"Other processes changed the campaign {TRIES} times meanwhile. Try again.")


# --- one batch ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """Positions (k,) of the rows of a batch, log-probabilities (k,) of the picks, and facts for the record."""

    rows: NDArray[np.int64]
    log_proba: NDArray[np.float64]
    facts: dict[str, Any]


def query_of_batch(query: Any, seed: int, number: int, verbose: int = 0) -> Any:
    """A clone of the query with a seed made of the campaign's and of the number of the batch."""
    twin = clone(query)
    drawn = int(check_random_state([seed, 1, number]).integers(2**31 - 1))
    ours = {"random_state": drawn, **({"verbose": verbose} if verbose else {})}
    twin.set_params(**{name: value for name, value in ours.items() if name in twin.get_params(deep=False)})
    return twin


def chosen(
    query: Any, model: Any, X: pd.DataFrame, training: tuple[Any, Any], state: State, n: int, limits: Limits | None
) -> Choice:
    """The rows that a query chooses; rows that wait for labels are pending."""
    free = state.candidates()
    rows = query.select(
        model,
        X,
        n,
        X_training=training[0],
        y_training=training[1],
        candidates=free,
        pending=np.array(state.out, dtype=np.int64),
        **({} if limits is None else {"limits": limits}),
    )
    _warn_of_state(query)
    facts = {"n_candidates": int(free.sum()), "limited": limits is not None}
    known = getattr(query, "log_proba_", None)
    if known is None:
        return Choice(rows, np.full(len(rows), np.nan), facts)
    law = getattr(getattr(query, "_batch", None), "law", None)  # not of a query of the user's own
    return Choice(rows, known, {**facts, "largest_weight": law and _largest_weight(law.first_log_proba())})


def _largest_weight(first_log_proba: NDArray[np.float64]) -> float | None:
    """The largest importance weight of a candidate, relative to uniform choice; None if one is impossible."""
    with np.errstate(over="ignore"):
        weight = float(np.exp(-first_log_proba.min())) / len(first_log_proba)
    return weight if np.isfinite(weight) else None


def _warn_of_state(query: Any) -> None:
    """Warn if a user's query has kept something beside its parameters and its results, whose names end in "_"."""
    known = {*query.get_params(deep=False), "_batch"}
    kept = [name for name in vars(query) if name not in known and not name.endswith("_")]
    if kept and type(query).__module__.partition(".")[0] != "skactive":
        warn(
            f"`query` has kept {', '.join(kept)} beside its parameters. A campaign gives each batch a clone of the "
            "query: this is not there for the next batch."
        )


def first_choice(
    how: str, X: pd.DataFrame, prepare: Any, state: State, k: int, limits: Limits | None, rng: np.random.Generator
) -> Choice:
    """The rows of a batch without a model; ``prepare()`` is the fitted preprocessing."""
    free = state.candidates()
    candidates = np.flatnonzero(free)
    facts = {"n_candidates": len(candidates), "limited": limits is not None}
    if limits is not None:
        if how != "uniform":
            raise CampaignError(
                f'`limits` need first="uniform" while there is no model to choose by. Got {how!r}: leave them out of '
                "the first batch, or start a campaign with the other."
            )
        pool = Pool.of(X, free, pending=np.array(state.out, dtype=np.int64), limits=limits)
        positions, law = draw_batch("uniform", np.zeros(len(pool)), k, rng, allowance=pool.allowance(k))
        return Choice(pool.positions(positions), np.zeros(0) if law is None else law.log_proba(), facts)
    if how == "uniform":
        rows = rng.choice(candidates, k, replace=False)
        return Choice(rows, -np.log(len(candidates) - np.arange(k)), facts)
    most = max(k, MOST_ROWS)
    some = np.sort(rng.choice(candidates, most, replace=False)) if len(candidates) > most else candidates
    points = np.asarray(prepare().transform(X.take(some)), dtype=np.float64)
    return Choice(some[first_rows(points, k, rng, how)], np.full(k, np.nan), facts)


def with_columns(limits: Limits, X: pd.DataFrame) -> Limits:
    """Limits with columns of the table in place of their names."""
    names = {name: getattr(limits, name) for name in ("groups", "costs") if isinstance(getattr(limits, name), str)}
    for name, column in names.items():
        if column not in X.columns:
            raise CampaignError(f"`limits.{name}` must be a column of the table, or a value a row. Got {column!r}.")
    return replace(limits, **{name: X[column].to_numpy() for name, column in names.items()})
