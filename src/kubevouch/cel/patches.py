"""What expressions make to change an object: ``Object{…}``, ``Object.spec{…}`` and ``JSONPatch{…}``.

    UNCHECKED: the fields of objects; what they are called is compared with where they stand once there is a value.

Source: k8s.io/apiserver/pkg/cel/mutation, pkg/cel/library/jsonpatch.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubevouch.cel.checker import Additions
from kubevouch.cel.declarations import Signature
from kubevouch.cel.functions import function
from kubevouch.cel.types import DYN, STRING, Type, struct
from kubevouch.cel.values import EvaluationError, Message, go_type
from kubevouch.machinery.text.gotext import quote

OBJECT: Final = "Object"
JSON_PATCH: Final = "JSONPatch"
_ESCAPE_KEY: Final = "jsonpatch.escapeKey"


class _ObjectFields:
    """Any field of any type: nothing is known of the object when the expression is compiled."""

    def __init__(self, name: str) -> None:
        self._name = name

    def member(self, name: str) -> tuple[str, Type]:
        """See :class:`kubevouch.cel.checker.Struct`."""
        return name, DYN

    def make(self, fields: dict[str, Any]) -> Message:
        """The value of a literal."""
        return Message(self._name, fields)


class _PatchFields:
    """Those of an operation of a JSON patch."""

    _TYPES: Final = {"op": STRING, "from": STRING, "path": STRING, "value": DYN}

    def member(self, name: str) -> tuple[str, Type] | None:
        """See :class:`kubevouch.cel.checker.Struct`."""
        return (name, self._TYPES[name]) if name in self._TYPES else None

    def make(self, fields: dict[str, Any]) -> Message:
        """As above. Raises :class:`EvaluationError` for a text that is none."""
        for name in ("op", "path", "from"):
            if not isinstance(fields.get(name, ""), str):
                raise EvaluationError(f"unexpected type {go_type(fields[name])} for JSONPatchType '{name}' field")
        return Message(JSON_PATCH, fields)


def _message(name: str) -> Type | None:
    name = name.removeprefix(".")
    if name == JSON_PATCH:
        return struct(name, _PatchFields())
    return struct(name, _ObjectFields(name)) if name.partition(".")[0] == OBJECT else None


@function(_ESCAPE_KEY, "string")
def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


ADDITIONS: Final = Additions(
    _message, {_ESCAPE_KEY: (Signature("string_jsonpatch_escapeKey_string", False, (STRING,), STRING, False),)}
)
"""For the checker."""


def mismatches(value: Any) -> Iterator[str]:
    """The objects inside whose types are not called as the path of their fields, in Kubernetes' words."""
    if isinstance(value, Message):
        yield from _mismatches(value, value.type_name)


def _mismatches(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Message):
        if value.type_name != path:
            yield (
                f"unexpected type name {quote(value.type_name)}, expected {quote(path)}, which matches field name "
                "path from root Object type"
            )
        for name, below in value.fields.items():
            yield from _mismatches(below, f"{path}.{name}")
    elif isinstance(value, (list, dict)):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _mismatches(below, path)
