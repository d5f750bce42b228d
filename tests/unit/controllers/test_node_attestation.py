"""How much one requester may have asked at a time."""

from __future__ import annotations

from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import (
    MAX_OPENING,
    AttestationChallenge,
    AttestationChallengeSpec,
)
from kubevouch.controllers.node_attestation import MAX_BYTES_OF_ONE, MAX_OF_ONE, are_too_many


def challenges(count: int, opening: bytes) -> list[AttestationChallenge]:
    made = AttestationChallenge(
        spec=AttestationChallengeSpec(provider="tpm", version="v1", key_fingerprint="ab" * 32, opening=opening)
    )
    return [made] * count


def test_challenges_of_one_requester_are_bounded_by_number_and_by_bytes() -> None:
    assert not are_too_many(challenges(MAX_OF_ONE, b"x" * 4096))
    assert are_too_many(challenges(MAX_OF_ONE + 1, b""))
    most = MAX_BYTES_OF_ONE // MAX_OPENING
    assert not are_too_many(challenges(most, b"x" * MAX_OPENING))
    assert are_too_many(challenges(most + 1, b"x" * MAX_OPENING))
