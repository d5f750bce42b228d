"""Stolen tokens, cloned disks and replayed proofs against methods of possession and first use, in a whole cluster."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asynctest import async_test
from attested_world import CONTROLLERS, Machine, attested_world, configured, identity, outcome
from controller_world import NOW, World, answer, world
from device_certificates import authority, issue
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NAMESPACES, SECRETS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine, AllowedMachineSpec
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge
from kubevouch.api.kubevouch_v1alpha1.catalog import ALLOWED_MACHINES
from kubevouch.attestation import catalog
from kubevouch.attestation.insecure.evidence import WARNING
from kubevouch.attestation.interface import Asked, Attestor, Binding, Evidence
from kubevouch.controllers.machine_inventory import NAME as INVENTORY
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import join_tokens as phase
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.records import join_tokens
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs


class Prover(Machine):
    """A machine whose proofs the node's sides of real methods make, the first of them that of its signer."""

    def __init__(self, at: World, name: str, *attestors: Attestor) -> None:
        super().__init__(at, name, "")
        self.attestors = attestors
        self.provider = attestors[0].name

    async def prove(self, attestor: Attestor) -> Evidence:
        challenge: AttestationChallenge | None = None
        asked, nonce = None, b""
        if attestor.needs_challenge:
            challenge = await self.challenge(provider=attestor.name)
            nonce = challenge.status.nonce
            asked = Asked(challenge.metadata.name, nonce)
        cluster = (await self.at.client.get(NAMESPACES, "kube-system")).metadata.uid
        shown = await attestor.attest("v1", self.key, Binding(self.spki, cluster, nonce), asked)
        name = "" if challenge is None else challenge.metadata.name
        return Evidence(provider=attestor.name, version="v1", data=shown, challenge=name)

    async def ask(self) -> bytes:
        return self.request(*[await self.prove(each) for each in self.attestors])

    async def join(self) -> CertificateSigningRequest:
        return await self.file(await self.ask())

    def renew_key(self) -> None:
        self.key = keys.generate(KeyAlgorithm.ECDSA_P256)


async def made(name: str, **settings: Any) -> Attestor:
    return await catalog.attestor(name)({key: str(value) for key, value in settings.items()}, FakeClock())


def attestors(*names: str, more: str = "") -> str:
    return "attestors: [" + ", ".join(f"{{provider: {each}}}" for each in names) + "]\n" + more


async def token_for(at: World, machine: str, folder: Path) -> Attestor:
    """A new token, as the node's side reads it."""
    token = join_tokens.generate()
    record = join_tokens.plan(token, machine, dt.timedelta(hours=1), NOW)
    await phase.create(at.client, token, record, at.clock.now())
    path = folder / "token"
    path.touch(mode=0o600)
    path.write_text(token.text)
    return await made("join-token", tokenFile=path)


@asynccontextmanager
async def with_token(folder: Path) -> AsyncIterator[tuple[World, Attestor]]:
    """A cluster, and the token of worker-7."""
    async with attested_world(attestors("join-token")) as at:
        yield at, await token_for(at, "worker-7", folder)


@async_test
async def test_of_two_machines_with_one_token_one_joins(tmp_path: Path) -> None:
    async with with_token(tmp_path) as (at, token):
        machines = [Prover(at, "worker-7", token) for _ in range(2)]
        names = [await each.post(await each.ask()) for each in machines]
        await at.settle()
        outcomes = {outcome(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)) for name in names}
        assert outcomes in ({"issued", "denied: used"}, {"issued", "denied: already-used"})


@async_test
async def test_a_token_is_for_one_name_and_once_shown_for_no_other(tmp_path: Path) -> None:
    async with with_token(tmp_path) as (at, token):
        thief = Prover(at, "control-plane-1", token)
        assert outcome(await thief.join()) == "denied: node-name"
        assert await identity(at, "control-plane-1") is None
        # It is burnt, and loudly: the machine that it was for cannot join, and somebody looks.
        assert outcome(await Prover(at, "worker-7", token).join()) == "denied: used"


@async_test
async def test_who_is_stopped_between_token_and_claim_comes_again(tmp_path: Path) -> None:
    configuration = configured(attestors("join-token"))
    async with world() as at:
        first = at.start(*CONTROLLERS, attesting=configuration)
        await first.settle()
        machine = Prover(at, "worker-7", await token_for(at, "worker-7", tmp_path))
        asked = await machine.ask()
        # The token is used up, and the claim cannot be written.
        at.failures["POST"] = answer(500)
        filed = await machine.file(asked)
        assert outcome(filed) == "waits"
        secrets = (await at.client.list(SECRETS, wellknown.JOIN_TOKENS_NAMESPACE)).items
        assert ["used-by" in each.data for each in secrets] == [True]
        await at.stop(first)
        at.failures.clear()
        at.start(*CONTROLLERS, attesting=configuration)
        await at.settle()
        assert outcome(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, filed.metadata.name)) == "issued"
        # Another program with the same key, as after a restart of the machine.
        assert outcome(await machine.file(asked)) == "issued"
        machine.renew_key()
        assert outcome(await machine.join()) == "denied: used"


@async_test
async def test_a_replayed_request_is_of_no_use_to_another_key(tmp_path: Path) -> None:
    long: dict[str, Any] = {"begins": NOW - dt.timedelta(days=1), "ends": NOW + dt.timedelta(days=1)}
    root = authority("root", **long)
    device = issue("worker-7", root, **long)
    certificate, key = device.write(tmp_path)
    roots = tmp_path / "roots.pem"
    roots.write_text(root.pem)
    settings = f"attestors: [{{provider: x509pop, settings: {{rootsFile: {roots}, nodeName: commonName}}}}]\n"
    async with attested_world(settings) as at:
        machine = Prover(at, "worker-7", await made("x509pop", certificate=certificate, key=key))
        proof = await machine.prove(machine.attestors[0])
        thief = Prover(at, "worker-7", *machine.attestors)
        # Its challenge is for another key, and with one of its own the signature is over another nonce.
        assert outcome(await thief.file(thief.request(proof))) == "denied: challenge"
        own = await thief.prove(thief.attestors[0])
        stolen = Evidence(provider="x509pop", version="v1", data=proof.data, challenge=own.challenge)
        assert outcome(await thief.file(thief.request(stolen))) == "denied: signature"
        assert outcome(await machine.file(machine.request(proof))) == "issued"
        # Once more, as whoever has read it in the API would.
        assert outcome(await machine.file(machine.request(proof))) == "denied: challenge-used"


@async_test
async def test_a_cloned_disk_is_no_second_machine(tmp_path: Path) -> None:
    async with attested_world(attestors("tofu")) as at:
        first, other = await made("tofu", key=tmp_path / "one"), await made("tofu", key=tmp_path / "two")
        machine = Prover(at, "worker-7", first)
        assert outcome(await machine.join()) == "issued"
        before = await identity(at, "worker-7")
        assert outcome(await Prover(at, "worker-8", first).join()) == "denied: has-another-name"
        assert outcome(await Prover(at, "worker-7", other).join()) == "denied: name-taken"
        assert await identity(at, "worker-7") == before
        machine.become_node()
        machine.renew_key()
        assert outcome(await machine.join()) == "issued"


@async_test
async def test_no_proof_is_good_once_and_each_time_with_a_warning() -> None:
    async with attested_world(attestors("insecure", more="strength: insecure\n")) as at:
        machine = Prover(at, "worker-7", await made("insecure"))
        with capture_logs() as told:
            assert outcome(await machine.join()) == "issued"
            machine.become_node()
            assert outcome(await machine.join()) == "denied: name-taken"
        assert [each["event"] for each in told].count(WARNING) == 4
    async with attested_world(attestors("insecure")) as at:
        assert outcome(await Prover(at, "worker-7", await made("insecure")).join()) == "denied: strength"


@async_test
async def test_a_stolen_token_asks_from_elsewhere_and_the_machine_says_so(tmp_path: Path) -> None:
    here = await made("callback", host="127.0.0.1", port=0)
    settings = (
        "attestors: [{provider: tofu}, {provider: callback, settings: {networks: [127.0.0.0/8], port: PORT, "
        "allowUnprivilegedPort: true}}]\ngroups: [{name: called, nodeNames: ['*'], callback: true}]\n"
    )
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    await here.attest("v1", key, Binding(b"a request of the machine's own", "c", b"n"), None)
    try:
        port = here.port  # type: ignore[attr-defined]
        async with attested_world(settings.replace("PORT", str(port)), INVENTORY) as at:
            spec = AllowedMachineSpec(node_name="worker-7", addresses=["127.0.0.1"])
            await at.client.create(ALLOWED_MACHINES, AllowedMachine(metadata=ObjectMeta(name="m"), spec=spec))
            await at.settle()
            owner, thief = await made("tofu", key=tmp_path / "one"), await made("tofu", key=tmp_path / "two")
            # He has everything but the machine: no answer of his own, or one at an address that is not the machine's.
            assert outcome(await Prover(at, "worker-7", thief).join()) == "denied: callback"
            elsewhere = await made("callback", host="127.0.0.2", listen="127.0.0.2", port=port)
            assert outcome(await Prover(at, "worker-7", thief, elsewhere).join()) == "denied: callback"
            await elsewhere.close()
            silent: Any = Silent("127.0.0.1")
            assert outcome(await Prover(at, "worker-7", thief, silent).join()) == "denied: answer"
            assert await identity(at, "worker-7") is None
            assert outcome(await Prover(at, "worker-7", owner, here).join()) == "issued"
    finally:
        await here.close()


class Silent:
    """Says that it is called back at an address at which it cannot listen."""

    name = "callback"
    versions = ("v1",)
    needs_challenge = True

    def __init__(self, host: str) -> None:
        self._host = host

    async def attest(self, *_: object) -> bytes:
        return f'{{"host": "{self._host}"}}'.encode()
