"""WriterRights: who writes an object of ours needs the rights that a controller will use for it.

A controller approves, signs and publishes with rights of its own for whoever wrote a policy, a signer or a machine. So
each write asks for them, as RBAC's escalation check does. The admission policies of
:mod:`kubevouch.api.kubevouch_v1alpha1.writer_guards` ask the same on other servers, and record the writer on every one.

Source: docs/adr/0047-a-writer-needs-the-rights-of-what-follows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.admission.signer_permission import may_use_signer
from kubevouch.api.certificates_v1 import GROUP as CERTIFICATES
from kubevouch.api.kubevouch_v1alpha1 import GROUP
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    ALLOWED_MACHINES,
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_SIGNERS,
    NODE_IDENTITIES,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import AUDIT, REQUIRE
from kubevouch.api.kubevouch_v1alpha1.writer_guards import AUTHORITIES, WRITERS, Writer, writer_of
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text.gotext import quote
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER, SIGNERS_NAMESPACE

EVERY_SIGNER = "*"

Tree = Mapping[str, Any]


class Need(msgspec.Struct, frozen=True):
    """A right: ``verb`` on the object ``name`` of a resource, by default on a signer."""

    verb: str
    name: str
    group: str = CERTIFICATES
    resource: str = "signers"
    namespace: str = ""


def _of_policy(spec: Tree, _: Tree) -> Iterator[Need]:
    for name in spec.get("selector", {}).get("signerNames", ()):
        yield Need("approve", name)


def _of_signer(spec: Tree, _: Tree) -> Iterator[Need]:
    name, authority = spec.get("signerName", ""), spec.get("ca", {})
    yield Need("sign", name)
    if spec.get("trust", {}).get("clusterTrustBundle"):
        yield Need("attest", name)
    if "secretName" in authority:
        # Whoever reads the key of a CA signs with it anyhow.
        yield Need("get", authority["secretName"], "", "secrets", SIGNERS_NAMESPACE)
    if "name" in authority:
        yield Need("use", authority["name"], GROUP, AUTHORITIES)


def _of_machine(spec: Tree, _: Tree) -> Iterator[Need]:
    yield Need("approve", KUBE_APISERVER_CLIENT_KUBELET_SIGNER)
    if spec.get("addresses") or spec.get("dnsNames"):
        yield Need("approve", KUBELET_SERVING_SIGNER)


def _of_identity(spec: Tree, old: Tree) -> Iterator[Need]:
    expected = spec.get("expectNewHardware")
    if expected is not None and expected != old.get("expectNewHardware"):
        yield Need("approve", KUBE_APISERVER_CLIENT_KUBELET_SIGNER)


_NEEDS: Mapping[GroupResource, Callable[[Tree, Tree], Iterator[Need]]] = {
    CERTIFICATE_REQUEST_POLICIES.group_resource: _of_policy,
    CERTIFICATE_SIGNERS.group_resource: _of_signer,
    ALLOWED_MACHINES.group_resource: _of_machine,
    NODE_IDENTITIES.group_resource: _of_identity,
}


class WriterRights:
    """A validating plug-in. What was there before is not looked at: only who changes a spec, or answers for it anew."""

    name = "WriterRights"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation in (Operation.CREATE, Operation.UPDATE) and resource in _NEEDS and not subresource

    async def validate(self, request: Request) -> None:
        spec, old = _spec(request.obj), {} if request.old is None else _spec(request.old)
        is_policy = request.resource == CERTIFICATE_REQUEST_POLICIES.group_resource
        writer = writer_of(request.obj) if is_policy else None
        is_unchanged = request.old is not None and spec == old
        if is_unchanged and (not is_policy or writer == writer_of(request.old)):
            return
        if is_policy and (spec.get("effect") == REQUIRE or spec.get("mode") == AUDIT):
            return
        for need in _NEEDS[request.resource](spec, old):
            if not await self._has(request.user, need):
                raise refused(request, _why(request.user, need))
        if is_policy and any("\n" in each for each in (request.user.name, *request.user.groups)):
            raise refused(request, "a user or a group whose name has a line feed writes no policies")
        # Where the guard is missing, a writer could name somebody else.
        if is_policy and (writer is None or _identity(writer) != _identity(request.user)):
            raise refused(
                request,
                f"the writer is not recorded: the MutatingAdmissionPolicy {WRITERS} is missing or changed; "
                "the server restores it when it starts",
            )

    async def _has(self, user: UserInfo, need: Need) -> bool:
        if need.resource == "signers" and need.name != EVERY_SIGNER:
            return await may_use_signer(self._authorizer, user, need.verb, need.name)
        # No name asks for every object, which no rule with resourceNames allows.
        name = "" if need.name == EVERY_SIGNER else need.name
        asked = Attributes(user, need.verb, need.group, "*", need.resource, namespace=need.namespace, name=name)
        return (await self._authorizer.authorize(asked)).decision is Decision.ALLOW


def _spec(obj: Any) -> Tree:
    found: Tree = obj.content.get("spec", {})
    return found


def _identity(who: Writer | UserInfo) -> tuple[str, frozenset[str]]:
    return who.name, frozenset(who.groups)


def _why(user: UserInfo, need: Need) -> str:
    if need.resource == "signers":
        about = "every signer" if need.name == EVERY_SIGNER else f"signerName {quote(need.name)}"
        return f"user {quote(user.name)} writes what a controller will {need.verb} and may not {need.verb} for {about}"
    where = f" in namespace {quote(need.namespace)}" if need.namespace else ""
    return (
        f"user {quote(user.name)} names a CA and lacks the right to {need.verb} "
        f"{need.resource}{f'.{need.group}' if need.group else ''} {quote(need.name)}{where}"
    )
