"""JSON patches (RFC 6902) with the liberties that Kubernetes' library takes.

What a failed ``test``, a missing path or an unknown operation gives is :func:`errors.unprocessable`: the texts behind
it never reach a client. Sources: gopkg.in/evanphx/json-patch.v4, k8s.io/apiserver/pkg/endpoints/handlers/patch.go
(Kubernetes 1.36).

An operation costs time in proportion to its path and its value, and for arrays to their length; there are at most
10,000 operations, and all that ``copy`` adds is bounded by ``MAX_COPIED_BYTES``.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kubevouch.machinery import errors
from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import quote

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024

_MEMBERS = {"op": "string", "path": "string", "from": "string", "value": ""}
_INDEX = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_ABSENT = object()


class JSONPatch(msgspec.Struct, frozen=True):
    """The operations of a patch, and what strict reading has against its text."""

    operations: tuple[Any, ...]
    strict_errors: tuple[str, ...] = ()


def decode(data: bytes, *, strict: bool = True) -> JSONPatch:
    """Reads the body of a patch.

    Args:
        strict: False with ``fieldValidation=Ignore``, which also changes the words of errors.

    Raises:
        APIStatusError: 400 when it is no list of objects, 413 when there are too many of them.
    """
    prefix = "error decoding patch: " if strict else ""
    try:
        tree = gojson.loads(data)
    except gojson.JSONSyntaxError as err:
        raise errors.bad_request(f"{prefix}{err}") from err
    misfit = _misfit(tree, strict=strict)
    if misfit:
        raise errors.bad_request(f"{prefix}json: cannot unmarshal {misfit}")
    operations = tuple(tree or ())
    if len(operations) > MAX_OPERATIONS:
        raise errors.request_entity_too_large(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    return JSONPatch(operations, tuple(_strict_errors(operations)) if strict else ())


def _misfit(tree: Any, *, strict: bool) -> str:
    list_type, item_type = (
        ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp") if strict else ("jsonpatch.Patch", "jsonpatch.Operation")
    )
    if tree is not None and not isinstance(tree, list):
        return f"{json_codec.go_kind(tree)} into Go value of type {list_type}"
    for operation in tree or ():
        if operation is None:
            continue
        if not isinstance(operation, dict):
            return f"{json_codec.go_kind(operation)} into Go value of type {item_type}"
        for member, value in operation.items() if strict else ():
            if _MEMBERS.get(member) == "string" and not isinstance(value, (str, type(None))):
                return f"{json_codec.go_kind(value)} into Go struct field jsonPatchOp.{member} of type string"
    return ""


def _strict_errors(operations: tuple[Any, ...]) -> list[str]:
    found: list[str] = []
    for index, operation in enumerate(operations):
        if len(found) >= gojson.MAX_STRICT_ERRORS:
            break
        if isinstance(operation, gojson.Duplicates):
            found += (f'json patch duplicate field "[{index}].{member}"' for member in operation.repeated)
        for member, value in (operation or {}).items():
            if member not in _MEMBERS:
                found.append(f'json patch unknown field "[{index}].{member}"')
            elif isinstance(value, (dict, list)):
                found += (_below(error, f"[{index}].{member}") for error in gojson.duplicate_fields(value))
    return found[: gojson.MAX_STRICT_ERRORS]


def _below(error: str, path: str) -> str:
    what, field_name, rest = error.partition(' field "')
    return f"json patch {what}{field_name}{path}{'' if rest.startswith('[') else '.'}{rest}"


def apply(document: Any, patch: JSONPatch) -> Any:
    """``document`` with the operations carried out in order; neither argument is changed.

    Raises:
        APIStatusError: 422.
    """
    try:
        return carry_out(document, patch)
    except DoesNotApply:
        raise errors.unprocessable() from None


def carry_out(document: Any, patch: JSONPatch) -> Any:
    """As :func:`apply`, for those who are told why it does not apply.

    Raises:
        DoesNotApply: in the library's words.
        APIStatusError: 400, the document nests too deep.
    """
    try:
        return _Patching(_clone(document)).run(patch.operations)
    except RecursionError as err:
        raise too_deep() from err


def too_deep() -> APIStatusError:
    """A document that nests deeper than any declared type; Go has a limit too, ten times as high."""
    return errors.bad_request("exceeded max depth")


class DoesNotApply(Exception):
    """The operation cannot be carried out."""


class TestFailed(DoesNotApply):
    """What is there is not what a ``test`` expects."""

    __test__ = False


def _clone(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clone(item) for item in value]
    return value


def _index(token: str, length: int) -> int:
    """An index as Go's ``strconv.Atoi`` reads it; a negative one counts from the end, beyond RFC 6901."""
    if not _INDEX.fullmatch(token):
        raise DoesNotApply(f"strconv.Atoi: parsing {quote(token)}: invalid syntax")
    index = int(token)
    if not -length <= index < length:
        raise DoesNotApply(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _get(container: Any, token: str) -> Any:
    """What stands at ``token``; an absent member of an object counts as null."""
    if isinstance(container, list):
        return container[_index(token, len(container))]
    return container.get(token)


def _equal(left: Any, right: Any) -> bool:
    """JSON equality; numbers are equal only when they are written alike."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and _equal(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return _number_text(left) == _number_text(right)
    return type(left) is type(right) and bool(left == right)


def _number_text(number: float) -> str:
    return number.text if isinstance(number, gojson.Number) else repr(number)


class _Patching:
    """The document on its way, which belongs to this object alone."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.copied = 0

    def run(self, operations: tuple[Any, ...]) -> Any:
        actions = {
            "add": self.add, "remove": self.remove, "replace": self.replace, "move": self.move, "copy": self.copy,
            "test": self.test,
        }  # fmt: skip
        for operation in operations:
            kind = (operation or {}).get("op")
            action = actions.get(kind) if isinstance(kind, str) else None
            if action is None:
                raise DoesNotApply(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
            action(operation)
        return self.document

    def find(self, operation: dict[str, Any], member: str) -> tuple[Any, str]:
        """The container that a path ends in, and the last token."""
        path, kind = operation.get(member), operation.get("op")
        if not isinstance(path, str):
            raise DoesNotApply(f"{kind} operation failed to decode {member}: missing value")
        which = f"{'from' if member == 'from' else 'destination'} path" if kind in ("move", "copy") else "path"
        shown = quote(path) if kind in ("add", "remove") else path
        missing = f"{kind} operation does not apply: doc is missing {which}: {shown}: missing value"
        # Whatever stands before the first slash is passed over, as in Kubernetes.
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
        if not tokens:
            raise DoesNotApply(missing)
        container = self.document
        for token in tokens[:-1]:
            try:
                container = _get(container, token)
            except DoesNotApply:
                container = None
            if not isinstance(container, (dict, list)):
                raise DoesNotApply(missing)
        return container, tokens[-1]

    def put(self, operation: dict[str, Any], value: Any) -> None:
        container, token = self.find(operation, "path")
        if isinstance(container, dict):
            container[token] = value
        elif token == "-":
            container.append(value)
        else:
            try:
                container.insert(_index(token, len(container) + 1), value)
            except DoesNotApply as err:
                raise DoesNotApply(f"error in {operation['op']} for path: '{operation['path']}': {err}") from err

    def take(self, operation: dict[str, Any], member: str) -> Any:
        container, token = self.find(operation, member)
        try:
            if isinstance(container, list):
                return container.pop(_index(token, len(container)))
            if token not in container:
                raise DoesNotApply(f"Unable to remove nonexistent key: {token}: missing value")
        except DoesNotApply as err:
            raise DoesNotApply(f"error in {operation['op']} for path: '{operation[member]}': {err}") from err
        return container.pop(token)

    def add(self, operation: dict[str, Any]) -> None:
        self.put(operation, _clone(operation.get("value")))

    def remove(self, operation: dict[str, Any]) -> None:
        self.take(operation, "path")

    def replace(self, operation: dict[str, Any]) -> None:
        value = _clone(operation.get("value"))
        if operation.get("path") == "":
            if not isinstance(value, (dict, list)):
                raise DoesNotApply("replace operation hit doc root, which is no object or array")
            self.document = value
            return
        container, token = self.find(operation, "path")
        if isinstance(container, list):
            try:
                container[_index(token, len(container))] = value
            except DoesNotApply as err:
                missing = f"replace operation does not apply: doc is missing key: {operation['path']}: missing value"
                raise DoesNotApply(missing) from err
        else:
            # An absent member is created: Kubernetes does not look whether it is there.
            container[token] = value

    def move(self, operation: dict[str, Any]) -> None:
        self.put(operation, self.take(operation, "from"))

    def copy(self, operation: dict[str, Any]) -> None:
        container, token = self.find(operation, "from")
        value = _get(container, token)
        self.find(operation, "path")
        self.copied += len(json_codec.encode(value))
        if self.copied > MAX_COPIED_BYTES:
            raise DoesNotApply(f"copy operations add more than {MAX_COPIED_BYTES} bytes")
        self.put(operation, _clone(value))

    def test(self, operation: dict[str, Any]) -> None:
        expected = operation.get("value", _ABSENT)
        failed = TestFailed(f"testing value {operation.get('path')} failed: test failed")
        if operation.get("path") == "":
            if not _equal(self.document, expected):
                raise failed
            return
        container, token = self.find(operation, "path")
        value = _get(container, token)
        if value is None:
            if expected not in (None, _ABSENT):
                raise failed
        elif not _equal(value, expected):
            raise failed
