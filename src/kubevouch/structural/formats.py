"""The formats of strings: what is a text of each, as Go's packages and Kubernetes' fork of govalidator decide.

Every check takes time in proportion to the text, at most.

Sources: k8s.io/kube-openapi/pkg/validation/strfmt, k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go
(Kubernetes 1.36); Go's net and net/url (Go 1.26).
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubevouch.cel.library.url import URLError, parse_request_uri
from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.machinery.text import gotext
from kubevouch.machinery.text.times import parse_go_rfc3339
from kubevouch.structural.mail_address import is_mail_address

Tree = Mapping[str, Any]
Format = Callable[[str], bool]

_NUMBERS = {"integer": frozenset({"int32", "int64"}), "number": frozenset({"float", "double"})}


def is_known(kind: str, name: str) -> bool:
    """Whether values of a type are checked for a format; an empty type counts as string."""
    if kind in ("", "string"):
        return name.replace("-", "") in _TEXTS
    return name in _NUMBERS.get(kind, ())


def text_format(name: str) -> Format:
    """Whether a text is of a known format. Dashes in the name do not count."""
    return _TEXTS[name.replace("-", "")]


def unrecognized_formats(tree: Tree) -> list[str]:
    """The formats in a schema that nobody checks, as often as they come."""
    name = tree.get("format")
    found = [name] if name and not is_known(tree.get("type") or "", name) else []
    for below in _below(tree):
        found += unrecognized_formats(below)
    return found


def _below(tree: Tree) -> Iterator[Tree]:
    """The schemas in a schema, in the order in which Kubernetes goes through them."""
    items = tree.get("items")
    held: list[Any] = [*items] if isinstance(items, list) else [items]
    for name in ("allOf", "anyOf", "oneOf"):
        held += tree.get(name) or ()
    held.append(tree.get("not"))
    held += (tree.get("properties") or {}).values()
    held.append(tree.get("additionalProperties"))
    held += (tree.get("patternProperties") or {}).values()
    held.append(tree.get("additionalItems"))
    for name in ("definitions", "dependencies"):
        held += (tree.get(name) or {}).values()
    return (each for each in held if isinstance(each, Mapping))


# ------------------------------------------------------------------ one by one


def _matching(pattern: str, longest: int | None = None) -> Format:
    """A text that matches, of at most so many bytes."""
    compiled = compiled_pattern(pattern)

    def check(text: str) -> bool:
        if longest is not None and len(text.encode("utf-8", "surrogatepass")) > longest:
            return False
        return compiled.search(text) is not None

    return check


_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}", re.ASCII)
# Longer ones are no addresses, whatever leading zeros they have.
_LONGEST_ADDRESS = 1024


def _is_ipv4(text: str) -> bool:
    return "." in text and _is_sloppy_ip(text)


def _is_sloppy_ip(text: str) -> bool:
    """As Go did before 1.17: numbers may have leading zeros."""
    if len(text) > _LONGEST_ADDRESS:
        return False
    return _is_dotted(text) if ":" not in text else _is_ipv6(_without_zeros(text))


def _is_dotted(text: str) -> bool:
    return bool(_IPV4.fullmatch(text)) and all(_is_byte(part) for part in text.split("."))


def _is_byte(digits: str) -> bool:
    digits = digits.lstrip("0")
    return len(digits) <= 3 and int(digits or "0") <= 255


def _without_zeros(text: str) -> str:
    *groups, last = text.split(":")
    if "." in last:
        if not _is_dotted(last):
            return ""
        last = ".".join(str(int(part)) for part in last.split("."))
    else:
        last = last.lstrip("0") or last[:1]
    return ":".join([*(group.lstrip("0") or group[:1] for group in groups), last])


def _is_ipv6(text: str) -> bool:
    if ":" not in text or "%" in text or not text.isascii():
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or len(text) > _LONGEST_ADDRESS:
        return False
    return _is_sloppy_ip(address) and int(bits) <= (128 if ":" in address else 32)


_MAC = re.compile(
    r"[0-9a-f]{2}(?:(?P<separator>[:-])[0-9a-f]{2})(?:(?P=separator)[0-9a-f]{2})*|[0-9a-f]{4}(?:\.[0-9a-f]{4})*",
    re.ASCII | re.IGNORECASE,
)
_MAC_LENGTHS = frozenset({12, 16, 40})  # hexadecimal digits


def _is_mac(text: str) -> bool:
    if len(text) > 64 or not _MAC.fullmatch(text):
        return False
    return sum(char not in ":-." for char in text) in _MAC_LENGTHS


def _is_uri(text: str) -> bool:
    try:
        parse_request_uri(text)
    except URLError:
        return False
    return True


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] == "L"


def _is_in_label(char: str) -> bool:
    return (char.isascii() and char.isalnum()) or unicodedata.category(char)[0] in "LS"


def _is_hostname(text: str) -> bool:
    """Labels of letters, digits and symbols, the last of them of letters; one label alone has its own rule."""
    labels = text.split(".") if len(text) <= _LONGEST_HOSTNAME else [""]
    if len(text.encode("utf-8", "surrogatepass")) > _LONGEST_HOSTNAME:
        return False
    if any(not label or len(label.encode("utf-8", "surrogatepass")) > _LONGEST_LABEL for label in labels):
        return False
    *before, last = labels
    if not before:
        # A dash may stand after the first character only.
        rest = last[1:]
        return _is_in_label(last[0]) and all(map(_is_in_label, rest.removeprefix("-")))
    return all(_is_label(label) for label in before) and len(last) >= _SHORTEST_TOP_LEVEL and all(map(_is_letter, last))


_LONGEST_HOSTNAME, _LONGEST_LABEL, _SHORTEST_TOP_LEVEL = 255, 63, 2


def _is_label(label: str) -> bool:
    return "-" not in (label[0], label[-1]) and all(char == "-" or _is_in_label(char) for char in label)


_NOT_IN_ISBN = re.compile(r"[\t\n\f\r -]+")


def _is_isbn10(text: str) -> bool:
    digits = _NOT_IN_ISBN.sub("", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits, re.ASCII):
        return False
    return sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _NOT_IN_ISBN.sub("", text)
    if not re.fullmatch(r"[0-9]{13}", digits, re.ASCII):
        return False
    return sum((1, 3)[place % 2] * int(digit) for place, digit in enumerate(digits)) % 10 == 0


_is_card_number = _matching(
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$"
)


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _is_card_number(digits):
        return False
    # Luhn's checksum.
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


_is_ssn_text = _matching(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$")


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        return False
    try:
        parse_go_rfc3339(f"{text}T00:00:00Z")
    except ValueError:
        return False
    return True


_TIME_OF_DAY = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)


def _is_datetime(text: str) -> bool:
    date, *rest = text.lower().split("t", 2)
    # What stands after a second t does not count.
    match = _TIME_OF_DAY.fullmatch(rest[0]) if rest and _is_date(date) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_DURATION_PARTS = compiled_pattern(r"^\s*(?:\d+\s*[A-Za-zµ]+\s*)+$")
_DURATION_PART = re.compile(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)", re.ASCII)
_UNITS = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_PREFIXES = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _is_duration(text: str) -> bool:
    try:
        gotext.parse_duration(text)
    except ValueError:
        return _is_worded_duration(text)
    return True


def _is_worded_duration(text: str) -> bool:
    """Such as ``2 days 3 hours``; one known unit is enough."""
    if _DURATION_PARTS.search(text) is None:
        return False
    known = False
    for number, unit in _DURATION_PART.findall(text):
        if len(number.lstrip("0")) > 19 or int(number.lstrip("0") or "0") >= 1 << 63:
            return False
        unit = unit.lower()
        known = known or unit in _UNITS or unit.startswith(_UNIT_PREFIXES)
    return known


_TEXTS: dict[str, Format] = {
    "bsonobjectid": _matching("^[0-9a-fA-F]{24}$"),
    "uri": _is_uri,
    "email": is_mail_address,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _matching("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    "uuid3": _matching("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    "uuid4": _matching("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
    "uuid5": _matching("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": lambda text: len(text) == 11 and _is_ssn_text(text),
    "hexcolor": _matching("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    "rgbcolor": _matching(
        r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,"
        r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$"
    ),
    "byte": _matching("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"),
    "password": lambda _text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_datetime,
    "k8sshortname": _matching("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 63),
    "k8slongname": _matching(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", 253),
}
