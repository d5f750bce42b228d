"""How clients learn what is served: the older lists and the aggregated document.

Source: apiserver endpoints/discovery, endpoints/discovery/aggregated (Kubernetes 1.36).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kubevouch.api import apidiscovery_v2 as aggregated
from kubevouch.api.meta_v1 import GroupVersionKind as WireGroupVersionKind
from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.machinery.meta import (
    APIGroup,
    APIGroupList,
    APIResource,
    APIResourceList,
    APIVersions,
    GroupVersionForDiscovery,
    ObjectMeta,
    ServerAddressByClientCIDR,
)
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.scheme import GroupVersion
from kubevouch.registry.apiextensions.custom_resources import ServedKindVersion
from kubevouch.server import negotiation
from kubevouch.server.endpoints import Action, Connect, Served, ServedVersion
from kubevouch.server.request import BytesResult, PlainResult, Request, Result

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
AGGREGATED_PROTOBUF_TYPE = "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_GROUP_VERSION = "apidiscovery.k8s.io/v2"
_ITEMS = schema_of(aggregated.APIGroupDiscoveryList).by_name["items"].number


# In the order of apiextensions-apiserver (pkg/apiserver/customresource_discovery_controller.go, Kubernetes 1.36).
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
_SUBRESOURCE_VERBS = ("get", "patch", "update")
_SCALE = WireGroupVersionKind(group="autoscaling", version="v1", kind="Scale")


class Discovery:
    """Answers ``/api``, ``/apis`` and what is between them and the resources.

    Of the aggregated document only the group versions are made anew that have changed since it was last asked for.
    """

    def __init__(self, served: Served, server_address: str) -> None:
        self._served = served
        self._address = server_address
        self._aggregated: dict[tuple[str, str], _Aggregated] = {}
        self._groups: dict[str, _AggregatedGroup] = {}

    def paths(self) -> list[str]:
        """The discovery paths for the index."""
        groups = self._served.groups()
        found = ["/api", "/apis", *(f"/apis/{group}" for group in groups)]
        for group_version in self._served.group_versions:
            root = "/apis" if group_version.group else "/api"
            found.append(f"{root}/{group_version}")
        return found

    async def serve(self, request: Request) -> Result | None:
        """The reply, or None when the path is not discovery's. Raises ``APIStatusError`` (406)."""
        parts = request.target.path.strip("/").split("/")
        if parts == ["api"] or parts == ["apis"]:
            wanted = _wants_aggregated(request)
            if wanted:
                return self._aggregated_reply(request, parts[0], wanted)
        plain = self._plain(parts)
        if plain is None:
            return None
        if not request.typed:
            accept = request.headers.get("Accept", "")
            if parts[0] == "api" or len(parts) > 2:  # the others are kube-aggregator's, which has no such router
                negotiation.check_routed(accept, streams=False)
            pretty = negotiation.wants_pretty(request.query.get("pretty"), request.user_agent)
            request.negotiated = negotiation.negotiate(accept, "object", tables=False, pretty=pretty)
        obj, kind = plain
        return PlainResult(obj, "v1", kind)

    def _plain(self, parts: list[str]) -> tuple[Any, str] | None:
        if parts == ["api"]:
            versions = self._served.versions_of("")
            return APIVersions(versions=versions, server_address_by_client_cidrs=self._addresses()), "APIVersions"
        if parts == ["apis"]:
            return APIGroupList(groups=[self._group(name) for name in self._served.groups()]), "APIGroupList"
        if parts[0] == "apis" and len(parts) == 2 and parts[1] in self._served.groups():
            return self._group(parts[1]), "APIGroup"
        group_version = _group_version(parts)
        if group_version is not None and self._served.serves(group_version):
            return self._resource_list(group_version), "APIResourceList"
        return None

    def _addresses(self) -> list[ServerAddressByClientCIDR]:
        return [ServerAddressByClientCIDR(client_cidr="0.0.0.0/0", server_address=self._address)]

    def _group(self, name: str) -> APIGroup:
        versions = [
            GroupVersionForDiscovery(group_version=f"{name}/{version}", version=version)
            for version in self._served.versions_of(name)
        ]
        return APIGroup(name=name, versions=versions, preferred_version=versions[0])

    # -------------------------------------------------------------- resource lists

    def _resource_list(self, group_version: GroupVersion) -> APIResourceList:
        rows: list[APIResource] = []
        custom: list[APIResource] = []
        for endpoint in sorted(self._served.within(group_version), key=lambda each: each.resource.plural):
            if endpoint.custom is None:
                rows += self._rows(endpoint)
            else:
                custom += _custom_rows(endpoint.custom)
        for action in self._actions(group_version):
            rows.append(_action_row(action))
        for connect in self._connects(group_version):
            name = f"{connect.resource.plural}/{connect.subresource}"
            namespaced = connect.resource.namespaced
            rows.append(APIResource(name=name, namespaced=namespaced, kind=connect.kind, verbs=list(connect.verbs)))
        rows.sort(key=lambda row: row.name)
        return APIResourceList(group_version=str(group_version), resources=rows + custom)

    def _actions(self, group_version: GroupVersion) -> list[Action]:
        return [a for a in self._served.actions.values() if a.resource.group_version == group_version]

    def _connects(self, group_version: GroupVersion) -> list[Connect]:
        return [c for c in self._served.connects if c.resource.group_version == group_version]

    @staticmethod
    def _rows(endpoint: ServedVersion) -> list[APIResource]:
        resource = endpoint.resource
        main = APIResource(
            name=resource.plural,
            singular_name=resource.singular,
            namespaced=resource.namespaced,
            kind=resource.kind,
            verbs=list(endpoint.verbs),
            short_names=list(resource.short_names),
            categories=list(endpoint.store.definition.categories),
            storage_version_hash=(
                endpoint.store.definition.resource.storage_version_hash if endpoint.store.definition.is_stored else ""
            ),
        )
        subresources = [
            APIResource(
                name=f"{resource.plural}/{sub.name}",
                namespaced=resource.namespaced,
                kind=resource.kind,
                verbs=list(sub.verbs),
            )
            for sub in endpoint.subresources
        ]
        return [main, *subresources]

    # -------------------------------------------------------------- aggregated

    def _aggregated_reply(self, request: Request, root: str, wanted: str) -> Result:
        body, etag = self._aggregated_document(root, wanted)
        headers = {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"}
        if request.headers.get("If-None-Match") == etag:
            return BytesResult(b"", "", 304, headers)
        return BytesResult(body, wanted, 200, headers)

    def _aggregated_document(self, root: str, wanted: str) -> tuple[bytes, str]:
        known = self._aggregated.get((root, wanted))
        if known is None or known.changes != self._served.changes:
            groups = [""] if root == "api" else self._served.groups(by_name=True)
            known = self._aggregated[root, wanted] = self._assemble(
                [self._aggregated_group(each) for each in groups], wanted
            )
            if root == "apis":
                self._groups = {name: self._groups[name] for name in ("", *groups) if name in self._groups}
        return known.body, known.etag

    def _assemble(self, groups: Sequence[_AggregatedGroup], wanted: str) -> _Aggregated:
        empty = aggregated.APIGroupDiscoveryList(items=[])
        frame = json_codec.with_type_meta(json_codec.encode(empty), "APIGroupDiscoveryList", _GROUP_VERSION)
        text = frame.removesuffix(b"]}") + b",".join(each.text for each in groups) + b"]}"
        etag = f'"{hashlib.sha512(text).hexdigest().upper()}"'
        if wanted == AGGREGATED_PROTOBUF_TYPE:
            items = [protobuf.length_delimited(_ITEMS, each.message()) for each in groups]
            raw = protobuf.codec_for(aggregated.APIGroupDiscoveryList).encode(empty)
            return _Aggregated(
                self._served.changes,
                protobuf.seal(_GROUP_VERSION, "APIGroupDiscoveryList", b"".join((raw, *items))),
                etag,
            )
        return _Aggregated(self._served.changes, text + b"\n", etag)

    def _aggregated_group(self, group: str) -> _AggregatedGroup:
        versions = [GroupVersion(group, version) for version in self._served.versions_of(group)]
        stamps = {each: self._served.stamps[each] for each in versions}
        known = self._groups.get(group)
        if known is None or known.stamps != stamps:
            found = aggregated.APIGroupDiscovery(
                metadata=ObjectMeta(name=group),
                versions=[
                    aggregated.APIVersionDiscovery(
                        version=each.version, freshness=aggregated.CURRENT, resources=self._aggregate_resources(each)
                    )
                    for each in versions
                ],
            )
            known = self._groups[group] = _AggregatedGroup(stamps, json_codec.encode(found))
        return known

    def _aggregate_resources(self, group_version: GroupVersion) -> list[aggregated.APIResourceDiscovery]:
        found: dict[str, aggregated.APIResourceDiscovery] = {}
        extra: dict[str, list[aggregated.APISubresourceDiscovery]] = {}
        for action in self._actions(group_version):
            if action.subresource:
                extra.setdefault(action.resource.plural, []).append(_aggregate_subaction(action))
            else:
                found[action.resource.plural] = _aggregate_action(action)
        for connect in self._connects(group_version):
            kind = WireGroupVersionKind(kind=connect.kind)
            extra.setdefault(connect.resource.plural, []).append(
                aggregated.APISubresourceDiscovery(
                    subresource=connect.subresource, response_kind=kind, verbs=list(connect.verbs)
                )
            )
        for endpoint in self._served.within(group_version):
            resource = endpoint.resource
            if endpoint.custom is not None:
                found[resource.plural] = _aggregate_custom(endpoint.custom)
                continue
            own = WireGroupVersionKind(kind=resource.kind)
            subresources = [
                aggregated.APISubresourceDiscovery(subresource=sub.name, response_kind=own, verbs=list(sub.verbs))
                for sub in endpoint.subresources
            ]
            found[resource.plural] = aggregated.APIResourceDiscovery(
                resource=resource.plural,
                response_kind=own,
                scope="Namespaced" if resource.namespaced else "Cluster",
                singular_resource=resource.singular,
                verbs=list(endpoint.verbs),
                short_names=list(resource.short_names),
                categories=list(endpoint.store.definition.categories),
                subresources=sorted([*subresources, *extra.get(resource.plural, [])], key=lambda sub: sub.subresource),
            )
        return [found[name] for name in sorted(found)]


class _Aggregated(msgspec.Struct, frozen=True):
    """A finished document, and what ``Served.changes`` was."""

    changes: int
    body: bytes
    etag: str


class _AggregatedGroup(msgspec.Struct):
    """One group in JSON and, once that is asked for, in protobuf; and the stamps of its versions."""

    stamps: dict[GroupVersion, int]
    text: bytes
    _message: bytes | None = None

    def message(self) -> bytes:
        if self._message is None:
            codec = protobuf.codec_for(aggregated.APIGroupDiscovery)
            self._message = codec.encode(json_codec.decode(self.text, aggregated.APIGroupDiscovery))
        return self._message


def _custom_rows(version: ServedKindVersion) -> list[APIResource]:
    kind, terminating = version.owner.kind, version.owner.terminating
    rows = [
        APIResource(
            name=kind.plural,
            singular_name=kind.singular,
            namespaced=kind.namespaced,
            kind=kind.kind,
            verbs=list(_TERMINATING_VERBS if terminating else _CUSTOM_VERBS),
            short_names=list(kind.short_names),
            categories=list(kind.categories),
            storage_version_hash=version.owner.stored.resource.storage_version_hash if kind.stored.served else "",
        )
    ]
    for name, shown in _custom_subresources(version):
        rows.append(
            APIResource(
                name=f"{kind.plural}/{name}",
                namespaced=kind.namespaced,
                group=shown.group,
                version=shown.version,
                kind=shown.kind,
                verbs=list(_SUBRESOURCE_VERBS),
            )
        )
    return rows


def _custom_subresources(version: ServedKindVersion) -> Iterator[tuple[str, WireGroupVersionKind]]:
    if version.version.has_status:
        yield "status", WireGroupVersionKind(kind=version.owner.kind.kind)
    if version.version.scale is not None:
        yield "scale", _SCALE


def _aggregate_custom(version: ServedKindVersion) -> aggregated.APIResourceDiscovery:
    kind = version.owner.kind
    return aggregated.APIResourceDiscovery(
        resource=kind.plural,
        response_kind=WireGroupVersionKind(kind=kind.kind),
        scope="Namespaced" if kind.namespaced else "Cluster",
        singular_resource=kind.singular,
        verbs=list(_TERMINATING_VERBS if version.owner.terminating else _CUSTOM_VERBS),
        short_names=list(kind.short_names),
        categories=list(kind.categories),
        subresources=[
            aggregated.APISubresourceDiscovery(subresource=name, response_kind=shown, verbs=list(_SUBRESOURCE_VERBS))
            for name, shown in _custom_subresources(version)
        ],
    )


def _aggregate_action(action: Action) -> aggregated.APIResourceDiscovery:
    resource = action.resource
    return aggregated.APIResourceDiscovery(
        resource=resource.plural,
        response_kind=WireGroupVersionKind(kind=resource.kind),
        scope="Namespaced" if resource.namespaced else "Cluster",
        singular_resource=resource.singular,
        verbs=["create"],
    )


def _aggregate_subaction(action: Action) -> aggregated.APISubresourceDiscovery:
    body = action.body
    kind = WireGroupVersionKind(group=body.group, version=body.version, kind=body.kind)
    return aggregated.APISubresourceDiscovery(
        subresource=action.subresource, response_kind=kind, accepted_types=[kind], verbs=["create"]
    )


def _action_row(action: Action) -> APIResource:
    resource, body = action.resource, action.body
    if not action.subresource:
        return APIResource(
            name=resource.plural,
            singular_name=resource.singular,
            namespaced=resource.namespaced,
            kind=resource.kind,
            verbs=["create"],
        )
    return APIResource(
        name=f"{resource.plural}/{action.subresource}",
        namespaced=resource.namespaced,
        group=body.group,
        version=body.version,
        kind=body.kind,
        verbs=["create"],
    )


def _group_version(parts: list[str]) -> GroupVersion | None:
    if parts[0] == "api" and len(parts) == 2:
        return GroupVersion("", parts[1])
    if parts[0] == "apis" and len(parts) == 3:
        return GroupVersion(parts[1], parts[2])
    return None


def _wants_aggregated(request: Request) -> str:
    """The content type of the aggregated document, if that is the first clause this server can satisfy."""
    for clause in request.headers.get("Accept", "")[: negotiation.MAX_ACCEPT_BYTES].split(","):
        media, *params = [piece.strip() for piece in clause.split(";")]
        named = dict(param.split("=", 1) for param in params if "=" in param)
        wanted = named.get("as") == "APIGroupDiscoveryList"
        if wanted and named.get("g") == "apidiscovery.k8s.io" and named.get("v") == "v2":
            if media == negotiation.JSON:
                return AGGREGATED_TYPE
            if media == negotiation.PROTOBUF:
                return AGGREGATED_PROTOBUF_TYPE
        elif not wanted and media in (*negotiation.ACCEPTED, "*/*"):
            return ""
    return ""
