"""cluster-api-controller: has the inventory know the machines of a Cluster, and its infrastructure the signers.

The signers' names are written where Cluster API's proposal has them, into the status of the infrastructure object; no
released definition has these fields, and a server that prunes them is told by annotations instead.

Source: docs/proposals/20210222-kubelet-authentication.md of sigs.k8s.io/cluster-api.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubevouch import wellknown
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.controllers.cluster_api.kinds import ALL, ClusterSeen, Followed, FollowedKinds
from kubevouch.controllers.cluster_api.machines import ClusterMachines
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import (
    DONE,
    RESYNC_SECONDS,
    Context,
    IgnorableError,
    ReconcileError,
    Request,
    Result,
)
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.scheme import Resource
from kubevouch.policy.cluster_api import (
    GROUP,
    MACHINE_POOLS,
    MACHINES,
    ClusterFacts,
    Reference,
    Signers,
    client_signer,
    signers_of,
)
from kubevouch.util.logger import get_logger

log = get_logger("controllers.cluster_api")

NAME = wellknown.CLUSTER_API_CONTROLLER
_CLIENT, _SERVING = "kubeletClientCertificateSigner", "kubeletServingCertificateSigner"


class InfrastructureSigners:
    """Keeps the signers' names where machines that are made can be told of them."""

    def __init__(
        self,
        client: Client,
        kinds: FollowedKinds,
        seen: ClusterSeen,
        attestors: Sequence[str] | None,
        cluster: str,
    ) -> None:
        """``attestors``: the methods that are verified here; None if nobody does. ``cluster``: its name, for people."""
        self._client = client
        self._kinds = kinds
        self._seen = seen
        self._attestors = attestors
        self._cluster = cluster

    async def reconcile(self, request: Request) -> Result:  # noqa: ARG002 - there is one Cluster
        facts = self._seen.facts
        if facts is None:
            if not self._kinds.have_loaded():
                raise IgnorableError("not all kinds of Cluster API have been read")
            # A name that is misspelt looks as if no machine were expected.
            log.warning("there is no such Cluster, so that none of its machines is expected", cluster=self._cluster)
            return Result(RESYNC_SECONDS)
        if facts.paused or facts.attests is None or facts.infrastructure is None:
            return DONE
        about = facts.infrastructure
        resource = self._kinds.resource(about.group, about.kind)
        if resource is None:
            raise ReconcileError(
                f"the Cluster's infrastructure is a {about.kind} of {about.group}, which is not served"
            )
        await self._tell(resource, about, signers_of(facts, self._attestors))
        return Result(RESYNC_SECONDS)

    async def _tell(self, resource: Resource[CustomObject], about: Reference, signers: Signers) -> None:
        """Raises :class:`APIStatusError`, :class:`TransportError`."""
        obj = await self._client.get(resource, about.name, about.namespace)
        said, noted = _in_status(obj), _in_annotations(obj)
        if not any(signers) and not any(noted) and said.client not in map(client_signer, self._attestors or ()):
            # Nothing of ours stands there; another program may have its own.
            return
        # A server that prunes the status does so each time.
        if said != signers and (any(said) or noted != signers):
            said = _in_status(await self._write_status(resource, obj, signers))
            log.info("the signers of a cluster are told", kind=about.kind, name=about.name, client=signers.client)
        wanted = Signers() if said == signers else signers
        if noted != wanted:
            annotations = {
                wellknown.CLIENT_SIGNER_ANNOTATION: wanted.client or None,
                wellknown.SERVING_SIGNER_ANNOTATION: wanted.serving or None,
            }
            patch = {"metadata": {"annotations": annotations}}
            await self._client.patch(resource, about.name, patch, MERGE_PATCH, about.namespace)

    async def _write_status(
        self, resource: Resource[CustomObject], obj: CustomObject, signers: Signers
    ) -> CustomObject:
        """As it is afterwards."""
        patch = {"status": {_CLIENT: signers.client or None, _SERVING: signers.serving or None}}
        meta = obj.metadata
        try:
            return await self._client.patch(
                resource, meta.name, patch, MERGE_PATCH, meta.namespace, subresource="status"
            )
        except APIStatusError as err:
            if err.reason == Reason.INVALID:
                # What is left of a status that was not there lacks what its definition requires: "ready".
                return obj
            if err.reason != Reason.NOT_FOUND:
                raise
            # A kind whose status is no subresource.
            return await self._client.patch(resource, meta.name, patch, MERGE_PATCH, meta.namespace)


def _in_status(obj: CustomObject) -> Signers:
    status = obj.content.get("status")
    found = status if isinstance(status, dict) else {}
    return Signers(found.get(_CLIENT) or "", found.get(_SERVING) or "")


def _in_annotations(obj: CustomObject) -> Signers:
    found = obj.metadata.annotations
    return Signers(
        found.get(wellknown.CLIENT_SIGNER_ANNOTATION, ""), found.get(wellknown.SERVING_SIGNER_ANNOTATION, "")
    )


def build(context: Context) -> QueueController | None:
    management = context.management
    if management is None:
        return None
    client = management.connect(wellknown.CLUSTER_API_CONTROLLER)
    machines = ClusterMachines(context.inventory.add_source(lambda: kinds.have_loaded()))

    def cluster_changed(facts: ClusterFacts | None) -> None:
        machines.saw_cluster(facts)
        controller.queue.add(ALL)

    seen = ClusterSeen(cluster_changed)
    followed = (Followed(GROUP, MACHINES, machines.saw_machine), Followed(GROUP, MACHINE_POOLS, machines.saw_pool))
    kinds = FollowedKinds(management, client, (seen.followed(management), *followed))
    # Nobody is sent to a signer for which nobody decides.
    attests = context.attestation is not None and wellknown.NODE_ATTESTATION_CONTROLLER in context.running
    attestors = tuple(context.attestation.verifiers) if context.attestation is not None and attests else None
    name = f"{management.namespace}/{management.name}"
    controller = QueueController(NAME, InfrastructureSigners(client, kinds, seen, attestors, name), context.clock)
    controller.queue.add(ALL)
    return controller
