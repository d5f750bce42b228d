"""Certificates and requests that are well signed and oddly made: empty, repeated, nested and misplaced parts.

Each is signed with the key it is given, so that a reader comes as far as an honest one would let it.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator

from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.keys import public_key_of
from kubevouch.pki.x509 import asn1_time, certificate_extensions, der
from kubevouch.pki.x509.signature import PrivateKey, signing
from kubevouch.pki.x509.subject import USER_UID, Subject

NODE = Subject(common_name="system:node:worker-1", organizations=("system:nodes",))
OIDS = (
    certificate_extensions.SUBJECT_KEY_ID, certificate_extensions.KEY_USAGE, certificate_extensions.SUBJECT_ALT_NAME,
    certificate_extensions.BASIC_CONSTRAINTS, certificate_extensions.NAME_CONSTRAINTS,
    certificate_extensions.DISTRIBUTION_POINTS, certificate_extensions.POLICIES,
    certificate_extensions.POLICY_MAPPINGS, certificate_extensions.AUTHORITY_KEY_ID,
    certificate_extensions.POLICY_CONSTRAINTS, certificate_extensions.EXTENDED_KEY_USAGE,
    certificate_extensions.INHIBIT_ANY_POLICY, certificate_extensions.AUTHORITY_INFO_ACCESS,
    "2.5.29.18", "2.5.29.46", "1.2.3.4",
)  # fmt: skip
# In place of any value.
ODD = {
    "nothing": b"",
    "an empty sequence": b"\x30\x00",
    "an empty set": b"\x31\x00",
    "null": b"\x05\x00",
    "no octets": b"\x04\x00",
    "no bits": b"\x03\x00",
    "unused bits of nothing": b"\x03\x01\x07",
    "a sequence of nothing": b"\x30\x02\x30\x00",
    "nothing in many": b"\x30\x0a" + b"\x30\x00" * 5,
    "a deep sequence": b"".join(bytes([0x30, 2 * depth]) for depth in range(60, -1, -1)),
    "an indefinite length": b"\x30\x80\x00\x00",
    "a length that lies": b"\x30\x05\x02\x01",
    "a length of a gigabyte": b"\x30\x84\x40\x00\x00\x00",
    "an empty integer": b"\x30\x02\x02\x00",
    "a negative integer": b"\x30\x03\x02\x01\xff",
    "a large integer": b"\x30\x22\x02\x20" + b"\x7f" * 32,
    "an empty identifier": b"\x30\x02\x06\x00",
    "an identifier that breaks off": b"\x30\x03\x06\x01\x80",
    "an odd boolean": b"\x30\x03\x01\x01\x01",
    "empty context tags": b"\x30\x06\x80\x00\x81\x00\xa0\x00",
    "a high tag": b"\x30\x04\x1f\x81\x01\x00",
    "trailing octets": b"\x30\x00\x00\x00",
    "an empty name": b"\x30\x02\x82\x00",
    "a name with nul": b"\x30\x05\x82\x03a\x00b",
    "an address of three octets": b"\x30\x05\x87\x03\x01\x02\x03",
    "no address": b"\x30\x02\x87\x00",
    "a uri of nothing": b"\x30\x02\x86\x00",
}
NAMES = {
    "no part": b"",
    "an empty set": b"\x31\x00",
    "an empty attribute": b"\x31\x02\x30\x00",
    "a type without value": b"\x31\x07\x30\x05\x06\x03\x55\x04\x03",
    "an empty value": b"\x31\x09\x30\x07\x06\x03\x55\x04\x03\x0c\x00",
    "a sequence for a value": b"\x31\x09\x30\x07\x06\x03\x55\x04\x03\x30\x00",
    "an odd bmp string": b"\x31\x0a\x30\x08\x06\x03\x55\x04\x03\x1e\x01a",
    "no utf-8": b"\x31\x0a\x30\x08\x06\x03\x55\x04\x03\x0c\x01\xff",
    "an empty uid": der.encode(0x31, der.encode(0x30, der.encode_object_identifier(USER_UID), b"\x0c\x00")),
}


def extension(oid: str, value: bytes, *, critical: bool = False) -> bytes:
    flag = b"\x01\x01\xff" if critical else b""
    return der.encode(der.SEQUENCE, der.encode_object_identifier(oid), flag, der.encode(der.OCTET_STRING, value))


def certificate(
    authority: CertificateAuthority,
    key: PrivateKey,
    *extensions: bytes,
    now: dt.datetime,
    name: bytes = NODE.encode(),
    serial: bytes = b"\x02\x01\x05",
) -> bytes:
    """A client's certificate with these extensions and no others."""
    how = signing(authority.key)
    validity = asn1_time.encode(now - dt.timedelta(hours=1)), asn1_time.encode(now + dt.timedelta(hours=1))
    signed = der.encode(
        der.SEQUENCE, b"\xa0\x03\x02\x01\x02", serial, how.identifier, authority.certificate.subject_name,
        der.encode(der.SEQUENCE, *validity), name, public_key_of(key).canonical_info,
        der.encode(0xA3, der.encode(der.SEQUENCE, *extensions)),
    )  # fmt: skip
    return der.encode(der.SEQUENCE, signed, how.identifier, der.encode_bit_string(how.sign(signed)))


def request(key: PrivateKey, *extensions: bytes, name: bytes = NODE.encode(), attributes: bytes | None = None) -> bytes:
    """A PKCS #10 request that asks for these extensions."""
    if attributes is None:
        wanted = der.encode(der.SEQUENCE, *extensions)
        identifier = der.encode_object_identifier("1.2.840.113549.1.9.14")
        attributes = der.encode(der.SEQUENCE, identifier, der.encode(der.SET, wanted))
    how = signing(key)
    info = der.encode(
        der.SEQUENCE, der.encode_integer(0), name, public_key_of(key).canonical_info, der.encode(0xA0, attributes)
    )
    return der.encode(der.SEQUENCE, info, how.identifier, der.encode_bit_string(how.sign(info)))


def odd_extensions() -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """What is odd, and the extensions."""
    client = extension(certificate_extensions.EXTENDED_KEY_USAGE, bytes.fromhex("300a06082b06010505070302"))
    for oid, (what, value) in itertools.product(OIDS, ODD.items()):
        for critical in (False, True):
            rest = () if oid == certificate_extensions.EXTENDED_KEY_USAGE else (client,)
            yield (
                f"{what} in {oid}{', critical' if critical else ''}",
                (
                    *rest,
                    extension(oid, value, critical=critical),
                ),
            )
    for oid in OIDS:
        yield f"{oid} twice", (client, extension(oid, b"\x30\x00"), extension(oid, b"\x30\x00"))
    yield "usages twice", (client, client)
    yield "no extension at all", ()
    yield "an empty extension", (b"\x30\x00",)
    yield "an extension without a value", (der.encode(0x30, der.encode_object_identifier("2.5.29.37")),)


def odd_names() -> Iterator[tuple[str, bytes]]:
    for what, inside in NAMES.items():
        yield what, der.encode(der.SEQUENCE, inside)
        yield f"{what}, and a good one", der.encode(der.SEQUENCE, inside, NODE.encode()[2:])
    yield "a set", b"\x31\x00"
