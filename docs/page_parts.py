"""What pages need and Sphinx lacks: blocks that fold, and MathJax beside the pages rather than from elsewhere.

The directive ``folded`` has the line that is always seen as its argument, and may hold anything but headings.
"""

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Folded(SphinxDirective):
    """A block that opens when its summary is clicked."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        summary, messages = self.parse_inline(self.arguments[0])
        return [
            nodes.raw("", '<details class="folded"><summary>', format="html"),
            nodes.inline("", "", *summary),
            nodes.raw("", "</summary>", format="html"),
            *self.parse_content_to_nodes(),
            nodes.raw("", "</details>", format="html"),
            *messages,
        ]


def copy_mathjax(app: Any, error: Exception | None) -> None:
    """What pages with formulas load, of the 24 MB that the package has."""
    if error or app.builder.format != "html":
        return
    source = Path(str(import_module("sphinx-mathjax-offline").__file__)).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    shutil.copytree(source / "output/chtml/fonts", target / "output/chtml/fonts", dirs_exist_ok=True)
    shutil.copy(source / "tex-chtml.js", target)


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("folded", Folded)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
