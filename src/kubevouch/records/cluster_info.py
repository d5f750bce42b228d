"""cluster-info: the kubeconfig in ``kube-public`` that tells a machine where the API server is and which CA it has.

    ClusterInfoError    a text in which no cluster can be found; ``str()`` is kubeadm's sentence

Source: cmd/kubeadm/app/phases/bootstraptoken/clusterinfo, cmd/kubeadm/app/discovery/token (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from kubevouch import wellknown
from kubevouch.api.core_v1.configmaps import ConfigMap
from kubevouch.config.kubeconfig import Cluster, Kubeconfig, KubeconfigError, NamedExtension, dump, load
from kubevouch.machinery.meta import ObjectMeta

NO_KUBECONFIG = (
    "there is no kubeconfig key in the cluster-info ConfigMap. This API Server isn't set up for token bootstrapping, "
    "can't connect"
)
EXTENSION = "kubevouch.io/cluster"
MAX_SERVERS = 16
_LONGEST_ID, _LONGEST_URL = 64, 300
_UNPARSABLE = "couldn't parse the kubeconfig file in the cluster-info ConfigMap"
_MALFORMED = "malformed kubeconfig in the cluster-info ConfigMap"


class ClusterInfoError(ValueError):
    """A text in which no cluster can be found."""


class ClusterInfo(msgspec.Struct, frozen=True):
    """Where the API server is and what it is to be verified with. It says nothing of who vouches for it.

    Args:
        cluster_id: the UID of the Namespace ``kube-system``, which no other cluster has; empty if it is not told.
        servers: more addresses of the same cluster, as good as ``server``, in the order in which to try them.
    """

    server: str
    certificate_authority_data: bytes
    cluster_id: str = ""
    servers: tuple[str, ...] = ()


class _Beside(msgspec.Struct, frozen=True, omit_defaults=True):
    """The extension. A kubeconfig's own place for what Kubernetes does not know: so the signature covers it, and
    clients of any version pass over it."""

    id: Annotated[str, msgspec.Meta(max_length=_LONGEST_ID, pattern=r"\A[0-9A-Za-z.-]*\Z")] = ""
    servers: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=_LONGEST_URL, pattern=r"\Ahttps://[!-~]+\Z")]],
        msgspec.Meta(max_length=MAX_SERVERS),
    ] = []


def extensions_of(cluster_id: str, servers: Iterable[str]) -> list[NamedExtension]:
    """What a kubeconfig's cluster says beside its server; empty if that is nothing."""
    beside = msgspec.to_builtins(_Beside(cluster_id, list(servers)))
    return [NamedExtension(name=EXTENSION, extension=beside)] if beside else []


def told_by(cluster: Cluster) -> tuple[str, tuple[str, ...]]:
    """ID and further addresses in a kubeconfig's cluster. What cannot be meant counts as not told."""
    for each in cluster.extensions:
        if each.name == EXTENSION:
            try:
                beside = msgspec.convert(each.extension, _Beside)
            except msgspec.ValidationError:
                break
            return beside.id, tuple(beside.servers)
    return "", ()


def build_kubeconfig(info: ClusterInfo) -> str:
    """The text that is signed and published: one cluster without a name, no users, no contexts."""
    cluster = Cluster(
        server=info.server,
        certificate_authority_data=info.certificate_authority_data,
        extensions=extensions_of(info.cluster_id, info.servers),
    )
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
    return ClusterInfo(cluster.server, cluster.certificate_authority_data, *told_by(cluster))


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
