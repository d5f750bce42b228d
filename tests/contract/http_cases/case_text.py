"""What a case says: names of its own, values to fill in, paths into documents, and what counts as equal."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Case = dict[str, Any]

ABSENT = "$absent"

# Each run of a case gets names of its own, so that cases can run side by side and caches keyed by user, token or role
# (authorization; tokens for 10 s) never lead from one case into another.
OWN_NAMES = ("c1", "alice", "grab", "case-ns", "abc123", "ABC123")
# Not inside the names of fixture files such as csr-alice.pem; %3D is an encoded "=" in a selector.
_WORD = re.compile(rf"(?:(?<![A-Za-z0-9+/=])|(?<=%3D))(?:{'|'.join(OWN_NAMES)})(?![A-Za-z0-9+/=]|\.pem)")
# The slash of a path could also be base64, so a segment has a pattern of its own.
_SEGMENT = re.compile(rf"(?<=/)(?:{'|'.join(OWN_NAMES)})(?=[/?;\"\\ ]|$)")


def read_cases(path: Path) -> list[Case]:
    """The cases of a JSON-lines file, without those that only explain."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, filter(str.strip, lines)) if case["area"] != "fixtures"]


def is_http(case: Case) -> bool:
    return isinstance(case["when"], dict) and "method" in case["when"]


def rename(case: Case, tag: str) -> Case:
    """The case with its own names made unique by ``tag``, six lower-case letters."""

    def fresh(found: re.Match[str]) -> str:
        word = found.group(0)
        return {"abc123": tag, "ABC123": tag.upper()}.get(word, f"{word}-{tag}")

    text = json.dumps({key: value for key, value in case.items() if key != "id"}, ensure_ascii=False)
    return {"id": case["id"], **json.loads(_SEGMENT.sub(fresh, _WORD.sub(fresh, text)))}


def shares_nothing(case: Case) -> bool:
    """True when ``rename`` makes every name in the case unique, so that it may run beside others."""
    if not is_http(case):
        return True
    given, when = case["given"], case["when"]
    text = json.dumps(case)
    if ".abc123." in text:
        return not given.get("alone")  # its definitions are in a group of their own
    if set(given) - {"user", "objects", "rbac", "steps", "during"}:
        return False
    if "generateName" in text or "group" in str(given.get("rbac")):
        return False
    if "/namespaces/case-ns/" in when["path"]:
        return set(re.findall(r'"namespace": "([^"]*)"', text)) <= {"case-ns"}
    if when["method"] in ("GET", "DELETE") and not re.search(r"/(c1|nope)(/|$)", when["path"]):
        return False  # a whole collection
    names = set(re.findall(r'"metadata": \{"name": "([^"]*)"', text))
    return not ("namespace" in text or "steps" in given or "during" in given or names - {"c1", "grab", "nope"})


_STEP = re.compile(r"\[([^\]]+)\]|\{([^=}]+)=([^}]*)\}|([^.\[\]{}]+)")


def get_path(document: Any, path: str) -> Any:
    """The value at a dotted path, or ``$absent``.

    List items go by number or ``{key=value}``; a key that itself holds dots is written in ``[brackets]``.
    """
    for bracketed, key, value, plain in _STEP.findall(path):
        if isinstance(document, list):
            if key:
                found = [item for item in document if get_path(item, key) == value]
            else:
                found = document[int(plain) :][:1] if plain.isdigit() else []
            if not found:
                return ABSENT
            document = found[0]
        elif isinstance(document, dict) and (bracketed or plain) in document:
            document = document[bracketed or plain]
        else:
            return ABSENT
    return document


def set_path(document: dict[str, Any], path: str, value: Any) -> None:
    keys = path.split(".")
    for key in keys[:-1]:
        document = document.setdefault(key, {})
    document[keys[-1]] = value


class Fixtures:
    """The folder of files that cases name, and the markers that stand for values."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def expand(self, value: Any, variables: Mapping[str, Any] | None = None) -> Any:
        if isinstance(value, str):
            known = variables or {}
            return re.sub(r"\$([A-Z][A-Z0-9_]*)", lambda found: str(known.get(found.group(1), found.group(0))), value)
        if isinstance(value, list):
            return [self.expand(item, variables) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((marker, argument),) = value.items()
            match marker:
                case "$base64file":
                    return base64.b64encode(self.read(argument)).decode()
                case "$file":
                    return self.read(argument).decode()
                case "$repeat":
                    return argument[0] * argument[1]
                case "$repeat_list":
                    return [argument[0]] * argument[1]
        return {self.expand(key, variables): self.expand(item, variables) for key, item in value.items()}


def matches(want: Any, got: Any) -> bool:
    """Markers: ``$any``, ``$absent``, ``$age`` (a printed duration), ``$re:…``; lists and maps compare exactly."""
    if isinstance(want, str) and want.startswith("$"):
        if want == "$any":
            return bool(got != ABSENT)
        if want == "$age":
            return isinstance(got, str) and re.fullmatch(r"([0-9]+[ydhms])+", got) is not None
        if want.startswith("$re:"):
            return isinstance(got, str | int) and re.search(want[4:], str(got)) is not None
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(matches, want, got))
    if isinstance(want, dict):
        return (
            isinstance(got, dict)
            and set(got) | {key for key, value in want.items() if value == ABSENT} == set(want)
            and all(matches(value, got.get(key, ABSENT)) for key, value in want.items())
        )
    return type(want) is type(got) and bool(want == got)


def shift_time(text: str, delta: dt.timedelta) -> str:
    """An RFC 3339 time moved by ``delta``, its offset kept; anything else stays as it is."""
    found = re.fullmatch(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(Z|[+-][0-9]{2}:[0-9]{2})", text)
    if not found:
        return text
    return (dt.datetime.fromisoformat(found.group(1)) + delta).isoformat() + found.group(2)


def shorten(value: Any, size: int = 220) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace("\n", "\\n")
    return text if len(text) <= size else f"{text[: size // 2]} … {text[-size // 2 :]}"


def as_list(value: str | Iterable[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
