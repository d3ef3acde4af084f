"""How the gallery of examples is built: its order, and the words for its pictures.

An example tells its pictures to those who cannot see them in comments, ``# Picture: ...``, one for each figure, in the
order of the figures. They may go on over several lines of the comment, and end in a full stop.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FIRST = (
    "plot_modal_loop",
    "plot_text",
    "plot_regression",
    "plot_campaign",
    "plot_accuracy_without_a_test_set",
    "plot_stopping",
)
COMMENT = re.compile(r"^ *# Picture: (.*(?:\n *# .*)*)", re.MULTILINE)


def told(code: str) -> list[str]:
    """What comments in a block of code say of its pictures."""
    return [" ".join(line.strip().removeprefix("# ") for line in words.splitlines()) for words in COMMENT.findall(code)]


def pictures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Keep the figures of a block, with these words as their alternative texts."""
    from sphinx_gallery.scrapers import matplotlib_scraper  # which reading the words does not need

    text = matplotlib_scraper(block, block_vars, gallery_conf)
    words = [sentence.replace('"', "'") for sentence in told(block[1])]  # which the page does not escape
    if text.count(":alt:") != len(words):
        raise ValueError(
            f"{block_vars['src_file']}: the block of line {block[2]} draws {text.count(':alt:')} figures and tells "
            f"{len(words)} of them. Write a comment `# Picture: ...` for each."
        )
    remaining = iter(words)
    return re.sub(r":alt: .*", lambda _: f":alt: {next(remaining)}", text)


def place(name: str) -> tuple[int, str]:
    """The examples of tasks come first, those that explain a method by name."""
    stem = Path(name).stem
    return (FIRST.index(stem) if stem in FIRST else len(FIRST), stem)
