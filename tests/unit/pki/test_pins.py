"""Pins decide which CA a machine trusts for good: what is not exactly one key's digest pins nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubevouch.pki import authority, pins
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import PinError
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.x509_certificate import Certificate

DIGITS = "0a" * 32
HEX = "could not decode SHA-256 from hex: encoding/hex: "
FORMATS = "Known format(s) are: sha256"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", f'invalid hash, expected "format:hex-value". {FORMATS}'),
        (f"sha256:{DIGITS}:", f'invalid hash, expected "format:hex-value". {FORMATS}'),
        (f"sha512:{DIGITS}", f'unknown hash format "sha512". {FORMATS}'),
        (f"sha256:{DIGITS[:-1]}", f"{HEX}odd length hex string"),
        (f"sha256:{DIGITS[:-2]}", "expected a 32 byte SHA-256 hash, found 31 bytes"),
        (f"sha256:{DIGITS}0a", "expected a 32 byte SHA-256 hash, found 33 bytes"),
        ("sha256:", "expected a 32 byte SHA-256 hash, found 0 bytes"),
        (f"sha256:{DIGITS[:-1]}g", f"{HEX}invalid byte: U+0067 'g'"),
        (f"sha256: {DIGITS}", f"{HEX}invalid byte: U+0020 ' '"),
    ],
)
def test_what_is_no_pin(text: str, error: str) -> None:
    with pytest.raises(PinError) as caught:
        pins.parse([f"sha256:{DIGITS}", text])
    assert str(caught.value) == error


def test_the_digits_in_any_case() -> None:
    assert pins.parse([f"SHA256:{DIGITS.upper()}"]) == pins.parse([f"sha256:{DIGITS}"])


def test_what_is_printed_pins_the_key_whatever_the_certificate_says(
    ca: CertificateAuthority, make_certificate: Callable[..., Certificate]
) -> None:
    pinned = pins.parse([pins.pin_of(ca.certificate)])
    assert pinned.covers(ca.certificate)
    assert not pinned.covers(make_certificate())
    assert pinned.covers(authority.create_authority("other", ca.key, now=ca.certificate.not_before).certificate)


def test_only_the_pinned_ones_of_a_bundle_are_trusted(ca: CertificateAuthority, other_key: PrivateKey) -> None:
    slipped_in = authority.create_authority("kubernetes", other_key, now=ca.certificate.not_before).certificate
    pinned = pins.parse([f"sha256:{DIGITS}", pins.pin_of(ca.certificate)])
    assert pins.verify(pinned, [slipped_in, ca.certificate]) == (ca.certificate,)
    for nobody in (pins.parse([]), pins.parse([f"sha256:{DIGITS}"])):
        with pytest.raises(PinError) as caught:
            pins.verify(nobody, [slipped_in, ca.certificate])
        texts = f"{pins.pin_of(slipped_in)}:{pins.pin_of(ca.certificate)}"
        assert str(caught.value) == f'none of the public keys "{texts}" are pinned'
    with pytest.raises(PinError):
        pins.verify(pinned, [])
