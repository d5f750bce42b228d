"""The ledger in a real cluster's objects: approver and signer share it, and a killed leader leaves no gap."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

import ledger_world as world
import processes
from asynctest import async_test
from kubevouch.ledger import segments
from kubevouch.ledger.cluster import ClusterLedger, load
from kubevouch.ledger.entries import ISSUED, Query
from kubevouch.standalone.attached.manifest_parts import Settings, documents, trees
from kubevouch.standalone.attached.manifests import NAMESPACE, Program, arguments
from kubevouch.util.clock import SystemClock
from kubevouch.wellknown import (
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBELET_SERVING_SIGNER,
    LEDGER_HEAD_CONFIGMAP,
    LEDGER_NAMESPACE,
)
from real_cluster import PATIENCE_SECONDS, RealCluster

SIGNED = (KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER)
SETTINGS = Settings(signers=SIGNED, approve=SIGNED)
APPROVER, SIGNER = SETTINGS.programs


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("cluster")) as found:
        applied = found.kubectl("apply", "-f", "-", given=documents(trees((), SETTINGS)))
        assert applied.code == 0, applied.stderr
        yield found


@pytest.fixture
def empty(cluster: RealCluster) -> RealCluster:
    """The same cluster without a ledger."""
    cluster.kubectl("-n", LEDGER_NAMESPACE, "delete", "configmaps", "--all")
    cluster.kubectl("-n", "kube-public", "delete", "configmap", LEDGER_HEAD_CONFIGMAP)
    assert cluster.kubectl("apply", "-f", "-", given=documents(trees((), SETTINGS))).code == 0
    return cluster


def account(cluster: RealCluster, name: str) -> Path:
    """The kubeconfig of a service account of deploy/, with nothing but its rights."""
    token = cluster.kubectl("-n", NAMESPACE, "create", "token", name, "--duration=1h").stdout.strip()
    return cluster.write_kubeconfig(cluster.folder / f"{name}.conf", {"token": token})


class Running:
    """A program of deploy/ in a process of its own."""

    def __init__(self, cluster: RealCluster, program: Program, *more: str) -> None:
        self.log_file = cluster.folder / f"{program.name}-{time.monotonic_ns()}.log"
        folder = "/etc/kubevouch/signing/"
        given = [
            each.replace(f"{folder}tls.crt", str(cluster.ca_certificate)).replace(
                f"{folder}tls.key", str(cluster.ca_key)
            )
            for each in arguments(program)
            if not each.startswith("--secure-port")
        ]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*processes.KUBEVOUCH, *given, "--secure-port=0", *more],
                env=processes.environment(KUBECONFIG=str(account(cluster, program.name)), HOME=str(cluster.folder)),
                cwd=cluster.folder, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def until(self, words: str) -> None:
        until(lambda: words in self.log, lambda: f"no {words!r} in\n{self.log[-3000:]}")

    def end(self, number: int = signal.SIGKILL) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._process.wait(PATIENCE_SECONDS)


@pytest.fixture
def start(empty: RealCluster) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def begin(program: Program, *more: str) -> Running:
        running.append(Running(empty, program, *more))
        return running[-1]

    yield begin
    for each in running:
        each.end()


def until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, what()
        threading.Event().wait(0.1)


def request(name: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    text = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, SHA256()).public_bytes(Encoding.PEM)
    tree = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": base64.b64encode(text).decode(), "signerName": "kubernetes.io/kube-apiserver-client",
                 "usages": ["client auth"], "expirationSeconds": 3600},
    }  # fmt: skip
    return json.dumps(tree)


def ask(cluster: RealCluster, *names: str) -> None:
    done = cluster.kubectl("create", "-f", "-", given="\n---\n".join(map(request, names)))
    assert done.code == 0, done.stderr
    done = cluster.kubectl("certificate", "approve", *names)
    assert done.code == 0, done.stderr


def certificates(cluster: RealCluster) -> dict[str, bytes]:
    items = json.loads(cluster.kubectl("get", "csr", "-o", "json").stdout)["items"]
    return {
        each["metadata"]["name"]: base64.b64decode(each["status"]["certificate"])
        for each in items
        if "certificate" in each["status"]
    }


def test_a_killed_signer_is_followed_without_a_gap_or_a_second_certificate(
    empty: RealCluster, start: Callable[..., Running]
) -> None:
    quick = (
        "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
    )  # fmt: skip
    leader = start(SIGNER, *quick)
    leader.until("new leader elected")
    first = [f"first-{number}" for number in range(5)]
    ask(empty, *first)
    until(lambda: set(first) <= set(certificates(empty)), lambda: leader.log[-3000:])
    standby = start(SIGNER, *quick)
    standby.until("new leader elected")
    many = [f"many-{number}" for number in range(60)]
    ask(empty, *many)
    # In the midst of it.
    until(lambda: leader.log.count('"certificate issued"') >= 15, lambda: leader.log[-3000:])
    leader.end(signal.SIGKILL)
    until(lambda: set(many) <= set(certificates(empty)), lambda: standby.log[-3000:])

    assert '"certificate issued"' in standby.log

    whole = empty.kubevouch("audit", "verify", "--ledger", "cluster")
    assert (whole.code, whole.stderr) == (0, ""), whole
    assert re.match(r"whole: \d+ entries", whole.stdout), whole
    listed = empty.kubevouch("issued", "export", "--ledger", "cluster")
    issued = [json.loads(line) for line in listed.stdout.splitlines()]
    asked = [each["request"] for each in issued]
    assert sorted(asked) == sorted([*first, *many])
    given = {name: x509.load_pem_x509_certificate(text) for name, text in certificates(empty).items()}
    assert {each["request"]: each["serial"] for each in issued} == {
        name: f"{given[name].serial_number:x}" for name in asked
    }
    shown = empty.kubevouch("issued", "show", issued[0]["serial"], "--ledger", "cluster")
    assert " is valid" in shown.stdout, shown


def test_both_programs_write_one_ledger_with_the_rights_of_deploy(
    empty: RealCluster, start: Callable[..., Running]
) -> None:
    both = start(APPROVER), start(SIGNER)
    for each in both:
        each.until("new leader elected")
    ask(empty, "shared")
    until(lambda: "shared" in certificates(empty), lambda: both[1].log[-3000:])
    both[0].end(signal.SIGTERM)
    both[1].end(signal.SIGTERM)
    for each in both:
        assert "is kept in memory" not in each.log
        assert "ledger commit failed" not in each.log, each.log
        assert "Traceback" not in each.log, each.log
    names = empty.kubectl("-n", LEDGER_NAMESPACE, "get", "configmaps", "-o", "name").stdout.split()
    assert [each for each in names if "segment-" in each] == [f"configmap/{segments.name_of(0)}"]
    noted = empty.kubectl("-n", "kube-public", "get", "configmap", LEDGER_HEAD_CONFIGMAP, "-o", "jsonpath={.data.size}")
    whole = empty.kubevouch("audit", "verify", "--ledger", "cluster")
    assert (whole.code, whole.stderr) == (0, ""), whole
    assert int(noted.stdout) > 0
    for program in SETTINGS.programs:
        user = f"system:serviceaccount:{NAMESPACE}:{program.name}"
        may = empty.kubectl("-n", LEDGER_NAMESPACE, "auth", "can-i", "delete", "configmaps", "--as", user)
        assert may.stdout.strip() == "no"
        words = f"--controllers={','.join(program.controllers)}"
        kubeconfig = empty.folder / f"{program.name}.conf"
        checked = empty.kubevouch("controllers", "check", words, "--ledger=cluster", "-o", "json", user=kubeconfig)
        lacking = json.loads(checked.stdout)["missingRights"]
        assert not [each for each in lacking if "ledger" in each], lacking


def test_what_is_gone_is_told_at_the_start_and_by_verify(empty: RealCluster, start: Callable[..., Running]) -> None:
    async def fill() -> None:
        clock = SystemClock()
        async with empty.config.client(component="test", clock=clock) as client:
            ledger = await ClusterLedger.open(client, clock)
            for number in range(200):
                await ledger.append(world.entry(number))
            await ledger.close()

    asyncio.run(fill())
    changed = empty.kubectl("-n", LEDGER_NAMESPACE, "patch", "configmap", segments.name_of(0), "--type=merge",
                            "-p", '{"data":{"entries":"{}\\n"}}')  # fmt: skip
    assert "field is immutable when `immutable` is set" in changed.stderr, changed
    assert empty.kubectl("-n", LEDGER_NAMESPACE, "delete", "configmap", segments.name_of(1)).code == 0
    verified = empty.kubevouch("audit", "verify", "--ledger", "cluster")
    assert verified.code == 1
    assert "no segment-00000001" in verified.stderr, verified
    assert "Traceback" not in verified.stderr
    signer = start(SIGNER)
    signer.until("no segment-00000001")
    ask(empty, "gone")
    signer.until("the controllers cannot start")
    assert "gone" not in certificates(empty)


def test_check_and_the_log_say_which_right_a_checkpoint_lacks(empty: RealCluster, tmp_path: Path) -> None:
    kubeconfig = account(empty, SIGNER.name)
    file = f"--ledger={tmp_path / 'ledger.db'}"
    checked = empty.kubevouch(
        "controllers", "check", "--controllers=ledgercheckpoint", file, "-o", "json", user=kubeconfig
    )
    assert "get configmaps kubevouch-ledger-checkpoint in kube-public" in json.loads(checked.stdout)["missingRights"]
    log = tmp_path / "log"
    with log.open("wb") as to:
        process = subprocess.Popen(
            [*processes.KUBEVOUCH, "controllers", "--controllers=ledgercheckpoint", file, "--secure-port=0",
             f"--leader-elect-resource-namespace={NAMESPACE}", f"--leader-elect-resource-name={SIGNER.name}"],
            env=processes.environment(KUBECONFIG=str(kubeconfig), HOME=str(tmp_path)), stdout=to, stderr=to,
        )  # fmt: skip
    try:
        words = "cannot get configmaps kubevouch-ledger-checkpoint in the namespace kube-public"
        until(lambda: words in log.read_text(), log.read_text)
    finally:
        process.kill()
        process.wait()


@async_test
async def _two_writers(cluster: RealCluster) -> None:
    clock = SystemClock()
    async with (
        cluster.config.client(component="one", clock=clock) as one,
        cluster.config.client(component="other", clock=clock) as other,
    ):
        ledgers = [await ClusterLedger.open(each, clock) for each in (one, other)]

        async def some(ledger: ClusterLedger, first: int) -> list[int]:
            return [await ledger.append(world.entry(number)) for number in range(first, first + 100)]

        numbers = await asyncio.gather(some(ledgers[0], 0), some(ledgers[1], 300))
        assert sorted(numbers[0] + numbers[1]) == list(range(200))
        for each in ledgers:
            await each.close()
        loaded = await load(one)
        found = {each.sequence: each.entry for each in await loaded.entries.find(Query(limit=1000))}
        assert found == {
            **dict(zip(numbers[0], map(world.entry, range(100)), strict=True)),
            **dict(zip(numbers[1], map(world.entry, range(300, 400)), strict=True)),
        }
        assert loaded.noted is not None
        assert loaded.noted.size == 200
        issued = await loaded.entries.find(Query(kinds=frozenset({ISSUED}), limit=1000))
        assert len({each.entry.uid for each in issued}) == len(issued)


def test_two_writers_at_once_make_one_chain(empty: RealCluster) -> None:
    _two_writers(empty)
