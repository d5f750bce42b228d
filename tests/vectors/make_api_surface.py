"""Writes ``api_surface.jsonl`` from tables of recorded requests: ``make_api_surface.py TABLES.md > api_surface.jsonl``.

The tables are Markdown: one with all requests by path, then one for each recorded run of a client. A line of the output
is one request with its answer; runs in which the same came about are named together.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

_RUN = re.compile(r"\*\*(.+)\*\*")
_FIELDS = ("method", "path", "query", "accept", "content", "status", "type", "user")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _words(cell: str) -> list[str]:
    return [] if cell == "-" else cell.split()


def _summed(cells: list[str]) -> dict[str, object]:
    """A row of the first table: every Accept header, body type, status and type that was seen with a path."""
    verb, path, clients, accepts, contents, statuses, types, query = cells
    return {
        "verb": verb,
        "path": path.strip("`"),
        "clients": clients.split(", "),
        "accepts": accepts.split(),
        "contents": _words(contents),
        "statuses": [int(status) for status in statuses.split()],
        "types": re.findall(r"text/plain\S*(?: \S+=\S+)*|\S+(?: v2)?", types),
        "query": [] if query == "-" else query.split(", "),
    }


def main() -> None:
    summed: list[dict[str, object]] = []
    runs: dict[tuple[str, ...], list[str]] = {}
    run = ""
    for line in Path(sys.argv[1]).read_text().splitlines():
        found = _RUN.fullmatch(line)
        if found:
            run = found.group(1)
        if not line.startswith("|") or line.startswith(("| n |", "|---", "| verb")):
            continue
        cells = _cells(line)
        if not run:
            if cells[1].startswith("`/"):
                summed.append(_summed(cells))
            continue
        method, target = cells[1].split(" ", 1)
        path, _, query = target.strip("`").partition("?")
        content = "" if cells[3] == "-" else cells[3]
        row = (method, path, query, cells[2], content, cells[4], "" if cells[5] == "-" else cells[5], cells[6])
        runs.setdefault(row, []).append(run)
    for each in summed:
        print(json.dumps(each, ensure_ascii=False))
    for row, names in runs.items():
        print(json.dumps({**dict(zip(_FIELDS, row, strict=True)), "status": int(row[5]), "runs": names}, ensure_ascii=False))


main()
