"""What a method of attestation leads to: client certificate, serving certificate, rotation, for each that there is.

"An insecure provider CANNOT implement certificate rotation or kubelet serving certificate signing. … A secure provider
MUST implement certificate rotation and kubelet server certificate signing" (Cluster API proposal "Kubelet
authentication", 2021, "Provider Specification"). The node here reports any address, as it may, and asks for it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from attested_world import Machine, attested_world, identity, outcome
from controller_world import World
from kubevouch.api.attested import Strength
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.attestation import catalog
from kubevouch.attestation.insecure.evidence import PROVES, Proof
from kubevouch.attestation.interface import Attested, Binding, Challenge, Evidence, MakeVerifier, Sources
from kubevouch.config.attestation_config import AttestationConfiguration
from kubevouch.controllers.attestation import Attestation
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from null_attestation import NullVerifier, Settings
from serving_requests import node_with, report

CLIENT, SERVING = "cluster.x-k8s.io/kube-apiserver-client-kubelet-", "cluster.x-k8s.io/kubelet-serving-"
KUBERNETES_SERVING, KUBERNETES_CLIENT = "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"
ADDRESS = "192.0.2.77"
NEVER = "denied: insecure"

# What the proof of each method is worth, whether it can be shown anew, and what becomes of the three requests.
TABLE: Mapping[str, tuple[Strength, bool, str, str, str]] = {
    "insecure": (Strength.INSECURE, False, "issued", NEVER, "denied: name-taken"),
    "join-token": (Strength.TOKEN, False, "issued", "issued", "issued"),
    "callback": (Strength.TOKEN, True, "issued", "issued", "issued"),
    "tofu": (Strength.FIRST_USE, True, "issued", "issued", "issued"),
    "x509pop": (Strength.KEY, True, "issued", "issued", "issued"),
    "sshpop": (Strength.KEY, True, "issued", "issued", "issued"),
    "spiffe": (Strength.KEY, True, "issued", "issued", "issued"),
    "gke": (Strength.KEY, True, "issued", "issued", "issued"),
    "aws": (Strength.CLOUD, True, "issued", "issued", "issued"),
    "azure": (Strength.CLOUD, True, "issued", "issued", "issued"),
    "gcp": (Strength.CLOUD, True, "issued", "issued", "issued"),
    "tpm": (Strength.TPM, True, "issued", "issued", "issued"),
}
NULL = "null"


class Named(NullVerifier):
    """A verifier that believes what it is told, under the name of a real method: whose proofs have tests of their own,
    while here it is what becomes of them."""

    def __init__(self, name: str) -> None:
        super().__init__(Settings())
        self.name = name

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        found = await super().verify_client(evidence, binding, challenge, now)
        return msgspec.structs.replace(found, provider=self.name)


class Bare(Machine):
    """A machine that shows nothing."""

    async def evidence(self, challenge: AttestationChallenge | None) -> Evidence:
        shown = await super().evidence(challenge)
        return msgspec.structs.replace(shown, data=msgspec.json.encode(Proof(proves=PROVES)))


@pytest.fixture(autouse=True)
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = catalog.verifier

    def verifier(name: str) -> MakeVerifier:
        if name in ("insecure", NULL):
            return real(name)

        def make(settings: Mapping[str, Any], sources: Sources) -> Named:
            return Named(name)

        return make

    monkeypatch.setattr(catalog, "verifier", verifier)


def test_each_method_has_its_row() -> None:
    assert {*TABLE, NULL} == set(catalog.names(catalog.VERIFIERS))


def configuration(provider: str) -> str:
    return f"attestors: [{{provider: {provider!r}}}]\nstrength: insecure\n"


async def machine_of(at: World, provider: str, **shown: Any) -> Machine:
    """A machine that joins by a method, and its Node, which reports an address that nobody has checked."""
    kind = Bare if provider == "insecure" else Machine
    machine = kind(at, "worker-7", "m-1", **shown)
    machine.provider = provider
    await report(at, node_with("worker-7", [("InternalIP", ADDRESS)]))
    return machine


@pytest.mark.parametrize("provider", TABLE)
@async_test
async def test_client_serving_and_rotation_of_each_method(provider: str) -> None:
    strength, renewable, client, serving, rotation = TABLE[provider]
    async with attested_world(configuration(provider), serving=True) as at:
        machine = await machine_of(at, provider, strength=strength, renewable=renewable)
        assert outcome(await machine.join()) == client
        found = await identity(at, "worker-7")
        assert found is not None
        assert (found.status.provider, found.status.strength) == (provider, str(strength))
        machine.become_node()
        assert outcome(await machine.serve(f"{SERVING}{provider}", ADDRESS)) == serving
        # The way around by the signer that asks for no proof.
        around = "waits" if provider == "insecure" else "issued"
        assert outcome(await machine.serve(KUBERNETES_SERVING, ADDRESS)) == around
        machine.key = keys.generate(KeyAlgorithm.ECDSA_P256)
        assert outcome(await machine.join()) == rotation


@async_test
async def test_a_name_that_was_let_go_is_renewed_by_no_proof_either() -> None:
    async with attested_world(configuration("insecure"), serving=True) as at:
        machine = await machine_of(at, "insecure")
        assert outcome(await machine.join()) == "issued"
        await at.client.delete(NODE_IDENTITIES, "worker-7")
        await at.settle()
        machine.become_node()
        assert outcome(await machine.join()) == NEVER
        assert await identity(at, "worker-7") is None
        # Nor by the signers that ask for no proof.
        assert outcome(await machine.serve(KUBERNETES_SERVING, ADDRESS)) == "waits"
        assert outcome(await machine.file(machine.request(), signer_name=KUBERNETES_CLIENT)) == "waits"


@pytest.mark.parametrize(("fallbacks", "renewal"), [("{}", "waits"), ("{selfRenewal: true}", "issued")])
@async_test
async def test_a_name_that_was_let_go_is_proven_anew(fallbacks: str, renewal: str) -> None:
    async with attested_world(f"attestors: [{{provider: 'null'}}]\nfallbacks: {fallbacks}\n", serving=True) as at:
        machine = await machine_of(at, NULL)
        assert outcome(await machine.join()) == "issued"
        await at.client.delete(NODE_IDENTITIES, "worker-7")
        await at.settle()
        machine.become_node()
        assert outcome(await machine.serve(KUBERNETES_SERVING, ADDRESS)) == "issued"
        assert outcome(await machine.file(machine.request(), signer_name=KUBERNETES_CLIENT)) == renewal
        assert outcome(await machine.join()) == "issued"


@pytest.mark.parametrize("own", [True, False])
@async_test
async def test_no_method_that_says_that_it_proves_nothing_serves_or_renews(own: bool) -> None:
    """As one of somebody else's, which knows its machines again."""
    async with attested_world(configuration(NULL), serving=True) as at:
        machine = await machine_of(at, NULL, strength=Strength.INSECURE)
        assert outcome(await machine.join()) == "issued"
        machine.key = keys.generate(KeyAlgorithm.ECDSA_P256)
        if own:
            machine.become_node()
            assert outcome(await machine.serve(f"{SERVING}{NULL}", ADDRESS)) == NEVER
        assert outcome(await machine.join()) == NEVER


@async_test
async def test_a_stronger_proof_in_the_same_request_opens_no_serving_signer_of_the_weaker() -> None:
    text = "attestors: [{provider: insecure}, {provider: 'null'}]\nstrength: insecure\n"
    async with attested_world(text, serving=True) as at:
        machine = await machine_of(at, "insecure")
        bare = await machine.evidence(await machine.challenge())
        stronger = Machine(at, "worker-7", "m-1")
        stronger.key = machine.key
        proven = await stronger.evidence(await stronger.challenge())
        assert outcome(await machine.file(machine.request(bare, proven))) == "issued"
        found = await identity(at, "worker-7")
        assert found is not None and (found.status.provider, found.status.strength) == ("insecure", "tpm")
        machine.become_node()
        assert outcome(await machine.serve(f"{SERVING}insecure", ADDRESS)) == NEVER


def test_nothing_signs_serving_certificates_for_the_method_that_proves_nothing() -> None:
    """Whoever approves them."""
    config = AttestationConfiguration()
    names = Attestation(config, {name: Named(name) for name in TABLE}).signer_names()
    assert set(names) == {f"{prefix}{name}" for name in TABLE for prefix in (CLIENT, SERVING)} - {f"{SERVING}insecure"}
