from __future__ import annotations

import datetime as dt
import socket
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test, on_both_loops
from join_world import TOKEN, WHY, Told, condition, decided, join_world
from kubevouch import wellknown
from kubevouch.agent.discovery import DiscoveredCluster
from kubevouch.agent.interface import (
    AgentError,
    NotTrustedError,
    RequestDeniedError,
    SettingsError,
    Step,
    WrongCertificateError,
)
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestStatus
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import NodeCondition, NodeStatus
from kubevouch.client.interface import TransportError
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.join import (
    BOOTSTRAP_CONF,
    CA_CERTIFICATE,
    KUBELET_CONF,
    Joined,
    JoinError,
    JoinOptions,
    _reached,
    join,
    run,
    verify_node_name,
)
from kubevouch.phases.join_phases import Phase, without
from kubevouch.phases.join_rehearsal import rehearse
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.certificate_builder import CertificateTemplate
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.usages import resolve
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import SystemClock

CLOCK = SystemClock()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _files(rootfs: Path) -> list[Path]:
    return sorted(path for path in rootfs.rglob("*") if path.is_file())


@on_both_loops
async def test_a_machine_joins_and_joining_again_changes_nothing(tmp_path: Path) -> None:
    rootfs = Path(tempfile.mkdtemp(dir=tmp_path))
    async with join_world(tmp_path) as world, world.clerk_at_work():
        told = Told()
        options = JoinOptions(world.discovery(), "worker-1", rootfs)
        joined = await join(options, CLOCK, told)
        assert told.steps == [each for each in Step if each is not Step.PROVEN]
        assert told.details[told.steps.index(Step.APPROVED)].endswith(WHY)
        assert not told.warnings
        async with client_from_kubeconfig(joined.kubelet_conf, component="test") as client:
            review = await client.create(catalog.SELF_SUBJECT_REVIEWS, SelfSubjectReview())
            assert review.status.user_info.username == "system:node:worker-1"
            assert "system:nodes" in review.status.user_info.groups
        files = _files(rootfs)
        assert {_mode(path) for path in files if path != rootfs / CA_CERTIFICATE} == {0o600}
        assert _mode(rootfs / CA_CERTIFICATE) == 0o644
        assert not (rootfs / BOOTSTRAP_CONF).exists()
        assert not [path for path in files if path.suffix == ".tmp"]
        before = {path: path.read_bytes() for path in files}

        again = Told()
        second = await join(options, CLOCK, again)
        assert second.already and second.not_after == joined.not_after
        assert again == Told()
        assert {path: path.read_bytes() for path in files} == before
        assert len((await world.server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items) == 1


@async_test
async def test_a_chain_that_could_not_be_stored_is_refused_before_anything_of_it_is_written(tmp_path: Path) -> None:
    """Of 1.5 MB, from a signer that may answer what it likes."""
    async with join_world(tmp_path) as world:
        authority = world.server.pki.authority
        template = CertificateTemplate(
            serial=7, subject=authority.certificate.subject, public_key=authority.certificate.public_key,
            not_before=authority.certificate.not_before, not_after=authority.certificate.not_after,
            usages=resolve(["cert sign"]), is_ca=True, extra=(Extension("1.2.3", False, bytes(12 << 10)),),
        )  # fmt: skip
        large = pem.encode(pem.CERTIFICATE, authority.sign(template))

        def issued(csr: CertificateSigningRequest) -> CertificateSigningRequestStatus:
            status = world.issued(csr)
            return msgspec.structs.replace(status, certificate=status.certificate + large * 90)

        async with world.clerk_at_work(issued):
            with pytest.raises(WrongCertificateError, match="at most 262144 are taken"):
                await join(JoinOptions(world.discovery(), "worker-1", tmp_path / "node"), CLOCK, Told())
        # The CA was pinned, and its file is written before anything is asked for, as kubeadm does.
        names = [path.name for path in _files(tmp_path / "node")]
        assert sorted(names) == [".kubelet-client.lock", "ca.crt", "kubelet-client.key.tmp"]


@async_test
async def test_a_lost_kubelet_conf_is_written_again_from_the_pair_on_disk(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world, world.clerk_at_work():
        options = JoinOptions(world.discovery(), "worker-1", tmp_path / "node")
        first = await join(options, CLOCK, Told())
        text = first.kubelet_conf.read_text()
        first.kubelet_conf.unlink()
        told = Told()
        await join(options, CLOCK, told)
        assert first.kubelet_conf.read_text() == text
        assert Step.REQUESTED not in told.steps


@async_test
async def test_the_tree_can_be_moved(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world, world.clerk_at_work():
        await join(JoinOptions(world.discovery(), "worker-1", tmp_path / "node"), CLOCK, Told())
        (tmp_path / "node").rename(tmp_path / "moved")
        async with client_from_kubeconfig(tmp_path / "moved" / KUBELET_CONF, component="test") as client:
            assert (await client.raw("GET", "/api")).status == 200


@async_test
async def test_another_name_or_cluster_is_refused_while_the_credential_is_good(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world, world.clerk_at_work():
        options = JoinOptions(world.discovery(), "worker-1", tmp_path / "node")
        await join(options, CLOCK, Told())
        with pytest.raises(JoinError, match="already joined as system:node:worker-1"):
            await join(JoinOptions(world.discovery(), "worker-2", tmp_path / "node"), CLOCK, Told())
    other = tmp_path / "other"
    async with join_world(other) as world:
        with pytest.raises(JoinError, match="already joined another cluster"):
            await join(JoinOptions(world.discovery(), "worker-1", tmp_path / "node"), CLOCK, Told())


@async_test
async def test_the_token_does_not_stay_when_the_join_fails(tmp_path: Path) -> None:
    rootfs = tmp_path / "node"
    async with join_world(tmp_path) as world:
        no = decided(condition(wellknown.CSR_DENIED, "NotOurs", "no such machine"))
        async with world.clerk_at_work(no):
            with pytest.raises(RequestDeniedError, match=r"is denied, reason: NotOurs, message: no such machine"):
                await join(JoinOptions(world.discovery(), "worker-1", rootfs), CLOCK, Told())
        assert not (rootfs / BOOTSTRAP_CONF).exists()
        assert not (rootfs / KUBELET_CONF).exists()
        assert TOKEN.token_secret.encode() not in b"".join(p.read_bytes() for p in rootfs.rglob("*") if p.is_file())


@pytest.mark.parametrize("ready", ["True", "False"])
def test_a_node_that_is_ready_is_not_taken_over(tmp_path: Path, ready: str) -> None:
    @async_test
    async def scenario() -> None:
        async with join_world(tmp_path) as world, world.clerk_at_work():
            node = Node(
                metadata=ObjectMeta(name="worker-7"),
                status=NodeStatus(conditions=[NodeCondition(type="Ready", status=ready)]),
            )
            await world.server.client.create(catalog.NODES, node)
            options = JoinOptions(world.discovery(), "worker-7", tmp_path / "node")
            if ready == "False":
                await join(options, CLOCK, Told())
                return
            with pytest.raises(JoinError, match='a Node with name "worker-7" and status "Ready" already exists'):
                await join(options, CLOCK, Told())

    scenario()


@async_test
async def test_a_control_planes_ca_is_not_replaced(tmp_path: Path) -> None:
    ca = tmp_path / "node" / CA_CERTIFICATE
    ca.parent.mkdir(parents=True)
    ca.write_text("another")
    ca.with_suffix(".key").write_text("its key")
    async with join_world(tmp_path) as world, world.clerk_at_work():
        options = JoinOptions(world.discovery(), "worker-1", tmp_path / "node")
        with pytest.raises(JoinError, match="CA of another cluster"):
            await join(options, CLOCK, Told())
        assert ca.read_text() == "another"
        ca.with_suffix(".key").unlink()
        told = Told()
        await join(options, CLOCK, told)
        assert "held another CA" in told.warnings[0]


@async_test
async def test_an_unusable_kubeconfig_is_replaced_with_a_warning(tmp_path: Path) -> None:
    conf = tmp_path / "node" / KUBELET_CONF
    conf.parent.mkdir(parents=True)
    conf.write_text("{{{")
    async with join_world(tmp_path) as world, world.clerk_at_work():
        told = Told()
        await join(JoinOptions(world.discovery(), "worker-1", tmp_path / "node"), CLOCK, told)
        assert "is replaced: it is no usable kubeconfig" in told.warnings[0]


@async_test
async def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "node").write_text("a file stands here")
    async with join_world(tmp_path) as world:
        with pytest.raises(OSError, match="node"):
            await join(JoinOptions(world.discovery(), "worker-1", tmp_path / "node"), CLOCK, Told())


@async_test
async def test_settings_are_refused_before_anything_is_asked() -> None:
    for name in ("", "a b", "-x", "x" * 254, "worker_1", "wörker"):
        with pytest.raises(SettingsError, match="node name"):
            verify_node_name(name)
    assert verify_node_name("Worker-1.Example") == "worker-1.example"


@async_test
async def test_after_its_end_the_certificate_is_asked_for_again(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        options = JoinOptions(world.discovery(), "worker-1", tmp_path / "node")
        async with world.clerk_at_work(lambda csr: world.issued(csr, ttl=600)):
            first = await join(options, CLOCK, Told())
        told = Told()
        async with world.clerk_at_work():
            second = await join(options, FakeClock(CLOCK.now() + dt.timedelta(hours=1)), told)
        assert second.not_after > first.not_after
        assert "has expired" in told.warnings[0]


def test_errors_have_one_root() -> None:
    assert issubclass(RequestDeniedError, AgentError) and issubclass(SettingsError, AgentError)


@async_test
async def test_phase_by_phase_is_a_join(tmp_path: Path) -> None:
    root = tmp_path / "node"
    async with join_world(tmp_path) as world, world.clerk_at_work():
        options = JoinOptions(world.discovery(), "worker-1", root, ignored=frozenset())

        async def alone(phase: Phase) -> Joined | None:
            return await run(replace(options, phases=frozenset({phase})), CLOCK, Told())

        assert await alone(Phase.PREFLIGHT) is None
        assert not root.exists()
        assert await alone(Phase.KUBELET_START) is None
        # With what is there now, a kubelet could go on by itself.
        assert sorted(path.relative_to(root) for path in _files(root)) == [BOOTSTRAP_CONF, CA_CERTIFICATE]
        async with client_from_kubeconfig(root / BOOTSTRAP_CONF, component="test") as client:
            review = await client.create(catalog.SELF_SUBJECT_REVIEWS, SelfSubjectReview())
            assert review.status.user_info.username == TOKEN.user
        joined = await alone(Phase.KUBELET_WAIT_BOOTSTRAP)
        assert joined is not None and not joined.already
        assert (root / KUBELET_CONF).exists() and not (root / BOOTSTRAP_CONF).exists()


@async_test
async def test_without_the_last_phase_the_kubelet_asks_itself(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        phases = without(["kubelet-wait-bootstrap"])
        options = JoinOptions(world.discovery(), "worker-1", tmp_path / "node", phases=phases)
        assert await run(options, CLOCK, Told()) is None
        assert (tmp_path / "node" / BOOTSTRAP_CONF).exists()
        assert not (await world.server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items


@async_test
async def test_a_join_goes_on_at_the_next_address_of_the_cluster(tmp_path: Path) -> None:
    with socket.socket() as deaf:
        # Bound and not listening: whoever connects is refused.
        deaf.bind(("127.0.0.1", 0))
        dead = f"https://127.0.0.1:{deaf.getsockname()[1]}"
        async with join_world(tmp_path) as world:
            options = JoinOptions(world.discovery(), "worker-1", tmp_path / "node")
            for servers, warnings in (((world.server.endpoint.url,), 1), ((dead, world.server.endpoint.url), 2)):
                cluster, told = DiscoveredCluster(dead, world.server.pki.ca_certificate, servers=servers), Told()
                async with _reached(cluster, options, CLOCK, told) as client:
                    assert client.address == world.endpoint
                assert len(told.warnings) == warnings
                assert told.steps == [Step.SERVER_ASKED] and told.details[0].startswith("v1.")
            # Where nobody answers, what is asked for says so.
            async with _reached(msgspec.structs.replace(cluster, servers=()), options, CLOCK, told) as client:
                with pytest.raises(TransportError):
                    await client.get(catalog.NODES, "worker-1")


@async_test
async def test_a_machine_stays_in_the_cluster_that_it_was_in(tmp_path: Path) -> None:
    late = FakeClock(CLOCK.now() + dt.timedelta(hours=1))
    async with join_world(tmp_path) as world:
        options = JoinOptions(world.discovery(), "worker-1", tmp_path / "node")
        await world.say_id("one")
        async with world.clerk_at_work(lambda csr: world.issued(csr, ttl=600)):
            await join(options, CLOCK, Told())
        before = {path: path.read_bytes() for path in _files(options.root)}
        async with world.clerk_at_work():
            # The same CA at the same address, and the token is known: it is the cluster that is another one.
            await world.say_id("two")
            with pytest.raises(NotTrustedError, match="is the cluster two, and this machine is of one") as refusal:
                await join(options, late, Told())
            assert "kubevouch reset" in refusal.value.hint
            with pytest.raises(NotTrustedError):
                await rehearse(options, late, Told())
        assert {path: path.read_bytes() for path in _files(options.root)} == before
        assert len((await world.server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items) == 1
        with pytest.raises(NotTrustedError, match="is the cluster two, expected three"):
            await join(replace(options, cluster_id="three"), late, Told())
        # While the certificate is good, nothing is asked, and the flag counts all the same.
        with pytest.raises(JoinError, match="another cluster"):
            await join(replace(options, cluster_id="two"), CLOCK, Told())
        assert (await join(replace(options, cluster_id="one"), CLOCK, Told())).already
        # A cluster that does not say which it is is as good as before, unless it has to be a certain one.
        await world.say_id("")
        with pytest.raises(NotTrustedError, match="does not say which it is, expected one"):
            await join(replace(options, cluster_id="one"), late, Told())
        # Its CA it cannot hide.
        with pytest.raises(NotTrustedError, match=f"the cluster with the CA {world.pin}, expected sha256:00"):
            await join(replace(options, cluster_id="sha256:00"), late, Told())
        async with world.clerk_at_work():
            await join(replace(options, cluster_id=world.pin), late, Told())
            # What was said beats what was.
            await world.say_id("two")
            await join(replace(options, rootfs=tmp_path / "fresh", cluster_id="two"), CLOCK, Told())


@async_test
async def test_the_last_phase_alone_asks_the_cluster_that_the_one_before_has_found(tmp_path: Path) -> None:
    async with join_world(tmp_path) as world:
        await world.say_id("one")
        options = JoinOptions(world.discovery(), "worker-1", tmp_path / "node")
        start = replace(options, phases=frozenset({Phase.KUBELET_START}))
        await run(start, CLOCK, Told())
        await world.say_id("two")
        with pytest.raises(NotTrustedError, match=r"bootstrap-kubelet\.conf"):
            await run(replace(options, phases=frozenset({Phase.KUBELET_WAIT_BOOTSTRAP})), CLOCK, Told())
        # Who begins again, begins with another one if that is meant.
        await run(start, CLOCK, Told())
