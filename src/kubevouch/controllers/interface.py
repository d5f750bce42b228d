"""The contract of controllers.

ReconcileError         one object could not be brought in order now; it is tried again, later and later
└── IgnorableError     … which is to be expected, so that only a debug line tells of it
    └── UnansweredError    … as somebody outside is asked: the answer has it worked on again, and not a time
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.core_v1.nodes import NODE_MONITOR_GRACE_PERIOD
from kubevouch.client.cache.informer import InformerFactory, SharedInformer
from kubevouch.client.interface import Client
from kubevouch.client.resolver import Resolver
from kubevouch.client.webhook import Webhook
from kubevouch.config.approver_webhooks import ApproverWebhook
from kubevouch.config.inventory_config import Source
from kubevouch.controllers.approval.interface import ApprovalMetrics, Uncounted
from kubevouch.controllers.attestation import Attestation
from kubevouch.controllers.inventory import MachineInventory
from kubevouch.ledger.interface import Ledger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.pki.policy import DEFAULT_SIGNING_DURATION
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.policy.standing_decisions import StandingDecisions
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.revocation.publication import Publication
from kubevouch.revocation.revocations import Revocations
from kubevouch.signers.authorities import NamedAuthorities
from kubevouch.signers.registry import Signers
from kubevouch.util.clock import Clock

RESYNC_SECONDS = 60.0
"""How often those whose failed writes are not retried look at everything again. Kubernetes' never do."""


class ReconcileError(Exception):
    """One object could not be brought in order now."""


class IgnorableError(ReconcileError):
    """Retried like any other error, but not worth an error line."""


class UnansweredError(IgnorableError):
    """Somebody outside is asked, whose answer wakes the request."""


class Request(NamedTuple):
    """What to reconcile: an object by name, and for those who look after several resources, ``plural.group``."""

    name: str
    namespace: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """``requeue_after`` seconds the same request comes again; None waits for an event."""

    requeue_after: float | None = None


DONE = Result()


class SigningMetrics(Protocol):
    """What is counted of signatures."""

    def signed(self, signer: str, kind: str, outcome: str, seconds: float) -> None:
        """A signer was asked for a certificate, and after so long ``outcome`` is issued, unavailable or failed."""
        ...

    def signed_elsewhere(self, signer: str) -> None:
        """A request of one of our names has a certificate that somebody else has signed."""
        ...

    def of_signers(self, signers: Signers) -> None:
        """Tell which of these sign, and how long their CAs last."""
        ...


class UncountedSignatures:
    """For whoever has no metrics."""

    def signed(self, signer: str, kind: str, outcome: str, seconds: float) -> None:
        """See :class:`SigningMetrics`."""

    def signed_elsewhere(self, signer: str) -> None:
        """See :class:`SigningMetrics`."""

    def of_signers(self, signers: Signers) -> None:
        """See :class:`SigningMetrics`."""


class Reconciler(Protocol):
    """The function of a name that a controller loops around."""

    async def reconcile(self, request: Request) -> Result:
        """Compare what is with what should be, and write the difference. May be called at any time, and again.

        Raises:
            ReconcileError, APIStatusError, TransportError: the request comes again, rate-limited.
        """
        ...


class Controller(Protocol):
    """What the manager runs."""

    @property
    def name(self) -> str:
        """The canonical name, under which it also acts and logs."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until an event or a time comes."""
        ...

    async def run(self) -> None:
        """Work until cancelled. Called again after a crash."""
        ...

    def close(self) -> None:
        """Take no more work. After this, ``run`` is not called again."""
        ...


class ApproverService(NamedTuple):
    """A service that is asked about requests for certificates, and how."""

    settings: ApproverWebhook
    webhook: Webhook


class Management(msgspec.Struct, frozen=True):
    """The cluster in which Cluster API has the objects of this one. It may be this one itself.

    Args:
        namespace, name: of the Cluster that stands for this cluster.
        connect: a client that acts as the controller of this name, there.
        informers: caches over that cluster.
        token_ttl: how long bootstrap tokens last.
        replaces_tokens: tokens are replaced, and the data that machines start with, where nobody else does that.
    """

    namespace: str
    name: str
    connect: Callable[[str], Client]
    informers: InformerFactory
    token_ttl: dt.timedelta
    replaces_tokens: bool = False

    def definitions(self, client: Client) -> SharedInformer[CustomResourceDefinition]:
        """By which kinds come and go there."""
        return self.informers.informer(CUSTOM_RESOURCE_DEFINITIONS, client=client)


class Context(msgspec.Struct, frozen=True):
    """What controllers are built from.

    Args:
        connect: a client that acts as the controller of this name.
        signers: those that run, which may change.
        revocations: what is revoked, as it changes.
        decisions: what stands until it is taken back, and what of it the server has lost.
        named_authorities: the CAs that the operator lets CertificateSigners name; None where they are not looked after.
        publication: what anybody may read of that; None publishes nothing.
        root_ca: the CA bundle to publish in every namespace, in PEM; asked for again and again.
        resources: all that the server stores.
        trust_bundles: by signer name, the anchors to publish as ClusterTrustBundle, in PEM; none where that kind is not
            served.
        recovery: what is allowed to nodes whose certificate has ended; None is nothing.
        approves_kubelet_clients: the client certificates of kubelets are approved here, and not by somebody else.
        allow_name_takeover: a bootstrap token gives any name, also one that another machine has.
        lock_out_deleted_nodes: the certificates of a deleted Node count no more.
        certificate_lifetime: the longest of those that are signed here.
        count: how many objects of a resource are in a namespace, told by the server beside it, so that nobody has to be
            allowed to read what is only counted; None where there is no server.
        node_monitor_grace_period: how long a node may be silent before nobody knows how it is.
        inventory: which machines the operator expects; empty unless machine-inventory-controller runs.
        inventory_sources: beside AllowedMachine objects, in their order.
        management: where Cluster API's objects are; None without Cluster API.
        approver_services: services that are asked about requests, in their order.
        resolver: asked about names and addresses that nothing else justifies; None asks nobody.
        kubelet_serving: what is declared of kubelets' serving certificates; None leaves them to people.
        attestation: by which methods machines prove what they are; None is by none.
        approval_metrics: what is counted of decisions about requests.
        signing_metrics: what is counted of signatures.
        running: the names of the controllers that are built over this.
        stands_by: another server leads, and does what only one may do.
        is_own_server: the API server is the one that this process runs: it refuses what is revoked by itself, and what
            it writes into objects can be believed.
        shares_cluster: other processes may act on it in turn, each with a ledger of its own.
        is_attached: programs that are not ours may do the same there; what is done here is marked.
    """

    connect: Callable[[str], Client]
    informers: InformerFactory
    clock: Clock
    signers: Signers = msgspec.field(default_factory=Signers)
    named_authorities: NamedAuthorities | None = None
    ledger: Ledger = msgspec.field(default_factory=MemoryLedger)
    revocations: Revocations = msgspec.field(default_factory=Revocations.none)
    decisions: StandingDecisions = msgspec.field(default_factory=StandingDecisions)
    publication: Publication | None = None
    root_ca: Callable[[], str] | None = None
    resources: Sequence[Resource[Any]] = ()
    trust_bundles: Mapping[str, Callable[[], str]] = msgspec.field(default_factory=dict)
    recovery: RecoveryPolicy | None = None
    approves_kubelet_clients: bool = True
    allow_name_takeover: bool = False
    lock_out_deleted_nodes: bool = False
    certificate_lifetime: dt.timedelta = DEFAULT_SIGNING_DURATION
    count: Callable[[Resource[Any], str], int] | None = None
    node_monitor_grace_period: dt.timedelta = NODE_MONITOR_GRACE_PERIOD
    inventory: MachineInventory = msgspec.field(default_factory=MachineInventory)
    inventory_sources: Sequence[Source] = ()
    management: Management | None = None
    approver_services: Sequence[ApproverService] = ()
    resolver: Resolver | None = None
    kubelet_serving: ServingRules | None = None
    attestation: Attestation | None = None
    approval_metrics: ApprovalMetrics = msgspec.field(default_factory=Uncounted)
    signing_metrics: SigningMetrics = msgspec.field(default_factory=UncountedSignatures)
    running: frozenset[str] = frozenset()
    stands_by: bool = False
    is_own_server: bool = False
    shares_cluster: bool = False
    is_attached: bool = False


def request_of(obj: Object) -> Request:
    return Request(obj.metadata.name, obj.metadata.namespace)


def is_namespace_terminating(err: APIStatusError) -> bool:
    """Whether a creation was refused because its namespace is going away."""
    details = err.status.details
    return details is not None and any(cause.reason == "NamespaceTerminating" for cause in details.causes)
