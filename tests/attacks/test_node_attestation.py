"""Somebody with a stolen token, or a node, against how machines prove what they are."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from asynctest import async_test
from attested_world import NULL, Machine, attested_world, events, identity, outcome
from kubevouch.api.catalog import NODES
from kubevouch.api.core_v1.nodes import Node
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge, AttestationChallengeSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.api.kubevouch_v1alpha1.node_identities import MAX_IDENTITY
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.phases import node_identities
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

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


@async_test
async def test_a_name_that_is_kept_for_one_machine_is_nobody_elses_once_its_node_is_gone() -> None:
    async with attested_world() as at:
        await Machine(at, "worker-7", "m-1").join()
        await at.client.create(NODES, Node(metadata=ObjectMeta(name="worker-7")))
        await at.settle()
        await node_identities.replace(at.client, "worker-7", at.clock.now() + dt.timedelta(hours=1), "m-2")
        await at.client.delete(NODES, "worker-7")
        await at.settle()
        assert outcome(await Machine(at, "worker-7", "m-9").join()) == "denied: other-hardware"
        assert outcome(await Machine(at, "worker-7", "m-2").join()) == "issued"
        found = await identity(at, "worker-7")
        assert found is not None
        assert [each.identity for each in found.status.history] == ["m-1", "m-2"]
        # It came, and went: that was all that the operator has said.
        await at.client.create(NODES, Node(metadata=ObjectMeta(name="worker-7")))
        await at.settle()
        await at.client.delete(NODES, "worker-7")
        await at.settle()
        assert await identity(at, "worker-7") is None


@async_test
async def test_one_machine_has_one_name_and_one_ban_whatever_method_it_shows_itself_by() -> None:
    async with attested_world() as at:
        instance = "gce://project/zone/instance"
        assert outcome(await Machine(at, "worker-7", "by-one", provider_id=instance).join()) == "issued"
        again = Machine(at, "worker-8", "by-another", provider_id=instance)
        assert outcome(await again.join()) == "denied: has-another-name"
        await node_identities.ban(at.client, "worker-7", "stolen")
        await at.settle()
        evades = Machine(at, "worker-9", "by-a-third", provider_id=instance)
        assert outcome(await evades.join()) == "denied: banned"
        assert outcome(await Machine(at, "worker-9", "by-a-third", provider_id=f"{instance}-2").join()) == "issued"


@async_test
async def test_a_copied_certificate_gives_no_other_one_by_kubernetes_own_signer() -> None:
    stock = KUBE_APISERVER_CLIENT_KUBELET_SIGNER
    for text, wanted in ((NULL, "waits"), (f"{NULL}fallbacks: {{selfRenewal: true}}\n", "issued")):
        async with attested_world(text) as at:
            machine = Machine(at, "worker-7", "m-1")
            await machine.join()
            machine.become_node()
            machine.key = keys.generate(KeyAlgorithm.ECDSA_P256)
            assert outcome(await machine.file(machine.request(), signer_name=stock)) == wanted
            assert ("AttestationFallback" in await events(at)) == (wanted == "issued")
            assert outcome(await machine.join()) == "issued"


@async_test
async def test_an_identity_that_no_claim_can_hold_is_refused_and_not_tried_for_ever() -> None:
    async with attested_world() as at:
        assert outcome(await Machine(at, "worker-7", "m" * MAX_IDENTITY).join()) == "issued"
        assert outcome(await Machine(at, "worker-8", "m" * (MAX_IDENTITY + 1)).join()) == "denied: identity"
