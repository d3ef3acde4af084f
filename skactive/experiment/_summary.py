"""Comparisons over trials: means, differences and labels saved, as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .._utils import html, statistics
from .._utils.statistics import Estimate

_NOTE = "In brackets: 95 % intervals over trials (Student's t). p: sign-flip tests of pairs, with Holm's correction."


@dataclass(frozen=True)
class Summary:
    """A table of comparisons: ``print`` and notebooks show it, `Summary.to_frame` makes a DataFrame of it.

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

    def to_frame(self) -> pd.DataFrame:
        """One row a score and query, with columns ``x``, ``x_low`` and ``x_high`` for every estimate ``x``."""
        return pd.DataFrame([_flat(row) for row in self.rows])

    def __str__(self) -> str:
        return "\n\n".join([*(f"{table.title}\n{_in_columns(table)}" for table in self._tables()), _NOTE])

    def _repr_html_(self, title: str = "") -> str:
        return html.card(title, self._tables(), note=_NOTE)

    def _tables(self) -> list[html.Table]:
        """The texts that are shown, a table for each score."""
        tables = []
        for score in dict.fromkeys(row["score"] for row in self.rows):
            cells = [_cells(row, self.reference) for row in self.rows if row["score"] == score]
            rows = [list(row.values()) for row in cells]
            tables.append(html.Table(rows, head=list(cells[0]), title=f"{score}: {self.title}"))
        return tables


@dataclass(frozen=True)
class Curve:
    """One query in one trial: number of labels, and score, at each evaluation."""

    n_labelled: list[int]
    scores: list[float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores[1:])) if len(self.scores) > 1 else np.nan

    def labels_to(self, level: float) -> float:
        return statistics.labels_to_reach(level, self.n_labelled, self.scores)


def compare(
    score: str,
    query: str,
    means: dict[str, dict[int, float]],
    runs: dict[str, dict[int, Curve]],
    reference: str,
    level: float,
    margin: float,
) -> dict[str, Any]:
    """The row of a query in `ExperimentResult.summary`."""
    mine, theirs = means[query], means[reference]
    differences = [mine[t] - theirs[t] for t in mine if t in theirs] if query != reference else []
    labels = [n for n in (run.labels_to(level) for run in runs[query].values()) if not np.isnan(n)]
    return {
        "score": score,
        "query": query,
        "n_trials": len(mine),
        "mean": statistics.estimate(mine.values()),
        "difference": statistics.estimate(differences),
        "verdict": statistics.verdict_of(statistics.estimate(differences), margin),
        "trials_to_tell": statistics.trials_to_tell(differences),
        "p_value": statistics.paired_p_value(differences),
        "level": level,
        "reached": len(labels),
        "labels": statistics.estimate(labels),
    }


def savings(
    score: str, query: str, mine: dict[int, Curve], theirs: dict[int, Curve], level: float | None
) -> dict[str, Any]:
    """The row of a query in `ExperimentResult.label_savings`."""
    saved = []
    for t in (t for t in mine if t in theirs):
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


def with_holm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with p-values corrected for the number of rows."""
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


def _in_columns(table: html.Table) -> str:
    """Columns of text, as wide as their longest cell."""
    everything = [table.head, *table.rows]
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]
    lines = (zip(line, widths, strict=True) for line in everything)
    return "\n".join("  ".join(cell.rjust(width) for cell, width in line) for line in lines)


def _cells(row: dict[str, Any], reference: str) -> dict[str, str]:
    """A row as text, under the names that the printed table shows."""
    cells = {"query": row["query"], "trials": str(row["n_trials"])}
    p = {"p": "" if np.isnan(row["p_holm"]) else f"{row['p_holm']:.2g}"}
    if "saved" in row:
        return {**cells, f"labels saved against {reference}": _with_interval(row["saved"], "+.1f"), **p}
    cells["mean"] = _with_interval(row["mean"], ".3f")
    cells[f"minus {reference}"] = _with_interval(row["difference"], "+.3f")
    cells["verdict"] = row["verdict"]
    open_ = row["verdict"] == "cannot be told" and not np.isnan(row["trials_to_tell"])
    cells["trials to tell"] = f"{row['trials_to_tell']:.0f}" if open_ else ""
    reached = "" if row["reached"] == row["n_trials"] else f" ({row['reached']} of {row['n_trials']})"
    return {**cells, **p, f"labels to {row['level']:.3g}": _with_interval(row["labels"], ".1f") + reached}


def _with_interval(value: Estimate, digits: str) -> str:
    if np.isnan(value.mean):
        return ""
    interval = "" if np.isnan(value.low) else f" [{value.low:{digits}}, {value.high:{digits}}]"
    return f"{value.mean:{digits}}{interval}"
