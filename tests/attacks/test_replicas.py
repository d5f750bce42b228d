"""What is taken back at one of several API servers counts at all of them a second later, or they answer nobody.

The thief chooses the server, and the one that has heard least is the one he likes best.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from join_requests import GROUPS, node_request
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import has_condition
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.authentication.interface import UserInfo
from kubevouch.phases import bootstrap_token
from kubevouch.pki import keys
from kubevouch.pki.authority import LeafSpec, issue_leaf
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.usages import CLIENT_AUTH
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.bootstrap_tokens import Token, secret_name
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA, Bounds
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.controllers import start_controllers
from kubevouch.storage.watchcache.freshness import AGE_SECONDS, PATIENCE_SECONDS
from kubevouch.testing.clock import FakeClock, settle
from replicas_world import Replica, answer, replicas

_SECRETS = "/api/v1/namespaces/kube-system/secrets"
_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_TOKEN = Token("abcdef", "0123456789abcdef")
_JOINING = ("csrapproving", "csrsigning")
_REVOCATIONS = f"/apis/{CERTIFICATE_REVOCATIONS.api_version}/certificaterevocations"


@asynccontextmanager
async def _two(folder: Path, clock: FakeClock) -> AsyncIterator[Sequence[Replica]]:
    async with replicas(2, folder, clock) as servers:
        await own_kinds.ensure(servers[0].client)
        wanted = bootstrap_token.plan(_TOKEN, now=clock.now(), ttl=dt.timedelta())
        await bootstrap_token.create(servers[0].client, wanted)
        # Both have heard of that.
        await settle()
        await clock.run(AGE_SECONDS)
        yield servers


def _stolen(replica: Replica) -> Certificate:
    authority = replica.server.pki.signing
    assert authority is not None
    who = LeafSpec(common_name="mallory", organizations=(wellknown.MASTERS_GROUP,), purposes=(CLIENT_AUTH,))
    return issue_leaf(authority, who, keys.generate(KeyAlgorithm.ECDSA_P256), now=replica.server.clock.now())


async def _revoke(replica: Replica, certificate: Certificate) -> None:
    body = {
        "apiVersion": CERTIFICATE_REVOCATIONS.api_version,
        "kind": CERTIFICATE_REVOCATIONS.kind,
        "metadata": {"name": "stolen"},
        "spec": {"reason": "keyCompromise", "revoked": {"certificates": [certificate.fingerprint().hex()]}},
    }
    made = await replica.client.raw(
        "POST", _REVOCATIONS, msgspec.json.encode(body), {"Content-Type": "application/json"}
    )
    assert made.status == 201, made.body


async def _forget_token(replica: Replica) -> None:
    await replica.client.delete(catalog.SECRETS, secret_name(_TOKEN.token_id), wellknown.KUBE_SYSTEM_NAMESPACE)


@async_test
async def test_what_is_taken_back_at_one_server_counts_at_the_other(tmp_path: Path) -> None:
    clock = FakeClock()
    async with _two(tmp_path, clock) as (here, there):
        certificate = _stolen(here)
        assert await answer(there, _SECRETS, chain=[certificate.contents]) == 200
        assert await answer(there, _REQUESTS, token=_TOKEN.text) == 200
        await _revoke(here, certificate)
        await _forget_token(here)
        await clock.run(AGE_SECONDS)
        for server in (here, there):
            assert await answer(server, _SECRETS, chain=[certificate.contents]) == 401
            assert await answer(server, _REQUESTS, token=_TOKEN.text) == 401


def _deaf(replica: Replica) -> None:
    """Calls go out and are answered; only events do not come."""
    replica.link.hears.clear()


def _cut(replica: Replica) -> None:
    replica.link.cut()


@pytest.mark.parametrize("lose", [_deaf, _cut])
@async_test
async def test_a_server_that_hears_nothing_lets_nobody_in(tmp_path: Path, lose: Callable[[Replica], None]) -> None:
    clock = FakeClock()
    async with _two(tmp_path, clock) as (here, there):
        certificate = _stolen(here)
        lose(there)
        await _revoke(here, certificate)
        await _forget_token(here)
        await clock.run(AGE_SECONDS)
        shown = (
            asyncio.create_task(answer(there, _SECRETS, chain=[certificate.contents])),
            asyncio.create_task(answer(there, _REQUESTS, token=_TOKEN.text)),
        )
        await clock.run(PATIENCE_SECONDS - 1)
        assert not any(task.done() for task in shown)
        await clock.run(2)
        assert [await task for task in shown] == [503, 503]
        # It is asked how it is, and says so: others take its place.
        assert await answer(there, "/livez/ping", chain=[certificate.contents]) == 200
        assert await answer(there, "/readyz/informer-sync", chain=[certificate.contents]) == 500
        # Once it hears again, it has heard of everything.
        late = asyncio.create_task(answer(there, _SECRETS, chain=[certificate.contents]))
        await settle()
        there.link.mend()
        await clock.run(AGE_SECONDS)
        assert await late == 401
        assert await answer(there, _REQUESTS, token=_TOKEN.text) == 401
        assert await answer(there, "/readyz") == 200


@async_test
async def test_a_server_that_stood_still_looks_before_it_answers(tmp_path: Path) -> None:
    """SIGSTOP, or a suspended machine whose monotonic clock stood still with it."""
    clock = FakeClock()
    async with _two(tmp_path, clock) as (here, there):
        certificate = _stolen(here)
        there.link.hears.clear()
        await _revoke(here, certificate)
        clock.set(clock.now() + dt.timedelta(hours=1))
        shown = asyncio.create_task(answer(there, _SECRETS, chain=[certificate.contents]))
        await settle()
        assert not shown.done()
        there.link.mend()
        await clock.run(AGE_SECONDS)
        assert await shown == 401


@pytest.mark.parametrize("seed", range(2))
@async_test
async def test_two_controllers_that_both_lead_give_no_token_more_uses_than_it_has(tmp_path: Path, seed: int) -> None:
    """A Lease does not fence: the leader before may have been on its way when it ended."""
    clock = FakeClock()
    async with replicas(2, tmp_path, clock, seed=seed) as servers:
        client = servers[0].client
        await own_kinds.ensure(client)
        bounds = Bounds(uses=2)
        await bootstrap_token.create(
            client, bootstrap_token.plan(_TOKEN, now=clock.now(), ttl=dt.timedelta(), bounds=bounds)
        )
        secret = await client.get(catalog.SECRETS, secret_name(_TOKEN.token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
        user = UserInfo(
            f"{wellknown.BOOTSTRAP_USER_PREFIX}{_TOKEN.token_id}",
            groups=(*GROUPS, wellknown.AUTHENTICATED_GROUP),
            extra={TOKEN_UID_EXTRA: (secret.metadata.uid,)},
        )
        leaders = [start_controllers(servers[1].server, _JOINING)]
        try:
            await clock.run(1)
            # One hears of all requests at once, the last one first; the other one finds them in the order of names.
            servers[1].link.hears.clear()
            asking = servers[0].server.api.loopback(user, "kubelet")
            for number in reversed(range(6)):
                csr = node_request(f"csr-{number}", f"worker-{number}", keys.generate(KeyAlgorithm.ECDSA_P256))
                await asking.create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr)
            servers[1].link.hears.set()
            leaders.append(start_controllers(servers[0].server, _JOINING))
            await clock.run(5)
            stored = (await client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
            assert len([each for each in stored if each.status.certificate]) == 2
            assert len([each for each in stored if has_condition(each, wellknown.CSR_APPROVED)]) == 2
        finally:
            for leader in leaders:
                await leader.close()
