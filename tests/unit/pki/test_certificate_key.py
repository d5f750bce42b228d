from __future__ import annotations

import pytest

from kubevouch.pki import certificate_key
from kubevouch.pki.errors import KeyMaterialError


def test_there_and_back_under_a_nonce_of_its_own() -> None:
    key = certificate_key.parse(certificate_key.generate())
    one, other = certificate_key.encrypt(key, b"plain"), certificate_key.encrypt(key, b"plain")
    assert one != other and len(one) == 12 + 5 + 16
    assert certificate_key.decrypt(key, one) == certificate_key.decrypt(key, other) == b"plain"


@pytest.mark.parametrize("position", [0, 12, -1])
def test_a_changed_value_is_refused(position: int) -> None:
    key = bytes(range(32))
    value = bytearray(certificate_key.encrypt(key, b"plain"))
    value[position] ^= 1
    with pytest.raises(KeyMaterialError):
        certificate_key.decrypt(key, bytes(value))


@pytest.mark.parametrize("value", [b"", b"x" * 5, b"x" * 12, b"x" * 27])
def test_a_value_that_is_too_short(value: bytes) -> None:
    with pytest.raises(KeyMaterialError):
        certificate_key.decrypt(bytes(32), value)


@pytest.mark.parametrize("text", ["", "ab", "g" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", " " * 64])
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(KeyMaterialError) as refusal:
        certificate_key.parse(text)
    assert not text.strip() or text not in str(refusal.value)
