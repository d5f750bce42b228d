"""Kubernetes' key usages and what they become in a certificate (1.36, ``pkg/controller/certificates/authority``).

The set is closed: the API server refuses any other string, the signer does too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import UsageError
from kubevouch.pki.x509 import der

DIGITAL_SIGNATURE = "digital signature"
KEY_ENCIPHERMENT = "key encipherment"
CERT_SIGN = "cert sign"
CRL_SIGN = "crl sign"
CLIENT_AUTH = "client auth"
SERVER_AUTH = "server auth"

KEY_USAGE_BITS: dict[str, int] = {
    "signing": 0,
    DIGITAL_SIGNATURE: 0,
    "content commitment": 1,
    KEY_ENCIPHERMENT: 2,
    "data encipherment": 3,
    "key agreement": 4,
    CERT_SIGN: 5,
    CRL_SIGN: 6,
    "encipher only": 7,
    "decipher only": 8,
}
"""Usages that set a bit of the keyUsage extension (RFC 5280 section 4.2.1.3)."""

EXTENDED_KEY_USAGES: dict[str, str] = {
    "any": "2.5.29.37.0",
    SERVER_AUTH: "1.3.6.1.5.5.7.3.1",
    CLIENT_AUTH: "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}
"""Usages that become an extended key usage. The order is that of Go's constants, by which the signer sorts."""

ALL: tuple[str, ...] = tuple(sorted({*KEY_USAGE_BITS, *EXTENDED_KEY_USAGES}))
"""The closed set, in the order in which the API server lists it."""

ANY_OID = EXTENDED_KEY_USAGES["any"]
CLIENT_AUTH_OID = EXTENDED_KEY_USAGES[CLIENT_AUTH]
SERVER_AUTH_OID = EXTENDED_KEY_USAGES[SERVER_AUTH]
_OID_RANK = {oid: rank for rank, oid in enumerate(dict.fromkeys(EXTENDED_KEY_USAGES.values()))}
_ENCODED_OID = {oid: der.encode_object_identifier(oid) for oid in _OID_RANK}


class CertificateUsages(msgspec.Struct, frozen=True):
    """Bits of the keyUsage extension, and identifiers of extendedKeyUsage in the order of the certificate."""

    key_usage: frozenset[int]
    extended: tuple[str, ...]

    def encode_extended(self) -> bytes:
        """The value of the extendedKeyUsage extension."""
        return der.encode(der.SEQUENCE, *(_ENCODED_OID[oid] for oid in self.extended))


def resolve(usages: Iterable[str]) -> CertificateUsages:
    """What the usages mean in a certificate; repetitions and order do not matter.

    Raises:
        UsageError: strings outside the set, all of them named.
    """
    bits: set[int] = set()
    extended: set[str] = set()
    unknown = []
    for usage in usages:
        if usage in KEY_USAGE_BITS:
            bits.add(KEY_USAGE_BITS[usage])
        elif usage in EXTENDED_KEY_USAGES:
            extended.add(EXTENDED_KEY_USAGES[usage])
        else:
            unknown.append(quote(usage))
    if unknown:
        raise UsageError(f"unrecognized usage values: [{' '.join(unknown)}]")
    return CertificateUsages(frozenset(bits), tuple(sorted(extended, key=_OID_RANK.__getitem__)))


def identifies_clients(usages: Iterable[str]) -> bool:
    """Whether servers take a certificate with these usages for a client's.

    They do so for ``any``, and without an extended usage, which is for every purpose (RFC 5280 section 4.2.1.12).
    """
    extended = {EXTENDED_KEY_USAGES[each] for each in usages if each in EXTENDED_KEY_USAGES}
    return not extended or not extended.isdisjoint((ANY_OID, CLIENT_AUTH_OID))


def usages_for_key(purpose: str, *, rsa: bool, manager_order: bool = True) -> tuple[str, ...]:
    """The usages a kubelet asks for (Kubernetes 1.27 and later): key encipherment only with an RSA key.

    Args:
        purpose: ``client auth`` or ``server auth``.
        rsa: the key is an RSA key.
        manager_order: the rotating manager's order; the blocking bootstrap puts key encipherment last, and hashes the
            usages into the CSR's name in that order.
    """
    if not rsa:
        return (DIGITAL_SIGNATURE, purpose)
    if manager_order:
        return (DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, purpose)
    return (DIGITAL_SIGNATURE, purpose, KEY_ENCIPHERMENT)
