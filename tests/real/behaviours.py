"""The behaviours of attached controllers, on Kubernetes' own programs: a cluster in the form that they expect.

They are those of ``tests/integration/test_attached_rights.py``, but for the one about a revocation: what a
kube-apiserver lets through is another matter than what our server refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from msgspec.structs import replace

import peers
from attached_world import JOINING, NOWHERE, account_config, attached, config_of, until_leading
from integration import test_attached_rights as shared
from kubevouch import wellknown
from kubevouch.client.https import HTTPSClient
from kubevouch.client.leader_election import ElectionOptions
from kubevouch.client.options import Impersonation
from kubevouch.phases import bootstrap_token
from kubevouch.records import bootstrap_tokens
from kubevouch.signers.catalog import PairFiles
from kubevouch.standalone.attached import manifests
from kubevouch.standalone.attached.options import AttachedCluster, AttachedOptions
from kubevouch.standalone.options import ClusterSigning
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock
from real_cluster import RealCluster

_DEPLOY = peers.ROOT / "deploy"
_POLICIES = shared.a_policy_approves_once_its_writer_is_recorded
BEHAVIOURS = tuple(each for each in shared.BEHAVIOURS if each is not shared.a_revocation_says_that_it_is_in_force)
WITHOUT_GUARDS = tuple(each for each in BEHAVIOURS if each is not _POLICIES)
# What kubeadm binds, so that machines join.
_JOINING = {
    "kubeadm:kubelet-bootstrap": ("system:node-bootstrapper", wellknown.DEFAULT_NODE_TOKEN_GROUP),
    "kubeadm:node-autoapprove-bootstrap": (
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient", wellknown.DEFAULT_NODE_TOKEN_GROUP,
    ),
    "kubeadm:node-autoapprove-certificate-rotation": (
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes",
    ),
}  # fmt: skip


class Foreign:
    """The small part of :class:`Cluster` that the behaviours use; the clients end with it."""

    def __init__(self, real: RealCluster) -> None:
        self.real = real
        self.url = real.url
        self.kubeconfig = real.kubeconfig
        self.pki = SimpleNamespace(ca_certificate=real.ca_certificate.read_bytes())
        self._clients: dict[tuple[str, ...], HTTPSClient] = {}

    def client(self, user: str = "", groups: Iterable[str] = ()) -> HTTPSClient:
        """As the administrator, or as somebody for whom the administrator asks."""
        who = (user, *groups)
        if who not in self._clients:
            config = config_of(self.kubeconfig)
            if user:
                impersonated = Impersonation(user, groups=tuple(groups))
                config = replace(config, options=replace(config.options, impersonate=impersonated))
            self._clients[who] = config.client(component="tests")
        return self._clients[who]

    async def token_async(self) -> str:
        token = bootstrap_tokens.generate_token()
        wanted = bootstrap_token.plan(token, now=SystemClock().now())
        await bootstrap_token.create(self.client(), wanted)
        return f"{token.token_id}.{token.token_secret}"

    def signing(self) -> ClusterSigning:
        return ClusterSigning(PairFiles(str(self.real.ca_certificate), str(self.real.ca_key)))

    async def close(self) -> None:
        for each in self._clients.values():
            await each.close()


async def _apply(real: RealCluster, *paths: Any) -> None:
    for path in paths:
        done = await asyncio.to_thread(real.kubectl, "apply", "-f", path)
        assert done.code == 0, done.stderr


def let_machines_join(real: RealCluster) -> None:
    """What kubeadm binds."""
    for name, (role, group) in _JOINING.items():
        done = real.kubectl("create", "clusterrolebinding", name, f"--clusterrole={role}", f"--group={group}")
        assert done.code == 0 or "already exists" in done.stderr, done.stderr


def definitions(*, guards: bool) -> Sequence[Any]:
    """The files with our kinds, with or without what guards them."""
    return [each for each in sorted((_DEPLOY / "crds").glob("*.yaml")) if guards or each.name != "guards.yaml"]


@asynccontextmanager
async def foreign(real: RealCluster, *, guards: bool = True) -> AsyncIterator[Cluster]:
    """Our kinds are known, and machines may ask."""
    await asyncio.to_thread(let_machines_join, real)
    await _apply(real, *definitions(guards=guards))
    found = Foreign(real)
    try:
        yield cast("Cluster", found)
    finally:
        await found.close()


@asynccontextmanager
async def over_https(real: RealCluster, *, guards: bool = True) -> AsyncIterator[Cluster]:
    """All controllers in place of kube-controller-manager's, as an administrator."""
    async with foreign(real, guards=guards) as cluster:
        options = AttachedOptions(
            clusters=(AttachedCluster("", config_of(cluster.kubeconfig)),), serving=NOWHERE, qps=0.0,
            controllers=JOINING, signing=cast("Foreign", cluster).signing(),
        )  # fmt: skip
        async with attached(cluster, options=options) as found:
            await until_leading(found)
            yield cluster


@asynccontextmanager
async def deployed(real: RealCluster, *, guards: bool = True) -> AsyncIterator[Cluster]:
    """With the accounts of deploy/ and the arguments of its programs."""
    async with foreign(real, guards=guards) as cluster, AsyncExitStack() as stack:
        await _apply(real, _DEPLOY / "controllers" / "access.yaml")
        for program in manifests.PROGRAMS:
            config = await account_config(cluster, manifests.NAMESPACE, program.name)
            options = AttachedOptions(
                clusters=(AttachedCluster("", config),), serving=NOWHERE, qps=0.0, controllers=program.controllers,
                election=ElectionOptions(namespace=manifests.NAMESPACE, name=program.name),
            )  # fmt: skip
            if program.signs:
                options = msgspec.structs.replace(options, signing=cast("Foreign", cluster).signing())
            await until_leading(await stack.enter_async_context(attached(cluster, options=options)))
        yield cluster


WAYS = {"over-https": over_https, "deployed": deployed}
