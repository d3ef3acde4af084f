"""What a campaign shows: tables of its rows, labels and events, and a card for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import _html as html
from ._state import State
from ._status import Status, label_numbers
from ._store import Event


def surprising(judged: pd.DataFrame, state: State, X: pd.DataFrame, kind: str, n: int) -> pd.DataFrame:
    """Labelled rows, those first whose label surprises models that were not taught it.

    ``judged`` is what these say, and ``X`` are the labelled rows.
    """
    rows = list(state.labels)
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
    disputes = state.disagreements()
    found["disputed"] = [row in disputes for row in rows]
    beside = X.rename(columns={c: f"{c} of the row" for c in X.columns if c in found.columns})
    return pd.concat([found, beside], axis=1).iloc[order[:n]]


def disputes_of(state: State, ids: Sequence[Any], name: str) -> pd.DataFrame:
    """Rows whose annotators do not say the same: what each of them says, and the label that counts."""
    found = state.disagreements()
    index = pd.Index([ids[row] for row in found], dtype=object, name=name)
    names = sorted({name for votes in found.values() for name in votes})
    data = {_heading(name): [votes.get(name) for votes in found.values()] for name in names}
    return pd.DataFrame({**data, "label": [state.labels.get(row) for row in found]}, index=index, dtype=object)


def _heading(annotator: str) -> str:
    return "label (annotator)" if annotator == "label" else annotator or "(nobody named)"


def table_of(events: Sequence[Event], ids: Sequence[Any]) -> pd.DataFrame:
    """Events as rows of a table."""
    return pd.DataFrame(
        {
            "time": pd.to_datetime([event.time for event in events], utc=True),
            "kind": [event.kind for event in events],
            "id": pd.Series([ids[event.row] for event in events], dtype=object),
            "label": pd.Series([event.label for event in events], dtype=object),
            "annotator": [event.annotator for event in events],
            "batch": pd.array([event.batch for event in events], dtype="Int64"),
            "log_proba": pd.Series([event.log_proba for event in events], dtype=float),
        }
    )


def by_label(labels: list[Any], kind: str) -> dict[Any, Any]:
    """How many rows have each label, the most frequent first; of numbers the least, the mean and the largest."""
    if not labels:
        return {}
    if kind == "classes":
        return dict(Counter(labels).most_common())
    return {"least": min(labels), "mean": float(np.mean(labels)), "largest": max(labels)}


def card(status: Status, name: str, target: str) -> str:
    """Counts of a campaign in HTML."""
    counts = [[what, f"{n:,}"] for what, n in status.counts().items()]
    tables = [html.Table(counts), html.Table(label_numbers(status.by_label))]
    return html.card(f"Campaign {name}: {target}", tables, beside=True)
