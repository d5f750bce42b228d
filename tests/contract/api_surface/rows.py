"""The recorded requests of ``api_surface.jsonl``, one by one, in full words."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON = "application/json"

_TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON};as=Table;v=v1beta1;g=meta.k8s.io,{JSON}"
_DISCOVERY = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCEPT = {
    "P": PROTOBUF,
    "J": JSON,
    "*": "*/*",
    "T": _TABLE,
    "D": f"{JSON};{_DISCOVERY},{JSON};g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,{JSON}",
}
_ANSWERS = {
    "P": PROTOBUF,
    "P;watch": f"{PROTOBUF};stream=watch",
    "J": JSON,
    "J;APIGroupDiscoveryList v2": f"{JSON};{_DISCOVERY}",
    "text": "text/plain; charset=utf-8",
    "": "",
}
_CONTENTS = {
    "": "",
    "P": PROTOBUF,
    "J": JSON,
    "json-patch": "application/json-patch+json",
    "merge-patch": "application/merge-patch+json",
    "strategic-merge-patch": "application/strategic-merge-patch+json",
    "apply-patch+yaml": "application/apply-patch+yaml",
}
_METHODS = {"LIST": "GET", "WATCH": "GET"}
_WATCH = "allowWatchBookmarks=true&timeoutSeconds=N&watch=true"
_STREAMING_LIST = f"{_WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


@dataclass(frozen=True, slots=True)
class Row:
    """One request and what was answered: ``content`` and ``answer`` are media types; empty for no body."""

    method: str
    path: str
    query: str
    accept: str
    content: str
    status: int
    answer: str
    user: str

    @property
    def watches(self) -> bool:
        return "watch=true" in self.query

    def __str__(self) -> str:
        media = self.content.removeprefix("application/") or self.accept.split(",")[0].removeprefix("application/")
        query = f"?{self.query}" if self.query else ""
        return f"{self.method} {self.path}{query} {media} {self.status} as {self.user}"


def read(path: Path) -> list[Row]:
    """Every row of every run, and every combination that the rows of the summary stand for; each once."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    rows: dict[Row, None] = {}
    for entry in entries:
        for row in (_recorded(entry),) if "runs" in entry else _summarized(entry):
            rows[row] = None
    return list(rows)


def _recorded(entry: dict[str, Any]) -> Row:
    return Row(
        entry["method"],
        entry["path"],
        entry["query"],
        _accept(entry["accept"]),
        _CONTENTS[entry["content"]],
        entry["status"],
        _ANSWERS.get(entry["type"], entry["type"]),
        entry["user"],
    )


def _accept(text: str) -> str:
    return ",".join(_ACCEPT[word] for word in text.split(",")) if text.split(",")[0] in _ACCEPT else text


def _summarized(entry: dict[str, Any]) -> Iterator[Row]:
    """A summary does not tell who asked; a refused one was no administrator."""
    for accept, content, status in itertools.product(entry["accepts"], entry["contents"] or [""], entry["statuses"]):
        if (status == 201 and entry["verb"] == "PATCH") != (status == 201 and content == "apply-patch+yaml"):
            continue
        if status == 304 and "D" not in accept and "openapi" not in entry["path"]:
            continue
        found = "" if status == 304 else _answer(accept, entry["types"])
        answer = _ANSWERS.get(found, found)
        user = "bootstrap token" if status == 403 else "kubernetes-admin"
        for query in ["fieldManager=replay"] if content == "apply-patch+yaml" else _queries(entry):
            yield Row(
                _METHODS.get(entry["verb"], entry["verb"]),
                entry["path"],
                query,
                _accept(accept),
                _CONTENTS[content],
                status,
                answer,
                user,
            )


def _answer(accept: str, types: list[str]) -> str:
    """The one of the recorded types that this Accept header leads to."""
    family = "P" if accept.startswith("P") else "J"
    return next((each for each in types if each.startswith(family)), next(each for each in types if each != "-"))


def _queries(entry: dict[str, Any]) -> list[str]:
    seen = entry["query"]
    selectors = [each.replace("…", "x") for each in seen if each.startswith("fieldSelector=")]
    if entry["verb"] != "WATCH":
        return ["", *selectors, *(["dryRun=All"] if "dryRun" in seen else [])]
    streams = [_WATCH, *([_STREAMING_LIST] if "sendInitialEvents" in seen else [])]
    return [*streams, *(f"{stream}&{selector}" for stream in streams for selector in selectors)]
