"""What a server serves, asked of its discovery.

Source: k8s.io/client-go discovery/discovery_client.go (Kubernetes 1.36). The documents that every version since 1.5 has
are read, one for each group version: the aggregated ones have changed their form with 1.27 and 1.30.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubevouch.api.catalog import STORED, VIEWS
from kubevouch.client.interface import Client
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import APIGroupList, APIResource, APIResourceList, Status
from kubevouch.machinery.scheme import GroupVersion, Resource

MAX_GROUP_VERSIONS = 1000
"""More than a cluster with every operator there is; a server that names more is not asked about them."""

_KNOWN = {(each.group, each.version, each.plural): each for each in STORED}
# Another version of the same group comes once as it is, and may be the only one that is served.
_VIEWS = {(each.group, each.version, each.plural) for each in VIEWS} - {
    (each.group, version, each.plural) for each in STORED for version in {view.version for view in VIEWS}
}


class Discovered(msgspec.Struct, frozen=True):
    """What was found.

    Args:
        verbs: of each resource, subresources among them (``nodes/status``), by group, version and name.
        preferred: each resource once, in its group's preferred version where that has it: by its struct where one is
            declared, as a tree otherwise. What is another one's objects again, as Events are, is not among them.
        failures: why a group version could not be looked at, by its name, as when an aggregated server is down.
    """

    verbs: Mapping[tuple[str, str, str], frozenset[str]] = msgspec.field(default_factory=dict)
    preferred: tuple[Resource[Any], ...] = ()
    failures: Mapping[str, str] = msgspec.field(default_factory=dict)

    def serves(self, resource: Resource[Any], subresource: str = "") -> bool:
        name = f"{resource.plural}/{subresource}" if subresource else resource.plural
        return (resource.group, resource.version, name) in self.verbs


async def discover(client: Client) -> Discovered:
    """Look at everything.

    Raises:
        APIStatusError, TransportError: the lists of groups could not be had, or the server is gone midway.
    """
    verbs: dict[tuple[str, str, str], frozenset[str]] = {}
    preferred: dict[tuple[str, str], Resource[Any]] = {}
    failures: dict[str, str] = {}
    for name in (await _group_versions(client))[:MAX_GROUP_VERSIONS]:
        try:
            version = GroupVersion.parse(name)
        except ValueError as err:
            failures[name] = str(err)
            continue
        try:
            listed = await _read(client, f"/apis/{name}" if version.group else f"/api/{name}", APIResourceList)
        except APIStatusError as err:
            failures[name] = str(err)
            continue
        for each in listed.resources or ():
            verbs[version.group, version.version, each.name] = frozenset(each.verbs or ())
            if "/" not in each.name and (version.group, version.version, each.name) not in _VIEWS:
                resource = _resource(version, each)
                known = (resource.group, resource.version, resource.plural) in _KNOWN
                # The preferred version comes first; one whose structs are here beats it.
                if known or (version.group, each.name) not in preferred:
                    preferred[version.group, each.name] = resource
    return Discovered(verbs, tuple(preferred.values()), failures)


async def _group_versions(client: Client) -> list[str]:
    """Those of each group together, the preferred one first."""
    groups = await _read(client, "/apis", APIGroupList)
    found = ["v1"]
    for group in groups.groups or ():
        first = group.preferred_version.group_version
        others = (each.group_version for each in group.versions or ())
        found += dict.fromkeys(each for each in (first, *others) if each)
    return found


def _resource(version: GroupVersion, found: APIResource) -> Resource[Any]:
    known = _KNOWN.get((version.group, version.version, found.name))
    if known is not None:
        return known
    return Resource(
        version.group, version.version, found.kind, found.name, CustomObject, namespaced=bool(found.namespaced)
    )


async def _read(client: Client, path: str, kind: type[Any]) -> Any:
    """Raises :class:`APIStatusError`, ``TransportError``."""
    answer = await client.raw("GET", path)
    if answer.status != 200:
        raise _failure(answer.status, f"GET {path} was answered with {answer.status}")
    try:
        return json_codec.decode(answer.body, kind)
    except ValueError as err:
        raise _failure(500, f"GET {path} was answered with no document of discovery: {err}") from err


def _failure(code: int, message: str) -> APIStatusError:
    return APIStatusError(Status(status="Failure", code=code, reason=Reason.INTERNAL_ERROR, message=message))


def deletable(resources: Iterable[Resource[Any]], found: Discovered) -> list[Resource[Any]]:
    """Those that clients may list and delete, so that there is something to clear away."""
    needed = {"list", "watch", "delete"}
    return [each for each in resources if needed <= found.verbs[each.group, each.version, each.plural]]
