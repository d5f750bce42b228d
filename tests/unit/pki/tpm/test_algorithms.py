from __future__ import annotations

import hashlib

import pytest

from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms


def test_hashes_are_found_by_their_identifiers() -> None:
    for name, identifier in algorithms.BANKS.items():
        found = algorithms.hash_of(identifier)
        assert found.digest(b"x") == hashlib.new(name, b"x").digest()
        assert found.size == hashlib.new(name).digest_size == found.algorithm.digest_size


@pytest.mark.parametrize("identifier", [0, algorithms.SHA1, algorithms.RSA, algorithms.NULL, 0xFFFF])
def test_nothing_rests_on_a_weak_hash_or_on_none(identifier: int) -> None:
    with pytest.raises(StructureError, match="expected sha256, sha384 or sha512"):
        algorithms.strong_hash_of(identifier)


def test_an_unknown_hash_is_refused() -> None:
    with pytest.raises(StructureError, match="got hash algorithm 0012"):
        algorithms.hash_of(0x12)
