"""What the verbs have in common: negotiation, context, bodies, scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from kubevouch.admission.chain import AdmissionChain
from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.authorization.messages import forbidden
from kubevouch.machinery import errors
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.scheme import GroupVersion, Resource, Scheme
from kubevouch.machinery.text import selectors
from kubevouch.registry.interface import Context
from kubevouch.server import decoding, negotiation
from kubevouch.server.endpoints import ServedVersion
from kubevouch.server.request import Request
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.storage.watchcache.resource_cache import Scope
from kubevouch.util.clock import Clock
from kubevouch.util.timers import Timers
from kubevouch.util.worker import compute, weigh


class Environment(msgspec.Struct, frozen=True):
    """What handlers need besides the request."""

    clock: Clock
    scheme: Scheme
    authorizer: Authorizer
    admission: AdmissionChain
    timers: Timers


class _Options(Protocol):
    @property
    def dry_run(self) -> list[str]: ...

    @property
    def field_manager(self) -> str: ...

    @property
    def field_validation(self) -> str: ...


def negotiate(request: Request, use: negotiation.Use, resource: Resource[Any], *, tables: bool = True) -> None:
    """Settle the form of the reply before anything is done. Raises ``APIStatusError`` (406)."""
    if request.typed:
        return
    request.negotiated = negotiation.negotiate(
        request.headers.get("Accept", ""),
        use,
        tables=tables,
        pretty=negotiation.wants_pretty(request.query.get("pretty"), request.user_agent),
        go_type=f"*{resource.internal_name}{'List' if use == 'list' else ''}",
        protobuf=resource.codec.schema is not None,
    )
    check_include_object(request)


def check_include_object(request: Request) -> None:
    """``includeObject`` matters for tables only. Raises ``APIStatusError`` (400)."""
    how = request.negotiated
    if how is None or how.transform.kind != "Table":
        return
    include = request.query.get("includeObject")
    if include not in ("", "Metadata", "Object", "None"):
        raise errors.bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": must be '
            "'Metadata', 'Object', 'None', or empty"
        )


def context(request: Request, options: _Options | None = None) -> Context:
    """The registry's view of the request."""
    return Context(
        user=request.user,
        now=request.received,
        api_version=str(GroupVersion(request.target.group, request.target.version)),
        dry_run=bool(options is not None and options.dry_run),
        field_manager=field_manager(request, options.field_manager if options is not None else ""),
        field_validation=(options.field_validation if options is not None else "") or "Warn",
        warnings=request.warnings,
        annotations=request.annotations,
        options=options,
        source=request.credentials.source,
        own=request.loopback,
    )


def field_manager(request: Request, given: str) -> str:
    """The name for managedFields: what the client says, else its program's name."""
    if given:
        return given
    name = request.user_agent.partition("/")[0]
    if not name.isprintable():
        name = "".join(char for char in name if char.isprintable())
    return name[:128] or "unknown"


async def read_body(request: Request) -> bytes:
    """Raises ``APIStatusError`` (413, 415, 400)."""
    data = await request.read_body(decoding.MAX_BODY_BYTES)
    weigh(len(data))
    if b"*" in data and _is_yaml(request):
        weigh(decoding.MAX_BODY_BYTES)  # an alias stands for as much as there is room for
    if request.audit is not None:
        request.audit.body = data
    return data


def _is_yaml(request: Request) -> bool:
    return "yaml" in request.headers.get("Content-Type", "").lower()


async def typed_object(request: Request, expected: Resource[Any], ctx: Context) -> Any:
    """The object that a client in this process sent as it is. Raises ``APIStatusError`` (400)."""
    if expected.codec.schema is not None:
        return request.obj
    body = await compute(decoding.of_custom_kind, request.obj, expected)
    decoding.apply_field_validation(body, expected.kind, ctx.field_validation, request.warnings)
    return body.obj


async def decode_body(
    request: Request, data: bytes, media: str, expected: Resource[Any], env: Environment, ctx: Context
) -> Any:
    """The object in a body. Raises ``APIStatusError`` (400)."""
    body = await compute(decoding.decode, data, media, expected, env.scheme)
    decoding.apply_field_validation(body, expected.kind, ctx.field_validation, request.warnings)
    ctx.resets_managed_fields = body.resets_managed_fields
    if request.audit is not None:
        request.audit.sent(body.obj, body.gvk.api_version, body.gvk.kind)
    return body.obj


def in_request_namespace(obj: Any, namespaced: bool, namespace: str) -> Any:
    """The object in the namespace of the URL. Raises ``APIStatusError`` (400) when it names another."""
    own = obj.metadata.namespace
    if not namespaced:
        return replace_metadata(obj, namespace="") if own else obj
    if not own:
        return replace_metadata(obj, namespace=namespace)
    if own != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return obj


def require_name_match(obj: Any, name: str) -> None:
    """The body of a write must name the object of the URL. Raises ``APIStatusError`` (400)."""
    if not obj.metadata.name:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if obj.metadata.name != name:
        raise errors.bad_request(
            f"the name of the object ({obj.metadata.name}) does not match the name on the URL ({name})"
        )


def scope_of(
    endpoint: ServedVersion, namespace: str, label_selector: str, field_selector: str, name: str = ""
) -> Scope[Any]:
    """Where a list or watch looks, and which objects count. Raises ``APIStatusError`` (400) for bad selectors."""
    definition = endpoint.store.definition
    prefix = definition.key_prefix
    if namespace and definition.resource.namespaced:
        prefix += f"{namespace}/"
    if not label_selector and not field_selector and not name:
        return Scope(prefix)
    labels, fields = parse_selectors(endpoint, label_selector, field_selector)
    pinned = name or fields.requires_exact("metadata.name") or ""
    key = ""
    if pinned and "/" not in pinned and (namespace or not definition.resource.namespaced):
        key = definition.key(namespace, pinned)
    by_name_only = not fields.terms or (len(fields.terms) == 1 and bool(key))
    if labels is None and key and by_name_only:
        return Scope(prefix, key)
    getters: dict[str, Callable[[Any], str]] = {
        "metadata.name": lambda obj: obj.metadata.name,
        "metadata.namespace": lambda obj: obj.metadata.namespace,
        **endpoint.selectable_fields,
    }
    asked = {name: getters[name] for name in fields.fields}

    def matches(stored: Stored[Any]) -> bool:
        obj = stored.obj
        if labels is not None and not labels.matches(obj.metadata.labels):
            return False
        if fields.empty:
            return True
        served = endpoint.from_storage(endpoint.store.seen(stored))
        return fields.matches({name: read(served) for name, read in asked.items()})

    name = f"{endpoint.resource.api_version}|{label_selector}|{field_selector}"
    return Scope(prefix, key, matches, name, cost=fields.cost + (labels.cost if labels is not None else 0))


def parse_selectors(
    endpoint: ServedVersion, label_selector: str, field_selector: str
) -> tuple[selectors.LabelSelector | None, selectors.FieldSelector]:
    """Raises ``APIStatusError`` (400) in Kubernetes' words."""
    try:
        labels = selectors.parse_label_selector(label_selector) if label_selector else None
    except selectors.SelectorError as err:
        raise errors.bad_request(str(err)) from None
    try:
        fields = selectors.parse_field_selector(field_selector)
    except selectors.SelectorError as err:
        raise errors.bad_request(str(err)) from None
    known = {"metadata.name", *endpoint.selectable_fields}
    # Kinds with a conversion of labels of their own; custom ones always have one.
    named = bool(endpoint.selectable_fields) or endpoint.custom is not None
    if (endpoint.resource.namespaced or not named) and endpoint.store.definition.selects_namespace:
        known.add("metadata.namespace")
    for term in fields.terms:
        if term.field not in known:
            raise errors.bad_request(
                f"field label not supported: {term.field}"
                if named
                else f'"{term.field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
    return labels, fields


async def require_permission(env: Environment, request: Request, verb: str) -> None:
    """A write that turns out to need another verb, such as a PUT that creates. Raises ``APIStatusError`` (403)."""
    info = request.target
    attributes = Attributes(
        user=request.user,
        verb=verb,
        group=info.group,
        api_version=info.version,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
    )
    verdict = await env.authorizer.authorize(attributes)
    if verdict.decision is not Decision.ALLOW:
        raise forbidden(attributes, verdict.reason)
