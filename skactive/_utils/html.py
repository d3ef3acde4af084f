"""Results as small HTML tables, which notebooks show in place of text; in their own colours, without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

MOST_ROWS = 20


@dataclass(frozen=True)
class Table:
    """Rows of texts, the name of each first; `is_sentences` says that cells hold sentences and not numbers."""

    rows: Sequence[Sequence[str]]
    head: Sequence[str] = ()
    title: str = ""
    is_sentences: bool = False

    def to_html(self) -> str:
        """The table, of `MOST_ROWS` rows at most."""
        align = "left" if self.is_sentences else "right"
        head = f"<thead><tr>{_cells(self.head, 'th', 'right')}</tr></thead>" if self.head else ""
        body = "".join(
            f"<tr>{_cells(row[:1], 'th')}{_cells(row[1:], 'td', align)}</tr>" for row in self.rows[:MOST_ROWS]
        )
        n_more = len(self.rows) - MOST_ROWS
        foot = f"<tfoot><tr><td>{n_more:,} more of {len(self.rows):,} rows</td></tr></tfoot>" if n_more > 0 else ""
        return f"<table><caption>{escape(self.title)}</caption>{head}<tbody>{body}</tbody>{foot}</table>"


def card(title: str, tables: Sequence[Table], *, note: str = "") -> str:
    # Both classes keep MathJax out, of old notebooks and of new ones: a class may be called "$20-$30".
    inside = "".join(table.to_html() for table in tables if table.rows)
    above = f"<p><strong>{escape(title)}</strong></p>" if title else ""
    below = f"<p>{escape(note)}</p>" if note else ""
    return f'<div class="tex2jax_ignore mathjax_ignore">{above}<div>{inside}</div>{below}</div>'


def _cells(texts: Sequence[str], tag: str, align: str = "left") -> str:
    return "".join(f'<{tag} style="text-align:{align}">{escape(text)}</{tag}>' for text in texts)
