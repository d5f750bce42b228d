"""The kubeconfig phase: files with which people and programs reach the API server."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from kubevouch.api import kubeconfig
from kubevouch.api.kubeconfig import Cluster, Context, Kubeconfig, User
from kubevouch.phases.certs import DEFAULT_ALGORITHM, certificate_pem
from kubevouch.pki import keys, x509_certificate
from kubevouch.pki.authority import CertificateAuthority, LeafSpec, issue_leaf
from kubevouch.pki.errors import PKIError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.util.files import PRIVATE, make_folder, write_atomically

CLUSTER_NAME = "kubernetes"


def client_kubeconfig(
    server: str,
    authority: CertificateAuthority,
    spec: LeafSpec,
    *,
    now: dt.datetime,
    cluster_name: str = CLUSTER_NAME,
    algorithm: KeyAlgorithm = DEFAULT_ALGORITHM,
) -> str:
    """A kubeconfig with a new client certificate inside, as kubeadm writes it."""
    key = keys.generate(algorithm)
    leaf = issue_leaf(authority, spec, key, now=now)
    user = spec.common_name
    context = f"{user}@{cluster_name}"
    return kubeconfig.dump(
        Kubeconfig(
            clusters={
                cluster_name: Cluster(
                    server=server, certificate_authority_data=certificate_pem(authority.certificate.contents)
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
) -> None:
    """``path`` as a kubeconfig for ``spec``; one that is there is kept while it reaches ``server`` and is valid.

    A certificate in its last third is replaced. Raises ``OSError``.
    """
    if not _is_usable(path, server, authority, spec, now):
        write(path, client_kubeconfig(server, authority, spec, now=now, algorithm=algorithm))


def _is_usable(path: Path, server: str, authority: CertificateAuthority, spec: LeafSpec, now: dt.datetime) -> bool:
    try:
        config = kubeconfig.load(path.read_bytes())
        context = config.contexts[config.current_context]
        cluster, user = config.clusters[context.cluster], config.users[context.user]
        leaf = x509_certificate.parse_bundle(user.client_certificate_data)[0]
    except (OSError, KeyError, IndexError, PKIError, kubeconfig.KubeconfigError):
        return False
    renewal = leaf.not_after - (leaf.not_after - leaf.not_before) / 3
    return (
        cluster.server == server
        and cluster.certificate_authority_data == certificate_pem(authority.certificate.contents)
        and context.user == spec.common_name
        and leaf.issuer_name == authority.certificate.subject_name
        and leaf.not_before <= now < renewal
    )
