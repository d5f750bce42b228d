"""The signer of pods' certificates, with its own rights, over a server that takes only right answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import World, answer, world
from kubevouch.api.catalog import (
    EVENTS,
    NODES,
    POD_CERTIFICATE_REQUESTS,
    POD_CERTIFICATE_REQUESTS_V1,
    PODS,
    SERVICE_ACCOUNTS,
)
from kubevouch.api.core_v1 import Node, ServiceAccount
from kubevouch.api.pod_certificate_requests_v1beta1 import PodCertificateRequest
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.client.interface import Client
from kubevouch.controllers import pod_certificate_cleaner, pod_certificates
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import Context, ReconcileError, Request, UncountedSignatures
from kubevouch.controllers.pod_certificates import PodCertificateSigner
from kubevouch.ledger.entries import APPROVED, DENIED, INTENDED, ISSUED, Query
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.name_patterns import Patterns
from kubevouch.pki.permissions import NamePermissions, Permissions, SubjectPermissions, UsagePermissions
from kubevouch.pki.x509 import pem, x509_certificate
from kubevouch.policy.pod_certificates import USAGES, PodCertificateRules
from kubevouch.revocation.revocations import Revocations
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import SignerUnavailable
from kubevouch.signers.registry import Signers
from kubevouch.standalone.controllers import controller_user
from pod_requests import NOW, SIGNER, key_of, request
from unit.policy.test_pod_certificates import pod

BETA = "certificates.k8s.io/v1beta1=true"
BOTH = f"{BETA},certificates.k8s.io/v1/podcertificaterequests=true"
DAY = dt.timedelta(days=1)


def permissions(*uris: str) -> Permissions:
    return Permissions(
        SubjectPermissions(), NamePermissions(uris=Patterns(uris)), UsagePermissions(frozenset(USAGES)), longest=86400
    )


RULES = SigningRules(signing_duration=DAY, permissions=permissions("spiffe://cluster.local/**"))


class Signing(UncountedSignatures):
    """The controller over one world, built as in production."""

    def __init__(self, at: World, folder: Path, rules: SigningRules, resource: Resource[Any]) -> None:
        self.at = at
        self.ledger = MemoryLedger()
        self.signers = Signers()
        self.signers.put(SIGNER, FileSigner(folder / "ca.crt", folder / "ca.key", rules))
        self.rules = {SIGNER: PodCertificateRules()}
        self.outcomes = list[str]()

        def connect(name: str) -> Client:
            return at.server.api.loopback(controller_user(name), name)

        client = connect(pod_certificates.NAME)
        self._informer = InformerFactory(client, at.clock).informer(resource)
        self._informer.indexer.add_index(pod_certificates.POD_INDEX, pod_certificates.pods_of)
        self._reconciler = PodCertificateSigner(
            client, resource, self._informer.lister, self.signers, self.rules.get, self.ledger, at.clock,
            Revocations.none(), EventRecorder(client, at.clock, pod_certificates.NAME), self,
        )  # fmt: skip

    def signed(self, signer: str, kind: str, outcome: str, seconds: float) -> None:
        self.outcomes.append(f"{kind} {outcome}")
        assert signer == SIGNER
        assert seconds >= 0

    async def reconcile(self, name: str = "c1") -> float | None:
        """After how many seconds it is to come again."""
        stored = await self.at.client.list(self._informer.resource)
        await self._informer.replace(stored.items)
        return (await self._reconciler.reconcile(Request(name, "default"))).requeue_after

    async def kinds(self) -> list[str]:
        return [each.entry.kind for each in await self.ledger.find(Query())]

    async def events(self) -> list[str]:
        found = await self.at.client.list(EVENTS)
        return [f"{each.reason}: {each.message}" for each in found.items]


@asynccontextmanager
async def signing(
    rules: SigningRules = RULES, resource: Resource[Any] = POD_CERTIFICATE_REQUESTS, **asked: Any
) -> AsyncIterator[tuple[Signing, World]]:
    async with world(NOW, BOTH) as at:
        await at.put(NODES, Node(metadata=ObjectMeta(name="n1", uid="u3")))
        await at.put(SERVICE_ACCOUNTS, ServiceAccount(metadata=ObjectMeta(name="app", namespace="default", uid="u2")))
        await at.put(PODS, pod())
        await at.client.list(PODS)
        await at.client.create(POD_CERTIFICATE_REQUESTS, fresh(**asked))
        yield Signing(at, at.server.pki.folder, rules, resource), at


def fresh(name: str = "c1", **asked: Any) -> PodCertificateRequest:
    made: PodCertificateRequest = replace_metadata(request(**asked), name=name, uid="", resource_version="")
    return made


async def stored(at: World, name: str = "c1") -> PodCertificateRequest:
    return await at.client.get(POD_CERTIFICATE_REQUESTS, name, "default")


@pytest.mark.parametrize("resource", [POD_CERTIFICATE_REQUESTS, POD_CERTIFICATE_REQUESTS_V1])
@async_test
async def test_a_pod_gets_its_certificate(resource: Resource[Any]) -> None:
    async with signing(resource=resource) as (signer, at):
        assert await signer.reconcile() is None
        answered = await stored(at)
        (condition,) = answered.status.conditions
        assert (condition.type, condition.reason) == ("Issued", "Issued")
        leaf, *others = [
            x509_certificate.parse_der(block.contents)
            for block in pem.blocks(answered.status.certificate_chain.encode())
        ]
        assert others == []
        names = leaf.meaning.alt_names
        assert (names.uris, names.dns_names) == (("spiffe://cluster.local/ns/default/sa/app",), ())
        assert leaf.subject.common_name == ""
        assert leaf.not_before == NOW - pod_certificates.BACKDATE
        assert leaf.not_after - leaf.not_before == DAY
        assert answered.status.begin_refresh_at == Time.of(leaf.not_before + dt.timedelta(hours=16))
        assert await signer.kinds() == [APPROVED, INTENDED, ISSUED]
        assert signer.outcomes == ["file issued"]
        (approved, *_) = await signer.ledger.find(Query())
        assert approved.entry.requester == "system:serviceaccount:default:app"
        assert (approved.entry.request, approved.entry.node) == ("default/c1", "n1")
        # Again, nothing more.
        assert await signer.reconcile() is None
        assert await signer.kinds() == [APPROVED, INTENDED, ISSUED]


@async_test
async def test_an_hour_is_an_hour_with_all_that_lies_before() -> None:
    spread = msgspec.structs.replace(RULES, spread=0.5)
    async with signing(spread, max_expiration_seconds=3600) as (signer, at):
        assert await signer.reconcile() is None
        status = (await stored(at)).status
        assert status.not_before is not None and status.not_after is not None
        assert status.not_after.seconds - status.not_before.seconds == 3600


@async_test
async def test_certificates_that_were_asked_for_together_end_apart() -> None:
    spread = msgspec.structs.replace(RULES, spread=0.5)
    async with signing(spread) as (signer, at):
        await at.client.create(POD_CERTIFICATE_REQUESTS, fresh("c2", key=key_of("P-256")))
        ends = set()
        for name in ("c1", "c2"):
            await signer.reconcile(name)
            status = (await stored(at, name)).status
            assert status.not_after is not None
            ends.add(status.not_after)
        assert len(ends) == 2


@async_test
async def test_what_never_comes_right_is_denied_once() -> None:
    async with signing(unverified_user_annotations={"a.b/c": "d"}) as (signer, at):
        assert await signer.reconcile() is None
        answered = await stored(at)
        (condition,) = answered.status.conditions
        assert (condition.type, condition.reason) == ("Denied", "InvalidUnverifiedUserAnnotations")
        assert answered.status.certificate_chain == ""
        assert await signer.kinds() == [DENIED]
        assert (await signer.events())[0].startswith("PodCertificateDenied: this signer knows none of a.b/c")
        assert await signer.reconcile() is None


@async_test
async def test_whoever_lies_gets_nothing() -> None:
    """An administrator may create a request for any pod; the object does not say who did."""
    async with signing(pod_name="none") as (signer, at):
        assert await signer.reconcile() == pod_certificates.SOONEST_SECONDS
        assert (await stored(at)).status.conditions == []
        assert await signer.events() == [
            "PodCertificatePending: this waits for pod default/none with UID 11111111-2222-3333-4444-555555555555"
        ]
        assert await signer.kinds() == []
        at.clock.advance(600)
        assert await signer.reconcile() == pod_certificates.LATEST_SECONDS


@async_test
async def test_a_pod_that_comes_late_is_served() -> None:
    async with signing(pod_name="late") as (signer, at):
        assert await signer.reconcile() is not None
        late = replace_metadata(pod(), name="late")
        await at.put(PODS, late)
        await at.client.list(PODS)
        assert await signer.reconcile() is None
        assert (await stored(at)).status.conditions[0].type == "Issued"


@pytest.mark.parametrize(
    ("rules", "missing"),
    [
        (
            msgspec.structs.replace(RULES, permissions=permissions("spiffe://other/**")),
            "a signer that permits what it says of pods: URI subjectAltName",
        ),
        (
            msgspec.structs.replace(RULES, signing_duration=dt.timedelta(minutes=30)),
            "a signer that signs for an hour at least",
        ),
    ],
)
@async_test
async def test_what_the_operator_can_put_right_is_no_denial(rules: SigningRules, missing: str) -> None:
    async with signing(rules) as (signer, at):
        assert await signer.reconcile() is not None
        assert (await stored(at)).status.conditions == []
        assert (await signer.events())[0].startswith(f"PodCertificatePending: this waits for {missing}")


@async_test
async def test_a_node_that_asks_again_and_again_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_certificates, "MAX_OF_POD", 2)
    async with signing() as (signer, at):
        for name in ("c2", "c3"):
            await at.client.create(POD_CERTIFICATE_REQUESTS, fresh(name))
        assert [await signer.reconcile(name) for name in ("c1", "c2", "c3")] == [None, None, 2.0]
        assert (await stored(at, "c3")).status.conditions == []
        await at.client.delete(POD_CERTIFICATE_REQUESTS, "c1", "default")
        assert await signer.reconcile("c3") is None
        assert (await stored(at, "c3")).status.certificate_chain


class _Away(FileSigner):
    async def sign(self, decision: Any) -> Any:
        raise SignerUnavailable("the token is out", 7.0)


@async_test
async def test_a_signer_that_is_away_is_waited_for() -> None:
    async with signing() as (signer, at):
        folder = at.server.pki.folder
        signer.signers.put(SIGNER, _Away(folder / "ca.crt", folder / "ca.key", RULES))
        assert await signer.reconcile() == 7.0
        assert (await stored(at)).status.conditions == []
        assert signer.outcomes == ["file unavailable"]
        (event,) = await signer.events()
        assert event == ("PodCertificatePending: this waits for its signer, which cannot be reached: the token is out")


@async_test
async def test_a_signer_of_the_command_line_is_not_the_one_that_the_object_of_its_name_speaks_of() -> None:
    """It may be a program that reads names in the request, which are the node's own words."""
    async with signing() as (signer, at):
        signer._reconciler._signers = Signers({SIGNER: signer.signers.get(SIGNER)})  # type: ignore[dict-item]
        assert await signer.reconcile() is None
        assert (await stored(at)).status.conditions == []
        assert signer.outcomes == []


@async_test
async def test_the_same_certificate_comes_again_after_an_answer_was_lost() -> None:
    async with signing() as (signer, at):
        real = signer._reconciler._client
        deaf = _Deaf(real)
        signer._reconciler._client = deaf  # type: ignore[assignment]
        with pytest.raises(ReconcileError):
            await signer.reconcile()
        signer._reconciler._client = real
        at.clock.advance(120)
        assert await signer.reconcile() is None
        assert (await stored(at)).status.certificate_chain == deaf.chains[0]
        assert await signer.kinds() == [APPROVED, INTENDED, ISSUED]


@async_test
async def test_an_answer_that_comes_too_late_is_not_written() -> None:
    """The server would refuse it. The request is cleaned up, and the kubelet asks anew."""
    async with signing() as (signer, at):
        real = signer._reconciler._client
        signer._reconciler._client = _Deaf(real)  # type: ignore[assignment]
        with pytest.raises(ReconcileError):
            await signer.reconcile()
        signer._reconciler._client = real
        at.clock.advance(300)
        assert await signer.reconcile() is not None
        assert (await stored(at)).status.conditions == []
        assert "must be set to within 5 minutes" in (await signer.events())[0]


class _Deaf:
    """Writes come to nothing."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.chains: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def update(self, resource: Any, obj: Any, **more: Any) -> Any:
        self.chains.append(obj.status.certificate_chain)
        raise answer(409)


# ------------------------------------------------------------------ what there is not


def test_absent_is_off() -> None:
    async def nothing() -> None:
        async with world(NOW) as at:
            context = Context(connect=lambda name: at.client, informers=None, clock=at.clock, resources=[PODS])  # type: ignore[arg-type]
            assert pod_certificates.build(context) is None
            assert pod_certificate_cleaner.build(context) is None

    async_test(nothing)()


def test_the_newest_version_counts() -> None:
    both: list[Resource[Any]] = [POD_CERTIFICATE_REQUESTS, POD_CERTIFICATE_REQUESTS_V1]
    assert pod_certificates.served([PODS, *both[:1]]) is POD_CERTIFICATE_REQUESTS
    assert pod_certificates.served(both) is POD_CERTIFICATE_REQUESTS_V1
    assert pod_certificates.served([]) is None
