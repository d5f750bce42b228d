"""The formats of strings that are checked; others are passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Tree = Mapping[str, Any]

KNOWN: dict[str, Callable[[str], bool]] = {}

_TEXTS = frozenset({
    "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5",
    "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration",
    "datetime", "k8sshortname", "k8slongname",
})  # fmt: skip
_NUMBERS = {"integer": frozenset({"int32", "int64"}), "number": frozenset({"float", "double"})}


def is_known(kind: str, name: str) -> bool:
    """Whether values of a type are checked for a format; an empty type counts as string.

    Source: k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go (Kubernetes 1.36).
    """
    if kind in ("", "string"):
        return name.replace("-", "") in _TEXTS
    return name in _NUMBERS.get(kind, ())


def unrecognized_formats(tree: Tree) -> list[str]:
    """The formats in a schema that nobody checks, in the order in which they stand there, each once."""
    return list(dict.fromkeys(_unrecognized(tree)))


def _unrecognized(tree: Tree) -> Iterator[str]:
    name = tree.get("format")
    if name and not is_known(tree.get("type") or "", name):
        yield name
    below: list[Any] = [tree.get(key) for key in ("items", "not", "additionalProperties", "additionalItems")]
    for key in ("allOf", "anyOf", "oneOf"):
        below += tree.get(key) or ()
    for key in ("properties", "patternProperties", "definitions", "dependencies"):
        below += (tree.get(key) or {}).values()
    for each in below:
        for one in each if isinstance(each, list) else (each,):
            if isinstance(one, Mapping):
                yield from _unrecognized(one)
