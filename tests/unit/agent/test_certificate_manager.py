from __future__ import annotations

import datetime as dt
import errno
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from agent_world import Managed, Network, managed, pass_time, running
from asynctest import async_test
from kubevouch import wellknown
from kubevouch.agent.certificate_request import node_client, node_serving
from kubevouch.agent.certificate_store import CertificateStore, StoredPair
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.records.ca_rotation import RenewalOrder, fingerprint
from kubevouch.testing.cluster import Cluster

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
APPROVE, SIGN = "certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller"
HOUR = 3600.0


@asynccontextmanager
async def world(
    folder: Path, *controllers: str, lifetime: int | None = 86400
) -> AsyncIterator[tuple[Network, Managed]]:
    async with Cluster(now=NOW, controllers=controllers or (APPROVE, SIGN)) as cluster:
        network = Network(cluster)
        yield network, managed(network, folder, lifetime=lifetime)


async def requests(network: Network) -> list[CertificateSigningRequest]:
    return (await network.cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items


async def decide(network: Network, kind: str, why: str = "Test") -> None:
    client = network.cluster.client()
    for csr in await requests(network):
        condition = CertificateSigningRequestCondition(type=kind, status="True", reason=why, message="so")
        status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, condition])
        await client.update(
            catalog.CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="approval"
        )


def pair_of(it: Managed) -> StoredPair:
    found = it.store.current()
    assert found is not None
    return found


def _pairs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".pem"}


@async_test
async def test_a_first_certificate_then_rotations_for_a_week(tmp_path: Path) -> None:
    async with world(tmp_path) as (network, it), running(it):
        await pass_time(network.cluster, 60)
        first = pair_of(it)
        assert it.manager.usable and it.access.shown == [None]
        await pass_time(network.cluster, 7 * 24 * HOUR, step=120.0, turns=4)
        last = pair_of(it)
        renewals = it.heard.renewals
        assert 8 <= len(renewals) <= 11
        assert renewals[0] == (None, renewals[0][1]) and all(
            former is before[1] for (former, _), before in zip(renewals[1:], renewals, strict=False)
        )
        # Each was asked for with the one before, between 70 and 90 % of its life, with a key of its own.
        assert it.access.shown[1:] == [pair for _, pair in renewals[:-1]]
        for (_, pair), (_, following) in itertools.pairwise(renewals):
            life = pair.leaf.not_after - pair.leaf.not_before
            assert 0.69 < (following.leaf.not_before - pair.leaf.not_before) / life < 0.91
        assert last.leaf != first.leaf and not it.heard.failures
        assert not it.store.pending_key_path.exists()
        assert sum(name.startswith("kubelet-client-2") for name in os.listdir(tmp_path)) == 2


@async_test
async def test_a_pending_request_is_kept_with_its_key(tmp_path: Path) -> None:
    """``rotation-016``, as recommended there."""
    async with world(tmp_path, SIGN) as (network, it), running(it):
        await pass_time(network.cluster, 3 * HOUR)
        assert len(it.heard.failures) > 5
        assert len(await requests(network)) == 1
        await decide(network, wellknown.CSR_APPROVED)
        await pass_time(network.cluster, 600)
        assert it.manager.usable and len(await requests(network)) == 1


@async_test
async def test_nothing_is_asked_for_without_a_template(tmp_path: Path) -> None:
    """``rotation-017``."""
    async with world(tmp_path) as (network, it):
        wanted, it.wanted[0] = it.wanted[0], None
        async with running(it):
            await pass_time(network.cluster, HOUR)
            assert (it.access.posted, it.manager.standing.failures) == (0, 0)
            it.wanted[0] = wanted
            it.manager.look()
            await pass_time(network.cluster, 2, step=1)
            assert it.manager.usable


@async_test
async def test_rotate_now(tmp_path: Path) -> None:
    async with world(tmp_path) as (network, it), running(it):
        await pass_time(network.cluster, 60)
        first = pair_of(it)
        it.manager.rotate_now()
        await pass_time(network.cluster, 1, step=1)
        assert pair_of(it).leaf != first.leaf
        await pass_time(network.cluster, HOUR)
        assert len(it.heard.renewals) == 2


@async_test
async def test_names_that_change_while_a_request_waits_end_the_wait(tmp_path: Path) -> None:
    """``serving-009``."""
    async with world(tmp_path, SIGN) as (network, it):
        it.wanted[0] = node_serving("worker-1", SubjectAltNames(dns_names=("a",)))
        # A serving certificate is asked for as the node; here the administrator stands for it.
        it.access.network = Network(network.cluster, as_admin=True)
        async with running(it):
            await pass_time(network.cluster, 60)
            it.wanted[0] = node_serving("worker-1", SubjectAltNames(dns_names=("b",)))
            it.manager.look()
            await pass_time(network.cluster, 2, step=1)
            assert len(await requests(network)) == 2
            assert it.manager.standing.failures == 0
            await decide(network, wellknown.CSR_APPROVED)
            await pass_time(network.cluster, 60)
            assert pair_of(it).leaf.meaning.alt_names.dns_names == ("b",)


@pytest.mark.parametrize("kind", [wellknown.CSR_DENIED, "deleted"])
@async_test
async def test_a_request_decided_against_is_followed_by_one_with_another_key(tmp_path: Path, kind: str) -> None:
    async with world(tmp_path, SIGN) as (network, it), running(it):
        await pass_time(network.cluster, 10, step=1)
        (before,) = await requests(network)
        key = it.store.pending_key_path.read_bytes()
        if kind == "deleted":
            await network.cluster.client().delete(catalog.CERTIFICATE_SIGNING_REQUESTS, before.metadata.name)
        else:
            await decide(network, kind)
        await pass_time(network.cluster, 180, step=1, turns=3)
        after = {csr.metadata.name: csr for csr in await requests(network)}
        if kind == "deleted":
            assert it.store.pending_key_path.read_bytes() == key
            assert after[before.metadata.name].metadata.uid != before.metadata.uid
            assert "was deleted" in it.heard.failures[0]
        else:
            assert it.store.pending_key_path.read_bytes() != key
            assert len(after) >= 2
            assert "is denied" in it.heard.failures[0] and "made by itself" in it.manager.standing.hint
        # Undecided ones get their certificate.
        for csr in await requests(network):
            if not csr.status.conditions:
                await _approve(network, csr)
        await pass_time(network.cluster, 60)
        assert it.manager.usable


async def _approve(network: Network, csr: CertificateSigningRequest) -> None:
    condition = CertificateSigningRequestCondition(type=wellknown.CSR_APPROVED, status="True", reason="Test")
    status = msgspec.structs.replace(csr.status, conditions=[condition])
    shown = msgspec.structs.replace(csr, status=status)
    await network.cluster.client().update(catalog.CERTIFICATE_SIGNING_REQUESTS, shown, subresource="approval")


@async_test
async def test_a_request_that_failed_does_not_become_a_flood(tmp_path: Path) -> None:
    async with world(tmp_path, APPROVE) as (network, it), running(it):
        for _ in range(24):
            await pass_time(network.cluster, HOUR)
            for csr in await requests(network):
                failed = CertificateSigningRequestCondition(type=wellknown.CSR_FAILED, status="True", reason="No")
                if any(each.type == wellknown.CSR_FAILED for each in csr.status.conditions):
                    continue
                status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, failed])
                shown = msgspec.structs.replace(csr, status=status)
                await network.cluster.client().update(catalog.CERTIFICATE_SIGNING_REQUESTS, shown, subresource="status")
        # A kubelet would have made thousands.
        assert 2 <= len(await requests(network)) <= 48


@async_test
async def test_approved_but_never_signed_keeps_one_request(tmp_path: Path) -> None:
    async with world(tmp_path, APPROVE) as (network, it), running(it):
        await pass_time(network.cluster, 20 * HOUR)
        assert len(await requests(network)) == 1
        assert "timed out" in it.manager.standing.last_error


@async_test
async def test_a_week_without_the_api_server(tmp_path: Path) -> None:
    async with world(tmp_path) as (network, it), running(it):
        await pass_time(network.cluster, 60)
        before = pair_of(it)
        network.down = True
        await pass_time(network.cluster, 7 * 24 * HOUR, step=600.0, turns=3)
        assert not it.manager.usable and pair_of(it).leaf == before.leaf
        assert "connection refused" in it.manager.standing.last_error
        network.down = False
        await pass_time(network.cluster, 1800)
        # The certificate is refused, the token is not.
        assert it.manager.usable


@async_test
async def test_another_cluster_at_the_same_address_changes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as (network, it), running(it):
        await pass_time(network.cluster, 60)
        before = _pairs(tmp_path)
        network.foreign = True
        it.manager.rotate_now()
        await pass_time(network.cluster, HOUR)
        assert _pairs(tmp_path) == before
        assert "unknown authority" in it.manager.standing.last_error
        network.foreign = False
        await pass_time(network.cluster, 24 * HOUR, step=300.0)
        assert len(it.heard.renewals) == 2


@async_test
async def test_a_clock_set_back_before_the_certificate_waits_and_one_set_right_goes_on(tmp_path: Path) -> None:
    async with world(tmp_path) as (network, it), running(it):
        await pass_time(network.cluster, 600)
        posted, right = it.access.posted, network.cluster.clock.now()
        network.cluster.clock.set(NOW - dt.timedelta(days=3650))
        await pass_time(network.cluster, 48 * HOUR, step=600.0)
        assert it.access.posted == posted
        assert "the clock to be set" in it.manager.standing.waits_for
        network.cluster.clock.set(right + dt.timedelta(hours=48))
        await pass_time(network.cluster, 600)
        assert it.manager.usable and not it.manager.standing.waits_for


@async_test
async def test_a_clock_set_forwards_asks_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as (network, it), running(it):
        await pass_time(network.cluster, 600)
        network.cluster.clock.set(network.cluster.clock.now() + dt.timedelta(hours=23))
        await pass_time(network.cluster, 600)
        assert len(it.heard.renewals) == 2


@pytest.mark.parametrize("algorithm", [KeyAlgorithm.RSA_2048, KeyAlgorithm.ECDSA_P384])
@async_test
async def test_the_key_algorithm_follows_the_configuration(tmp_path: Path, algorithm: KeyAlgorithm) -> None:
    async with world(tmp_path) as (network, it), running(it):
        await pass_time(network.cluster, 60)
        it.wanted[0] = node_client("worker-1", algorithm=algorithm, expiration_seconds=86400)
        await pass_time(network.cluster, 48 * HOUR, step=300.0)
        assert len(it.heard.renewals) >= 3
        assert {keys.algorithm_of(pair.key) for _, pair in it.heard.renewals[1:]} == {algorithm}


@async_test
async def test_a_pair_from_another_program_is_taken_over(tmp_path: Path) -> None:
    async with world(tmp_path) as (network, it):
        other = managed(network, tmp_path, seed=2)
        async with running(it, other):
            await pass_time(network.cluster, 60)
            assert pair_of(it).leaf == pair_of(other).leaf
            assert len(await requests(network)) == 1
            await pass_time(network.cluster, 48 * HOUR, step=120.0, turns=4)
            assert it.manager.pair is not None and other.manager.pair is not None
            assert it.manager.pair.leaf == other.manager.pair.leaf == pair_of(it).leaf
            assert [pair.leaf for _, pair in it.heard.renewals] == [pair.leaf for _, pair in other.heard.renewals]


# ------------------------------------------------------------------ files that are broken


def _truncated(current: Path) -> None:
    target = current.resolve()
    target.write_bytes(target.read_bytes()[:300])


def _swapped(current: Path) -> None:
    """The key of another certificate."""
    other = keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256))
    target = current.resolve()
    target.write_bytes(target.read_bytes().partition(b"-----BEGIN EC")[0] + other)


def _empty(current: Path) -> None:
    current.resolve().write_bytes(b"")


def _regular(current: Path) -> None:
    content = current.read_bytes()
    current.unlink()
    current.write_bytes(content)


def _gone(current: Path) -> None:
    current.unlink()


def _dangling(current: Path) -> None:
    current.resolve().unlink()


def _open_to_all(current: Path) -> None:
    current.resolve().chmod(0o644)


def _pending_key_broken(current: Path) -> None:
    current.with_name("kubelet-client.key.tmp").write_bytes(b"-----BEGIN EC PRIVATE KEY-----\nAAAA\n")


BREAKAGES = [_truncated, _swapped, _empty, _regular, _gone, _dangling, _open_to_all, _pending_key_broken]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("damage", BREAKAGES)
@async_test
async def test_broken_files_are_put_in_order(tmp_path: Path, damage: Callable[[Path], None], restarted: bool) -> None:
    async with world(tmp_path) as (network, it):
        async with running(it):
            await pass_time(network.cluster, 60)
            it.manager.rotate_now()
            await pass_time(network.cluster, 60)
            if not restarted:
                damage(it.store.current_path)
                await pass_time(network.cluster, 300)
        if restarted:
            damage(it.store.current_path)
            it = managed(network, tmp_path)
        async with running(it):
            await pass_time(network.cluster, 120)
            assert it.manager.usable
            it.manager.rotate_now()
            await pass_time(network.cluster, 300)
            assert it.manager.standing.rotations >= 1 and it.manager.usable
        current = CertificateStore(tmp_path).current_path
        assert current.is_symlink() and current.stat().st_mode & 0o777 == 0o600
        # The one before the damage went on being used: nobody had to begin with the token again.
        if damage not in (_pending_key_broken,):
            assert None not in it.access.shown[-1:]


# ------------------------------------------------------------------ writes that fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("what", ["write_atomically", "sync_folder"])
def test_a_disk_that_fails_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, what: str
) -> None:
    @async_test
    async def scenario() -> None:
        async with world(tmp_path) as (network, it), running(it):
            await pass_time(network.cluster, 60)
            before = pair_of(it)

            def fail(path: Path, *_: object, **__: object) -> None:
                raise OSError(number, os.strerror(number), str(path))

            with monkeypatch.context() as patched:
                patched.setattr(f"kubevouch.agent.certificate_store.{what}", fail)
                it.manager.rotate_now()
                await pass_time(network.cluster, HOUR)
                assert os.strerror(number) in it.manager.standing.last_error
                assert it.manager.usable
                if what == "write_atomically":
                    assert pair_of(it).leaf == before.leaf
            await pass_time(network.cluster, HOUR)
            assert it.manager.usable and len(await requests(network)) <= 3
            it.manager.rotate_now()
            await pass_time(network.cluster, 60)
            assert pair_of(it).leaf != before.leaf

    scenario()


# ------------------------------------------------------------------ another CA


@pytest.mark.parametrize("withdrawn", [True, False])
def test_an_order_to_renew_is_looked_at_again_before_it_is_followed(tmp_path: Path, withdrawn: bool) -> None:
    @async_test
    async def scenario() -> None:
        async with world(tmp_path) as (network, it), running(it):
            await pass_time(network.cluster, 60)
            before, now = pair_of(it), network.cluster.clock.now()
            other = create_authority("other", keys.generate(KeyAlgorithm.ECDSA_P256), now=now).certificate
            network.anchors = TrustAnchors([*network.anchors.certificates, other])
            order = RenewalOrder(authority=fingerprint(other.fingerprint()), begins=now, window_seconds=60)
            it.access.order, it.access.news = order, [None if withdrawn else order]
            await pass_time(network.cluster, 0.9 * HOUR)
            assert it.access.refreshed == 0 and pair_of(it).leaf == before.leaf
            await pass_time(network.cluster, 0.2 * HOUR)
            assert it.access.refreshed == 1
            assert (pair_of(it).leaf == before.leaf) is withdrawn
            # The signer has not changed here: nobody asks again and again.
            assert len(await requests(network)) == (1 if withdrawn else 2)

    scenario()
