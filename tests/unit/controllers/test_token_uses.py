"""Bounded bootstrap tokens from request to certificate: the approving and the token-uses-controller together."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import NOW, World, answer, world
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from kubevouch.api.core_v1 import Secret
from kubevouch.client.interface import Client
from kubevouch.controllers import token_uses
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records import token_bounds, token_record
from kubevouch.records.bootstrap_tokens import AUTHENTICATION, BootstrapToken, parse_token, secret_name, to_secret
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA, Bounds
from kubevouch.records.token_record import State
from kubevouch.reviews import csr_review, token_biography

TOKEN = parse_token("p9k2zq.w7e1r5t3y9u8i0oa")
GROUPS = (wellknown.BOOTSTRAPPERS_GROUP, wellknown.DEFAULT_NODE_TOKEN_GROUP)
KEYS = [keys.generate(KeyAlgorithm.ECDSA_P256) for _ in range(3)]


def pem(node: str, key: int) -> bytes:
    return build_request(KEYS[key], Subject(common_name=f"system:node:{node}", organizations=("system:nodes",)))


def key_hash(key: int) -> str:
    return f"sha256:{x509_request.parse_pem(pem('x', key)).public_key.fingerprint().hex()}"


async def make_token(at: World, bounds: Bounds) -> Secret:
    planned = BootstrapToken(
        TOKEN, expires=NOW + dt.timedelta(days=1), usages=(AUTHENTICATION, "signing"), groups=GROUPS[1:], bounds=bounds
    )
    return await at.client.create(SECRETS, to_secret(planned))


async def ask(
    at: World, name: str, node: str = "n1", key: int = 0, *, uid: str = "", as_client: Client | None = None
) -> CertificateSigningRequest:
    extra = {TOKEN_UID_EXTRA: (uid,)} if uid else {}
    spec = CertificateSigningRequestSpec(
        request=pem(node, key),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    client = as_client or at.as_user(TOKEN.user, *GROUPS, extra=extra)
    return await client.create(
        CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    )


async def outcome(at: World, name: str) -> tuple[str, str]:
    """``Issued`` or the types of the conditions, and the message of the last one."""
    csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    conditions = csr.status.conditions
    kinds = ",".join(condition.type for condition in conditions)
    return "Issued" if csr.status.certificate else kinds, conditions[-1].message if conditions else ""


async def secret(at: World) -> Secret:
    return await at.client.get(SECRETS, secret_name(TOKEN.token_id), "kube-system")


def secret_writes(at: World) -> list[Secret]:
    return [each for each in at.writes("PUT") if isinstance(each, Secret)]


async def record(at: World) -> dict[str, State]:
    return {each.request: each.state for each in token_record.read((await secret(at)).metadata.annotations)}


@pytest.mark.parametrize("uses", [1, 3])
@async_test
async def test_of_machines_that_come_at_once_only_as_many_as_uses_get_a_certificate(uses: int) -> None:
    async with world() as at:
        made = await make_token(at, Bounds(uses=uses))
        running = await at.run("*")
        await asyncio.gather(*(ask(at, f"csr-{n}", f"n{n}", n % 3, uid=made.metadata.uid) for n in range(8)))
        await running.settle()
        await at.clock.run(1.0)
        await running.settle()
        outcomes = [(await outcome(at, f"csr-{n}"))[0] for n in range(8)]
        assert outcomes.count("Issued") == uses
        assert outcomes.count("Denied") == 8 - uses


@async_test
async def test_two_approvers_do_not_give_one_use_twice() -> None:
    """As after a lost lease: each has a cache of its own, and both write the same Secret."""
    async with world() as at:
        await make_token(at, Bounds(uses=1))
        first, second = at.start("csrapproving"), at.start("csrapproving", "csrsigning")
        for running in (first, second):
            await running.settle()
        await asyncio.gather(*(ask(at, f"csr-{n}", f"n{n}", n % 3) for n in range(6)))
        for _ in range(3):
            for running in (first, second):
                await running.settle()
            await at.clock.run(1.0)
        assert [(await outcome(at, f"csr-{n}"))[0] for n in range(6)].count("Issued") == 1


@async_test
async def test_a_token_is_spent_by_a_certificate_and_by_nothing_else() -> None:
    async with world() as at:
        await make_token(at, Bounds(uses=1))
        # Without a signer nothing is issued: the use is taken, and given back.
        running = await at.run("csrapproving", "tokenuses")
        await ask(at, "first")
        await running.settle()
        await ask(at, "second", "n2", 1)
        await running.settle()
        assert await outcome(at, "second") == ("", "")
        second = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "second")
        assert await csr_review.outlook(at.client, second) == "the token has given its only use to system:node:n1"
        assert await record(at) == {"first": State.RESERVED, "second": State.PENDING}
        first = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "first")
        failed = CertificateSigningRequestCondition(type="Failed", status="True", reason="SignerValidationFailure")
        status = msgspec.structs.replace(first.status, conditions=[*first.status.conditions, failed])
        await at.client.update(
            CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(first, status=status), subresource="status"
        )
        await running.settle()
        # Whoever waited hears at once.
        assert (await outcome(at, "second"))[0] == "Approved"
        assert await record(at) == {"first": State.FAILED, "second": State.RESERVED}
        await at.client.delete(CERTIFICATE_SIGNING_REQUESTS, "second")
        await running.settle()
        assert await record(at) == {"first": State.FAILED, "second": State.GONE}
        more = await at.run("csrsigning")
        await ask(at, "third", "n3", 2)
        for each in (running, more, running):
            await each.settle()
        assert (await outcome(at, "third"))[0] == "Issued"
        assert (await record(at))["third"] is State.ISSUED


@async_test
async def test_a_reservation_is_not_given_back_because_a_cache_is_behind() -> None:
    async with world() as at:
        made = await make_token(at, Bounds(uses=1))
        running = await at.run("tokenuses")
        reserved = token_record.Attempt("unseen", "", State.RESERVED, "system:node:n1", key_hash(0))
        csr = await ask(at, "unseen")
        reserved = msgspec.structs.replace(reserved, uid=csr.metadata.uid)
        annotations = token_record.written(made.metadata.annotations, (reserved,))
        reconciler: Any = running.manager.controllers[0]
        reconciler = reconciler._reconciler
        reconciler._csrs = type("Behind", (), {"by_index": lambda *_: []})()
        written = msgspec.structs.replace(
            made, metadata=msgspec.structs.replace(made.metadata, annotations=annotations)
        )
        await at.client.update(SECRETS, written)
        await running.settle()
        assert await record(at) == {"unseen": State.RESERVED}


@async_test
async def test_after_its_last_use_a_token_ends_once_the_machine_had_its_time() -> None:
    async with world() as at:
        await make_token(at, Bounds(uses=1))
        running = await at.run("*")
        await ask(at, "first")
        await running.settle()
        on = await secret(at)
        assert on.data["usage-bootstrap-authentication"] == b"true"
        # The same machine may ask once more with its key: it was restarted before it had stored the certificate.
        await ask(at, "again")
        await running.settle()
        assert (await outcome(at, "again"))[0] == "Issued"
        await ask(at, "late", "n2", 1)
        await running.settle()
        assert await outcome(at, "late") == ("Denied", "the token has given its only use to system:node:n1")
        await at.clock.run(token_uses.GRACE.total_seconds() + 1)
        await running.settle()
        off = await secret(at)
        assert off.type == wellknown.BOOTSTRAP_TOKEN_SECRET
        assert off.data["usage-bootstrap-authentication"] == off.data["usage-bootstrap-signing"] == b"false"
        assert off.data["token-secret"] == on.data["token-secret"]
        told = await token_biography.fetch(at.client, TOKEN.token_id, now=at.clock.now())
        assert (told.state, told.uses_left) == ("used up", 0)
        assert {each.request: each.state.value for each in told.attempts} == {
            "first": "Issued", "again": "Issued", "late": "Denied",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (Bounds(node_names=("worker-*", "db-1")), "the token is for worker-* or db-1, not for n1"),
        (
            Bounds(public_keys=(key_hash(1),)),
            f"the token is for the key {key_hash(1)}, got one with {key_hash(0)}",
        ),
    ],
)
@async_test
async def test_a_request_outside_of_the_bounds_is_denied_and_says_why(bounds: Bounds, message: str) -> None:
    async with world() as at:
        await make_token(at, bounds)
        running = await at.run("*")
        await ask(at, "wrong")
        await running.settle()
        assert await outcome(at, "wrong") == ("Denied", message)


@async_test
async def test_a_request_within_the_bounds_becomes_a_certificate() -> None:
    async with world() as at:
        await make_token(at, Bounds(uses=1, node_names=("worker-*",), public_keys=(key_hash(1),)))
        running = await at.run("*")
        await ask(at, "right", "worker-7", 1)
        await running.settle()
        assert (await outcome(at, "right"))[0] == "Issued"


@async_test
async def test_the_end_of_a_bounded_token_does_not_end_its_bounds() -> None:
    async with world() as at:
        made = await make_token(at, Bounds(uses=1))
        await ask(at, "late", uid=made.metadata.uid)
        await at.client.delete(SECRETS, made.metadata.name, "kube-system")
        running = await at.run("*")
        assert await outcome(at, "late") == (
            "Denied", f"the token {TOKEN.token_id} with which it came is deleted or has expired",
        )  # fmt: skip
        # Nor does another token under the same ID.
        await ask(at, "later", uid=made.metadata.uid)
        await make_token(at, token_bounds.NONE)
        await running.settle()
        assert (await outcome(at, "later"))[0] == "Denied"


@async_test
async def test_an_address_that_nobody_checked_approves_nothing() -> None:
    """A kube-apiserver knows nothing of the bound, and does not say from where a request came."""
    async with world() as at:
        made = await make_token(at, token_bounds.parse(source_ranges=["192.0.2.0/24"]))
        running = await at.run("*")
        await ask(at, "unchecked")
        await ask(at, "checked", "n2", 1, uid=made.metadata.uid)
        await running.settle()
        assert await outcome(at, "unchecked") == ("", "")
        assert (await outcome(at, "checked"))[0] == "Issued"


@pytest.mark.parametrize("annotation", ["0", "many", "1000", ""])
@async_test
async def test_bounds_that_cannot_be_read_approve_nothing(annotation: str) -> None:
    async with world() as at:
        made = await make_token(at, Bounds(uses=1))
        metadata = msgspec.structs.replace(made.metadata, annotations={token_bounds.USES_ANNOTATION: annotation})
        await at.client.update(SECRETS, msgspec.structs.replace(made, metadata=metadata))
        await ask(at, "csr-1")
        await at.run("*")
        assert await outcome(at, "csr-1") == ("", "")


@async_test
async def test_a_use_is_not_given_when_it_cannot_be_written_down() -> None:
    async with world() as at:
        await make_token(at, Bounds(uses=1))
        at.failures["PUT"] = answer(500)
        running = await at.run("*")
        await ask(at, "csr-1")
        await running.settle()
        assert await outcome(at, "csr-1") == ("", "")
        del at.failures["PUT"]
        await at.clock.run(1.0)
        await running.settle()
        assert (await outcome(at, "csr-1"))[0] == "Issued"


@async_test
async def test_what_a_person_approves_counts_too() -> None:
    async with world() as at:
        await make_token(at, Bounds(uses=1))
        running = await at.run("csrsigning", "tokenuses")
        csr = await ask(at, "by-hand")
        approved = CertificateSigningRequestCondition(type="Approved", status="True", reason="KubectlApprove")
        status = msgspec.structs.replace(csr.status, conditions=[approved])
        await at.client.update(
            CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="approval"
        )
        await running.settle()
        assert await record(at) == {"by-hand": State.ISSUED}


@async_test
async def test_a_plain_tokens_record_is_written_now_and_then_and_bounded() -> None:
    async with world() as at:
        await make_token(at, token_bounds.NONE)
        running = await at.run("*")
        for number in range(token_record.MAX_OTHERS + 5):
            await ask(at, f"csr-{number:03}", f"n{number}")
        await running.settle()
        assert len(secret_writes(at)) <= 2
        await at.clock.run(token_uses.UNLIMITED_INTERVAL_SECONDS + 0.1)
        await running.settle()
        kept = await record(at)
        assert len(kept) == token_record.MAX_OTHERS
        assert set(kept.values()) == {State.ISSUED}
        quiet = len(secret_writes(at))
        await at.clock.run(600.0)
        await running.settle()
        assert len(secret_writes(at)) == quiet


@async_test
async def test_the_identity_that_writes_tokens_may_not_approve() -> None:
    async with world() as at:
        csr = await ask(at, "csr-1")
        from kubevouch.standalone.controllers import controller_user

        keeper = at.server.api.loopback(controller_user(token_uses.NAME), "test")
        with pytest.raises(APIStatusError) as refusal:
            await keeper.update(CERTIFICATE_SIGNING_REQUESTS, csr, subresource="approval")
        assert refusal.value.code == 403
        approver = at.server.api.loopback(controller_user(wellknown.CSR_APPROVING_CONTROLLER), "test")
        with pytest.raises(APIStatusError) as refusal:
            await approver.list(SECRETS, "kube-system")
        assert refusal.value.code == 403
