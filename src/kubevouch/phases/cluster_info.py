"""The cluster-info phase: what a machine may read before it has joined (kubeadm phase bootstrap-token, 1.36)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.authorization.kubeadm_policy import kubeadm_policy
from kubevouch.client import stored
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records.cluster_info import (
    ClusterInfo,
    ClusterInfoError,
    build_kubeconfig,
    config_map,
    kubeconfig_of,
    parse_kubeconfig,
)
from kubevouch.records.node_recovery import ALLOWED_ANNOTATION
from kubevouch.server.bootstrap import rbac

_POLICY_NAME = "kubeadm:bootstrap-signer-clusterinfo"


async def cluster_id(client: Client) -> str:
    """What tells a cluster from all others. Raises what the client raises."""
    return (await client.get(catalog.NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE)).metadata.uid


async def ensure(client: Client, info: ClusterInfo) -> None:
    """Publish ``info`` in ``kube-public/cluster-info``, for everybody to read.

    Signatures that are there stay until the bootstrap signer replaces them.

    Raises:
        APIStatusError, TransportError
    """
    await _ensure_config_map(client, info)
    policy = kubeadm_policy()
    shipped = (*policy.roles, *policy.role_bindings)
    await rbac.reconcile(client, [obj for obj in shipped if obj.metadata.name == _POLICY_NAME])


async def keep(
    client: Client,
    authority: bytes,
    move: Callable[[str], str],
    *,
    cluster_id: str = "",
    servers: Callable[[ClusterInfo], tuple[str, ...]] = lambda former: former.servers,
) -> tuple[ClusterInfo, ClusterInfo] | None:
    """Publish the CA of now, if anything is published; nothing that was taken away comes back.

    Args:
        authority: all that the server is to be verified with, in PEM.
        move: from the address that is published to the one that is to be.
        cluster_id: what to tell where nothing is told.
        servers: more addresses, given what is published.

    Returns:
        What was published, and what is; None if nothing that can be read.

    Raises:
        APIStatusError, TransportError
    """
    told: list[tuple[ClusterInfo, ClusterInfo]] = []

    def decide(found: ConfigMap | None) -> ConfigMap | None:
        told.clear()
        try:
            former = parse_kubeconfig(kubeconfig_of(found)) if found is not None else None
        except ClusterInfoError:
            former = None
        if found is None or former is None:
            return None
        info = replace(
            former,
            server=move(former.server),
            cluster_id=former.cluster_id or cluster_id,
            servers=servers(former),
        )
        if not same_certificates(former.certificate_authority_data, authority):
            info = replace(info, certificate_authority_data=authority)
        told.append((former, info))
        if info == former:
            return None
        return msgspec.structs.replace(found, data={**found.data, wellknown.KUBECONFIG_KEY: build_kubeconfig(info)})

    name, namespace = wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
    await stored.change(client, catalog.CONFIG_MAPS, name, namespace, decide)
    return told[0] if told else None


def same_certificates(one: bytes, other: bytes) -> bool:
    """Whether two bundles in PEM hold the same; one that cannot be read is like no other."""
    try:
        first, second = x509_certificate.parse_bundle(one), x509_certificate.parse_bundle(other)
    except ParseError:
        return False
    return {each.contents for each in first} == {each.contents for each in second}


def _completed(info: ClusterInfo, found: ConfigMap) -> ClusterInfo:
    """With what is published already and ``info`` does not say: a kubeconfig knows server and CA alone."""
    try:
        former = parse_kubeconfig(kubeconfig_of(found))
    except ClusterInfoError:
        return info
    return replace(info, cluster_id=info.cluster_id or former.cluster_id, servers=info.servers or former.servers)


async def tell_recovery(client: Client, *, allowed: bool) -> None:
    """Say in cluster-info, if there is one, whether it is worth a node's while to register a recovery key.

    Raises:
        APIStatusError, TransportError
    """
    name, namespace = wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
    published = await stored.find(client, catalog.CONFIG_MAPS, name, namespace)
    wanted = "true" if allowed else None
    if published is not None and published.metadata.annotations.get(ALLOWED_ANNOTATION) != wanted:
        annotations = {ALLOWED_ANNOTATION: wanted}
        await client.patch(
            catalog.CONFIG_MAPS, name, {"metadata": {"annotations": annotations}}, MERGE_PATCH, namespace
        )


async def _ensure_config_map(client: Client, info: ClusterInfo) -> None:
    def decide(found: ConfigMap | None) -> ConfigMap:
        if found is None:
            return config_map(info)
        text = build_kubeconfig(_completed(info, found))
        if found.data.get(wellknown.KUBECONFIG_KEY) == text:
            return found
        # The signer writes the same object, and so may another replica.
        return msgspec.structs.replace(found, data={**found.data, wellknown.KUBECONFIG_KEY: text})

    name, namespace = wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
    await stored.change(client, catalog.CONFIG_MAPS, name, namespace, decide)
