"""What the public methods of a campaign are made of: its file, its rows, and the model fitted to them."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from .._utils.randomness import check_random_state
from .._utils.types import Changes
from .._utils.validation import FLAG, Rule, Rules, check_parameters, each_warning_once, integer, one_of, warn
from ..query import Limits
from ..query._limits import rows_in_order
from ..query._pool import Pool
from ..samplers._law import draw_batch
from ..stopping import StoppingReport
from . import _models as models
from ._accuracy import Accuracy, accuracy_of
from ._columns import MOST_ROWS, Reading, check_readings, described, told_of_odd
from ._first_batch import FIRST, typical_rows
from ._labels import Answer, Told, Vocabulary, alike_in, events_of, in_kind, kind_of, late_labels, told_of_kind
from ._ledger import RULES, Event, Rows, State
from ._picks import picks_of
from ._status import report_on
from ._store import CampaignError, Overtaken, Store, shown
from ._table import Match, Table, check_by_row, rows_of

TASKS = {"auto": "", "classification": "classes", "regression": "numbers"}

TEXT_OR_NONE = Rule(lambda value: isinstance(value, str) and value != "", "a text").or_none()

PLAIN = {str, int, float, bool}  # types of labels
MOST_COMPARED = 2_000  # rows without a label, for which models of the folds and the model are compared
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
    _readings: dict[str, Reading]
    _fits: dict[str, Any]

    rules: ClassVar[Rules] = {
        **dict.fromkeys(("unasked", "accuracy", "report", "guesses"), FLAG),
        "closed": FLAG.or_none(),
        "add": Rule(lambda v: hasattr(v, "__len__") and not isinstance(v, str), "a list"),
        "rename": Rule(lambda value: isinstance(value, Mapping), "a mapping of labels to labels").or_none(),
        **dict.fromkeys(("id", "annotator", "groups", "weight"), TEXT_OR_NONE),
        "task": one_of(TASKS),
        "rule": one_of(RULES),
        "first": one_of(FIRST),
        "changes": one_of(get_args(Changes)),
        "labels": Rule(lambda v: hasattr(v, "__len__") and len(v) > 0 and not isinstance(v, str), "a list").or_none(),
        "target": Rule(lambda value: isinstance(value, str), "the name of a column"),
        "host": Rule(lambda value: isinstance(value, str), "an address of this machine"),
        "random_state": integer(0).or_none(),
        **dict.fromkeys(("n", "batch", "overlap"), integer()),
        "port": Rule(lambda v: type(v) is int and v in range(2**16), "an integer from 0 to 65535").or_none(),
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
        n_rows = self._store.ledger().n_rows
        with self._store.ours("its settings"):
            check_settings({"gone": [], "pool": [], "dialect": {}, "renamed": [], **settings}, n_rows)
        self.path, self.target, self.id = self._store.path, settings["target"], settings["id"]
        self.random_state = settings["random_state"]
        self._readings = {name: Reading(**one) for name, one in settings["readings"].items()}
        self._X, self._fits = None, {}
        self._reread: Callable[[], Any] = lambda: None  # the same with its table as it is by now, if that is another

    @property
    def kind(self) -> str:
        # "classes" also while there are no labels that say so
        return self._store.settings()["kind"] or "classes"

    def _twin(self, until: int | None = None) -> Self:
        """The same campaign, with the same table, for the thread that calls this; as it was at an event, if given."""
        twin = copy.copy(self)
        twin._store = Store(self.path)
        twin._store.until = until
        twin._settings = twin._store.settings()
        return twin

    def _take_rows(self) -> None:
        """Read ids, without a table."""
        self._ids = self._store.rows().ids
        self._gone = np.array(self._settings.get("gone", []), dtype=np.int64)

    def _take_table(self, table: Table, changes: str) -> None:
        """Put the rows in the order of the campaign, new ones behind; refuse those that are gone or changed."""
        rows, ledger = self._store.rows(), self._store.ledger()
        seen, taken = ledger.seen, ledger.settings.get("gone", [])
        check_by_row(table.X, self._settings["groups"], self._settings["weight"])
        match = Match.of(rows, table, self._readings)
        places = np.concatenate([match.positions[match.changed], match.new])
        self._warn_of_odd(described(table.X.take(places), self._readings))
        match.check_changes(rows.ids, set(taken), changes)
        labels = [table.labels[i] for i in match.new.tolist()]
        came, decided = self._vocabulary(labels).labels(labels), self._decided_by(labels)
        ids = rows.ids.append(table.ids[match.new]) if len(match.new) else rows.ids
        now = Rows(ids, match.all_hashes(rows.hashes), [*rows.labels, *came])
        if len(match.new) or len(match.changed):
            self._store.replace_rows(now, len(rows.ids), seen, decided)
            self._tell_of(labels, decided)
        if match.gone.tolist() != taken:
            self._store.note({"gone": match.gone.tolist()})
        self._ids, self._gone = ids, match.gone
        self._take_late(table.labels, match.positions.tolist())
        self._X = match.rows(ids)

    def _take_late(self, labels: Sequence[Any], positions: Sequence[int]) -> None:
        """Take labels that known rows have got in the table since, and say which are left out."""
        if all(label is None for label in labels):
            return
        state = self._state()
        said = {row: labels[at] for row, at in enumerate(positions) if at >= 0 and labels[at] is not None}
        others = {row: label for row, label in said.items() if label != state.labels.get(row)}
        vocabulary, decided = self._vocabulary([*others.values()]), self._decided_by([*others.values()])
        taken, lines = late_labels(others, self._ids, positions, state, self._store.ledger(), vocabulary)
        if taken:
            self._store.add_events(taken, state.seen, decided)
            self._tell_of([event.label for event in taken], decided)
        for line in lines:
            warn(line)

    def _warn_of_odd(self, found: pd.DataFrame) -> None:
        """Name cells that are gaps to a model by name."""
        for line in told_of_odd(found) if isinstance(self._model, str) else ():
            warn(line)

    def _questions(self) -> dict[str, Any]:
        """What is asked of each row: the names of id and target, the kind of labels, and those known."""
        ledger, names = self._store.ledger(), {"id": self.id or "id", "target": self.target}
        if ledger.settings["kind"] == "numbers":
            return {**names, "kind": "number", "labels": []}
        return {**names, "kind": "classes", "labels": ledger.settings["labels"] or sorted(ledger.counts, key=str)}

    def _state(self) -> State:
        return State.of(self._store.ledger(), len(self._ids), self._settings["rule"], self._gone.tolist())

    def _rows_of(self, ids: Sequence[Any]) -> list[int]:
        return rows_of(self._ids, ids, frozenset(self._gone.tolist()))

    def _vocabulary(self, labels: Sequence[Any]) -> Vocabulary:
        """What labels may be; ``labels`` decide if they are the first."""
        ledger = self._store.ledger()
        kind = self._settings["kind"] or kind_of(labels) or "classes"
        score, model = self._settings["query"].get("params", {}).get("score"), self._settings["model"]
        models.check_score(score, kind, model["name"] if "vectorizer" in model else None)
        return Vocabulary(kind, self._settings["labels"], ledger.counts, dict(self._settings.get("renamed", [])))

    def _decided_by(self, labels: Sequence[Any]) -> dict[str, Any]:
        """Settings that labels decide if they are the first: what labels are."""
        kind = None if self._settings["kind"] else kind_of(labels)
        return {"kind": kind} if kind else {}

    def _table(self) -> pd.DataFrame:
        """The table without ids and labels, in the order of the campaign."""
        if self._X is None:
            raise CampaignError("`frame` is needed for this. The campaign was opened without it: pass it to `open`.")
        return self._X

    def _features(self) -> pd.DataFrame:
        """The columns of the model: those of groups and weights are none."""
        by_row = [name for name in (self._settings.get("groups"), self._settings.get("weight")) if name is not None]
        return self._table().drop(columns=by_row) if by_row else self._table()

    def _named_ids(self) -> pd.Index:
        return self._ids.rename(self.id or "id")

    # --- what changes the file --------------------------------------------------------------------

    @each_warning_once()
    def _ask(self, n: int, limits: Limits | None) -> pd.DataFrame:
        number = len(self._store.batches()) + 1  # first: a batch that comes in between is in the state then
        state = self._state()
        model = self._fitted(state) if self._can_fit(state) else None
        limits = limits and with_columns(limits, self._table(), state.candidates())
        choice = self._choice(state, model, n, limits, number)
        log_proba = [None if np.isnan(p) else p for p in choice.log_proba.tolist()]
        batch = self._table().take(choice.rows)
        X = self._features().take(choice.rows)
        guesses = (None, np.nan) if model is None else models.guesses_of(model, X, self.kind)
        batch = batch.assign(guess=guesses[0], guess_probability=guesses[1], log_proba=choice.log_proba)
        batch.attrs["batch"] = number
        self._store.add_batch(number, choice.facts, choice.rows.tolist(), log_proba, state.seen)
        return batch

    def _choice(self, state: State, model: Any, n: int, limits: Limits | None, number: int) -> Choice:
        n_free = int(state.candidates().sum())
        if n_free == 0:
            raise CampaignError(
                "No row is left to ask for: all have a label, wait for one or were skipped. `withdraw` puts rows back."
            )
        if n > n_free:
            warn(f"{n_free} rows are left, fewer than the {n} asked for: all are taken. `withdraw` puts rows back.")
        k = min(n, n_free)
        if model is None:
            rng = check_random_state([self.random_state, 3, number - 1])
            return first_choice(self._settings["first"], self._features(), self._prepared, state, k, limits, rng)
        query = query_of_batch(self._query, self.random_state, number, self._verbose)
        return chosen(query, model, self._features(), self._training(list(state.labels), state), state, k, limits)

    def _take(self, answers: Sequence[Answer], unasked: bool = False) -> Told:
        """Write labels and skips."""
        told = until_written(lambda: self._tell(answers, unasked))
        if told.new:
            warn(
                f"{shown(told.new)} {'is a label' if len(told.new) == 1 else 'are labels'} that no row had before. If "
                "that is a typing error, tell the right one, or rename it by `set`, which can also close the set."
            )
        if lost := [answer.id for answer in answers if answer.remark and answer.label is None and not answer.skipped]:
            warn(f"remarks on {shown(lost)} are not kept, as no label is beside them: tell them with one, or a skip.")
        for one, other in alike_in(self._store.ledger().counts):
            warn(f"{one!r} and {other!r} look alike but are two labels. If one is a typing error, tell the right one.")
        return told

    def _tell(self, answers: Sequence[Answer], unasked: bool) -> Told:
        ledger, rows = self._store.ledger(), self._rows_of([answer.id for answer in answers])
        labels, seen = [answer.label for answer in answers if not answer.skipped], ledger.seen
        events, told = events_of(answers, rows, ledger, self._vocabulary(labels), unasked)
        decided = self._decided_by(labels)
        if events:
            self._store.add_events(events, seen, decided)
            self._tell_of(labels, decided)
        return told

    def _tell_of(self, labels: Sequence[Any], decided: dict[str, Any]) -> None:
        """Say what the first labels have decided, where others might see it otherwise."""
        if decided and (said := told_of_kind(labels, decided["kind"])):
            warn(said)

    def _set_task(self, kind: str) -> None:
        """Decide anew what labels are."""
        ledger, settings = self._store.ledger(), self._settings
        models.check_score(settings["query"].get("params", {}).get("score"), kind)
        closed = (settings["labels"] or []) if kind == "classes" else []  # numbers are any
        names = in_kind({*ledger.counts, *closed}, kind, settings.get("dialect", {}).get("decimal"))
        self._rename(names, {"kind": kind, "labels": [names[label] for label in closed] or None}, ledger.seen)

    def _set_labels(self, closed: bool | None, add: Sequence[Any], rename: Mapping[Any, Any]) -> None:
        """Close or open the set of labels, and give labels other names."""
        seen = self._store.ledger().seen
        allowed, names, renamed = self._vocabulary(()).changed(closed, add, rename)
        kind = self._settings["kind"] or (allowed and "classes")
        self._rename(names, {"kind": kind, "labels": allowed, "renamed": renamed}, seen)

    def _rename(self, names: Mapping[Any, Any], decided: dict[str, Any], seen: int) -> None:
        """Write settings, and new names of labels where rows have the old ones."""
        events = [
            Event("rename", row, names[label], annotator)
            for annotator, told in self._store.ledger().votes.items()
            for row, (*_, label) in told.items()
            if label in names and (names[label] != label or type(names[label]) is not type(label))
        ]
        self._store.add_events(events, seen, decided)

    def _withdraw(self, ids: Sequence[Any]) -> None:
        state, rows = self._state(), self._rows_of(ids)
        free = state.candidates()
        entries = [entry for entry, row in enumerate(rows) if free[row]]
        if entries:
            raise CampaignError(
                f"{shown([ids[i] for i in entries])} can be asked for already: there is nothing to withdraw.", entries
            )
        self._store.add_events([Event("withdraw", row) for row in rows], state.seen)

    def _undo(self, row: int, annotator: str) -> None:
        """Take back what an annotator has said of a row that was asked for: it keeps its place in its batch."""
        ledger = self._store.ledger()
        if row in ledger.asked and ((annotator, row) in ledger.passed or ledger.vote(row, annotator) is not None):
            self._store.add_events([Event("undo", row, annotator=annotator)], ledger.seen)

    # --- the model --------------------------------------------------------------------------------

    def _can_fit(self, state: State) -> bool:
        return models.has_enough(list(state.labels.values()), self.kind)

    def _estimator(self) -> Any:
        """The model that the file has by now, not fitted; a named one with preprocessing that knows the table."""
        self._model = models.model_of(self._settings["model"], None if isinstance(self._model, str) else self._model)
        if not isinstance(self._model, str):
            return models.handed_in(self._model)
        return models.named_model(self._model, self._prepared(), self.kind)

    def _prepared(self) -> Any:
        """The fitted preprocessing of a named model."""
        vectorizer = self._settings["model"].get("vectorizer", "plain")
        if vectorizer not in self._fits:
            given = self._features(), self._readings, vectorizer, self.random_state
            self._fits[vectorizer] = models.fitted_preprocessing(*given)
        return self._fits[vectorizer]

    def _training(self, rows: Sequence[int], state: State) -> tuple[pd.DataFrame, NDArray[Any]]:
        return self._features().take(rows), np.array([state.labels[row] for row in rows])

    def _kept(
        self, name: str, state: State, make: Callable[[pd.DataFrame, NDArray[Any]], Any], others: Sequence[int] = ()
    ) -> Any:
        """The result of ``make(X, y)`` for the labels that count; kept until these, other rows or the model change."""
        key = self.kind, str(self._settings["model"]), *others, *state.labels.items()
        if self._fits.get(name, (None, None))[0] != key:
            self._fits[name] = key, make(*self._training(list(state.labels), state))
        return self._fits[name][1]

    def _fitted(self, state: State) -> Any:
        return self._kept("model", state, lambda X, y: models.fitted(self._estimator(), X, y, self.random_state))

    def _judged(self, state: State) -> models.Judged | None:
        """Guesses that judge the model; None with too few labels, or of too few groups."""
        groups, left = self._by_row("groups"), state.unlabelled()
        if len(left) > MOST_COMPARED:
            left = np.sort(check_random_state([self.random_state, 5]).choice(left, MOST_COMPARED, replace=False))

        def judge(X: pd.DataFrame, y: NDArray[Any]) -> models.Judged | None:
            of_row = None if groups is None else groups.to_numpy()[list(state.labels)]
            others, seed = self._features().take(left), self.random_state
            return models.judged(self._estimator(), self._fitted(state), X, y, others, self.kind, seed, of_row)

        return self._kept("judged", state, judge, left.tolist())

    def _accuracy(self, state: State) -> Accuracy | None:
        judged = self._judged(state)
        if judged is None:
            return None
        picks, weight = picks_of(self._store.batches(), self._store.events(), state), self._by_row("weight")
        return accuracy_of(judged, state, picks, self.kind, weight, self._by_row("groups"))

    def _accuracies(self, state: State, moments: Sequence[int]) -> list[tuple[int, Accuracy]]:
        """Estimates that can be told with only so many of the labels, in their order, by numbers of labels in all."""
        then = [state.when(state.first_labelled(n)) for n in moments]
        found = [(len(one.labels), self._accuracy(one)) for one in then if self._can_fit(one)]
        return [(n, accuracy) for n, accuracy in found if accuracy is not None and accuracy.is_told]

    def _by_row(self, name: str) -> pd.Series | None:
        """The column of groups or of weights, if there is one."""
        column = self._settings.get(name)
        return None if column is None else self._table()[column]

    def _report(self, state: State, **options: Any) -> StoppingReport | None:
        options = {**options, "random_state": self.random_state}
        return report_on(state, self._features(), self._estimator(), self.kind, options, self._verbose)


def check_settings(settings: dict[str, Any], n_rows: int) -> None:
    """Check what a file says, which any program can have written."""
    rules = CampaignBase.rules
    texts = Rule(lambda value: all(isinstance(name, str) for name in value), "texts")
    written = {
        **{name: rules[name] for name in ("target", "id", "labels", "rule", "groups", "weight")},
        "first": one_of((*FIRST, "kmeans++")),  # of files begun with it, which go on with typical rows
        **dict.fromkeys(("columns", "pool"), texts),
        "kind": one_of(filter(None, TASKS.values())).or_none(),
        "random_state": integer(0),
        "dialect": Rule(_is_dialect, "marks, an encoding and a sheet"),
        "renamed": Rule(lambda value: all({type(old), type(new)} <= PLAIN for old, new in value), "pairs of labels"),
        "gone": Rule(lambda value: all(type(row) is int and 0 <= row < n_rows for row in value), "rows of the table"),
        "model": Rule(lambda value: "digest" in value or value["name"] in models.MODELS, "a model"),
    }
    for name, rule in written.items():
        rule.check(name, settings[name])
    check_readings(settings["readings"], {*settings["columns"]} - {settings["groups"], settings["weight"]})
    if "params" in settings["query"]:
        models.query_of(settings["query"], None, settings["kind"] or "classes").check_parameters()


def _is_dialect(value: dict[str, Any]) -> bool:
    known = {"sep": ".", "decimal": "[.,]", "encoding": "cp1252|utf-16", "sheet": ".+"}
    given = {name: mark for name, mark in value.items() if mark is not None}
    return all(re.fullmatch(known[name], mark, re.DOTALL) for name, mark in given.items())


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
    ours |= {"diversity": 0} if getattr(query, "diversity", 0) == "auto" else {}  # intervals of accuracy were wider
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
            f"`query` has stored {', '.join(kept)} besides its parameters. A campaign clones the query for each "
            "batch, so that the next batch will not see it."
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
                f'`limits` need first="uniform" until there is a model to choose by. Got {how!r}: leave them out of '
                "the first batch, or start a campaign with `first`='uniform'."
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
    return Choice(some[typical_rows(points, k, rng)], np.full(k, np.nan), facts)


def with_columns(limits: Limits, X: pd.DataFrame, free: NDArray[np.bool_]) -> Limits:
    """Limits with columns of the table in place of their names; rows that are not free are named by their ids."""
    must = rows_in_order(() if limits.must is None else limits.must, X, "must")
    if lost := X.index[must[~free[must]]].tolist():
        raise CampaignError(f"`must` must name rows without a label, not waiting or skipped. Got {shown(lost)}.")
    names = {name: getattr(limits, name) for name in ("groups", "costs") if isinstance(getattr(limits, name), str)}
    for name, column in names.items():
        if column not in X.columns:
            raise CampaignError(f"`limits.{name}` must be a column of the table, or one value per row. Got {column!r}.")
    return replace(limits, **{name: X[column].to_numpy() for name, column in names.items()})
