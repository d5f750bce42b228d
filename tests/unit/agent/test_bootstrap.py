from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

import msgspec
import pytest

from aio import until
from asynctest import async_test
from join_world import TOKEN, Decide, JoinWorld, Told, condition, decided, join_world
from kubevouch import wellknown
from kubevouch.agent.bootstrap import Bootstrap, bootstrap
from kubevouch.agent.certificate_request import own_request, request_names
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import NotIssuedError, RequestDeniedError, Step
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestSpec,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import Client
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.util.clock import SystemClock

CLOCK = SystemClock()
NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)


def _user(token_id: str = TOKEN.token_id) -> UserInfo:
    groups = (wellknown.BOOTSTRAPPERS_GROUP, wellknown.DEFAULT_NODE_TOKEN_GROUP, wellknown.AUTHENTICATED_GROUP)
    return UserInfo(f"system:bootstrap:{token_id}", groups=groups)


def _client(world: JoinWorld) -> Client:
    return world.server.api.loopback(_user(), "agent")


def _wanted(world: JoinWorld, timeout: float = 10.0) -> Bootstrap:
    anchors = TrustAnchors([world.server.pki.authority.certificate])
    return Bootstrap("worker-1", anchors, TOKEN.user, timeout)


async def _run(world: JoinWorld, folder: Path, told: Told | None = None, timeout: float = 10.0) -> None:
    await bootstrap(_client(world), CertificateStore(folder), _wanted(world, timeout), CLOCK, told or Told())


@async_test
async def test_a_pending_request_is_taken_up_again_with_the_same_key(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        with pytest.raises(NotIssuedError, match=r"timed out after .* of request node-csr-"):
            await _run(world, tmp_path / "pki", timeout=0.3)
        kept = (tmp_path / "pki" / "kubelet-client.key.tmp").read_bytes()
        told = Told()
        async with world.clerk_at_work():
            await _run(world, tmp_path / "pki", told)
        assert told.details[told.steps.index(Step.REQUESTED)].endswith("found from before")
        assert kept in (tmp_path / "pki" / "kubelet-client-current.pem").read_bytes()
        assert len((await world.server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items) == 1


@pytest.mark.parametrize("foreign", ["key", "requester", "subject", "usages"])
def test_somebody_elses_object_under_the_name_is_not_believed(tmp_path: Path, foreign: str) -> None:
    @async_test
    async def scenario() -> None:
        async with join_world(tmp_path) as world:
            key, _ = await CertificateStore(tmp_path / "pki").pending_key()
            wanted = _wanted(world)
            name = request_names(key, own_request(key, wanted.template, wanted.usernames))[0]
            theirs = keys.generate(KeyAlgorithm.ECDSA_P256) if foreign == "key" else key
            subject = wanted.template.subject
            if foreign == "subject":
                subject = msgspec.structs.replace(subject, common_name="system:node:other")
            squatter = CertificateSigningRequest(
                metadata=ObjectMeta(name=name),
                spec=CertificateSigningRequestSpec(
                    request=build_request(theirs, subject),
                    signer_name=wanted.template.signer_name,
                    usages=["client auth"] if foreign == "usages" else ["digital signature", "client auth"],
                ),
            )
            who = _user("zzzzzz") if foreign == "requester" else _user()
            await world.server.api.loopback(who, "x").create(catalog.CERTIFICATE_SIGNING_REQUESTS, squatter)
            told = Told()
            only_ours: Decide = lambda csr: None if csr.metadata.name == name else world.issued(csr)  # noqa: E731
            async with world.clerk_at_work(only_ours):
                await _run(world, tmp_path / "pki", told)
            assert len(told.warnings) == 1 and name in told.warnings[0]
            assert CertificateStore(tmp_path / "pki").current() is not None

    scenario()


@pytest.mark.parametrize(
    ("decide", "text"),
    [
        (decided(condition(wellknown.CSR_DENIED, "No", "not ours")), "is denied, reason: No, message: not ours"),
        (
            decided(condition(wellknown.CSR_APPROVED), condition(wellknown.CSR_FAILED, "SignerValidationFailure", "x")),
            "failed, reason: SignerValidationFailure, message: x",
        ),
    ],
)
def test_a_final_decision_ends_at_once_and_the_key_stays(tmp_path: Path, decide: Decide, text: str) -> None:
    @async_test
    async def scenario() -> None:
        async with join_world(tmp_path) as world, world.clerk_at_work(decide):
            with pytest.raises(RequestDeniedError) as refusal:
                await _run(world, tmp_path / "pki")
            assert text in str(refusal.value)
            assert (tmp_path / "pki" / "kubelet-client.key.tmp").exists()

    scenario()


@async_test
async def test_a_request_that_is_deleted_ends_the_wait(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        told = Told()
        run = asyncio.create_task(_run(world, tmp_path / "pki", told))
        await until(lambda: Step.REQUESTED in told.steps)
        await world.server.client.delete(catalog.CERTIFICATE_SIGNING_REQUESTS, told.details[-1])
        with pytest.raises(NotIssuedError, match="was deleted"):
            await run


@async_test
async def test_a_token_without_the_right_to_ask_is_told_the_servers_words(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        nobody = UserInfo(
            "system:bootstrap:nobody", groups=(wellknown.BOOTSTRAPPERS_GROUP, wellknown.AUTHENTICATED_GROUP)
        )
        client = world.server.api.loopback(nobody, "agent")
        with pytest.raises(RequestDeniedError, match="cannot create resource"):
            await bootstrap(client, CertificateStore(tmp_path / "pki"), _wanted(world), CLOCK, Told())
