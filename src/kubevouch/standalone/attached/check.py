"""What would keep attached controllers from their work on a cluster, and what there would be in their way.

``look`` asks, changing nothing; ``judge`` says what that means. What two controllers of the same kind do to each other
was measured on kube-controller-manager 1.36: of two approvers the first write counts, of two signers' certificates one
is in no object and holds all the same.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import msgspec

from kubevouch import wellknown
from kubevouch.api.authorization_v1 import ResourceAttributes
from kubevouch.api.catalog import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_TRUST_BUNDLES,
    LEASES,
)
from kubevouch.api.certificates_v1 import CertificateSigningRequest, has_condition
from kubevouch.api.coordination_v1 import LeaseSpec
from kubevouch.authorization.ledger_policy import cluster_ledger_policy
from kubevouch.authorization.policy import Policy
from kubevouch.client.discovery import Discovered, discover
from kubevouch.client.interface import Client
from kubevouch.client.pager import list_all
from kubevouch.controllers import catalog
from kubevouch.controllers.catalog import Attached, Entry
from kubevouch.doctor.rights import NODE_CLIENT, SELF_NODE_CLIENT, may
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.standalone.attached.options import IN_CLUSTER
from kubevouch.standalone.attached.own_kinds import missing
from kubevouch.standalone.attached.rights import identities, policy_of

KUBE_CONTROLLER_MANAGER = "kube-controller-manager"
_ITS_LEASE = f"the Lease of {KUBE_CONTROLLER_MANAGER}"
_GRANTED = f"system:certificates.k8s.io:{CERTIFICATE_SIGNING_REQUESTS.plural}:"
# kube-controller-manager issues within 60 ms of an approval.
_PATIENCE = dt.timedelta(minutes=1)
_AT_ONCE = 16


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was found. ``hint`` says what to do."""

    level: Level
    about: str
    message: str
    hint: str = ""


class Seen(msgspec.Struct, frozen=True):
    """What a cluster shows.

    Args:
        now: the server's time, by its answers.
        manager: kube-controller-manager's Lease; None where there is none.
        unreadable: what could not be looked at, by what it is.
        granted: which of ``nodeclient`` and ``selfnodeclient`` somebody may have approved; None: it could not be read.
        requests: the CertificateSigningRequests there are.
        lacking: rights that the controllers need and this user has not.
    """

    now: dt.datetime
    found: Discovered
    manager: LeaseSpec | None = None
    unreadable: tuple[str, ...] = ()
    granted: frozenset[str] | None = frozenset()
    requests: tuple[CertificateSigningRequest, ...] = ()
    lacking: tuple[str, ...] = ()

    @property
    def manager_leads(self) -> bool:
        """Whether somebody held kube-controller-manager's Lease lately."""
        lease = self.manager
        if lease is None or not lease.holder_identity or lease.renew_time is None:
            return False
        # Twice, for clocks that differ by some seconds.
        return self.now - lease.renew_time.datetime() < 2 * dt.timedelta(seconds=lease.lease_duration_seconds or 0)


class Report(msgspec.Struct, frozen=True):
    """What to know before attached controllers start. ``switch_off`` is for kube-controller-manager's flag."""

    selected: tuple[Entry, ...]
    findings: tuple[Finding, ...]
    switch_off: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    missing_kinds: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return all(each.level is not Level.ERROR for each in self.findings)


# ------------------------------------------------------------------ looking


async def look(
    client: Client,
    selected: Sequence[Entry],
    words: Sequence[str],
    now: dt.datetime,
    ledger: Path | Literal["cluster"] | None = None,
) -> Seen:
    """``ledger``: of the run, as ``AttachedOptions`` has it.

    Raises :class:`APIStatusError`, :class:`TransportError` when the cluster cannot be asked at all.
    """
    found = await discover(client)
    unreadable: list[str] = []

    async def read(what: str, reading: Any, otherwise: Any) -> Any:
        try:
            return await reading
        except APIStatusError as err:
            if err.code == 404:
                return otherwise
            unreadable.append(f"{what}: {err}")
            return otherwise

    lease = await read(
        _ITS_LEASE,
        client.get(LEASES, KUBE_CONTROLLER_MANAGER, wellknown.KUBE_SYSTEM_NAMESPACE),
        None,
    )
    bindings = await read("ClusterRoleBindings", list_all(client, CLUSTER_ROLE_BINDINGS), None)
    requests = await read("CertificateSigningRequests", list_all(client, CERTIFICATE_SIGNING_REQUESTS), None)
    return Seen(
        now=now,
        found=found,
        manager=None if lease is None else lease.spec,
        unreadable=tuple(unreadable),
        granted=None
        if bindings is None
        else frozenset(
            each.role_ref.name.removeprefix(_GRANTED)
            for each in bindings.items
            if each.role_ref.name.startswith(_GRANTED) and each.subjects
        ),
        requests=tuple(requests.items if requests is not None else ()),
        lacking=await _lacking(client, found, selected, words, ledger),
    )


async def _lacking(
    client: Client,
    found: Discovered,
    selected: Sequence[Entry],
    words: Sequence[str],
    ledger: Path | Literal["cluster"] | None,
) -> tuple[str, ...]:
    """One question for each verb, resource and name that is declared, of what the server serves."""
    asked: dict[str, ResourceAttributes] = {}
    policies = [*map(policy_of, identities(selected, words, has_ledger_file=isinstance(ledger, Path)))]
    if ledger == IN_CLUSTER:
        policies.append(cluster_ledger_policy())
    for policy in policies:
        asked |= {_told(each): each for each in wanted(policy)}
    kinds = {(group, name) for group, _version, name in found.verbs}
    served = {
        told: each for told, each in asked.items()
        if each.resource == "signers" or (each.group, _whole(each)) in kinds
    }  # fmt: skip
    turns = asyncio.Semaphore(_AT_ONCE)

    async def has(attributes: ResourceAttributes) -> bool:
        async with turns:
            return await may(client, attributes)

    answers = await asyncio.gather(*map(has, served.values()))
    return tuple(told for told, allowed in zip(served, answers, strict=True) if not allowed)


def wanted(policy: Policy) -> Iterator[ResourceAttributes]:
    """What rules grant, one by one. Of names that a rule has many of, the first stands for all."""
    rules = [("", rule) for role in policy.cluster_roles for rule in role.rules or ()]
    rules += [(role.metadata.namespace, rule) for role in policy.roles for rule in role.rules or ()]
    for namespace, rule in rules:
        # Signers differ in what the name allows; ConfigMaps of records do not.
        names = rule.resource_names if "signers" in rule.resources else rule.resource_names[:1]
        for group in rule.api_groups:
            for resource in rule.resources:
                plural, _, subresource = resource.partition("/")
                for verb in rule.verbs or ():
                    for name in names or ("",):
                        yield ResourceAttributes(
                            namespace=namespace, verb=verb, group=group, resource=plural, subresource=subresource,
                            name=name,
                        )  # fmt: skip


def _whole(attributes: ResourceAttributes) -> str:
    return "/".join(filter(None, (attributes.resource, attributes.subresource)))


def _told(attributes: ResourceAttributes) -> str:
    text = f"{attributes.verb} {_whole(attributes)}"
    if attributes.group:
        text += f".{attributes.group}"
    if attributes.name:
        text += f" {attributes.name}"
    return f"{text} in {attributes.namespace}" if attributes.namespace else text


# ------------------------------------------------------------------ judging


def judge(seen: Seen, selected: Sequence[Entry], words: Sequence[str]) -> Report:
    """What it means for these controllers."""
    findings = list(_reachable(seen))
    absent = [str(each.group_resource) for each in missing(seen.found)]
    if absent:
        findings.append(
            Finding(
                Level.WARNING, "kinds", f"not served, and so counted as empty: {', '.join(absent)}",
                "kubectl apply -f deploy/crds",
            )
        )  # fmt: skip
    findings += _needed_apis(seen, selected)
    fighting = list(_fighting(seen, selected, words))
    findings += (each for _alias, each in fighting)
    switch_off = tuple(dict.fromkeys(alias for alias, each in fighting if each.level is Level.ERROR))
    findings += _unsigned(seen, selected)
    if seen.lacking:
        findings.append(
            Finding(
                Level.ERROR, "rights", f"{len(seen.lacking)} that the controllers need are missing",
                "deploy/controllers/access.yaml has those of what runs without being named; grant the others",
            )
        )  # fmt: skip
    return Report(tuple(selected), tuple(findings), switch_off, seen.lacking, tuple(absent))


def _reachable(seen: Seen) -> Iterator[Finding]:
    for each in seen.unreadable:
        yield Finding(Level.WARNING, "access", f"cannot be looked at: {each}", "ask as somebody who may read it")
    for version, why in seen.found.failures.items():
        yield Finding(Level.WARNING, "discovery", f"{version} is announced and does not answer: {why}")
    lease = seen.manager
    if lease is None and any(each.startswith(_ITS_LEASE) for each in seen.unreadable):
        yield Finding(Level.WARNING, KUBE_CONTROLLER_MANAGER, "nobody knows whether it runs here")
    elif lease is None:
        yield Finding(Level.OK, KUBE_CONTROLLER_MANAGER, "has no Lease here")
    elif seen.manager_leads:
        yield Finding(Level.OK, KUBE_CONTROLLER_MANAGER, f"runs, as {lease.holder_identity}")
    else:
        yield Finding(Level.WARNING, KUBE_CONTROLLER_MANAGER, "has not renewed its Lease; it may come back")


def _needed_apis(seen: Seen, selected: Sequence[Entry]) -> Iterator[Finding]:
    names = {each.name for each in selected}
    publisher = wellknown.CLUSTER_TRUST_BUNDLE_PUBLISHER_CONTROLLER
    if publisher in names and not seen.found.serves(CLUSTER_TRUST_BUNDLES):
        yield Finding(
            Level.ERROR,
            "clustertrustbundles",
            f"not served as {CLUSTER_TRUST_BUNDLES.api_version}, and {publisher} publishes nothing else",
            "kube-apiserver --feature-gates=ClusterTrustBundle=true "
            f"--runtime-config={CLUSTER_TRUST_BUNDLES.api_version}=true",
        )
    pods = any(name == "podcertificaterequests" for _group, _version, name in seen.found.verbs)
    if "pod-certificate-signing-controller" in names and not pods:
        yield Finding(Level.WARNING, "podcertificaterequests", "not served: no pod can ask for a certificate")


def _fighting(seen: Seen, selected: Sequence[Entry], words: Sequence[str]) -> Iterator[tuple[str, Finding]]:
    """Controllers of ours that kube-controller-manager runs, too."""
    # Who was turned off there cannot be seen; who leads may run them all.
    level = Level.ERROR if seen.manager_leads else Level.WARNING
    hint = "switch it off there, or leave it out here"
    for each in selected:
        if each.name == wellknown.CSR_APPROVING_CONTROLLER and catalog.is_named(each.name, words):
            approves = (seen.granted or frozenset()) & {NODE_CLIENT, SELF_NODE_CLIENT}
            if seen.granted is None:
                what = "may approve; whom it approves is not known"
            elif approves:
                what = f"approves whoever may have {' or '.join(sorted(approves))}"
            else:
                what = "finds nobody to approve"
            text = (
                f"that of kube-controller-manager {what}; of two, the first write counts, and no approval is taken back"
            )
            yield each.alias, Finding(level if approves else Level.WARNING, each.alias, text, hint)
        elif each.name == wellknown.CSR_SIGNING_CONTROLLER and catalog.is_named(each.name, words):
            signs = _signed_elsewhere(seen)
            if signs:
                text = f"somebody signs already: {', '.join(signs)}; of two certificates, one is in no object and holds"
                yield each.alias, Finding(level, each.alias, text, hint)
        elif each.attached is Attached.TWIN and each.name in _OF_KUBE_CONTROLLER_MANAGER:
            yield each.alias, Finding(level, each.alias, "kube-controller-manager has it, too", hint)


_OURS_ALONE = frozenset((wellknown.TOKEN_USES_CONTROLLER, wellknown.JOIN_STATUS_CONTROLLER))
_OF_KUBE_CONTROLLER_MANAGER = frozenset(
    each.name for each in catalog.CONTROLLERS if each.attached is Attached.TWIN and each.name not in _OURS_ALONE
)


def _signed_elsewhere(seen: Seen) -> list[str]:
    return sorted({each.spec.signer_name for each in _of_kubernetes(seen) if each.status.certificate})


def _unsigned(seen: Seen, selected: Sequence[Entry]) -> Iterator[Finding]:
    """Approved requests that nobody has signed in time: the hand-over to an attached signer."""
    waiting: dict[str, int] = {}
    for csr in _of_kubernetes(seen):
        approved = (each for each in csr.status.conditions if each.type == wellknown.CSR_APPROVED)
        since = next((each.last_update_time for each in approved), None)
        decided = has_condition(csr, wellknown.CSR_DENIED) or has_condition(csr, wellknown.CSR_FAILED)
        if csr.status.certificate or decided or since is None:
            continue
        if seen.now - since.datetime() > _PATIENCE:
            waiting[csr.spec.signer_name] = waiting.get(csr.spec.signer_name, 0) + 1
    signs = wellknown.CSR_SIGNING_CONTROLLER in {each.name for each in selected}
    for name, count in sorted(waiting.items()):
        yield Finding(
            Level.OK if signs else Level.WARNING,
            name,
            f"{count} approved and not signed for a minute: nobody signs for it",
            "" if signs else "csrsigning with the --cluster-signing-* flags of this signer does",
        )


def _of_kubernetes(seen: Seen) -> Iterable[CertificateSigningRequest]:
    return (each for each in seen.requests if each.spec.signer_name in KUBERNETES_SIGNERS)
