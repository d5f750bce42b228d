"""The upload-config phase: how the control plane is set up, for machines that join later (kubeadm 1.36)."""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.authorization.kubeadm_policy import KUBEADM_CONFIG, KUBELET_CONFIG, kubeadm_policy
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.client.stored import create_or_update
from kubevouch.config.kubeadm_v1beta4 import KUBELET, KUBELET_GROUP_VERSION, ClusterConfiguration, dump_cluster, load
from kubevouch.machinery.codec import yamltext
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.cluster_settings import ClusterSettings
from kubevouch.server.bootstrap import rbac

CLUSTER_KEY, KUBELET_KEY = "ClusterConfiguration", "kubelet"
_ENDPOINT = "controlPlaneEndpoint"
POLICY = frozenset({"kubeadm:nodes-kubeadm-config", "kubeadm:kubelet-config"})


def kubeadm_config(settings: ClusterSettings) -> ConfigMap:
    return _config_map(KUBEADM_CONFIG, CLUSTER_KEY, dump_cluster(settings.cluster))


def kubelet_config(settings: ClusterSettings) -> ConfigMap:
    return _config_map(KUBELET_CONFIG, KUBELET_KEY, yamltext.dumps(kubelet_configuration(settings)))


def _config_map(name: str, key: str, text: str) -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace=wellknown.KUBE_SYSTEM_NAMESPACE)
    return ConfigMap(metadata=metadata, data={key: text})


def kubelet_configuration(settings: ClusterSettings) -> dict[str, Any]:
    """kubeadm's defaults for kubelets; what it writes as a zero value is left out, which a kubelet reads the same."""
    wanted: dict[str, Any] = {
        "apiVersion": KUBELET_GROUP_VERSION,
        "kind": KUBELET,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{settings.cluster.certificates_dir}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "clusterDNS": [settings.dns_address],
        "clusterDomain": settings.cluster.networking.dns_domain,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": 10248,
        "rotateCertificates": True,
        "staticPodPath": "/etc/kubernetes/manifests",
    }
    return wanted | (settings.kubelet or {})


async def upload(client: Client, settings: ClusterSettings) -> None:
    """Publish both ConfigMaps, and let nodes and joining machines read them. Raises what the client raises."""
    for wanted in (kubeadm_config(settings), kubelet_config(settings)):
        await create_or_update(client, catalog.CONFIG_MAPS, wanted)
    policy = kubeadm_policy()
    await rbac.reconcile(client, [obj for obj in (*policy.roles, *policy.role_bindings) if obj.metadata.name in POLICY])


async def keep_endpoint(client: Client, endpoint: str) -> tuple[str, str] | None:
    """Publish ``HOST:PORT`` as the address that all control planes share, where their configuration is published.

    Args:
        endpoint: empty leaves what is published.

    Returns:
        What was published, and what is, empty for nothing; None where there is no configuration that can be read.

    Raises:
        APIStatusError, TransportError
    """
    told: list[tuple[str, str]] = []

    def decide(found: ConfigMap | None) -> ConfigMap | None:
        told.clear()
        # Whatever kubeadm of another version has written beside it stays.
        try:
            tree = yamltext.loads(found.data.get(CLUSTER_KEY, ""))[0] if found is not None else None
        except (ValueError, RecursionError):
            tree = None
        if found is None or not isinstance(tree, dict):
            return None
        former = tree.get(_ENDPOINT)
        former = former if isinstance(former, str) else ""
        told.append((former, endpoint or former))
        if told[0][0] == told[0][1]:
            return None
        text = yamltext.dumps(tree | {_ENDPOINT: endpoint})
        return msgspec.structs.replace(found, data={**found.data, CLUSTER_KEY: text})

    await stored.change(client, catalog.CONFIG_MAPS, KUBEADM_CONFIG, wellknown.KUBE_SYSTEM_NAMESPACE, decide)
    return told[0] if told else None


async def fetch_cluster(client: Client) -> ClusterConfiguration | None:
    """What the cluster was set up with; None if nobody has published it.

    Raises:
        APIStatusError, TransportError
        ConfigFileError: it is there and cannot be read.
    """
    text = await _fetch(client, KUBEADM_CONFIG, CLUSTER_KEY)
    return None if text is None else load(text.encode()).cluster


async def fetch_kubelet(client: Client) -> str | None:
    """The KubeletConfiguration of the cluster; None if nobody has published it. Raises what the client raises."""
    return await _fetch(client, KUBELET_CONFIG, KUBELET_KEY)


async def _fetch(client: Client, name: str, key: str) -> str | None:
    try:
        published = await client.get(catalog.CONFIG_MAPS, name, wellknown.KUBE_SYSTEM_NAMESPACE)
    except APIStatusError as err:
        # Whoever may not read it in this cluster goes without, as where it is missing.
        if err.code in (403, 404):
            return None
        raise
    return published.data.get(key)
