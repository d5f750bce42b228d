"""Kubernetes' named formats of strings.

Source: k8s.io/apiserver/pkg/cel/library/format.go (Kubernetes 1.36).
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kubevouch.cel.functions import function, method, opaque
from kubevouch.cel.library.url import URLError, parse_request_uri
from kubevouch.cel.values import NONE, Opaque, Optional, Run
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import parse_go_rfc3339

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


@opaque("kubernetes.NamedFormat")
@dataclass(frozen=True)
class Format(Opaque):
    """A format, with what it says of a text that does not have it."""

    name: str
    errors: Callable[[str], list[str]]


def _uri_errors(text: str) -> list[str]:
    try:
        parse_request_uri(text)
    except URLError as err:
        return [str(err)]
    return []


def _uuid_errors(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte_errors(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date_errors(text: str) -> list[str]:
    try:
        if _DATE.fullmatch(text):
            dt.date.fromisoformat(text)
            return []
    except ValueError:
        pass
    return ["invalid date"]


def _datetime_errors(text: str) -> list[str]:
    try:
        parse_go_rfc3339(text.upper())
    except ValueError:
        return ["invalid datetime"]
    return []


_RULES: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": partial(names.dns_label_name, prefix=False),
    "dns1123Subdomain": partial(names.subdomain_name, prefix=False),
    "dns1035Label": partial(names.dns_1035_name, prefix=False),
    "qualifiedName": names.qualified_name,
    "dns1123LabelPrefix": partial(names.dns_label_name, prefix=True),
    "dns1123SubdomainPrefix": partial(names.subdomain_name, prefix=True),
    "dns1035LabelPrefix": partial(names.dns_1035_name, prefix=True),
    "labelValue": names.label_value,
    "uri": _uri_errors,
    "uuid": _uuid_errors,
    "byte": _byte_errors,
    "date": _date_errors,
    "datetime": _datetime_errors,
}
_FORMATS = {name: Format(name, errors) for name, errors in _RULES.items()}


# The compiler has no way to name an optional type, so these are of any.
@function("format.named", "string")
def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


@method("validate", "kubernetes.NamedFormat string")
def _validate(named: Format, text: str, *, run: Run) -> Optional:
    run.spend(1)
    run.spend_on_text(*[text] * 10)
    errors = named.errors(text)
    return Optional(errors) if errors else NONE


def _constant(name: str) -> None:
    function(f"format.{name}", "")(lambda: _FORMATS[name])


for _name in _FORMATS:
    _constant(_name)
