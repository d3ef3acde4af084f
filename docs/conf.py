"""Settings of the documentation: `python -m sphinx docs docs/_build`, from the top of the checkout."""

from pathlib import Path

import skactive
from skactive.posterior._registry import SOURCES

project = "skactive"
author = "The skactive developers"
copyright = f"2026, {author}"
version = release = skactive.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "myst_parser",  # for the changelog
]
exclude_patterns = ["_build", "changelog.d"]
default_role = "py:obj"  # `name` links to what is documented here, and is code otherwise
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the numpydoc sections
numpydoc_show_class_members = False  # the class template lists them

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"__init__|/paper/",
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}


def table_of_sources() -> str:
    """Tell what draws which estimator gives, from the registrations themselves."""
    rows = [("estimator", "a draw is", "its law", "cost beyond one prediction a draw")]
    for source in sorted(SOURCES, key=lambda source: source.module):
        names = ", ".join(f"``{type_.__name__}``" for type_ in source.types)
        rows.append((names, source.draws, source.kind, source.cost))
    wrappers = "``Pipeline``, fitted searches, ``FrozenEstimator``, tuned thresholds, ``RFE`` and other wrappers"
    rows.append((wrappers, "a draw of the model inside", "as inside", "none"))
    rows.append(
        ("``TransformedTargetRegressor``", "a draw of the model inside, in the units of y", "as inside", "none")
    )
    rows.append(("any other classifier or regressor", "a refit to resampled rows", "bootstrap", "a fit a draw"))
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def write_table_of_sources(app: object) -> None:
    """Write the table where the page on draws includes it; a test compares it with the registrations."""
    table = table_of_sources()
    path = Path(__file__).parent / "user_guide" / "sources.inc"
    if not path.exists() or path.read_text(encoding="utf-8") != table:
        path.write_text(table, encoding="utf-8")


def setup(app: object) -> None:
    """Make the table before any page is read."""
    app.connect("builder-inited", write_table_of_sources)  # type: ignore[attr-defined]


html_theme = "pydata_sphinx_theme"
html_title = f"skactive {release}"
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "logo": {"text": "skactive"},  # the version stands in the titles of pages
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "icon_links": [
        {"name": "Source code", "url": "https://github.com/skactive/skactive", "icon": "fa-brands fa-github"},
    ],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_static_path = ["_static"]
html_css_files = ["skactive.css"]
html_sidebars = {"index": [], "changelog": []}
html_show_sourcelink = False
