"""Request bodies to objects, with Kubernetes' refusals (apiserver endpoints/handlers, runtime/serializer; 1.36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from kubevouch.machinery import errors
from kubevouch.machinery.codec import elements, gojson, json_codec, protobuf, yamltext
from kubevouch.machinery.codec.object_codec import ObjectCodec, codec_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.schema import opaque_values
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind, Resource, Scheme
from kubevouch.machinery.writing import managed_fields
from kubevouch.server.negotiation import ACCEPTED, JSON, PROTOBUF, YAML

MAX_BODY_BYTES = 3 * 1024 * 1024
_SCHEME_NAME = "pkg/api/legacyscheme/scheme.go:30"
_SUMMARY_BYTES = 30


class Body(msgspec.Struct, frozen=True):
    """A decoded body: the object without TypeMeta, what it said it was, and what strict reading found.

    ``repeated_keys`` is what YAML's reader says of keys that occur more than once.
    """

    obj: Any
    gvk: GroupVersionKind
    strict_errors: tuple[str, ...] = ()
    repeated_keys: tuple[str, ...] = ()
    resets_managed_fields: bool = False


def media_type(content_type: str) -> str:
    """The media type of a Content-Type header; empty means JSON.

    Raises:
        APIStatusError: 415 when it is not one of the three.
    """
    media = content_type.partition(";")[0].strip().lower() or JSON
    if media not in ACCEPTED:
        raise unsupported_media_type()
    return media


def unsupported_media_type(accepted: Iterable[str] = ACCEPTED) -> APIStatusError:
    """415, in the words of handlers."""
    return errors.unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    )


def decode(data: bytes, media: str, expected: Resource[Any], scheme: Scheme) -> Body:
    """The object in ``data``, defaulted, which must be of the ``expected`` kind and version.

    Raises:
        APIStatusError: 400.
    """
    custom = expected.codec.schema is None
    if custom and media == PROTOBUF:
        raise unsupported_media_type()
    try:
        body = _protobuf(data, expected, scheme) if media == PROTOBUF else _text(data, media, expected, scheme)
    except _Unrecognized as err:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {expected.kind}): {err} ({_summary(data)})"
        ) from None
    if custom:
        # Validation looks at the kind.
        body = replace(body, gvk=body.gvk._replace(kind=expected.kind))
    if body.gvk != expected.gvk:
        raise _other_kind(body.gvk, expected)
    return replace(body, obj=scheme.default(body.obj))


class _Unrecognized(Exception):
    """The body does not even say what it is."""


def _summary(data: bytes) -> str:
    if not data:
        return "<empty>"
    head = data[:_SUMMARY_BYTES]
    text = head.decode("utf-8", "replace") if data[:1] == b"{" else head.hex()
    return text + (" ..." if len(data) > _SUMMARY_BYTES else "")


def cannot_handle(gvk: GroupVersionKind, expected_kind: str, why: str) -> APIStatusError:
    return errors.bad_request(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {expected_kind}: {why}')


def _other_kind(found: GroupVersionKind, expected: Resource[Any]) -> APIStatusError:
    if found.kind == expected.kind and found.group == expected.group:
        return errors.bad_request(
            f"the API version in the data ({found.api_version}) does not match the expected API version "
            f"({expected.api_version})"
        )
    return cannot_handle(found, expected.kind, _no_conversion(found, expected))


def _no_conversion(found: GroupVersionKind, expected: Resource[Any]) -> str:
    return f"converting ({found.version}.{found.kind}) to ({expected.internal_name}): unknown conversion"


def _not_registered(gvk: GroupVersionKind) -> str:
    return f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in scheme "{_SCHEME_NAME}"'


def why_no_patched(tree: Mapping[str, Any], expected: Resource[Any], scheme: Scheme) -> str:
    """Why what a JSON or merge patch left is not of the ``expected`` kind, as Go's decoder says it; empty if it is."""
    try:
        gvk = _target(_word(tree, "apiVersion"), _word(tree, "kind"), expected)
    except _Unrecognized as err:
        return str(err)
    if gvk not in scheme.kinds and gvk != expected.gvk:
        return _not_registered(gvk)
    same = gvk.kind == expected.kind and gvk.group == expected.group
    return "" if same else _no_conversion(gvk, expected)


def _word(tree: Mapping[str, Any], name: str) -> str:
    """Other types than text are the decoder's to complain of."""
    value = tree.get(name)
    return value if isinstance(value, str) else ""


def _target(api_version: str, kind: str, expected: Resource[Any]) -> GroupVersionKind:
    group_version = _group_version(api_version) if api_version else expected.group_version
    return GroupVersionKind(group_version.group, group_version.version, kind or expected.kind)


def _group_version(api_version: str) -> GroupVersion:
    try:
        return GroupVersion.parse(api_version)
    except ValueError as err:
        raise _Unrecognized(str(err)) from None


def _codec_for(gvk: GroupVersionKind, expected: Resource[Any], scheme: Scheme) -> ObjectCodec[Any]:
    if gvk == expected.gvk:
        return expected.codec
    struct = scheme.kinds.get(gvk)
    if struct is None:
        raise cannot_handle(gvk, expected.kind, _not_registered(gvk))
    return codec_of(struct)


def _protobuf(data: bytes, expected: Resource[Any], scheme: Scheme) -> Body:
    try:
        opened = protobuf.unseal(data)
    except protobuf.ProtobufError as err:
        raise _Unrecognized(str(err)) from None
    if data == protobuf.MAGIC:
        raise _Unrecognized("empty body")
    gvk = _target(opened.api_version, opened.kind, expected)
    codec = _codec_for(gvk, expected, scheme)
    try:
        if codec.schema is not None:
            elements.check_protobuf(opened.raw, codec.schema)
        obj = codec.from_message(opened.raw)
        for each in opaque_values(obj):
            each.tree  # noqa: B018 - what it holds is looked into now, while the body can be refused
        return Body(obj, gvk)
    except protobuf.ProtobufError as err:
        raise cannot_handle(gvk, expected.kind, str(err)) from None


def parse_tree(data: bytes, media: str) -> tuple[Any, list[str]]:
    """The tree of a JSON or YAML body and what YAML says of repeated keys.

    Raises:
        ValueError: JSONSyntaxError or YAMLError, which counts nodes by itself.
        APIStatusError: 413.
    """
    if media == YAML:
        return yamltext.loads(data)
    elements.check_json(data)
    return gojson.loads(data), []


def _text(data: bytes, media: str, expected: Resource[Any], scheme: Scheme) -> Body:
    try:
        tree, repeated = parse_tree(data, media)
    except gojson.JSONSyntaxError as err:
        raise _Unrecognized(f"couldn't get version/kind; json parse error: {err}") from None
    except yamltext.YAMLError as err:
        raise _Unrecognized(
            f"couldn't get version/kind; json parse error: error converting YAML to JSON: {err}"
        ) from None
    api_version, kind = _type_meta(tree)
    if expected.codec.schema is not None:
        gvk = _target(api_version, kind, expected)
        return from_tree(tree, gvk, _codec_for(gvk, expected, scheme), expected.kind, repeated)
    if not kind:
        raise _Unrecognized(without_kind(data.decode("utf-8", "replace")))
    return from_tree(
        tree, GroupVersionKind(*_group_version(api_version), kind), expected.codec, expected.kind, repeated
    )


def without_kind(text: str) -> str:
    """What the decoder of custom objects says of a body that does not name its kind."""
    return f"Object 'Kind' is missing in '{text}'"


def from_tree(
    tree: Any, gvk: GroupVersionKind, codec: ObjectCodec[Any], expected_kind: str, repeated: list[str] | None = None
) -> Body:
    """The object in a JSON tree, as it stands in memory. Raises ``APIStatusError`` (400)."""
    try:
        decoded = codec.from_tree(tree)
    except json_codec.UnmarshalError as err:
        raise cannot_handle(gvk, expected_kind, str(err)) from None
    obj = codec.bare(decoded.value)
    return Body(obj, gvk, tuple(decoded.strict_errors), tuple(repeated or ()), managed_fields.asks_reset(tree))


def of_custom_kind(obj: Any, expected: Resource[Any]) -> Body:
    """An object of any Python type as one of the ``expected`` kind, which has a schema. Raises ``APIStatusError``."""
    whole: dict[str, Any] = {**codec_of(type(obj)).to_tree(obj)}
    whole |= {"kind": expected.kind, "apiVersion": expected.api_version}
    return from_tree(whole, expected.gvk, expected.codec, expected.kind)


def _type_meta(tree: Any) -> tuple[str, str]:
    """apiVersion and kind, as Kubernetes peeks at them before it decodes."""
    if tree is None:
        return "", ""
    if not isinstance(tree, dict):
        got = "array" if isinstance(tree, list) else "string" if isinstance(tree, str) else _scalar(tree)
        raise _Unrecognized(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f'{got} into Go value of type struct {{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }'
        )
    for key in ("apiVersion", "kind"):
        value = tree.get(key)
        if value is not None and not isinstance(value, str):
            got = "array" if isinstance(value, list) else "object" if isinstance(value, dict) else _scalar(value)
            raise _Unrecognized(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {got} into Go struct field "
                f".{key} of type string"
            )
    return tree.get("apiVersion") or "", tree.get("kind") or ""


def _scalar(value: Any) -> str:
    return "bool" if isinstance(value, bool) else "number"


def strict_error(gvk: GroupVersionKind, expected_kind: str, found: tuple[str, ...]) -> APIStatusError:
    """What ``fieldValidation=Strict`` answers."""
    return cannot_handle(gvk, expected_kind, f"strict decoding error: {', '.join(found)}")


def apply_field_validation(body: Body, expected_kind: str, field_validation: str, warnings: list[str]) -> None:
    """Refuse, warn or pass over what strict reading found. Raises ``APIStatusError`` (400) for Strict."""
    if not body.strict_errors and not body.repeated_keys:
        return
    if field_validation == "Strict":
        # go-yaml gives one error for all repeated keys.
        unmarshal = [yaml_errors(body.repeated_keys)] if body.repeated_keys else []
        raise strict_error(body.gvk, expected_kind, (*unmarshal, *body.strict_errors))
    if field_validation == "Warn":
        warnings.extend(body.repeated_keys)
        warnings.extend(body.strict_errors)


def yaml_errors(lines: Iterable[str]) -> str:
    """How go-yaml prints what strict reading found."""
    return "\n  ".join(["yaml: unmarshal errors:", *lines])
