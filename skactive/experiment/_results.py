"""What an experiment found: records of its rounds, its failures, and comparisons over all trials."""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from .._utils import html, statistics
from .._utils.statistics import Ends, Estimate
from .._utils.validation import Rule, check_reference, number, shown

_LEVEL: Rule = number(text="a finite number, a score to reach").or_none()
_MARGIN: Rule = number(0, text="a number, 0 or larger: a difference of scores that does not matter").or_none()
_POINT = 0.01  # default margin of scores from 0 to 1
_NOTE = (
    "In brackets: 95 % intervals over trials (Student's t). p: sign-flip tests of pairs, with Holm's correction.\n"
    "Better and worse: an interval beyond 0 and a p of 0.05 or less; both are too sure if few differences are skewed."
)


@dataclass(frozen=True)
class Round:
    """One round of one run: the labels acquired, and the scores of the model fitted to all labels so far."""

    trial: int
    query: str
    round: int
    n_labelled: int  # that the model was fitted to
    indices: tuple[int, ...]  # positions in the caller's X, most preferred first; in round 0 the initial labels
    scores: dict[str, float]
    # seconds are not compared: rounds are equal if the same was found, however long it took
    query_seconds: float | None = field(compare=False)  # None in round 0
    fit_seconds: float = field(compare=False)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Round:
        return cls(**{**record, "indices": tuple(record["indices"])})


@dataclass(frozen=True)
class Failure:
    """A run that raised an error: where, and the error with its traceback as text."""

    trial: int
    query: str
    round: int
    type: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: Exception, trial: int, query: str, round_: int) -> Failure:
        text = "".join(traceback.format_exception(error))
        return cls(trial, query, round_, type(error).__name__, str(error), text)


@dataclass(frozen=True)
class ExperimentResult:
    """What `run_experiment` returns.

    Attributes
    ----------
    rounds : tuple
        Every round of every run (one query in one trial): ``trial``, ``query``, ``round``, ``n_labelled``, ``indices``
        (positions of the rows labelled in it), ``scores`` (by name), ``query_seconds`` and ``fit_seconds``.
    failures : tuple
        Runs that raised an error: ``trial``, ``query``, ``round``, ``type``, ``message`` and ``traceback``. Their
        finished rounds are in ``rounds``; summaries leave such runs out.
    settings : dict
        Estimator, queries, sizes, seeds and versions, as plain JSON; objects as text.

    See Also
    --------
    LearningCurveDisplay : Scores against the number of labels.
    plotting.PairedDifferenceDisplay : Differences within trials.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import ExperimentResult, StochasticBatchQuery, run_experiment
    >>> X, y = load_iris(return_X_y=True)
    >>> queries = {"power": StochasticBatchQuery("entropy"), "uniform": StochasticBatchQuery("entropy", "uniform")}
    >>> result = run_experiment(
    ...     LogisticRegression(max_iter=1000), queries, X, y, n_initial=6, n_rounds=3, batch_size=4, n_trials=2
    ... )
    >>> result
    ExperimentResult(2 queries, 2 trials, 16 rounds, scores: score)
    >>> ExperimentResult.from_json(result.to_json()) == result
    True
    """

    rounds: tuple[Round, ...]
    failures: tuple[Failure, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        trials = {r.trial for r in self.rounds}
        failed = f", {len(self.failures)} runs failed: see `failures`" if self.failures else ""
        return (
            f"ExperimentResult({len(self.queries)} queries, {len(trials)} trials, {len(self.rounds)} rounds, "
            f"scores: {', '.join(self.score_names)}{failed})"
        )

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_(title=repr(self)) if self.rounds else html.card(repr(self), [])

    @property
    def queries(self) -> list[str]:
        """Names of the queries, in the order of the call."""
        return list(dict.fromkeys([*self.settings.get("queries", ()), *(r.query for r in self.rounds)]))

    @property
    def score_names(self) -> list[str]:
        return list(self.rounds[0].scores) if self.rounds else []

    def limits_of(self, score: str) -> Ends:
        """Bounds that no interval of this score crosses: 0 and 1 for scores known to lie there, such as accuracy."""
        known = score in self.settings.get("shares", ()) and all(0 <= r.scores[score] <= 1 for r in self.rounds)
        return (0.0, 1.0) if known else (-np.inf, np.inf)

    def to_frame(self) -> pd.DataFrame:
        """One row for each round.

        Columns: trial, query, round, n_labelled, indices, one for each score, query_seconds (NaN in round 0) and
        fit_seconds.
        """
        rows = []
        for record in self.rounds:
            row = asdict(record)
            scores, seconds = row.pop("scores"), {name: row.pop(name) for name in ("query_seconds", "fit_seconds")}
            rows.append({**row, **scores, **seconds})
        return pd.DataFrame(rows).astype({"query_seconds": float})

    def to_json(self) -> str:
        """The whole result as text; `from_json` restores an equal result, to the last bit."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ExperimentResult:
        """The result that `to_json` wrote, from the JSON itself and not from the name of a file."""
        try:
            parts = json.loads(text)
            rounds = tuple(map(Round.from_dict, parts["rounds"]))
            return cls(rounds, tuple(Failure(**f) for f in parts["failures"]), parts["settings"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"`text` must be what `to_json` returned, or the content of such a file. Got {shown(text)} ({error!r})."
            ) from error

    def summary(
        self, reference: str | None = None, *, level: float | None = None, margin: float | None = None
    ) -> Summary:
        """Compare the queries over all trials.

        Parameters
        ----------
        reference : str, optional
            The query that the others are compared with. By default "uniform" if there is one, else the first.
        level : float, optional
            Score for which to count the labels needed. By default, for each score, the highest that every run reaches.
        margin : float, optional
            A difference of scores that does not matter. By default 0.01 for scores known to lie between 0 and 1, such
            as accuracies, and 0 for others, which have units of their own.

        Returns
        -------
        Summary
            A table that can be printed; its ``to_frame()`` is a DataFrame. It has a row for each score and query.

            * ``mean``: of the score, over acquisitions (without the initial labels) and then over trials;
            * ``labels``: number of labels at which straight lines between evaluations reach ``level``, over the
              ``reached`` trials that do;
            * ``difference``: of ``mean`` to the reference in the same trials, with the p-value of a sign-flip test,
              uncorrected (``p_value``) and corrected for the number of queries (``p_holm``); NaN with too few trials
              for it to reach 0.05 (one comparison needs 6, two or three need 7, up to six need 8);
            * ``verdict``: "better" or "worse" if the interval of the difference is on one side of 0 and ``p_holm`` is
              0.05 or less, "within the margin" if the interval is, or both; else, and without a p, "cannot be told";
            * ``trials_to_tell``, where it cannot be told: how many would tell the difference seen, by its spread
              (Student's test, 80 % power, 5 % over all comparisons); infinite beyond 1,000.

            Intervals are Student's, 95 %, and not corrected; those of accuracies end at 0 and 1. They are too short for
            few skewed values. A trial in which a run failed is left out for all queries; a query whose runs all failed
            is left out alone.

        References
        ----------
        Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure.
        """
        _LEVEL.check("level", level)
        _MARGIN.check("margin", margin)
        reference = check_reference(reference, self.queries)
        rows: list[dict[str, Any]] = []
        for score in self.score_names:
            runs = self._complete_runs(score)
            best = [max(run.scores) for of in runs.values() for run in of.values()]
            goal = min(best, default=np.nan) if level is None else level
            limits = self.limits_of(score)
            of = [_compare(score, query, runs, reference, goal, limits) for query in runs]
            rows += _judged(of, "difference", _POINT * np.isfinite(limits[1]) if margin is None else margin)
        return Summary("mean over acquisitions, without the first labels", reference, rows)

    def label_savings(self, reference: str | None = None, *, level: float | None = None) -> Summary:
        """How many fewer labels than the reference each query needs.

        Parameters
        ----------
        reference : str, optional
            As in `summary`.
        level : float, optional
            Score to reach. By default, in each trial, the highest that both the query and the reference reach.

        Returns
        -------
        Summary
            For each score and query: ``saved``, labels at which the reference reaches the level, by straight lines
            between evaluations, minus those of the query, over the ``n_trials`` trials in which both reach it, with
            p-values and verdicts as in `summary`.
        """
        _LEVEL.check("level", level)
        reference = check_reference(reference, self.queries)
        rows: list[dict[str, Any]] = []
        for score in self.score_names:
            runs = self._complete_runs(score)
            of = [_savings(score, query, runs[query], runs[reference], level) for query in runs if query != reference]
            rows += _judged(of, "saved")
        return Summary("labels saved", reference, rows)

    def _complete_runs(self, score: str) -> dict[str, dict[int, _Curve]]:
        """Runs by query and trial, without trials in which one failed, and queries all of whose runs did."""
        failed = {(f.query, f.trial) for f in self.failures}
        ran = {query: {r.trial for r in self.rounds if r.query == query} for query in self.queries}
        lost = {query for query, trials in ran.items() if all((query, trial) in failed for trial in trials)}
        incomplete = {trial for query, trial in failed if query not in lost}
        runs: dict[str, dict[int, _Curve]] = {query: {} for query in self.queries}
        for record in self.rounds:
            if record.query not in lost and record.trial not in incomplete:
                run = runs[record.query].setdefault(record.trial, _Curve([], []))
                run.n_labelled.append(record.n_labelled)
                run.scores.append(record.scores[score])
        return runs


@dataclass(frozen=True)
class Summary:
    """A table of comparisons: ``print`` and notebooks show it, `Summary.to_frame` makes a DataFrame of it."""

    title: str
    reference: str  # the query that differences are to
    rows: list[dict[str, Any]]  # one a score and query

    def to_frame(self) -> pd.DataFrame:
        """One row a score and query, with columns ``x``, ``x_low`` and ``x_high`` for every estimate ``x``."""
        return pd.DataFrame([_flat(row) for row in self.rows])

    def __str__(self) -> str:
        return "\n\n".join([*(f"{table.title}\n{_in_columns(table)}" for table in self._tables()), self._note()])

    def _repr_html_(self, title: str = "") -> str:
        return html.card(title, self._tables(), note=self._note())

    def _note(self) -> str:
        """How to read the tables, and where a p is missing how many trials it needs."""
        compared = [row for row in self.rows if row["verdict"]]
        n = len({row["query"] for row in compared})
        if all(row["n_trials"] >= statistics.fewest_trials(n) for row in compared):
            return _NOTE
        fewest = statistics.fewest_trials(n)
        return f"{_NOTE}\np and verdicts need {fewest} trials or more (comparisons: {n}): with fewer no p can be 0.05."

    def _tables(self) -> list[html.Table]:
        """The texts that are shown, a table for each score."""
        tables = []
        for score in dict.fromkeys(row["score"] for row in self.rows):
            cells = [_cells(row, self.reference) for row in self.rows if row["score"] == score]
            rows = [list(row.values()) for row in cells]
            tables.append(html.Table(rows, head=list(cells[0]), title=f"{score}: {self.title}"))
        return tables


@dataclass(frozen=True)
class _Curve:
    """One query in one trial: number of labels, and score, at each evaluation."""

    n_labelled: list[int]
    scores: list[float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores[1:])) if len(self.scores) > 1 else np.nan

    def labels_to(self, level: float) -> float:
        return statistics.labels_to_reach(level, self.n_labelled, self.scores)


def _compare(
    score: str, query: str, runs: dict[str, dict[int, _Curve]], reference: str, level: float, limits: Ends
) -> dict[str, Any]:
    mine, theirs = runs[query], runs[reference]
    differences = [mine[t].mean - theirs[t].mean for t in mine if t in theirs] if query != reference else []
    labels = [n for n in (run.labels_to(level) for run in mine.values()) if not np.isnan(n)]
    low, high = limits
    return {
        "score": score,
        "query": query,
        "n_trials": len(mine),
        "mean": statistics.estimate((run.mean for run in mine.values()), limits),
        "difference": statistics.estimate(differences, (low - high, high - low)),
        "level": level,
        "reached": len(labels),
        "labels": statistics.estimate(labels, (0.0, np.inf)),
        "differences": differences,
    }


def _savings(
    score: str, query: str, mine: dict[int, _Curve], theirs: dict[int, _Curve], level: float | None
) -> dict[str, Any]:
    saved = []
    for t in (t for t in mine if t in theirs):
        goal = min(max(mine[t].scores), max(theirs[t].scores)) if level is None else level
        saved.append(theirs[t].labels_to(goal) - mine[t].labels_to(goal))
    saved = [labels for labels in saved if not np.isnan(labels)]
    estimate = statistics.estimate(saved)
    return {"score": score, "query": query, "n_trials": len(saved), "saved": estimate, "differences": saved}


def _judged(rows: list[dict[str, Any]], found: str, margin: float = 0.0) -> list[dict[str, Any]]:
    """Rows with p-values, corrected for their number, and verdicts by these and by the interval of what was found."""
    differences = [row.pop("differences") for row in rows]
    n_compared = max(1, sum(map(bool, differences)))
    fewest = statistics.fewest_trials(n_compared)
    p_values = [statistics.paired_p_value(d) if len(d) >= fewest else np.nan for d in differences]
    for row, d, p, p_holm in zip(rows, differences, p_values, statistics.holm(p_values), strict=True):
        verdict = statistics.verdict_of(row[found], p_holm, margin)
        to_tell = statistics.trials_to_tell(d, n_compared) if verdict == "cannot be told" else np.nan
        row |= {"verdict": verdict, "trials_to_tell": to_tell, "p_value": p, "p_holm": p_holm}
    return rows


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate):
            flat |= {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
        else:
            flat[name] = value
    return flat


def _in_columns(table: html.Table) -> str:
    """Columns of text, as wide as their longest cell."""
    everything = [table.head, *table.rows]
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]
    lines = (zip(line, widths, strict=True) for line in everything)
    return "\n".join("  ".join(cell.rjust(width) for cell, width in line) for line in lines)


def _cells(row: dict[str, Any], reference: str) -> dict[str, str]:
    """A row as text, under the names that the printed table shows."""
    cells = {"query": row["query"], "trials": str(row["n_trials"])}
    p = f"{row['p_holm']:.2g}" if not np.isnan(row["p_holm"]) else "-" if row["verdict"] else ""
    said = {"verdict": row["verdict"], "trials to tell": number_of_trials(row["trials_to_tell"]), "p": p}
    if "saved" in row:
        return {**cells, f"labels saved against {reference}": _with_interval(row["saved"], "+.1f"), **said}
    cells["mean"] = _with_interval(row["mean"], ".3f")
    cells[f"minus {reference}"] = _with_interval(row["difference"], "+.3f")
    reached = "" if row["reached"] == row["n_trials"] else f" ({row['reached']} of {row['n_trials']})"
    return {**cells, **said, f"labels to {row['level']:.3g}": _with_interval(row["labels"], ".1f") + reached}


def number_of_trials(n: float) -> str:
    """In words where there are too many to be counted, and nothing where the number is not known."""
    return "" if np.isnan(n) else f"over {statistics.MOST_TRIALS:,}" if np.isinf(n) else f"{n:.0f}"


def _with_interval(value: Estimate, digits: str) -> str:
    if np.isnan(value.mean):
        return ""
    interval = "" if np.isnan(value.low) else f" [{value.low:{digits}}, {value.high:{digits}}]"
    return f"{value.mean:{digits}}{interval}"
