"""How Sphinx makes a site of the manual: `make docs`."""

project = "kubevouch"
root_doc = "README"
extensions = ["myst_parser"]
html_theme = "furo"
myst_heading_anchors = 4
# Pages are also read where they lie, so they link to files that are no pages.
suppress_warnings = ["myst.xref_missing", "toc.not_included", "misc.highlighting_failure"]
