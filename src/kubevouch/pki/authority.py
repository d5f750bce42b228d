"""Certificate authorities: loaded with kube-controller-manager's errors, made and signing as kubeadm does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec

from kubevouch.machinery.text.gotext import quote, string_slice
from kubevouch.pki import keys
from kubevouch.pki.errors import AuthorityError, KeyMaterialError, NotSingleError, ParseError
from kubevouch.pki.x509 import certificate_builder, der, pem, x509_certificate
from kubevouch.pki.x509.certificate_builder import CertificateTemplate
from kubevouch.pki.x509.certificate_extensions import NAME_CONSTRAINTS
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.signature import PrivateKey, Signing, signing
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import (
    CERT_SIGN,
    CRL_SIGN,
    DIGITAL_SIGNATURE,
    KEY_ENCIPHERMENT,
    SERVER_AUTH,
    CertificateUsages,
    resolve,
)
from kubevouch.pki.x509.x509_certificate import Certificate

AUTHORITY_VALIDITY = dt.timedelta(hours=87600)
"""kubeadm's ``caCertificateValidityPeriod``."""
LEAF_VALIDITY = dt.timedelta(hours=8760)
"""kubeadm's ``certificateValidityPeriod``."""
BACKDATE = dt.timedelta(minutes=5)

_NO_PEM = "tls: failed to find any PEM data in certificate input"
_SWITCHED = (
    "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have "
    "been switched"
)
_WRONG_TYPE = "tls: private key type does not match public key type"
_WRONG_KEY = "tls: private key does not match public key"
_UNKNOWN_KEY = "tls: unknown public key algorithm"


class CertificateAuthority:
    """A certificate and the key that signs for it.

    Nothing says that the certificate is a CA's: Kubernetes does not look, and neither does this.
    """

    def __init__(self, certificate: Certificate, key: PrivateKey | Signing) -> None:
        """``key``: or how one signs that cannot be had, such as one in an HSM.

        Raises :class:`KeyMaterialError` when no algorithm signs with ``key``.
        """
        self.certificate = certificate
        self._key = None if isinstance(key, Signing) else key
        self._signing: Signing = key if isinstance(key, Signing) else signing(key)

    @property
    def has_key(self) -> bool:
        """Whether the key is in this process. To sign with one that is elsewhere may take for ever."""
        return self._key is not None

    @property
    def key(self) -> PrivateKey:
        """Raises :class:`AuthorityError` when the key is elsewhere."""
        if self._key is None:
            raise AuthorityError("the key of this authority cannot be read: it is elsewhere, such as in an HSM")
        return self._key

    @classmethod
    def load(
        cls, certificate_pem: bytes, key_pem: bytes, *, certificate_file: str, key_file: str
    ) -> CertificateAuthority:
        """The authority in the two files' contents, which must hold exactly one certificate and its key.

        Raises:
            AuthorityError: with kube-controller-manager's text, file names and all.
        """
        both = f"csr-controller::{certificate_file}::{key_file}"
        try:
            if not certificate_file or not key_file:
                raise AuthorityError("missing filename for serving cert")
            if not certificate_pem or not key_pem:
                raise AuthorityError(f"missing content for serving cert {quote(both)}")
            certificate, key = load_key_pair(certificate_pem, key_pem)
        except AuthorityError as error:
            raise AuthorityError(f"error reading CA cert file {quote(certificate_file)}: {error}") from error
        _verify_single(certificate_pem, both)
        return cls(certificate, key)

    def draft(self, template: CertificateTemplate) -> bytes:
        """The certificate that :meth:`sign` would make, but for its signature, which is none.

        No key is used, not even a throw-away one: what is read of a draft is all in front of the signature. Raises
        ``ValueError`` for a name that cannot be written.
        """
        identifier = self._signing.identifier
        signed = certificate_builder.to_be_signed(
            template,
            issuer_name=self.certificate.subject_name,
            issuer_key_id=self.certificate.meaning.subject_key_id,
            identifier=identifier,
        )
        return der.encode(der.SEQUENCE, signed, identifier, der.encode_bit_string(b"\0"))

    def signed(self, to_be_signed: Callable[[bytes], bytes]) -> bytes:
        """Something of the CA's own in DER, such as a CRL: what is signed, the algorithm, the signature.

        Args:
            to_be_signed: makes it of the AlgorithmIdentifier.
        """
        identifier = self._signing.identifier
        contents = to_be_signed(identifier)
        return der.encode(der.SEQUENCE, contents, identifier, der.encode_bit_string(self._signing.sign(contents)))

    def sign(self, template: CertificateTemplate) -> bytes:
        """The certificate in DER. Raises ``ValueError`` for a name that cannot be written."""
        return certificate_builder.build(
            template,
            issuer_name=self.certificate.subject_name,
            issuer_key_id=self.certificate.meaning.subject_key_id,
            signing=self._signing,
        )


def _verify_single(certificate_pem: bytes, name: str) -> None:
    try:
        count = len(x509_certificate.parse_bundle(certificate_pem))
    except ParseError as error:
        raise NotSingleError(f"error reading CA cert file {quote(name)}: {error}") from error
    if count != 1:
        raise NotSingleError(f"error reading CA cert file {quote(name)}: expected 1 certificate, found {count}")


def load_single(certificate_pem: bytes, name: str) -> Certificate:
    """The certificate of an authority whose key is elsewhere.

    Raises:
        AuthorityError: with kube-controller-manager's text; ``name`` is that of the file.
    """
    try:
        certificate = _first_certificate(certificate_pem)
    except AuthorityError as error:
        raise AuthorityError(f"error reading CA cert file {quote(name)}: {error}") from error
    _verify_single(certificate_pem, name)
    return certificate


def own_certificate(bundle_pem: bytes, key_pem: bytes) -> bytes:
    """Of a CA bundle, the certificate that belongs to the key; the text as it stands when none does.

    While one authority takes over from another, ``ca.crt`` holds both and ``ca.key`` says which of them signs.
    """
    try:
        mine = keys.public_key_of(keys.load_pem(key_pem)).canonical_info
        belonging = [
            each for each in x509_certificate.parse_bundle(bundle_pem) if each.public_key.canonical_info == mine
        ]
    except (ParseError, KeyMaterialError):
        return bundle_pem
    return belonging[0].pem() if belonging else bundle_pem


def load_key_pair(
    certificate_pem: bytes, key_pem: bytes, *, trusted_key: bool = False, in_tpm: bool = False
) -> tuple[Certificate, PrivateKey]:
    """The first certificate and the key that belongs to it, as Go's ``tls.X509KeyPair`` loads them.

    The key is checked for soundness unless it is ``trusted_key``, or will never be used. It may be one that stays
    ``in_tpm``, which Go knows nothing of.

    Raises:
        AuthorityError: with Go's text.
    """
    certificate = _first_certificate(certificate_pem)
    try:
        key = keys.load_pem(key_pem, trusted=trusted_key, in_tpm=in_tpm)
        mine = keys.public_key_of(key)
    except (ParseError, KeyMaterialError) as error:
        raise AuthorityError(str(error)) from error
    theirs = certificate.public_key
    if theirs.kind in {KeyKind.UNKNOWN, KeyKind.DSA}:
        raise AuthorityError(_UNKNOWN_KEY)
    if theirs.kind is not mine.kind:
        raise AuthorityError(_WRONG_TYPE)
    if theirs.canonical_info != mine.canonical_info:
        raise AuthorityError(_WRONG_KEY)
    return certificate, key


def _first_certificate(certificate_pem: bytes) -> Certificate:
    skipped = []
    try:
        for block in pem.blocks(certificate_pem):
            if block.type == pem.CERTIFICATE:
                return x509_certificate.parse_der(block.contents)
            skipped.append(block.type)
    except ParseError as error:
        raise AuthorityError(str(error)) from error
    raise AuthorityError(_no_certificate(skipped))


def _no_certificate(skipped: list[str]) -> str:
    if not skipped:
        return _NO_PEM
    if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
        return _SWITCHED
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following '
        f"types: {string_slice(skipped)}"
    )


def create_authority(
    common_name: str,
    key: PrivateKey,
    *,
    now: dt.datetime,
    validity: dt.timedelta = AUTHORITY_VALIDITY,
    serial: int | None = None,
    as_kubeadm: bool = True,
) -> CertificateAuthority:
    """A self-signed authority as kubeadm makes it: its name is also a DNS subjectAltName, it starts five minutes ago.

    Args:
        as_kubeadm: False makes it as RFC 5280 has CAs: no subjectAltName, which no CA needs and not every name fits
            into, no key encipherment, which fewer kinds of keys can do, and CRLs may be signed.

    Raises:
        ValueError: ``common_name`` is not ASCII.
        KeyMaterialError: no algorithm signs with ``key``.
    """
    template = CertificateTemplate(
        serial=certificate_builder.random_serial(certificate_builder.STRICT_SERIAL_BITS) if serial is None else serial,
        subject=Subject(common_name=common_name),
        public_key=keys.public_key_of(key),
        not_before=now - BACKDATE,
        not_after=now + validity,
        usages=resolve((DIGITAL_SIGNATURE, KEY_ENCIPHERMENT if as_kubeadm else CRL_SIGN, CERT_SIGN)),
        alt_names=SubjectAltNames(dns_names=(common_name,) if as_kubeadm else ()),
        is_ca=True,
        with_subject_key_id=True,
    )
    name = template.subject.encode()
    contents = certificate_builder.build(template, issuer_name=name, issuer_key_id=b"", signing=signing(key))
    return CertificateAuthority(x509_certificate.parse_der(contents), key)


def create_self_signed(
    common_name: str, alt_names: SubjectAltNames, key: PrivateKey, *, now: dt.datetime, validity: dt.timedelta
) -> Certificate:
    """A serving certificate for which nobody but its own key vouches; no authority.

    Raises:
        AuthorityError: a name cannot be written.
    """
    subject = Subject(common_name=common_name)
    template = CertificateTemplate(
        serial=certificate_builder.random_serial(certificate_builder.STRICT_SERIAL_BITS),
        subject=subject,
        public_key=keys.public_key_of(key),
        not_before=now - BACKDATE,
        not_after=now + validity,
        usages=resolve((DIGITAL_SIGNATURE, SERVER_AUTH)),
        alt_names=alt_names,
    )
    try:
        return x509_certificate.parse_der(
            certificate_builder.build(template, issuer_name=subject.encode(), issuer_key_id=b"", signing=signing(key))
        )
    except ValueError as error:
        raise AuthorityError(f"a name of {quote(common_name)} cannot be written: {error}") from error


class LeafSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of the control plane: ``purposes`` are ``client auth`` and ``server auth``."""

    common_name: str
    organizations: tuple[str, ...] = ()
    purposes: tuple[str, ...]
    alt_names: SubjectAltNames = SubjectAltNames()
    validity: dt.timedelta = LEAF_VALIDITY


def issue_leaf(
    authority: CertificateAuthority, spec: LeafSpec, key: PrivateKey, *, now: dt.datetime, serial: int | None = None
) -> Certificate:
    """Sign a certificate of the control plane. It does not outlive the authority, as kubeadm's may.

    Raises:
        AuthorityError: the authority has ended, or a name cannot be written.
    """
    if now >= authority.certificate.not_after:
        raise AuthorityError(f"the authority has ended at {authority.certificate.not_after}, make a new one first")
    bits = certificate_builder.STRICT_SERIAL_BITS
    template = CertificateTemplate(
        serial=certificate_builder.random_serial(bits) if serial is None else serial,
        subject=Subject(common_name=spec.common_name, organizations=spec.organizations),
        public_key=keys.public_key_of(key),
        not_before=now - BACKDATE,
        not_after=min(now + spec.validity, authority.certificate.not_after),
        usages=resolve((DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, *spec.purposes)),
        alt_names=spec.alt_names,
    )
    try:
        return x509_certificate.parse_der(authority.sign(template))
    except ValueError as error:
        raise AuthorityError(f"a name of {quote(spec.common_name)} cannot be written: {error}") from error


def cross_sign(authority: CertificateAuthority, other: Certificate, *, now: dt.datetime) -> Certificate:
    """A certificate of ``authority`` for the key and the name of another authority. It ends with the first of the two.

    Whoever trusts ``authority`` so trusts what the other one issues, as far as the other one's own certificate lets it
    go: its uses, its path length and its name constraints are repeated.

    Raises:
        AuthorityError: the authority has ended.
    """
    if now >= authority.certificate.not_after:
        raise AuthorityError(f"the authority has ended at {authority.certificate.not_after}, make a new one first")
    template = CertificateTemplate(
        serial=certificate_builder.random_serial(certificate_builder.STRICT_SERIAL_BITS),
        subject=other.subject,
        subject_name=other.subject_name,
        public_key=other.public_key,
        not_before=max(now - BACKDATE, authority.certificate.not_before),
        not_after=min(other.not_after, authority.certificate.not_after),
        usages=CertificateUsages(other.meaning.key_usage, ()) if other.meaning.key_usage else resolve((CERT_SIGN,)),
        is_ca=True,
        max_path_length=other.meaning.max_path_length,
        extra=tuple(each for each in other.extensions if each.oid == NAME_CONSTRAINTS),
        with_subject_key_id=True,
        subject_key_id=other.meaning.subject_key_id,
    )
    return x509_certificate.parse_der(authority.sign(template))
