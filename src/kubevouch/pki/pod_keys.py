"""The keys of pods: which they may have, and what shows that the requester holds one.

Both sides ask: the server before it stores a request, and the signer once more before it signs.

Source: pkg/apis/certificates/validation (Kubernetes 1.36); the texts are those of kube-apiserver 1.36.2.
"""

from __future__ import annotations

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding

from kubevouch.machinery import field
from kubevouch.machinery.field import OMITTED, FieldError
from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError, ParseError, PKIError, SignatureError
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.public_key import KeyKind, PublicKey
from kubevouch.pki.x509.signature import Digest, SignatureAlgorithm
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import NONE
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest

MAX_KEY_BYTES = 10 << 10
"""Of each of a request's ``stubPKCS10Request``, ``pkixPublicKey`` and ``proofOfPossession``."""
_CURVES = (256, 384, 521)
_MODULUS_BITS = (3072, 4096)
_STUB, _PUBLIC_KEY, _PROOF = "spec.stubPKCS10Request", "spec.pkixPublicKey", "spec.proofOfPossession"
_UNPROVEN = "could not verify proof-of-possession signature"
# Go parses these and then knows nothing to do with them: X25519 (RFC 8410) and DSA.
_OID_X25519 = bytes.fromhex("06032b656e")


class PodKeyError(PKIError):
    """A request whose key is none that pods may have, or that nobody has shown to hold."""

    def __init__(self, fault: FieldError) -> None:
        super().__init__(str(fault))
        self.fault = fault


class PodKeySource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request has its key: in a PKCS #10 request in DER, or, until 1.36, as the key and a signature by it.

    ``pod_uid`` is what the signature is over.
    """

    stub_request: bytes = b""
    public_key: bytes = b""
    proof: bytes = b""
    pod_uid: str = ""


def verify_possession(source: PodKeySource) -> PublicKey:
    """The key, once whoever made the request has shown to hold it.

    Raises:
        PodKeyError: what is wrong, and with which field.
    """
    for path, contents in ((_PUBLIC_KEY, source.public_key), (_PROOF, source.proof), (_STUB, source.stub_request)):
        if len(contents) > MAX_KEY_BYTES:
            raise PodKeyError(field.too_long(path, MAX_KEY_BYTES))
    given = (bool(source.stub_request), bool(source.public_key), bool(source.proof))
    if given == (True, False, False):
        return _key_of_request(source.stub_request)
    if given == (False, True, True):
        return _proven_key(source)
    why = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
    raise PodKeyError(field.invalid("spec", OMITTED, why))


def _key_of_request(contents: bytes) -> PublicKey:
    """Nothing else in it counts: a subject, names and attributes pass unread."""
    try:
        request = x509_request.parse_der(contents)
    except ParseError as err:
        raise PodKeyError(field.invalid(_STUB, OMITTED, "must be a valid PKCS#10 CSR")) from err
    try:
        x509_request.verify_signature(request)
    except SignatureError as err:
        raise PodKeyError(field.invalid(_STUB, OMITTED, "invalid signature")) from err
    _check_strength(request.public_key, _STUB, b"", "P256, P384, or P521")
    return request.public_key


def _proven_key(source: PodKeySource) -> PublicKey:
    try:
        key = keys.load_public_key(source.public_key)
    except ParseError as err:
        raise _no_key(source.public_key) from err
    if key.kind in (KeyKind.UNKNOWN, KeyKind.ML_DSA) and _OID_X25519 not in source.public_key[:12]:
        raise _no_key(source.public_key)
    # It says less than what passes: P-521 does, in Kubernetes too.
    _check_strength(key, _PUBLIC_KEY, source.public_key, "P256 or P384")
    try:
        _verify_proof(key, source.pod_uid.encode(errors="surrogatepass"), source.proof)
    except (InvalidSignature, KeyMaterialError, UnsupportedAlgorithm, ValueError) as err:
        raise PodKeyError(field.invalid(_PROOF, OMITTED, _UNPROVEN)) from err
    return key


def _no_key(contents: bytes) -> PodKeyError:
    return PodKeyError(field.invalid(_PUBLIC_KEY, contents, "must be a valid PKIX-serialized public key"))


def _check_strength(key: PublicKey, path: str, shown: bytes, curves: str) -> None:
    if key.kind is KeyKind.ED25519:
        return
    if key.kind is KeyKind.ECDSA:
        if key.bits not in _CURVES:
            why = f"elliptic public keys must use curve {curves}"
            raise PodKeyError(field.invalid(path, f"curve P-{key.bits}", why))
        return
    if key.kind is KeyKind.RSA:
        size = (key.bits + 7) // 8 * 8
        if size not in _MODULUS_BITS:
            why = "RSA keys must have modulus size 3072 or 4096"
            raise PodKeyError(field.invalid(path, f"{size}-bit modulus", why))
        return
    why = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
    raise PodKeyError(field.invalid(path, shown, why))


def _verify_proof(key: PublicKey, message: bytes, proof: bytes) -> None:
    """Raises what ``cryptography`` raises. SHA-256, whatever the curve or the modulus."""
    loaded = key.key()
    if key.kind is KeyKind.ED25519:
        loaded.verify(proof, message)
    elif key.kind is KeyKind.ECDSA:
        loaded.verify(proof, message, ec.ECDSA(hashes.SHA256()))
    else:
        digest = hashes.SHA256()
        loaded.verify(proof, message, padding.PSS(padding.MGF1(digest), padding.PSS.AUTO), digest)


def is_for(leaf: Certificate, source: PodKeySource) -> bool:
    """Whether the certificate is for the key of the request, which was verified when it was made."""
    try:
        if source.stub_request:
            wanted = x509_request.parse_der(source.stub_request).public_key
        else:
            wanted = keys.load_public_key(source.public_key)
    except ParseError:
        return False
    return leaf.public_key.canonical_info == wanted.canonical_info


def as_request(source: PodKeySource) -> CertificateRequest:
    """The proof of possession in the form in which signers take it and verify it once more. The key alone counts.

    Until 1.36 the proof may be a signature over the pod's UID instead. Signers take it where they know the algorithm;
    of RSA they know only one length of the salt.

    Raises:
        PodKeyError: as :func:`verify_possession`.
    """
    key = verify_possession(source)
    if source.stub_request:
        return x509_request.parse_der(source.stub_request)
    kind = {KeyKind.ED25519: "Ed25519", KeyKind.ECDSA: "ECDSA-SHA256"}.get(key.kind, "SHA256-RSAPSS")
    digest = Digest.NONE if key.kind is KeyKind.ED25519 else Digest.SHA256
    return CertificateRequest(
        subject=Subject(),
        alt_names=NONE,
        public_key=key,
        extensions=(),
        version=0,
        signature_algorithm=SignatureAlgorithm(kind, key.kind, digest, pss=key.kind is KeyKind.RSA),
        signature=source.proof,
        signed=source.pod_uid.encode(errors="surrogatepass"),
        contents=source.public_key + source.proof,
    )
