"""Asking for a certificate: a request under a name that follows from the key, and the check of what is issued.

Source: client-go ``util/certificate/csr`` (Kubernetes 1.36). Every step can be repeated.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from kubevouch import wellknown
from kubevouch.agent import attestation_settings
from kubevouch.agent.attestation_settings import AttestationSettings
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.csr_wait import wait_for_certificate
from kubevouch.agent.interface import (
    CredentialRefusedError,
    NotIssuedError,
    Observer,
    RequestDeniedError,
    Step,
    WrongCertificateError,
)
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.interface import NotKubernetes, TLSFailed, TransportError
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki import certificate_chain, csr_name, issued_leaf, keys
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.csr_name import FoundRequest, OwnRequest
from kubevouch.pki.errors import (
    CertificateExpiredError,
    CertificateNotYetValidError,
    ClientCertificateError,
    IncompatibleRequestError,
    ParseError,
)
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.rotation import WantedCertificate
from kubevouch.pki.x509 import usages
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import NONE, SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.policy import node_names
from kubevouch.util import backoff
from kubevouch.util.clock import Clock

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 5.0
_NAMES = 5
MAX_ISSUED_BYTES = 256 << 10
"""Of ``status.certificate``: several times what a server takes in a handshake, and less than a pair's file may have."""


class RequestTemplate(msgspec.Struct, frozen=True):
    """What is asked for.

    Args:
        purpose: ``client auth`` or ``server auth``.
        expiration_seconds: None leaves it to the signer, as kubelets do.
        algorithm: of a key that has to be made.
        attestation: what is shown with it; the signer is that of its first method then.
        by_plugin: a program asks that is called again at once when it fails, and that hands out the key.
    """

    subject: Subject
    signer_name: str = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
    purpose: str = usages.CLIENT_AUTH
    alt_names: SubjectAltNames = NONE
    expiration_seconds: int | None = None
    algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256
    attestation: AttestationSettings | None = None
    by_plugin: bool = False

    @property
    def wanted(self) -> WantedCertificate:
        return WantedCertificate(
            common_name=self.subject.common_name,
            organizations=self.subject.organizations,
            alt_names=self.alt_names,
        )


def node_client(
    node_name: str,
    *,
    algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256,
    expiration_seconds: int | None = None,
    attestation: AttestationSettings | None = None,
) -> RequestTemplate:
    """A node's client certificate."""
    return RequestTemplate(
        node_subject(node_name),
        wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER if attestation is None else attestation.signer_name,
        algorithm=algorithm,
        expiration_seconds=expiration_seconds,
        attestation=attestation,
    )


def node_serving(
    node_name: str,
    alt_names: SubjectAltNames,
    *,
    algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256,
    expiration_seconds: int | None = None,
) -> RequestTemplate:
    """The certificate with which a node's kubelet serves."""
    return RequestTemplate(
        node_subject(node_name),
        wellknown.KUBELET_SERVING_SIGNER,
        usages.SERVER_AUTH,
        alt_names,
        expiration_seconds,
        algorithm,
    )


def node_subject(node_name: str) -> Subject:
    return Subject(common_name=f"{wellknown.NODE_USER_PREFIX}{node_name}", organizations=(wellknown.NODES_GROUP,))


# ------------------------------------------------------------------ decisions


def verify_issued(
    text: bytes, key: PrivateKey, template: RequestTemplate, anchors: TrustAnchors | None, *, now: dt.datetime
) -> tuple[Certificate, ...]:
    """The certificates in ``status.certificate``, leaf first, once they are what was asked for.

    Args:
        anchors: None where the signer's CA is not known here; then only the dates are checked.

    Raises:
        WrongCertificateError: says which of the checks failed; not spent when it is the clock or the trust bundle.
    """
    # 1. It can be read and stored.
    if len(text) > MAX_ISSUED_BYTES:
        raise WrongCertificateError(
            f"the issued certificate and its chain have {len(text)} bytes, at most {MAX_ISSUED_BYTES} are taken",
            spent=True,
        )
    try:
        leaf, *chain = certificate_chain.verify_certificate_chain(text)
    except ParseError as err:
        raise WrongCertificateError(f"the issued certificate cannot be read: {err}", spent=True) from err
    # 2. It is for our key.
    if leaf.public_key.canonical_info != keys.public_key_of(key).canonical_info:
        raise WrongCertificateError("the issued certificate is for another key than this machine's", spent=True)
    # 3. It says what was asked for, and nothing more: no other subject or name, no other use, no longer life.
    for fault in issued_leaf.differences(
        leaf,
        subject=template.subject,
        alt_names=template.alt_names,
        purpose=template.purpose,
        expiration_seconds=template.expiration_seconds,
    ):
        raise WrongCertificateError(f"the issued certificate {fault}", spent=True)
    # 4. The cluster's CA signed it for this purpose, and it is valid now.
    try:
        trusted = TrustAnchors([leaf]) if anchors is None else anchors
        verify_chain(leaf, chain, trusted, now=now, usage=usages.EXTENDED_KEY_USAGES[template.purpose])
    except (CertificateNotYetValidError, CertificateExpiredError) as err:
        raise WrongCertificateError(
            f"the issued certificate is valid from {Time.of(leaf.not_before)} to {Time.of(leaf.not_after)}, and it is "
            f"{Time.of(now)} here",
            "set this machine's clock",
        ) from err
    except ClientCertificateError as err:
        raise WrongCertificateError(f"the issued certificate does not come from the cluster's CA: {err}") from err
    return (leaf, *chain)


def own_request(key: PrivateKey, template: RequestTemplate, usernames: tuple[str, ...]) -> OwnRequest:
    """``usernames``: who may have posted it; see :class:`OwnRequest`."""
    public_key = keys.public_key_of(key)
    return OwnRequest(
        subject=template.subject,
        public_key=public_key,
        signer_name=template.signer_name,
        usages=usages.usages_for_key(template.purpose, rsa=public_key.name.startswith("RSA"), manager_order=False),
        usernames=usernames,
    )


def request_names(
    key: PrivateKey, own: OwnRequest, alt_names: SubjectAltNames = NONE, count: int = _NAMES
) -> list[str]:
    """The kubelet's name for the request, and others in case somebody else's object has it.

    All follow from the private key, so that a restart finds them again and nobody can guess the others. The kubelet's
    name says nothing of alternative names, so that a request with such names has none of it.
    """
    info = own.public_key.info
    first = csr_name.digested_name(info, own.subject, own.usages)
    who = "|".join(own.usernames).encode() + (alt_names.encode() if alt_names else b"")
    secret = hashlib.sha256(keys.to_pem(key)).digest()
    others = [csr_name.other_name(info, secret + bytes([number]) + who) for number in range(count - 1)]
    return others if alt_names else [first, *others]


# ------------------------------------------------------------------ the request


class Poster(msgspec.Struct, frozen=True):
    """Who asks.

    Args:
        usernames: as whom, and as whom an earlier run may have asked; empty believes any.
        credential: what it is called in a sentence: "the token", "the node's certificate".
        annotations: of the request's object.
        cluster_id: what proofs are made for, as :func:`kubevouch.records.cluster_identity.identity` has it.
    """

    requests: SigningRequests
    usernames: tuple[str, ...] = ()
    credential: str = "the credential"
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    cluster_id: str = ""


Content = Callable[[], Awaitable[bytes]]
"""Gives ``spec.request``; asked before each try."""


class Requester:
    """Puts one request in place, however often it has to be tried.

    Args:
        content: None for the request alone, without anything behind it.
        look_first: the key is from before, and so may the request be: it is looked for before it is made.
    """

    def __init__(
        self,
        poster: Poster,
        key: PrivateKey,
        template: RequestTemplate,
        clock: Clock,
        observer: Observer,
        random: backoff.Random,
        *,
        content: Content | None = None,
        look_first: bool = False,
        names: int = _NAMES,
    ) -> None:
        self._poster = poster
        self._own = own_request(key, template, poster.usernames)
        self.names = request_names(key, self._own, template.alt_names, names)
        self._content = content or _always(build_request(key, template.subject, template.alt_names))
        self._look_first = look_first
        self._template = template
        self._clock = clock
        self._observer = observer
        self._random = random

    async def request(self, give_up: float) -> CertificateSigningRequest:
        """The request as the server has it, made now or found to be ours; tries until ``give_up`` (monotonic).

        Raises:
            NotIssuedError: no name is left, or the time is over.
            RequestDeniedError: the server refuses it.
        """
        refused: IncompatibleRequestError | None = None
        for name in self.names:
            try:
                return (await self.place(name, give_up))[0]
            except IncompatibleRequestError as err:
                refused = err
                self._observer.warning(f"the request {name} is somebody else's, so this one gets another name: {err}")
        raise NotIssuedError(
            f"no name is left for the request: {refused}", "join again under another node name", spent=True
        )

    async def place(self, name: str, give_up: float) -> tuple[CertificateSigningRequest, bool]:
        """The request of that name, and whether it was there before.

        Creating under a fixed name can be repeated, so a lost answer costs nothing.

        Raises:
            IncompatibleRequestError: the name is somebody else's, or of another request of ours.
            NotIssuedError: the time is over.
            RequestDeniedError: the server refuses it.
        """
        told = ""
        for delay in backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), self._random):
            try:
                return await self._create_or_adopt(name)
            except (APIStatusError, TransportError) as err:
                if _is_definite(err):
                    raise self._refused(err) from err
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

    async def _create_or_adopt(self, name: str) -> tuple[CertificateSigningRequest, bool]:
        if self._look_first:
            try:
                return await self._adopt(name), True
            except APIStatusError as err:
                if err.code != 404:
                    raise
        metadata = ObjectMeta(name=name, annotations=dict(self._poster.annotations))
        spec = CertificateSigningRequestSpec(
            request=await self._content(),
            signer_name=self._template.signer_name,
            usages=list(self._own.usages),
            expiration_seconds=self._template.expiration_seconds,
        )
        try:
            csr = await self._poster.requests.create(CertificateSigningRequest(metadata=metadata, spec=spec))
        except APIStatusError as err:
            if err.reason != Reason.ALREADY_EXISTS:
                raise
            return await self._adopt(name), True
        self._observer.done(Step.REQUESTED, name)
        return csr, False

    async def _adopt(self, name: str) -> CertificateSigningRequest:
        csr = await self._poster.requests.get(name)
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

    def _refused(self, err: APIStatusError | TransportError) -> RequestDeniedError:
        if isinstance(err, APIStatusError) and err.code == 401:
            return credential_refused(self._poster.credential, err)
        return RequestDeniedError(f"the request was refused: {err}", getattr(err, "hint", ""))


def credential_refused(credential: str, err: APIStatusError) -> CredentialRefusedError:
    """What a 401 means to a machine that asks with a token; the API server does not say which of it is the case."""
    return CredentialRefusedError(
        f"the API server does not accept {credential}: {err}",
        "it is unknown there, has expired, is not for authentication, or not for the address of this machine "
        "(kubevouch token show says what it is for); kubevouch token create makes a token",
    )


def _always(content: bytes) -> Content:
    async def same() -> bytes:
        return content

    return same


def _is_definite(err: APIStatusError | TransportError) -> bool:
    if isinstance(err, APIStatusError):
        return 400 <= err.code < 500 and err.code not in (404, 408, 409, 429)
    return isinstance(err, TLSFailed) or (isinstance(err, NotKubernetes) and err.status not in (502, 503, 504))


async def obtain(
    store: CertificateStore,
    poster: Poster,
    template: RequestTemplate,
    anchors: TrustAnchors | None,
    clock: Clock,
    observer: Observer,
    *,
    timeout: float,
    random: backoff.Random,
) -> tuple[Certificate, ...]:
    """A new pair that has been verified and is the current one of ``store``, which the caller has locked.

    Of a template without a proof: ``attested_request.obtain`` is for any.

    Args:
        timeout: seconds for request and certificate together.

    Returns:
        Its certificates, leaf first.

    Raises:
        AgentError: RequestDenied, NotIssued, WrongCertificate or CertificateStore.
        OSError: a file cannot be read or written; the former pair is as it was.
    """
    key, made = await store.pending_key(template.algorithm)
    where = f"{'in' if made else 'found in'} {store.pending_key_path}"
    observer.done(Step.KEY_MADE, f"{keys.public_key_of(key).name}, {where}")
    give_up = clock.monotonic() + timeout
    csr = await Requester(poster, key, template, clock, observer, random).request(give_up)
    left = max(give_up - clock.monotonic(), 0.0)
    try:
        done = await wait_for_certificate(poster.requests, csr, clock, observer, timeout=left, random=random)
    except RequestDeniedError as err:
        if err.reason in node_names.REASONS:
            # The request of this key stays denied, whoever decides otherwise about the name meanwhile.
            store.drop_pending_key()
        raise
    return put_in_place(store, done.status.certificate, key, template, anchors, clock, observer)


def put_in_place(
    store: CertificateStore,
    certificate: bytes,
    key: PrivateKey,
    template: RequestTemplate,
    anchors: TrustAnchors | None,
    clock: Clock,
    observer: Observer,
) -> tuple[Certificate, ...]:
    """What was issued is verified, and is the current pair then. Raises as :func:`obtain` does."""
    chain = verify_issued(certificate, key, template, anchors, now=clock.now())
    if template.attestation is not None:
        attestation_settings.note(store.current_path, template.attestation, chain[0])
    store.update(certificate, key, now=clock.now())
    store.drop_pending_key()
    observer.done(Step.ISSUED, f"valid until {Time.of(chain[0].not_after)}")
    return chain
