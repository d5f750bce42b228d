"""One process with the controllers of one cluster or of several, and what tells of them."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from kubevouch.client.interface import TransportError
from kubevouch.client.options import Timeouts
from kubevouch.config.inventory_config import Source
from kubevouch.controllers import catalog, csr_signing
from kubevouch.controllers.catalog import Attached, Entry
from kubevouch.controllers.interface import ApproverService
from kubevouch.controllers.root_ca_publisher import RootCAError, RootCAFile
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.issuance import SigningRules
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.server.health import Check, Health
from kubevouch.signers.authorities import NamedAuthorities
from kubevouch.signers.catalog import SigningOptions, build_signers
from kubevouch.signers.interface import Signer, SignerError
from kubevouch.standalone import approval, attestation
from kubevouch.standalone.approval import ApprovalOptionsError
from kubevouch.standalone.attached.check import (
    Intent,
    Level,
    look_at_signers,
    server_time,
    signed_by_others,
    verify_assumed_off,
)
from kubevouch.standalone.attached.cluster import ClusterControllers, Shared
from kubevouch.standalone.attached.listener import Pages, listening
from kubevouch.standalone.attached.metrics import registry_of
from kubevouch.standalone.attached.options import (
    IN_CLUSTER,
    AttachedError,
    AttachedOptions,
    AttachedOptionsError,
)
from kubevouch.standalone.attestation import AttestationFile, AttestationOptionsError
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.nearest import meant
from kubevouch.util.tasks import Supervisor
from kubevouch.wellknown import NODE_ATTESTATION_CONTROLLER

log = get_logger("attached")

_LOOK_SECONDS = 10.0
"""How long a cluster may take for an answer before the start."""


class Prepared(msgspec.Struct, frozen=True):
    """What the options make, before any cluster is worked for."""

    selected: tuple[Entry, ...]
    shared: Shared

    def intent(self, options: AttachedOptions) -> Intent:
        """What is looked at before it begins."""
        return Intent(
            self.selected, options.controllers, tuple(self.shared.signers), options.assume_off, options.ledger
        )


class RunningAttached(msgspec.Struct, frozen=True):
    """Controllers that stand or lead. ``port``: where health and metrics are; 0 for nowhere."""

    clusters: tuple[ClusterControllers, ...]
    selected: tuple[Entry, ...]
    port: int


@asynccontextmanager
async def running(options: AttachedOptions, clock: Clock) -> AsyncIterator[RunningAttached]:
    """Work for every cluster inside the block, whatever becomes of the others, and give their Leases back at its end.

    Raises:
        AttachedOptionsError
        AttachedError: somebody else signs what would be signed here.
    """
    async with AsyncExitStack() as stack:
        prepared = await stack.enter_async_context(preparing(options, clock))
        await _expect_to_sign_alone(options, prepared, clock)
        yield await stack.enter_async_context(_running(options, prepared, clock))


@asynccontextmanager
async def preparing(options: AttachedOptions, clock: Clock) -> AsyncIterator[Prepared]:
    """What a run would build. Nothing is written anywhere. Raises :class:`AttachedOptionsError`."""
    selected = _selected(options)
    verify_assumed_off(options.assume_off)
    attesting, attested = await _attesting(options, clock)
    shared = Shared(
        signers=_signers(options, selected, clock, attested),
        attesting=attesting,
        root_ca=_root_ca(options),
        inventory=_inventory(options),
        serving=_serving(options),
        services=_services(options, clock),
        named=NamedAuthorities(options.signing.named, options.signing.keys, clock),
    )
    async with AsyncExitStack() as stack:
        for service in shared.services:
            stack.push_async_callback(service.webhook.close)
        yield Prepared(selected, shared)


async def _expect_to_sign_alone(options: AttachedOptions, prepared: Prepared, clock: Clock) -> None:
    """Raises :class:`AttachedError`. A cluster that cannot be asked is worked for, and its requests say it later."""
    intent = prepared.intent(options)
    for cluster in options.clusters if intent.signs else ():
        patience = Timeouts.all(_LOOK_SECONDS)
        try:
            async with cluster.config.client(component="check", clock=clock, timeouts=patience) as client:
                seen = await look_at_signers(client, await server_time(client, clock))
        except (APIStatusError, TransportError) as err:
            log.warning("whether somebody else signs cannot be looked at yet", cluster=cluster.name, err=str(err))
            continue
        contested, findings = signed_by_others(seen, intent)
        for each in findings:
            if each.level is Level.WARNING:
                log.warning("before the start", cluster=cluster.name, about=each.about, what=each.message)
        if contested:
            wrong = next(each for each in findings if each.level is Level.ERROR)
            raise AttachedError(wrong.message, wrong.hint)


@asynccontextmanager
async def _running(options: AttachedOptions, prepared: Prepared, clock: Clock) -> AsyncIterator[RunningAttached]:
    selected, shared = prepared.selected, prepared.shared
    clusters = tuple(ClusterControllers(each, options, selected, clock, shared=shared) for each in options.clusters)
    live: dict[str, Check] = {"ping": _passes}
    ready: dict[str, Check] = {"ping": _passes}
    for each in clusters:
        live |= each.live_checks()
        ready |= each.live_checks() | each.ready_checks()
    health = [Health("healthz", live), Health("livez", live), Health("readyz", ready)]
    pages = Pages(health, registry_of({each.name: each.metrics for each in clusters}))
    authority = options.authority or options.clusters[0].config
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(listening(pages, options.serving, authority, clock))
        tasks = await stack.enter_async_context(Supervisor(clock))
        for each in clusters:
            tasks.start(f"cluster-{each.name}" if each.name else "cluster", each.run)
        yield RunningAttached(clusters, selected, port)


async def _passes() -> None:
    return


def _selected(options: AttachedOptions) -> tuple[Entry, ...]:
    names = Counter(each.name for each in options.clusters)
    if twice := [name for name, times in names.items() if times > 1]:
        raise AttachedOptionsError(
            f"two clusters are called {twice[0] or 'nothing'}", "--cluster NAME=FILE tells them apart"
        )
    if options.ledger == IN_CLUSTER and options.signing.socket is not None:
        raise AttachedOptionsError(
            "the signing process reads the ledger in a file, and this one is in the cluster",
            "--signing-socket needs --ledger FILE",
        )
    if isinstance(options.ledger, Path) and len(options.clusters) > 1:
        raise AttachedOptionsError("one ledger cannot be that of several clusters", "run a process for each of them")
    if options.cluster_api is not None and len(options.clusters) > 1:
        raise AttachedOptionsError(
            "one Cluster of Cluster API would stand for several clusters", "run a process for each of them"
        )
    return selected_of(options.controllers)


def selected_of(words: Sequence[str]) -> tuple[Entry, ...]:
    """The controllers that a list turns on. Raises :class:`AttachedOptionsError`."""
    try:
        selected = catalog.select_attached(words)
    except catalog.UnknownControllerError as err:
        known = [each.alias for each in catalog.CONTROLLERS]
        raise AttachedOptionsError(
            "; ".join(str(err).splitlines()), meant(err.words[0], known, f"the list is *, {', '.join(known)}")
        ) from err
    if never := [each.alias for each in selected if each.attached is Attached.NEVER]:
        raise AttachedOptionsError(
            f"{never[0]} works with what only a server in the same process has", "leave it out, or see kubevouch up"
        )
    if not selected:
        raise AttachedOptionsError("no controller is left to run", "--controllers=* runs those that fight nobody")
    return selected


def _signers(
    options: AttachedOptions, selected: tuple[Entry, ...], clock: Clock, attested: tuple[str, ...]
) -> dict[str, Signer]:
    """Raises :class:`AttachedOptionsError`."""
    signing = options.signing
    if not signing.is_elsewhere and signing.outside is None:
        return {}
    if signing.socket is not None and not signing.default.certificate_file:
        raise AttachedOptionsError(
            "--signing-socket needs the certificate of the CA", "give --cluster-signing-cert-file"
        )
    if csr_signing.NAME not in {each.name for each in selected}:
        raise AttachedOptionsError(
            "there are --cluster-signing-* files, and csrsigning is not among the controllers", "add it, or drop them"
        )
    kubernetes = catalog.signs_kubernetes_names(options.controllers)
    if not kubernetes and not attested:
        raise AttachedOptionsError(
            "a CA is given, and no signer name for it: kubernetes.io/* is signed only where csrsigning is named",
            "name it in --controllers once nobody else signs these names (kubevouch controllers check says who does); "
            "machines that prove what they are need --attestation-config",
        )
    if len(options.clusters) > 1:
        # A node's name in one cluster would be a credential for the node of that name in another.
        raise AttachedOptionsError(
            "one CA would sign for several clusters", "run a process for each cluster that has --cluster-signing-*"
        )
    rules = SigningRules(
        signing_duration=signing.duration,
        profile=options.identity.signing_profile,
        post_quantum=signing.post_quantum,
    )
    try:
        return build_signers(
            SigningOptions(
                signing.default,
                signing.pairs,
                rules,
                signing.keys,
                clock,
                signing.named,
                signing.durations,
                signing.socket,
                signing.outside,
                attested=attested,
                kubernetes=kubernetes,
            )
        )
    except SignerError as err:
        raise AttachedOptionsError(str(err), "see the --cluster-signing-* flags") from err


def _root_ca(options: AttachedOptions) -> Callable[[], str] | None:
    """Raises :class:`AttachedOptionsError`."""
    if options.root_ca_file is None:
        return None
    if len(options.clusters) > 1:
        raise AttachedOptionsError(
            "one CA would be published as that of several clusters", "run a process for each that has --root-ca-file"
        )
    try:
        return RootCAFile(options.root_ca_file)
    except RootCAError as err:
        raise AttachedOptionsError(str(err), "see --root-ca-file") from err


def _inventory(options: AttachedOptions) -> Sequence[Source]:
    """Raises :class:`AttachedOptionsError`."""
    try:
        return approval.inventory_sources(options.approval)
    except ApprovalOptionsError as err:
        raise AttachedOptionsError(str(err), "see --inventory-config") from err


async def _attesting(options: AttachedOptions, clock: Clock) -> tuple[AttestationFile | None, tuple[str, ...]]:
    """What the file says, and the signers for its methods. Raises :class:`AttachedOptionsError`."""
    try:
        file = attestation.read(options.approval.attestation_config)
        if file is None:
            return None, ()
        # Made to see whether they can be, and again for each cluster. Some read their secrets there.
        component = NODE_ATTESTATION_CONTROLLER
        async with options.clusters[0].config.client(component=component, clock=clock) as client:
            return file, attestation.attestation(file, client, clock).signer_names()
    except AttestationOptionsError as err:
        raise AttachedOptionsError(str(err), err.hint or "see --attestation-config") from err


def _services(options: AttachedOptions, clock: Clock) -> Sequence[ApproverService]:
    """Raises :class:`AttachedOptionsError`."""
    try:
        found = approval.approver_services(options.approval, clock)
    except ApprovalOptionsError as err:
        raise AttachedOptionsError(str(err), "see --approver-webhook-config") from err
    if found and len(options.clusters) > 1:
        # A review does not say of which cluster it is, and each of them has nodes of the same names.
        raise AttachedOptionsError(
            "services would be asked about several clusters without being told which",
            "run a process for each cluster that has --approver-webhook-config",
        )
    return found


def _serving(options: AttachedOptions) -> ServingRules | None:
    """Raises :class:`AttachedOptionsError`."""
    declared = options.approval.serving
    if declared is None:
        return None
    try:
        ranges = tuple(ipaddress.ip_network(text.strip()) for text in options.service_cluster_ip_range.split(","))
    except ValueError as err:
        raise AttachedOptionsError(
            f"got the service range {options.service_cluster_ip_range}, expected one such as 10.96.0.0/12"
        ) from err
    return ServingRules(networks=declared.networks, domains=declared.domains, service_ranges=ranges)
