"""The cluster's CA certificates as this machine trusts them, and how they change.

    TrustBundleError    a text that holds no CA certificate

New ones are believed when they come over a connection that the known ones have verified; a known one is given up when
the API server has been reached without it. So a rollover with overlap needs no hands, and no order of events in it
leaves a machine without a CA that works.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kubevouch.agent.interface import AgentError
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Kubeconfig
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.files import PRIVATE, PUBLIC, write_atomically

HASH_ANNOTATION = "agent.kubevouch.io/trust-bundle"
"""On an agent's requests: which bundle it trusts, so that a rollover can count who has taken the new one."""

Bundle = tuple[Certificate, ...]


class TrustBundleError(AgentError):
    """A text that holds no CA certificate."""


def parse(text: bytes, where: str) -> Bundle:
    """Each certificate once. Raises :class:`TrustBundleError`."""
    try:
        return _once(x509_certificate.parse_bundle(text))
    except ParseError as err:
        raise TrustBundleError(f"{where} holds no CA certificate: {err}", "put the cluster's ca.crt there") from err


def _once(certificates: Iterable[Certificate]) -> Bundle:
    return tuple({each.contents: each for each in certificates}.values())


def bundle_hash(bundle: Bundle) -> str:
    """``sha256:`` over the certificates' own SHA-256 digests in ascending order; their order does not matter."""
    digests = sorted(each.fingerprint() for each in bundle)
    return f"sha256:{hashlib.sha256(b''.join(digests)).hexdigest()}"


def joined(trusted: Bundle, published: Bundle) -> Bundle:
    """Both, those that are published first, as long as the overlap lasts."""
    return _once((*published, *trusted))


def is_rollover(trusted: Bundle, published: Bundle) -> bool:
    """Whether the two differ; order aside."""
    return {each.contents for each in trusted} != {each.contents for each in published}


def to_pem(bundle: Bundle) -> bytes:
    return b"".join(each.pem() for each in bundle)


# ------------------------------------------------------------------ files


def _current(config: Kubeconfig, path: Path) -> tuple[str, Cluster]:
    context = config.contexts.get(config.current_context)
    if context is None or context.cluster not in config.clusters:
        raise TrustBundleError(f"the current context of {path} names no cluster", "join again")
    return context.cluster, config.clusters[context.cluster]


def load(path: Path) -> Bundle:
    """The bundle of a kubeconfig, inside or in the file that it names.

    Raises:
        TrustBundleError: there is none.
        OSError: a file cannot be read.
    """
    config = _config(path)
    _, cluster = _current(config, path)
    if cluster.certificate_authority_data:
        return parse(cluster.certificate_authority_data, str(path))
    if not cluster.certificate_authority:
        raise TrustBundleError(f"{path} names no CA", "set certificate-authority-data in it")
    file = path.parent / cluster.certificate_authority
    return parse(file.read_bytes(), str(file))


def store(path: Path, bundle: Bundle, copies: Iterable[Path] = ()) -> None:
    """Put the bundle where the kubeconfig ``path`` has its own, and into those ``copies`` that held the same before.

    Raises:
        TrustBundleError: the kubeconfig cannot be used.
        OSError: a file cannot be written; each file is whole or as it was.
    """
    config = _config(path)
    name, cluster = _current(config, path)
    before = load(path)
    text = to_pem(bundle)
    # Those who read the copies trust the new one before anybody shows a certificate of it.
    for copy in copies:
        if copy.exists() and not is_rollover(before, parse(copy.read_bytes(), str(copy))):
            write_atomically(copy, text, mode=PUBLIC)
    if cluster.certificate_authority_data:
        changed = msgspec.structs.replace(cluster, certificate_authority_data=text)
        config = msgspec.structs.replace(config, clusters={**config.clusters, name: changed})
        write_atomically(path, kubeconfig.dump(config).encode(), mode=PRIVATE)
    else:
        write_atomically(path.parent / cluster.certificate_authority, text, mode=PUBLIC)


def _config(path: Path) -> Kubeconfig:
    try:
        return kubeconfig.load(path.read_bytes())
    except kubeconfig.KubeconfigError as err:
        raise TrustBundleError(f"{path} is no usable kubeconfig: {err}", "join again") from err
