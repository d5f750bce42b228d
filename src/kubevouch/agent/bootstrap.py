"""TLS bootstrap: a key that is made here and stays here becomes a node's client certificate.

Source: kubelet ``certificate/bootstrap`` (Kubernetes 1.36). Every step can be repeated: the key is on disk before it is
asked about, the request's name follows from the key.
"""

from __future__ import annotations

import datetime as dt
import random as random_module
from dataclasses import dataclass, field

from kubevouch.agent.attestation_settings import AttestationSettings, is_given_for
from kubevouch.agent.attested_request import obtain
from kubevouch.agent.certificate_request import Poster, RequestTemplate, node_client
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import Observer, Step
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.client.interface import Client
from kubevouch.machinery.text.times import Time
from kubevouch.pki import keys, rotation
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import ClientCertificateError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records import cluster_identity
from kubevouch.util import backoff
from kubevouch.util.clock import Clock

TIMEOUT_SECONDS = 300.0  # kubeadm's timeouts.tlsBootstrap


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What is to come of it.

    Args:
        anchors: the CA certificates that have been proven to be the cluster's.
        username: as whom the client of the bootstrap asks, so that a request found is known for one's own.
        timeout: seconds for request and certificate together.
        key: to be asked for, where the machine was given one; None makes one.
        attestation: what is shown with the request; None shows nothing.
        cluster_id: as the cluster tells it; empty if it does not, and then its CA is what that is bound to.
    """

    node_name: str
    anchors: TrustAnchors
    username: str
    timeout: float = TIMEOUT_SECONDS
    key: PrivateKey | None = field(default=None, repr=False)
    attestation: AttestationSettings | None = None
    cluster_id: str = ""

    @property
    def template(self) -> RequestTemplate:
        algorithm = KeyAlgorithm.ECDSA_P256 if self.key is None else keys.algorithm_of(self.key)
        return node_client(self.node_name, algorithm=algorithm, attestation=self.attestation)

    @property
    def usernames(self) -> tuple[str, ...]:
        return (self.username,) if self.username else ()


def is_good(
    chain: tuple[Certificate, ...], template: RequestTemplate, anchors: TrustAnchors, *, now: dt.datetime
) -> bool:
    """Whether a pair on disk makes a request needless."""
    if not rotation.satisfies(chain[0], template.wanted):
        return False
    try:
        verify_chain(chain[0], chain[1:], anchors, now=now)
    except ClientCertificateError:
        return False
    return True


async def bootstrap(
    client: Client,
    store: CertificateStore,
    wanted: Bootstrap,
    clock: Clock,
    observer: Observer,
    random: backoff.Random = random_module.random,
) -> Certificate:
    """The node's certificate, which is in ``store`` afterwards.

    Raises:
        AgentError: RequestDenied, NotIssued, WrongCertificate or CertificateStore.
        OSError: a file cannot be read or written.
    """
    with store.locked():
        stored = store.current()
        if (
            stored is not None
            and is_good(stored.chain, wanted.template, wanted.anchors, now=clock.now())
            and is_given_for(store.current_path, wanted.attestation, stored.leaf)
        ):
            store.drop_pending_key()
            observer.done(Step.ISSUED, f"valid until {Time.of(stored.leaf.not_after)}")
            return stored.leaf
        if wanted.key is not None:
            store.put_pending_key(wanted.key)
        cluster_id = cluster_identity.identity(wanted.cluster_id, wanted.anchors.certificates)
        poster = Poster(SigningRequests(client), wanted.usernames, "the token", cluster_id=cluster_id)
        chain = await obtain(
            store, poster, wanted.template, wanted.anchors, clock, observer, timeout=wanted.timeout, random=random
        )
        return chain[0]
