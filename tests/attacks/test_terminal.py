"""What a cluster, a file or a person says reaches a terminal as text and never as an order to it.

Anybody with a bootstrap token chooses the name of a CertificateSigningRequest, and an administrator looks at the list.
"""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import aio
import encryption_world
from hostile_server import HOSTILE, Hostile, hostile
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import Node
from kubevouch.cli import commands
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.init import PHASES
from kubevouch.cli.kubectl_plugin import completions
from kubevouch.cli.main import run
from kubevouch.ledger.entries import APPROVED, Entry, with_certificate
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing import Cluster
from kubevouch.util.clock import SystemClock
from kubevouch.util.printable import is_plain
from throwaway_ca import ThrowawayCA
from wire import Wire

CSR = "csr-abc"
EVIL = "\x1b[8m$(id)\x9b"  # a name that Kubernetes' rules for requests do not forbid


class Stage:
    """A cluster, and the kubeconfig of a server between it and whoever asks."""

    def __init__(self, cluster: Cluster, between: Hostile, folder: Path, token: str, ca: ThrowawayCA) -> None:
        self.between, self.folder, self.token, self.true = between, folder, token, str(cluster.kubeconfig)
        self.pin = cluster.pin
        self.kubeconfig = str(folder / "hostile.conf")
        text = re.sub(r"server: .*", f"server: https://127.0.0.1:{between.port}", cluster.kubeconfig.read_text())
        tree = yaml.safe_load(text)
        tree["clusters"][0]["cluster"].pop("certificate-authority-data")
        tree["clusters"][0]["cluster"]["certificate-authority"] = str(folder / "ca.crt")
        (folder / "ca.crt").write_bytes(ca.bundle)
        Path(self.kubeconfig).touch(0o600)
        Path(self.kubeconfig).write_text(yaml.safe_dump(tree))


def request(subject: str) -> CertificateSigningRequestSpec:
    made = build_request(keys.generate(keys.KeyAlgorithm.ECDSA_P256), Subject(common_name=subject))
    return CertificateSigningRequestSpec(request=made, signer_name="example.com/s", usages=["client auth"])


async def damaged_store(path: Path) -> None:
    """Of one key, under which is no object."""
    store = await SQLiteStore.open(path)
    await store.create("/registry/configmaps/default/" + HOSTILE.replace("\0", ""), HOSTILE.encode())
    await store.close()


async def hostile_ledger(path: Path) -> None:
    """What requesters and people have said, in the fields of it that they choose."""
    certificate = x509_certificate.parse_bundle(ThrowawayCA().issue(EVIL).certificate)[0]
    asked = Entry(
        kind=APPROVED, at=SystemClock().now(), uid="u-1", signer="example.com/s", request=f"csr{HOSTILE}",
        requester=HOSTILE, groups=(HOSTILE,), approver=HOSTILE, reason=HOSTILE, message=HOSTILE, subject=HOSTILE,
        names=(HOSTILE,), node=HOSTILE, token=HOSTILE,
        trace=[{"rule": HOSTILE, "result": HOSTILE, "got": HOSTILE, "expected": HOSTILE, "by": HOSTILE}],
    )  # fmt: skip
    ledger = await SQLiteLedger.open(path, SystemClock())
    await ledger.append(asked, with_certificate(asked, certificate))
    await ledger.close()


POLICY = """apiVersion: kubevouch.io/v1alpha1
kind: CertificateRequestPolicy
metadata: {name: %(evil)s}
spec:
  selector: {signerNames: ["*"]}
  validations: [{expression: %(evil)s}]
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("hostile")
    ca = ThrowawayCA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*ca.issue().write(folder, "server"))
    (folder / "root\x1b[31m\u202e/etc/kubernetes/pki").mkdir(parents=True)
    with Cluster(https=True, controllers=("*",)) as cluster:
        token = cluster.token()
        for name in (CSR, EVIL):
            cluster.create(CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=request(f"who{HOSTILE}")))
        cluster.create(Node(metadata=ObjectMeta(name="worker-1")))
        run(["node", "remove", "gone-1", "--why", "lost", "--yes", "--kubeconfig", str(cluster.kubeconfig)])
        aio.run(hostile_ledger(folder / "root\x1b[31m\u202e/ledger.db"))
        (folder / "root\x1b[31m\u202e/policy.yaml").write_text(POLICY % {"evil": json.dumps(HOSTILE)})
        provider = encryption_world.keys("aesgcm", (f"a{HOSTILE}", encryption_world.KEY_1))
        encrypted = encryption_world.configuration((["*.*"], [provider]))
        (folder / "root\x1b[31m\u202e/encryption.json").write_bytes(encrypted)
        aio.run(damaged_store(folder / "root\x1b[31m\u202e/store.db"))
        with hostile(Wire.of_kubeconfig(cluster.kubeconfig, folder), tls) as between:
            yield Stage(cluster, between, folder, token, ca)


def clean(text: str) -> None:
    """Nothing in ``text`` but letters that are seen, and line ends."""
    bad = sorted({hex(ord(char)) for char in text if char != "\n" and not is_plain(char)})
    assert not bad, (bad, text)
    assert not re.search(r"^hint: run this", text, re.MULTILINE)


def arguments(stage: Stage, path: str) -> list[str]:
    """How each command is asked so that it has most to say. A new command fails here until it has its line."""
    there = ["--kubeconfig", stage.kubeconfig]
    token_id = stage.token.partition(".")[0]
    root = str(stage.folder / "root\x1b[31m\u202e")
    address = f"127.0.0.1:{stage.between.port}"
    join = [address, "--token", stage.token, "--discovery-token-ca-cert-hash", stage.pin, "--rootfs", root]
    rotation = [*there, "--rootfs", root]
    ledger = ["--ledger", f"{root}/ledger.db"]
    table = {
        "attestation roots list": ["--folder", root],
        "attestation roots update": [f"aws/{HOSTILE}/rsa2048", f"{root}/policy.yaml", "--folder", root],
        "bench join": ["--nodes", "2", "--timeout", "1s", *there],
        "audit checkpoint": ledger, "audit prove": [HOSTILE, *ledger], "audit verify": ledger,
        "controllers": [*there, "--controllers", HOSTILE], "controllers check": there,
        "csr explain": [CSR, *ledger, *there], "csr vote": [CSR, "-m", HOSTILE, *there],
        "issued expiring": ["--within", "99999h", *ledger], "issued export": ledger, "issued list": ledger,
        "issued receipt": [HOSTILE, *ledger], "issued show": [HOSTILE, *ledger],
        "install": ["--yes", "--no-wait", *there], "manifests": ["--namespace", HOSTILE],
        "uninstall": ["--dry-run", *there],
        "policy apply": ["-f", f"{root}/policy.yaml", *there],
        "policy lint": ["-f", f"{root}/policy.yaml"],
        "policy test": ["-f", f"{root}/policy.yaml", "--since", "30d", *ledger, "--pending", *there],
        "revoke": ["--user", HOSTILE, "-m", HOSTILE, "--yes", *ledger, *there], "revoke lift": ["r-1", *there],
        "revoke list": there, "revoke show": ["r-1", *there],
        "revoke webhook": ["--tls-cert-file", f"{root}/no.crt", "--tls-private-key-file", f"{root}/no.key", *there],
        "revoke webhook-config": ["--into", root, "--ca-file", f"{root}/no.crt"],
        "sign": ["--socket", f"{root}/s.sock", "--ledger", f"{root}/none.db"],
        "signer create": [f"example.com/{HOSTILE}", "--description", HOSTILE, *there],
        "signer describe": ["example.com/s", *there], "signer list": there,
        "signer resume": ["example.com/s", *there], "signer rotate": ["example.com/s", *there],
        "signer trust": ["example.com/s", *there],
        "agent": ["--kubeconfig", root, "--cert-dir", root, "--node-name", HOSTILE],
        "agent rotate": [HOSTILE, "--socket", str(stage.folder / "agent.sock")],
        "agent status": ["--socket", str(stage.folder / "agent.sock")],
        "ca rotate finish": rotation, "ca rotate pause": rotation, "ca rotate rollback": rotation,
        "ca rotate start": rotation, "ca rotate status": rotation, "ca rotate sync": rotation,
        "certs certificate-key": [],
        "certs check-expiration": ["--rootfs", root],
        "certs generate-csr": ["--rootfs", root, "--node-name", f"x{HOSTILE}"],
        "certs import": ["--rootfs", root, f"apiserver={root}"],
        "certs renew": ["apiserver", "--rootfs", root, "--skip-dial"],
        "completion": ["bash"],
        "credential": ["--rootfs", root, "--node-name", HOSTILE],
        "csr approve": [CSR, *there], "csr deny": [EVIL, *there], "csr list": there, "csr review": there,
        "csr describe": [CSR, *there], "csr show": [CSR, *there],
        "doctor cluster": there, "doctor node": ["--rootfs", root], "doctor join": [*join[:5], *there],
        "init": ["--rootfs", root, "--node-name", HOSTILE],
        **{f"init phase {name}": [*there, "--rootfs", root, "--timeout", "100ms"] for name in PHASES},
        "join": [*join, "--timeout", "1s"], "join phase": ["preflight", *join, "--node-name", HOSTILE],
        "join status": ["worker-1", *there],
        "tpm probe": ["--device", f"{root}/tpm", "--cert-dir", root],
        "node ban": ["worker-1", "--why", HOSTILE, "--yes", *there], "node forget": ["worker-1", "--yes", *there],
        "node identities": there, "node identity": ["worker-1", *there], "node unban": ["worker-1", *there],
        "node renew-now": ["worker-1", *there],
        "node replace": ["worker-1", "--expect-new-hardware", "--identity", HOSTILE, *there],
        "node lift": ["gone-1", *there], "node lockouts": there,
        "node remove": ["worker-1", "--why", HOSTILE, "--yes", *there],
        "recovery allow": ["worker-1", *there], "recovery forget": [f"worker-1{HOSTILE}", *there],
        "recovery list": there, "recovery revoke": ["worker-1", *there],
        "reset": ["--rootfs", root, "--dry-run"],
        "serve": ["--data-dir", root, "--store", f"etcd://{HOSTILE}"],
        "backup": [f"{root}/backup.tar", "--data-dir", root, "--store", f"sqlite:{root}/store.db"],
        "restore": [f"{root}/store.db", "--data-dir", f"{root}/restored"],
        "status": there,
        "store accept-loss": [f"{root}/store.db", "--yes"], "store verify": [f"{root}/store.db"],
        "store backup": [f"{root}/store.backup", "--store", f"{root}/store.db"],
        "store inspect": ["", "--store", f"{root}/store.db"],
        "store copy": [f"{root}/store.db", f"{root}/copy.db"],
        "store rewrite": [f"{root}/store.db", "--encryption-provider-config", f"{root}/encryption.json"],
        "store restore": [f"{root}/store.backup", f"{root}/store.db"],
        "token create": ["--description", HOSTILE, *there], "token delete": [token_id, *there], "token generate": [],
        "token keep": [token_id, "--pool", "web", *there],
        "token list": ["-o", "wide", *there], "token show": [token_id, *there],
        "verify receipt": [f"{root}/policy.yaml", "--key", f"{root}/policy.yaml"],
        "up": ["--data-dir", f"/proc/self{root}", "--secure-port", "0"], "version": there,
    }  # fmt: skip
    return table[path]


def every_command() -> list[str]:
    found = []
    for ctx in commands.contexts():
        group = isinstance(getattr(ctx.command, "commands", None), dict) or hasattr(ctx.command, "list_commands")
        if not group or getattr(ctx.command, "invoke_without_command", False):
            found.append(ctx.command_path.removeprefix("kubevouch").strip())
    return [each for each in found if each]


# What these take away is there to be shown until then.
LAST = {"csr deny", "node lift", "node remove", "recovery forget", "store accept-loss", "token delete"}
COMMANDS = sorted(every_command(), key=lambda path: (path in LAST, path))


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, typed: bytes) -> Iterator[None]:
    """A real one as standard input."""
    outer, inner = pty.openpty()
    os.write(outer, typed)
    with os.fdopen(inner, "r", closefd=True) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield
    os.close(outer)


@contextmanager
def hostile_agent(path: Path) -> Iterator[None]:
    names = ("name", "state", "subject", "asking", "waitsFor", "nextRotation", "lastError", "lastErrorTime", "hint")
    told = dict.fromkeys(names, HOSTILE) | {"notAfter": "2030-01-01T00:00:00Z", "hooks": [HOSTILE]}
    status = {
        "nodeName": HOSTILE, "healthy": False, "health": HOSTILE, "certificates": [told], "trustBundle": HOSTILE,
        "recovery": HOSTILE,
    }  # fmt: skip
    body = json.dumps(status).encode()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        with socket.socket(socket.AF_UNIX) as last, threading.Lock():
            if thread.is_alive():
                last.connect(str(path))
        thread.join()
    path.unlink()


@pytest.mark.parametrize("mode", ["", "names", "refused", "garbage"])
@pytest.mark.parametrize("path", COMMANDS)
def test_no_command_lets_a_cluster_drive_the_terminal(
    stage: Stage, path: str, mode: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.between.mode = mode
    monkeypatch.chdir(stage.folder)
    words = [*path.split(), *arguments(stage, path)]
    listening = hostile_agent(stage.folder / "agent.sock") if path.startswith("agent ") else None
    with terminal(monkeypatch, b"s\ns\nq\n"):
        if listening is None:
            run(words)
        else:
            with listening:
                run(words)
    said = capsys.readouterr()
    clean(said.out.replace("\r", "") if path == "csr review" else said.out)
    clean(said.err)
    assert "this is a defect" not in said.err


@pytest.mark.parametrize(
    "words",
    [["csr", "approve", "a/../b"], ["csr", "deny", "..", "a%2fb"], ["csr", "show", "."], ["join-status", "a/b"]],
)
def test_a_name_that_no_object_has_is_said_to_be_none(
    stage: Stage, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*words, "--kubeconfig", stage.true])
    said = capsys.readouterr().err.splitlines()
    assert code in (ExitCode.FAILED, ExitCode.INVALID)
    assert said[0].startswith("error: ") and not any("defect" in line for line in said)


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize(
    "path",
    [
        "csr list",
        "csr show",
        "token list",
        "token show",
        "join status",
        "recovery list",
        "node lockouts",
        "doctor cluster",
        "version",
        "status",
    ],
)
def test_documents_stay_data(
    stage: Stage, path: str, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.between.mode = ""
    run([*path.split(), *[word for word in arguments(stage, path) if word not in ("-o", "wide")], "-o", form])
    out = capsys.readouterr().out
    clean(out)
    # kubeadm's token list is one document after another.
    documents = out.replace("}\n{", "}\0{").split("\0")
    tree = list(yaml.safe_load_all(out)) if form == "yaml" else [json.loads(each) for each in documents if each]
    assert not path.startswith("csr") or _inside(tree)


def _inside(tree: object) -> bool:
    """Whether some text of ``tree`` has the hostile one whole: escaping is undone by whoever parses."""
    if isinstance(tree, dict):
        return any(_inside(each) for each in tree.values())
    if isinstance(tree, list):
        return any(_inside(each) for each in tree)
    return isinstance(tree, str) and "\x1b[2J" in tree


def test_a_name_is_only_completed_if_a_shell_reads_it_as_a_name(stage: Stage) -> None:
    proposed = completions(["csr", "approve", "--kubeconfig", stage.true, ""])
    assert proposed.startswith(f"{CSR}\n")
    assert "id" not in proposed


def test_only_the_terminal_voice_writes() -> None:
    """Whatever else printed would pass the one place that escapes."""
    import kubevouch.cli

    package = Path(kubevouch.cli.__file__).parent
    for path in [*package.rglob("*.py"), package.parent / "demo.py"]:
        if path.name == "ui.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "click.echo", "click.secho", "traceback.print_exc"), (path, node.lineno)
                assert not re.fullmatch(r"sys\.std(out|err)(\.buffer)?\.write", called), (path, node.lineno)
                assert "style" not in called or called == "ui.styled", (path, node.lineno)
