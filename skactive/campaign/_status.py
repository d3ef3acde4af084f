"""Where a campaign stands, in numbers, a sentence and a table."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from .. import _html as html
from ..stopping import StoppingReport
from ._accuracy import Accuracy


@dataclass(frozen=True)
class Status:
    """Where a campaign stands.

    Attributes
    ----------
    n_rows, n_labels, n_out, n_skipped, n_disputed, n_left : int
        Rows of the table: with a label that counts, asked for and not answered yet, that nobody can label, whose
        annotators disagree so that none counts, and those that can still be asked for.
    n_asked, n_batches : int
        Rows that were asked for so far, in how many batches.
    by_label : dict
        How many rows have each label, the most frequent first; of numbers: least, mean and largest.
    out : DataFrame
        Rows that are out, indexed by id, with the batch and the time they were asked for.
    accuracy : Accuracy or None
        None with too few labels, or if it was not asked for.
    report : StoppingReport or None
        Whether to go on; None with less than two classes, or if it was not asked for.

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
    accuracy: Accuracy | None = None
    report: StoppingReport | None = None

    def counts(self) -> dict[str, int]:
        """How many rows are in each state, and how many batches there were, by short names."""
        names = ("rows", "labels", "out", "skipped", "disputed", "left", "batches")
        return {"labelled" if name == "labels" else name: getattr(self, f"n_{name}") for name in names}

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """One sentence for each thing to know."""
        return [self._on_rows(), *self._by_topic().values()]

    def _repr_html_(self) -> str:
        return html.card(self._on_rows(), [html.Table(list(self._by_topic().items()), is_sentences=True)])

    def _by_topic(self) -> dict[str, str]:
        """What there is to say beside the rows, by what it is about."""
        found = {}
        if self.by_label:
            counts = ", ".join(f"{label}: {n}" for label, n in label_numbers(self.by_label)[:12])
            found["labels"] = f"Labels: {counts}{', ...' if len(self.by_label) > 12 else ''}."
        if self.n_out:
            first = self.out.sort_values("batch").iloc[0]
            since = f"the first since {first['asked'][:10]} (batch {first['batch']})"
            found["out"] = f"{self.n_out} rows are out, {since}."
        if self.accuracy is not None:
            text = str(self.accuracy)
            found["accuracy"] = f"{text[0].upper()}{text[1:]}."
        if self.report is not None:
            found["report"] = for_a_campaign(str(self.report))
        return found

    def _on_rows(self) -> str:
        parts = [f"{self.n_labels:,} labelled", f"{self.n_out:,} out"]
        parts += [f"{n:,} {what}" for n, what in ((self.n_skipped, "skipped"), (self.n_disputed, "disputed")) if n]
        batches = "1 batch" if self.n_batches == 1 else f"{self.n_batches} batches"
        return f"{self.n_rows:,} rows: {', '.join(parts)}, {self.n_left:,} left; {batches} so far."


def label_numbers(by_label: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """Labels and how many rows have them, as texts; of numbers least, mean and largest."""
    return [(str(label), f"{n:,}" if isinstance(n, numbers.Integral) else f"{n:g}") for label, n in by_label.items()]


def for_a_campaign(text: str) -> str:
    """What a report says, without words for those who make reports themselves."""
    return text.replace("Pass this report as `previous` after the next batch.", "The next batch tells more.").replace(
        "labels for a test would tell (`test`)", "labels that are kept for a test would tell"
    )
