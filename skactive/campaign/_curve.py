"""A picture of the accuracy so far, for pages: SVG that needs no library, in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._accuracy import Accuracy

# From 0 to 1 in both directions within the axes; blues of Okabe and Ito (2008), as in the displays.
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 330 138" font-family="system-ui" font-size="16">
<style>:root {{ color-scheme: light dark; }}</style><path d="M58 12V112H322" fill="none" stroke="gray"/>
<g transform="translate(58 112) scale(264 -100)" color="light-dark(#0072b2, #56b4e9)" fill="none">
<polygon points="{band}" fill="currentColor" fill-opacity="0.25"/>
<polyline points="{line}" stroke="currentColor" stroke-width="2.5" vector-effect="non-scaling-stroke"/></g>
<g fill="CanvasText"><text x="52" y="18" text-anchor="end">{top}</text><text x="52" y="116" text-anchor="end">0</text>
<text x="58" y="132">{first}</text><text x="322" y="132" text-anchor="end">{last} labels</text></g></svg>
"""


def curve_of(found: Sequence[tuple[int, Accuracy]]) -> tuple[str, str]:
    """The picture of accuracies by numbers of labels, and what it shows in words; both empty with less than two.

    An error has no upper end: its interval goes up to the edge.
    """
    told = sorted({n: one for n, one in found if np.isfinite(one.value)}.items())  # the last of each number
    if len(told) < 2:
        return "", ""
    n, values = np.array([n for n, _ in told]), np.array([(one.low, one.value, one.high) for _, one in told])
    measure = told[0][1].measure
    top = 1.0 if measure == "accuracy" else 1.25 * values[:, 1].max() or 1.0
    x, (low, middle, high) = (n - n[0]) / max(np.ptp(n), 1), np.clip(values, 0, top).T / top
    drawn = {"band": _points([*x, *x[::-1]], [*high, *low[::-1]]), "line": _points(x, middle)}
    words = "; ".join(f"{n} labels, {one._shown(one).replace('95 % interval ', '')}" for n, one in told)
    ends = {"first": n[0], "last": n[-1], "top": "100 %" if measure == "accuracy" else f"{top:.2g}"}
    return SVG.format(**drawn, **ends), f"{measure} by labels: {words}"


def _points(x: Any, y: Any) -> str:
    return " ".join(f"{a:.4f},{b:.4f}" for a, b in zip(x, y, strict=True))
