"""The node's kubeconfig, as a kubelet writes it for itself (kubelet ``certificate/bootstrap``, Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from kubevouch import wellknown
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import SettingsError
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, User
from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.util.files import PRIVATE, make_folder, write_atomically

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
    # As kubelets: what is left of the cluster is where it is and whom to trust.
    authority = cluster.certificate_authority
    kept = Cluster(
        server=cluster.server,
        certificate_authority=str(source.parent.absolute() / authority) if authority else "",
        certificate_authority_data=cluster.certificate_authority_data,
        tls_server_name=cluster.tls_server_name,
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
