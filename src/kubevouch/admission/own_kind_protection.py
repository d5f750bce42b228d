"""OwnKindProtection: the definitions of our own kinds, and the policies that guard them, stay as this version has them.

So does the decision that deleted nodes are locked out, which anybody who may label namespaces could otherwise undo
unseen at the next start. Only the controller writes down which decisions were taken back: others could forge that.

Whoever deletes a definition deletes its objects past every admission: revocations, bans and Require policies would go
without anybody having been asked about them. The right to do it all the same is the verb ``override`` on
``definitions.kubevouch.io``, which no rule about ``customresourcedefinitions`` grants.

Source: kubevouch's own; docs/adr/0046-decisions-outlive-their-definitions.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.api.apiextensions_v1.definitions import default_definition
from kubevouch.api.catalog import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from kubevouch.api.kubevouch_v1alpha1 import GROUP, VERSION
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.guards import DECISION_PROTECTORS, DEFINITIONS, GUARDS, OVERRIDE
from kubevouch.api.kubevouch_v1alpha1.own_kind import definition_of
from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.machinery.scheme import GroupResource
from kubevouch.util.logger import get_logger
from kubevouch.wellknown import (
    API_SERVER_USER,
    DECISION_PROTECTION_CONTROLLER,
    DECISION_RELEASES_PREFIX,
    KUBE_SYSTEM_NAMESPACE,
    LOCK_OUT_DELETED_NODES_ANNOTATION,
    MASTERS_GROUP,
)

log = get_logger("admission.own_kind_protection")

OVERRIDDEN_ANNOTATION: Final = "own-kind-protection.kubevouch.io/overridden"
"""Of the audit event of a request that only this right has let through."""

_CRDS = CUSTOM_RESOURCE_DEFINITIONS.group_resource
_NAMESPACES = NAMESPACES.group_resource


@lru_cache(maxsize=1)
def _wanted() -> dict[tuple[GroupResource, str], Any]:
    """The spec of each object that is looked after."""
    wanted: dict[tuple[GroupResource, str], Any] = {
        (_CRDS, kind.definition_name): default_definition(definition_of(kind)).spec for kind in OWN_KINDS
    }
    return wanted | {(resource.group_resource, obj.metadata.name): obj.spec for resource, obj in GUARDS}  # type: ignore[attr-defined]  # each has one


_GUARDED = frozenset({_CRDS, CONFIG_MAPS.group_resource, *(resource.group_resource for resource, _ in GUARDS)})


class OwnKindProtection:
    """A validating plug-in: what it compares is what would be stored."""

    name = "OwnKindProtection"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if resource == _NAMESPACES:
            # Whoever writes its status, or its finalizers, writes its annotations, too.
            return operation is Operation.UPDATE
        if operation is Operation.CONNECT or resource not in _GUARDED:
            return False
        return subresource in ("", "status")

    async def validate(self, request: Request) -> None:
        why = _objection(request)
        # The server itself keeps the conditions, and empties a definition whose deletion was let through. Its name
        # alone is not it: whoever may impersonate users can be called so.
        if not why or (request.user.name == API_SERVER_USER and MASTERS_GROUP in request.user.groups):
            return
        asked = Attributes(request.user, OVERRIDE, GROUP, VERSION, DEFINITIONS, name=request.name)
        if (await self._authorizer.authorize(asked)).decision is not Decision.ALLOW:
            raise refused(request, f"{why}; this needs the verb {OVERRIDE} on {DEFINITIONS}.{GROUP}")
        request.warnings.append(f"{why}; let through as {request.user.name} may {OVERRIDE} {DEFINITIONS}.{GROUP}")
        request.annotations[OVERRIDDEN_ANNOTATION] = why
        log.warning(
            "a protected object was changed by the right to override", user=request.user.name, name=request.name,
            resource=str(request.resource), operation=str(request.operation), why=why, dry_run=request.dry_run,
        )  # fmt: skip


def _objection(request: Request) -> str:
    """Why the request needs the right to override; empty for one that needs nothing."""
    name = request.name or request.obj.metadata.name
    if request.resource == CONFIG_MAPS.group_resource:
        return _objection_to_release(request, name)
    if request.resource == _NAMESPACES:
        lets_in = name == KUBE_SYSTEM_NAMESPACE and _locks_out(request.old) and not _locks_out(request.obj)
        return "from the next start on, certificates of deleted nodes would count again" if lets_in else ""
    wanted = _wanted().get((request.resource, name))
    if wanted is None:
        return _objection_to_stranger(request)
    if request.operation is Operation.DELETE:
        return f"kubevouch decides by {name}: deleting it deletes all its objects, past admission"
    old = request.old
    if old is not None:
        # Whoever writes the status writes these, too.
        new_meta, meta = request.obj.metadata, old.metadata
        if (new_meta.finalizers, new_meta.owner_references) != (meta.finalizers, meta.owner_references):
            return f"kubevouch decides by {name}: its finalizers and ownerReferences decide when it is deleted"
    if request.subresource:
        if request.resource != _CRDS:
            return ""
        changed = request.obj.status != request.old.status
        return f"the API server alone writes the status of {name}: without it the kind is not served" if changed else ""
    if request.obj.spec != wanted and (old is None or request.obj.spec != old.spec):
        return f"kubevouch decides by {name}: its spec has to be the one of this version of kubevouch"
    return ""


def _objection_to_release(request: Request, name: str) -> str:
    if not name.startswith(DECISION_RELEASES_PREFIX) or request.namespace != KUBE_SYSTEM_NAMESPACE:
        return ""
    if request.user.name in DECISION_PROTECTORS:
        return ""
    return f"{DECISION_PROTECTION_CONTROLLER} alone writes down which decisions were taken back"


def _locks_out(namespace: Any) -> bool:
    return namespace.metadata.annotations.get(LOCK_OUT_DELETED_NODES_ANNOTATION, "") not in ("", "false")


def _objection_to_stranger(request: Request) -> str:
    """Another definition in our group could take the names of a kind that comes with a later version."""
    if request.resource != _CRDS or request.operation is Operation.DELETE or request.subresource:
        return ""
    if request.obj.spec.group != GROUP or (request.old is not None and request.obj.spec == request.old.spec):
        return ""
    return f"the group {GROUP} belongs to kubevouch's own kinds"
