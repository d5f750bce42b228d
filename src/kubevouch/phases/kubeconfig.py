"""The kubeconfig phase: files with which people and programs reach the API server."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, User
from kubevouch.phases.certificates.certs import DEFAULT_ALGORITHM, certificate_pem, renewal_time
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, LeafSpec, issue_leaf, load_key_pair
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import PKIError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.util.files import PRIVATE, make_folder, read_private, write_atomically

CLUSTER_NAME = "kubernetes"


def client_kubeconfig(
    server: str,
    authority: CertificateAuthority,
    spec: LeafSpec,
    *,
    now: dt.datetime,
    cluster_name: str = CLUSTER_NAME,
    algorithm: KeyAlgorithm = DEFAULT_ALGORITHM,
    bundle: bytes = b"",
) -> str:
    """A kubeconfig with a new client certificate inside, as kubeadm writes it.

    Args:
        bundle: what the server is verified with, in PEM; empty is the authority alone.
    """
    key = keys.generate(algorithm)
    leaf = issue_leaf(authority, spec, key, now=now)
    user = spec.common_name
    context = f"{user}@{cluster_name}"
    return kubeconfig.dump(
        Kubeconfig(
            clusters={
                cluster_name: Cluster(
                    server=server,
                    certificate_authority_data=bundle or certificate_pem(authority.certificate.contents),
                )
            },
            users={
                user: User(client_certificate_data=certificate_pem(leaf.contents), client_key_data=keys.to_pem(key))
            },
            contexts={context: Context(cluster=cluster_name, user=user)},
            current_context=context,
        )
    )


def write(path: Path, text: str) -> None:
    """Raises ``OSError``; the file is whole or as it was."""
    make_folder(path.parent)
    write_atomically(path, text.encode(), mode=PRIVATE)


def ensure(
    path: Path,
    server: str,
    authority: CertificateAuthority,
    spec: LeafSpec,
    *,
    now: dt.datetime,
    algorithm: KeyAlgorithm = DEFAULT_ALGORITHM,
    cluster_name: str = CLUSTER_NAME,
    bundle: bytes = b"",
) -> None:
    """``path`` as a kubeconfig for ``spec``; one that is there is kept while it reaches ``server`` and is valid.

    A certificate in its last third is replaced. Raises ``OSError``.
    """
    trusted = bundle or certificate_pem(authority.certificate.contents)
    if not _is_usable(path, server, authority, spec, now, trusted):
        text = client_kubeconfig(
            server, authority, spec, now=now, algorithm=algorithm, cluster_name=cluster_name, bundle=trusted
        )
        write(path, text)


def _is_usable(
    path: Path, server: str, authority: CertificateAuthority, spec: LeafSpec, now: dt.datetime, trusted: bytes
) -> bool:
    try:
        config = kubeconfig.load(read_private(path))
        context = config.contexts[config.current_context]
        cluster, user = config.clusters[context.cluster], config.users[context.user]
        leaf, _ = load_key_pair(user.client_certificate_data, user.client_key_data)
        verify_chain(leaf, (), TrustAnchors([authority.certificate]), now=now)
    except (OSError, KeyError, PKIError, kubeconfig.KubeconfigError):
        return False
    return (
        cluster.server == server
        and cluster.certificate_authority_data == trusted
        and leaf.subject.common_name == spec.common_name
        and set(leaf.subject.organizations) == set(spec.organizations)
        and now < renewal_time(leaf)
    )
