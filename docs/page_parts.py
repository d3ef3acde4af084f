"""What pages need and Sphinx lacks: blocks that fold, MathJax beside the pages, descriptions, links to the guide.

The directive ``folded`` has the line that is always seen as its argument, and may hold anything but headings.
"""

import re
import shutil
from collections.abc import Iterator
from html import escape
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


def describe(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Describe a page by its first paragraph; the page for wrong addresses finds its styles from any of these."""
    if doctree is not None and 'name="description"' not in context["metatags"]:
        words = next((found.astext() for found in doctree.findall(nodes.paragraph)), "").split()
        context["metatags"] += f'<meta name="description" content="{escape(" ".join(words)[:300])}">'
    if page == "404" and app.config.html_baseurl:
        context["metatags"] += f'<base href="{escape(app.config.html_baseurl)}">'


def guide_pages(*references: Path) -> dict[str, list[str]]:
    """Pages of the guide for each object: those that the paragraph above its list in a page of the reference names."""

    def found() -> Iterator[tuple[str, list[str]]]:
        for reference in references:
            pages: list[str] = []
            for part in reference.read_text(encoding="utf-8").split("\n\n"):
                names = re.findall(r"^   ([\w.]+)$", part, re.MULTILINE)
                yield from ((f"skactive.{name}", pages) for name in names)
                pages = re.findall(r":doc:`(?:[^`<]*<)?(user_guide/\w+)", part) or pages

    return dict(found())


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("folded", Folded)
    app.connect("build-finished", copy_mathjax)
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
