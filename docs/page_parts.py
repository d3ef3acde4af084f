"""What pages need and Sphinx lacks: formulas as MathML, which need no script, and blocks that fold.

The directive ``folded`` has the line that is always seen as its argument, and may hold anything but headings.
"""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)


def mathml(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return latex2mathml.tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        LOGGER.warning("no formula: %s", error, location=node)
        return ""


def visit_math(self: Any, node: nodes.Element) -> None:
    self.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_math_block(self: Any, node: nodes.Element) -> None:
    self.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


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


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.add_directive("folded", Folded)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
