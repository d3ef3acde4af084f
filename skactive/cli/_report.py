"""``skactive report``: one page about a campaign, without a network."""

from __future__ import annotations

import html
from datetime import datetime

import pandas as pd

from ..campaign import Campaign
from ..campaign._status import for_a_campaign

SHOWN_COLUMNS = 8

STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.when { margin-top: .2rem; opacity: .7; }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem; }
.numbers div { background: var(--soft); border-radius: .5rem; padding: .6rem 1rem; min-width: 7rem; }
.numbers b { display: block; font-size: 1.6rem; }
.verdict { border-left: .3rem solid #0072B2; padding-left: 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .3rem .7rem; text-align: left;
border-bottom: 1px solid var(--line); white-space: nowrap; max-width: 20rem; overflow: hidden;
text-overflow: ellipsis; }
"""


def report_page(campaign: Campaign) -> str:
    """HTML of the page."""
    status = campaign.status()
    verdict = {
        "stop": "Stop: further labels are not worth their price",
        "go on": "Go on: labels still bring what they must",
        "too early": "Too early to tell whether to go on",
        "cannot be told": "Whether to go on cannot be told",
    }
    tiles = "".join(f"<div><b>{value:,}</b>{name}</div>" for name, value in status.counts().items() if name != "rows")
    reported = "There are no labels of two classes yet, so there is no model to ask."
    if status.report is not None:
        reported = f"{verdict[status.report.verdict]}. {for_a_campaign(str(status.report))}"
    accuracy = "Too few labels to tell: twenty are needed, two of each of two classes"
    if status.accuracy is not None:
        accuracy = str(status.accuracy)[0].upper() + str(status.accuracy)[1:]
    by_label = ", ".join(f"{label}: {n:g}" for label, n in status.by_label.items()) or "None yet"
    parts = [
        f"<h1>{html.escape(campaign.target)}: {html.escape(campaign.path.name)}</h1>",
        f'<p class="when">{datetime.now():%d %B %Y, %H:%M}; {status.n_rows:,} rows in all</p>',
        f'<div class="numbers">{tiles}</div>',
        f'<h2>Whether to go on</h2>\n<p class="verdict">{html.escape(reported)}</p>',
        f"<h2>How good the model is</h2>\n<p>{html.escape(accuracy)}.</p>",
        f"<h2>Labels so far</h2>\n<p>{html.escape(by_label)}.</p>",
        f"<h2>The last batch</h2>\n{_last_batch(campaign)}",
    ]
    title = html.escape(f"{campaign.path.name}: {campaign.target}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _last_batch(campaign: Campaign) -> str:
    """The rows, with what is known of them by now."""
    history, table = campaign.history(), campaign.to_frame()
    asked = history[history["kind"] == "ask"]
    if asked.empty:
        return "<p>No row was asked for yet.</p>"
    last = int(asked["batch"].max())
    ids = asked["id"][asked["batch"] == last]
    frame = table.loc[[id for id in ids if id in table.index]]  # others are gone from the table
    labels = frame.pop(campaign.target)
    events = history.drop_duplicates("id", keep="last").set_index("id")["kind"]
    fates = events.map({"ask": "out", "skip": "skipped", "withdraw": "put back"}).reindex(frame.index)
    shown = frame.iloc[:, :SHOWN_COLUMNS]
    shown.insert(0, campaign.target, labels.astype(object).where(labels.notna(), fates))
    n_more = frame.shape[1] - SHOWN_COLUMNS
    more = f"<p>{n_more} more columns are left out.</p>" if n_more > 0 else ""
    shown = shown.reset_index()
    with pd.option_context("display.max_colwidth", None):  # whole texts, which the page cuts to the screen
        gapless = shown.astype(object).where(shown.notna(), "–")
        table = gapless.to_html(index=False, border=0, float_format="{:.6g}".format)
    return f'<p>Batch {last}, {len(shown)} rows.</p><div class="wide">{table}</div>{more}'
