"""How Sphinx makes a site of the manual: `make docs`."""

import re
from itertools import groupby
from typing import Any

project = "kubevouch"
root_doc = "README"
extensions = ["myst_parser"]
html_theme = "furo"
myst_heading_anchors = 4
# Pages are also read where they lie, so they link to files that are no pages.
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]


def contents(index: str) -> list[tuple[str, str]]:
    """Heading and page of every item of an index, in its order; pages of the text above have no heading."""
    found: dict[str, str] = {}
    heading = ""
    for line in index.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        pages = re.findall(r"\]\((?!\.\.|[a-z]+:)([^)#]+)\.md", line)
        for page in pages:
            # An item says where a page belongs, whatever text has named it before.
            if line.startswith("- "):
                found.pop(page, None)
            found.setdefault(page, heading)
    return [(heading, page) for page, heading in found.items()]


def _add_sidebar(_app: object, page: str, source: list[str]) -> None:
    """The sidebar is made of the two indexes, which are lists of links because they are read where they lie, too."""
    if page not in ("README", "adr/README"):
        return
    for heading, items in groupby(contents(source[0]), key=lambda item: item[0]):
        caption = [f":caption: {heading}"] if heading else []
        source[0] += "\n".join(["\n\n```{toctree}", ":hidden:", *caption, "", *(page for _, page in items), "```\n"])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_sidebar)
