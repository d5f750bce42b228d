"""Requests with proofs behind them, against a real API server in this process and a clerk in the controller's place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.agent.attestation_settings import is_given_for
from kubevouch.agent.attested_request import older, unread
from kubevouch.agent.interface import (
    AttestationRefusedError,
    EvidenceVersionError,
    MachineBannedError,
    NotIssuedError,
    SettingsError,
    Step,
)
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.attestation.interface import Evidence
from kubevouch.attestation.tpm import node_keys
from kubevouch.pki import keys
from kubevouch.pki.tpm import resident_key
from kubevouch.pki.x509 import provider_id, x509_request
from kubevouch.records.cluster_identity import CLUSTER_ANNOTATION
from kubevouch.testing.cluster import Cluster
from proving_machine import NODE, Clerk, Machine, attested_cluster, bound, by_null
from software_tpm import software_tpm

PROVIDER_ID = "aws:///eu-west-1a/i-0abc"


@async_test
async def test_a_request_with_its_proof(tmp_path: Path) -> None:
    seen = []

    def verdict(csr: CertificateSigningRequest, proofs: tuple[Evidence, ...]) -> str:
        seen.append(csr)
        return "" if bound(proofs[0], csr) else "binding"

    async with attested_cluster() as cluster, Clerk(cluster, verdict).at_work() as clerk:
        machine = Machine(cluster, tmp_path)
        settings = by_null("identity=m1", f"providerId={PROVIDER_ID}")
        leaf = await machine.obtain(settings)
        assert leaf.subject.common_name == f"system:node:{NODE}"
        assert clerk.requests[0][0].challenge == clerk.challenges[0]
        (csr,) = seen
        assert csr.spec.signer_name == "cluster.x-k8s.io/kube-apiserver-client-kubelet-null"
        assert provider_id.provider_id_of(x509_request.parse_pem(csr.spec.request or b"")) == PROVIDER_ID
        assert machine.told.steps == [Step.KEY_MADE, Step.PROVEN, Step.REQUESTED, Step.APPROVED, Step.ISSUED]
        assert is_given_for(machine.store.current_path, settings, machine.leaf)
        # A renewal is the same again, with a new key and a new challenge.
        again = await machine.obtain(settings)
        assert again.public_key != leaf.public_key
        assert len(clerk.challenges) == len(clerk.requests) == 2


@async_test
async def test_without_a_challenge_the_proof_is_bound_to_key_and_cluster(tmp_path: Path) -> None:
    def verdict(csr: CertificateSigningRequest, proofs: tuple[Evidence, ...]) -> str:
        return "" if bound(proofs[0], csr, b"") and not proofs[0].challenge else "binding"

    async with attested_cluster() as cluster, Clerk(cluster, verdict).at_work() as clerk:
        await Machine(cluster, tmp_path).obtain(by_null("challenge=false"))
        assert clerk.challenges == []


@async_test
async def test_a_request_says_for_which_cluster_its_proof_was_made(tmp_path: Path) -> None:
    async with attested_cluster() as cluster, Clerk(cluster).at_work():
        await Machine(cluster, tmp_path, cluster_id="sha256:00").obtain(by_null())
        (csr,) = (await cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
        assert csr.metadata.annotations[CLUSTER_ANNOTATION] == "sha256:00"


@async_test
async def test_a_cluster_that_does_not_say_which_it_is(tmp_path: Path) -> None:
    async with attested_cluster() as cluster, Clerk(cluster).at_work():
        machine = Machine(cluster, tmp_path, cluster_id="")
        await machine.obtain(by_null())
        assert [each.partition(":")[0] for each in machine.told.warnings] == ["the cluster does not say which it is"]


# ------------------------------------------------------------------ versions


@async_test
async def test_an_older_version_is_shown_to_a_cluster_that_asks_for_it(tmp_path: Path) -> None:
    async with attested_cluster() as cluster, Clerk(cluster, reads=("v2", "v1")).at_work() as clerk:
        machine = Machine(cluster, tmp_path)
        await machine.obtain(by_null("versions=v3,v2,v1"))
        assert [proofs[0].version for proofs in clerk.requests] == ["v3", "v2"]
        # Both are requests of one key, so that a claim of the first would be the machine's still.
        assert len(await _names(cluster)) == 2
        assert machine.told.warnings == ["the cluster does not read null/v3: v2 is shown"]


@async_test
async def test_a_challenge_says_so_before_there_is_a_request(tmp_path: Path) -> None:
    async with attested_cluster() as cluster, Clerk(cluster, asks=("v1",)).at_work() as clerk:
        await Machine(cluster, tmp_path).obtain(by_null("versions=v2,v1"))
        assert [proofs[0].version for proofs in clerk.requests] == ["v1"]
        assert len(clerk.challenges) == 2


@pytest.mark.parametrize("from_challenge", [True, False])
@async_test
async def test_nothing_below_the_oldest_is_shown(tmp_path: Path, from_challenge: bool) -> None:
    clerk_reads = {"asks": ("v1",)} if from_challenge else {"reads": ("v1",)}
    async with attested_cluster() as cluster, Clerk(cluster, **clerk_reads).at_work() as clerk:  # type: ignore[arg-type]
        machine = Machine(cluster, tmp_path)
        with pytest.raises(
            EvidenceVersionError, match=r"reads v1 of null evidence, this machine may show v3, v2"
        ) as err:
            await machine.obtain(by_null("versions=v3,v2,v1", oldest=["v2"]))
        assert "v1" not in {each.version for proofs in clerk.requests for each in proofs}
        assert not err.value.spent
        assert machine.store.pending_key_path.exists()


@async_test
async def test_a_request_from_before_in_a_version_that_is_not_read(tmp_path: Path) -> None:
    """The program was stopped after it had filed a request: the next one reads in it what it had shown."""
    async with attested_cluster() as cluster:
        machine = Machine(cluster, tmp_path)
        with pytest.raises(NotIssuedError):
            await _stopped_waiting(cluster, machine, by_null("versions=v2,v1", "challenge=false"))
        async with Clerk(cluster, reads=("v1",)).at_work() as clerk:
            await machine.obtain(by_null("versions=v2,v1", "challenge=false"))
            assert [proofs[0].version for proofs in clerk.requests] == ["v2", "v1"]


def test_which_version_is_next() -> None:
    assert older(("v3", "v2", "v1"), "v3", "v2,v1", "tpm") == "v2"
    assert older(("v3", "v2", "v1"), "v3", " v1 , v0", "tpm") == "v1"
    assert older(("v3", "v1"), "v3", "aws/v2, tpm/v1", "tpm") == "v1"
    # Newer, the same, unknown or another method's: nothing that is older is read.
    for supported in ("v4", "v3", "", "v9", "aws/v2", "v1" * 10_000):
        with pytest.raises(EvidenceVersionError) as err:
            older(("v3", "v2", "v1"), "v3", supported, "tpm")
        assert len(str(err.value)) < 500
    # What was shown by another program may be anything.
    with pytest.raises(EvidenceVersionError):
        older(("v2", "v1"), "v7", "v1", "tpm")


def test_which_method_is_not_read() -> None:
    assert unread({"tpm": "v2"}, "v1") == "tpm"
    assert unread({"tpm": "v1", "aws": "v2"}, "v1") == "aws"
    assert unread({"tpm": "v2", "aws": "v2"}, "tpm/v2,aws/v1") == "aws"
    with pytest.raises(EvidenceVersionError, match="says that it reads v2"):
        unread({"tpm": "v2"}, "v2")


@async_test
async def test_a_cluster_that_says_what_it_does_not_mean_ends_it(tmp_path: Path) -> None:
    """An annotation that names the version that was shown would have it file requests for ever."""
    async with attested_cluster() as cluster:
        clerk = Clerk(cluster, reads=("v1",))
        async with clerk.at_work():
            machine = Machine(cluster, tmp_path)
            clerk.reads = ("v0",)
            with pytest.raises(EvidenceVersionError):
                await machine.obtain(by_null("versions=v1"))
            assert len(clerk.requests) == 1


# ------------------------------------------------------------------ refused


@async_test
async def test_refused_and_asked_again_with_the_same_key(tmp_path: Path) -> None:
    """The key may be what the cluster has recorded the machine by: a denial does not take it."""
    answers = ["already-used", "banned", ""]
    async with attested_cluster() as cluster, Clerk(cluster, lambda *_: answers.pop(0)).at_work() as clerk:
        machine = Machine(cluster, tmp_path)
        with pytest.raises(AttestationRefusedError) as refused:
            await machine.obtain(by_null())
        assert type(refused.value) is AttestationRefusedError
        assert (refused.value.reason, refused.value.spent) == ("already-used", False)
        with pytest.raises(MachineBannedError) as banned:
            await machine.obtain(by_null())
        assert "kubevouch node unban" in banned.value.hint
        leaf = await machine.obtain(by_null())
        assert set(clerk.granted) == {leaf.public_key.fingerprint().hex()}
        requests = (await cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
        found = {x509_request.parse_pem(each.spec.request or b"").public_key.info for each in requests}
        assert (len(requests), len(found)) == (3, 1)


@async_test
async def test_a_challenge_that_is_refused(tmp_path: Path) -> None:
    async with attested_cluster() as cluster, Clerk(cluster, refuses="ek-chain").at_work() as clerk:
        with pytest.raises(AttestationRefusedError, match="reason: ek-chain") as refused:
            await Machine(cluster, tmp_path).obtain(by_null())
        assert refused.value.reason == "ek-chain"
        assert clerk.requests == []


@async_test
async def test_a_method_that_cannot_prove(tmp_path: Path) -> None:
    async with attested_cluster() as cluster, Clerk(cluster).at_work():
        machine = Machine(cluster, tmp_path)
        with pytest.raises(AttestationRefusedError, match="null: no such key"):
            await machine.obtain(by_null("fails=no such key"))
        with pytest.raises(SettingsError, match="null: settings of null"):
            await machine.obtain(by_null("bogus=1"))
        with pytest.raises(SettingsError, match="got 'nowhere', expected one of "):
            await machine.obtain(by_null(names=["nowhere"]))
        with pytest.raises(SettingsError, match="got 'v9' as the oldest version of null evidence, expected one of v1"):
            await machine.obtain(by_null(oldest=["v9"]))


@async_test
async def test_a_key_whose_tpm_does_not_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_key, "default_signer", None)
    async with attested_cluster() as cluster, Clerk(cluster).at_work():
        machine = Machine(cluster, tmp_path)
        with software_tpm(tmp_path / "tpm") as tpm:
            monkeypatch.setenv("KUBEVOUCH_TPM", tpm.where)
            machine.store.put_pending_key(node_keys.make(tpm.device()))
        with pytest.raises(SettingsError, match="null: there is no TPM at"):
            await machine.obtain(by_null("identity=m1"))
        # It is away, and may come back: the key is kept.
        assert machine.store.pending_key_path.exists()


@async_test
async def test_nobody_fills_the_challenge_in(tmp_path: Path) -> None:
    async with attested_cluster() as cluster:
        machine = Machine(cluster, tmp_path)
        task = asyncio.create_task(machine.obtain(by_null()))
        await _advance(cluster, task, 400)
        with pytest.raises(NotIssuedError, match="was not filled in until the time was over") as err:
            await task
        assert "node-attestation-controller" in err.value.hint
        assert any("waits for the cluster's node-attestation-controller" in each for each in machine.told.waits)


# ------------------------------------------------------------------ for the plug-in


@async_test
async def test_a_plugin_that_is_run_again_at_once_does_not_ask_again_at_once(tmp_path: Path) -> None:
    """kubectl runs it five times in a row, a kubelet for each of its requests."""
    async with attested_cluster() as cluster, Clerk(cluster, lambda *_: "name-taken").at_work() as clerk:
        machine = Machine(cluster, tmp_path)
        for asked, seconds in ((1, 0), (1, 29), (2, 31), (2, 31), (3, 31), (3, 0)):
            cluster.clock.advance(seconds)
            with pytest.raises(AttestationRefusedError, match="name-taken"):
                await machine.obtain(by_null(), by_plugin=True)
            assert len(clerk.requests) == len(clerk.challenges) == asked
        # Whoever asks by himself is answered anew.
        clerk.verdict = lambda *_: ""
        await machine.obtain(by_null())


@async_test
async def test_a_key_that_stays_in_a_tpm_is_the_agents(tmp_path: Path) -> None:
    async with attested_cluster() as cluster, Clerk(cluster).at_work() as clerk:
        machine = Machine(cluster, tmp_path)
        with pytest.raises(SettingsError, match="stays in its TPM, and a plug-in has to hand it out") as refused:
            await machine.obtain(by_null("key=stays"), by_plugin=True)
        assert "kubevouch agent" in refused.value.hint and "key=vouched" in refused.value.hint
        assert clerk.challenges == [] and not machine.store.pending_key_path.exists()
        leaf = await machine.obtain(by_null("key=stays"))
        assert b"TSS2 PRIVATE KEY" in machine.store.current_path.read_bytes()
        assert set(clerk.granted) == {leaf.public_key.fingerprint().hex()}


# ------------------------------------------------------------------ stopped in between


async def _stopped_waiting(cluster: Cluster, machine: Machine, settings: object) -> None:
    task = asyncio.create_task(machine.obtain(settings))  # type: ignore[arg-type]
    await _advance(cluster, task, 400)
    await task


async def _advance(cluster: Cluster, task: asyncio.Task[object], seconds: int) -> None:
    from kubevouch.testing.clock import settle

    for _ in range(seconds // 10):
        cluster.clock.advance(10)
        for _ in range(20):
            await settle()
        if task.done():
            return


async def _names(cluster: Cluster) -> set[str]:
    return {each.metadata.name for each in (await cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items}


class _Stopped(BaseException):
    """The program ends here."""


class _Stopping:
    """A client that ends the program before or after its n-th call."""

    def __init__(self, client: object, number: int, after: bool) -> None:
        self._client = client
        self._left = number
        self._after = after

    def __getattr__(self, name: str) -> object:
        found = getattr(self._client, name)
        if name not in ("get", "create", "list", "watch"):
            return found
        if name == "watch":
            self._count(before=True)
            self._count(before=False)
            return found

        async def call(*arguments: object, **options: object) -> object:
            self._count(before=True)
            result = await found(*arguments, **options)
            self._count(before=False)
            return result

        return call

    def _count(self, *, before: bool) -> None:
        if before:
            self._left -= 1
        if self._left == 0 and before is not self._after:
            raise _Stopped


@pytest.mark.parametrize("after", [False, True])
@async_test
async def test_stopped_at_every_call_and_run_again(tmp_path: Path, after: bool) -> None:
    """One key is certified, whatever was lost in between; the cluster records the machine by it."""
    async with attested_cluster() as cluster:
        number, stopped = 0, True
        while stopped:
            number += 1
            folder = tmp_path / str(number)
            clerk = Clerk(cluster)
            async with clerk.at_work():
                machine = Machine(cluster, folder)
                stopped = await _stops(machine, number, after)
                pending = machine.store.pending_key_path
                key = keys.load_pem(pending.read_bytes()) if pending.exists() else None
                leaf = await machine.obtain(by_null()) if stopped else machine.leaf
                assert key is None or keys.public_key_of(key) == leaf.public_key
                assert set(clerk.granted) == {leaf.public_key.fingerprint().hex()}
                assert is_given_for(machine.store.current_path, by_null(), machine.leaf)
                assert not pending.exists()
        assert number > 3


async def _stops(machine: Machine, number: int, after: bool) -> bool:
    machine.network.cluster = _Counting(machine, number, after)  # type: ignore[assignment]
    try:
        await machine.obtain(by_null())
    except _Stopped:
        return True
    finally:
        machine.network.cluster = machine.cluster
    return False


class _Counting:
    """The cluster, whose clients of all calls together end at the n-th."""

    def __init__(self, machine: Machine, number: int, after: bool) -> None:
        self._cluster = machine.cluster
        self._stopping = _Stopping(machine.cluster.client(), number, after)

    def __getattr__(self, name: str) -> object:
        return getattr(self._cluster, name)

    def client(self, *_who: object) -> object:
        return self._stopping
