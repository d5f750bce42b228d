"""Which certificates have been issued and may be in use: kept in ConfigMaps, long after their requests are cleaned.

Spread over sixteen ConfigMaps by a hash, and over 48 that take what does not fit there: 60 MiB in all. An entry has
some 400 bytes with a name of usual length, at most 1 KiB. A machine has one certificate for each signer, so that a
newer one supersedes it. Of other subjects all are kept, each until it ends.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.config_map_overflow import MAX_BYTES, Layout, cost

PREFIX = "kubevouch-issued-certificates-"
SHARDS = tuple("0123456789abcdef")
LAYOUT = Layout(PREFIX, SHARDS, overflows=48)

TOTALS_ANNOTATION = "ledger.kubevouch.io/bytes"
TOKEN_BUDGET = 16 << 20
"""Bytes of the entries of all machines that one bootstrap token has let in: some 40,000 with names of usual length, and
at least 16,000 whatever their names. A quarter of the ledger: whoever has stolen a token fills no more of it."""
MAX_ENTRY = 1 << 10
"""Bytes of a machine's entry at most: of the 253 of a name, and what does not vary."""
# Whose part is told in an annotation, which has a bound too.
_MAX_TOKENS = 1000
_MAX_SIGNERS = 64


class IssuedCertificate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What has to be known of a certificate to tell whether it is in the way.

    Args:
        common_name: of the subject.
        authority: the issuer's key identifier in hexadecimal digits; empty when the certificate names none.
        public_key: as :func:`key_digest` has it; empty in what was written before it was kept.
        token: the ID of the bootstrap token that has let the machine in, also once the machine has renewed by itself.
    """

    common_name: str
    signer_name: str
    serial: str
    not_before: dt.datetime
    not_after: dt.datetime
    authority: str = ""
    public_key: str = ""
    token: str = ""

    @property
    def machine(self) -> str:
        """The node's name, empty if it is nobody's certificate who is a node."""
        return node_name_of(self.common_name)

    @property
    def key(self) -> str:
        """Under which the ledger has it. It begins with the name of its shard."""
        one = "" if self.machine else self.serial
        return hashlib.sha256(f"{self.signer_name}\0{self.common_name}\0{one}".encode()).hexdigest()[:32]


class Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the entries of a ConfigMap have, in bytes: all, and by the token that has let the machine in.

    Args:
        nodes: by signer, when the first of its newest certificates of nodes ends.
        others: the same of all other subjects, of which also those count that have been renewed.
    """

    bytes: int = 0
    tokens: dict[str, int] = {}
    nodes: dict[str, dt.datetime] = {}
    others: dict[str, dt.datetime] = {}


def entry_of(signer_name: str, leaf: Certificate, token: str = "") -> IssuedCertificate:
    return IssuedCertificate(
        common_name=leaf.subject.common_name,
        signer_name=signer_name,
        serial=f"{leaf.serial:x}",
        not_before=leaf.not_before,
        not_after=leaf.not_after,
        authority=(leaf.meaning.authority_key_id or b"").hex(),
        public_key=key_digest(leaf.public_key),
        token=token,
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


def add(known: dict[str, IssuedCertificate], more: Mapping[str, IssuedCertificate]) -> None:
    """Put ``more`` into ``known``: of each key what began last, and the token that any of both names."""
    for key, entry in more.items():
        known[key] = _newest(known.get(key), entry)


def _newest(former: IssuedCertificate | None, entry: IssuedCertificate) -> IssuedCertificate:
    if former is None:
        return entry
    older, newer = (former, entry) if former.not_before <= entry.not_before else (entry, former)
    # A renewal by the node itself takes nothing from what its token has used.
    return newer if newer.token or not older.token else msgspec.structs.replace(newer, token=older.token)


def merged(
    known: Mapping[str, IssuedCertificate], more: Mapping[str, IssuedCertificate], *, now: dt.datetime
) -> dict[str, IssuedCertificate]:
    """Both, of each key what began last; what has ended is left out."""
    found = dict(known)
    add(found, more)
    return {key: entry for key, entry in found.items() if entry.not_after >= now}


def wanted(
    stored: Mapping[str, Mapping[str, str]], more: Mapping[str, IssuedCertificate], *, now: dt.datetime
) -> dict[str, str]:
    """What has to change, as ``place`` takes it: ``more`` comes, and what has ended in the first ConfigMap goes."""
    first = next(iter(stored.values()))
    known = decode(first)
    changes = {key: "" for key in first if key not in known or known[key].not_after < now}
    for key, entry in more.items():
        found: dict[str, IssuedCertificate] = {}
        for data in stored.values():
            add(found, decode({key: data[key]}) if key in data else {})
        newest = _newest(found.get(key), entry)
        changes[key] = msgspec.json.encode(newest).decode() if newest.not_after >= now else ""
    return changes


def is_recorded(stored: Iterable[Mapping[str, str]], entry: IssuedCertificate) -> bool:
    """Whether the entry, or a newer one of its machine, is in one of the ConfigMaps of its path."""
    found = (entry_in(data, entry.key) for data in stored)
    return any(each is not None and each.not_before >= entry.not_before for each in found)


def totals_annotation(data: Mapping[str, str]) -> dict[str, str]:
    """The annotation of a ConfigMap with these entries, so that nobody has to count them again."""
    tokens: dict[str, int] = {}
    nodes: dict[str, dt.datetime] = {}
    others: dict[str, dt.datetime] = {}
    total = 0
    for key, entry in decode(data).items():
        total += cost(key, data[key])
        ends = nodes if entry.machine else others
        ends[entry.signer_name] = min(entry.not_after, ends.get(entry.signer_name, entry.not_after))
        if entry.token:
            tokens[entry.token] = tokens.get(entry.token, 0) + cost(key, data[key])
    most = sorted(tokens, key=lambda token: -tokens[token])[:_MAX_TOKENS]
    totals = Totals(total, {token: tokens[token] for token in sorted(most)}, _first(nodes), _first(others))
    return {TOTALS_ANNOTATION: msgspec.json.encode(totals).decode()}


def _first(ends: Mapping[str, dt.datetime]) -> dict[str, dt.datetime]:
    """Of so many signers as an annotation has room for, those of which something ends first."""
    return {signer: ends[signer] for signer in sorted(sorted(ends, key=lambda each: ends[each])[:_MAX_SIGNERS])}


def totals_of(annotations: Mapping[str, str]) -> Totals:
    text = annotations.get(TOTALS_ANNOTATION, "")
    return _totals(text) if len(text) <= _REMEMBERED else _totals.__wrapped__(text)


# Of an annotation in full, which somebody else may have written.
_REMEMBERED = 16_384


# Asked about all ConfigMaps for each machine that joins.
@lru_cache(maxsize=256)
def _totals(text: str) -> Totals:
    try:
        return msgspec.json.decode(text or "{}", type=Totals)
    except msgspec.MsgspecError:
        return Totals()


def no_room(totals: Mapping[str, Totals], shard: str, token: str) -> str:
    """Why one more machine that ``token`` lets in is not remembered, as a sentence; empty if it is.

    Args:
        totals: of all ConfigMaps that are there, by name.
    """
    used = sum(each.tokens.get(token, 0) for each in totals.values())
    if used + MAX_ENTRY > TOKEN_BUDGET:
        return (
            f"the machines that the token {token} has let in fill {used} of the {TOKEN_BUDGET} bytes that the ledger "
            "of certificates has for one token; give the machine another token (kubevouch token create)"
        )
    if all(totals.get(name, Totals()).bytes + MAX_ENTRY > MAX_BYTES for name in LAYOUT.path(shard)):
        return (
            "the ledger of certificates is full, which remembers whose the names are: a place becomes free when a "
            "certificate ends"
        )
    return ""
