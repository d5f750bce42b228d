"""CertificateRevocation: certificates that count no more although they have not ended, why, and since when.

Reasons are those of RFC 5280 section 5.3.1; ``removeFromCRL`` is none of them: it is said of a hold that was lifted.
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.meta_v1 import Condition
from kubevouch.machinery.declaration import Int32, Int64, Struct, always, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time

HOLD = "certificateHold"
"""The one reason that can be taken back."""
REASONS = (
    "unspecified", "keyCompromise", "cACompromise", "affiliationChanged", "superseded", "cessationOfOperation",
    HOLD, "privilegeWithdrawn", "aACompromise",
)  # fmt: skip

IN_FORCE = "InForce"
CERTIFICATES_FOUND = "CertificatesFound"
"""Condition: certificates are known that it reaches; the message says from where, or where nothing was found."""
ENDED = "Ended"
"""Condition: no certificate can be left that it is about."""

MAX_NUMBERS = 4_000
"""Serial numbers of one issuer, fingerprints, or keys, in one object: some 300 KiB. An API server of ours takes objects
of 20,000 elements, and the status has as many again: it lists what was named, whole."""
MAX_ISSUERS = 16
MAX_NAMES = 1_000
MAX_PERIODS = 16

_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$", "maxLength": 64}
_KEY_ID = {"pattern": "^([0-9a-f]{2}){1,64}$", "maxLength": 128}
# RFC 5280 section 4.1.2.2: at most 20 octets; without zeros in front, so that one number has one text.
_SERIAL = {"type": "string", "pattern": "^(0|[1-9a-f][0-9a-f]{0,39})$", "maxLength": 40}


class IssuedNumbers(Struct):
    """Serial numbers of one issuer. Another issuer's certificates of the same numbers are others."""

    issuer: Annotated[
        str,
        wire(1, "The subject key identifier of the issuer's certificate, in hexadecimal digits.", required=True,
             schema=_KEY_ID),
    ] = always(str)  # fmt: skip
    numbers: Annotated[
        list[str],
        wire(2, "Serial numbers, in hexadecimal digits without zeros in front.", required=True,
             schema={"minItems": 1, "maxItems": MAX_NUMBERS, "items": _SERIAL}),
    ] = always(list[str])  # fmt: skip


class IssuedPeriod(Struct):
    """What an issuer has issued between two moments, both included."""

    issuer: Annotated[
        str,
        wire(1, "The subject key identifier of the issuer's certificate, in hexadecimal digits; empty for any.",
             schema={"pattern": "^([0-9a-f]{2}){0,64}$", "maxLength": 128}),
    ] = ""  # fmt: skip
    since: Annotated[Time | None, wire(2, "The first moment.", required=True)] = None
    until: Annotated[Time | None, wire(3, "The last moment.", required=True)] = None


class RevocationTargets(Struct):
    """Which certificates are meant: those that any of these names."""

    serials: Annotated[
        list[IssuedNumbers],
        wire(1, "Certificates by issuer and serial number.", list_type="map", map_keys=("issuer",),
             schema={"maxItems": MAX_ISSUERS}),
    ] = []  # fmt: skip
    certificates: Annotated[
        list[str],
        wire(2, "Certificates by SHA-256 of their DER, in hexadecimal digits.",
             schema={"maxItems": MAX_NUMBERS, "items": _DIGEST}),
    ] = []  # fmt: skip
    keys: Annotated[
        list[str],
        wire(3, "Every certificate of these keys, now and later: SHA-256 of the SubjectPublicKeyInfo, in hexadecimal "
             "digits.", schema={"maxItems": MAX_NUMBERS, "items": _DIGEST}),
    ] = []  # fmt: skip
    users: Annotated[
        list[str],
        wire(4, "Certificates of these common names that were issued until issuedUntil.",
             schema={"maxItems": MAX_NAMES, "items": {"type": "string", "minLength": 1, "maxLength": 1024}}),
    ] = []  # fmt: skip
    nodes: Annotated[
        list[str],
        wire(5, "Certificates of these nodes, and tokens that are bound to them, that were issued until issuedUntil.",
             schema={"maxItems": MAX_NAMES,
                     "items": {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}}),
    ] = []  # fmt: skip
    requesters: Annotated[
        list[str],
        wire(6, "Certificates that these users asked for until issuedUntil; found in the ledger.",
             schema={"maxItems": MAX_NAMES, "items": {"type": "string", "minLength": 1, "maxLength": 1024}}),
    ] = []  # fmt: skip
    tokens: Annotated[
        list[str],
        wire(7, "Certificates of machines that the bootstrap tokens of these IDs have let in until issuedUntil; found "
             "in the ledger.",
             schema={"maxItems": MAX_NAMES,
                     "items": {"type": "string", "maxLength": 6, "pattern": "^[a-z0-9]{6}$"}}),
    ] = []  # fmt: skip
    periods: Annotated[
        list[IssuedPeriod],
        wire(8, "Everything that was issued in these periods.", schema={"maxItems": MAX_PERIODS}),
    ] = []
    issued_until: Annotated[
        Time | None,
        wire(9, "Until when what users, nodes, requesters and tokens name was issued; the moment of the object's "
             "creation if it is left out."),
    ] = None  # fmt: skip


_LISTS = ("serials", "certificates", "keys", "users", "nodes", "requesters", "tokens", "periods")
_SOMETHING = {
    "rule": " || ".join(f"(has(self.{name}) && size(self.{name}) > 0)" for name in _LISTS),
    "message": f"must name something: {', '.join(_LISTS[:-1])} or {_LISTS[-1]}",
}
_FIXED = {
    "rule": "self == oldSelf",
    "message": "a revocation is not made weaker: make another object for what else is revoked",
}
# Of the whole spec: a rule of the field itself is not asked about an object that lacks it.
_BY = {
    "rule": "!has(oldSelf.requestedBy) || (has(self.requestedBy) && self.requestedBy == oldSelf.requestedBy)",
    "message": "who has revoked them does not change",
}
# Of what CRLs and OCSP tell: GeneralizedTime has four digits for a year; there were no CRLs before.
_SINCE = {"rule": "self >= timestamp('1970-01-01T00:00:00Z')", "message": "must not be before 1970"}
_REASON = {
    "rule": f"self == oldSelf || oldSelf == '{HOLD}'",
    "message": f"only {HOLD} may become another reason",
}


class CertificateRevocationSpec(Struct):
    """What is revoked and why. Its targets never change."""

    revoked: Annotated[
        RevocationTargets,
        wire(1, "Which certificates.", required=True, schema={"x-kubernetes-validations": [_SOMETHING, _FIXED]}),
    ] = always(RevocationTargets)
    reason: Annotated[
        str,
        wire(2, f"Why, as RFC 5280 section 5.3.1 has it. Only {HOLD} can be lifted, by deleting the object.",
             required=True, enum=REASONS, schema={"x-kubernetes-validations": [_REASON]}),
    ] = always(str)  # fmt: skip
    message: Annotated[str, wire(3, "Why, for people.", schema={"maxLength": 1024})] = ""
    revoked_at: Annotated[
        Time | None,
        wire(4, "Since when, as CRLs and OCSP tell it; the moment of the object's creation if it is left out or later. "
             "An API server of kubevouch refuses the certificates as soon as the object is there.",
             schema={"x-kubernetes-validations": [_SINCE]}),
    ] = None  # fmt: skip
    requested_by: Annotated[
        str,
        wire(5, "Who has revoked them; the API server sets it, where the policies that belong to the kind are there.",
             schema={"maxLength": 1024}),
    ] = ""  # fmt: skip


class CertificateRevocationStatus(Struct):
    """What the revocation has reached, as far as it is known what was issued."""

    observed_generation: Annotated[Int64, wire(1, "The generation of the object that was looked at.")] = 0
    matched: Annotated[Int32, wire(2, "How many certificates that have not ended it reaches.")] = 0
    until: Annotated[Time | None, wire(3, "When the last of them ends.")] = None
    serials: Annotated[
        list[IssuedNumbers],
        wire(4, "These certificates, by issuer.", list_type="map", map_keys=("issuer",)),
    ] = []
    certificates: Annotated[
        list[str], wire(5, "These certificates, by SHA-256 of their DER, where that is known.", list_type="atomic")
    ] = []
    conditions: Annotated[
        list[Condition],
        wire(
            6,
            f"{IN_FORCE}, whether the API server was seen to refuse all that is revoked; {CERTIFICATES_FOUND}, with "
            f"from where they are known; and {ENDED} once no certificate can be left.",
            list_type="map",
            map_keys=("type",),
        ),
    ] = []


class CertificateRevocation(Object):
    """Certificates that count no more although they have not ended."""

    spec: Annotated[
        CertificateRevocationSpec,
        wire(2, "What is revoked, and why.", required=True, schema={"x-kubernetes-validations": [_BY]}),
    ] = always(CertificateRevocationSpec)
    status: Annotated[CertificateRevocationStatus, wire(3, "What it has reached.")] = always(
        CertificateRevocationStatus
    )
