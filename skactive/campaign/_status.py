"""What a campaign shows: counts and sentences, the stopping report, and tables of rows, labels and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from .._utils import html
from .._utils.randomness import check_random_state
from .._utils.validation import progress
from ..stopping import StoppingReport
from ..stopping._evidence import Known, scoring_for
from ._accuracy import Accuracy
from ._labels import doubt_of_classes
from ._ledger import BatchRecord, Event, State
from ._models import fitted, has_enough, without_preprocessing
from ._store import cut

MOST_REPORTS = 8  # each is a fit; a verdict depends on the last ``patience`` labels, usually the last batch or two
MOST_ROWS = 20_000  # without a label, that predictions are compared on; a report draws some of these


@dataclass(frozen=True)
class Status:
    """Counts of a campaign, its accuracy, and whether to go on.

    Attributes
    ----------
    n_rows, n_labels, n_out, n_skipped, n_disputed, n_left : int
        Rows of the table; those with a label that counts, asked for and still unlabelled, skipped as impossible to
        label, disputed because annotators disagree, and available to be asked for.
    n_asked, n_batches : int
        Rows that were asked for so far, in how many batches.
    by_label : dict
        Number of rows with each label, the most frequent first; for numbers: least, mean and largest.
    out : DataFrame
        Rows waiting for labels, indexed by id, with the batch and the time they were asked for.
    model : str
        What was fitted for the accuracy and the report; empty if nothing was.
    accuracy : Accuracy or None
        None with too few labels, or if it was not asked for.
    report : StoppingReport or None
        Whether to go on; None with fewer than two classes, or if it was not asked for.

    See Also
    --------
    Campaign : Its ``status`` returns one.
    campaign.Accuracy : The accuracy in it.
    StoppingReport : The report in it.
    """

    n_rows: int
    n_labels: int
    n_out: int
    n_skipped: int
    n_disputed: int
    n_left: int
    n_asked: int
    n_batches: int
    by_label: Mapping[Any, Any]
    out: pd.DataFrame
    model: str = ""
    accuracy: Accuracy | None = None
    report: StoppingReport | None = None

    def __str__(self) -> str:
        return cut("\n".join([self._on_rows(), *self._by_topic().values()]))

    def _repr_html_(self) -> str:
        tables = [html.Table(list(self._by_topic().items()), is_sentences=True)]
        return html.card(self._on_rows(), tables if self.accuracy is None else [*tables, *self.accuracy.tables()])

    def _by_topic(self) -> dict[str, str]:
        found = {}
        if self.by_label:
            doubt = _OF_ONE_CLASS if len(self.by_label) == 1 else doubt_of_classes(self.by_label)
            found["labels"] = f"Labels: {self._on_labels(12)}.{doubt}"
        if self.n_out:
            first = self.out.sort_values("batch").iloc[0]
            since = f"since {first['asked'][:10]} (batch {first['batch']})"
            are = "1 row is" if self.n_out == 1 else f"{self.n_out} rows are"
            found["out"] = f"{are} waiting for labels, {since}."
        if self.model:
            found["model"] = f"Model: {self.model}."
        if self.accuracy is not None:
            text, classes = self.accuracy.on_rows(), self.accuracy.on_classes()
            found["accuracy"] = f"{text[0].upper()}{text[1:]}."
            found |= {"classes": f"{classes}."} if classes else {}
        if self.report is not None:
            found["report"] = for_a_campaign(str(self.report))
        return found

    def _on_labels(self, most: int) -> str:
        some = [(str(label), n, "," if isinstance(n, Integral) else "g") for label, n in self.by_label.items()]
        counts = ", ".join(f"{label:.80}: {n:{form}}" for label, n, form in some[:most])
        return f"{counts}{', ...' if len(some) > most else ''}"

    def _on_rows(self) -> str:
        parts = [f"{self.n_labels:,} labelled", f"{self.n_out:,} waiting"]
        parts += [f"{n:,} {what}" for n, what in ((self.n_skipped, "skipped"), (self.n_disputed, "disputed")) if n]
        batches = "1 batch" if self.n_batches == 1 else f"{self.n_batches} batches"
        return f"{self.n_rows:,} rows: {', '.join(parts)}, {self.n_left:,} left; {batches} so far."


_OF_ONE_CLASS = (
    " With one class there is no model yet: rows are chosen as in the first batch. If you know some of another class, "
    "tell them by `tell(..., unasked=True)`, in the shell `skactive tell --unasked`, or ask for more rows at once."
)

_FOR_CALLERS = {  # of `StoppingReport`
    "Pass this report as `previous` after the next batch.": "The next batch tells more.",
    " Pass `test=` (labelled test rows) to measure the gain.": "",
    ", or test it (`test=`)": "",
}


def for_a_campaign(text: str) -> str:
    """The text of a report without advice that nobody can follow in a campaign."""
    for advice, instead in _FOR_CALLERS.items():
        text = text.replace(advice, instead)
    return text


def status_of(state: State, batches: Sequence[BatchRecord], ids: pd.Index, kind: str, **judged: Any) -> Status:
    """Counts of the rows; ``judged`` are the accuracy and the report, ``ids`` those of all rows."""
    times = {batch.number: batch.time for batch in batches}
    numbers = [state.asked[row] for row in state.out]
    return Status(
        n_rows=state.n_rows - len(state.gone),
        n_labels=len(state.labels),
        n_out=len(state.out),
        n_skipped=len(state.skipped),
        n_disputed=len(state.disputed),
        n_left=int(state.candidates().sum()),
        n_asked=len(state.asked),
        n_batches=len(batches),
        by_label=by_label(list(state.labels.values()), kind),
        out=pd.DataFrame({"batch": numbers, "asked": [times[n] for n in numbers]}, index=ids.take(state.out)),
        **judged,
    )


def by_label(labels: list[Any], kind: str) -> dict[Any, Any]:
    """`Status.by_label`."""
    if not labels:
        return {}
    if kind == "classes":
        return dict(Counter(labels).most_common())
    return {"least": min(labels), "mean": float(np.mean(labels)), "largest": max(labels)}


# --- stopping ------------------------------------------------------------------------------------


def moments_of(state: State) -> list[int]:
    """Numbers of labels, in the order of ``state.order``, after each batch, and now."""
    latest, moments = 0, [0]
    for n, row in enumerate(state.order):
        batch = state.asked.get(row, 0)
        if batch > latest:  # a batch ends where labels of a later one begin
            latest = batch
            moments.append(n)
    return sorted({*moments, len(state.order)})


def report_on(
    state: State, table: pd.DataFrame, model: Any, kind: str, options: dict[str, Any], verbose: int
) -> StoppingReport | None:
    """The report of now, with those of the last batches before it; None with labels of one class.

    Which measure "auto" is, all batches decide: the first of them are like the table.
    """
    left, rng = state.unlabelled(), check_random_state([options["random_state"], 4])
    if len(left) > MOST_ROWS:
        left = rng.choice(left, MOST_ROWS, replace=False)
    report, moments, seed = None, moments_of(state), options["random_state"]
    known = np.sort(np.concatenate([left, np.array([*state.labels], dtype=np.int64)]))
    model, table = without_preprocessing(model, table.take(known))  # once for all fits

    def rows(which: Any) -> pd.DataFrame:
        return table.take(np.searchsorted(known, which))

    if kind == "classes":
        options = {**options, "scoring": _measured(state, moments, options["scoring"])}
    for n in progress(moments[-MOST_REPORTS:], doing="stopping report", unit="fit", verbose=verbose):
        taught = state.first_labelled(n)
        labels = [state.labels[row] for row in taught]
        if has_enough(labels, kind):
            X, y = rows(taught), np.array(labels)
            pool = rows(np.sort(np.concatenate([left, np.array(state.order[n:], dtype=np.int64)])))
            one = fitted(model, X, y, seed)
            report = StoppingReport.from_learner(one, pool, report, X_training=X, y_training=y, **options)
    return report


def _measured(state: State, moments: Sequence[int], scoring: Any) -> Any:
    """What a report on each batch would measure at last."""
    measured = None
    for n in moments:
        counts = Counter(state.labels[row] for row in state.first_labelled(n))
        measured = scoring_for(np.array(list(counts.values()), dtype=np.int64), scoring, measured)
    return measured or "auto"


def judged_by(report: StoppingReport | None, accuracy: Accuracy | None) -> Any:
    """The report, which knows the accuracy, and that of naming always the commonest class, which the former tells."""
    if report is None:
        return None
    known = Known(is_told=accuracy is not None and accuracy.is_told)
    if accuracy is not None and accuracy.classes is not None:
        known = replace(known, value=accuracy.value, low=accuracy.low, guess=accuracy.classes["share"].max())
    return replace(report, known=known)


# --- tables --------------------------------------------------------------------------------------


def surprising(judged: pd.DataFrame, state: State, X: pd.DataFrame, kind: str, n: int) -> pd.DataFrame:
    """Labelled rows ``X``, sorted by the out-of-fold probability of their label, which ``judged`` holds."""
    found = judged.copy()
    found.insert(0, "label", list(state.labels.values()))
    if kind == "numbers":
        found = found.drop(columns=["label_probability", "guess_probability"])
        found["difference"] = (found["guess"] - found["label"]).abs()
        order = np.argsort(-found["difference"].to_numpy(), kind="stable")
    else:
        by_guess = np.where((found["guess"] != found["label"]).to_numpy(), 0.0, 1.0)  # for models without probabilities
        likely = found["label_probability"]
        order = np.argsort(np.where(likely.isna(), by_guess, likely), kind="stable")
    found["disputed"] = [len(set(state.given.get(row, {}).values())) > 1 for row in state.labels]
    beside = X.rename(columns={c: f"{c} of the row" for c in X.columns if c in found.columns})
    return pd.concat([found, beside], axis=1).iloc[order[:n]]


def disputes_of(state: State, ids: pd.Index) -> pd.DataFrame:
    """Rows with different labels of annotators: a column for each annotator, and the label that counts."""
    found = {row: votes for row, votes in state.given.items() if len(set(votes.values())) > 1}
    names = sorted({name for votes in found.values() for name in votes})
    headings = {"label": "label (annotator)", "": "(no name)"}
    data = {headings.get(name, name): [votes.get(name) for votes in found.values()] for name in names}
    data["label"] = [state.labels.get(row) for row in found]
    return pd.DataFrame(data, index=ids.take(list(found)), dtype=object)


def table_of(events: Sequence[Event], ids: pd.Index) -> pd.DataFrame:
    """A row for each event."""
    return pd.DataFrame(
        {
            "time": pd.to_datetime([event.time for event in events], utc=True),
            "kind": [event.kind for event in events],
            "id": ids.take([event.row for event in events]),
            "label": pd.Series([event.label for event in events], dtype=object),
            "annotator": [event.annotator for event in events],
            "batch": pd.array([event.batch for event in events], dtype="Int64"),
            "log_proba": pd.Series([event.log_proba for event in events], dtype=float),
            "remark": [event.remark for event in events],
        }
    )


def labelled_frame(X: pd.DataFrame, target: str, state: State) -> pd.DataFrame:
    """The rows that are there, with the labels that count in the column ``target``, behind the others."""
    there = [row for row in range(len(X)) if row not in state.gone]
    found, X = [state.labels.get(row) for row in there], X.iloc[there]
    labels = pd.Series(found, index=X.index, dtype=object)
    return X.assign(**{target: labels if None in found else labels.infer_objects()})
