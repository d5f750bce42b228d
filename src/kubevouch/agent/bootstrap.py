"""TLS bootstrap: a key that is made here and stays here becomes a node's client certificate.

Source: kubelet ``certificate/bootstrap``, client-go ``util/certificate/csr`` (Kubernetes 1.36). Every step can be
repeated: the key is on disk before it is asked about, the request's name follows from the key.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import random as random_module
from dataclasses import dataclass

from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.csr_wait import wait_for_certificate
from kubevouch.agent.interface import (
    AgentError,
    NotIssuedError,
    Observer,
    RequestDeniedError,
    Step,
    WrongCertificateError,
)
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.interface import Client, NotKubernetes, TLSFailed, TransportError
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.times import Time
from kubevouch.pki import certificate_chain, csr_name, keys, rotation, usages
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.csr_name import FoundRequest, OwnRequest
from kubevouch.pki.errors import (
    CertificateExpiredError,
    CertificateNotYetValidError,
    ClientCertificateError,
    IncompatibleRequestError,
    ParseError,
)
from kubevouch.pki.request_builder import build_request
from kubevouch.pki.signature import PrivateKey
from kubevouch.pki.subject import Subject
from kubevouch.pki.x509_certificate import Certificate
from kubevouch.util import backoff
from kubevouch.util.clock import Clock

TIMEOUT_SECONDS = 300.0  # kubeadm's timeouts.tlsBootstrap
SIGNER = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 5.0
_OTHER_NAMES = 4


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What is to come of it.

    Args:
        anchors: the CA certificates that have been proven to be the cluster's.
        username: as whom the client of the bootstrap asks, so that a request found is known for one's own.
        timeout: seconds for request and certificate together.
    """

    node_name: str
    anchors: TrustAnchors
    username: str
    timeout: float = TIMEOUT_SECONDS

    @property
    def subject(self) -> Subject:
        return Subject(
            common_name=f"{wellknown.NODE_USER_PREFIX}{self.node_name}", organizations=(wellknown.NODES_GROUP,)
        )


# ------------------------------------------------------------------ decisions


def verify_issued(text: bytes, key: PrivateKey, wanted: Bootstrap, *, now: dt.datetime) -> tuple[Certificate, ...]:
    """The certificates in ``status.certificate``, leaf first, once they are what was asked for.

    Raises:
        WrongCertificateError: says which of the checks failed.
    """
    # 1. It can be read.
    try:
        leaf, *chain = certificate_chain.verify_certificate_chain(text)
    except ParseError as err:
        raise WrongCertificateError(f"the issued certificate cannot be read: {err}") from err
    # 2. It is for our key.
    if leaf.public_key.canonical_info != keys.public_key_of(key).canonical_info:
        raise WrongCertificateError("the issued certificate is for another key than this machine's")
    # 3. It names this node and nothing else.
    subject = wanted.subject
    if (leaf.subject.common_name, leaf.subject.organizations) != (subject.common_name, subject.organizations):
        raise WrongCertificateError(
            f"the issued certificate is for {leaf.subject.common_name!r} in {list(leaf.subject.organizations)}, "
            f"expected {subject.common_name!r} in {list(subject.organizations)}"
        )
    # 4. The cluster's CA signed it for clients, and it is valid now.
    try:
        verify_chain(leaf, chain, wanted.anchors, now=now)
    except (CertificateNotYetValidError, CertificateExpiredError) as err:
        raise WrongCertificateError(
            f"the issued certificate is valid from {Time.of(leaf.not_before)} to {Time.of(leaf.not_after)}, and it is "
            f"{Time.of(now)} here",
            "set this machine's clock",
        ) from err
    except ClientCertificateError as err:
        raise WrongCertificateError(f"the issued certificate does not come from the cluster's CA: {err}") from err
    return (leaf, *chain)


def is_good(chain: tuple[Certificate, ...], wanted: Bootstrap, *, now: dt.datetime) -> bool:
    """Whether a pair on disk makes a request needless."""
    if not rotation.satisfies(chain[0], rotation.node_client(wanted.node_name)):
        return False
    try:
        verify_chain(chain[0], chain[1:], wanted.anchors, now=now)
    except ClientCertificateError:
        return False
    return True


def own_request(key: PrivateKey, wanted: Bootstrap) -> OwnRequest:
    public_key = keys.public_key_of(key)
    return OwnRequest(
        subject=wanted.subject,
        public_key=public_key,
        signer_name=SIGNER,
        usages=usages.usages_for_key("client auth", rsa=public_key.name.startswith("RSA"), manager_order=False),
        usernames=(wanted.username,) if wanted.username else (),
    )


def request_names(key: PrivateKey, own: OwnRequest) -> list[str]:
    """The kubelet's name for the request, and others in case somebody else's object has it.

    All follow from the private key, so that a restart finds them again and nobody can guess the others.
    """
    info = own.public_key.info
    first = csr_name.digested_name(info, own.subject, own.usages)
    who = "|".join(own.usernames).encode()
    secret = hashlib.sha256(keys.to_pem(key)).digest()
    others = (csr_name.other_name(info, secret + bytes([number]) + who) for number in range(_OTHER_NAMES))
    return [first, *others]


# ------------------------------------------------------------------ the steps


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
    stored = store.current()
    if stored is not None and is_good(stored.chain, wanted, now=clock.now()):
        store.drop_pending_key()
        observer.done(Step.ISSUED, _until(stored.leaf))
        return stored.leaf
    key, made = store.pending_key()
    path = store.pending_key_path
    observer.done(Step.KEY_MADE, f"{keys.public_key_of(key).name}, {'in' if made else 'found in'} {path}")
    requests = SigningRequests(client)
    give_up = clock.monotonic() + wanted.timeout
    csr = await _Requester(requests, key, wanted, clock, observer, random).request(give_up)
    left = max(give_up - clock.monotonic(), 0.0)
    done = await wait_for_certificate(requests, csr, clock, observer, timeout=left, random=random)
    chain = verify_issued(done.status.certificate, key, wanted, now=clock.now())
    store.update(done.status.certificate, key, now=clock.now())
    store.drop_pending_key()
    observer.done(Step.ISSUED, _until(chain[0]))
    return chain[0]


def _until(certificate: Certificate) -> str:
    return f"valid until {Time.of(certificate.not_after)}"


class _Requester:
    def __init__(
        self,
        requests: SigningRequests,
        key: PrivateKey,
        wanted: Bootstrap,
        clock: Clock,
        observer: Observer,
        random: backoff.Random,
    ) -> None:
        self._requests = requests
        self._own = own_request(key, wanted)
        self._names = request_names(key, self._own)
        self._spec = CertificateSigningRequestSpec(
            request=build_request(key, wanted.subject), signer_name=SIGNER, usages=list(self._own.usages)
        )
        self._clock = clock
        self._observer = observer
        self._random = random

    async def request(self, give_up: float) -> CertificateSigningRequest:
        """The request as the server has it, made now or found to be ours; tries until ``give_up``."""
        refused: IncompatibleRequestError | None = None
        for name in self._names:
            try:
                return await self._persist(name, give_up)
            except IncompatibleRequestError as err:
                refused = err
                self._observer.warning(f"the request {name} is not this machine's, another name is taken: {err}")
        raise NotIssuedError(f"no name is left for the request: {refused}", "join again under another node name")

    async def _persist(self, name: str, give_up: float) -> CertificateSigningRequest:
        """Creating under a fixed name can be repeated, so a lost answer costs nothing."""
        told = ""
        for delay in backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), self._random):
            try:
                return await self._create_or_adopt(name)
            except (APIStatusError, TransportError) as err:
                if _is_definite(err):
                    raise _refused(err) from err
                left = give_up - self._clock.monotonic()
                if left <= 0:
                    raise NotIssuedError(
                        f"timed out making the request: {err}", "join again once the API server answers"
                    ) from err
                if str(err) != told:
                    told = str(err)
                    self._observer.waiting(f"the request could not be made: {err}")
            await self._clock.sleep(min(delay, left))
        raise AssertionError  # pragma: no cover - the delays go on for ever

    async def _create_or_adopt(self, name: str) -> CertificateSigningRequest:
        try:
            csr = await self._requests.create(
                CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=self._spec)
            )
        except APIStatusError as err:
            if err.reason != Reason.ALREADY_EXISTS:
                raise
        else:
            self._observer.done(Step.REQUESTED, name)
            return csr
        csr = await self._requests.get(name)
        spec = csr.spec
        found = FoundRequest(
            request=spec.request or b"",
            signer_name=spec.signer_name,
            usages=tuple(spec.usages),
            username=spec.username,
            certificate=csr.status.certificate,
        )
        csr_name.verify_found(found, self._own, now=self._clock.now())
        self._observer.done(Step.REQUESTED, f"{name}, found from before")
        return csr


def _is_definite(err: APIStatusError | TransportError) -> bool:
    if isinstance(err, APIStatusError):
        return 400 <= err.code < 500 and err.code not in (404, 408, 409, 429)
    return isinstance(err, TLSFailed) or (isinstance(err, NotKubernetes) and err.status not in (502, 503, 504))


def _refused(err: APIStatusError | TransportError) -> AgentError:
    if isinstance(err, APIStatusError) and err.code == 401:
        return RequestDeniedError(
            f"the API server does not accept the token: {err}",
            "it is unknown, has expired or is not for authentication; kubevouch token create makes one",
        )
    return RequestDeniedError(f"the request was refused: {err}", getattr(err, "hint", ""))
