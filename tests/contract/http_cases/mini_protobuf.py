"""Protobuf as far as the cases need it: the Kubernetes envelope, CSRs, Status and watch frames.

Written apart from the codec under test, so that a mistake there does not cancel out here.
"""

from __future__ import annotations

import base64
import datetime as dt
import struct
from collections.abc import Iterator
from typing import Any

MAGIC = b"k8s\x00"

# A schema maps a JSON key to its field number and type: str, bytes (base64 in JSON), int, TIME, a schema, a list of
# one (repeated) or {"*": type} (a map with string keys; "items" for messages with one repeated field).
Kind = Any
Schema = dict[str, tuple[int, Kind]]

TIME = "time"
OWNER: Schema = {"kind": (1, str), "name": (3, str), "uid": (4, str), "apiVersion": (5, str)}
META: Schema = {
    "name": (1, str),
    "generateName": (2, str),
    "namespace": (3, str),
    "uid": (5, str),
    "resourceVersion": (6, str),
    "generation": (7, int),
    "creationTimestamp": (8, TIME),
    "deletionTimestamp": (9, TIME),
    "labels": (11, {"*": str}),
    "annotations": (12, {"*": str}),
    "ownerReferences": (13, [OWNER]),
    "finalizers": (14, [str]),
}
CONDITION: Schema = {
    "type": (1, str),
    "reason": (2, str),
    "message": (3, str),
    "lastUpdateTime": (4, TIME),
    "lastTransitionTime": (5, TIME),
    "status": (6, str),
}
CSR: Schema = {
    "metadata": (1, META),
    "spec": (
        2,
        {
            "request": (1, bytes),
            "username": (2, str),
            "uid": (3, str),
            "groups": (4, [str]),
            "usages": (5, [str]),
            "extra": (6, {"*": "items"}),
            "signerName": (7, str),
            "expirationSeconds": (8, int),
        },
    ),
    "status": (3, {"conditions": (1, [CONDITION]), "certificate": (2, bytes)}),
}
LISTMETA: Schema = {"resourceVersion": (2, str), "continue": (3, str), "remainingItemCount": (4, int)}
STATUS: Schema = {
    "metadata": (1, LISTMETA),
    "status": (2, str),
    "message": (3, str),
    "reason": (4, str),
    "details": (
        5,
        {
            "name": (1, str),
            "group": (2, str),
            "kind": (3, str),
            "uid": (6, str),
            "causes": (4, [{"reason": (1, str), "message": (2, str), "field": (3, str)}]),
        },
    ),
    "code": (6, int),
}
SCHEMAS: dict[str, Schema] = {
    "CertificateSigningRequest": CSR,
    "Status": STATUS,
    "CertificateSigningRequestList": {"metadata": (1, LISTMETA), "items": (2, [CSR])},
}
UNKNOWN: Schema = {
    "typeMeta": (1, {"apiVersion": (1, str), "kind": (2, str)}),
    "raw": (2, bytes),
    "contentEncoding": (3, str),
    "contentType": (4, str),
}
WATCH_EVENT: Schema = {"type": (1, str), "object": (2, {"raw": (1, bytes)})}


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def _map_entry(values: Kind) -> Schema:
    return {"k": (1, str), "v": (2, {"items": (1, [str])} if values == "items" else values)}


def encode(schema: Schema, tree: dict[str, Any]) -> bytes:
    """A message; keys that the schema does not have are left out."""
    out = b""
    for key, value in tree.items():
        if key not in schema:
            continue
        number, kind = schema[key]
        values = [value]
        if isinstance(kind, list):
            values, kind = value, kind[0]
        elif isinstance(kind, dict) and "*" in kind:
            wrapped = kind["*"] == "items"
            values = [{"k": k, "v": {"items": v} if wrapped else v} for k, v in sorted(value.items())]
            kind = _map_entry(kind["*"])
        for each in values:
            out += varint(number << 3) + varint(each) if kind is int else field(number, _content(kind, each))
    return out


def _content(kind: Kind, value: Any) -> bytes:
    if kind == TIME:
        seconds, nanos = value if isinstance(value, list) else (_seconds(value), 0)
        return b"\x08" + varint(seconds) + b"\x10" + varint(nanos)
    if kind is str:
        return bytes(value.encode())
    if kind is bytes:
        return base64.b64decode(value)
    return encode(kind, value)


def _seconds(text: str) -> int:
    return int(dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def _varint_at(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (content[at] & 127) << shift
        shift += 7
        at += 1
        if content[at - 1] < 128:
            return number, at


def fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and raw values of a message, in order. Raises ``IndexError`` where it is cut off."""
    at = 0
    while at < len(content):
        tag, at = _varint_at(content, at)
        wire_type = tag & 7
        if wire_type == 0:
            number, at = _varint_at(content, at)
            yield tag >> 3, number
            continue
        if wire_type == 2:
            size, at = _varint_at(content, at)
        else:
            size = {1: 8, 5: 4}[wire_type]
        yield tag >> 3, content[at : at + size]
        at += size


def decode(schema: Schema, content: bytes) -> dict[str, Any]:
    """The JSON tree of a message, without zero values: Go writes every scalar, omitempty leaves them out of JSON."""
    tree: dict[str, Any] = {}
    by_number = {number: (key, kind) for key, (number, kind) in schema.items()}
    for number, raw in fields(content):
        if number not in by_number:
            continue
        key, kind = by_number[number]
        if isinstance(kind, list):
            tree.setdefault(key, []).append(_value(kind[0], raw))
        elif isinstance(kind, dict) and "*" in kind:
            entry = decode(_map_entry(kind["*"]), raw)
            value = entry.get("v", "")
            tree.setdefault(key, {})[entry.get("k", "")] = value["items"] if kind["*"] == "items" else value
        else:
            tree[key] = _value(kind, raw)
    return {key: value for key, value in tree.items() if value not in ("", 0, None, {}, [])}


def _value(kind: Kind, raw: Any) -> Any:
    if kind is int:
        return raw - (1 << 64) if raw >> 63 else raw
    if kind is str:
        return raw.decode()
    if kind is bytes:
        return base64.b64encode(raw).decode()
    if kind == TIME:
        seconds = dict(fields(raw)).get(1)
        return None if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return decode(kind, raw)


def envelope(tree: dict[str, Any], *, with_type: bool = True, extra: bytes = b"") -> bytes:
    """An object in Kubernetes' envelope; ``extra`` goes behind its own fields."""
    raw = encode(SCHEMAS[tree["kind"]], tree) + extra
    unknown: dict[str, Any] = {"raw": base64.b64encode(raw).decode()}
    if with_type:
        unknown["typeMeta"] = {"apiVersion": tree["apiVersion"], "kind": tree["kind"]}
    return MAGIC + encode(UNKNOWN, unknown)


def open_envelope(content: bytes) -> dict[str, Any]:
    unknown = decode(UNKNOWN, content[len(MAGIC) :])
    type_meta = unknown.get("typeMeta", {})
    schema = SCHEMAS.get(type_meta.get("kind", ""), {"metadata": (1, META)})
    return {**type_meta, **decode(schema, base64.b64decode(unknown.get("raw", "")))}


def watch_frames(content: bytes) -> Iterator[dict[str, Any]]:
    """Each frame has a four-byte big-endian length, then a bare WatchEvent around a whole envelope."""
    while content:
        (size,) = struct.unpack(">I", content[:4])
        event, content = decode(WATCH_EVENT, content[4 : 4 + size]), content[4 + size :]
        raw = base64.b64decode(event["object"]["raw"])
        if not raw.startswith(MAGIC):
            raise ValueError("a watch object without the k8s prefix")
        yield {"type": event["type"], "object": open_envelope(raw)}
