"""Server-side apply: ``PATCH`` with ``application/apply-patch+yaml``.

Source: apiserver endpoints/handlers/patch.go, applyPatcher (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

from kubevouch.machinery import errors
from kubevouch.machinery.codec import yamltext
from kubevouch.registry.interface import Context
from kubevouch.server import decoding
from kubevouch.server.endpoints import ServedVersion
from kubevouch.server.handlers import shared
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.request import Request, Result
from kubevouch.util.worker import compute


async def apply(
    env: Environment, endpoint: ServedVersion, request: Request, ctx: Context, data: bytes, *, force: bool
) -> Result:
    """Merge a configuration into the object, or create it."""
    info, resource = request.target, endpoint.resource
    tree = await compute(_decode, data, request, ctx)
    shown = endpoint.shown_by(info.subresource)
    if shown.form is not None:
        tree = shown.form.configuration(tree)
    store = endpoint.store

    async def transform(existing: Any) -> Any:
        if existing is None:
            _refuse_uid(tree, endpoint, info.name)
            await shared.require_permission(env, request, "create")
        return await compute(merged, existing)

    def merged(existing: Any) -> Any:
        live = None if existing is None else endpoint.from_storage(existing)
        applied = store.fields.apply(ctx, live, tree, info.subresource, force=force)
        applied = resource.codec.bare(applied)
        shared.require_name_match(applied, info.name)
        return endpoint.to_storage(shared.in_request_namespace(applied, resource.namespaced, info.namespace))

    stored, created = await store.update(ctx, info.namespace, info.name, transform, info.subresource, applies=True)
    return shown.result(stored, 201 if created else 200)


def _decode(data: bytes, request: Request, ctx: Context) -> Any:
    """Raises ``APIStatusError`` (400)."""
    try:
        tree, repeated = yamltext.loads(data)
    except yamltext.YAMLError as err:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {err}") from None
    if repeated and ctx.field_validation == "Strict":
        raise errors.bad_request(f"error strict decoding YAML: {decoding.yaml_errors(repeated)}")
    if ctx.field_validation == "Warn":
        request.warnings.extend(repeated)
    return tree if tree is not None else {}


def _refuse_uid(tree: Any, endpoint: ServedVersion, name: str) -> None:
    """A configuration with a UID is about an object that exists. Raises ``APIStatusError`` (409)."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.conflict(endpoint.resource.group_resource, name, why)
