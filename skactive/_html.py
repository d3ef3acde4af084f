"""Results as small tables of HTML, which notebooks show in place of text.

A card has no script and no colours: text and lines are those of the page around it, light or dark. Texts are escaped,
cut where they are very long, and not read as formulas (a class may be called "$20-$30"). Long tables say how many rows
they leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

MOST_ROWS = 20
MOST_TABLES = 5
LONGEST_CELL, LONGEST_SENTENCE = 80, 1000

# Two classes in each selector, as notebooks have in theirs.
_STYLE = (
    ".skactive{overflow-x:auto}"
    ".skactive p{margin:.3em 0}"
    ".skactive .skactive-beside{align-items:flex-start;column-gap:3em;display:flex;flex-wrap:wrap}"
    ".skactive .skactive-table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0 .8em}"
    ".skactive .skactive-table caption{caption-side:top;color:inherit;font-weight:bold;padding:.2em 0;text-align:left}"
    ".skactive .skactive-table th,.skactive .skactive-table td{border-bottom:1px solid #8886;padding:.2em .6em;"
    "text-align:right;vertical-align:top;white-space:nowrap}"
    ".skactive .skactive-table thead th{vertical-align:bottom;white-space:normal}"
    ".skactive .skactive-table th:first-child,.skactive .skactive-table tfoot td{text-align:left}"
    ".skactive .skactive-sentences td{max-width:50em;text-align:left;white-space:normal}"
)


@dataclass(frozen=True)
class Table:
    """Texts in rows, each with its name first.

    Attributes
    ----------
    rows : sequence of sequences of str
    head : sequence of str
        Names of the columns; none if empty.
    title : str
    is_sentences : bool
        Whether cells hold sentences, on lines as long as they need, and not numbers.
    """

    rows: Sequence[Sequence[str]]
    head: Sequence[str] = ()
    title: str = ""
    is_sentences: bool = False

    def to_html(self) -> str:
        """The table, of `MOST_ROWS` rows at most."""
        longest = LONGEST_SENTENCE if self.is_sentences else LONGEST_CELL
        parts = [f'<table class="skactive-table{" skactive-sentences" * self.is_sentences}">']
        if self.title:
            parts.append(f"<caption>{_text(self.title, LONGEST_SENTENCE)}</caption>")
        if self.head:
            names = "".join(f'<th scope="col">{_text(name, longest)}</th>' for name in self.head)
            parts.append(f"<thead><tr>{names}</tr></thead>")
        parts.append(f"<tbody>{''.join(_row(row, longest) for row in self.rows[:MOST_ROWS])}</tbody>")
        n_more = len(self.rows) - MOST_ROWS
        if n_more > 0:
            words = "more row is" if n_more == 1 else "more rows are"
            left_out = f"{n_more:,} {words} left out, of {len(self.rows):,}"
            parts.append(f'<tfoot><tr><td colspan="{len(self.rows[0])}">{left_out}</td></tr></tfoot>')
        return "".join([*parts, "</table>"])


def card(title: str, tables: Sequence[Table], *, note: str = "", beside: bool = False) -> str:
    """A title, `MOST_TABLES` tables at most, below or beside each other, and a note."""
    # The last two classes keep MathJax out, of old notebooks and of new ones.
    parts = [f'<div class="skactive tex2jax_ignore mathjax_ignore"><style>{_STYLE}</style>']
    if title:
        parts.append(f"<p><strong>{_text(title, LONGEST_SENTENCE)}</strong></p>")
    parts.append('<div class="skactive-beside">' if beside else "<div>")
    tables = [table for table in tables if table.rows]
    parts += [table.to_html() for table in tables[:MOST_TABLES]]
    parts.append("</div>")
    n_more = len(tables) - MOST_TABLES
    if n_more > 0:
        parts.append(f"<p>{n_more:,} more {'table is' if n_more == 1 else 'tables are'} left out.</p>")
    if note:
        parts.append(f"<p>{_text(note, LONGEST_SENTENCE)}</p>")
    return "".join([*parts, "</div>"])


def _row(cells: Sequence[str], longest: int) -> str:
    name, *others = (_text(cell, longest) for cell in cells)
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'


def _text(text: str, longest: int) -> str:
    return escape(text if len(text) <= longest else f"{text[: longest - 1]}…")
