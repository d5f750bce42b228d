"""Whether a kubeconfig on disk still is a credential (kubelet ``certificate/bootstrap``, Kubernetes 1.36).

As there, neither the start of its certificate nor who issued it is looked at, and a token or a plug-in does not count.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Kubeconfig, KubeconfigError, User
from kubevouch.machinery.text.times import Time
from kubevouch.pki.authority import load_key_pair
from kubevouch.pki.errors import AuthorityError, ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.cluster_info import told_by

_MAX_BYTES = 1 << 20


class KubeconfigState(msgspec.Struct, frozen=True):
    """What is in a kubeconfig. ``problem`` is empty when it is a credential; then ``chain`` is not, leaf first.

    ``cluster_id`` is that of cluster-info when it was written, empty if it was not told.
    """

    problem: str
    server: str = ""
    certificate_authority_data: bytes = b""
    chain: tuple[Certificate, ...] = ()
    cluster_id: str = ""


def judge_kubeconfig(path: Path, now: dt.datetime) -> KubeconfigState | None:
    """The state of the file, None if there is none.

    Raises:
        OSError: it is there and cannot be read, which is no reason to replace it.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        cluster, user = _current(kubeconfig.load(text))
    except KubeconfigError as err:
        return KubeconfigState(f"it is no usable kubeconfig: {err}")
    folder, cluster_id = path.parent, told_by(cluster)[0]
    try:
        authority = _content(folder, cluster.certificate_authority_data, cluster.certificate_authority)
        certificate = _content(folder, user.client_certificate_data, user.client_certificate)
        key = _content(folder, user.client_key_data, user.client_key)
    except OSError as err:
        return KubeconfigState(f"{err.filename} cannot be read: {err.strerror}", cluster.server, cluster_id=cluster_id)
    if not certificate:
        return KubeconfigState("it has no client certificate", cluster.server, authority, cluster_id=cluster_id)
    try:
        load_key_pair(certificate, key, in_tpm=True)
        chain = tuple(x509_certificate.parse_bundle(certificate))
    except (AuthorityError, ParseError) as err:
        problem = f"its client certificate cannot be used: {err}"
        return KubeconfigState(problem, cluster.server, authority, cluster_id=cluster_id)
    ended = [each.not_after for each in chain if now > each.not_after]
    problem = f"its client certificate has expired at {Time.of(min(ended))}" if ended else ""
    return KubeconfigState(problem, cluster.server, authority, chain, cluster_id)


def _current(config: Kubeconfig) -> tuple[Cluster, User]:
    context = config.contexts.get(config.current_context)
    cluster = None if context is None else config.clusters.get(context.cluster)
    user = None if context is None else config.users.get(context.user)
    if cluster is None or user is None:
        raise KubeconfigError("its current context names no cluster and user")
    return cluster, user


def _content(folder: Path, content: bytes, name: str) -> bytes:
    if content or not name:
        return content
    with (folder / name).open("rb") as file:
        return file.read(_MAX_BYTES)
