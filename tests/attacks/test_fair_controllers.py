"""What controllers do for one requester keeps nobody else waiting: the API, signatures and other requesters go on.

Nothing is timed. What is long waits at a gate, and what is looked at is who passes it, in which order and how often.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from certificate_requests import ask, policy, rights
from controller_world import NOW, World, fixture, world
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    READY,
    REQUIRE,
    PolicySelector,
    PolicyValidation,
)
from kubevouch.client.workqueue import Workqueue
from kubevouch.controllers import certificate_policy_status, csr_approving, csr_signing
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.crl_publisher import CRLPublisher
from kubevouch.controllers.interface import DONE, Request, Result
from kubevouch.controllers.requester_flow import requester_flow
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.crl_builder import CRLTemplate
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import Signing, signing
from kubevouch.pki.x509.subject import Subject
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.revocation.publication import PREFIX, Publication
from kubevouch.revocation.revocations import Revocations, authority_id
from kubevouch.server.revocation_paths import PublishedHere
from kubevouch.signers.held import HeldSigner
from kubevouch.signers.interface import Approval, Requester, SignerUnavailable, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.signers.key_threads import SECONDS
from kubevouch.testing.clock import FakeClock
from kubevouch.util import worker
from kubevouch.util.worker import Share, Worker, elsewhere, sharing, with_key, working_for
from unit.pki.x509.test_ocsp import CA as OCSP_CA
from unit.pki.x509.test_ocsp import asked

# Ends a test that would hang; nothing that holds waits for so long.
_GATE_SECONDS = 30.0
_MANY_NAMES = tuple(f"h{number}.k8s.example.com" for number in range(700))
# Ready, and half a second for 700 names.
QUADRATIC = "x509.dnsNames.all(a, x509.dnsNames.all(b, a.size() >= 0 && b.size() >= 0))"
CUBIC = "x509.dnsNames.all(a, x509.dnsNames.all(b, x509.dnsNames.all(c, (a + b + c).size() > 0)))"
_DIGITS = "[0,1,2,3,4,5,6,7,8,9]"
# Over the budget for every request: some 4,000,000 steps.
ENDLESS = (
    f"{_DIGITS}.all(a,{_DIGITS}.all(b,{_DIGITS}.all(c,{_DIGITS}.all(d,{_DIGITS}.all(e,{_DIGITS}.all(f,"
    "a+b+c+d+e+f>=x509.dnsNames.size()-1))))))"
)


@asynccontextmanager
async def long_work_of_a_controller() -> AsyncIterator[None]:
    """Inside, the thread for controllers is taken."""
    begun, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> bool:
        loop.call_soon_threadsafe(begun.set)
        return gate.wait(_GATE_SECONDS)

    with working_for("a policy"):
        running = asyncio.create_task(elsewhere(work))
    await begun.wait()
    try:
        yield
    finally:
        gate.set()
    assert await running, "what was done inside had to wait for a controller"


# ------------------------------------------------------------------ threads


@async_test
async def test_a_large_request_does_not_wait_for_a_controller() -> None:
    async with long_work_of_a_controller():
        with sharing(Share(Worker(), "workload jane", is_large=True)):
            assert await worker.compute(str, 7) == "7"
        # Authentication has no share yet.
        assert await elsewhere(lambda: "mapped") == "mapped"


@async_test
async def test_a_signature_does_not_wait_for_a_controller() -> None:
    authority = create_authority("ca", keys.generate(KeyAlgorithm.RSA_2048), now=NOW)
    pem = x509_request.parse_pem(fixture("client-good.csr"))
    wanted = Wanted("c", "u", wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER, pem, ["digital signature", "client auth"])
    signer = HeldSigner(authority, SigningRules())
    async with long_work_of_a_controller():
        with working_for("signing machine"):
            certificate = await issue(
                signer, Requester("u"), Approval("r", "m"), wanted, now=NOW, ledger=MemoryLedger()
            )
    assert certificate.issuer_name == authority.certificate.subject_name


@async_test
async def test_a_token_that_hangs_takes_no_thread_along() -> None:
    """Whatever is signed with its key: CRLs, and answers of OCSP, for which anybody may ask."""
    gate, clock, loop = threading.Event(), FakeClock(NOW), asyncio.get_running_loop()
    hangs: asyncio.Queue[None] = asyncio.Queue()

    def hang(_: bytes) -> bytes:
        loop.call_soon_threadsafe(hangs.put_nowait, None)
        gate.wait(_GATE_SECONDS)
        return b""

    authority = CertificateAuthority(OCSP_CA.certificate, Signing(signing(OCSP_CA.key).identifier, hang))
    issuer = authority_id(authority.certificate)
    publication = Publication(Revocations.none())
    publication.publish({issuer: authority}, {})
    nobody: Any = None
    publisher = CRLPublisher(nobody, nobody, nobody, publication, nobody, clock)
    template = CRLTemplate(number=1, this_update=NOW, next_update=NOW)
    with working_for("a CRL"):
        crl = asyncio.create_task(publisher._signed(authority, template))
    answers = PublishedHere(publication, clock)
    answer = asyncio.create_task(answers.answer("POST", f"{PREFIX}/ocsp/{issuer.hex()}", asked()))
    for _ in range(2):
        await hangs.get()
    with working_for("a policy"):
        assert await elsewhere(lambda: not gate.is_set())
    assert await elsewhere(lambda: not gate.is_set())
    assert await with_key(lambda: not gate.is_set())
    clock.advance(SECONDS)
    with pytest.raises(SignerUnavailable):
        await crl
    with pytest.raises(APIStatusError) as refused:
        await answer
    assert refused.value.code == 503
    gate.set()


@async_test
async def test_requesters_take_turns_at_the_thread_for_controllers() -> None:
    order: list[str] = []

    async def one(flow: str) -> None:
        with working_for(flow):
            await elsewhere(lambda: order.append(flow))

    async with long_work_of_a_controller():
        flood = [asyncio.create_task(one("flood")) for _ in range(500)]
        await asyncio.sleep(0)
        other = asyncio.create_task(one("other"))
        await asyncio.sleep(0)
    await asyncio.gather(other, *flood)
    assert order.index("other") <= 1


# ------------------------------------------------------------------ queues


@async_test
async def test_one_request_does_not_wait_for_500_of_another_requester() -> None:
    queue: Workqueue[Request] = Workqueue(FakeClock(), flow=lambda request: request.namespace)
    for number in range(500):
        queue.add(Request(f"r-{number}", "flood"))
    queue.add(Request("one", "other"))
    taken = [(await queue.get()).namespace for _ in range(4)]
    assert taken == ["flood", "other", "flood", "flood"]


class _Held:
    """A reconciler that ends when it is let go."""

    def __init__(self) -> None:
        self.begun: list[Request] = []
        self.release = asyncio.Event()

    async def reconcile(self, request: Request) -> Result:
        self.begun.append(request)
        await self.release.wait()
        return DONE


@async_test
async def test_no_requester_holds_all_workers() -> None:
    """Whatever a reconcile waits for."""
    held = _Held()
    controller = QueueController("held", held, FakeClock(), workers=32)
    for number in range(500):
        controller.queue.add(Request(f"r-{number}", "flood"))
    running = asyncio.create_task(controller.run())
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(held.begun) == 22, "two thirds of the workers"
    controller.queue.add(Request("one", "other"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert held.begun[-1].namespace == "other"
    held.release.set()
    controller.close()
    await running
    assert len(held.begun) == 501


@async_test
async def test_one_machine_is_approved_and_signed_among_the_first_whatever_another_asks_for() -> None:
    async with world() as at:
        for number in range(60):
            await _machine(at, f"a-{number:02}", "aaaaaa")
        await _machine(at, "z", "bbbbbb")
        await at.run(csr_approving.NAME)
        approved = [csr.metadata.name for csr in at.writes("PUT")]
        assert len(approved) == 61
        assert approved.index("z") < 4
        at.calls.clear()
        await at.run(csr_signing.NAME)
        signed = [csr.metadata.name for csr in at.writes("PUT")]
        assert signed.index("z") < 4


async def _machine(at: World, name: str, token: str) -> None:
    kubelets = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
    private = keys.generate(KeyAlgorithm.ECDSA_P256)
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    spec = CertificateSigningRequestSpec(
        request=build_request(private, subject), signer_name=kubelets, usages=["digital signature", "client auth"]
    )
    groups = ("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token")
    client = at.as_user(f"system:bootstrap:{token}", *groups)
    await client.create(
        CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    )


def test_machines_of_one_token_are_told_apart_by_their_address() -> None:
    def flow(user: str, address: str, *, trusted: bool = True) -> str:
        spec = CertificateSigningRequestSpec(username=user)
        meta = ObjectMeta(name="x", annotations={SOURCE_ADDRESS_ANNOTATION: address})
        return requester_flow(CertificateSigningRequest(metadata=meta, spec=spec), trusts_annotations=trusted)

    token, node = "system:bootstrap:abcdef", "system:node:n1"
    assert flow(token, "192.0.2.1") != flow(token, "192.0.2.2")
    assert flow(token, "2001:db8::1") == flow(token, "2001:db8::2") != flow(token, "2001:db8:0:1::1")
    # A node has a certificate of its own, and would have a flow for each of its addresses.
    assert flow(node, "192.0.2.1") == flow(node, "192.0.2.2")
    # Where the requester writes the annotation, it says nothing.
    assert flow(token, "192.0.2.1", trusted=False) == flow(token, "192.0.2.2", trusted=False)


# ------------------------------------------------------------------ what is evaluated


class _Beside:
    """Counts the jobs on the thread for controllers."""

    def __init__(self) -> None:
        self._controllers = worker._of_loop().controllers
        self._before = self._controllers.jobs

    @property
    def jobs(self) -> int:
        return self._controllers.jobs - self._before


@pytest.mark.parametrize("effect", [APPROVE, REQUIRE])
@async_test
async def test_expressions_do_not_look_at_more_names_than_they_were_tried_with(effect: str) -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at, effect=effect, validations=[PolicyValidation(expression=QUADRATIC)])
        running = await at.run(csr_approving.NAME, certificate_policy_status.NAME)
        await ask(at, "few", names=_MANY_NAMES[:20])  # the policy is compiled now
        await running.settle()
        assert await _conditions(at, "few") == (["Approved"] if effect == APPROVE else [])
        beside = _Beside()
        for number in range(19):
            await ask(at, f"x-{number}", names=_MANY_NAMES)
        await running.settle()
        assert beside.jobs == 0
        # Nobody knows whether it fits, so nothing denies it: a person decides.
        assert await _conditions(at, "x-0") == []


@async_test
async def test_names_that_contradict_a_policy_are_denied_however_many_there_are() -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at, validations=[PolicyValidation(expression=QUADRATIC)])
        running = await at.run(csr_approving.NAME)
        await ask(at, "x", names=(*_MANY_NAMES, "evil.com"))
        await running.settle()
        assert await _conditions(at, "x") == ["Denied"]


@async_test
async def test_a_policy_that_has_failed_for_a_request_is_not_evaluated_again_until_something_changes() -> None:
    async with world() as at:
        await rights(at, "alice")
        declared = await policy(at, validations=[PolicyValidation(expression=ENDLESS)])
        running = await at.run(csr_approving.NAME)
        beside = _Beside()
        await ask(at, "x")
        await running.settle()
        assert beside.jobs == 2, "compiled, and evaluated"
        for _ in range(8):
            await at.clock.run(60)
            await running.settle()
        assert beside.jobs == 2, "each retry has evaluated it"
        # A policy that the request has nothing to do with wakes it, and nothing more.
        await policy(at, "another", selector=PolicySelector(signer_names=["example.org/another"]))
        await running.settle()
        assert beside.jobs == 3, "the other one is compiled"
        repaired = msgspec.structs.replace(declared.spec, validations=[PolicyValidation(expression=QUADRATIC)])
        await at.client.update(CERTIFICATE_REQUEST_POLICIES, msgspec.structs.replace(declared, spec=repaired))
        await running.settle()
        assert await _conditions(at, "x") == ["Approved"]


@pytest.mark.parametrize("effect", [APPROVE, REQUIRE])
@async_test
async def test_a_policy_that_is_not_ready_for_its_cost_is_not_evaluated(effect: str) -> None:
    async with world() as at:
        await rights(at, "alice")
        await policy(at, effect=effect, validations=[PolicyValidation(expression=CUBIC)])
        running = await at.run(csr_approving.NAME, certificate_policy_status.NAME)
        conditions = (await at.client.get(CERTIFICATE_REQUEST_POLICIES, "hosts")).status.conditions
        (ready,) = (each for each in conditions if each.type == READY)
        assert (ready.status, ready.reason) == ("False", "TooExpensive")
        await ask(at, "warm")  # until then the policy may have to be compiled again
        await running.settle()
        beside = _Beside()
        await ask(at, "x", names=_MANY_NAMES[:90])
        await running.settle()
        assert beside.jobs == 0
        # One name would have cost nothing, and is not looked at either.
        assert await _conditions(at, "warm") == await _conditions(at, "x") == []


async def _conditions(at: World, name: str) -> list[str]:
    csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    return [each.type for each in csr.status.conditions]
