"""Somebody with a token asks to be called where nobody answers; everybody else's certificate does not wait for that."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from aio import until
from asynctest import async_test
from attested_world import CONTROLLERS, Machine, attested_world, configured, outcome
from controller_world import FIXTURES, NOW, World, fixture, world
from device_certificates import authority, issue
from fixed_ports import free_port
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import Asked, Attestor, Binding, Evidence
from kubevouch.client.stored import find
from kubevouch.controllers import csr_approving, csr_signing
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.node_attestation import NAME as ATTESTING
from kubevouch.controllers.outside_questions import OF_SOURCE_AT_ONE
from kubevouch.ledger.entries import INTENDED, Query
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.signers.catalog import PairFiles, SigningOptions
from kubevouch.standalone.controllers import RunningControllers
from kubevouch.testing.clock import FakeClock
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

ELSEWHERE, HERE = KUBE_APISERVER_CLIENT_KUBELET_SIGNER, "kubernetes.io/kube-apiserver-client"
SILENT, GOOD = "127.0.0.3", "127.0.0.2"
COUNT = csr_approving.WORKERS + 8
"""More than there are workers."""


class Called(Machine):
    """A machine that is called at an address. What it answers there is the test's business."""

    def __init__(self, at: World, name: str, host: str) -> None:
        super().__init__(at, name, "")
        self.provider = "callback"
        self.host = host

    async def asked(self, attestor: Attestor) -> bytes:
        """Its request, as the answer to a challenge."""
        challenge = await self.challenge()
        nonce = challenge.status.nonce
        shown = await attestor.attest(
            "v1", self.key, Binding(self.spki, "", nonce), Asked(challenge.metadata.name, nonce)
        )
        proof = Evidence(provider=self.provider, version="v1", data=shown, challenge=challenge.metadata.name)
        return self.request(proof)


def controller(running: RunningControllers, name: str) -> QueueController:
    (found,) = (each for each in running.manager.controllers if each.name == name)
    assert isinstance(found, QueueController)
    return found


def busy(of: QueueController) -> int:
    """How many of its workers have something in hand."""
    return of._busy


async def decided(at: World, name: str) -> CertificateSigningRequest:
    """Once it is: :meth:`World.settle` would wait for whoever is silent, too."""
    found = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    while outcome(found) == "waits":
        await asyncio.sleep(0)
        found = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    return found


@contextmanager
def silent(port: int) -> Iterator[None]:
    """An address whose calls are taken, by the kernel, and never answered."""
    with socket.socket() as listening:
        listening.bind((SILENT, port))
        listening.listen(COUNT)
        yield


async def attestor(host: str, port: int) -> Attestor:
    listen = "127.0.0.4" if host == SILENT else host  # where it says that it is, it is not
    return await catalog.attestor("callback")({"host": host, "listen": listen, "port": str(port)}, FakeClock())


@async_test
async def test_silent_callbacks_hold_no_worker_and_no_other_machine() -> None:
    port = free_port()
    text = (
        "attestors: [{provider: callback, settings: {networks: [127.0.0.0/8], allowUnprivilegedPort: true, "
        f"timeoutSeconds: 30, port: {port}}}}}]\n"
    )
    with silent(port):
        async with attested_world(text) as at:
            nobody, good = await attestor(SILENT, port), await attestor(GOOD, port)
            honest = Called(at, "honest", GOOD)
            asked = await honest.asked(good)
            thieves = [Called(at, f"thief-{number}", SILENT) for number in range(COUNT)]
            filed = [await each.asked(nobody) for each in thieves]
            for each, request in zip(thieves, filed, strict=True):
                await each.post(request)
            approving = controller(at.running, csr_approving.NAME)
            await until(lambda: len(approving.questions) == COUNT)
            joined = await decided(at, await honest.post(asked))
            assert outcome(joined) == "issued"
            await until(lambda: not busy(approving))
            assert (len(approving.questions), approving.questions.running) == (COUNT, OF_SOURCE_AT_ONE)
            await good.close()
            await nobody.close()


@async_test
async def test_a_challenge_lives_as_long_as_an_open_request_names_it() -> None:
    async with world() as at:
        at.start(csr_signing.NAME, ATTESTING, attesting=configured())
        await at.settle()
        machine = Machine(at, "worker-7", "m-1")
        in_time, late = (
            await machine.evidence(await machine.challenge()),
            await machine.evidence(await machine.challenge()),
        )
        unnamed = await machine.challenge()
        filed = await machine.file(machine.request(in_time))
        # Whoever decides has much else to do, or is away, for longer than challenges last.
        await at.clock.run(121)
        await machine.post(machine.request(late))
        await at.clock.run(300)
        await at.settle()
        for kept, name in ((True, in_time.challenge), (False, late.challenge), (False, unnamed.metadata.name)):
            assert (await find(at.client, ATTESTATION_CHALLENGES, name) is not None) == kept
        at.start(*CONTROLLERS, attesting=configured())
        await at.settle()
        found = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, filed.metadata.name)
        assert outcome(found) == "issued"


@async_test
async def test_a_proof_is_held_to_when_its_request_came(tmp_path: Path) -> None:
    begins, ends = NOW - dt.timedelta(days=1), NOW + dt.timedelta(minutes=5)
    root = authority("root", begins=begins, ends=NOW + dt.timedelta(days=1))
    certificate, key = issue("worker-7", root, begins=begins, ends=ends).write(tmp_path)
    roots = tmp_path / "roots.pem"
    roots.write_text(root.pem)
    text = f"attestors: [{{provider: x509pop, settings: {{rootsFile: {roots}, nodeName: commonName}}}}]\n"
    async with world() as at:
        at.start(csr_signing.NAME, ATTESTING, attesting=configured(text))
        await at.settle()
        device = await catalog.attestor("x509pop")({"certificate": str(certificate), "key": str(key)}, FakeClock())
        outcomes = {}
        for name, minutes in (("in-time", 9), ("late", 0)):
            machine = Called(at, "worker-7", "")
            machine.provider = "x509pop"
            filed = await machine.post(await machine.asked(device))
            await at.clock.run(minutes * 60)
            running = at.start(csr_approving.NAME, attesting=configured(text))
            await at.settle()
            outcomes[name] = outcome(await at.client.get(CERTIFICATE_SIGNING_REQUESTS, filed))
            await at.stop(running)
            at.start(csr_signing.NAME, ATTESTING, attesting=configured(text))
        assert outcomes["in-time"] == "issued" and outcomes["late"].startswith("denied")


async def approved(at: World, name: str, signer: str, request: bytes, usages: list[str]) -> None:
    condition = CertificateSigningRequestCondition(
        type="Approved", status="True", last_update_time=Time.of(NOW), last_transition_time=Time.of(NOW)
    )
    spec = CertificateSigningRequestSpec(
        request=request, signer_name=signer, usages=usages, username="system:bootstrap:abcdef"
    )
    csr = CertificateSigningRequest(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=Time.of(NOW)),
        spec=spec,
        status=CertificateSigningRequestStatus(conditions=[condition]),
    )
    await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)


@asynccontextmanager
async def signing_beside_a_silent_process(folder: Path) -> AsyncIterator[World]:
    """The key of ELSEWHERE is in a process that takes questions and answers none, the others' are here."""
    (folder / "signing.yaml").write_text(
        "apiVersion: signing.kubevouch.io/v1alpha1\nkind: SigningConfiguration\nauthorities:\n"
        f"- {{name: silent, signerNames: [{ELSEWHERE}], trustFile: {FIXTURES / 'ca-ec.crt'}, timeoutSeconds: 15, "
        "process: {socket: s}}\n"
    )
    pair = PairFiles(str(FIXTURES / "ca-ec.crt"), str(FIXTURES / "ca-ec.key"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s"))
        listening.listen(COUNT)
        async with world() as at:
            options = SigningOptions(pair, clock=at.clock, outside=folder / "signing.yaml")
            at.start(csr_signing.NAME, signing=options)
            await at.settle()
            yield at


@async_test
async def test_a_silent_signer_holds_no_worker_and_no_other_signer(tmp_path: Path) -> None:
    async with signing_beside_a_silent_process(tmp_path) as at:
        usages = ["digital signature", "client auth"]
        for number in range(COUNT):
            await approved(at, f"silent-{number}", ELSEWHERE, fixture("client-good.csr"), usages)
        signing = controller(at.running, csr_signing.NAME)
        await until(lambda: len(signing.questions) == COUNT)
        person = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), Subject(common_name="jane"))
        await approved(at, "good", HERE, person, usages)
        assert outcome(await decided(at, "good")) == "issued"
        await until(lambda: not busy(signing))
        assert (len(signing.questions), signing.questions.running) == (COUNT, OF_SOURCE_AT_ONE)


@async_test
async def test_what_waits_for_room_is_not_signed_once_it_is_gone(tmp_path: Path) -> None:
    async with signing_beside_a_silent_process(tmp_path) as at:
        usages, names = ["digital signature", "client auth"], [f"silent-{number}" for number in range(COUNT)]
        for name in names:
            await approved(at, name, ELSEWHERE, fixture("client-good.csr"), usages)
        signing = controller(at.running, csr_signing.NAME)
        await until(lambda: len(signing.questions) == COUNT)
        for name in names:
            await at.client.delete(CERTIFICATE_SIGNING_REQUESTS, name)
        # The process does not answer within its time; whoever waited has room then, and nothing to ask.
        await at.clock.until_asleep(OF_SOURCE_AT_ONE)
        intended = Query(kinds=frozenset({INTENDED}))
        asked = len(await at.ledger.find(intended))
        at.clock.advance(16)
        await at.settle()
        assert asked == OF_SOURCE_AT_ONE == len(await at.ledger.find(intended))
