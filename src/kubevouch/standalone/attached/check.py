"""What would keep attached controllers from their work on a cluster, and what there would be in their way.

``look`` asks, changing nothing; ``judge`` says what that means. What two controllers of the same kind do to each other
was measured on kube-controller-manager 1.36: of two approvers the first write counts, of two signers' certificates one
is in no object and holds all the same.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal, TypeVar

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
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS, OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.guard_versions import GuardVersion
from kubevouch.authorization.ledger_policy import cluster_ledger_policy
from kubevouch.authorization.policy import Policy
from kubevouch.client.discovery import Discovered, discover
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import Client
from kubevouch.client.pager import list_all
from kubevouch.controllers import catalog
from kubevouch.controllers.catalog import Attached, Entry
from kubevouch.doctor.rights import NODE_CLIENT, SELF_NODE_CLIENT, may
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.policy.other_signers import RECENT, Elsewhere, approved_by_manager, signed_elsewhere
from kubevouch.standalone.attached import guards
from kubevouch.standalone.attached.options import IN_CLUSTER, AttachedOptionsError
from kubevouch.standalone.attached.own_kinds import missing
from kubevouch.standalone.attached.rights import identities, policy_of
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.nearest import meant

KUBE_CONTROLLER_MANAGER = wellknown.KUBE_CONTROLLER_MANAGER
_ITS_LEASE = f"the Lease of {KUBE_CONTROLLER_MANAGER}"
_GRANTED = f"system:certificates.k8s.io:{CERTIFICATE_SIGNING_REQUESTS.plural}:"
# kube-controller-manager issues within 60 ms of an approval.
_PATIENCE = dt.timedelta(minutes=1)
_AT_ONCE = 16

T = TypeVar("T")


class Level(StrEnum):
    OK = "ok"
    ASSUMED = "assumed"
    """Somebody says so; nothing was seen of it."""
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was found. ``hint`` says what to do."""

    level: Level
    about: str
    message: str
    hint: str = ""


class Intent(msgspec.Struct, frozen=True):
    """What is going to run.

    Args:
        words: the ``--controllers`` list.
        signs: the signer names for which there is a CA.
        assumed: controllers that somebody says kube-controller-manager does not run.
        ledger: as ``AttachedOptions`` has it.
    """

    selected: tuple[Entry, ...]
    words: tuple[str, ...]
    signs: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    ledger: Path | Literal["cluster"] | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.selected)


class Seen(msgspec.Struct, frozen=True):
    """What a cluster shows.

    Args:
        now: the server's time, by its answers.
        manager: kube-controller-manager's Lease; None where there is none.
        unreadable: what could not be looked at, by what it is.
        granted: which of ``nodeclient`` and ``selfnodeclient`` somebody may have approved; None: it could not be read.
        requests: the CertificateSigningRequests there are.
        described: the signer names of CertificateSigners.
        lacking: rights that the controllers need and this user has not.
        unguarded: what is wrong with the guards of our kinds; None: they could not be looked at.
    """

    now: dt.datetime
    found: Discovered
    manager: LeaseSpec | None = None
    unreadable: tuple[str, ...] = ()
    granted: frozenset[str] | None = frozenset()
    requests: tuple[CertificateSigningRequest, ...] = ()
    described: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    unguarded: tuple[str, ...] | None = ()

    @property
    def is_manager_known(self) -> bool:
        """Whether its Lease, or that there is none, could be read."""
        return not any(each.startswith(_ITS_LEASE) for each in self.unreadable)

    def since_it_leads(self, done: Elsewhere) -> bool:
        """Whether the present leader was there when it was done last; without its Lease nobody was."""
        lease = self.manager
        if lease is None or lease.acquire_time is None or not self.manager_leads:
            return False
        return done.since(lease.acquire_time.datetime())

    def is_recent(self, done: Elsewhere) -> bool:
        return self.now - done.last < RECENT

    @property
    def manager_leads(self) -> bool:
        """Whether somebody held kube-controller-manager's Lease lately."""
        lease = self.manager
        if lease is None or not lease.holder_identity or lease.renew_time is None:
            return False
        # Twice, for clocks that differ by some seconds.
        return self.now - lease.renew_time.datetime() < 2 * dt.timedelta(seconds=lease.lease_duration_seconds or 0)


class Report(msgspec.Struct, frozen=True):
    """What to know before attached controllers start.

    Args:
        switch_off: for kube-controller-manager's flag, what it runs or may run.
        signs: the signer names that would be signed here.
        contested: those of them that somebody else signs now.
        assumed: what was not looked at.
    """

    selected: tuple[Entry, ...]
    findings: tuple[Finding, ...]
    switch_off: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    missing_kinds: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return all(each.level is not Level.ERROR for each in self.findings)


# ------------------------------------------------------------------ looking


async def server_time(client: HTTPSClient, clock: Clock) -> dt.datetime:
    """The server's time, by its answers; the machine's where it does not say. Raises APIStatusError, TransportError."""
    await client.raw("GET", "/version")
    return client.server_now(clock)


async def look(client: Client, intent: Intent, now: dt.datetime) -> Seen:
    """Raises :class:`APIStatusError`, :class:`TransportError` when the cluster cannot be asked at all."""
    found = await discover(client)
    seen = await look_at_signers(client, now)
    unreadable: list[str] = []
    guarding = guards.faults(client, SystemClock(), guards.version_served(found))
    unguarded = await _read(unreadable, "the guards", guarding, None)
    bindings = await _read(unreadable, "ClusterRoleBindings", list_all(client, CLUSTER_ROLE_BINDINGS), None)
    names: tuple[str, ...] = ()
    if wellknown.CERTIFICATE_SIGNERS_CONTROLLER in intent.names and found.serves(CERTIFICATE_SIGNERS):
        objects = await _read(unreadable, "CertificateSigners", list_all(client, CERTIFICATE_SIGNERS), None)
        names = () if objects is None else tuple(each.spec.signer_name for each in objects.items)
    return msgspec.structs.replace(
        seen,
        found=found,
        unreadable=(*seen.unreadable, *unreadable),
        granted=None
        if bindings is None
        else frozenset(
            each.role_ref.name.removeprefix(_GRANTED)
            for each in bindings.items
            if each.role_ref.name.startswith(_GRANTED) and each.subjects
        ),
        described=names,
        lacking=await _lacking(client, found, intent.selected, intent.words, intent.ledger),
        unguarded=unguarded,
    )


async def look_at_signers(client: Client, now: dt.datetime) -> Seen:
    """What :func:`signed_by_others` needs. Raises APIStatusError, TransportError."""
    unreadable: list[str] = []
    reading = client.get(LEASES, wellknown.KUBE_CONTROLLER_MANAGER, wellknown.KUBE_SYSTEM_NAMESPACE)
    lease = await _read(unreadable, _ITS_LEASE, reading, None)
    listing = list_all(client, CERTIFICATE_SIGNING_REQUESTS)
    requests = await _read(unreadable, "CertificateSigningRequests", listing, None)
    return Seen(
        now=now,
        found=Discovered(),
        manager=None if lease is None else lease.spec,
        unreadable=tuple(unreadable),
        requests=tuple(requests.items if requests is not None else ()),
    )


async def _read(unreadable: list[str], what: str, reading: Awaitable[T], otherwise: T | None) -> T | None:
    try:
        return await reading
    except APIStatusError as err:
        if err.code != 404:
            unreadable.append(f"{what}: {err}")
        return otherwise


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


def judge(seen: Seen, intent: Intent) -> Report:
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
    findings += _guarded(seen)
    findings += _needed_apis(seen, intent.selected)
    both = list(_both(seen, intent))
    findings += both
    contested, signing = signed_by_others(seen, intent)
    findings += signing
    findings += _unsigned(seen, intent)
    if seen.lacking:
        findings.append(
            Finding(
                Level.ERROR, "rights", f"{len(seen.lacking)} that the controllers need are missing",
                "deploy/controllers/access.yaml has those of what runs without being named; grant the others",
            )
        )  # fmt: skip
    open_ones = (each.about for each in (*both, *signing) if each.level in (Level.ERROR, Level.WARNING))
    has = {each.alias for each in catalog.CONTROLLERS} if seen.manager_leads else set()
    return Report(
        intent.selected,
        tuple(findings),
        tuple(dict.fromkeys(each for each in open_ones if each in has)),
        seen.lacking,
        tuple(absent),
        (*intent.signs, *seen.described),
        contested,
        tuple(intent.assumed),
    )


def _reachable(seen: Seen) -> Iterator[Finding]:
    for each in seen.unreadable:
        yield Finding(Level.WARNING, "access", f"cannot be looked at: {each}", "ask as somebody who may read it")
    for version, why in seen.found.failures.items():
        yield Finding(Level.WARNING, "discovery", f"{version} is announced and does not answer: {why}")
    lease = seen.manager
    if not seen.is_manager_known:
        yield Finding(Level.WARNING, KUBE_CONTROLLER_MANAGER, "nobody knows whether it runs here")
    elif lease is None:
        yield Finding(Level.OK, KUBE_CONTROLLER_MANAGER, "has no Lease here")
    elif seen.manager_leads:
        yield Finding(Level.OK, KUBE_CONTROLLER_MANAGER, f"runs, as {lease.holder_identity}")
    else:
        yield Finding(Level.WARNING, KUBE_CONTROLLER_MANAGER, "has not renewed its Lease; it may come back")


def _guarded(seen: Seen) -> Iterator[Finding]:
    """Whether who writes our objects is held to their own rights; what rests on that is off where nobody is."""
    if all(not seen.found.serves(each.resource) for each in OWN_KINDS):
        return
    version = guards.version_served(seen.found)
    off = "policies approve nothing, votes do not count and CertificateSigners do not sign"
    if version is GuardVersion.NONE:
        yield Finding(
            Level.WARNING, "guards",
            f"this API server serves no admission policies that could hold them: {off}", "Kubernetes 1.30 or newer",
        )  # fmt: skip
    elif seen.unguarded:
        yield Finding(
            Level.WARNING, "guards", f"{'; '.join(seen.unguarded)}: what rests on those is off",
            f"kubectl apply -f {guards.FILES[version]}: this API server serves {version}",
        )  # fmt: skip
    elif seen.unguarded is not None:
        yield Finding(Level.OK, "guards", f"hold, by {version}")


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


def _both(seen: Seen, intent: Intent) -> Iterator[Finding]:
    """Controllers of ours, but the signer, that kube-controller-manager may run, too."""
    for each in intent.selected:
        if each.name == wellknown.CSR_APPROVING_CONTROLLER and catalog.is_named(each.name, intent.words):
            yield _approving(seen, intent, each.alias)
        elif each.attached is Attached.TWIN and each.name in _OF_KUBE_CONTROLLER_MANAGER:
            if each.alias in intent.assumed:
                yield _assumed(each.alias)
            else:
                text = f"kube-controller-manager has it, too; {_whether_it_runs(seen)}"
                yield Finding(Level.WARNING, each.alias, text, _SWITCH_OFF)


def _approving(seen: Seen, intent: Intent, alias: str) -> Finding:
    done = approved_by_manager(seen.requests)
    two = "of two, the first write counts, and no approval is taken back"
    if done is not None and (seen.since_it_leads(done) or (seen.manager is None and seen.is_recent(done))):
        text = f"kube-controller-manager has approved {_how_often(done)}; {two}"
        return Finding(Level.ERROR, alias, f"{text}{_though(alias, intent)}", _SWITCH_OFF)
    if alias in intent.assumed:
        return _assumed(alias)
    if seen.granted is None:
        what = "whom kube-controller-manager would approve is not known"
    elif approves := seen.granted & {NODE_CLIENT, SELF_NODE_CLIENT}:
        what = f"kube-controller-manager would approve whoever may have {' or '.join(sorted(approves))}"
    else:
        what = "kube-controller-manager would find nobody to approve"
    return Finding(Level.WARNING, alias, f"{what}; {_whether_it_runs(seen)}; {two}", _SWITCH_OFF)


def _whether_it_runs(seen: Seen) -> str:
    if seen.manager_leads:
        return "whether it does there is not known, as nothing shows it"
    return "it does not lead now, and may come" if seen.is_manager_known else "whether it runs is not known"


def _assumed(alias: str) -> Finding:
    return Finding(Level.ASSUMED, alias, "assumed to be off in kube-controller-manager, as you say; not checked")


def _though(alias: str, intent: Intent) -> str:
    return f" (and you say that {alias} is off there)" if alias in intent.assumed else ""


def _how_often(done: Elsewhere) -> str:
    requests = "1 request" if done.count == 1 else f"{done.count} requests"
    return f"{requests}, the last at {done.last:%Y-%m-%d %H:%M:%S} UTC"


def signed_by_others(seen: Seen, intent: Intent) -> tuple[tuple[str, ...], list[Finding]]:
    """The names of those that would be signed here and somebody else signs now, and what there is to say of all.

    What was signed under a name of kube-controller-manager before it began to lead says nothing of it: it may have been
    started again with other flags.
    """
    elsewhere = signed_elsewhere(seen.requests, {*intent.signs, *seen.described})
    contested: dict[str, Elsewhere] = {}
    unknown, assumed = [], False
    for name in (*intent.signs, *seen.described):
        done, is_kubernetes = elsewhere.get(name), name in KUBERNETES_SIGNERS
        is_off = is_kubernetes and SIGNING in intent.assumed
        leads = is_kubernetes and seen.manager_leads
        if done is not None and (seen.since_it_leads(done) if leads else seen.is_recent(done) and not is_off):
            contested[name] = done
        elif is_off:
            assumed = True
        elif is_kubernetes and (leads or not seen.is_manager_known or seen.manager is not None):
            unknown.append(name)
    findings = [
        Finding(
            Level.ERROR,
            SIGNING if name in KUBERNETES_SIGNERS else name,
            f"somebody else signs {name}: {_how_often(done)}; of two certificates, one is in no object and holds"
            + (_though(SIGNING, intent) if name in KUBERNETES_SIGNERS else ""),
            _hint(seen, name),
        )
        for name, done in contested.items()
    ]
    if unknown:
        text = f"{_whether_it_runs(seen)}: {', '.join(unknown)}; the first request will show it, and waits 10 seconds"
        findings.append(Finding(Level.WARNING, SIGNING, text, f"{_SWITCH_OFF}; --assume-off {SIGNING} says that it is"))
    if assumed:
        findings.append(_assumed(SIGNING))
    return tuple(contested), findings


def _hint(seen: Seen, name: str) -> str:
    if name not in KUBERNETES_SIGNERS:
        return "one of the two has to stop"
    return _SWITCH_OFF if seen.manager_leads else f"{_SWITCH_OFF}; --assume-off {SIGNING} says that it is off"


SIGNING, APPROVING = "csrsigning", "csrapproving"
_SWITCH_OFF = "switch it off there, or leave it out here"
_OURS_ALONE = frozenset((wellknown.TOKEN_USES_CONTROLLER, wellknown.JOIN_STATUS_CONTROLLER))
_OF_KUBE_CONTROLLER_MANAGER = frozenset(
    each.name for each in catalog.CONTROLLERS if each.attached is Attached.TWIN and each.name not in _OURS_ALONE
)


ASSUMABLE = (
    APPROVING,
    SIGNING,
    *(each.alias for each in catalog.CONTROLLERS if each.name in _OF_KUBE_CONTROLLER_MANAGER),
)
"""What an operator may say of kube-controller-manager that it does not run."""


def verify_assumed_off(words: Sequence[str]) -> None:
    """Raises :class:`AttachedOptionsError` for a controller that kube-controller-manager has not."""
    for word in words:
        if word not in ASSUMABLE:
            raise AttachedOptionsError(
                f"got --assume-off {word}, expected controllers of kube-controller-manager",
                meant(word, ASSUMABLE, f"the list is {', '.join(ASSUMABLE)}"),
            )


def _unsigned(seen: Seen, intent: Intent) -> Iterator[Finding]:
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
    for name, count in sorted(waiting.items()):
        signs = name in intent.signs
        yield Finding(
            Level.OK if signs else Level.WARNING,
            name,
            f"{count} approved and not signed for a minute: nobody signs for it",
            "" if signs else "csrsigning, named, with the --cluster-signing-* flags of this signer does",
        )


def _of_kubernetes(seen: Seen) -> Iterable[CertificateSigningRequest]:
    return (each for each in seen.requests if each.spec.signer_name in KUBERNETES_SIGNERS)
