"""Sphinx builds the site from here: ``make docs``."""

from __future__ import annotations

import os
import sys
import warnings
from types import ModuleType

from docutils.nodes import Text, document, literal_block
from sphinx.application import Sphinx

import legendre

project = "legendre"
author = "The legendre developers"
copyright = "The legendre developers, MIT licence"  # noqa: A001 (Sphinx's name)
release = version = legendre.__version__

# ld.datasets, ld.dual, ... are modules that live elsewhere: autodoc finds them under the names that users write
for name in legendre.__all__:
    if isinstance(found := getattr(legendre, name), ModuleType):
        sys.modules[f"legendre.{name}"] = found

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/backreferences"]
templates_path = ["_templates"]
# a name in single backquotes is a link where the name is known, and code otherwise
toc_object_entries_show_parents = "hide"
default_role = "py:obj"
nitpicky = False

# MyST: `:::{directive}`, so that fenced blocks are examples that pytest runs; headings can be linked to
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# the reference, from docstrings
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# names that differ in capitals only get pages whose files do not: some file systems take them for one
autosummary_filename_map = {
    f"legendre.{name}": f"legendre.{name}-class" for name in ("Plan", "LogLinear", "geometry.Ladder")
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# the gallery: scripts of examples/, run and drawn
os.environ["OPENBLAS_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "subsection_order": [f"../examples/{part}" for part in ("tensors", "tables", "events", "method")],
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "parallel": 2,
    "doc_module": ("legendre",),
    "backreferences_dir": "gallery/backreferences",
    "inspect_global_variables": False,
    "min_reported_time": 1000,
    "show_memory": False,
    "ignore_repr_types": "matplotlib",
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "default_thumb_file": "figures/graph.png",
}

html_theme = "pydata_sphinx_theme"
html_title = f"legendre {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark as the reader has it
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "legendre"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 5,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def without_last_blank_line(_: Sphinx, doctree: document) -> None:
    """Remove the blank line at the end of examples, which doctest needs and readers do not."""
    for block in doctree.findall(literal_block):
        if len(block) == 1 and isinstance(block[0], Text):
            text = block.astext().rstrip("\n")
            block.rawsource = text
            block[0] = Text(text)


def without_constructor(_: Sphinx, what: str, __: str, obj: object, *___: object) -> tuple[str, None] | None:
    """Leave out how a result is made: functions make them, not users."""
    made = getattr(obj, "__module__", "").startswith(("legendre.results", "legendre.tasks", "legendre.fitting"))
    return ("", None) if what == "class" and made and "estimators" not in getattr(obj, "__module__", "") else None


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("doctree-read", without_last_blank_line)
