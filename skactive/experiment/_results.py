"""What an experiment found: records of rounds, their failures, and what they say over all trials."""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .. import _statistics as statistics
from .._checks import check_reference, import_optional
from .._statistics import Estimate


@dataclass(frozen=True)
class Round:
    """One round of one run: what was bought, and how good the model was after it.

    Attributes
    ----------
    trial, round : int
    query : str
    n_labelled : int
        Labels that the model was fitted to.
    indices : tuple of int
        Positions of the rows bought in this round in the caller's X, most preferred first; the first labels in round 0.
    scores : dict of str to float
    query_seconds : float or None
        What choosing took, None in round 0.
    fit_seconds : float
    """

    trial: int
    query: str
    round: int
    n_labelled: int
    indices: tuple[int, ...]
    scores: dict[str, float]
    query_seconds: float | None
    fit_seconds: float

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Round:
        """The round that JSON was made of."""
        return cls(**{**record, "indices": tuple(record["indices"])})


@dataclass(frozen=True)
class Failure:
    """A run that an error ended: where, and the error with its traceback as text."""

    trial: int
    query: str
    round: int
    type: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: Exception, trial: int, query: str, round_: int) -> Failure:
        """The failure that an exception is."""
        text = "".join(traceback.format_exception(error))
        return cls(trial, query, round_, type(error).__name__, str(error), text)


@dataclass(frozen=True)
class ExperimentResult:
    """What `run_experiment` returns.

    Attributes
    ----------
    rounds : tuple of Round
        Every round of every run, by trial, query and round. A run is one query in one trial.
    failures : tuple of Failure
        Runs that an error ended. Their finished rounds are in `rounds`; summaries leave such runs out.
    settings : dict
        What was run: estimator, queries, sizes, seeds and versions, as plain JSON.

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

    @property
    def queries(self) -> list[str]:
        """Names of the queries, in the order they were given in."""
        return list(dict.fromkeys([*self.settings.get("queries", ()), *(r.query for r in self.rounds)]))

    @property
    def score_names(self) -> list[str]:
        """Names of the scores."""
        return list(self.rounds[0].scores) if self.rounds else []

    def to_frame(self) -> Any:
        """One row a round.

        Returns
        -------
        pandas.DataFrame
            Columns: trial, query, round, n_labelled, indices, one a score, query_seconds (NaN in round 0), fit_seconds.
        """
        pandas = import_optional("pandas", "to_frame", "pandas")
        rows = []
        for record in self.rounds:
            row = asdict(record)
            scores, seconds = row.pop("scores"), {name: row.pop(name) for name in ("query_seconds", "fit_seconds")}
            rows.append({**row, **scores, **seconds})
        return pandas.DataFrame(rows).astype({"query_seconds": float})

    def to_json(self) -> str:
        """All of it as text; `from_json` makes an equal result of it, to the last bit."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ExperimentResult:
        """The result that `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON itself, not the name of a file.

        Returns
        -------
        ExperimentResult
        """
        parts = json.loads(text)
        rounds = tuple(map(Round.from_dict, parts["rounds"]))
        return cls(rounds, tuple(Failure(**f) for f in parts["failures"]), parts["settings"])

    def summary(self, reference: str | None = None, *, level: float | None = None) -> Summary:
        """Compare the queries over all trials.

        Parameters
        ----------
        reference : str, optional
            The query that the others are compared with: by default "uniform" if there is one, else the first.
        level : float, optional
            Score for which to count the labels needed. By default the highest that every run reaches, for each score
            its own.

        Returns
        -------
        Summary
            For each score and query: ``mean``, over acquisitions (the first labels left out) and then trials; with
            ``batch_size="auto"`` over labels instead, as far as all runs came, by straight lines between evaluations;
            ``labels``, those of the first evaluation that reaches ``level``, over the ``reached`` trials that do;
            ``difference`` of ``mean`` to the reference in the same trials, with the p-value of a paired t-test, as it
            is (``p_value``) and corrected for the number of queries (``p_holm``). Intervals are Student's, 95 %, and
            not corrected. Runs that failed are left out, and so are trials that the reference failed in of
            differences.

        References
        ----------
        Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure.
        """
        reference = check_reference(reference, self.queries)
        rows: list[dict[str, Any]] = []
        for score in self.score_names:
            runs = self._complete_runs(score)
            best = [max(run.scores) for of in runs.values() for run in of.values()]
            goal = min(best, default=np.nan) if level is None else level
            means = self._means(runs)
            rows += _with_holm([_compare(score, query, means, runs, reference, goal) for query in runs])
        kind = "labels" if self._sizes_differ else "acquisitions, the first labels left out"
        return Summary(f"mean over {kind}", reference, rows)

    def label_savings(self, reference: str | None = None, *, level: float | None = None) -> Summary:
        """How many labels fewer than the reference each query needs.

        Parameters
        ----------
        reference : str, optional
            By default "uniform" if there is such a query, else the first.
        level : float, optional
            Score to reach. By default, trial by trial, the highest that both the query and the reference reach: so no
            trial is left out, and two queries of equal worth save 0 on average, whichever is the reference.

        Returns
        -------
        Summary
            For each score and query: ``saved``, labels of the reference's first evaluation at the level minus those of
            the query's, over the ``n_trials`` trials in which both reach it, with p-values as in `summary`.
        """
        reference = check_reference(reference, self.queries)
        rows: list[dict[str, Any]] = []
        for score in self.score_names:
            runs = self._complete_runs(score)
            of = [_save(score, query, runs[query], runs[reference], level) for query in runs if query != reference]
            rows += _with_holm(of)
        return Summary("labels saved", reference, rows)

    @property
    def _sizes_differ(self) -> bool:
        return self.settings.get("batch_size") == "auto"

    def _means(self, runs: dict[str, dict[int, _Run]]) -> dict[str, dict[int, float]]:
        """Of each run, by query and trial."""
        if not self._sizes_differ:
            return {query: {t: run.mean for t, run in of.items()} for query, of in runs.items()}
        everything = [run.n_labelled for of in runs.values() for run in of.values()]
        ends = max((n[0] for n in everything), default=0), min((n[-1] for n in everything), default=0)
        return {query: {t: run.mean_over_labels(*ends) for t, run in of.items()} for query, of in runs.items()}

    def _complete_runs(self, score: str) -> dict[str, dict[int, _Run]]:
        """Runs that did not fail, by query and trial."""
        failed = {(f.query, f.trial) for f in self.failures}
        runs: dict[str, dict[int, _Run]] = {query: {} for query in self.queries}
        for record in self.rounds:
            if (record.query, record.trial) not in failed:
                run = runs[record.query].setdefault(record.trial, _Run([], []))
                run.n_labelled.append(record.n_labelled)
                run.scores.append(record.scores[score])
        return runs


@dataclass(frozen=True)
class Summary:
    """A table of comparisons: ``print`` shows it, `to_frame` makes a DataFrame of it.

    Attributes
    ----------
    title : str
    reference : str
        The query that differences are to.
    rows : list of dict
        One a score and query. Estimates have a ``mean`` and the ends of a 95 % interval, ``low`` and ``high``.
    """

    title: str
    reference: str
    rows: list[dict[str, Any]]

    def to_frame(self) -> Any:
        """One row a score and query, with columns ``x``, ``x_low`` and ``x_high`` for every estimate ``x``.

        Returns
        -------
        pandas.DataFrame
        """
        return import_optional("pandas", "to_frame", "pandas").DataFrame([_flat(row) for row in self.rows])

    def __str__(self) -> str:
        scores = dict.fromkeys(row["score"] for row in self.rows)
        blocks = [f"{score}: {self.title}\n{self._format(score)}" for score in scores]
        note = "In brackets: 95 % intervals over trials (Student's t). p: paired t-tests, with Holm's correction."
        return "\n\n".join([*blocks, note])

    def _format(self, score: str) -> str:
        """Columns of text, as wide as they need be."""
        cells = [_cells(row, self.reference) for row in self.rows if row["score"] == score]
        table = [list(cells[0]), *(list(row.values()) for row in cells)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = (zip(line, widths, strict=True) for line in table)
        return "\n".join("  ".join(cell.rjust(width) for cell, width in line) for line in lines)


@dataclass(frozen=True)
class _Run:
    """One query in one trial: labels and score at each evaluation."""

    n_labelled: list[int]
    scores: list[float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores[1:])) if len(self.scores) > 1 else np.nan

    def mean_over_labels(self, first: int, last: int) -> float:
        return statistics.mean_over_labels(self.n_labelled, self.scores, first, last)

    def labels_to(self, level: float) -> float:
        return statistics.labels_to_reach(level, self.n_labelled, self.scores)


def _compare(
    score: str,
    query: str,
    means: dict[str, dict[int, float]],
    runs: dict[str, dict[int, _Run]],
    reference: str,
    level: float,
) -> dict[str, Any]:
    mine, theirs = means[query], means[reference]
    differences = [mine[t] - theirs[t] for t in mine if t in theirs] if query != reference else []
    labels = [n for n in (run.labels_to(level) for run in runs[query].values()) if not np.isnan(n)]
    return {
        "score": score,
        "query": query,
        "n_trials": len(mine),
        "mean": statistics.estimate(mine.values()),
        "difference": statistics.estimate(differences),
        "p_value": statistics.paired_p_value(differences),
        "level": level,
        "reached": len(labels),
        "labels": statistics.estimate(labels),
    }


def _save(
    score: str, query: str, mine: dict[int, _Run], theirs: dict[int, _Run], level: float | None
) -> dict[str, Any]:
    saved = []
    for t in mine.keys() & theirs.keys():
        goal = min(max(mine[t].scores), max(theirs[t].scores)) if level is None else level
        saved.append(theirs[t].labels_to(goal) - mine[t].labels_to(goal))
    saved = [labels for labels in saved if not np.isnan(labels)]
    return {
        "score": score,
        "query": query,
        "n_trials": len(saved),
        "saved": statistics.estimate(saved),
        "p_value": statistics.paired_p_value(saved),
    }


def _with_holm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their p-values corrected for one another."""
    corrected = statistics.holm([row["p_value"] for row in rows])
    return [{**row, "p_holm": p} for row, p in zip(rows, corrected, strict=True)]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate):
            flat |= {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
        else:
            flat[name] = value
    return flat


def _cells(row: dict[str, Any], reference: str) -> dict[str, str]:
    """A row as text, with its columns named for people."""
    cells = {"query": row["query"], "trials": str(row["n_trials"])}
    p = {"p": "" if np.isnan(row["p_holm"]) else f"{row['p_holm']:.2g}"}
    if "saved" in row:
        return {**cells, f"labels saved against {reference}": _with_interval(row["saved"], "+.1f"), **p}
    cells["mean"] = _with_interval(row["mean"], ".3f")
    cells[f"minus {reference}"] = _with_interval(row["difference"], "+.3f")
    reached = "" if row["reached"] == row["n_trials"] else f" ({row['reached']} of {row['n_trials']})"
    return {**cells, **p, f"labels to {row['level']:.3g}": _with_interval(row["labels"], ".1f") + reached}


def _with_interval(value: Estimate, digits: str) -> str:
    if np.isnan(value.mean):
        return ""
    interval = "" if np.isnan(value.low) else f" [{value.low:{digits}}, {value.high:{digits}}]"
    return f"{value.mean:{digits}}{interval}"
