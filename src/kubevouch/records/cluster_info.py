"""cluster-info: the kubeconfig in ``kube-public`` that tells a machine where the API server is and which CA it has.

    ClusterInfoError    a text in which no cluster can be found; ``str()`` is kubeadm's sentence

Source: cmd/kubeadm/app/phases/bootstraptoken/clusterinfo, cmd/kubeadm/app/discovery/token (Kubernetes 1.36).
"""

from __future__ import annotations

from dataclasses import dataclass

from kubevouch import wellknown
from kubevouch.api.core_v1.configmaps import ConfigMap
from kubevouch.config.kubeconfig import Cluster, Kubeconfig, KubeconfigError, dump, load
from kubevouch.machinery.meta import ObjectMeta

NO_KUBECONFIG = (
    "there is no kubeconfig key in the cluster-info ConfigMap. This API Server isn't set up for token bootstrapping, "
    "can't connect"
)
_UNPARSABLE = "couldn't parse the kubeconfig file in the cluster-info ConfigMap"
_MALFORMED = "malformed kubeconfig in the cluster-info ConfigMap"


class ClusterInfoError(ValueError):
    """A text in which no cluster can be found."""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Where the API server is and what it is to be verified with. It says nothing of who vouches for it."""

    server: str
    certificate_authority_data: bytes


def build_kubeconfig(info: ClusterInfo) -> str:
    """The text that is signed and published: one cluster without a name, no users, no contexts."""
    cluster = Cluster(server=info.server, certificate_authority_data=info.certificate_authority_data)
    return dump(Kubeconfig(clusters={"": cluster}))


def parse_kubeconfig(text: str) -> ClusterInfo:
    """The cluster without a name, else that of the current context.

    Raises:
        ClusterInfoError: the text is no kubeconfig, or has no such cluster.
    """
    try:
        config = load(text)
    except KubeconfigError as err:
        raise ClusterInfoError(f"{_UNPARSABLE}: {err}") from err
    cluster = config.clusters.get("")
    if cluster is None and config.current_context in config.contexts:
        cluster = config.clusters.get(config.contexts[config.current_context].cluster)
    if cluster is None:
        raise ClusterInfoError(_MALFORMED)
    return ClusterInfo(cluster.server, cluster.certificate_authority_data)


def signature_key(token_id: str) -> str:
    """Under which key of the ConfigMap the signature for a token stands."""
    return f"{wellknown.JWS_KEY_PREFIX}{token_id}"


def kubeconfig_of(config_map: ConfigMap) -> str:
    """The published text. Raises :class:`ClusterInfoError` when there is none."""
    text = config_map.data.get(wellknown.KUBECONFIG_KEY, "")
    if not text:
        raise ClusterInfoError(NO_KUBECONFIG)
    return text


def config_map(info: ClusterInfo) -> ConfigMap:
    """The ConfigMap as it is before anything is signed."""
    return ConfigMap(
        metadata=ObjectMeta(name=wellknown.CLUSTER_INFO_CONFIGMAP, namespace=wellknown.KUBE_PUBLIC_NAMESPACE),
        data={wellknown.KUBECONFIG_KEY: build_kubeconfig(info)},
    )
