"""The picture of the front page: ``python docs/images/fewer_labels.py`` writes fewer_labels.png.

All its numbers are those of docs/paper/many_trials.json, which ``python examples/paper/many_trials.py --full`` makes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from skactive.plotting import _drawing as drawing

HERE = Path(__file__).parent
RESULTS = HERE.parent / "paper" / "many_trials.json"
# Colours of the palette, and lines that differ without them; the height at which the name stands beside its line.
LINES: dict[str, tuple[str, str, str, float]] = {
    "power β=4": ("sampled\nbatches", drawing.COLOURS[0], "-", 0.903),
    "uniform": ("random\nchoice", drawing.COLOURS[6], "--", 0.860),
    "topk": ("top of the\nranking", drawing.COLOURS[1], "-.", 0.816),
}


def draw(findings: dict[str, Any]) -> Any:
    """Accuracy by labels, and how many fewer of them sampled batches need; readable if shown 350 pixels wide."""
    plt.rcParams.update({"font.size": 12, "font.family": "DejaVu Sans"})
    figure, ax = plt.subplots(figsize=(5.2, 3.7), layout="constrained")
    fewer = {reference: findings["fewer"][f"power β=4 than {reference}"] for reference in ("uniform", "topk")}
    for query, (name, color, style, height) in LINES.items():
        points = findings["curves"][query]
        labels, (mean, low, high) = [int(n) for n in points], np.array(list(points.values())).T
        ax.plot(labels, mean, style, color=color, lw=2.5)
        ax.fill_between(labels, low, high, color=color, alpha=0.2, lw=0)
        ax.annotate(name, (101.5, height), color=color, weight="bold", va="center", annotation_clip=False)
        if query in fewer:
            arrow = {"arrowstyle": "->", "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (labels[-1] - fewer[query][0], mean[-1]), (labels[-1], mean[-1]), arrowprops=arrow)
    ax.set(xlabel="labels", ylabel="accuracy", xlim=(20, 101), ylim=(0.66, 0.91))
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    ax.spines[["top", "right"]].set_visible(False)
    title = (
        "The same accuracy with {0[0]:.0f} fewer labels\n"
        "than random choice [{0[1]:.0f}, {0[2]:.0f}], {1[0]:.0f} than the top [{1[1]:.0f}, {1[2]:.0f}]"
    )
    figure.suptitle(title.format(fewer["uniform"], fewer["topk"]), x=0.02, ha="left", fontsize=12)
    return figure


def main() -> None:
    """Draw it, in 64 colours: a quarter of the bytes."""
    path = HERE / "fewer_labels.png"
    draw(json.loads(RESULTS.read_text(encoding="utf-8"))["findings"]).savefig(path, dpi=200)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(64)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
