"""PATCH in its four types (apiserver endpoints/handlers/patch.go, Kubernetes 1.36)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from kubevouch.machinery import errors, field
from kubevouch.machinery.codec import elements, json_codec
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.machinery.text import gotext
from kubevouch.machinery.writing import json_patch, managed_fields, merge_patch, strategic_merge_patch
from kubevouch.registry.interface import Context
from kubevouch.server import decoding, query_options
from kubevouch.server.endpoints import ServedVersion
from kubevouch.server.handlers import apply, shared
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.request import Request, Result
from kubevouch.util.worker import compute, weigh

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
CUSTOM_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)

# Errors about a patched object name no kind (errors.NewInvalid with an empty GroupKind).
_NO_KIND = GroupVersionKind("", "", "")

Tree = dict[str, Any]


class _Patch(msgspec.Struct, frozen=True):
    """A decoded patch: how it changes a tree, what strict reading found, how errors print its result.

    ``decodes``: whether Kubernetes reads the result by the kind it names; a strategic merge fills the struct it has.
    """

    change: Callable[[Tree], Tree]
    strict_errors: tuple[str, ...]
    printed: Callable[[Tree], str]
    decodes: bool = True


def content_type(request: Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def check_content_type(request: Request) -> None:
    """The router's refusal of other types. Raises ``APIStatusError`` (415)."""
    if content_type(request) not in TYPES:
        raise errors.unsupported_media_type("415: Unsupported Media Type", routed=True)


async def patch(env: Environment, endpoint: ServedVersion, request: Request) -> Result:
    """Change an object by a patch, or apply a configuration."""
    info = request.target
    subresource = endpoint.store.definition.subresource(info.subresource)
    shared.negotiate(request, "object", endpoint.resource, tables=subresource is None or subresource.prints_table)
    kind = content_type(request)
    if endpoint.resource.codec.schema is None and kind not in CUSTOM_TYPES:
        raise decoding.unsupported_media_type(CUSTOM_TYPES)
    data = await shared.read_body(request)
    options = query_options.patch_options(request.query, apply=kind == APPLY_PATCH)
    ctx = shared.context(request, options)
    if kind == APPLY_PATCH:
        return await apply.apply(env, endpoint, request, ctx, data, force=bool(options.force))
    decoded = await compute(partial(_decode, kind, data, endpoint, strict=ctx.field_validation != "Ignore"))
    if b"copy" in data and kind == JSON_PATCH:
        weigh(json_patch.MAX_COPIED_BYTES)  # what it makes is not bounded by what it is

    async def transform(existing: Any) -> Any:
        return await compute(_patched, env, endpoint, request, ctx, existing, decoded)

    stored, _ = await endpoint.store.update(
        ctx, info.namespace, info.name, transform, info.subresource, may_create=False
    )
    return endpoint.shown_by(info.subresource).result(stored)


def _decode(kind: str, data: bytes, endpoint: ServedVersion, *, strict: bool) -> _Patch:
    """Raises ``APIStatusError`` (400, 413)."""
    elements.check_json(data)
    if kind == JSON_PATCH:
        operations = json_patch.decode(data, strict=strict)
        return _Patch(lambda tree: json_patch.apply(tree, operations), operations.strict_errors, _json_text)
    if kind == MERGE_PATCH:
        merge = merge_patch.decode(data, strict=strict)
        return _Patch(lambda tree: merge_patch.apply(tree, merge), merge.strict_errors, _json_text)
    strategic = strategic_merge_patch.decode(data, strict=strict)
    schema = endpoint.resource.codec.schema
    assert schema is not None  # check_content_type let it pass
    return _Patch(
        lambda tree: strategic_merge_patch.apply(tree, strategic, schema),
        strategic.strict_errors,
        lambda _tree: gotext.go_value(strategic.tree),
        decodes=False,
    )


def _json_text(tree: Tree) -> str:
    return json_codec.encode(tree).decode()


def _patched(
    env: Environment, endpoint: ServedVersion, request: Request, ctx: Context, existing: Any, decoded: _Patch
) -> Any:
    """The stored object as the patch leaves it, in storage form. Raises ``APIStatusError``."""
    shown = endpoint.shown_by(request.target.subresource)
    resource = shown.resource
    codec = resource.codec
    tree = codec.to_tree(shown.show(endpoint.from_storage(existing)))
    whole: Tree = {"kind": resource.kind, "apiVersion": resource.api_version, **tree}
    changed = decoded.change(whole)
    ctx.resets_managed_fields = managed_fields.asks_reset(changed)
    other = ""
    if codec.schema is None and not changed.get("kind"):
        other = decoding.without_kind(decoded.printed(changed))
    elif codec.schema is not None and decoded.decodes:
        other = decoding.why_no_patched(changed, resource, env.scheme)
    if other:
        raise errors.invalid(_NO_KIND, "", [field.invalid("patch", decoded.printed(changed), other)])
    try:
        read = codec.from_tree(changed)
    except json_codec.UnmarshalError as err:
        raise errors.invalid(_NO_KIND, "", [field.invalid("patch", decoded.printed(changed), str(err))]) from None
    found = (*decoded.strict_errors, *read.strict_errors)
    if found and ctx.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(found)}"
        raise errors.invalid(_NO_KIND, "", [field.invalid("patch", decoded.printed(changed), why)])
    if ctx.field_validation == "Warn":
        request.warnings.extend(found)
    obj = env.scheme.default(codec.bare(read.value))
    shared.require_name_match(obj, request.target.name)
    obj = shared.in_request_namespace(obj, resource.namespaced, request.target.namespace)
    return shown.take(existing, obj) if shown.form is not None else endpoint.to_storage(obj)
