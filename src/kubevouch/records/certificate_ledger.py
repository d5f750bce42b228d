"""Which certificates have been issued and may be in use: kept in ConfigMaps, long after their requests are cleaned.

Spread over sixteen ConfigMaps by a hash, an entry of some 300 bytes for each: room for 50,000 certificates.
A machine has one certificate for each signer, so that a newer one supersedes it. Of other subjects all are kept, each
until it ends.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping

import msgspec

from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.x509_certificate import Certificate

PREFIX = "kubevouch-issued-certificates-"
SHARDS = tuple("0123456789abcdef")


class IssuedCertificate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What has to be known of a certificate to tell whether it is in the way.

    Args:
        common_name: of the subject.
        authority: the issuer's key identifier in hexadecimal digits; empty when the certificate names none.
        public_key: as :func:`key_digest` has it; empty in what was written before it was kept.
    """

    common_name: str
    signer_name: str
    serial: str
    not_before: dt.datetime
    not_after: dt.datetime
    authority: str = ""
    public_key: str = ""

    @property
    def machine(self) -> str:
        """The node's name, empty if it is nobody's certificate who is a node."""
        return node_name_of(self.common_name)

    @property
    def key(self) -> str:
        """Under which the ledger has it. It begins with the name of its shard."""
        one = "" if self.machine else self.serial
        return hashlib.sha256(f"{self.signer_name}\0{self.common_name}\0{one}".encode()).hexdigest()[:32]


def entry_of(signer_name: str, leaf: Certificate) -> IssuedCertificate:
    return IssuedCertificate(
        common_name=leaf.subject.common_name,
        signer_name=signer_name,
        serial=f"{leaf.serial:x}",
        not_before=leaf.not_before,
        not_after=leaf.not_after,
        authority=(leaf.meaning.authority_key_id or b"").hex(),
        public_key=key_digest(leaf.public_key),
    )


def key_digest(key: PublicKey) -> str:
    """The first half of a key's SHA-256, in hexadecimal: 128 bits tell keys apart, and 50,000 of them have to fit."""
    return key.fingerprint().hex()[:32]


def machine_key(signer_name: str, user_name: str) -> str:
    """The key of a node's entry, so that it is found without reading the others."""
    moment = dt.datetime.min.replace(tzinfo=dt.UTC)
    return IssuedCertificate(
        common_name=user_name, signer_name=signer_name, serial="", not_before=moment, not_after=moment
    ).key


def entry_in(stored: Mapping[str, str], key: str) -> IssuedCertificate | None:
    """One entry of a ConfigMap's data."""
    return decode({key: stored[key]}).get(key) if key in stored else None


def decode(stored: Mapping[str, str]) -> dict[str, IssuedCertificate]:
    """The entries of one ConfigMap's data. What cannot be read is left out: it was not written by us."""
    found = {}
    for key, text in stored.items():
        try:
            found[key] = msgspec.json.decode(text, type=IssuedCertificate)
        except msgspec.MsgspecError:
            continue
    return found


def encode(entries: Mapping[str, IssuedCertificate]) -> dict[str, str]:
    return {key: msgspec.json.encode(entries[key]).decode() for key in sorted(entries)}


def merged(
    known: Mapping[str, IssuedCertificate], more: Mapping[str, IssuedCertificate], *, now: dt.datetime
) -> dict[str, IssuedCertificate]:
    """Both, of each key what began last; what has ended is left out."""
    found = dict(known)
    for key, entry in more.items():
        if key not in found or found[key].not_before <= entry.not_before:
            found[key] = entry
    return {key: entry for key, entry in found.items() if entry.not_after >= now}
