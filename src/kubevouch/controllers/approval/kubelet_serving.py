"""Kubelets' serving certificates: approved once every name and address is justified, denied on contradiction.

Kubernetes has no such approver. What counts is decided in :mod:`kubevouch.policy.kubelet_serving`; here requests are
looked at again when a Node or a Machine changes that has to do with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    NODES,
    SERVICES,
)
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Node
from kubevouch.api.discovery_v1 import SERVICE_NAME_LABEL
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.client.cache.informer import ChangeHandler, SharedInformer
from kubevouch.client.resolver import Resolver, ResolverError
from kubevouch.client.workqueue import Workqueue
from kubevouch.controllers.approval.attested_names import AttestedNames
from kubevouch.controllers.approval.interface import ApprovalMetrics
from kubevouch.controllers.approval.name_admission import node_record
from kubevouch.controllers.approval.serving_sources import (
    MACHINE_GROUP,
    MACHINE_PLURAL,
    SERVING_NAMES,
    SERVING_NODE,
    APIServers,
    ServingSources,
    names_of_node,
)
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.custom_kinds import CustomKind, CustomKinds
from kubevouch.controllers.interface import Context, ReconcileError, Request, request_of
from kubevouch.controllers.outside_questions import RequestQuestions, request_questions
from kubevouch.controllers.record_maps import RecordMaps
from kubevouch.ledger.interface import LedgerError
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import kubelet_serving
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.policy.verdict import Outcome, Verdict

NAME = kubelet_serving.APPROVER
MAX_LOOKUPS = 8
"""Names, and addresses, of a request that the resolver is asked about; names of an address that are looked up again."""
LOOKUP_SECONDS = 10.0
"""For all of a request."""


class KubeletServingApprover:
    """See :class:`kubevouch.controllers.approval.interface.Approver`."""

    name = NAME

    def __init__(
        self,
        rules: ServingRules,
        sources: ServingSources,
        servers: APIServers,
        records: RecordMaps,
        has_loaded: Callable[[], bool],
        metrics: ApprovalMetrics,
        resolver: Resolver | None,
        questions: RequestQuestions,
        attested: AttestedNames | None = None,
    ) -> None:
        self._rules = rules
        self._sources = sources
        self._servers = servers
        self._records = records
        self.has_loaded = has_loaded
        self._metrics = metrics
        self._resolver = resolver
        self._questions = questions
        self._attested = attested

    async def judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:  # noqa: ARG002 - the facts have it all
        """See the protocol."""
        node = kubelet_serving.node_of(facts)
        if not node:
            return kubelet_serving.decide(facts, kubelet_serving.Known(), self._rules)
        rules = msgspec.structs.replace(self._rules, api_server=self._rules.api_server | self._servers.names())
        try:
            known = await self._sources.known(csr, facts, rules, node_record(self._records, node))
        except LedgerError as err:
            raise ReconcileError(f"what was issued to node {node} cannot be read: {err}") from err
        verdict = kubelet_serving.decide(facts, known, rules)
        if verdict.outcome is not Outcome.APPROVE and self._attested is not None:
            proven = self._attested.of(csr, node, kubelet_serving.wanted_names(facts))
            known = msgspec.structs.replace(known, of_machine=known.of_machine | proven)
            verdict = kubelet_serving.decide(facts, known, rules)
        if verdict.outcome is Outcome.NO_OPINION and self._resolver is not None:
            resolver = self._resolver
            resolved = self._questions.answer(csr, "dns", "name servers", lambda: look_up(resolver, facts, node))
            verdict = kubelet_serving.decide(facts, msgspec.structs.replace(known, resolved=resolved), rules)
            # Nobody tells of a zone that changes.
            verdict = msgspec.structs.replace(verdict, retry=verdict.outcome is Outcome.NO_OPINION)
        if verdict.outcome is not Outcome.NO_OPINION:
            self._sources.changes.forget(node)
        if verdict.outcome is Outcome.APPROVE:
            for step in verdict.steps:
                if step.by:
                    self._metrics.justified(step.by)
        return verdict


async def look_up(resolver: Resolver, facts: RequestFacts, node: str) -> dict[str, frozenset[str]]:
    """What the resolver says of the names and addresses of a request; nothing of what it says nothing about.

    Whoever asks chooses them, so that there is a bound to their number and to the time.
    """
    found: dict[str, frozenset[str]] = {}
    names, addresses = facts.dns_names[:MAX_LOOKUPS], facts.ip_addresses[:MAX_LOOKUPS]
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOKUP_SECONDS):
            for name in names:
                with suppress(ResolverError):
                    found[name.lower()] = await resolver.addresses(name.lower())
            for address in addresses:
                with suppress(ResolverError):
                    found[address] = await resolver.names(address)
                    for name in sorted(found[address])[:MAX_LOOKUPS]:
                        if kubelet_serving.begins_with(name, node) and name not in found:
                            found[name] = await resolver.addresses(name)
    return found


class Machines:
    """Follows Cluster API's Machines for as long as there is such a kind."""

    def __init__(self, context: Context, sources: ServingSources, wake: Wake) -> None:
        self._informers = context.informers
        self._client = context.connect(wellknown.CSR_APPROVING_CONTROLLER)
        self._sources = sources
        self._wake = wake
        self._informer: SharedInformer[CustomObject] | None = None
        self._kinds = CustomKinds(context.informers, self._client, self._came, self._went)

    def have_loaded(self) -> bool:
        return self._kinds.has_told and (self._informer is None or self._informer.synced)

    def _came(self, kind: CustomKind) -> None:
        if (kind.resource.group, kind.resource.plural) != (MACHINE_GROUP, MACHINE_PLURAL):
            return
        self._informer = self._informers.informer(kind.resource, client=self._client)
        self._informer.add_handler(ChangeHandler(self._changed))

    def _went(self, kind: CustomKind) -> None:
        if (kind.resource.group, kind.resource.plural) != (MACHINE_GROUP, MACHINE_PLURAL) or self._informer is None:
            return
        for each in self._informer.indexer.values():
            self._changed(each, True)
        # Whoever else follows the kind forgets the informer, which they share.
        self._informers.forget(self._informer)
        self._informer = None

    def _changed(self, obj: CustomObject, gone: bool) -> None:
        for machine in self._sources.saw_machine(obj, gone):
            self._wake(machine.node, machine.names)


class Wake:
    """Has the undecided requests looked at that a change may have to do with."""

    def __init__(self, sources: ServingSources, queue: Workqueue[Request]) -> None:
        self._csrs = sources.csrs
        self._queue = queue

    def __call__(self, node: str, names: Iterable[str]) -> None:
        for csr in self._concerned(node, names):
            self._queue.add(request_of(csr))

    def _concerned(self, node: str, names: Iterable[str]) -> Iterator[CertificateSigningRequest]:
        yield from self._csrs.by_index(SERVING_NODE, node)
        for name in names:
            yield from self._csrs.by_index(SERVING_NAMES, name)


class NodeChanges:
    """An event handler: heartbeats change Nodes all the time, what is looked at here hardly ever."""

    def __init__(self, sources: ServingSources, wake: Wake) -> None:
        self._sources = sources
        self._wake = wake

    def on_add(self, obj: Node, *, initial: bool) -> None:
        if not initial:
            self._wake(obj.metadata.name, names_of_node(obj))

    def on_update(self, old: Node, new: Node) -> None:
        before, now = names_of_node(old), names_of_node(new)
        if before == now and _is_control_plane(old) == _is_control_plane(new):
            return
        if before != now:
            self._sources.node_changed(new.metadata.name, before - now)
        self._wake(new.metadata.name, before ^ now)

    def on_delete(self, obj: Node, *, missed: bool) -> None:  # noqa: ARG002
        self._sources.changes.forget(obj.metadata.name)
        self._wake(obj.metadata.name, names_of_node(obj))


def _is_control_plane(node: Node) -> bool:
    return wellknown.CONTROL_PLANE_LABEL in node.metadata.labels


def build(context: Context, controller: QueueController) -> KubeletServingApprover | None:
    """None where nothing is said of serving certificates: then people approve them, as in Kubernetes."""
    if context.kubelet_serving is None:
        return None
    client = context.connect(wellknown.CSR_APPROVING_CONTROLLER)
    csrs = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    nodes = context.informers.informer(NODES, client=client)
    config_maps = context.informers.informer(CONFIG_MAPS, client=client, namespace=wellknown.KUBE_SYSTEM_NAMESPACE)
    slices = context.informers.informer(
        ENDPOINT_SLICES,
        client=client,
        namespace=wellknown.DEFAULT_NAMESPACE,
        label_selector=f"{SERVICE_NAME_LABEL}=kubernetes",
    )
    services = context.informers.informer(
        SERVICES,
        client=client,
        namespace=wellknown.DEFAULT_NAMESPACE,
        field_selector="metadata.name=kubernetes",
    )
    cluster_info = context.informers.informer(
        CONFIG_MAPS,
        client=client,
        namespace=wellknown.KUBE_PUBLIC_NAMESPACE,
        field_selector=f"metadata.name={wellknown.CLUSTER_INFO_CONFIGMAP}",
    )
    sources = ServingSources(csrs.indexer, nodes.indexer, context.ledger, context.clock, context.inventory)
    wake = Wake(sources, controller.queue)
    context.inventory.on_change(lambda node: wake(node, ()))
    controller.follow(nodes, NodeChanges(sources, wake))
    # Work starts once these are filled; a name of an API server that comes later only keeps more from being approved.
    definitions = context.informers.informer(CUSTOM_RESOURCE_DEFINITIONS, client=client)
    followed: tuple[SharedInformer[Any], ...] = (config_maps, slices, services, cluster_info, definitions)
    for informer in followed:
        controller.watch(informer)
    servers = APIServers(slices.indexer, services.indexer, cluster_info.indexer)
    machines = Machines(context, sources, wake)
    attested, questions = None, request_questions(controller.questions, context)
    if context.attestation is not None:
        identities = context.informers.informer(
            NODE_IDENTITIES, client=context.connect(wellknown.NODE_ATTESTATION_CONTROLLER)
        )
        controller.watch(identities)
        attested = AttestedNames(identities.lister, context.attestation.verifiers, context.clock, questions)
    return KubeletServingApprover(
        context.kubelet_serving,
        sources,
        servers,
        RecordMaps(config_maps.indexer),
        lambda: machines.have_loaded() and context.inventory.has_loaded(),
        context.approval_metrics,
        context.resolver,
        questions,
        attested,
    )
