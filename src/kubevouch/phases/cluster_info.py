"""The cluster-info phase: what a machine may read before it has joined (kubeadm phase bootstrap-token, 1.36)."""

from __future__ import annotations

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.authorization.kubeadm_policy import kubeadm_policy
from kubevouch.client import stored
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig, config_map
from kubevouch.records.node_recovery import ALLOWED_ANNOTATION
from kubevouch.server.bootstrap import rbac

_POLICY_NAME = "kubeadm:bootstrap-signer-clusterinfo"


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


async def tell_recovery(client: Client, *, allowed: bool) -> None:
    """Say in cluster-info whether it is worth a node's while to register a recovery key.

    Raises:
        APIStatusError, TransportError
    """
    name, namespace = wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
    found = await client.get(catalog.CONFIG_MAPS, name, namespace)
    wanted = "true" if allowed else None
    if found.metadata.annotations.get(ALLOWED_ANNOTATION) != wanted:
        annotations = {ALLOWED_ANNOTATION: wanted}
        await client.patch(
            catalog.CONFIG_MAPS, name, {"metadata": {"annotations": annotations}}, MERGE_PATCH, namespace
        )


async def _ensure_config_map(client: Client, info: ClusterInfo) -> None:
    text = build_kubeconfig(info)

    def decide(found: ConfigMap | None) -> ConfigMap:
        if found is None:
            return config_map(info)
        if found.data.get(wellknown.KUBECONFIG_KEY) == text:
            return found
        # The signer writes the same object, and so may another replica.
        return msgspec.structs.replace(found, data={**found.data, wellknown.KUBECONFIG_KEY: text})

    name, namespace = wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
    await stored.change(client, catalog.CONFIG_MAPS, name, namespace, decide)
