"""Each test breaks one thing of a node that has joined and reads the diagnosis."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import aio
from joined_node import USER, JoinedNode, join_node_aside
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.doctor.findings import Code, Report
from kubevouch.doctor.node import NodeVisit, examine
from kubevouch.doctor.node_files import gather, judge
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.join import BOOTSTRAP_CONF, CA_CERTIFICATE
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import Clock, SystemClock
from throwaway_ca import ThrowawayCA


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoinedNode]:
    with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        yield join_node_aside(cluster, tmp_path_factory.mktemp("home") / "root")


@pytest.fixture
def node(home: JoinedNode, tmp_path: Path) -> JoinedNode:
    """A copy, to be broken."""
    shutil.copytree(home.root, tmp_path / "root", symlinks=True)
    return JoinedNode(home.cluster, tmp_path / "root")


def report(node: JoinedNode, clock: Clock | None = None, *, offline: bool = False) -> Report:
    return aio.run(examine(NodeVisit(node.root, offline=offline), clock or SystemClock()))


def codes(node: JoinedNode, clock: Clock | None = None, *, offline: bool = False) -> list[Code]:
    return [each.code for each in report(node, clock, offline=offline).findings]


def later(**distance: float) -> FakeClock:
    return FakeClock(SystemClock().now() + dt.timedelta(**distance))


def test_a_node_that_is_well(node: JoinedNode) -> None:
    found = report(node)
    assert found.findings == ()
    facts = dict(found.facts)
    assert facts["certificate"].startswith(f"{USER} until ")
    assert "which is normal; 0% of its life is over" in facts["renewal"]


def test_a_machine_that_never_joined(tmp_path: Path) -> None:
    found = aio.run(examine(NodeVisit(tmp_path), SystemClock()))
    assert [each.code for each in found.findings] == [Code.NOT_JOINED]


# ------------------------------------------------------------------ files


def _break_kubeconfig(node: JoinedNode) -> None:
    node.kubelet_conf.write_text("kind: Config\n")


def _remove_kubeconfig(node: JoinedNode) -> None:
    node.kubelet_conf.unlink()


def _remove_link(node: JoinedNode) -> None:
    node.current.unlink()


def _dangle(node: JoinedNode) -> None:
    node.current.resolve().unlink()


def _make_file(node: JoinedNode) -> None:
    content = node.current.read_bytes()
    node.current.unlink()
    node.current.touch(mode=0o600)
    node.current.write_bytes(content)


def _truncate(node: JoinedNode) -> None:
    path = node.current.resolve()
    path.write_bytes(path.read_bytes()[:200])


def _empty(node: JoinedNode) -> None:
    node.current.resolve().write_bytes(b"")


def _lose_key(node: JoinedNode) -> None:
    path = node.current.resolve()
    path.write_bytes(path.read_bytes().partition(b"-----BEGIN PRIVATE KEY")[0].partition(b"-----BEGIN EC")[0])


def _swap_key(node: JoinedNode) -> None:
    path = node.current.resolve()
    certificate = path.read_bytes().partition(b"-----BEGIN PRIVATE KEY")[0].partition(b"-----BEGIN EC")[0]
    path.write_bytes(certificate + keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256)))


def _open(node: JoinedNode) -> None:
    node.current.resolve().chmod(0o644)


def _other_ca_file(node: JoinedNode) -> None:
    (node.root / CA_CERTIFICATE).write_bytes(ThrowawayCA().bundle)


def _leave_token(node: JoinedNode) -> None:
    path = node.root / BOOTSTRAP_CONF
    path.touch(mode=0o600)
    path.write_text("kind: Config\n")


def _foreign_pair(node: JoinedNode) -> None:
    pair = ThrowawayCA().issue(USER, organizations=("system:nodes",))
    node.current.resolve().write_bytes(pair.certificate + pair.key)


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (_remove_kubeconfig, Code.KUBECONFIG_MISSING),
        (_break_kubeconfig, Code.KUBECONFIG_BROKEN),
        (_remove_link, Code.LINK_MISSING),
        (_dangle, Code.LINK_DANGLING),
        (_make_file, Code.LINK_IS_FILE),
        (_truncate, Code.PAIR_BROKEN),
        (_empty, Code.PAIR_BROKEN),
        (_lose_key, Code.PAIR_BROKEN),
        (_swap_key, Code.KEY_MISMATCH),
        (_open, Code.MODES_TOO_OPEN),
        (_other_ca_file, Code.CA_FILE_DIFFERS),
        (_leave_token, Code.BOOTSTRAP_KUBECONFIG_LEFT),
        (_foreign_pair, Code.CERTIFICATE_OTHER_CA),
    ],
)
def test_files(node: JoinedNode, break_it: Callable[[JoinedNode], None], code: Code) -> None:
    break_it(node)
    before = sorted((path, os.lstat(path).st_mtime_ns) for path in node.root.rglob("*"))
    assert codes(node) == [code]
    assert codes(node, offline=True) == [code]
    assert sorted((path, os.lstat(path).st_mtime_ns) for path in node.root.rglob("*")) == before


def test_files_of_another_user(node: JoinedNode) -> None:
    """Giving files away takes root: see ``integration/test_node_faults``."""
    files = gather(node.root)
    theirs = msgspec.structs.replace(files, current=replace(files.current, owner=(files.current.owner or 0) + 1))
    assert list(judge(files, now=SystemClock().now())) == []
    (found,) = judge(theirs, now=SystemClock().now())
    assert found.code is Code.OWNER_DIFFERS
    assert found.fix == f"chown {files.kubelet_conf.owner} {files.current.path}"


# ------------------------------------------------------------------ time


def test_the_life_of_a_certificate(node: JoinedNode) -> None:
    life = node.leaf.not_after - node.leaf.not_before
    assert codes(node, later(seconds=life.total_seconds() * 0.85), offline=True) == []
    assert codes(node, later(seconds=life.total_seconds() * 0.92), offline=True) == [Code.RENEWAL_OVERDUE]
    assert codes(node, later(days=400), offline=True) == [Code.CERTIFICATE_EXPIRED]
    assert codes(node, later(days=-2), offline=True) == [Code.CERTIFICATE_NOT_YET_VALID]
    # With the API server's word for it, it is the clock.
    assert codes(node, later(days=-2)) == [
        Code.CERTIFICATE_NOT_YET_VALID, Code.SERVING_CERTIFICATE_DATES, Code.CLOCK_OFF,
    ]  # fmt: skip


# ------------------------------------------------------------------ the API server


def test_a_server_that_is_gone_and_one_of_another_cluster(node: JoinedNode) -> None:
    text = node.kubelet_conf.read_text()
    url = node.cluster.url
    with Cluster(https=True) as other:
        node.kubelet_conf.write_text(text.replace(url, other.url))
        assert codes(node) == [Code.SERVER_NOT_TRUSTED]
        gone = other.url
    node.kubelet_conf.write_text(text.replace(url, gone))
    assert codes(node) == [Code.PORT_REFUSED]
    node.kubelet_conf.write_text(text.replace("127.0.0.1", "0.0.0.0"))
    assert codes(node) == [Code.SERVER_NAME_MISSING]


def test_a_node_that_may_not_do_what_nodes_do(node: JoinedNode) -> None:
    node.kubelet_conf.write_text(node.cluster.kubeconfig_for(USER, ["system:somebody"]))
    assert codes(node) == [Code.NODE_FORBIDDEN]


def test_a_certificate_that_the_server_does_not_accept(node: JoinedNode) -> None:
    text = node.kubelet_conf.read_text()
    node.kubelet_conf.write_text(
        text.partition("users:")[0] + "users:\n- name: default-auth\n  user:\n    token: abcdef.0123456789abcdef\n"
    )
    assert codes(node) == [Code.CERTIFICATE_REFUSED]


def test_renewals_that_nobody_approves(node: JoinedNode) -> None:
    client = node.cluster.client()
    name = "kubeadm:node-autoapprove-certificate-rotation"
    binding = node.cluster.run(client.get(catalog.CLUSTER_ROLE_BINDINGS, name))
    node.cluster.run(client.delete(catalog.CLUSTER_ROLE_BINDINGS, name))
    try:
        assert codes(node) == [Code.RENEWAL_NOT_AUTOMATIC]
    finally:
        fresh = msgspec.structs.replace(binding, metadata=ObjectMeta(name=name))
        node.cluster.run(client.create(catalog.CLUSTER_ROLE_BINDINGS, fresh))


def test_a_request_under_way(node: JoinedNode) -> None:
    key, _ = aio.run(node.store.pending_key())
    assert codes(node) == []
    request = build_request(key, Subject(common_name=USER, organizations=("system:nodes",)))
    spec = CertificateSigningRequestSpec(
        request=request, signer_name="example.com/other", usages=["digital signature", "client auth"]
    )
    csr = CertificateSigningRequest(metadata=ObjectMeta(name="mine"), spec=spec)
    node.cluster.run(node.cluster.client().create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr))
    (finding,) = report(node).findings
    assert finding.code is Code.REQUEST_PENDING
    assert finding.cause == "the request mine is this node's: nobody has decided about it"
    assert finding.fix == "kubevouch csr show mine"


def test_a_node_that_comes_back_by_itself(node: JoinedNode) -> None:
    recovery = RecoveryKeys(node.current.parent)
    for expected in ("kubevouch join HOST:PORT", "systemctl restart kubevouch-agent"):
        (found,) = report(node, later(days=400), offline=True).findings
        assert found.code is Code.CERTIFICATE_EXPIRED and found.fix.startswith(expected)
        recovery.ensure()
    recovery.path.chmod(0o644)
    assert codes(node, offline=True) == [Code.MODES_TOO_OPEN]
