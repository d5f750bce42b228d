"""signers/pkcs11_uri.py: which key a URI names, and what is refused."""

from __future__ import annotations

import pytest

from kubevouch.pki.errors import KeyMaterialError
from kubevouch.signers import pkcs11_uri

PIN = "4711-and-more"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("pkcs11:token=ca", "without object= and id="),
        ("pkcs11:object=a;object=b", "object twice"),
        ("pkcs11:object=a;colour=b", "not one of"),
        ("pkcs11:object=a;type=cert", "expected type=private"),
        ("pkcs11:object=a b", "percent-encoded"),
        ("pkcs11:object=%ff", "not UTF-8"),
        ("pkcs11:object=a%00b", "NUL"),
        ("pkcs11:object=a;slot-id=-1", "no number"),
        (f"pkcs11:object=a?pin-value={PIN}", "expected pin-source=file:PATH"),
        ("pkcs11:object=a?pin-source=|/bin/ask", "got a program as pin-source"),
        ("pkcs11:object=a?module-path", "not one of"),
        (f"pkcs11:object={'a' * 5000}", "got no PKCS#11 URI"),
        ("file:object=a", "got no PKCS#11 URI"),
    ],
)
def test_what_is_no_uri_of_a_key(uri: str, why: str) -> None:
    with pytest.raises(KeyMaterialError, match=why) as refusal:
        pkcs11_uri.parse(uri)
    assert PIN not in str(refusal.value)


def test_what_a_uri_says() -> None:
    assert pkcs11_uri.parse(
        "PKCS11:token=My%20CA;serial=12;manufacturer=m;model=n;id=%01%ff;slot-id=3?pin-source=file:///run/pin&module-path=/m.so"
    ) == pkcs11_uri.KeyName("My CA", "12", "m", "n", "", b"\x01\xff", 3, "/m.so", "/run/pin")
    assert pkcs11_uri.parse("pkcs11:object=a?pin-source=/run/pin").pin_file == "/run/pin"
