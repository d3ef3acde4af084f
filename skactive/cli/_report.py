"""``skactive report``: one page about a campaign, without a network."""

from __future__ import annotations

import html
import io
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from ..campaign import Accuracy, Campaign
from ..campaign._accuracy import accuracy_of, picks_of
from ..campaign._models import cross_fitted, has_enough
from ..campaign._status import for_a_campaign, moments_of
from ..plotting import _drawing as drawing

MOST_POINTS = 8
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
figure { margin: 1rem 0; background: #fff; border-radius: .5rem; overflow-x: auto; }
svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .3rem .7rem; text-align: left;
border-bottom: 1px solid var(--line); white-space: nowrap; max-width: 20rem; overflow: hidden;
text-overflow: ellipsis; }
"""


def report_page(campaign: Campaign) -> str:
    """HTML of the page."""
    status = campaign.status()
    history = _accuracies(campaign)
    verdict = {
        "stop": "Stop: further labels are not worth their price",
        "go on": "Go on: labels still bring what they must",
        "too early": "Too early to tell whether to go on",
        "cannot be told": "Whether to go on cannot be told",
    }
    reported = for_a_campaign(str(status.report))
    tiles = "".join(f"<div><b>{value:,}</b>{name}</div>" for name, value in status.counts().items() if name != "rows")
    parts = [
        f"<h1>{html.escape(campaign.target)}: {html.escape(campaign.path.name)}</h1>",
        f'<p class="when">{datetime.now():%d %B %Y, %H:%M}; {status.n_rows:,} rows in all</p>',
        f'<div class="numbers">{tiles}</div>',
        "<h2>Whether to go on</h2>",
        f'<p class="verdict"><b>{verdict[status.report.verdict]}.</b> {html.escape(reported)}</p>'
        if status.report is not None
        else '<p class="verdict">There are no labels of two classes yet, so there is no model to ask.</p>',
        "<h2>How good the model is</h2>",
        f"<p>{html.escape(_capital(str(status.accuracy)))}.</p>"
        if status.accuracy is not None
        else "<p>Too few labels to tell: twenty are needed, two of each of two classes.</p>",
        _accuracy_figure(history, campaign.kind) if len(history) > 1 else "",
        "<h2>Labels so far</h2>",
        _labels_in_words(status.by_label),
        "<h2>The last batch</h2>",
        _last_batch(campaign),
    ]
    title = html.escape(f"{campaign.path.name}: {campaign.target}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(filter(None, parts))
        + "\n</body></html>\n"
    )


def _accuracies(campaign: Campaign) -> list[tuple[int, Accuracy]]:
    """Estimates at the moments when batches had come back."""
    state, batches, events = campaign._state(), campaign._store.batches(), campaign._store.events()
    found = []
    for n in moments_of(state)[-MOST_POINTS:]:
        rows = state.first_labelled(n)
        if not has_enough([state.labels[row] for row in rows], campaign.kind):
            continue
        X, y = campaign._training(rows, state)
        judged = cross_fitted(campaign._estimator(), X, y, campaign.kind, campaign.random_state)
        then = state.when(rows)
        if judged is not None:
            accuracy = accuracy_of(judged, y.tolist(), rows, then, picks_of(batches, events, then), campaign.kind)
            if accuracy is not None and not accuracy.n_more:
                found.append((len(rows), accuracy))
    return found


def _accuracy_figure(history: list[tuple[int, Accuracy]], kind: str) -> str:
    """The learning curve as SVG inside of the page; none without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.figure import Figure
    except ImportError:
        return "<p>No picture: matplotlib is not installed.</p>"
    figure = Figure(figsize=(7, 3), layout="constrained")
    words = _draw_accuracies(figure.add_subplot(), history, kind)
    written = io.StringIO()
    figure.savefig(written, format="svg")
    svg = written.getvalue()
    return f'<figure role="img" aria-label="{html.escape(words)}">{svg[svg.index("<svg") :]}</figure>'


def _draw_accuracies(ax: Any, history: list[tuple[int, Accuracy]], kind: str) -> str:
    labels = [n for n, _ in history]
    values = np.array([(one.value, one.low, one.high) for _, one in history])
    if kind == "classes":
        values = np.clip(100 * values, 0, 100)
        ax.set_ylim(0, 102)
    middle, low, high = values.T
    drawing.draw_band(ax, np.array(labels), middle, low, high, **drawing.styles(1)[0])
    ax.set_xlabel("labels")
    ax.set_ylabel("accuracy, %" if kind == "classes" else "root mean squared error")
    ax.spines[["top", "right"]].set_visible(False)
    return f"{history[-1][1].measure} by the number of labels, with 95 % intervals; last {middle[-1]:.3g}"


def _labels_in_words(by_label: Any) -> str:
    words = ", ".join(f"{label}: {n:g}" for label, n in by_label.items())
    return f"<p>{html.escape(words)}.</p>" if words else "<p>None yet.</p>"


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


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
