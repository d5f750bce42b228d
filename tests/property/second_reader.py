"""Reads Kubernetes' protobuf by the table of field numbers in tests/vectors, which was written apart from our types.

Nothing here comes from the declarations or from the protobuf library: what the codec writes has to mean the same to a
reader that knows only the published numbers.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import struct
from pathlib import Path
from typing import Any

from contract.http_cases.mini_protobuf import fields

Table = dict[str, dict[str, Any]]
TABLE: dict[str, Table] = json.loads((Path(__file__).parents[1] / "vectors" / "field_numbers.json").read_text())
# A message is looked up in its own group first.
_SHARED = ("meta/v1", "core/v1", "certificates.k8s.io/v1")
_JSON_NAMES = {
    ("BoundObjectReference", "uID"): "uid",
    ("ValidatingWebhookConfiguration", "Webhooks"): "webhooks",
    ("MutatingWebhookConfiguration", "Webhooks"): "webhooks",
    ("Validation", "Expression"): "expression",
    ("Variable", "Name"): "name",
    ("Variable", "Expression"): "expression",
}
# Messages whose fields stand beside the others in JSON: structs that Go embeds.
_EMBEDDED = (
    "rule", "ruleWithOperations", "deviceConfiguration", "volumeSource", "handler", "ephemeralContainerCommon",
    "localObjectReference",
)  # fmt: skip
# Messages that are a schema or something else.
_EITHER = frozenset({"JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"})
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def find(group: str, message: str) -> tuple[str, dict[str, Any]]:
    """The group that declares a message, and its fields. Raises ``KeyError``."""
    for candidate in (group, *_SHARED):
        if message in TABLE.get(candidate, {}):
            return candidate, TABLE[candidate][message]["fields"]
    raise KeyError(f"{message} of {group} is not in the table")


def read(group: str, message: str, content: bytes) -> dict[str, Any]:
    """The JSON tree of a message, as far as it is there."""
    home, declared = find(group, message)
    by_number = {number: (name, kind) for name, (number, kind) in declared.items()}
    tree: dict[str, Any] = {}
    for number, raw in fields(content):
        name, kind = by_number[number]
        name = _JSON_NAMES.get((message, name), name)
        if name in _EMBEDDED and kind in TABLE[home]:
            tree |= read(home, kind, raw)
        elif kind.startswith("[]"):
            tree.setdefault(name, []).append(_value(home, kind[2:], raw))
        elif kind.startswith("map<"):
            entry = dict(fields(raw))
            values = re.fullmatch(r"map<string, (.*)>", kind)
            assert values is not None
            kind = "s" if values[1] == "string" else values[1]
            tree.setdefault(name, {})[entry.get(1, b"").decode()] = _value(home, kind, entry.get(2, b""))
        else:
            tree[name] = _value(home, kind, raw)
    return tree


def _value(group: str, kind: str, raw: Any) -> Any:
    match kind:
        case "s":
            return raw.decode()
        case "b":
            return bool(raw)
        case "f64":
            return struct.unpack("<d", raw)[0]
        case "i32" | "i64":
            return raw - (1 << 64) if raw >> 63 else raw
        case "bytes":
            return base64.b64encode(raw).decode()
        case "Time" | "MicroTime":
            return _time(dict(fields(raw)), micro=kind == "MicroTime")
        case "Quantity":
            return dict(fields(raw)).get(1, b"").decode()
        case "IntOrString":
            parts = dict(fields(raw))
            return parts[3].decode() if parts[1] else _value(group, "i32", parts[2])
        case "FieldsV1" | "RawExtension" | "JSON":
            content = dict(fields(raw)).get(1, b"")
            return json.loads(content) if content else None
        case "ExtraValue" | "Verbs":
            return [item.decode() for _, item in fields(raw)]
    tree = read(group, kind, raw)
    return tree if kind not in _EITHER else _one_of(tree)


def _one_of(tree: dict[str, Any]) -> Any:
    """A message that stands in JSON for one of its fields."""
    kept = {name: value for name, value in tree.items() if name != "allows"}
    return next(iter(kept.values()), tree.get("allows", {}))


def _time(parts: dict[int, Any], *, micro: bool) -> str | None:
    if 1 not in parts:
        return None
    seconds = parts[1] - (1 << 64) if parts[1] >> 63 else parts[1]
    moment = _EPOCH + dt.timedelta(seconds=seconds, microseconds=parts.get(2, 0) // 1000)
    text = moment.isoformat().replace("+00:00", "")
    if micro:
        return f"{text.partition('.')[0]}.{moment.microsecond:06d}Z"
    return f"{text}Z"


def without_zeros(tree: Any) -> Any:
    """A JSON tree without what is empty: JSON leaves some zero values out, protobuf others."""
    if isinstance(tree, dict):
        kept = {key: without_zeros(value) for key, value in tree.items()}
        return {key: value for key, value in kept.items() if value not in ("", 0, None, {}, [])}
    if isinstance(tree, list):
        return [without_zeros(item) for item in tree]
    return tree
