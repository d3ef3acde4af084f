"""A campaign: a table with gaps, and a file that keeps what was asked, told and skipped."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._checks import FLAG, Rule, Rules, check_parameters, integer, one_of, warn
from .._random import check_random_state
from .._types import Auto, Changes, DisputeRule, Estimator, FirstRows, ModelName, Query, Task
from ..query import Limits
from ..query._pool import Pool
from ..samplers._law import draw_batch
from ..stopping import StoppingReport
from . import _models as models
from ._accuracy import Accuracy, accuracy_of, picks_of
from ._first_batch import FIRST, first_rows
from ._labels import Answer, Told, Vocabulary, alike_in, answers_of, events_of, kind_of, plain_label
from ._settings import default_query, model_of, model_settings, query_of, query_of_batch, query_settings, warn_of_state
from ._state import RULES, State, labelled
from ._status import Status, by_label, card, disputes_of, report_on, surprising, table_of
from ._store import CampaignError, Event, Overtaken, Rows, Store, shown
from ._table import Match, Table, listed_ids, row_hashes, rows_of

TASKS = {"auto": "", "classification": "classes", "regression": "numbers"}
TRIES = 20
"""How often to decide anew if other processes write meanwhile."""

Result = TypeVar("Result")


class ChosenBatch(NamedTuple):
    """Positions of the rows of a batch, log-probabilities of the picks, and facts for the record."""

    rows: NDArray[np.int64]
    log_proba: NDArray[np.float64]
    facts: dict[str, Any]


class Campaign:
    """Labels for a table in batches: it proposes rows, accepts their labels in any order, and says whether to go on.

    Rows with a gap in the target column are the pool. `ask` chooses some of them, `tell` takes their labels by id. One
    file keeps what happened, and any process can open it and go on; it holds ids, labels and settings, no rows of the
    table and no code. Rows that wait for labels are not asked for again, by any process, and count as pending for the
    query.

    Use `Campaign.start` to begin a campaign, and `Campaign.open` to go on.

    Attributes
    ----------
    path : Path
    target, id : str
        The columns of the labels and of the ids; ``id`` is None for ids in an index without a name.
    kind : {"classes", "numbers"}
        What labels are.
    random_state : int
        The seed. The same seed asks for the same ids, in one process or in many, on one machine, for the same table in
        the order that it had at the start.

    See Also
    --------
    StochasticBatchQuery : The query that it asks by default.
    Limits : What batches keep to.
    cli.main : The same from the shell.

    Notes
    -----
    A model is fitted anew to all labels whenever one is needed, and each batch is chosen by a clone of the query, both
    with seeds made of the campaign's: so batches do not depend on the process. A query that changes itself from batch
    to batch loses that, with a warning. Beside the model, `ask` and `tell` take time in proportion to the rows, some
    hundred milliseconds for a million.

    If annotators disagree, ``rule`` decides which label counts: the "latest", that of the "majority" (none in a tie),
    or, with "open", none.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skactive import Campaign
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"customer": [f"{i:03d}" for i in range(300)], "age": rng.integers(18, 80, 300)})
    >>> frame["plan"] = rng.choice(["basic", "plus"], 300)
    >>> truth = dict(zip(frame["customer"], np.where((frame["age"] > 50) & (frame["plan"] == "plus"), "yes", "no")))
    >>> frame["churn"] = None  # no labels yet
    >>> folder = tempfile.mkdtemp()
    >>> campaign = Campaign.start(f"{folder}/churn.db", frame, target="churn", id="customer", random_state=0)
    >>> batch = campaign.ask(20)
    >>> print(campaign.tell({id: truth[id] for id in batch.index}))
    20 new labels.
    >>> campaign = Campaign.open(f"{folder}/churn.db", frame)  # in another process, next week
    >>> campaign.ask(5)[["age", "plan", "guess"]].shape
    (5, 3)
    >>> print(campaign.status(accuracy=False, report=False))
    300 rows: 20 labelled, 5 out, 275 left; 2 batches so far.
    Labels: ...
    5 rows are waiting for labels, since ... (batch 2).
    """

    rules: ClassVar[Rules] = {
        "task": one_of(TASKS),
        "rule": one_of(RULES),
        "first": one_of(("auto", *FIRST)),
        "changes": one_of(get_args(Changes)),
        "labels": Rule(
            lambda value: (
                value is None or (not isinstance(value, str) and hasattr(value, "__len__") and len(value) > 0)
            ),
            "None or a list of labels",
        ),
        "target": Rule(lambda value: isinstance(value, str), "the name of a column"),
        "id": Rule(lambda value: value is None or isinstance(value, str), "None or the name of a column"),
        "random_state": integer(0).or_none(),
        "n": integer(),
        "annotator": Rule(lambda value: value is None or (isinstance(value, str) and value != ""), "None or a name"),
        "unasked": FLAG,
        "verbose": Rule(lambda v: isinstance(v, int | np.integer), "an integer"),
    }

    path: Path
    target: str
    id: str | None
    kind: str
    random_state: int
    _store: Store
    _settings: dict[str, Any]
    _verbose: int
    _query: Any
    _model: Any
    _ids: pd.Index
    _came: dict[int, Any]  # labels that rows came with
    _gone: NDArray[np.int64]
    _X: pd.DataFrame | None
    _fits: dict[str, Any]

    def __init__(self) -> None:
        raise TypeError("Begin a campaign by `Campaign.start(path, frame, target=...)`, or go on by `Campaign.open`.")

    # --- beginning and going on -------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        path: str | os.PathLike[str],
        frame: Any,
        *,
        target: str,
        id: str | None = None,
        model: ModelName | Estimator = "forest",
        query: Query | None = None,
        task: Task = "auto",
        labels: Sequence[Any] | None = None,
        rule: DisputeRule = "latest",
        first: FirstRows | Auto = "auto",
        random_state: int | None = None,
        verbose: int = 0,
    ) -> Campaign:
        """Begin a campaign.

        Parameters
        ----------
        path : str or path
            Of the file to make, in a folder that exists.
        frame : DataFrame, path, list of paths, or pyarrow.dataset.Dataset
            One row for each thing that may be labelled, of pandas, or of a library with ``to_pandas``; or Parquet
            files, sorted by name: paths of files or folders, or patterns with ``*``.
        target : str
            The column of labels: texts, booleans or numbers, with gaps, or nothing but gaps.
        id : str, optional
            The column, or the name of the index, with an id for each row: texts or whole numbers. By default the index.
        model : {"forest", "logistic", "boosting", "net"} or estimator, default="forest"
            By name: with preprocessing for texts, categories, dates and gaps (skrub's, where it is installed). An
            estimator gets the columns as they are, without id and target. It is handed in again at `open`.
        query : query, optional
            By default ``StochasticBatchQuery(epsilon=0.1)``: one in ten rows is picked uniformly, by which accuracy can
            be estimated. Its ``random_state`` is replaced by seeds of the campaign.
        task : {"auto", "classification", "regression"}, default="auto"
            "auto": regression if labels are numbers, and some are no whole ones or there are more than twenty.
        labels : sequence, optional
            All allowed labels; others are refused. By default any.
        rule : {"latest", "majority", "open"}, default="latest"
            Which label counts if annotators disagree.
        first : {"auto", "uniform", "kmeans++", "typical"}, default="auto"
            How rows are chosen without labels of two classes. "auto" is "typical" if ``labels`` are more than two,
            where a study found it better, else "uniform", whose probabilities are known, so that the first labels count
            for the accuracy.
        random_state : int, optional
            By default one is drawn, and kept.
        verbose : int, default=0
            1 shows progress bars.

        Returns
        -------
        Campaign

        Raises
        ------
        CampaignError
            A ValueError, if the file exists, ids are missing or not distinct, the target is absent, without a gap, or
            of several types, a column has a name that batches use, or files cannot be read as one table.
        """
        cls._check(target=target, id=id, task=task, labels=labels, rule=rule, first=first)
        cls._check(random_state=random_state, verbose=verbose)
        table = Table.of(frame, id=id, target=target)
        kind = TASKS[task] or kind_of(table.labels)
        if None not in table.labels:
            raise CampaignError(
                f"`target` must have gaps: the rows to label. All {len(table.ids)} rows have a label in {target!r}."
            )
        known = {plain_label(label, "`labels`") for label in labels or ()}
        if None in known:
            raise CampaignError("`labels` must hold labels. Got a gap among them: leave it out.")
        closed = None if labels is None else sorted(known, key=str)
        came = Vocabulary(kind, closed, set()).labels(table.labels)
        query = default_query() if query is None else query
        settings = {
            "target": target,
            "id": id,
            "columns": table.X.columns.tolist(),
            "kind": kind,
            "labels": closed,
            "rule": rule,
            "first": ("typical" if len(known) > 2 else "uniform") if first == "auto" else first,
            "random_state": int(secrets.randbits(31) if random_state is None else random_state),
            "model": model_settings(model),
            "query": query_settings(query, kind),
            **({"pool": table.files} if table.files else {}),
        }
        Store(path).create(settings, Rows(table.ids, row_hashes(table.X), came))
        campaign = cls._at(path, verbose)
        campaign._query, campaign._model = query, model
        campaign._ids, campaign._came, campaign._X = table.ids, labelled(came), table.X
        return campaign

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        frame: Any = None,
        *,
        model: ModelName | Estimator | None = None,
        query: Query | None = None,
        changes: Changes = "refuse",
        verbose: int = 0,
    ) -> Campaign:
        """Go on with a campaign.

        Parameters
        ----------
        path : str or path
        frame : DataFrame, path, list of paths, or pyarrow.dataset.Dataset, optional
            The table, in any order of rows and columns. New rows are added, with their labels; labels of known rows
            are ignored, as the file has them. Without a table one can `tell`, `skip`, `withdraw` and count, but not
            `ask`.
        model, query : optional
            Those of the start, if they were an estimator, or a query with parts of your own.
        changes : {"refuse", "take"}, default="refuse"
            If rows are gone from the table, or hold other values than at the start: refuse the table, or go on with
            it without the rows that are gone.
        verbose : int, default=0

        Returns
        -------
        Campaign

        Raises
        ------
        CampaignError
            If the file is not a campaign of this version, or table, model or query are not those of the start.
        """
        cls._check(changes=changes, verbose=verbose)
        campaign = cls._at(path, verbose)
        settings = campaign._settings
        if frame is None:
            rows = campaign._store.rows()
            campaign._ids, campaign._came = rows.ids, labelled(rows.labels)
            return campaign
        campaign._query = query_of(settings["query"], query, campaign.kind)
        campaign._model = model_of(settings["model"], model)
        table = Table.of(frame, id=campaign.id, target=campaign.target, columns=settings["columns"])
        _until_written(lambda: campaign._take_table(table, changes))
        return campaign

    @classmethod
    def _check(cls, **values: Any) -> None:
        check_parameters(cls.rules, values)

    @classmethod
    def _at(cls, path: Any, verbose: int) -> Campaign:
        """The campaign in a file, without its rows."""
        campaign = object.__new__(cls)
        campaign._store, campaign._verbose = Store(path), verbose
        campaign._settings = settings = campaign._store.settings()
        campaign.path, campaign.target, campaign.id = campaign._store.path, settings["target"], settings["id"]
        campaign.kind, campaign.random_state = settings["kind"], settings["random_state"]
        campaign._gone = np.array(settings.get("gone", []), dtype=np.int64)
        campaign._X = None
        campaign._fits = {}
        return campaign

    def _take_table(self, table: Table, changes: str) -> None:
        """Put the rows in the order of the campaign, new ones behind; refuse those that are gone or changed."""
        rows, taken = self._store.rows(), self._store.settings().get("gone", [])
        match = Match.of(rows, table)
        match.check_changes(rows.ids, set(taken), changes)
        known = State.of(
            len(rows.ids), labelled(rows.labels), self._store.events(), self._settings["rule"]
        ).all_labels()
        came = self._vocabulary(known).labels([table.labels[i] for i in match.new.tolist()])
        added = table.ids[match.new]
        if len(match.new):
            self._store.add_rows(Rows(added, match.hashes[match.new], came), len(rows.ids))
        if len(match.changed):
            self._store.replace_hashes(match.all_hashes(rows.hashes))
        if match.gone.tolist() != taken:
            self._store.note({"gone": match.gone.tolist()})
        self._ids = rows.ids.append(added) if len(added) else rows.ids
        self._came, self._gone, self._X = labelled([*rows.labels, *came]), match.gone, match.rows(self._ids)

    # --- asking and telling -----------------------------------------------------------------------

    def ask(self, n: int = 20, *, limits: Limits | None = None) -> pd.DataFrame:
        """Choose the rows to be labelled next. They wait for labels until they are told, skipped or withdrawn.

        Parameters
        ----------
        n : int, default=20
            With fewer rows left, all of these, with a warning.
        limits : Limits, optional
            Its ``groups`` and ``costs`` may name columns of the table; others are in the order of the campaign, or
            have ids as their index.

        Returns
        -------
        DataFrame
            Indexed by id, most preferred first: the row, ``guess`` (the model's prediction, None without a model),
            ``guess_probability`` and ``log_proba`` (natural logarithm of the probability of this pick, given those
            before it; NaN where the query has none).

        Raises
        ------
        CampaignError
            If no row is left, or the model cannot be fitted.
        ValueError, TypeError
            If n is not a number of rows, or limits cannot be met.
        """
        return self._ask(n, limits)

    def _ask(self, n: int, limits: Limits | None, before: Callable[[pd.DataFrame], None] | None = None) -> pd.DataFrame:
        """The same; ``before(batch)`` runs before the batch is written to the file, which an error in it prevents."""
        self._check(n=n)
        self._table()

        def attempt() -> pd.DataFrame:
            number = len(self._store.batches()) + 1  # first: a batch that comes in between is in the state then
            state = self._state()
            model = self._fitted(state) if self._can_fit(state) else None
            chosen = self._choose(state, model, n, limits, number)
            batch = self._batch(chosen, model)
            if before is not None:
                before(batch)
            events = [
                Event("ask", int(row), batch=number, log_proba=None if np.isnan(p) else float(p))
                for row, p in zip(chosen.rows, chosen.log_proba, strict=True)
            ]
            self._store.add_batch(number, chosen.facts, events, state.seen)
            batch.attrs["batch"] = number
            return batch

        return _until_written(attempt)

    def _choose(self, state: State, model: Any, n: int, limits: Limits | None, number: int) -> ChosenBatch:
        """Choose the rows of a batch: by the query, or, without a model, by the method for first batches."""
        free = state.candidates()
        n_free = int(free.sum())
        if n_free == 0:
            raise CampaignError(
                "No row is left to ask for: all have a label, wait for one or were skipped. `withdraw` puts rows back."
            )
        if n > n_free:
            warn(f"{n_free} rows are left, fewer than the {n} asked for: the batch is all of them.")
        limits = _with_columns(limits, self._table())
        if model is None:
            rows, log_proba = self._first_batch(state, free, min(n, n_free), limits, number)
            return ChosenBatch(rows, log_proba, {"n_candidates": n_free, "limited": limits is not None})
        query = query_of_batch(self._query, self.random_state, number, self._verbose)
        X_training, y_training = self._training(list(state.labels), state)
        rows = query.select(
            model,
            self._table(),
            min(n, n_free),
            X_training=X_training,
            y_training=y_training,
            candidates=free,
            pending=np.array(state.out, dtype=np.int64),
            **({} if limits is None else {"limits": limits}),
        )
        warn_of_state(query)
        facts = {"n_candidates": n_free, "limited": limits is not None, "query": type(query).__name__}
        known, first_log_proba = _law_of(query)
        if known is None:
            return ChosenBatch(rows, np.full(len(rows), np.nan), facts)
        return ChosenBatch(rows, known, {**facts, "largest_weight": _largest_weight(first_log_proba)})

    def _first_batch(
        self, state: State, free: NDArray[np.bool_], k: int, limits: Limits | None, number: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        how, rng = self._settings["first"], check_random_state([self.random_state, 3, number - 1])
        if limits is not None and how != "uniform":
            raise CampaignError(
                f'`limits` need first="uniform" while there is no model to choose by. Got {how!r}: leave them out of '
                "the first batch, or start a campaign with the other."
            )
        if limits is not None:
            pool = Pool.of(self._table(), free, pending=np.array(state.out, dtype=np.int64), limits=limits)
            positions, law = draw_batch("uniform", np.zeros(len(pool)), k, rng, allowance=pool.allowance(k))
            return pool.positions(positions), np.zeros(0) if law is None else law.log_proba()
        candidates = np.flatnonzero(free)
        if how == "uniform":
            return rng.choice(candidates, k, replace=False), -np.log(len(candidates) - np.arange(k))
        most = max(k, models.MOST_ROWS)
        some = np.sort(rng.choice(candidates, most, replace=False)) if len(candidates) > most else candidates
        points = np.asarray(self._prepared().transform(self._table().take(some)), dtype=np.float64)
        return some[first_rows(points, k, rng, how)], np.full(k, np.nan)

    def _batch(self, chosen: ChosenBatch, model: Any) -> pd.DataFrame:
        X = self._table().take(chosen.rows)
        batch = X.copy()
        if model is None:
            batch["guess"], batch["guess_probability"] = None, np.nan
        else:
            batch["guess"], batch["guess_probability"] = models.guesses_of(model, X, self.kind)
        batch["log_proba"] = chosen.log_proba
        return batch

    def tell(self, labels: Any, *, annotator: str | None = None, unasked: bool = False) -> Told:
        """Take labels.

        Parameters
        ----------
        labels : mapping, Series or DataFrame
            Ids to labels; or labels indexed by id; or columns of ids and labels, named as in the table. An x in a
            column ``skip`` skips a row. Gaps change nothing. A label for a row that has one replaces it, and the
            history keeps both.
        annotator : str, optional
            Each annotator has one label a row.
        unasked : bool, default=False
            Also take labels of rows that were never asked for.

        Returns
        -------
        Told
            What has changed; prints as a sentence.

        Raises
        ------
        CampaignError
            If an id is not of the campaign or was not asked for, one id has two labels, a label is of another type than
            the others or not in the closed set. Nothing is taken then. ``error.entries`` are the places in ``labels``.
        """
        self._check(annotator=annotator, unasked=unasked)
        return self._take(answers_of(labels, id=self.id, target=self.target, annotator=annotator or ""), unasked)

    def _take(self, answers: Sequence[Answer], unasked: bool = False) -> Told:
        def attempt() -> tuple[list[Event], Told, set[Any]]:
            state = self._state()
            rows, vocabulary = self._rows_of([answer.id for answer in answers]), self._vocabulary(state.all_labels())
            votes_of = functools.partial(self._votes_of, state=state)
            events, told = events_of(answers, rows, state, votes_of, vocabulary, unasked)
            if events:
                self._store.add_events(events, state.seen)
            return events, told, vocabulary.known

        events, told, known = _until_written(attempt)
        said = {event.label for event in events if event.kind == "tell"}
        if alike_in(said, known | said) and (alike := alike_in(said, self._state().all_labels())):
            warn(f"{alike[0]!r} and {alike[1]!r} are two labels that look alike. If one is a slip, correct it.")
        if told.new:
            warn(
                f"{shown(told.new)} {'is a label' if len(told.new) == 1 else 'are labels'} that no row had before. "
                "If that is a slip, tell the right one; `labels` at the start closes the set."
            )
        return told

    def _votes_of(self, row: int, state: State) -> Mapping[str, Any]:
        return state.given.get(row, {"": self._came[row]} if row in self._came else {})

    def _vocabulary(self, labels: Iterable[Any]) -> Vocabulary:
        known = {label for label in labels if label is not None}
        return Vocabulary(self.kind, self._settings["labels"], known)

    def _rows_of(self, ids: Sequence[Any]) -> list[int]:
        return rows_of(self._ids, ids, frozenset(self._gone.tolist()))

    def skip(self, ids: Iterable[Any], *, annotator: str | None = None) -> None:
        """Mark rows as impossible to label. They are not asked for again, unless they are withdrawn.

        Parameters
        ----------
        ids : iterable
        annotator : str, optional

        Raises
        ------
        CampaignError
            If one is no id of the campaign, or was not asked for.
        """
        self._check(annotator=annotator)
        self._take([Answer(id, None, annotator or "", True) for id in listed_ids(ids)])

    def withdraw(self, ids: Iterable[Any]) -> None:
        """Put rows back, as if they had never been asked for: waiting, skipped, or labelled wrongly.

        Parameters
        ----------
        ids : iterable
            Their labels stay in the history only.

        Raises
        ------
        CampaignError
            If one is no id of the campaign, or neither waiting, skipped nor labelled.
        """
        ids = listed_ids(ids)

        def attempt() -> None:
            state = self._state()
            rows = self._rows_of(ids)
            taken = {*state.labels, *state.out, *state.skipped, *state.disputed}
            free = [entry for entry, row in enumerate(rows) if row not in taken]
            if free:
                raise CampaignError(
                    f"{shown([ids[i] for i in free])} can be asked for as {'it is' if len(free) == 1 else 'they are'}: "
                    "there is nothing to withdraw.",
                    free,
                )
            self._store.add_events([Event("withdraw", row) for row in dict.fromkeys(rows)], state.seen)

        _until_written(attempt)

    # --- looking ----------------------------------------------------------------------------------

    def status(
        self, *, accuracy: bool = True, report: bool = True, tolerance: float = 0.05, patience: int = 30
    ) -> Status:
        """Count rows and labels, estimate the accuracy, and say whether to go on.

        Parameters
        ----------
        accuracy : bool, default=True
            Estimate it, with an interval: five fits.
        report : bool, default=True
            Whether to go on: a fit for each of the last batches, eight at most.
        tolerance, patience : float, int
            As in `skactive.StoppingReport.from_learner`.

        Returns
        -------
        Status
            Prints as some sentences, and shows as a table in notebooks.
        """
        check_parameters({"accuracy": FLAG, "report": FLAG}, {"accuracy": accuracy, "report": report})
        check_parameters(StoppingReport.rules, {"tolerance": tolerance, "patience": patience})
        state, batches = self._state(), self._store.batches()
        times = {batch.number: batch.time for batch in batches}
        out = pd.DataFrame(
            {
                "batch": [state.asked[row] for row in state.out],
                "asked": [times.get(state.asked[row], "") for row in state.out],
            },
            index=self._named_ids().take(state.out),
        )
        return Status(
            n_rows=state.n_rows - len(self._gone),
            n_labels=len(state.labels),
            n_out=len(state.out),
            n_skipped=len(state.skipped),
            n_disputed=len(state.disputed),
            n_left=int(state.candidates().sum()),
            n_asked=len(state.asked),
            n_batches=len(batches),
            by_label=by_label(list(state.labels.values()), self.kind),
            out=out,
            accuracy=self._accuracy(state) if accuracy and self._X is not None else None,
            report=self._report(state, tolerance, patience)
            if report and self._X is not None and self._can_fit(state)
            else None,
        )

    def model(self) -> Any:
        """A model fitted to all labels that count.

        Returns
        -------
        estimator
            Takes rows of the table, as a DataFrame with its columns but those of the id and of the target.

        Raises
        ------
        CampaignError
            With labels of one class only, or none.
        """
        self._table()
        state = self._state()
        if not self._can_fit(state):
            raise CampaignError(
                f"A model needs {'two labels' if self.kind == 'numbers' else 'labels of two classes'}. There "
                f"{'is 1 label' if len(state.labels) == 1 else f'are {len(state.labels)} labels'}: tell some."
            )
        return self._fitted(state)

    def recheck(self, n: int = 20) -> pd.DataFrame:
        """Labelled rows that are most worth a second look: labels that out-of-fold predictions find least probable.

        Parameters
        ----------
        n : int, default=20

        Returns
        -------
        DataFrame
            Indexed by id, the most surprising first: ``label``, ``guess`` and their out-of-fold probabilities,
            ``label_probability`` and ``guess_probability``; of numbers, the ``difference``; the row; and ``disputed``
            where annotators disagree.

        Raises
        ------
        CampaignError
            With fewer than two labels of two classes.

        References
        ----------
        Northcutt, Jiang and Chuang (2021), Confident Learning, sec. 3, for out-of-sample probabilities of labels.
        """
        check_parameters({"n": integer()}, {"n": n})
        state = self._state()
        judged = self._judged(state)
        if judged is None:
            raise CampaignError("`recheck` needs two labels of each of two classes at least: tell some more.")
        return surprising(judged, state, self._table().take(list(state.labels)), self.kind, n)

    def disagreements(self) -> pd.DataFrame:
        """Rows with different labels of annotators: a column for each annotator, and ``label``, which counts.

        Returns
        -------
        DataFrame
            Indexed by id; None in ``label`` where none counts.
        """
        return disputes_of(self._state(), self._named_ids())

    def history(self) -> pd.DataFrame:
        """All that happened, in order.

        Returns
        -------
        DataFrame
            One row for each event: time, kind ("ask", "tell", "skip", "withdraw"), id, label, annotator, batch,
            log_proba.
        """
        events = [event for event in self._store.events() if event.row < len(self._ids)]
        return table_of(events, self._ids)

    def to_frame(self, *, guesses: bool = False) -> pd.DataFrame:
        """The table with the labels that count in the target column, indexed by id.

        Parameters
        ----------
        guesses : bool, default=False
            Add the model's predictions for rows without a label, in columns ``guess`` and ``guess_probability``.

        Returns
        -------
        DataFrame
            A copy.

        Raises
        ------
        CampaignError
            If guesses are wanted and there is no model: with labels of one class only, or none.
        """
        check_parameters({"guesses": FLAG}, {"guesses": guesses})
        state, model = self._state(), self.model() if guesses else None
        X = pd.DataFrame(index=self._named_ids()) if self._X is None else self._X
        is_there = np.ones(len(X), dtype=bool)
        is_there[self._gone] = False
        found = [state.labels.get(row) for row in np.flatnonzero(is_there).tolist()]
        X = X[is_there]
        labels = pd.Series(found, index=X.index, dtype=object)
        frame = X.assign(**{self.target: labels if None in found else labels.infer_objects()})
        return frame if model is None else frame.assign(**models.guesses_beside(model, X, labels, self.kind))

    def __repr__(self) -> str:
        return f"<Campaign {str(self.path)!r}: {self.status(accuracy=False, report=False)._on_rows()}>"

    def _repr_html_(self) -> str:
        return card(self.status(accuracy=False, report=False), self.path.name, self.target)

    # --- helpers ----------------------------------------------------------------------------------

    def _state(self) -> State:
        events, rule = self._store.events(), self._settings["rule"]
        return State.of(len(self._ids), self._came, events, rule, self._gone.tolist())

    def _table(self) -> pd.DataFrame:
        """The columns of the model, in the order of the campaign."""
        if self._X is None:
            raise CampaignError("`frame` is needed for this, and the campaign was opened without: give it to `open`.")
        return self._X

    def _named_ids(self) -> pd.Index:
        return self._ids.rename(self.id or "id")

    def _can_fit(self, state: State) -> bool:
        return models.has_enough(list(state.labels.values()), self.kind)

    def _estimator(self) -> Any:
        """The model, not fitted; a named one with preprocessing that knows the table."""
        is_named = isinstance(self._model, str)
        return models.named_model(self._model, self._prepared(), self.kind) if is_named else self._model

    def _prepared(self) -> Any:
        """The fitted preprocessing of a named model."""
        if "prepared" not in self._fits:
            vectorizer = self._settings["model"].get("vectorizer", "plain")
            X = self._table().take(models.rows_to_look_at(len(self._ids)))
            self._fits["prepared"] = models.fitted_preprocessing(X, vectorizer, self.random_state)
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
        if not self._can_fit(state):
            return None
        return self._kept(
            "judged",
            state,
            lambda X, y: models.cross_fitted(self._estimator(), X, y, self.kind, self.random_state),
        )

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


def _until_written(attempt: Callable[[], Result]) -> Result:
    """Repeat what reads, decides and writes, until no other process has written in between."""
    for _ in range(TRIES):
        try:
            return attempt()
        except Overtaken:
            continue
    raise CampaignError(f"Other processes changed the campaign {TRIES} times meanwhile. Try again.")


def _law_of(query: Any) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Log-probabilities of the picks, and of each candidate to be the first; None of a query without a law."""
    law = getattr(getattr(query, "_batch", None), "law", None)
    if law is None:  # not ours, which may know the probabilities of its picks, or a sampler of the user's own
        return getattr(query, "log_proba_", None), None
    return law.log_proba(), law.first_log_proba()


def _largest_weight(first_log_proba: NDArray[np.float64] | None) -> float | None:
    """The largest importance weight of a candidate, relative to uniform choice; None if one is impossible."""
    if first_log_proba is None:
        return None
    with np.errstate(over="ignore"):
        weight = float(np.exp(-first_log_proba.min())) / len(first_log_proba)
    return weight if np.isfinite(weight) else None


def _with_columns(limits: Limits | None, X: pd.DataFrame) -> Limits | None:
    """Limits with columns of the table in place of their names."""
    if limits is None:
        return None
    LIMITS.check("limits", limits)
    columns = {}
    for name in ("groups", "costs"):
        column = getattr(limits, name)
        if isinstance(column, str):
            if column not in X.columns:
                raise CampaignError(
                    f"`limits.{name}` must be a column of the table, or a value for each row. Got {column!r}; the "
                    f"columns are {shown(X.columns.tolist(), 12)}."
                )
            columns[name] = X[column].to_numpy()
    return replace(limits, **columns)


LIMITS = Rule(lambda value: isinstance(value, Limits), "a skactive.Limits")
