"""approval-bindings-controller: keeps kubeadm's bindings away that approve nodes without a proof, and puts them back.

They stay away over restarts, and when kubeadm makes them anew; they come back once somebody says so, if it was this
controller that has taken them away. A ConfigMap in kube-system has what was taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubevouch import wellknown
from kubevouch.api.catalog import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.rbac_v1 import ClusterRoleBinding
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.cluster_api.kinds import ALL, ClusterSeen, FollowedKinds
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, Request, Result
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import DeleteOptions, ObjectMeta, Preconditions
from kubevouch.policy import approval_bindings
from kubevouch.policy.approval_bindings import EVERY, NAMES
from kubevouch.policy.cluster_api import ClusterFacts
from kubevouch.util.logger import get_logger

log = get_logger("controllers.approval_bindings")

NAME = wellknown.APPROVAL_BINDINGS_CONTROLLER
CONFIG_MAP = wellknown.REMOVED_BINDINGS_CONFIGMAP


class Wanted:
    """Which bindings are to be away, by what configuration and Cluster say.

    Args:
        configured: by the configuration; None where it says nothing.
        seen: what the Cluster says; None without Cluster API.
    """

    def __init__(self, configured: frozenset[str] | None, seen: ClusterSeen | None) -> None:
        self._configured = configured
        self._seen = seen

    @property
    def away(self) -> frozenset[str]:
        facts = None if self._seen is None else self._seen.facts
        by_cluster = EVERY if facts is not None and facts.attests and not facts.paused else frozenset[str]()
        return (self._configured or frozenset()) | by_cluster

    @property
    def is_decided(self) -> bool:
        """Whether others may come back: a Cluster that is not there, is paused or is unreadable has decided nothing."""
        if self._seen is None:
            return True
        facts = self._seen.facts
        return facts is not None and facts.attests is not None and not facts.paused


class ApprovalBindings:
    """Compares with what the server has, and not with a cache, which may be behind what was written last."""

    def __init__(self, client: Client, bindings: Lister[ClusterRoleBinding], wanted: Wanted) -> None:
        self._client = client
        self._bindings = bindings
        self._wanted = wanted
        self._told: object = None

    async def reconcile(self, request: Request) -> Result:  # noqa: ARG002 - there is one set of them
        record = await self._get(CONFIG_MAP)
        others = [each for each in self._bindings.list() if each.metadata.name not in NAMES.values()]
        present = [each for name in NAMES.values() if (each := await self._binding(name)) is not None]
        plan = approval_bindings.plan(self._wanted.away, {} if record is None else record.data, (*present, *others))
        if plan.record is not None:
            record = await self._write(record, plan.record)
        for binding in plan.remove:
            await self._remove(binding)
        self._warn(plan)
        if self._wanted.is_decided:
            for binding in plan.restore:
                await self._restore(binding)
            if plan.forget and record is not None:
                kept = {what: text for what, text in record.data.items() if what not in plan.forget}
                await self._write(record, kept)
        return DONE

    def _warn(self, plan: approval_bindings.Plan) -> None:
        told = (plan.others, plan.kept)
        if told == self._told:
            return
        self._told = told
        for name in plan.others:
            log.warning("another binding approves nodes without a proof", binding=name)
        for what in plan.kept:
            log.error(
                "a binding is not put back: what was written down of it is not what kubeadm makes", approves=what,
                config_map=f"{wellknown.KUBE_SYSTEM_NAMESPACE}/{CONFIG_MAP}",
            )  # fmt: skip

    async def _remove(self, binding: ClusterRoleBinding) -> None:
        meta = binding.metadata
        # Another one of the name is written down before it goes.
        options = DeleteOptions(preconditions=Preconditions(uid=meta.uid, resource_version=meta.resource_version))
        try:
            await self._client.delete(CLUSTER_ROLE_BINDINGS, meta.name, "", options)
        except APIStatusError as err:
            if err.reason != Reason.NOT_FOUND:
                raise
        log.info("a binding that approves nodes without a proof is removed", binding=meta.name)

    async def _restore(self, binding: ClusterRoleBinding) -> None:
        try:
            await self._client.create(CLUSTER_ROLE_BINDINGS, binding)
        except APIStatusError as err:
            if err.reason != Reason.ALREADY_EXISTS:
                raise
        log.info("a binding that was removed is put back", binding=binding.metadata.name)

    async def _binding(self, name: str) -> ClusterRoleBinding | None:
        try:
            return await self._client.get(CLUSTER_ROLE_BINDINGS, name)
        except APIStatusError as err:
            if err.reason != Reason.NOT_FOUND:
                raise
            return None

    async def _get(self, name: str) -> ConfigMap | None:
        try:
            return await self._client.get(CONFIG_MAPS, name, wellknown.KUBE_SYSTEM_NAMESPACE)
        except APIStatusError as err:
            if err.reason != Reason.NOT_FOUND:
                raise
            return None

    async def _write(self, former: ConfigMap | None, data: Mapping[str, str]) -> ConfigMap:
        if former is None:
            meta = ObjectMeta(name=CONFIG_MAP, namespace=wellknown.KUBE_SYSTEM_NAMESPACE)
            return await self._client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=dict(data)))
        return await self._client.update(CONFIG_MAPS, ConfigMap(metadata=former.metadata, data=dict(data)))


def _requests(_binding: ClusterRoleBinding) -> Iterable[Request]:
    return (ALL,)


def build(context: Context) -> QueueController | None:
    """Nothing where neither a configuration nor a Cluster says anything: what is away stays away."""
    management = context.management
    configured = None if context.attestation is None else frozenset(context.attestation.config.remove_bindings)
    if management is None and configured is None:
        return None
    client = context.connect(NAME)
    bindings = context.informers.informer(CLUSTER_ROLE_BINDINGS, client=client)
    seen: ClusterSeen | None = None

    def cluster_changed(_facts: ClusterFacts | None) -> None:
        controller.queue.add(ALL)

    if management is not None:
        seen = ClusterSeen(cluster_changed)
        there = management.connect(wellknown.CLUSTER_API_CONTROLLER)
        FollowedKinds(management, there, (seen.followed(management),))
    wanted = Wanted(configured, seen)
    controller = QueueController(NAME, ApprovalBindings(client, bindings.lister, wanted), context.clock)
    controller.watch(bindings, on_add=_requests, on_update=_requests)
    controller.queue.add(ALL)
    return controller
