"""controllers/approval/node_attestation.py: from a proof to a certificate, and whom nobody gives one."""

from __future__ import annotations

import datetime as dt
from typing import Any, cast

import msgspec
import pytest

from asynctest import async_test
from attested_world import (
    CONTROLLERS,
    NULL,
    Machine,
    attested_world,
    certificate,
    configured,
    events,
    identity,
    outcome,
    shown,
)
from controller_world import World, world
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, EVENTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from kubevouch.api.core_v1.nodes import Node, NodeCondition, NodeSpec, NodeStatus
from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine, AllowedMachineSpec, ProvenIdentity
from kubevouch.api.kubevouch_v1alpha1.catalog import ALLOWED_MACHINES, ATTESTATION_CHALLENGES, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import ExpectedHardware, NodeIdentitySpec
from kubevouch.attestation import request as blocks
from kubevouch.attestation.interface import Evidence
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers.approval.kubelet_client import LeftToOthers
from kubevouch.controllers.interface import IgnorableError
from kubevouch.controllers.machine_inventory import NAME as INVENTORY
from kubevouch.controllers.node_attestation import MAX_CONTENT
from kubevouch.ledger.entries import APPROVED, ISSUED, Entry, Query
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import x509_request
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER, SUPPORTED_VERSIONS_ANNOTATION

STOCK = {"signer_name": KUBE_APISERVER_CLIENT_KUBELET_SIGNER}


async def operator_says(at: World, name: str, **spec: Any) -> None:
    found = await identity(at, name)
    assert found is not None
    await at.client.update(NODE_IDENTITIES, msgspec.structs.replace(found, spec=NodeIdentitySpec(**spec)))
    await at.settle()


async def written(at: World, kind: str) -> list[Entry]:
    return [each.entry for each in await at.ledger.find(Query(kinds=frozenset({kind})))]


@async_test
async def test_a_machine_that_proves_what_it_is_becomes_the_node() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1", claims={"rack": "r1"})
        joined = await machine.join()
        assert outcome(joined) == "issued"
        leaf = certificate(joined)
        assert leaf.subject.common_name == "system:node:worker-7"
        assert leaf.not_after - at.clock.now() <= dt.timedelta(days=14)
        found = await identity(at, "worker-7")
        assert found is not None
        assert (found.status.provider, found.status.identity) == ("null", "m-1")
        assert [(each.name, each.value) for each in found.status.claims] == [("rack", "r1")]
        assert [each.event for each in found.status.history] == ["Claimed"]
        approved = await written(at, APPROVED)
        assert approved[0].evidence["proofs"][0]["identity"] == "m-1"
        assert approved[0].rules == "0" * 64
        # It renews by proving it again, as the node.
        machine.become_node()
        assert outcome(await machine.join()) == "issued"


@async_test
async def test_a_second_machine_never_gets_the_name_and_the_claim_stays_as_it_was() -> None:
    async with attested_world() as at:
        await Machine(at, "worker-7", "m-1").join()
        before = await identity(at, "worker-7")
        thief = Machine(at, "worker-7", "m-2", token="aaaaaa")
        assert outcome(await thief.join()) == "denied: name-taken"
        assert await identity(at, "worker-7") == before
        told = [each for each in (await at.client.list(EVENTS, "default")).items if each.reason == "AttestationRefused"]
        assert told[0].involved_object.kind == "NodeIdentity"
        # Nor does the first one get another name.
        second = Machine(at, "worker-8", "m-1")
        assert outcome(await second.join()) == "denied: has-another-name"
        assert await identity(at, "worker-8") is None


@async_test
async def test_a_captured_request_or_answer_is_good_for_nothing() -> None:
    async with attested_world() as at:
        machine, thief = Machine(at, "worker-7", "m-1"), Machine(at, "worker-9", "m-1", token="aaaaaa")
        challenge = await machine.challenge()
        proof = await machine.evidence(challenge)
        request = machine.request(proof)
        # For another key.
        assert outcome(await thief.file(thief.request(proof))) == "denied: challenge"
        own = await thief.challenge()
        assert outcome(
            await thief.file(thief.request(msgspec.structs.replace(proof, challenge=own.metadata.name)))
        ) == ("denied: binding")
        # Without a challenge, or with one of nobody.
        for name in ("", "attest-none", "../x"):
            bare = msgspec.structs.replace(await thief.evidence(None), challenge=name)
            assert outcome(await thief.file(thief.request(bare))) == "denied: challenge"
        assert outcome(await machine.file(request)) == "issued"
        # The same once more, by whoever has seen it: the challenge was answered.
        for who in (machine, thief):
            assert outcome(await who.file(request)) == "denied: challenge-used"


@async_test
async def test_an_answer_comes_in_time_or_never() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        proof = await machine.evidence(await machine.challenge())
        at.clock.advance(119)
        assert outcome(await machine.file(machine.request(proof))) == "issued"
        late = await machine.evidence(await machine.challenge())
        at.clock.advance(121.5)
        assert outcome(await machine.file(machine.request(late))) in ("denied: challenge-expired", "denied: challenge")
        at.clock.advance(60)
        await at.settle()
        assert (await at.client.list(ATTESTATION_CHALLENGES)).items == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"refuse": "signature"}, "denied: signature"),
        ({"node_name": "worker-8"}, "denied: node-name"),
        ({"node_name": "Worker/7"}, "denied: node-name"),
        ({"identity": ""}, "denied: identity"),
        ({"provider_id": "demo://7"}, "issued"),
    ],
)
@async_test
async def test_what_is_proven_decides(change: dict[str, Any], expected: str) -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        shown(machine, **change)
        assert outcome(await machine.join()) == expected


@async_test
async def test_requests_that_are_not_what_they_should_be_are_denied() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        proof = await machine.evidence(await machine.challenge())
        assert outcome(await machine.file(machine.request())) == "denied: provider"
        other = Evidence(provider="tpm", version="v1", data=proof.data, challenge=proof.challenge)
        assert outcome(await machine.file(machine.request(other))) == "denied: provider"
        assert outcome(await machine.file(machine.request(proof, other))) == "denied: provider"
        usages = ["digital signature", "client auth", "server auth"]
        assert outcome(await machine.file(machine.request(proof), usages=usages)) == "denied: usages"
        assert outcome(await machine.file(machine.request(proof))) == "issued"


@async_test
async def test_evidence_counts_at_the_signer_of_its_method_only() -> None:
    async with attested_world("attestors: [{provider: 'null'}, {provider: insecure}]\n") as at:
        machine = Machine(at, "worker-7", "m-1")
        proof = await machine.evidence(await machine.challenge())
        other = {"signer_name": "cluster.x-k8s.io/kube-apiserver-client-kubelet-insecure"}
        assert outcome(await machine.file(machine.request(proof), **other)) == "denied: provider"
        assert outcome(await machine.file(machine.request(proof))) == "issued"


@async_test
async def test_a_version_that_is_not_read_is_answered_by_those_that_are() -> None:
    async with attested_world("attestors: [{provider: 'null', settings: {versions: [v3, v2]}}]\n") as at:
        machine = Machine(at, "worker-7", "m-1")
        challenge = await machine.challenge()
        assert (challenge.status.supported_versions, challenge.status.nonce) == (["v3", "v2"], b"")
        filed = await machine.file(machine.request(Evidence(provider="null", version="v1", data=b"{}")))
        assert outcome(filed) == "waits"
        assert filed.metadata.annotations[SUPPORTED_VERSIONS_ANNOTATION] == "v3,v2"


@async_test
async def test_of_several_proofs_the_versions_say_whose_they_are() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        first = await machine.evidence(await machine.challenge())
        old = msgspec.structs.replace(first, version="v0")
        filed = await machine.file(
            blocks.build(machine.request(), [old, Evidence(provider="tpm", version="v1", data=b"1")])
        )
        assert filed.metadata.annotations[SUPPORTED_VERSIONS_ANNOTATION] == "null/v1"


@async_test
async def test_who_cannot_be_asked_is_waited_for() -> None:
    async with attested_world("attestors: [{provider: 'null', settings: {unavailable: throttled}}]\n") as at:
        assert outcome(await Machine(at, "worker-7", "m-1").join()) == "waits"
        assert await identity(at, "worker-7") is None


@async_test
async def test_a_challenge_of_no_method_or_for_a_wrong_opening_is_refused() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        large = {"opening": b"x" * (MAX_CONTENT // 2 + 1)}
        for spec, reason in (({"provider": "tpm"}, "Provider"), ({"opening": b"refuse"}, "opening"), (large, "size")):
            refused = await machine.challenge(**spec)
            assert [(each.type, each.reason) for each in refused.status.conditions] == [("Refused", reason)]
            assert not refused.status.nonce
            assert outcome(await machine.file(machine.request(await machine.evidence(refused)))) == "denied: challenge"


@async_test
async def test_nobodys_hand_makes_a_certificate_of_a_proof_that_was_not_shown() -> None:
    """Neither an approval by a person, nor for another request than that of the grant."""
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        await machine.join()
        thief = Machine(at, "worker-7", "m-2")
        made = await thief.client.create(
            CERTIFICATE_SIGNING_REQUESTS,
            CertificateSigningRequest(
                metadata=ObjectMeta(name="by-hand"),
                spec=(await at.client.list(CERTIFICATE_SIGNING_REQUESTS)).items[0].spec,
            ),
        )
        condition = CertificateSigningRequestCondition(type="Approved", status="True", reason="Hand", message="m")
        status = msgspec.structs.replace(made.status, conditions=[condition])
        await at.client.update(
            CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(made, status=status), subresource="approval"
        )
        await at.settle()
        filed = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "by-hand")
        assert outcome(filed).startswith("failed: ")
        assert "nothing is granted" in outcome(filed)


@async_test
async def test_a_bootstrap_token_alone_becomes_no_node_where_machines_prove_what_they_are() -> None:
    async with attested_world() as at:
        await Machine(at, "worker-7", "m-1").join()
        thief = Machine(at, "worker-7", "", token="aaaaaa")
        assert outcome(await thief.file(thief.request(), **STOCK)) == "denied: name-taken"
        fresh = Machine(at, "worker-9", "", token="aaaaaa")
        assert outcome(await fresh.file(fresh.request(), **STOCK)) == "waits"


@async_test
async def test_a_weaker_way_is_open_where_the_operator_opens_it_and_never_to_a_name_that_was_proven() -> None:
    async with attested_world(NULL + "fallbacks: {bootstrapToken: true}\n") as at:
        await Machine(at, "worker-7", "m-1").join()
        thief = Machine(at, "worker-7", "", token="aaaaaa")
        assert outcome(await thief.file(thief.request(), **STOCK)) == "denied: name-taken"


@async_test
async def test_who_is_banned_gets_nothing_under_no_name_and_by_no_way() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        await machine.join()
        await operator_says(at, "worker-7", banned=True, banned_reason="stolen")
        assert outcome(await machine.join()) == "denied: banned"
        machine.become_node()
        assert outcome(await machine.join()) == "denied: banned"
        assert outcome(await machine.file(machine.request(), **STOCK)) == "denied: banned"
        again = Machine(at, "worker-8", "m-1")
        assert outcome(await again.join()) == "denied: banned"
        same_key = Machine(at, "worker-9", "m-9")
        same_key.key = machine.key
        assert outcome(await same_key.join()) == "denied: banned"
        await operator_says(at, "worker-7")
        assert outcome(await machine.join()) == "issued"


@async_test
async def test_another_machine_takes_the_place_once_when_the_operator_says_so() -> None:
    async with attested_world() as at:
        await Machine(at, "worker-7", "m-1").join()
        until = Time.of(at.clock.now() + dt.timedelta(hours=1))
        await operator_says(at, "worker-7", expect_new_hardware=ExpectedHardware(until=until))
        assert outcome(await Machine(at, "worker-7", "m-2").join()) == "issued"
        assert outcome(await Machine(at, "worker-7", "m-3").join()) == "denied: name-taken"
        assert outcome(await Machine(at, "worker-7", "m-1").join()) == "denied: name-taken"
        assert "NodeReplaced" in await events(at)


@async_test
async def test_a_group_asks_for_more() -> None:
    text = NULL + "strength: first-use\ngroups: [{name: cp, nodeNames: ['cp-*'], strength: tpm}]\n"
    async with attested_world(text) as at:
        weak = Machine(at, "cp-1", "m-1", strength="key")
        assert outcome(await weak.join()) == "denied: strength"
        weak.name = "worker-1"
        joined = await weak.join()
        assert outcome(joined) == "issued"
        assert certificate(joined).not_after - at.clock.now() <= dt.timedelta(days=7)
        assert outcome(await Machine(at, "worker-2", "m-2", strength="token").join()) == "denied: strength"


# ------------------------------------------------------------------ inventory


async def expect(at: World, name: str, **spec: Any) -> None:
    machine = AllowedMachine(metadata=ObjectMeta(name=name), spec=AllowedMachineSpec(node_name=name, **spec))
    await at.client.create(ALLOWED_MACHINES, machine)


@async_test
async def test_a_machine_is_waited_for_and_has_to_be_the_one_that_is_expected() -> None:
    text = NULL + "machines: Required\nmachineGraceSeconds: 600\n"
    async with attested_world(text, INVENTORY) as at:
        machine = Machine(at, "worker-7", "m-1", provider_id="demo://7")
        filed = await machine.join()
        assert outcome(filed) == "waits"
        # Longer than its challenge lasts, and than a program: it was answered in time, and is kept for whoever comes.
        await at.clock.run(300)
        await at.settle()
        await at.stop(at.latest)
        at.start(*CONTROLLERS, INVENTORY, attesting=configured(text))
        await at.settle()
        await expect(at, "worker-7", identities=[ProvenIdentity(provider="null", identity="m-1")])
        await at.settle()
        assert outcome(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, filed.metadata.name)) == "issued"
        await expect(at, "worker-8", identities=[ProvenIdentity(provider="null", identity="m-8")])
        assert outcome(await Machine(at, "worker-8", "m-2").join()) == "denied: machine-identity"
        assert outcome(await Machine(at, "worker-9", "m-8").join()) == "denied: machine-name"
        await expect(at, "worker-6", provider_id="demo://6")
        assert outcome(await Machine(at, "worker-6", "m-6", provider_id="demo://5").join()) == "denied: provider-id"


@async_test
async def test_a_node_that_lives_is_taken_over_by_nobody() -> None:
    async with attested_world() as at:
        ready = NodeStatus(conditions=[NodeCondition(type="Ready", status="True")])
        await at.put(
            NODES,
            Node(metadata=ObjectMeta(name="worker-7", uid="n1"), spec=NodeSpec(provider_id="demo://5"), status=ready),
        )
        await at.settle()
        assert outcome(await Machine(at, "worker-7", "m-1", provider_id="demo://7").join()) == "denied: live-node"
        assert outcome(await Machine(at, "worker-7", "m-2").join()) == "denied: live-node"
        assert outcome(await Machine(at, "worker-7", "m-3", provider_id="demo://5").join()) == "issued"


@async_test
async def test_a_machine_that_joined_without_a_proof_and_is_away_keeps_its_name() -> None:
    async with attested_world(NULL + "fallbacks: {bootstrapToken: true}\n") as at:
        old = Machine(at, "worker-7", "m-1")
        assert outcome(await old.file(old.request(), **STOCK)) == "issued"
        # Its Node is not there, or not ready: its certificate counts.
        assert outcome(await Machine(at, "worker-7", "m-2", token="aaaaaa").join()).startswith(
            "denied: the name worker-7"
        )
        assert await identity(at, "worker-7") is None
        # It proves what it is as the node that it is, and is held to that from then on.
        old.become_node()
        old.key = Machine(at, "x", "y").key
        assert outcome(await old.join()) == "issued"
        assert outcome(await Machine(at, "worker-7", "m-2", token="aaaaaa").join()) == "denied: name-taken"


@async_test
async def test_who_has_another_method_elsewhere_is_left_alone() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        filed = await machine.file(
            machine.request(), signer_name="cluster.x-k8s.io/kube-apiserver-client-kubelet-vendor"
        )
        assert outcome(filed) == "waits"


# ------------------------------------------------------------------ serving certificates

SERVES = "cluster.x-k8s.io/kubelet-serving-null"


@async_test
async def test_what_was_proven_justifies_names_and_addresses_of_a_serving_certificate() -> None:
    async with attested_world(serving=True) as at:
        machine = Machine(at, "worker-7", "m-1", addresses=("10.0.0.7",), dns_names=("w7.rack.example",))
        await machine.join()
        machine.become_node()
        for signer in (SERVES, "kubernetes.io/kubelet-serving"):
            assert outcome(await machine.serve(signer, "10.0.0.7", "w7.rack.example")) == "issued"
        assert outcome(await machine.serve(SERVES, "10.0.0.8")) == "waits"
        assert outcome(await machine.serve(SERVES, "169.254.169.254")).startswith("denied")
        found = await identity(at, "worker-7")
        assert found is not None
        assert len(found.status.granted) == 2


@async_test
async def test_an_attested_signer_serves_nobody_who_has_not_proven_what_it_is() -> None:
    async with attested_world(serving=True) as at:
        nobody = Machine(at, "worker-9", "")
        nobody.become_node()
        assert outcome(await nobody.serve(SERVES, "10.0.0.9")) == "waits"
        machine = Machine(at, "worker-7", "m-1", addresses=("10.0.0.7",))
        await machine.join()
        machine.become_node()
        await operator_says(at, "worker-7", banned=True)
        assert outcome(await machine.serve(SERVES, "10.0.0.7")) == "denied: banned"
        assert outcome(await machine.serve("kubernetes.io/kubelet-serving", "10.0.0.7")) == "denied: banned"


# ------------------------------------------------------------------ at once, and after a stop


@async_test
async def test_of_two_machines_at_once_one_has_the_name_and_of_two_controllers_one_issues() -> None:
    async with attested_world() as at:
        at.start(*CONTROLLERS, attesting=configured())
        await at.settle()
        rivals = [Machine(at, "worker-7", f"m-{number}", token=f"aaaaa{number}") for number in range(4)]
        requests = [rival.request(await rival.evidence(await rival.challenge())) for rival in rivals]
        made = [await rival.post(request) for rival, request in zip(rivals, requests, strict=True)]
        await at.settle_all()
        found = [await at.client.get(CERTIFICATE_SIGNING_REQUESTS, each) for each in made]
        assert sorted(map(outcome, found)) == [*["denied: name-taken"] * 3, "issued"]
        assert len(await written(at, ISSUED)) == 1


@async_test
async def test_a_machine_that_asks_for_two_names_at_once_has_one_at_most() -> None:
    async with attested_world() as at:
        at.start(*CONTROLLERS, attesting=configured())
        await at.settle()
        both = [Machine(at, f"worker-{number}", "m-1", token=f"aaaaa{number}") for number in range(2)]
        requests = [each.request(await each.evidence(await each.challenge())) for each in both]
        made = [await each.post(request) for each, request in zip(both, requests, strict=True)]
        await at.settle_all()
        found = [await at.client.get(CERTIFICATE_SIGNING_REQUESTS, each) for each in made]
        assert len([each for each in found if outcome(each) == "issued"]) <= 1
        claimed = [each for each in (await at.client.list(NODE_IDENTITIES)).items if each.status.identity]
        assert len(claimed) <= 1


class Dying:
    """A client of a program that is killed at its n-th write: after it, or, with ``before``, instead of it."""

    def __init__(self, at: int, *, before: bool) -> None:
        self.left = at
        self.before = before
        self.dead = False
        self.writes: list[str] = []

    def wrap(self, client: Client) -> Client:
        dying = self

        class Wrapped:
            def __getattr__(self, verb: str) -> Any:
                return getattr(client, verb)

            async def create(self, resource: Any, obj: Any, *args: Any, **more: Any) -> Any:
                return await dying.write(f"create {resource.plural}", client.create(resource, obj, *args, **more))

            async def update(self, resource: Any, obj: Any, *args: Any, **more: Any) -> Any:
                what = f"update {resource.plural}/{more.get('subresource', '')}"
                return await dying.write(what, client.update(resource, obj, *args, **more))

        return cast("Client", Wrapped())

    async def write(self, what: str, call: Any) -> Any:
        if "subjectaccessreviews" in what or "events" in what:
            return await call
        if self.dead or (self.left == 1 and self.before):
            self.dead = True
            call.close()
            raise TransportError("the program is gone")
        self.left -= 1
        self.writes.append(what)
        done = await call
        if not self.left:
            self.dead = True
            raise TransportError("the program is gone")
        return done


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("step", range(1, 7))
@async_test
async def test_who_is_stopped_anywhere_is_followed_by_somebody_who_goes_on(step: int, before: bool) -> None:
    """A12: claimed, and then nothing, locks nobody out; and nothing is issued twice."""
    async with world() as at:
        dying = Dying(step, before=before)
        first = at.start(*CONTROLLERS, attesting=configured(), wrap=dying.wrap)
        machine = Machine(at, "worker-7", "m-1", renewable=False)
        await first.settle()
        name = ""
        challenge = await machine.challenge()
        if challenge.status.nonce:
            name = await machine.post(machine.request(await machine.evidence(challenge)))
            await first.settle()
        await at.stop(first)
        assert dying.dead
        at.start(*CONTROLLERS, attesting=configured())
        await at.settle()
        if not name:
            name = await machine.post(machine.request(await machine.evidence(await machine.challenge())))
        await at.settle()
        assert outcome(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)) == "issued"
        found = await identity(at, "worker-7")
        assert found is not None
        assert [each.event for each in found.status.history] == ["Claimed"]
        assert len(await written(at, ISSUED)) == 1


@async_test
async def test_proofs_count_where_the_kubelets_own_signer_is_left_to_others() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        attested = await machine.join()
        left = LeftToOthers()
        wanted = x509_request.parse_pem(attested.spec.request or b"")
        await left.admit(attested, wanted)
        stock = msgspec.structs.replace(attested.spec, signer_name=KUBE_APISERVER_CLIENT_KUBELET_SIGNER)
        with pytest.raises(IgnorableError, match="left to kube-controller-manager"):
            await left.admit(msgspec.structs.replace(attested, spec=stock), wanted)
