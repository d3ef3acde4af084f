"""The learning curves of a result as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ._files import written_whole

if TYPE_CHECKING:
    from ..experiment import ExperimentResult

PICTURES = (".png", ".pdf", ".svg")
NO_MATPLOTLIB = 'No picture: matplotlib is not installed. Install it by python -m pip install "skactive[plot]".'


def save_curves(result: ExperimentResult, output: Path, *, force: bool, title: str | None = None) -> str:
    """Draw the curves of all queries, and tell in a sentence what the file holds, or why there is none."""
    try:
        import matplotlib
    except ImportError:
        return NO_MATPLOTLIB
    from ..plotting import LearningCurveDisplay

    matplotlib.use("Agg")
    display = LearningCurveDisplay.from_result(result)
    if title is not None:
        display.ax_.set_title(title, fontsize="medium")
    with written_whole(output, force=force) as temporary:
        display.figure_.savefig(temporary, dpi=150)
    return f"{output} shows the learning curves."
