"""The site: `make docs` builds it into build/docs, without the network.

Pages are Markdown (MyST). The build runs the scripts of `attention/` and makes pages and notebooks
of them (sphinx-gallery). The reference is made of the code (`generate.py`, autodoc).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

import generate  # noqa: E402  # which stands beside this file
from sphinx.application import Sphinx  # noqa: E402

from seq2seq import __version__  # noqa: E402

project = "seq2seq"
release = __version__
copyright = "the authors of seq2seq"
extensions = [
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx.ext.apidoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["attention", "decoding_model", "**.ipynb", "reference/api/modules.rst"]
suppress_warnings = [
    "ref.python",  # a type of an annotation that two modules have
    "config.cache",
]

# Look: no fonts, scripts or pictures from elsewhere

html_theme = "furo"
html_title = "seq2seq"
html_static_path = ["_static"]
html_css_files = ["site.css"]
pygments_dark_style = "github-dark"  # the theme's own underlines modules, as if they were links
html_show_sphinx = False
html_copy_source = False

# Markdown

myst_heading_anchors = 4
highlight_language = "none"  # of blocks that name no language, such as formulas

# API: a page for each package

default_role = "code"
apidoc_modules = [
    {
        "path": "../seq2seq",
        "destination": "reference/api",
        "exclude_patterns": [f"../seq2seq/{name}" for name in generate.NO_API],
        "automodule_options": {"members", "show-inheritance"},
        "module_first": True,
    }
]
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # torch's "Runs the forward pass." says nothing
add_module_names = False
toc_object_entries = False  # the navigation of each page copies them: half of the build's time
napoleon_use_ivar = True  # autodoc lists the same attributes

# The course on attention

sphinx_gallery_conf = {
    "examples_dirs": "attention",
    "gallery_dirs": "tutorials/attention",
    "within_subsection_order": "FileNameSortKey",
    "filename_pattern": "/plot_",
    "image_scrapers": ("generate.svg_figures",),
    "reset_modules": ("generate.figure_style",),
    "capture_repr": (),
    "run_stale_examples": True,  # the code that a lesson calls may have changed
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
}


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", generate.complete_page)
    app.add_transform(generate.SourceLinks)
    return {"parallel_read_safe": True}
