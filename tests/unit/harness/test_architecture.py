"""What .importlinter does not say of the modules' imports."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Container, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import kubevouch

ROOT = Path(kubevouch.__file__).parent
PROJECT = Path(__file__).parents[3] / "pyproject.toml"
# Those of functions and below ``if TYPE_CHECKING`` included. Read as text: to parse every module takes seconds.
IMPORT = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|[^\n#]*)|^ *import ([\w.]+)", re.MULTILINE)

# Those of modules have examples.
DOCSTRING = re.compile(r'^""".*?"""', re.DOTALL | re.MULTILINE)


@cache
def _modules() -> dict[str, str]:
    paths = {path.relative_to(ROOT.parent).with_suffix(""): path for path in ROOT.rglob("*.py")}
    texts = {name: DOCSTRING.sub("", path.read_text()) for name, path in paths.items()}
    return {".".join(name.parts).removesuffix(".__init__"): text for name, text in texts.items()}


def _imports(source: str, modules: Container[str]) -> Iterator[str]:
    for module, names, plain in IMPORT.findall(source):
        for full in (f"{module}.{name}" for name in re.findall(r"\w+", names)) if module else (plain,):
            yield full if full in modules else module


def test_no_module_imports_itself_through_others() -> None:
    modules = _modules()
    graph = {name: set(_imports(source, modules)) & modules.keys() for name, source in modules.items()}
    assert sum(map(len, graph.values())) > 3000
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as err:
        raise AssertionError(" → ".join(err.args[1])) from err


def test_one_module_knows_how_aiohttp_works_inside() -> None:
    inner = re.compile(r"^ *(from|import) aiohttp\.", re.MULTILINE)
    inside = {name for name, source in _modules().items() if inner.search(source)}
    assert inside == {"kubevouch.server.edge.connection"}


def test_aiohttps_minor_version_is_pinned() -> None:
    """Its insides change without notice: another minor version is tried before it is let in."""
    requirements = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    (pinned,) = [each for each in requirements if re.match(r"aiohttp\b", each)]
    major, minor, *_ = importlib.metadata.version("aiohttp").split(".")
    assert pinned == f"aiohttp>={major}.{minor},<{major}.{int(minor) + 1}"


def test_the_page_shows_every_link_of_the_chain() -> None:
    page = (PROJECT.parent / "docs/architecture.md").read_text()
    rows = [re.findall(r"`(\w+)\.py`", row) for row in re.findall(r"^\| `\w+\.py`.*", page, re.MULTILINE)]
    shown = [name for row in rows for name in row]
    there = {path.stem for path in (ROOT / "server/filters").glob("*.py")} - {"__init__"}
    assert set(shown) == there
    drawn = re.search(
        r"^ {8}links = \[$.*?^ {8}\]$", _modules()["kubevouch.server.apiserver"], re.DOTALL | re.MULTILINE
    )
    assert drawn is not None and len(shown) == len(re.findall(r"^ {12}\S", drawn[0], re.MULTILINE))
