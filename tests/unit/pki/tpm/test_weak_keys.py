from __future__ import annotations

import math

import msgspec
import pytest

import evidence_cases
from kubevouch.pki.tpm import algorithms, public_area, weak_keys
from pretended_tpm import AK_ATTRIBUTES, PretendedTPM, weak_rsa


@pytest.mark.parametrize("bits", [2048, 3072, 4096])
def test_a_modulus_of_powers_is_known(bits: int) -> None:
    weak = weak_rsa(AK_ATTRIBUTES, bits)
    assert weak_keys.is_known_weak(weak)
    for step in (2, 4, 6):
        modulus = int.from_bytes(weak.unique[0], "big") + step
        assert not weak_keys.is_known_weak(msgspec.structs.replace(weak, unique=(modulus.to_bytes(bits // 8, "big"),)))


def test_keys_of_other_tpms_are_not() -> None:
    keys = [
        public_area.parse(case.octets(name))
        for case in evidence_cases.everything()
        for name in ("ek_public", "ak_public", "key_public")
        if case.octets(name)
    ]
    assert any(key.type == algorithms.RSA for key in keys)
    assert not any(map(weak_keys.is_known_weak, [*keys, PretendedTPM().ek]))


def test_how_often_another_key_is_taken_for_one() -> None:
    chance = math.prod(len(remainders) / (prime - 1) for prime, remainders in weak_keys._REMAINDERS)
    assert chance < 2**-27
