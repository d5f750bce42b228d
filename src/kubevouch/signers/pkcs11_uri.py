"""The name of a key in a PKCS#11 token (RFC 7512). Pure.

A URI is part of command lines and of objects that others may read, so a PIN in it (``pin-value``) is refused, and so is
a program to be asked for one (``pin-source=|…``).
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

import msgspec

from kubevouch.pki.errors import KeyMaterialError

SCHEME = "pkcs11:"
MAX_BYTES = 4096

_VALUE = re.compile(r"(?:[A-Za-z0-9\-._~:\[\]@!$'()*+,=&/?|]|%[0-9A-Fa-f]{2})*")
_PATH = frozenset({"token", "manufacturer", "serial", "model", "object", "type", "id", "slot-id"})
_QUERY = frozenset({"module-path", "pin-source"})
_PIN_VALUE = "pin-value="
_EXAMPLE = "pkcs11:token=ca;object=cluster-ca?module-path=/usr/lib/softhsm/libsofthsm2.so"


class KeyName(msgspec.Struct, frozen=True):
    """What a URI says; empty where it says nothing.

    Args:
        module: path of the shared library.
        pin_file: path of the file with the PIN.
        key_id: CKA_ID.
        slot: the number of the slot; -1 is any.
    """

    token: str = ""
    serial: str = ""
    manufacturer: str = ""
    model: str = ""
    label: str = ""
    key_id: bytes = b""
    slot: int = -1
    module: str = ""
    pin_file: str = ""

    def __str__(self) -> str:
        """For messages: without what says where the PIN is."""
        named = self.label or self.key_id.hex()
        return f'key "{named}" of token "{self.token or self.serial or "any"}"'


def is_uri(location: str) -> bool:
    """Whether a location names a key in a token; scheme names do not differ by case (RFC 3986 section 3.1).

    What has a PIN in it is meant as one, and refused by :func:`parse`: as a file's name it would stand in an error.
    """
    return _has_scheme(location) or _PIN_VALUE in location.lower()


def _has_scheme(location: str) -> bool:
    return location[: len(SCHEME)].lower() == SCHEME


def parse(text: str) -> KeyName:
    """The key that ``text`` names.

    Raises:
        KeyMaterialError: it is no such URI, or names no key; a PIN in it is not repeated.
    """
    if not _has_scheme(text) or len(text) > MAX_BYTES:
        raise KeyMaterialError(f"got no PKCS#11 URI, expected one such as {_EXAMPLE}")
    path, _, query = text[len(SCHEME) :].partition("?")
    where, settings = _attributes(path, ";", _PATH), _attributes(query, "&", _QUERY)
    if where.get("type", b"private") != b"private":
        raise KeyMaterialError("got a PKCS#11 URI of another type, expected type=private")
    if not where.get("object") and not where.get("id"):
        raise KeyMaterialError(f"got a PKCS#11 URI without object= and id=, expected one such as {_EXAMPLE}")
    slot = _text(where, "slot-id")
    if slot and not re.fullmatch(r"[0-9]{1,18}", slot):
        raise KeyMaterialError("got a slot-id in a PKCS#11 URI that is no number")
    return KeyName(
        token=_text(where, "token"),
        serial=_text(where, "serial"),
        manufacturer=_text(where, "manufacturer"),
        model=_text(where, "model"),
        label=_text(where, "object"),
        key_id=where.get("id", b""),
        slot=int(slot) if slot else -1,
        module=_text(settings, "module-path"),
        pin_file=_pin_file(_text(settings, "pin-source")),
    )


def _attributes(text: str, separator: str, known: frozenset[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for attribute in text.split(separator) if text else ():
        name, equals, value = attribute.partition("=")
        if name == "pin-value":
            raise KeyMaterialError(
                "got pin-value in a PKCS#11 URI, which others can read; expected pin-source=file:PATH"
            )
        if name not in known or not equals:
            raise KeyMaterialError(f"got an attribute of a PKCS#11 URI that is not one of {', '.join(sorted(known))}")
        if name in found:
            raise KeyMaterialError(f"got {name} twice in a PKCS#11 URI, expected it once (RFC 7512 section 2.3)")
        if not _VALUE.fullmatch(value):
            raise KeyMaterialError(f"got a {name} in a PKCS#11 URI with characters that have to be percent-encoded")
        found[name] = unquote_to_bytes(value)
    return found


def _text(attributes: dict[str, bytes], name: str) -> str:
    try:
        text = attributes.get(name, b"").decode()
    except UnicodeDecodeError:
        raise KeyMaterialError(f"got a {name} in a PKCS#11 URI that is not UTF-8") from None
    if "\0" in text:
        raise KeyMaterialError(f"got a {name} in a PKCS#11 URI with a NUL")
    return text


def _pin_file(source: str) -> str:
    if source.startswith("|"):
        raise KeyMaterialError("got a program as pin-source of a PKCS#11 URI, expected file:PATH")
    if source.startswith("file:"):
        path = source.removeprefix("file:")
        # file:///path and file:/path are the same file (RFC 8089 section 2).
        return "/" + path.lstrip("/") if path.startswith("/") else path
    return source
