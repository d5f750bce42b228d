"""Two servers' answers to the same cases, and in what they differ but for names and times.

What may differ is told by ``answers`` in ``docs/compatibility.toml``: the pattern of a case, and that of a place.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LIST = Path(__file__).parents[2] / "docs" / "compatibility.toml"
_ABSENT = "$absent"
# These say when and by whom, or stand for a version that the other server has given.
_LEFT_OUT = frozenset(("uid", "resourceVersion", "creationTimestamp", "time", "continue", "storageVersionHash"))
_REPLACED = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"X509SHA256=[0-9a-f]{64}"), "<fingerprint>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"(?<=current: )\d+"), "<version>"),
    # What is generated behind the prefixes that the cases use.
    (
        re.compile(r"(?:(?<=\bg-)|(?<=\bb-)|(?<=\bok\.)|(?<=\bwidgets-)|(?<=\bgen-)|(?<=x{58}))[a-z0-9]{5}\b"),
        "<generated>",
    ),
    (re.compile(r"^kubernetes-super-admin$"), "admin"),
)
_UNORDERED = frozenset(("fieldsV1", "reason"))
# How an answer is framed says nothing about it.
_FRAMING = frozenset(("transfer-encoding", "content-length"))


@dataclass(frozen=True)
class Difference:
    """One place at which two answers differ."""

    case: str
    where: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.case} {self.where}: Kubernetes has {str(self.theirs)[:300]}, we have {str(self.ours)[:300]}"


@dataclass
class Excuses:
    """``used`` are those that were needed."""

    patterns: tuple[tuple[str, str], ...]
    used: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def listed(cls, section: str, key: str = "answers") -> Excuses:
        """Those of one section of the list, ``difference`` or ``build``; what has only a name has no place."""
        entries = tomllib.loads(_LIST.read_text())[section]
        found = (each.partition(" ") for entry in entries for each in entry.get(key, ()))
        return cls(tuple((case, where) for case, _, where in found))

    def covers(self, difference: Difference) -> bool:
        for case, where in self.patterns:
            if fnmatch.fnmatchcase(difference.case, case) and fnmatch.fnmatchcase(difference.where, where):
                self.used.add((case, where))
                return True
        return False

    def names(self, name: str) -> bool:
        """Of what has no places."""
        return self.covers(Difference(name, "", None, None))

    @property
    def unused(self) -> set[tuple[str, str]]:
        return set(self.patterns) - self.used


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[Difference]:
    """Between two results of ``contract.http_cases`` about one case."""
    name = theirs["id"]
    if "got" not in theirs or "got" not in ours:
        if theirs["outcome"] != ours["outcome"]:
            yield Difference(name, "outcome", theirs["problems"], ours["problems"])
        return
    for where, one, other in _unlike(_answer(theirs["got"]), _answer(ours["got"]), ""):
        yield Difference(name, where, one, other)


def _answer(got: dict[str, Any]) -> dict[str, Any]:
    names = {name.lower(): value for name, value in got["headers"] if name.lower() not in _FRAMING}
    return {
        "status": got["status"],
        "type": names.get("content-type"),
        "headers": dict.fromkeys(names, ""),
        "body": _without_noise(got["document"], got["tag"]),
    }


def _without_noise(value: Any, tag: str) -> Any:
    match value:
        case {"events": [*events]}:
            return _watched([_without_noise(each, tag) for each in events])
        case dict():
            kept = {key: each for key, each in value.items() if key not in _LEFT_OUT}
            return {_without_noise(key, tag): _without_noise(each, tag) for key, each in kept.items()}
        case list():
            items = [_without_noise(each, tag) for each in value]
            # Writers stand in the order of the seconds in which they wrote, conflicts in none.
            if all(isinstance(each, dict) and each.keys() & _UNORDERED for each in items):
                items.sort(key=str)
            return items
        case str():
            text = value.replace(tag, "<tag>").replace(tag.upper(), "<TAG>")
            for pattern, stands in _REPLACED:
                text = pattern.sub(stands, text)
            return text
    return value


def _watched(events: list[Any]) -> list[Any]:
    """What was there at first comes in any order; bookmarks come when they like, but for the one behind it."""
    kept = [each for each in events if each["type"] != "BOOKMARK" or "annotations" in each["object"]["metadata"]]
    first = next((number for number, each in enumerate(kept) if each["type"] != "ADDED"), len(kept))
    return [*sorted(kept[:first], key=str), *kept[first:]]


def _unlike(one: Any, other: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _unlike(one.get(key, _ABSENT), other.get(key, _ABSENT), f"{where}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (each, its) in enumerate(zip(one, other, strict=True)):
            yield from _unlike(each, its, f"{where}.{number}")
    elif type(one) is not type(other) or one != other:
        yield where, one, other
