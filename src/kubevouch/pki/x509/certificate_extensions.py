"""What the extensions of a certificate say, judged as Go's parser (Go 1.26 ``crypto/x509``) judges them.

Contents that nothing in kubevouch uses (policies, distribution points, access information) are read only to refuse
what Go refuses: the API server must not store a certificate that other components cannot parse.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import DERError, ParseError
from kubevouch.pki.x509 import der, subject_alt_names
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

SUBJECT_KEY_ID = "2.5.29.14"
KEY_USAGE = "2.5.29.15"
SUBJECT_ALT_NAME = subject_alt_names.OID
BASIC_CONSTRAINTS = "2.5.29.19"
NAME_CONSTRAINTS = "2.5.29.30"
DISTRIBUTION_POINTS = "2.5.29.31"
POLICIES = "2.5.29.32"
POLICY_MAPPINGS = "2.5.29.33"
AUTHORITY_KEY_ID = "2.5.29.35"
POLICY_CONSTRAINTS = "2.5.29.36"
EXTENDED_KEY_USAGE = "2.5.29.37"
INHIBIT_ANY_POLICY = "2.5.29.54"
AUTHORITY_INFO_ACCESS = "1.3.6.1.5.5.7.1.1"

_CONTEXT_0 = 0x80
_CONTEXT_1 = 0x81
_CONTEXT_6 = 0x86
_CONSTRUCTED_0 = 0xA0
_CONSTRUCTED_1 = 0xA1


class Extension(msgspec.Struct, frozen=True):
    """An extension by its dotted identifier."""

    oid: str
    critical: bool
    value: bytes


class Subtrees(msgspec.Struct, frozen=True, kw_only=True):
    """Names of a CA's constraints, each kind as it stands there; a network is its address and its mask, joined."""

    dns_names: tuple[str, ...] = ()
    email_addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    networks: tuple[bytes, ...] = ()

    def __len__(self) -> int:
        return len(self.dns_names) + len(self.email_addresses) + len(self.uris) + len(self.networks)


class NameConstraints(msgspec.Struct, frozen=True):
    """What the names below a CA have to be within, and what they must not be in (RFC 5280 section 4.2.1.10)."""

    permitted: Subtrees = Subtrees()
    excluded: Subtrees = Subtrees()

    def __len__(self) -> int:
        return len(self.permitted) + len(self.excluded)


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a certificate's extensions.

    Args:
        key_usage: the numbers of the bits that are set (RFC 5280 section 4.2.1.3).
        extended_key_usages: dotted identifiers in order.
        has_basic_constraints: without it ``is_ca`` means nothing.
        max_path_length: ``None`` when not limited.
        name_constraints: ``None`` without the extension; kinds of names that Go does not know are not in it.
        unhandled_critical: identifiers of critical extensions that nobody here understands.
    """

    key_usage: frozenset[int] = frozenset()
    extended_key_usages: tuple[str, ...] = ()
    has_basic_constraints: bool = False
    is_ca: bool = False
    max_path_length: int | None = None
    alt_names: SubjectAltNames = subject_alt_names.NONE
    has_alt_names: bool = False
    subject_key_id: bytes = b""
    authority_key_id: bytes = b""
    name_constraints: NameConstraints | None = None
    unhandled_critical: tuple[str, ...] = ()


def interpret(extensions: tuple[Extension, ...]) -> Extensions:
    """Read every extension.

    Raises:
        ParseError: with Go's text, for contents that Go refuses to parse.
    """
    meaning: dict[str, Any] = {}
    unhandled = []
    for extension in extensions:
        read = _READERS.get(extension.oid)
        handled = read is not None and read(extension, meaning)
        if extension.critical and not handled:
            unhandled.append(extension.oid)
    return Extensions(**meaning, unhandled_critical=tuple(unhandled))


def _sequence(value: bytes, refusal: str) -> tuple[int, int]:
    """Bounds inside the SEQUENCE at the start; Go does not look at what stands behind it."""
    return _expect(value, 0, len(value), der.SEQUENCE, refusal)


def _expect(value: bytes, position: int, end: int, tag: int, refusal: str) -> tuple[int, int]:
    try:
        return der.expect(value, position, end, tag)
    except DERError as error:
        raise ParseError(f"x509: {refusal}") from error


def _next_is(value: bytes, position: int, end: int, tag: int) -> bool:
    return position < end and value[position] == tag


def _key_usage(extension: Extension, meaning: dict[str, Any]) -> bool:
    value = extension.value
    start, stop = _expect(value, 0, len(value), der.BIT_STRING, "invalid key usage")
    try:
        octets, unused = der.bit_string(value[start:stop])
    except DERError as error:
        raise ParseError("x509: invalid key usage") from error
    count = len(octets) * 8 - unused
    meaning["key_usage"] = frozenset(n for n in range(min(9, count)) if octets[n // 8] >> (7 - n % 8) & 1)
    return True


def _basic_constraints(extension: Extension, meaning: dict[str, Any]) -> bool:
    value, refusal = extension.value, "invalid basic constraints"
    position, stop = _sequence(value, refusal)
    try:
        if _next_is(value, position, stop, der.BOOLEAN):
            start, position = der.expect(value, position, stop, der.BOOLEAN)
            meaning["is_ca"] = der.boolean(value[start:position])
        if _next_is(value, position, stop, der.INTEGER):
            start, position = der.expect(value, position, stop, der.INTEGER)
            meaning["max_path_length"] = length = der.integer(value[start:position])
            if not 0 <= length < 1 << 63:
                raise der.structure_error("integer too large")
    except DERError as error:
        raise ParseError(f"x509: {refusal}") from error
    meaning["has_basic_constraints"] = True
    return True


def _alt_names(extension: Extension, meaning: dict[str, Any]) -> bool:
    names = subject_alt_names.parse(extension.value)
    meaning["alt_names"] = names
    meaning["has_alt_names"] = True
    return bool(names)


def _extended_key_usages(extension: Extension, meaning: dict[str, Any]) -> bool:
    value, refusal = extension.value, "invalid extended key usages"
    position, stop = _sequence(value, refusal)
    oids = []
    while position < stop:
        oid, position = _oid(value, position, stop, refusal)
        oids.append(oid)
    meaning["extended_key_usages"] = tuple(oids)
    return True


def _oid(value: bytes, position: int, end: int, refusal: str) -> tuple[str, int]:
    start, stop = _expect(value, position, end, der.OBJECT_IDENTIFIER, refusal)
    try:
        return der.object_identifier(value[start:stop]), stop
    except DERError as error:
        raise ParseError(f"x509: {refusal}") from error


def _subject_key_id(extension: Extension, meaning: dict[str, Any]) -> bool:
    if extension.critical:
        raise ParseError("x509: subject key identifier incorrectly marked critical")
    value = extension.value
    start, stop = _expect(value, 0, len(value), der.OCTET_STRING, "invalid subject key identifier")
    meaning["subject_key_id"] = value[start:stop]
    return True


def _authority_key_id(extension: Extension, meaning: dict[str, Any]) -> bool:
    if extension.critical:
        raise ParseError("x509: authority key identifier incorrectly marked critical")
    value, refusal = extension.value, "invalid authority key identifier"
    position, stop = _sequence(value, refusal)
    if _next_is(value, position, stop, _CONTEXT_0):
        start, end = _expect(value, position, stop, _CONTEXT_0, refusal)
        meaning["authority_key_id"] = value[start:end]
    return True


def _name_constraints(extension: Extension, meaning: dict[str, Any]) -> bool:
    value, refusal = extension.value, "invalid NameConstraints extension"
    position, stop = _sequence(value, refusal)
    if stop != len(value):
        raise ParseError(f"x509: {refusal}")
    subtrees: list[tuple[int, int] | None] = []
    for tag in (_CONSTRUCTED_0, _CONSTRUCTED_1):
        if _next_is(value, position, stop, tag):
            start, position = _expect(value, position, stop, tag, refusal)
            subtrees.append((start, position))
        else:
            subtrees.append(None)
    if position != stop:
        raise ParseError(f"x509: {refusal}")
    if all(bounds is None or bounds[0] == bounds[1] for bounds in subtrees):
        raise ParseError("x509: empty name constraints extension")
    # Every subtree is read, also behind one of an unknown kind.
    read = [_subtrees(value, *bounds, refusal) if bounds is not None else (Subtrees(), True) for bounds in subtrees]
    meaning["name_constraints"] = NameConstraints(read[0][0], read[1][0])
    return read[0][1] and read[1][1]


def _subtrees(value: bytes, position: int, end: int, refusal: str) -> tuple[Subtrees, bool]:
    """Those of the kinds that Go knows, and whether there were no others."""
    known = True
    found: dict[str, list[Any]] = {}
    while position < end:
        start, position = _expect(value, position, end, der.SEQUENCE, refusal)
        try:
            tag, begin, limit = der.element(value, start, position)
        except DERError as error:
            raise ParseError(f"x509: {refusal}") from error
        if tag > 0xFF:
            raise ParseError(f"x509: {refusal}")
        kind = _CONSTRAINTS.get(tag)
        if kind is None:
            known = False
        else:
            name, read_one = kind
            found.setdefault(name, []).append(read_one(value[begin:limit]))
    return Subtrees(**{name: tuple(values) for name, values in found.items()}), known


def _constraint_text(raw: bytes) -> str:
    if not raw.isascii():
        text = quote(raw.decode("utf-8", "surrogateescape"))
        raise ParseError(f"x509: invalid constraint value: x509: {text} cannot be encoded as an IA5String")
    return raw.decode("ascii")


def _is_constraint_domain(name: str) -> bool:
    """As :func:`subject_alt_names.is_domain`, with a leading dot for "and below"."""
    if name.endswith("."):
        return False
    return subject_alt_names.is_domain(name.removeprefix("."))


def _dns_constraint(raw: bytes) -> str:
    name = _constraint_text(raw)
    if not _is_constraint_domain(name):
        raise ParseError(f"x509: failed to parse dnsName constraint {quote(name)}")
    return name


# RFC 5321 section 4.1.2; Go also takes quoted local parts, which no constraint in use has.
_MAILBOX = re.compile(r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*@(.+)", re.ASCII)


def _email_constraint(raw: bytes) -> str:
    name = _constraint_text(raw)
    domain = name
    if "@" in name:
        mailbox = _MAILBOX.fullmatch(name)
        domain = mailbox[1] if mailbox else "."
    if not _is_constraint_domain(domain):
        raise ParseError(f"x509: failed to parse rfc822Name constraint {quote(name)}")
    return name


def _uri_constraint(raw: bytes) -> str:
    name = _constraint_text(raw)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if not _is_constraint_domain(name):
            raise ParseError(f"x509: failed to parse URI constraint {quote(name)}") from None
    else:
        raise ParseError(f"x509: failed to parse URI constraint {quote(name)}: cannot be IP address")
    return name


def _ip_constraint(raw: bytes) -> bytes:
    if len(raw) not in {8, 32}:
        raise ParseError(f"x509: IP constraint contained value of length {len(raw)}")
    mask = raw[len(raw) // 2 :]
    inverted = ~int.from_bytes(mask, "big") & ((1 << len(mask) * 8) - 1)
    if inverted & (inverted + 1):
        raise ParseError(f"x509: IP constraint contained invalid mask {mask.hex()}")
    return raw


_CONSTRAINTS: dict[int, tuple[str, Callable[[bytes], str | bytes]]] = {
    0x81: ("email_addresses", _email_constraint),
    0x82: ("dns_names", _dns_constraint),
    _CONTEXT_6: ("uris", _uri_constraint),
    0x87: ("networks", _ip_constraint),
}


def _distribution_points(extension: Extension, _: dict[str, Any]) -> bool:
    value = extension.value
    position, stop = _sequence(value, "invalid CRL distribution points")
    refusal = "invalid CRL distribution point"
    while position < stop:
        start, position = _expect(value, position, stop, der.SEQUENCE, refusal)
        if not _next_is(value, start, position, _CONSTRUCTED_0):
            continue
        begin, limit = _expect(value, start, position, _CONSTRUCTED_0, refusal)
        begin, limit = _expect(value, begin, limit, _CONSTRUCTED_0, refusal)
        while _next_is(value, begin, limit, _CONTEXT_6):
            begin = _expect(value, begin, limit, _CONTEXT_6, refusal)[1]
    return True


def _policies(extension: Extension, _: dict[str, Any]) -> bool:
    value, refusal = extension.value, "invalid certificate policies"
    position, stop = _sequence(value, refusal)
    seen = set()
    while position < stop:
        start, position = _expect(value, position, stop, der.SEQUENCE, refusal)
        begin, limit = _expect(value, start, position, der.OBJECT_IDENTIFIER, refusal)
        contents = value[begin:limit]
        if contents in seen or not _is_minimal_oid(contents):
            raise ParseError(f"x509: {refusal}")
        seen.add(contents)
    return True


def _is_minimal_oid(contents: bytes) -> bool:
    """Go's ``OID`` type holds arcs of any size; they need only end, and not begin with 0x80."""
    if not contents or contents[-1] & 0x80:
        return False
    starts = (0, *(i + 1 for i, octet in enumerate(contents[:-1]) if octet < 0x80))
    return all(contents[i] != 0x80 for i in starts)


def _policy_mappings(extension: Extension, _: dict[str, Any]) -> bool:
    value, refusal = extension.value, "invalid policy mappings extension"
    position, stop = _sequence(value, refusal)
    while position < stop:
        start, position = _expect(value, position, stop, der.SEQUENCE, refusal)
        behind = _expect(value, start, position, der.OBJECT_IDENTIFIER, refusal)[1]
        _expect(value, behind, position, der.OBJECT_IDENTIFIER, refusal)
    return True


def _policy_constraints(extension: Extension, _: dict[str, Any]) -> bool:
    value, refusal = extension.value, "invalid policy constraints extension"
    position, stop = _sequence(value, refusal)
    for tag in (_CONTEXT_0, _CONTEXT_1):
        if _next_is(value, position, stop, tag):
            start, position = _expect(value, position, stop, tag, refusal)
            _small_integer(value[start:position], refusal)
    return True


def _small_integer(contents: bytes, refusal: str) -> None:
    try:
        der.int64(contents)
    except DERError as error:
        raise ParseError(f"x509: {refusal}") from error


def _inhibit_any_policy(extension: Extension, _: dict[str, Any]) -> bool:
    value, refusal = extension.value, "invalid inhibit any policy extension"
    start, stop = _expect(value, 0, len(value), der.INTEGER, refusal)
    _small_integer(value[start:stop], refusal)
    return True


def _authority_info_access(extension: Extension, _: dict[str, Any]) -> bool:
    if extension.critical:
        raise ParseError("x509: authority info access incorrectly marked critical")
    value, refusal = extension.value, "invalid authority info access"
    position, stop = _sequence(value, refusal)
    while position < stop:
        start, position = _expect(value, position, stop, der.SEQUENCE, refusal)
        behind = _oid(value, start, position, refusal)[1]
        if _next_is(value, behind, position, _CONTEXT_6):
            _expect(value, behind, position, _CONTEXT_6, refusal)
    return True


# Each tells whether it understood all of the extension, and puts what others need into the second argument.
_READERS: dict[str, Callable[[Extension, dict[str, Any]], bool]] = {
    KEY_USAGE: _key_usage,
    BASIC_CONSTRAINTS: _basic_constraints,
    SUBJECT_ALT_NAME: _alt_names,
    EXTENDED_KEY_USAGE: _extended_key_usages,
    SUBJECT_KEY_ID: _subject_key_id,
    AUTHORITY_KEY_ID: _authority_key_id,
    NAME_CONSTRAINTS: _name_constraints,
    DISTRIBUTION_POINTS: _distribution_points,
    POLICIES: _policies,
    POLICY_MAPPINGS: _policy_mappings,
    POLICY_CONSTRAINTS: _policy_constraints,
    INHIBIT_ANY_POLICY: _inhibit_any_policy,
    AUTHORITY_INFO_ACCESS: _authority_info_access,
}
