"""Somebody with a stolen token, or a node, against how machines prove what they are."""

from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from attested_world import Machine, attested_world
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge, AttestationChallengeSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference

_OWNER = OwnerReference(api_version="v1", kind="Node", name="worker-7", uid="1", block_owner_deletion=True)


@async_test
async def test_no_challenge_outlives_its_two_minutes_by_what_its_maker_writes() -> None:
    async with attested_world() as at:
        thief = Machine(at, "worker-7", "m-1")
        node = Machine(at, "worker-7", "m-1")
        node.become_node()
        spec = AttestationChallengeSpec(provider="null", version="v1", key_fingerprint="0" * 64)
        kept: tuple[dict[str, Any], ...] = ({"finalizers": ["a.b/c"]}, {"owner_references": [_OWNER]})
        for machine in (thief, node):
            for more in kept:
                made = AttestationChallenge(metadata=ObjectMeta(generate_name="attest-", **more), spec=spec)
                with pytest.raises(APIStatusError, match="forbidden"):
                    await machine.client.create(ATTESTATION_CHALLENGES, made)
            await machine.challenge()
