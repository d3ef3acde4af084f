"""A campaign: a table with gaps, and a file that keeps what was asked, told and skipped."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd

from .._utils.types import Auto, Changes, DisputeRule, Estimator, FirstRows, ModelName, Query, StoppingMeasure, Task
from .._utils.validation import check_parameters, each_warning_once, import_optional
from ..query import Limits, StochasticBatchQuery
from ..stopping import StoppingReport
from ._base import TASKS, CampaignBase, until_written
from ._columns import check_lists, described, readings_of
from ._labels import Answer, Told, Vocabulary, allowed_labels, answers_of, kind_of
from ._ledger import Rows
from ._models import check_score, guesses_beside, in_words, model_of, model_settings, query_of, query_settings
from ._status import Status, disputes_of, judged_by, labelled_frame, status_of, surprising, table_of
from ._store import CampaignError, Store, shown
from ._table import Table, check_by_row, listed_ids, row_hashes, rows_beside

if TYPE_CHECKING:
    from ._live import Served

ONE_IN_TEN = 0.1  # picks of the default query that are uniform, so that labels estimate the accuracy on the whole pool


class Campaign(CampaignBase):
    """Labels for a table in batches: it proposes rows, accepts their labels in any order, and says whether to go on.

    Rows with a gap in the target column are the pool. `ask` chooses some of them, `tell` takes their labels by id. One
    file keeps what happened, and any process can open it and go on, each thread with a Campaign of its own; it holds
    ids, labels and settings, no rows of the table and no code. Rows that wait for labels are not asked for again, by
    any process, and count as pending for the query.

    Attributes
    ----------
    path : Path
    target, id : str
        The columns of the labels and of the ids; ``id`` is None for ids in an index without a name.
    kind : {"classes", "numbers"}
        The kind of labels: decided by the first ones if `start` saw none and ``task`` is "auto".
    random_state : int
        The seed. The same seed asks for the same ids, in one process or in many, on one machine, for the same table in
        the order that it had at the start.

    See Also
    --------
    StochasticBatchQuery : The query that it asks by default.
    Limits : Constraints on a batch.
    cli.main : The same from the shell.

    Notes
    -----
    A model is fitted anew to all labels whenever one is needed, and each batch is chosen by a clone of the query, both
    with seeds made of the campaign's: so batches do not depend on the process. A query that changes itself from batch
    to batch loses that, with a warning. Invalid input raises a `CampaignError`, and nothing is written.

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
    300 rows: 20 labelled, 5 waiting, 275 left; 2 batches so far.
    Labels: ...
    5 rows are waiting for labels, since ... (batch 2).
    """

    def __init__(self) -> None:
        raise TypeError("Start a campaign by `Campaign.start(path, frame, target=...)`, or use `Campaign.open`.")

    # --- beginning and going on -------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        path: str | os.PathLike[str],
        frame: Any,
        *,
        target: str,
        id: str | None = None,
        model: ModelName | Estimator = "auto",
        query: Query | None = None,
        task: Task = "auto",
        labels: Sequence[Any] | None = None,
        rule: DisputeRule = "latest",
        first: FirstRows = "uniform",
        groups: str | None = None,
        weight: str | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> Campaign:
        """Start a campaign.

        Parameters
        ----------
        path : str or path
            Of the new file; its folder must exist.
        frame : DataFrame, path, list of paths, or pyarrow.dataset.Dataset
            One row for each item to label: a DataFrame of pandas, or of a library with ``to_pandas``; or Parquet files,
            sorted by name: paths of files or folders, or patterns with ``*``.
        target : str
            The column of labels: texts, booleans or numbers, with gaps. All may be gaps.
        id : str, optional
            The column, or the name of the index, with an id for each row: texts or whole numbers. By default the index.
        model : {"auto", "forest", "logistic", "boosting", "net"} or estimator, default="auto"
            By name: with preprocessing for texts, categories, dates and gaps (skrub's, where it is installed). "auto"
            is the mean of the probabilities of "forest" and "logistic"; of numbers, "forest". An estimator gets the
            columns as they are, without id and target. Pass it again to `open`.
        query : query, optional
            By default ``StochasticBatchQuery(epsilon=0.1, diversity=0)``: one in ten rows is picked uniformly, so that
            accuracy can be estimated. Its ``random_state`` is replaced by seeds of the campaign.
        task : {"auto", "classification", "regression"}, default="auto"
            "auto": regression if labels are numbers, and some are not whole, more than twenty are different, or most of
            at least twenty differ. Without labels in the table, the first ones told decide.
        labels : sequence, optional
            All allowed labels; others are refused. By default any.
        rule : {"latest", "majority", "open"}, default="latest"
            Which label counts if annotators disagree: the last, that of the majority (none in a tie), or none.
        first : {"uniform", "typical"}, default="uniform"
            How rows are chosen until there are two classes. With "uniform" their probabilities are known, and the
            first labels count for the accuracy; "typical" rows teach more where there are more than two classes.
        groups : str, optional
            A column of groups, such as patients or sites: each row is judged by models that have seen no label of its
            group, and the interval allows for correlated errors. It is not a feature.
        weight : str, optional
            A column of numbers above 0, such as survey weights: the accuracy is the weighted mean. It is not a feature.
        random_state : int, optional
            By default one is drawn and stored.
        verbose : int, default=0
            1 shows progress bars.
        """
        given = {"target": target, "id": id, "rule": rule, "first": first, "groups": groups, "weight": weight}
        cls._check(**given, task=task, labels=labels, random_state=random_state)
        table = Table.of(frame, id=id, target=target)
        check_by_row(table.X, groups, weight)
        kind = TASKS[task] or kind_of(table.labels) or ("classes" if labels is not None else None)
        if None not in table.labels:
            raise CampaignError(
                f"`target` must have gaps: the rows to label. All {len(table.ids)} rows have a label in {target!r}."
            )
        closed = None if labels is None else allowed_labels(labels, kind or "classes")
        if closed is not None and len(closed) < 2:
            raise CampaignError(f"`labels` must be two different ones or more. Got {shown(closed)}.")
        came = Vocabulary(kind or "classes", closed, set()).labels(table.labels)
        query = StochasticBatchQuery(epsilon=ONE_IN_TEN, diversity=0.0) if query is None else query
        features = table.X.drop(columns=[name for name in (groups, weight) if name is not None])
        readings = readings_of(features, table.decimal)
        if isinstance(model, str):
            check_lists(readings, features)
        settings = {
            **given,
            "columns": table.X.columns.tolist(),
            "readings": {name: asdict(reading) for name, reading in readings.items()},
            "kind": kind,
            "labels": closed,
            "random_state": int(secrets.randbits(31) if random_state is None else random_state),
            "model": model_settings(model),
            "query": query_settings(query, kind or "classes", model),
        }
        Store(path).create(settings, Rows(table.ids, row_hashes(table.X, readings), came))
        campaign = object.__new__(cls)
        campaign._connect(path, verbose)
        campaign._take_rows()
        campaign._query, campaign._model, campaign._X = query, model, table.X
        campaign._warn_of_odd(campaign.columns())
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
        """Continue a campaign.

        Parameters
        ----------
        path : str or path
        frame : DataFrame, path, list of paths, or pyarrow.dataset.Dataset, optional
            The table, in any order of rows and columns. New rows are added, and so are new labels of known rows; if one
            contradicts the campaign, the campaign keeps its own, with a warning. Without a table you can
            `tell`, `skip`, `withdraw` and count, but not `ask`.
        model, query : optional
            The same as at the start, if it was an estimator, or a query with parts of your own.
        changes : {"refuse", "take"}, default="refuse"
            If rows are missing from the table or have changed since the start: refuse the table, or go on with it,
            without the missing rows.
        verbose : int, default=0
        """
        cls._check(changes=changes)
        campaign = object.__new__(cls)
        campaign._connect(path, verbose)
        campaign._take_rows()
        return campaign if frame is None else campaign._go_on(frame, model, query, changes)

    def _go_on(self, frame: Any, model: Any, query: Any, changes: Changes) -> Campaign:
        """Take the table and what learns from it."""
        self._query = query_of(self._settings["query"], query, self.kind)
        self._model = model_of(self._settings["model"], model)
        table = Table.of(frame, id=self.id, target=self.target, columns=self._settings["columns"])
        until_written(lambda: self._take_table(table, changes))
        return self

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the file in a consistent state, even while other processes write to it.

        Parameters
        ----------
        path : str or path
            Of the copy, which is a campaign of its own; nothing is overwritten.
        """
        self._store.backup(path)

    # --- asking and telling -----------------------------------------------------------------------

    def ask(self, n: int = 20, *, limits: Limits | None = None) -> pd.DataFrame:
        """Choose the rows to be labelled next. They wait for labels until they are told, skipped or withdrawn.

        Parameters
        ----------
        n : int, default=20
            If fewer rows are left, all of them, with a warning.
        limits : Limits, optional
            Its ``groups`` and ``costs`` may name columns of the table; others are in the order of the campaign, or
            have ids as their index.

        Returns
        -------
        DataFrame
            Indexed by id, most preferred first: the row, ``guess`` (the model's prediction, None without a model),
            ``guess_probability`` and ``log_proba`` (natural logarithm of the probability of this pick, given those
            before it; NaN where the query has none).
        """
        self._check(n=n, limits=limits)
        self._table()
        return until_written(lambda: self._ask(n, limits))

    def tell(self, labels: Any, *, annotator: str | None = None, unasked: bool = False) -> Told:
        """Record labels, and report what changed.

        Parameters
        ----------
        labels : mapping, Series or DataFrame
            Ids to labels; or labels indexed by id; or columns of ids and labels, named as in the table. An x in a
            column ``skip`` skips a row; a text in ``remark`` is kept beside the answer. Gaps change nothing. A label
            for a row that has one replaces it, and the history keeps both.
        annotator : str, optional
            Each has one label per row; one told without a name, and told again under a name, is theirs.
        unasked : bool, default=False
            Also accept labels of rows that were never asked for, or that were withdrawn and not asked for again.

        Raises
        ------
        CampaignError
            If an id is unknown or was not asked for, an id has two labels, a label has another type than the others or
            is not in the closed set. Nothing is recorded then. ``error.entries`` are positions in ``labels``.
        """
        self._check(annotator=annotator, unasked=unasked)
        return self._take(answers_of(labels, id=self.id, target=self.target, annotator=annotator or ""), unasked)

    def skip(self, ids: Iterable[Any], *, annotator: str | None = None) -> None:
        """Mark rows as impossible to label. They are not asked for again, unless they are withdrawn.

        Parameters
        ----------
        ids : iterable
        annotator : str, optional
        """
        self._check(annotator=annotator)
        self._take([Answer(id, None, annotator or "", True) for id in listed_ids(ids)], unasked=True)

    def set(
        self, *, task: Task = "auto", closed: bool | None = None, add: Any = (), rename: Any = None, model: Any = None
    ) -> None:
        """Change the kind of labels, the allowed ones, or the model. The history keeps what was told.

        Parameters
        ----------
        task : {"auto", "classification", "regression"}, default="auto"
            The kind of all labels, existing ones included; "auto" leaves it. It is set alone.
        closed : bool, optional
            True refuses labels other than the existing ones and those in ``add``; False accepts any.
        add : sequence, default=()
            Labels for a closed set.
        rename : mapping of label to label, optional
            New names, which other rows may have already. Old names in files are read as the new ones.
        model : str or estimator, optional
            As in `start`. It is set alone. Pass an estimator again to `open`.
        """
        self._check(task=task, closed=closed, add=add, rename=rename)
        if (task != "auto") + bool(closed is not None or len(add) or rename) + (model is not None) != 1:
            raise CampaignError("`set` takes either `task`, `model`, or some of `closed`, `add` and `rename`.")
        if model is not None:
            check_score(self._settings["query"].get("params", {}).get("score"), self.kind, model)
            if isinstance(model, str):
                check_lists(self._readings, self._X)
            self._store.note({"model": model_settings(model)})
            self._model = model
            return
        kind = TASKS[task]
        until_written(lambda: self._set_task(kind) if kind else self._set_labels(closed, add, rename or {}))

    def withdraw(self, ids: Iterable[Any]) -> None:
        """Put rows back into the pool: waiting, skipped, or labelled wrongly.

        Parameters
        ----------
        ids : iterable
            Their labels remain only in the history.
        """
        wanted = listed_ids(ids)
        until_written(lambda: self._withdraw(wanted))

    @each_warning_once()
    def status(
        self,
        *,
        accuracy: bool = True,
        report: bool = True,
        scoring: StoppingMeasure | Auto = "auto",
        tolerance: float = 0.05,
        patience: int = 30,
    ) -> Status:
        """Count rows and labels, estimate the accuracy, and say whether to go on. It prints as a few sentences.

        Parameters
        ----------
        accuracy : bool, default=True
            Estimate it, with intervals: six fits.
        report : bool, default=True
            Say whether to go on: a fit for each of the last batches, at most eight, and those of the accuracy, without
            which the advice is never to stop.
        scoring, tolerance, patience : str, float, int
            As in `skactive.StoppingReport.from_learner`.
        """
        self._check(accuracy=accuracy, report=report)
        options: dict[str, Any] = {"scoring": scoring, "tolerance": tolerance, "patience": patience}
        check_parameters(StoppingReport.rules, options)
        state, batches = self._state(), self._store.batches()
        can_fit = self._X is not None and self._can_fit(state)
        judged = self._accuracy(state) if (accuracy or report) and can_fit else None
        told = judged_by(self._report(state, **options), judged) if report and can_fit else None
        shown = judged if accuracy else None
        model = in_words(self._settings["model"], self.kind) if judged or told else ""
        return status_of(state, batches, self._named_ids(), self.kind, model=model, accuracy=shown, report=told)

    @each_warning_once()
    def model(self) -> Any:
        """A model fitted to all labels that count.

        It takes rows of the table without the columns of id and target, and of groups and weights.
        """
        self._table()
        state = self._state()
        if not self._can_fit(state):
            needed = "two labels" if self.kind == "numbers" else "labels of two classes"
            some = [repr(label) for label in state.labels.values()][: self.kind != "numbers"]
            lack = f"all {some[0]}: tell some of another class" if some else "which are too few: tell some more"
            raise CampaignError(f"A model needs {needed}. There are {len(state.labels)} labels, {lack}.")
        return self._fitted(state)

    @each_warning_once()
    def predict(self, frame: Any) -> pd.DataFrame:
        """Predictions of the model for rows that need not be in the table, as in `to_frame`.

        Parameters
        ----------
        frame : DataFrame
            With the columns that the model learns from, each read as at the start.

        Returns
        -------
        DataFrame
            ``guess`` and ``guess_probability``, indexed by id, or as ``frame`` is if it has none.
        """
        X = rows_beside(frame, self._features().columns.tolist(), self.id)
        self._warn_of_odd(described(X, self._readings))
        nothing = pd.Series(None, index=X.index, dtype=object)
        return pd.DataFrame(guesses_beside(self.model(), X, nothing, self.kind))

    @each_warning_once()
    def recheck(self, n: int = 20) -> pd.DataFrame:
        """Labelled rows that are most worth a second look: labels that out-of-fold predictions find least probable.

        As in Confident Learning by Northcutt, Jiang and Chuang (2021), sec. 3.

        Parameters
        ----------
        n : int, default=20

        Returns
        -------
        DataFrame
            Indexed by id, the most surprising first: ``label``, ``guess`` and their out-of-fold probabilities,
            ``label_probability`` and ``guess_probability``; of numbers, the ``difference``; the row; and ``disputed``
            where annotators disagree.
        """
        self._check(n=n)
        state = self._state()
        judged = self._judged(state)
        if judged is None:
            raise CampaignError("`recheck` needs at least two labels of each of two classes: tell some more.")
        return surprising(judged.out_of_fold, state, self._table().take(list(state.labels)), self.kind, n)

    def serve(
        self,
        annotator: str | Sequence[str] = "",
        *,
        batch: int = 20,
        overlap: int = 1,
        host: str = "",
        port: int | None = None,
    ) -> Served:
        """Label in a browser while the model learns: answers are saved at once, and the next rows follow.

        Parameters
        ----------
        annotator : str or sequence of str, default=""
            Who labels; each of several annotators gets an address.
        batch, overlap : int
            Rows per batch (the next one is chosen when less than half are left); annotators who label each row.
        host, port : str, int
            By default only this machine is answered, at a port of the campaign's own. Another address of this machine
            opens the page to a network, which must be one that you trust.

        Returns
        -------
        Served
            It prints as the addresses, and runs in the background until its ``stop()``.
        """
        self._check(batch=batch, overlap=overlap, host=host, port=port)
        self._table()
        live = import_optional("skactive.campaign._live", "serve", "starlette uvicorn")
        names = [annotator] if isinstance(annotator, str) else [*annotator]
        for name in names:
            self._check(annotator=name or None)
        return live.Served(self, names, batch, overlap, host or live.LOCAL, port)

    def columns(self) -> pd.DataFrame:
        """How each column of the table is read, as decided at the start: for models by name.

        Returns
        -------
        DataFrame
            Indexed by column: ``kind`` ("number", "date", "category", "text", "embedding", "list", "constant" or
            "empty"), ``read_as`` in words, the number of ``gaps``, how many of these are ``odd`` (they hold something
            else), an ``example`` of an odd cell, and the id of its ``row``.
        """
        if "columns" not in self._fits:
            self._fits["columns"] = described(self._table(), self._readings)
        return self._fits["columns"].copy()

    def disagreements(self) -> pd.DataFrame:
        """Rows with different labels of annotators: a column for each, and ``label``, which counts, or None."""
        return disputes_of(self._state(), self._named_ids())

    def history(self) -> pd.DataFrame:
        """All that happened, in order: time, kind ("ask", ...), id, label, annotator, batch, log_proba, remark."""
        events = [event for event in self._store.events() if event.row < len(self._ids)]
        return table_of(events, self._ids)

    @each_warning_once()
    def to_frame(self, *, guesses: bool = False) -> pd.DataFrame:
        """A copy of the table with the labels that count in the target column, indexed by id.

        Parameters
        ----------
        guesses : bool, default=False
            Add the model's predictions for rows without a label, in columns ``guess`` and ``guess_probability``.
        """
        self._check(guesses=guesses)
        model = self.model() if guesses else None
        X = pd.DataFrame(index=self._named_ids()) if self._X is None else self._X
        frame = labelled_frame(X, self.target, self._state())
        if model is None:
            return frame
        rows = frame[self._features().columns]
        return frame.assign(**guesses_beside(model, rows, frame[self.target], self.kind))

    def __repr__(self) -> str:
        return f"<Campaign {str(self.path)!r}: {self.status(accuracy=False, report=False)._on_rows()}>"

    def _repr_html_(self) -> str:
        return self.status(accuracy=False, report=False)._repr_html_()
