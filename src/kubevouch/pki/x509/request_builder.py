"""Certificate requests as kubelets make them (Go 1.26 ``x509.CreateCertificateRequest``, client-go ``util/cert``)."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import rsa

from kubevouch.pki.keys import public_key_of
from kubevouch.pki.x509 import der, pem, subject_alt_names
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.signature import Digest, PrivateKey, signing
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import NONE, SubjectAltNames

_EXTENSION_REQUEST = der.encode_object_identifier("1.2.840.113549.1.9.14")
_EMPTY_SEQUENCE = der.encode(der.SEQUENCE)
_ATTRIBUTES = 0xA0


def build_request(
    key: PrivateKey, subject: Subject, alt_names: SubjectAltNames = NONE, extensions: tuple[Extension, ...] = ()
) -> bytes:
    """The PEM for ``spec.request``.

    Without names there is no extension request and no other attribute, as in a kubelet's request.

    Args:
        extensions: to ask for besides the names.

    Raises:
        ValueError: a name that is not ASCII.
        KeyMaterialError: no algorithm signs with such a key.
    """
    name = subject.encode()
    info = der.encode(
        der.SEQUENCE,
        der.encode_integer(0),
        name,
        public_key_of(key).canonical_info,
        der.encode(
            _ATTRIBUTES, _extension_request([*_named(alt_names, critical=name == _EMPTY_SEQUENCE), *extensions])
        ),
    )
    how = signing(key, rsa_digest=_rsa_digest(key))
    signature = der.encode_bit_string(how.sign(info))
    return pem.encode(pem.CERTIFICATE_REQUEST, der.encode(der.SEQUENCE, info, how.identifier, signature))


def _named(alt_names: SubjectAltNames, *, critical: bool) -> list[Extension]:
    return [Extension(subject_alt_names.OID, critical, alt_names.encode())] if alt_names else []


def _extension_request(extensions: list[Extension]) -> bytes:
    if not extensions:
        return b""
    encoded = (
        der.encode(
            der.SEQUENCE,
            der.encode_object_identifier(each.oid),
            b"\x01\x01\xff" if each.critical else b"",
            der.encode(der.OCTET_STRING, each.value),
        )
        for each in extensions
    )
    values = der.encode_set([der.encode(der.SEQUENCE, *encoded)])
    return der.encode(der.SEQUENCE, _EXTENSION_REQUEST, values)


def _rsa_digest(key: PrivateKey) -> Digest:
    """client-go hashes by the size of the modulus: SHA-384 from 3072 bits, SHA-512 from 4096."""
    if not isinstance(key, rsa.RSAPrivateKey) or key.key_size < 3072:
        return Digest.SHA256
    return Digest.SHA384 if key.key_size < 4096 else Digest.SHA512
