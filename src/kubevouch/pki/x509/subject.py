"""Distinguished names as Kubernetes components see and write them (Go 1.26 ``crypto/x509/pkix``).

Reading keeps Go's view: the last common name counts, every organization in order, whatever RDN it stands in. Writing
loses what Go loses: nine attribute types survive, in a fixed order, all values of one type in one RDN. An issued
subject must therefore never be compared with a requested one byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

import msgspec

from kubevouch.pki.errors import DERError, ParseError
from kubevouch.pki.x509 import asn1_time, der

COMMON_NAME = "2.5.4.3"
SERIAL_NUMBER = "2.5.4.5"
COUNTRY = "2.5.4.6"
LOCALITY = "2.5.4.7"
PROVINCE = "2.5.4.8"
STREET_ADDRESS = "2.5.4.9"
ORGANIZATION = "2.5.4.10"
ORGANIZATIONAL_UNIT = "2.5.4.11"
POSTAL_CODE = "2.5.4.17"

USER_UID = "1.3.6.1.4.1.57683.2"
"""Kubernetes' attribute for the user's UID (AllowParsingUserUIDFromCertAuth, Kubernetes 1.33)."""

Attribute = tuple[str, str | None]
"""Type as dotted decimal and value; no value when it is no string that Go reads."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A name. ``attributes`` holds every attribute as it was read and is empty in a name made here."""

    common_name: str = ""
    organizations: tuple[str, ...] = ()
    organizational_units: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    provinces: tuple[str, ...] = ()
    localities: tuple[str, ...] = ()
    street_addresses: tuple[str, ...] = ()
    postal_codes: tuple[str, ...] = ()
    serial_number: str = ""
    attributes: tuple[Attribute, ...] = ()

    @classmethod
    def of(cls, attributes: Iterable[Attribute]) -> Subject:
        """The view of ``attributes``: of common name and serial number the last one counts, even an empty one."""
        kept = tuple(attributes)
        single = dict.fromkeys(_SINGLE, "")
        many: dict[str, list[str]] = {}
        for oid, value in kept:
            if value is None:
                continue
            if oid in _SINGLE:
                single[oid] = value
            elif oid in _MANY:
                many.setdefault(_MANY[oid], []).append(value)
        return cls(
            common_name=single[COMMON_NAME],
            serial_number=single[SERIAL_NUMBER],
            attributes=kept,
            **{name: tuple(values) for name, values in many.items()},
        )

    def values(self, oid: str) -> list[str]:
        """Every string value of the attribute type, in order."""
        return [value for found, value in self.attributes if found == oid and value is not None]

    def encode(self) -> bytes:
        """The Name in DER as Go writes it.

        Values become PrintableString where every character allows it, else UTF8String.
        """
        # The order is pkix.Name.ToRDNSequence's.
        return der.encode(
            der.SEQUENCE,
            _rdn(COUNTRY, self.countries),
            _rdn(PROVINCE, self.provinces),
            _rdn(LOCALITY, self.localities),
            _rdn(STREET_ADDRESS, self.street_addresses),
            _rdn(POSTAL_CODE, self.postal_codes),
            _rdn(ORGANIZATION, self.organizations),
            _rdn(ORGANIZATIONAL_UNIT, self.organizational_units),
            _rdn(COMMON_NAME, (self.common_name,) if self.common_name else ()),
            _rdn(SERIAL_NUMBER, (self.serial_number,) if self.serial_number else ()),
        )


_SINGLE = (COMMON_NAME, SERIAL_NUMBER)
_MANY = {
    COUNTRY: "countries",
    LOCALITY: "localities",
    PROVINCE: "provinces",
    STREET_ADDRESS: "street_addresses",
    ORGANIZATION: "organizations",
    ORGANIZATIONAL_UNIT: "organizational_units",
    POSTAL_CODE: "postal_codes",
}
KNOWN_ATTRIBUTES = frozenset({*_SINGLE, *_MANY})
"""All that are ever issued."""
_ENCODED_OID = {oid: der.encode_object_identifier(oid) for oid in (*_SINGLE, *_MANY)}
_KNOWN_OID = {encoded[2:]: oid for oid, encoded in _ENCODED_OID.items()}

# Go writes @, * and & as UTF8String though it reads them in a PrintableString.
_PRINTABLE = re.compile(r"[A-Za-z0-9 '()+,\-./:=?]*", re.ASCII)
_READ_AS_PRINTABLE = re.compile(rb"[A-Za-z0-9 '()+,\-./:=?*&]*")
_NUMERIC = re.compile(rb"[0-9 ]*")


def _rdn(oid: str, values: tuple[str, ...]) -> bytes:
    if not values:
        return b""
    members = [der.encode(der.SEQUENCE, _ENCODED_OID[oid], _encode_string(value)) for value in values]
    return der.encode_set(members)


def _encode_string(value: str) -> bytes:
    return der.encode(der.PRINTABLE_STRING if _PRINTABLE.fullmatch(value) else der.UTF8_STRING, value.encode())


def _printable(raw: bytes) -> str:
    if not _READ_AS_PRINTABLE.fullmatch(raw):
        raise ValueError("PrintableString")
    return raw.decode("ascii")


def _numeric(raw: bytes) -> str:
    if not _NUMERIC.fullmatch(raw):
        raise ValueError("NumericString")
    return raw.decode("ascii")


def _ia5(raw: bytes) -> str:
    if not raw.isascii():
        raise ValueError("IA5String")
    return raw.decode("ascii")


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("UTF-8 string") from None


def _t61(raw: bytes) -> str:
    return raw.decode("latin-1")


def _bmp(raw: bytes) -> str:
    """UCS-2 without its terminator, surrogates and noncharacters."""
    if len(raw) % 2:
        raise ValueError("BMPString")
    raw = raw.removesuffix(b"\0\0") if len(raw) >= 2 else raw
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        point = high << 8 | low
        if point >= 0xFFFE or 0xFDD0 <= point <= 0xFDEF or 0xD800 <= point <= 0xDFFF:
            raise ValueError("BMPString")
    return raw.decode("utf-16-be")


_STRINGS: dict[int, Callable[[bytes], str]] = {
    der.UTF8_STRING: _utf8,
    der.NUMERIC_STRING: _numeric,
    der.PRINTABLE_STRING: _printable,
    der.T61_STRING: _t61,
    der.IA5_STRING: _ia5,
    der.BMP_STRING: _bmp,
}
# What encoding/asn1 says of each kind of string; parsing a certificate says "invalid <kind>" of all.
_REQUEST_TEXTS = {
    "UTF-8 string": "asn1: invalid UTF-8 string",
    "BMPString": "invalid BMPString",
    "PrintableString": "asn1: syntax error: PrintableString contains invalid character",
    "NumericString": "asn1: syntax error: NumericString contains invalid character",
    "IA5String": "asn1: syntax error: IA5String contains invalid character",
}


def _any_time(tag: int) -> Callable[[bytes], object]:
    return lambda raw: asn1_time.parse(tag, raw, fraction=True)


# Values of these types are no strings, but Go reads them and refuses the name when they are malformed.
_OTHERS: dict[int, Callable[[bytes], object]] = {
    der.BOOLEAN: der.boolean,
    der.INTEGER: der.int64,
    der.BIT_STRING: der.bit_string,
    der.OBJECT_IDENTIFIER: der.object_identifier,
    der.UTC_TIME: _any_time(der.UTC_TIME),
    der.GENERALIZED_TIME: _any_time(der.GENERALIZED_TIME),
}


def parse_requested(octets: bytes, position: int, end: int) -> Subject:
    """The name of a certificate request, as ``encoding/asn1`` reads it into a ``pkix.RDNSequence``.

    Raises:
        ParseError: with Go's text. A value that is no string is not refused; it counts as absent.
    """
    start, stop = der.expect(octets, position, end, der.SEQUENCE, position, "RDNSequence")
    if stop != end:
        raise ParseError("x509: trailing data after X.509 Subject")
    attributes: list[Attribute] = []
    for _, set_start, set_stop in der.elements(octets, start, stop, der.SET):
        for _, begin, limit in der.elements(octets, set_start, set_stop, der.SEQUENCE):
            oid_start, oid_stop = der.expect(octets, begin, limit, der.OBJECT_IDENTIFIER, begin, "ObjectIdentifier")
            oid = _oid(octets[oid_start:oid_stop])
            attributes.append((oid, _requested_value(octets, oid_stop, limit)))
    return Subject.of(attributes)


def _requested_value(octets: bytes, position: int, end: int) -> str | None:
    tag, start, stop = der.element(octets, position, end)
    read = _STRINGS.get(tag)
    if read is not None:
        try:
            return read(octets[start:stop])
        except ValueError as error:
            raise DERError(_REQUEST_TEXTS[str(error)]) from error
    check = _OTHERS.get(tag)
    if check is not None:
        check(octets[start:stop])
    return None


def parse_certified(name: bytes) -> Subject:
    """The Name of a certificate, as Go's certificate parser reads it.

    Raises:
        ParseError: with Go's text. Other than in a request, every value must be a string.
    """
    return _cached_name(name) if len(name) <= _CACHED_NAME_BYTES else _parse_certified(name)


def _parse_certified(octets: bytes) -> Subject:
    position, end = 0, len(octets)
    attributes: list[Attribute] = []
    where = ""
    try:
        start, stop = der.expect(octets, position, end, der.SEQUENCE)
        while start < stop:
            where = ""
            set_start, set_stop = der.expect(octets, start, stop, der.SET)
            while set_start < set_stop:
                where = ": invalid attribute"
                begin, limit = der.expect(octets, set_start, set_stop, der.SEQUENCE)
                where = ": invalid attribute type"
                oid_start, oid_stop = der.expect(octets, begin, limit, der.OBJECT_IDENTIFIER)
                oid = _oid(octets[oid_start:oid_stop])
                where = ": invalid attribute value"
                tag, value_start, value_stop = der.element(octets, oid_stop, limit)
                if tag > 0xFF:
                    raise der.syntax_error("high tag number")
                attributes.append((oid, _certified_value(tag, octets[value_start:value_stop])))
                set_start = limit
            start = set_stop
    except DERError as error:
        raise ParseError(f"x509: invalid RDNSequence{where}") from error
    return Subject.of(attributes)


# Nearly all certificates that one process sees have the same few issuers.
_CACHED_NAME_BYTES = 1024
_cached_name = lru_cache(maxsize=256)(_parse_certified)


def _certified_value(tag: int, raw: bytes) -> str:
    read = _STRINGS.get(tag)
    if read is None:
        raise ParseError(f"x509: invalid RDNSequence: invalid attribute value: unsupported string type: {tag}")
    try:
        return read(raw)
    except ValueError as error:
        raise ParseError(f"x509: invalid RDNSequence: invalid attribute value: invalid {error}") from error


def _oid(contents: bytes) -> str:
    return _KNOWN_OID.get(contents) or der.object_identifier(contents)
