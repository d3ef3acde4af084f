"""Settings of the documentation: `python -m sphinx docs docs/_build`, from the top of the checkout."""

import skactive

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

html_theme = "pydata_sphinx_theme"
html_title = f"skactive {release}"
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}
html_sidebars = {"changelog": []}
html_show_sourcelink = False
