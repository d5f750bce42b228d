"""Whether a certificate that a device brings from its factory leads to a root that is trusted for devices.

``client_certificate.py`` asks the same of a TLS client in Go's words and order; here each rule of RFC 5280 section 6
has a name of its own, because whoever runs a fleet has to know which of them a whole batch of devices breaks. The way
up is found by names and signatures alone, and then judged, so that what breaks a rule is not called unknown.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from kubevouch.pki import name_constraints
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import DeviceChainError, ParseError, SignatureError
from kubevouch.pki.x509 import certificate_extensions, signature, x509_certificate
from kubevouch.pki.x509.public_key import KeyKind, PublicKey
from kubevouch.pki.x509.usages import ANY_OID, CLIENT_AUTH_OID
from kubevouch.pki.x509.x509_certificate import Certificate

MAX_CERTIFICATES = 5
"""The device's own and four above it; real chains have two or three."""
MAX_BYTES = 8 << 10
"""Of one certificate. Those of 802.1AR have less than two KiB."""

_MAX_SIGNATURE_CHECKS = 20
"""Of one chain: with five certificates an honest one needs four."""
_RSA_BITS = range(2048, 8192 + 1)
"""NIST SP 800-131A below; above, one signature would cost the server more than the device."""
_CURVE_BITS = range(256, 521 + 1)
_DIGITAL_SIGNATURE, _CERT_SIGN = 0, 5
_POLICY_EXTENSIONS = frozenset({certificate_extensions.POLICY_CONSTRAINTS, certificate_extensions.INHIBIT_ANY_POLICY})


def verify_device_chain(
    presented: Sequence[bytes], anchors: TrustAnchors, *, now: dt.datetime
) -> tuple[Certificate, ...]:
    """The way from the device's certificate to a trust anchor, both included.

    Args:
        presented: the certificates in DER, the device's own first.

    Raises:
        DeviceChainError: there is no such way; ``step`` names the rule, in the order of this list: ``size``,
            ``structure``, ``ca``, ``key-usage``, ``chain``, and then, for each certificate of the way from the device
            up, ``critical-extension``, ``validity``, ``key-size``, ``ca``, ``key-usage``, ``path-length``, ``eku``,
            ``policy-constraints``; at last ``name-constraints``. Where several ways lead to a root, one that breaks no
            rule is enough.
    """
    leaf, *others = _parsed(presented)
    _verify_device(leaf)
    return verify_way(leaf, others, anchors, now=now, usage=CLIENT_AUTH_OID)


def verify_way(
    leaf: Certificate,
    others: Sequence[Certificate],
    anchors: TrustAnchors,
    *,
    now: dt.datetime,
    usage: str,
    understood: frozenset[str] = frozenset(),
) -> tuple[Certificate, ...]:
    """As :func:`verify_device_chain` from ``chain`` on, for a certificate whose own rules the caller looks at.

    Args:
        usage: what every certificate of the way has to be for, if it says so at all.
        understood: critical extensions of the leaf that the caller reads himself.

    Raises:
        DeviceChainError
    """
    search = _Search(others, anchors)
    first: DeviceChainError | None = None
    for chain in search.chains((leaf,)):
        try:
            _verify_chain(chain, now, usage, understood)
        except DeviceChainError as err:
            first = first or err
        else:
            return chain
    raise first or DeviceChainError("chain", search.why)


def _parsed(presented: Sequence[bytes]) -> list[Certificate]:
    if not 0 < len(presented) <= MAX_CERTIFICATES:
        raise DeviceChainError("size", f"got {len(presented)} certificates, expected 1 to {MAX_CERTIFICATES}")
    longest = max(map(len, presented))
    if longest > MAX_BYTES:
        raise DeviceChainError("size", f"got a certificate of {longest} bytes, expected at most {MAX_BYTES}")
    try:
        read = [x509_certificate.parse_draft(each) for each in presented]
    except ParseError as err:
        raise DeviceChainError("structure", str(err)) from err
    if any(each.contents != contents for each, contents in zip(read, presented, strict=True)):
        raise DeviceChainError("structure", "x509: trailing data")
    return read


def _verify_device(leaf: Certificate) -> None:
    """The device's own: a key that signs, and no authority, which could make itself as many devices as it likes."""
    if leaf.meaning.has_basic_constraints and leaf.meaning.is_ca:
        raise DeviceChainError("ca", f"{_name(leaf)} is a CA, expected the certificate of a device")
    if _DIGITAL_SIGNATURE not in leaf.meaning.key_usage:
        raise DeviceChainError("key-usage", f"{_name(leaf)} has no key usage digitalSignature")


class _Search:
    """Depth-first over every way to an anchor by names and signatures, as long as there are checks left."""

    def __init__(self, others: Sequence[Certificate], anchors: TrustAnchors) -> None:
        self._others = others
        self._anchors = anchors
        self._left = _MAX_SIGNATURE_CHECKS
        self.why = ""

    def chains(self, chain: tuple[Certificate, ...]) -> Iterator[tuple[Certificate, ...]]:
        child = chain[-1]
        for anchor in self._anchors.named(child.issuer_name):
            if self._signed(child, anchor):
                yield (*chain, anchor)
        for parent in self._others:
            # The same key twice in one way goes round in a circle, whatever else its certificates say.
            if parent.subject_name != child.issuer_name or any(
                parent.public_key.info == seen.public_key.info for seen in chain
            ):
                continue
            if self._signed(child, parent):
                yield from self.chains((*chain, parent))
        self.why = self.why or f"no certificate of {_issuer(child)}, which issued {_name(child)}, is known or trusted"

    def _signed(self, child: Certificate, parent: Certificate) -> bool:
        if not self._left:
            raise DeviceChainError("chain", f"more than {_MAX_SIGNATURE_CHECKS} signatures would have to be checked")
        self._left -= 1
        try:
            signature.verify(child.signature_algorithm, parent.public_key, child.signed, child.signature)
        except SignatureError as err:
            self.why = f"{_name(child)} is not signed by the {_name(parent)} that is known here: {err}"
            return False
        return True


def _verify_chain(chain: tuple[Certificate, ...], now: dt.datetime, usage: str, understood: frozenset[str]) -> None:
    for below, certificate in enumerate(chain):
        strange = set(certificate.meaning.unhandled_critical) - (understood if below == 0 else frozenset())
        if strange:
            raise DeviceChainError("critical-extension", f"{_name(certificate)} has {min(strange)}, which is not known")
        _verify_link(certificate, below - 1, now)
        usages = certificate.meaning.extended_key_usages
        if usages and usage not in usages and ANY_OID not in usages:
            raise DeviceChainError(
                "eku", f"{_name(certificate)} has extended key usages, and {usage} is not among them"
            )
        if below and any(each.oid in _POLICY_EXTENSIONS for each in certificate.extensions):
            raise DeviceChainError(
                "policy-constraints", f"{_name(certificate)} has policy constraints, which are not evaluated"
            )
    broken = name_constraints.violation(chain)
    if broken:
        raise DeviceChainError("name-constraints", broken)


def _verify_link(certificate: Certificate, intermediates: int, now: dt.datetime) -> None:
    """One certificate, with so many between it and the device; -1 is the device's own."""
    meaning, name = certificate.meaning, _name(certificate)
    if not certificate.not_before <= now <= certificate.not_after:
        spans = f"{certificate.not_before:%Y-%m-%dT%H:%M:%SZ} to {certificate.not_after:%Y-%m-%dT%H:%M:%SZ}"
        raise DeviceChainError("validity", f"{name} is valid from {spans}, and it is {now:%Y-%m-%dT%H:%M:%SZ}")
    verify_size(certificate.public_key, name)
    if intermediates >= 0:
        if not (meaning.has_basic_constraints and meaning.is_ca):
            raise DeviceChainError("ca", f"{name} is no CA and has issued a certificate")
        if meaning.key_usage and _CERT_SIGN not in meaning.key_usage:
            raise DeviceChainError("key-usage", f"{name} has no key usage keyCertSign and has issued a certificate")
        if meaning.max_path_length is not None and intermediates > meaning.max_path_length:
            raise DeviceChainError(
                "path-length", f"{name} allows {meaning.max_path_length} CAs below it, got {intermediates}"
            )


def verify_size(key: PublicKey, name: str) -> None:
    """Raises :class:`~kubevouch.pki.errors.DeviceChainError`: ``key-size``, too short, too long, or of another kind."""
    sizes = {KeyKind.RSA: _RSA_BITS, KeyKind.ECDSA: _CURVE_BITS}.get(key.kind)
    if key.kind is not KeyKind.ED25519 and (sizes is None or key.bits not in sizes):
        expected = "RSA of 2048 to 8192 bits or P-256 and up"
        raise DeviceChainError("key-size", f"{name} has a key {key.name}, expected {expected}")


def _name(certificate: Certificate) -> str:
    subject = certificate.subject
    return repr((subject.common_name or next(iter(subject.organizations), f"serial {certificate.serial:x}"))[:64])


def _issuer(certificate: Certificate) -> str:
    return repr((certificate.issuer.common_name or next(iter(certificate.issuer.organizations), ""))[:64])
