"""``skactive report``: a page with the status of a campaign, its learning curve and its last batch."""

from __future__ import annotations

import html
from datetime import datetime
from typing import Any

import pandas as pd

from ..campaign import Campaign
from ..campaign._curve import curve_of
from ..campaign._status import moments_of

MOST_POINTS = 8
SHOWN_COLUMNS = 8

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1rem 0; }
svg { display: block; max-width: 40rem; }
table { border-collapse: collapse; }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid #8886; }
.wide { overflow-x: auto; }
.wide td { white-space: nowrap; max-width: 20rem; overflow: hidden; text-overflow: ellipsis; }
"""


def report_page(campaign: Campaign, *, with_rows: bool = True, **options: Any) -> str:
    """HTML of the page; options of `Campaign.status`."""
    columns = campaign.columns() if with_rows else campaign.columns().drop(columns=["example", "row"])
    batch = f"<h2>The last batch</h2>\n{_last_batch(campaign)}\n" if with_rows else ""
    title = html.escape(f"{campaign.target}: {campaign.path.name}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n"
        f"<h1>{title}</h1>\n<p>{datetime.now():%d %B %Y, %H:%M}</p>\n{campaign.status(**options)._repr_html_()}\n"
        f"{_learning_curve(campaign)}\n{batch}<h2>How columns are read</h2>\n{columns.fillna('').to_html(border=0)}\n"
        "</body></html>\n"
    )


def _learning_curve(campaign: Campaign) -> str:
    """The accuracies when batches had come back, if there are several to draw."""
    state = campaign._state()
    svg, words = curve_of(campaign._accuracies(state, moments_of(state)[-MOST_POINTS:]))
    return svg and f'<figure role="img" aria-label="{html.escape(words)}">{svg}</figure>'


def _last_batch(campaign: Campaign) -> str:
    """The rows, with what is known of them by now."""
    history, table = campaign.history(), campaign.to_frame()
    asked = history[history["kind"] == "ask"]
    if asked.empty:
        return "<p>No rows have been asked for yet.</p>"
    last = int(asked["batch"].max())
    ids = asked["id"][asked["batch"] == last]
    frame = table.loc[[id for id in ids if id in table.index]]  # others are gone from the table
    labels = frame.pop(campaign.target)
    words = {"ask": "waiting", "undo": "waiting", "skip": "skipped", "withdraw": "put back"}
    fates = history.groupby("id")["kind"].last().map(words)
    shown = frame.iloc[:, :SHOWN_COLUMNS]
    shown.insert(0, campaign.target, labels.astype(object).where(labels.notna(), fates.reindex(frame.index)))
    n_more = frame.shape[1] - SHOWN_COLUMNS
    more = f"<p>{n_more} more columns are left out.</p>" if n_more > 0 else ""
    with pd.option_context("display.max_colwidth", None):  # whole texts, which the page cuts to the screen
        gapless = shown.astype(object).where(shown.notna(), "–").reset_index()
        table = gapless.to_html(index=False, border=0, float_format="{:.6g}".format)
    return f'<p>Batch {last}, {len(shown)} rows.</p><div class="wide">{table}</div>{more}'
