"""A campaign: a table with gaps, and a file that knows what was asked, told and skipped."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._checks import FLAG, Rule, Rules, check_parameters, integer, one_of, warn
from .._types import Auto, Changes, DisputeRule, Estimator, FirstRows, ModelName, Query, Size, Task
from ..query import Limits
from ..stopping import StoppingReport
from . import _models as models
from ._accuracy import Accuracy, accuracy_of, picks_of
from ._asking import Chosen, choose
from ._errors import CampaignError, shown
from ._first import FIRST
from ._fits import cross_fitted, fitted, guesses_beside, guesses_of, has_enough
from ._ids import Directory, Ids, as_list
from ._labels import Answer, answers_of, check_one_type, converted, kind_of, plain_label
from ._opening import Match, given_table
from ._reports import report_on
from ._settings import default_query, model_of, model_settings, query_of, settings_of
from ._state import RULES, State
from ._status import Status
from ._store import Event, Overtaken, Rows, Store
from ._table import Given, Pool
from ._telling import Told, Vocabulary, alike_in, check_closed, events_of
from ._views import by_label, card, disputes_of, surprising, table_of

TASKS = {"auto": "", "classification": "classes", "regression": "numbers"}
TRIES = 20
"""How often a batch is chosen anew, if other processes ask for rows meanwhile."""


class Campaign:
    """Labels for a table, bought in batches: which rows next, whose labels came back, whether to go on.

    Rows with a gap in the target column are the pool. `ask` chooses some of them, `tell` takes their labels, in any
    order and any part, by id. What happened is in one file, which any process can open and go on with; it holds ids,
    labels and settings, no rows and no code. Rows that are out with somebody are not asked for again, by any process,
    and count as chosen where rows of a batch keep apart.

    A campaign is begun by `Campaign.start` and opened by `Campaign.open`.

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
    A model is fitted anew to all labels whenever one is needed, in the order of the table, with seeds of the campaign:
    what an earlier process knew is not missed. Beside the model, `ask` and `tell` take time in proportion to the rows,
    some hundred milliseconds for a million.

    Each label that counts is one of these: the only one, or by ``rule`` the "latest" of several annotators, that of the
    "majority" (none in a tie), or with "open" only one that all agree on.

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
    5 rows are out, the first since ... (batch 2).
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
        "n": integer().or_word("auto"),
        "annotator": Rule(lambda value: value is None or (isinstance(value, str) and value != ""), "None or a name"),
        "unasked": FLAG,
        "verbose": Rule(lambda v: isinstance(v, int | np.integer), "an integer"),
    }

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
            One row for each thing that may be labelled, of pandas, or of a library with ``to_pandas``. Or Parquet
            files, which need not fit memory: paths of files or folders, or patterns with ``*``, sorted by name.
        target : str
            The column of labels: texts, booleans or numbers, with gaps, or nothing but gaps.
        id : str, optional
            The column, or the name of the index, with an id for each row: texts or whole numbers. By default the index.
        model : {"forest", "logistic", "boosting", "net"} or estimator, default="forest"
            By name: with preprocessing for texts, categories, dates and gaps (skrub's, where it is installed). An
            estimator gets the columns as they are, without id and target. It is handed in again at `open`.
        query : query, optional
            By default ``StochasticBatchQuery(epsilon=0.1)``: one in ten rows is picked uniformly, by which accuracy can
            be estimated. Its ``random_state`` is that of the campaign.
        task : {"auto", "classification", "regression"}, default="auto"
            "auto": regression if labels are numbers, and some are no whole ones or there are more than twenty.
        labels : sequence, optional
            All labels that there are; others are refused then.
        rule : {"latest", "majority", "open"}, default="latest"
            Which label counts if annotators disagree.
        first : {"auto", "uniform", "kmeans++", "typical"}, default="auto"
            How rows are chosen without two classes to learn from. "auto" is "typical" if ``labels`` are more than two,
            where a study found it better, else "uniform", whose probabilities are known: accuracy can be estimated from
            the first labels on.
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
            of several types, a column has a name that batches use, or files are no Parquet or not alike.
        """
        cls._check(target=target, id=id, task=task, labels=labels, rule=rule, first=first)
        cls._check(random_state=random_state, verbose=verbose)
        table = given_table(frame, id=id, target=target)
        check_one_type(table.labels, "labels in `target`")
        kind = TASKS[task] or kind_of(table.labels)
        if None not in table.labels:
            raise CampaignError(
                f"`target` must have gaps: the rows to label. All {len(table.ids)} rows have a label in {target!r}."
            )
        known = set() if labels is None else {plain_label(label, "`labels`") for label in labels}
        if None in known:
            raise CampaignError("`labels` must hold labels. Got a gap among them: leave it out.")
        came = [None if label is None else converted(label, known or {label}, kind) for label in table.labels]
        check_closed(came, known if labels is not None else None, "`target` must hold `labels` alone: it")
        query = default_query() if query is None else query
        settings = {
            "target": target,
            "id": id,
            "columns": table.columns,
            "kind": kind,
            "labels": None if labels is None else sorted(known, key=str),
            "rule": rule,
            "first": ("typical" if len(known) > 2 else "uniform") if first == "auto" else first,
            "random_state": int(secrets.randbits(31) if random_state is None else random_state),
            "model": model_settings(model),
            "query": settings_of(query, kind),
            **table.settings(),
        }
        Store(path).create(settings, Rows(table.ids, table.prints(), came))
        campaign = object.__new__(cls)
        given = None if isinstance(model, str) else model
        campaign._open(Store(path), frame, given, query, "refuse", verbose, table)
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
            The table, in any order of rows and columns. New rows are taken up; labels that it holds of rows known
            before are not, as those of the campaign count. Without it, one can `tell`, `skip`, `withdraw`, and look at
            the counts, but not `ask`.
        model, query : optional
            What the campaign was started with, if that was no name, or a query with parts of your own.
        changes : {"refuse", "take"}, default="refuse"
            What to do if rows are gone from the table, or hold other values than at the start: with "take", those gone
            are not asked for, and the others count as they are now.
        verbose : int, default=0

        Returns
        -------
        Campaign

        Raises
        ------
        CampaignError
            If there is no campaign at the path, it is of a later version, the table is another one, or model or query
            are not those of the start.
        """
        cls._check(changes=changes, verbose=verbose)
        campaign = object.__new__(cls)
        campaign._open(Store(path), frame, model, query, changes, verbose)
        return campaign

    @classmethod
    def _check(cls, **values: Any) -> None:
        check_parameters(cls.rules, values)

    def _open(
        self, store: Store, frame: Any, model: Any, query: Any, changes: str, verbose: int, table: Given | None = None
    ) -> None:
        settings = store.settings()
        self._store, self._settings, self._verbose = store, settings, verbose
        self.path, self.target, self.id = store.path, settings["target"], settings["id"]
        self.kind, self.random_state = settings["kind"], settings["random_state"]
        self._gone: NDArray[np.int64] = np.array(settings.get("gone", []), dtype=np.int64)
        self._pool: Pool | None = None
        self._fits: dict[Any, Any] = {}
        if frame is None:
            rows = store.rows()
            self._ids, self._came = rows.ids, rows.labels
        else:
            self._query = query_of(settings["query"], query, self.kind)
            self._model = model_of(settings["model"], model)
            if table is None:
                table = given_table(frame, id=self.id, target=self.target, columns=settings["columns"])
            self._take_table(table, changes)

    def _take_table(self, table: Given, changes: str) -> None:
        """Rows in the order of the campaign, new ones behind; refuse those that are gone or changed."""
        for _ in range(TRIES):
            rows, taken = self._store.rows(), self._store.settings().get("gone", [])
            match = Match.of(rows, table)
            if changes == "refuse":
                match.refuse_changes(rows.ids, set(taken))
            else:
                match.warn_of_changes(rows.ids, set(taken))
            known = State.of(rows.labels, self._store.events(), self._settings["rule"]).all_labels()
            came = self._words(known).labels([table.labels[i] for i in match.new.tolist()])
            try:
                added = Ids.of(table.ids.at(match.new))
                if len(match.new):
                    self._store.add_rows(Rows(added, match.prints[match.new], came), len(rows.ids))
                if len(match.changed):
                    now = np.concatenate([match.prints_as_now(rows.prints), match.prints[match.new]])
                    self._store.replace_prints(now)
                if match.gone.tolist() != taken:
                    self._store.note({"gone": match.gone.tolist()})
            except Overtaken:
                continue
            self._ids, self._came = rows.ids.then(added), [*rows.labels, *came]
            self._gone, self._pool = match.gone, match.rows(self._ids)
            return
        raise CampaignError(f"Other processes added rows {TRIES} times meanwhile. Open the campaign again.")

    # --- asking and telling -----------------------------------------------------------------------

    def ask(self, n: Size = 20, *, limits: Limits | None = None) -> pd.DataFrame:
        """Choose rows to be labelled next. They are out until they are told, skipped or withdrawn.

        Parameters
        ----------
        n : int or "auto", default=20
            How many; "auto": as many as the query suggests. With fewer left, all of these, with a warning.
        limits : Limits, optional
            What a batch must keep to: rows of a customer, a budget. Its ``groups`` and ``costs`` may name columns of
            the table; others are in the order of the campaign, or have ids as their index.

        Returns
        -------
        DataFrame
            Indexed by id: the row, ``guess`` (what the model says, None without a model), ``guess_probability`` and
            ``log_proba`` (natural logarithm of the probability of this pick, given those before it; NaN where the query
            knows none). Most preferred first.

        Raises
        ------
        CampaignError
            If no row is left, or the model cannot be fitted.
        ValueError, TypeError
            If n is not a number of rows, or limits cannot be met.
        """
        return self._ask(n, limits)

    def _ask(
        self, n: Size, limits: Limits | None, before: Callable[[pd.DataFrame], None] | None = None
    ) -> pd.DataFrame:
        """The same; ``before`` is called with the batch before it is written down, which an error there prevents."""
        self._check(n=n)
        self._table()
        for _ in range(TRIES):
            state, batches = self._state(), self._store.batches()
            model = self._fitted(state) if self._can_fit(state) else None
            chosen = choose(self, state, model, n, limits)
            batch = self._batch(chosen, model)
            if before is not None:
                before(batch)
            try:
                self._store.add_batch(
                    len(batches) + 1,
                    {**chosen.facts, "n_labels": len(state.labels)},
                    None,
                    [
                        Event("ask", int(row), batch=len(batches) + 1, log_proba=None if np.isnan(p) else float(p))
                        for row, p in zip(chosen.rows, chosen.log_proba, strict=True)
                    ],
                    state.seen,
                )
            except Overtaken:
                continue
            batch.attrs["batch"] = len(batches) + 1
            return batch
        raise CampaignError(f"Other processes asked for rows {TRIES} times while this one chose. Ask again.")

    def _batch(self, chosen: Chosen, model: Any) -> pd.DataFrame:
        X = self._table().take(chosen.rows)
        batch = X.copy()
        if model is None:
            batch["guess"], batch["guess_probability"] = None, np.nan
        else:
            batch["guess"], batch["guess_probability"] = guesses_of(model, X, self.kind)
        batch["log_proba"] = chosen.log_proba
        return batch

    def tell(self, labels: Any, *, annotator: str | None = None, unasked: bool = False) -> Told:
        """Take labels.

        Parameters
        ----------
        labels : mapping, Series or DataFrame
            Ids to labels; or labels indexed by id; or columns of ids and labels, named as in the table. A column
            ``skip`` marks rows that nobody can label by x. Gaps stay open. A label for a row that has one replaces it,
            and the old one is kept in the history.
        annotator : str, optional
            Who says so. Each annotator has one label a row.
        unasked : bool, default=False
            Take labels of rows, too, that were never asked for.

        Returns
        -------
        Told
            What was taken, which prints as a sentence.

        Raises
        ------
        CampaignError
            If an id is not of the campaign or was not asked for, one id has two labels, a label is of another type than
            the others or not in the closed set. Nothing is taken then. ``error.entries`` are the places in ``labels``.
        """
        self._check(annotator=annotator, unasked=unasked)
        return self._take(answers_of(labels, id=self.id, target=self.target, annotator=annotator or ""), unasked)

    def _take(self, answers: Sequence[Answer], unasked: bool = False) -> Told:
        for _ in range(TRIES):
            state = self._state()
            rows, words = self._rows_of([answer.id for answer in answers]), self._words(state.all_labels())
            votes_of = functools.partial(self._votes_of, state=state)
            events, told = events_of(answers, rows, state, votes_of, words, unasked)
            try:
                if events:
                    self._store.add_events(events, state.seen)
            except Overtaken:
                continue
            said = {event.label for event in events if event.kind == "tell"}
            if alike_in(said, words.known | said) and (alike := alike_in(said, self._state().all_labels())):
                warn(f"{alike[0]!r} and {alike[1]!r} are two labels that look alike. If one is a slip, correct it.")
            if told.new:
                warn(
                    f"{shown(told.new)} {'is a label' if len(told.new) == 1 else 'are labels'} that no row had before. "
                    "If that is a slip, tell the right one; `labels` at the start closes the set."
                )
            return told
        raise CampaignError(f"Other processes told of these rows {TRIES} times meanwhile. Tell again.")

    def _votes_of(self, row: int, state: State) -> Mapping[str, Any]:
        return state.given.get(row, {"": self._came[row]} if self._came[row] is not None else {})

    def _words(self, labels: Iterable[Any]) -> Vocabulary:
        known = {label for label in labels if label is not None}
        return Vocabulary(self.kind, self._settings["labels"], known)

    def _rows_of(self, ids: Sequence[Any]) -> list[int]:
        if "directory" not in self._fits:
            self._fits["directory"] = Directory(self._ids, self._gone.tolist())
        return self._fits["directory"].rows(ids)

    def skip(self, ids: Iterable[Any], *, annotator: str | None = None) -> None:
        """Note that nobody can label these rows. They are not asked for again, unless they are withdrawn.

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
        self._take([Answer(id, None, annotator or "", True) for id in as_list(ids)])

    def withdraw(self, ids: Iterable[Any]) -> None:
        """Put rows back, as if they had never been asked for: those that are out, skipped, or labelled wrongly.

        Parameters
        ----------
        ids : iterable
            Their labels are lost, but for the history.

        Raises
        ------
        CampaignError
            If one is no id of the campaign, or neither out, skipped nor labelled.
        """
        ids = as_list(ids)
        for _ in range(TRIES):
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
            try:
                self._store.add_events([Event("withdraw", row) for row in dict.fromkeys(rows)], state.seen)
            except Overtaken:
                continue
            return
        raise CampaignError(f"Other processes told of these rows {TRIES} times meanwhile. Try again.")

    # --- looking ----------------------------------------------------------------------------------

    def status(
        self, *, accuracy: bool = True, report: bool = True, tolerance: float = 0.05, patience: int = 30
    ) -> Status:
        """Where the campaign stands.

        Parameters
        ----------
        accuracy : bool, default=True
            Estimate it, with an interval: five fits.
        report : bool, default=True
            Whether to go on: a fit for each of the last batches, eight at most.
        tolerance, patience : float, int
            As in `skactive.StoppingReport.from_learner`: the gain for 100 labels that is worth their price, and over
            how many labels it is looked at.

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
            index=pd.Index([self._ids[row] for row in state.out], dtype=object, name=self.id or "id"),
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
            accuracy=self._accuracy(state) if accuracy and self._pool is not None else None,
            report=self._report(state, tolerance, patience)
            if report and self._pool is not None and self._can_fit(state)
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
        """Labelled rows that are most worth a second look: those whose label surprises models that did not see it.

        Parameters
        ----------
        n : int, default=20

        Returns
        -------
        DataFrame
            Indexed by id, the most surprising first: ``label``, ``guess`` and their probabilities by cross-fitted
            models, ``label_probability`` and ``guess_probability``; of numbers, the ``difference``; the row; and
            ``disputed`` where annotators disagree.

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
        """Rows whose annotators do not say the same, one column for each annotator, and ``label``, which counts.

        Returns
        -------
        DataFrame
            Indexed by id; None in ``label`` where none counts.
        """
        return disputes_of(self._state(), self._ids, self.id or "id")

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
            Whether rows without a label have what the model says of them in the columns ``guess`` and
            ``guess_probability``, which are empty beside labels.

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
        if self._pool is None:
            index = pd.Index(list(self._ids), dtype=object, name=self.id or "id")
            frame = self._labelled(pd.DataFrame(index=index), np.arange(state.n_rows), state, None)
        else:
            parts = [self._labelled(X, rows, state, model) for rows, X in self._pool.parts()]
            frame = pd.concat(parts) if len(parts) > 1 else parts[0]
        labels = frame[self.target]
        return frame.assign(**{self.target: labels.infer_objects() if labels.notna().all() else labels})

    def _parts(self, guesses: bool) -> Iterator[pd.DataFrame]:
        """The same, some rows at a time, with objects as labels."""
        state, model = self._state(), self.model() if guesses else None
        for rows, X in self._table().parts():
            yield self._labelled(X, rows, state, model)

    def _labelled(self, X: pd.DataFrame, rows: NDArray[np.int64], state: State, model: Any) -> pd.DataFrame:
        """Rows that are there, with the labels that count, and what a model says of the others, if there is one."""
        is_there = ~np.isin(rows, self._gone)
        X, rows = X[is_there], rows[is_there]
        labels = pd.Series([state.labels.get(row) for row in rows.tolist()], index=X.index, dtype=object)
        frame = X.assign(**{self.target: labels})
        return frame if model is None else frame.assign(**guesses_beside(model, X, labels, self.kind))

    def __repr__(self) -> str:
        return f"<Campaign {str(self.path)!r}: {self.status(accuracy=False, report=False)._on_rows()}>"

    def _repr_html_(self) -> str:
        return card(self.status(accuracy=False, report=False), self.path.name, self.target)

    # --- what the others stand on -----------------------------------------------------------------

    def _state(self) -> State:
        return State.of(self._came, self._store.events(), self._settings["rule"], self._gone.tolist())

    def _table(self) -> Pool:
        if self._pool is None:
            raise CampaignError("`frame` is needed for this, and the campaign was opened without: give it to `open`.")
        return self._pool

    def _can_fit(self, state: State) -> bool:
        return has_enough(list(state.labels.values()), self.kind)

    def _estimator(self) -> Any:
        """The model, not fitted; a named one with preprocessing that knows the table."""
        return models.named_model(self._model, self._prepared(), self.kind) if self._is_named() else self._model

    def _is_named(self) -> bool:
        return isinstance(self._model, str)

    def _prepared(self) -> Any:
        """What turns columns into numbers."""
        if "prepared" not in self._fits:
            vectorizer = self._settings["model"].get("vectorizer", "plain")
            X = self._table().take(models.rows_to_look_at(len(self._ids)))
            self._fits["prepared"] = models.fitted_preprocessing(X, vectorizer, self.random_state)
        return self._fits["prepared"]

    def _points(self, rows: NDArray[np.int64], k: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Any]:
        """Some of the rows, and where they lie as numbers."""
        most = max(k, models.MOST_ROWS)
        some = np.sort(rng.choice(rows, most, replace=False)) if len(rows) > most else rows
        return some, np.asarray(self._prepared().transform(self._table().take(some)), dtype=np.float64)

    def _training(self, rows: Sequence[int], state: State) -> tuple[pd.DataFrame, NDArray[Any]]:
        return self._table().take(rows), np.array([state.labels[row] for row in rows])

    def _fitted(self, state: State) -> Any:
        key = "model", tuple(state.labels.items())
        if self._fits.get("of") != key:
            X, y = self._training(list(state.labels), state)
            self._fits["of"], self._fits["model"] = key, fitted(self._estimator(), X, y, self.random_state)
        return self._fits["model"]

    def _judged(self, state: State) -> pd.DataFrame | None:
        key = "judged", tuple(state.labels.items())
        if self._fits.get("judged of") != key:
            found = None
            if self._can_fit(state):
                X, y = self._training(list(state.labels), state)
                found = cross_fitted(self._estimator(), X, y, self.kind, self.random_state)
            self._fits["judged of"], self._fits["judged"] = key, found
        return self._fits["judged"]

    def _accuracy(self, state: State) -> Accuracy | None:
        judged = self._judged(state)
        if judged is None:
            return None
        picks = picks_of(self._store.batches(), self._store.events(), state)
        return accuracy_of(judged, list(state.labels.values()), list(state.labels), state, picks, self.kind)

    def _report(self, state: State, tolerance: float, patience: int) -> StoppingReport | None:
        def fit(rows: Sequence[int]) -> tuple[Any, pd.DataFrame, NDArray[Any]]:
            X, y = self._training(rows, state)
            return fitted(self._estimator(), X, y, self.random_state), X, y

        options = {"tolerance": tolerance, "patience": patience, "random_state": self.random_state}
        return report_on(state, self._table(), fit, self.kind, options, self._verbose)
