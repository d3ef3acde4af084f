"""Settings of the documentation: `python -m sphinx docs docs/_build`, from the top of the checkout."""

import inspect
import os
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # of gallery.py and page_parts.py

import page_parts

import skactive

REPOSITORY = "https://github.com/skactive/skactive"

project = "skactive"
author = "The skactive developers"
copyright = f"2026, {author}"
version = release = skactive.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "myst_parser",  # for the changelog
    "page_parts",  # beside this file
]
exclude_patterns = ["_build", "changelog.d", "**sg_execution_times.rst"]  # the last loads scripts from elsewhere
default_role = "py:obj"  # `name` links to what is documented here, and is code otherwise
templates_path = ["_templates"]

# Links to the documentation of other packages need the network: set DOCS_INTERSPHINX=1 to have them. Without, the names
# of other packages stay code.
if os.environ.get("DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "numpy": ("https://numpy.org/doc/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
    }

# A button copies code without its prompts, and nothing of what is printed.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

mathjax_path = "mathjax/tex-chtml.js"  # copied to _static by page_parts: no page loads a script from elsewhere

# numpydoc links fitted attributes that are properties, such as `log_proba_`, to pages of their own. They have none: all
# that is to be said of them stands there. Such names are code.
nitpick_ignore_regex = [("py:obj", r"[a-z_]+_")]

autosummary_generate = True
autosummary_context = {"guide_pages": page_parts.guide_pages(HERE / "api.rst", HERE / "api_authors.rst")}
maximum_signature_line_length = 88  # longer ones have a line for each parameter
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
    "image_scrapers": ("gallery.pictures",),
    "within_subsection_order": "gallery.place",
    "backreferences_dir": "auto_examples/backreferences",
    "doc_module": ("skactive",),
}


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Find the lines of a class, function or method in the repository; other things have no link."""
    thing = attrgetter(info["fullname"])(import_module(info["module"]))
    try:
        thing = inspect.unwrap(getattr(thing, "fget", thing))
        lines, first = inspect.getsourcelines(thing)
        path = Path(str(inspect.getsourcefile(thing))).relative_to(Path(skactive.__file__).parents[1])
    except (TypeError, ValueError):
        return None
    return f"{REPOSITORY}/blob/main/{path.as_posix()}#L{first}-L{first + len(lines) - 1}"


def link_to_the_one_of_that_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Link `Class`, `Class.method` and `function` by the one public object whose full name ends so."""
    if node.get("refdomain") != "py":
        return None
    domain, target = env.get_domain("py"), node["reftarget"].removeprefix("skactive.")
    full_names = [
        name for name, entry in domain.objects.items() if f".{name}".endswith(f".{target}") and not entry.aliased
    ]
    in_the_list_of_methods = f"{node['refdoc'].rpartition('/')[2]}.{target}"  # above the class of the page
    for name in (f"skactive.{target}", in_the_list_of_methods):  # a function rather than the methods of its name
        full_names = [name] if name in full_names else full_names
    if len(full_names) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", full_names[0], node, contnode)


def setup(app: Any) -> None:
    """Find what references mean."""
    app.connect("missing-reference", link_to_the_one_of_that_name)


html_theme = "pydata_sphinx_theme"
html_title = f"skactive {release}"
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "logo": {"text": "skactive"},  # the version stands in the titles of pages
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "icon_links": [
        {"name": "Source code", "url": REPOSITORY, "icon": "fa-brands fa-github"},
    ],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_static_path = ["_static"]
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_css_files = ["skactive.css"]
html_sidebars = {"index": [], "changelog": []}
html_show_sourcelink = False
