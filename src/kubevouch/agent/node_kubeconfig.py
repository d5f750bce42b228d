"""The node's kubeconfig, as a kubelet writes it for itself (kubelet ``certificate/bootstrap``, Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import msgspec

from kubevouch import wellknown
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.discovery import DiscoveredCluster
from kubevouch.agent.interface import SettingsError
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, User
from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.records.bootstrap_tokens import Token
from kubevouch.records.cluster_info import extensions_of
from kubevouch.util.files import PRIVATE, make_folder, write_atomically

_TOKEN_CLUSTER, _TOKEN_USER = "kubernetes", "tls-bootstrap-token-user"
CLUSTER, USER, CONTEXT = "default-cluster", "default-auth", "default-context"


def build(cluster: Cluster, current: str) -> str:
    """The text: the cluster, and the current link for certificate and key."""
    return kubeconfig.dump(
        Kubeconfig(
            clusters={CLUSTER: cluster},
            users={USER: User(client_certificate=current, client_key=current)},
            contexts={CONTEXT: Context(cluster=CLUSTER, user=USER, namespace=wellknown.DEFAULT_NAMESPACE)},
            current_context=CONTEXT,
        )
    )


def cluster_of(found: DiscoveredCluster) -> Cluster:
    return Cluster(
        server=found.server,
        certificate_authority_data=found.certificate_authority_data,
        tls_server_name=found.tls_server_name,
        proxy_url=found.proxy_url,
        # What the agent tries when the server does not answer, and knows the cluster by.
        extensions=extensions_of(found.cluster_id, found.servers),
    )


def for_token(found: DiscoveredCluster, token: Token) -> str:
    """What a kubelet would be given to begin with: the token, and the cluster as it was proven; kubeadm's names."""
    context = f"{_TOKEN_USER}@{_TOKEN_CLUSTER}"
    return kubeconfig.dump(
        Kubeconfig(
            clusters={_TOKEN_CLUSTER: cluster_of(found)},
            users={_TOKEN_USER: User(token=token.text)},
            contexts={context: Context(cluster=_TOKEN_CLUSTER, user=_TOKEN_USER)},
            current_context=context,
        )
    )


def ensure(path: Path, source: Path, current: Path) -> bool:
    """Let ``path`` name the link ``current``; whether it had to be written.

    Args:
        source: the kubeconfig that says which cluster it is: ``path`` itself, or that of the bootstrap.

    Raises:
        SettingsError: the source names no cluster.
        OSError: a file cannot be read or written.
    """
    try:
        config = kubeconfig.load(source.read_bytes())
        context = config.contexts[config.current_context]
        cluster = config.clusters[context.cluster]
    except (kubeconfig.KubeconfigError, KeyError) as err:
        raise SettingsError(f"{source} names no cluster: {err}", "join again") from err
    user = config.users.get(context.user, User())
    named = os.path.normpath(path.parent.absolute() / user.client_certificate)
    if source == path and Path(named) == current.absolute():
        return False
    # All of how the cluster is reached: kubelets lose the proxy, without which they then reach nobody.
    authority = cluster.certificate_authority
    kept = msgspec.structs.replace(
        cluster, certificate_authority=str(source.parent.absolute() / authority) if authority else ""
    )
    make_folder(path.parent)
    write_atomically(path, build(kept, str(current.absolute())).encode(), mode=PRIVATE)
    return True


def seed(path: Path, store: CertificateStore, *, now: dt.datetime) -> bool:
    """Put the pair inside of a kubeconfig into an empty store, as kubelets do; whether there was one.

    Such a pair is to be rotated at once: its key has been in another file.

    Raises:
        AgentError: the pair is none.
        OSError: a file cannot be read or written.
    """
    if store.current() is not None or not path.exists():
        return False
    try:
        config = kubeconfig.load(path.read_bytes())
        user = config.users[config.contexts[config.current_context].user]
        key = keys.load_pem(user.client_key_data)
    except (kubeconfig.KubeconfigError, KeyError, KeyMaterialError):
        return False
    if not user.client_certificate_data:
        return False
    with store.locked():
        store.update(user.client_certificate_data, key, now=now)
    return True
