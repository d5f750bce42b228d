"""`kubevouch up` as a process: what it leaves, what it finds again, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from kubevouch.cli.exit_codes import ExitCode
from processes import KUBEVOUCH, PATIENCE_SECONDS, Ended, Up, environment, kubevouch
from wire import CSRS, Wire

MAPS = "/api/v1/namespaces/default/configmaps"


def up(folder: Path, *arguments: str | Path, **more: str) -> Ended:
    """A start that is expected to fail."""
    return kubevouch("up", "--data-dir", "./cluster", "--secure-port", "0", *arguments, cwd=folder, **more)


def refused(ended: Ended, code: ExitCode) -> str:
    """The ``error:`` line, if the command said that, perhaps a hint, and nothing else."""
    assert ended.code == code, ended
    assert ended.stdout == ""
    error, *hints = ended.stderr.splitlines()
    assert error.startswith("error: ")
    assert not error.startswith("error: unexpected")
    assert [hint.partition(" ")[0] for hint in hints] in ([], ["hint:"])
    return error.removeprefix("error: ")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ------------------------------------------------------------------ starting, and starting again


def test_a_second_start_finds_everything_again(tmp_path: Path) -> None:
    with Up(tmp_path) as first:
        wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"a": "1"}}
        uid = json.loads(wire.json("POST", MAPS, tree).body)["metadata"]["uid"]
        told = first.printed_join
        assert first.end() == 0
    pki = contents(tmp_path / "cluster/pki")
    with Up(tmp_path) as second:
        assert second.printed_join[1:] == told[1:]
        assert contents(tmp_path / "cluster/pki") == pki
        wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
        assert json.loads(wire.request("GET", f"{MAPS}/mine").body)["metadata"]["uid"] == uid
        assert second.join().code == 0
        assert second.end() == 0
    assert second.stderr == "  … stopping\n" * 2


def test_only_the_owner_reads_secrets_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Up(tmp_path) as running:
            # With the store's companion files, which are there while it is open.
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode)
                for path in (tmp_path / "cluster").rglob("*")
                if path.is_file()
            }
            assert running.end() == 0
    finally:
        os.umask(before)
    assert {name for name in modes if name.endswith("-wal")} == {"kubevouch.db-wal", "ledger.db-wal"}
    assert {name for name, mode in modes.items() if mode != 0o600} == {name for name in modes if name.endswith(".crt")}
    assert stat.S_IMODE((tmp_path / "cluster").stat().st_mode) == 0o700


def test_ipv6_takes_ipv4_too(tmp_path: Path) -> None:
    with Up(tmp_path, ("--bind-address", "::", "--advertise-address", "::1")) as running:
        assert running.printed_join[0] == f"[::1]:{running.port}"
        assert running.join().code == 0
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, int(running.port))).close()
        assert running.end() == 0


def test_a_store_in_memory_says_so(tmp_path: Path) -> None:
    with Up(tmp_path, ("--store", "memory:")) as running:
        assert running.end() == 0
    assert "warning: the store is in memory: everything but the certificates is gone when this process ends\n" in (
        running.stderr
    )
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_while_clients_are_connected(tmp_path: Path, number: signal.Signals) -> None:
    """One that watches, one that idles, one in the middle of its headers, one of its handshake, one before it."""
    with Up(tmp_path) as running:
        wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
        with (
            wire.connected() as watching,
            wire.connected(),
            wire.connected() as halfway,
            socket.create_connection(("127.0.0.1", wire.port)) as greeting,
            socket.create_connection(("127.0.0.1", wire.port)),
        ):
            watching.sendall(f"GET {CSRS}?watch=true HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            assert watching.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
            halfway.sendall(b"GET /version HTTP/1.1\r\nHost: here\r\nX-")
            greeting.sendall(b"\x16\x03\x01")
            assert running.end(number) == 0
            # The stream of the watch has its proper end.
            assert watching.makefile("rb").read().endswith(b"0\r\n\r\n")
    assert running.stderr == "  … stopping\n"


# ------------------------------------------------------------------ reasons not to start


def test_a_directory_in_use(tmp_path: Path) -> None:
    with Up(tmp_path) as running:
        error = refused(up(tmp_path), ExitCode.PREFLIGHT)
        assert error == f"the data directory cluster is in use by process {running.pid}"
        assert running.end() == 0


def test_a_store_in_use(tmp_path: Path) -> None:
    with Up(tmp_path) as running:
        ended = kubevouch(
            "up",
            "--data-dir",
            "./other",
            "--secure-port",
            "0",
            "--store",
            "sqlite:./cluster/kubevouch.db",
            cwd=tmp_path,
        )
        assert f"a store that process {running.pid} has open" in refused(ended, ExitCode.FAILED)
        assert running.end() == 0


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = up(tmp_path, "--bind-address", "127.0.0.1", "--secure-port", str(port))
    assert refused(ended, ExitCode.PREFLIGHT) == f"cannot listen on 127.0.0.1:{port}: address already in use"
    assert not list(tmp_path.rglob("*.key"))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--controllers", "x"), '"x" is not in the list of known controllers'),
        (("--controllers", "*,-y,csrsigning"), '"y" is not in the list of known controllers'),
        (("--runtime-config", "example.com/v1=true"), "unknown api groups example.com"),
        (("--store", "postgres:"), "got the store 'postgres:', expected memory:, sqlite:PATH or etcd://HOST:PORT"),
        (("--token-ttl", "-1h"), "got the token TTL -1h0m0s, expected 0 or more"),
        (("--token-ttl", "soon"), "invalid value for '--token-ttl': got 'soon', expected a duration"),
        (("--bind-address", "here"), "invalid value for '--bind-address': got 'here', expected an IP address"),
        (("--secure-port", "70000"), "invalid value for '--secure-port': 70000 is not in the range"),
        (("--data-dir", ""), "invalid value for '--data-dir': got '', expected the path of a folder"),
        (("--max-requests-inflight", "0"), "invalid value for '--max-requests-inflight': 0 is not in the range"),
        (("--tracing-config-file", "/nope.yaml"), "the tracing configuration /nope.yaml cannot be read"),
        (("--tracing-config-file", "/dev/null"), "the tracing configuration /dev/null cannot be used: "),
        (("--nope",), "no such option '--nope'"),
        (("more",), "got unexpected extra argument (more)"),
    ],
)
def test_a_setting_that_cannot_be_meant(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    assert refused(up(tmp_path, *arguments), ExitCode.INVALID).startswith(error)
    assert not list(tmp_path.iterdir())


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    error = refused(up(tmp_path, "--bind-address", "192.0.2.77"), ExitCode.PREFLIGHT)
    assert error == "cannot listen on 192.0.2.77:0: cannot assign requested address"


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cluster").touch()
    error = refused(up(tmp_path), ExitCode.INVALID)
    assert error == "invalid value for '--data-dir': got './cluster', which is a file, expected a folder"
    error = refused(up(tmp_path, "--data-dir", "./cluster/below"), ExitCode.PREFLIGHT)
    assert error == "the data directory cluster/below cannot be written: not a directory"


def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """As somebody who is not root: ``/proc`` takes no folder from anyone."""
    error = refused(up(tmp_path, "--data-dir", "/proc/cluster"), ExitCode.PREFLIGHT)
    assert error.startswith("the data directory /proc/cluster cannot be written: ")


# ------------------------------------------------------------------ a directory that was damaged


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a first start leaves."""
    folder = tmp_path_factory.mktemp("pristine")
    with Up(folder) as running:
        assert running.end() == 0
    return folder / "cluster"


@pytest.fixture
def cluster(pristine: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-a", pristine, tmp_path], check=True)
    return tmp_path / "cluster"


def test_half_of_an_authority(cluster: Path) -> None:
    (cluster / "pki/ca.key").unlink()
    error = refused(up(cluster.parent), ExitCode.FAILED)
    assert error == "cluster/pki/ca.key is missing, expected it beside ca.crt"


@pytest.mark.parametrize(
    ("name", "donor", "why"),
    [
        ("ca.crt", None, "tls: failed to find any PEM data in certificate input"),
        ("ca.key", None, "tls: failed to find any PEM data in key input"),
        ("ca.crt", "front-proxy-ca.crt", "tls: private key does not match public key"),
    ],
)
def test_an_authority_that_does_not_fit(cluster: Path, name: str, donor: str | None, why: str) -> None:
    pki = cluster / "pki"
    (pki / name).write_bytes(b"hello\n" if donor is None else (pki / donor).read_bytes())
    before = contents(cluster)
    error = refused(up(cluster.parent), ExitCode.FAILED)
    assert error == f"cluster/pki/ca.crt and ca.key cannot be used: {why}"
    assert contents(cluster) == before | {cluster / "kubevouch.lock": (cluster / "kubevouch.lock").read_bytes()}


def test_a_broken_service_account_key(cluster: Path) -> None:
    (cluster / "pki/sa.key").write_text("hello\n")
    (cluster / "pki/sa.pub").unlink()
    error = refused(up(cluster.parent), ExitCode.FAILED)
    assert error == "cluster/pki/sa.key cannot be used: tls: failed to find any PEM data in key input"


def test_a_front_proxy_authority_that_is_the_client_authority(cluster: Path) -> None:
    for ending in ("crt", "key"):
        (cluster / f"pki/front-proxy-ca.{ending}").write_bytes((cluster / f"pki/ca.{ending}").read_bytes())
    error = refused(up(cluster.parent), ExitCode.FAILED)
    assert error == "cluster/pki/front-proxy-ca.crt has the key of the client CA ca.crt"
    # Its lock stays: to remove a file that another start may hold would let two in. It is in nobody's way.
    assert (cluster / "kubevouch.lock").exists()
    for ending in ("crt", "key"):
        (cluster / f"pki/front-proxy-ca.{ending}").unlink()
    (cluster / "pki/front-proxy-client.crt").unlink()
    (cluster / "pki/front-proxy-client.key").unlink()
    with Up(cluster.parent) as again:
        assert again.end() == 0


@pytest.mark.parametrize("damage", ["text", "middle", "empty", "folder"])
def test_a_damaged_store(cluster: Path, damage: str) -> None:
    store = cluster / "kubevouch.db"
    whole = store.read_bytes()
    if damage == "folder":
        store.unlink()
        store.mkdir()
    else:
        middle = whole[:4096] + os.urandom(len(whole) - 4096)
        store.write_bytes({"text": b"hello", "middle": middle, "empty": b""}[damage])
    error = refused(up(cluster.parent), ExitCode.FAILED)
    assert error.startswith(f"{store}: got ")
    assert error.endswith(
        "restore a backup, or move the file away, with all whose names begin with its own, to begin anew"
    )


def test_a_foreign_serving_pair_is_replaced(cluster: Path, tmp_path: Path) -> None:
    """The pair of a cluster whose authority has the same name: only its signature tells."""
    (tmp_path / "other").mkdir()
    with Up(tmp_path / "other") as other:
        assert other.end() == 0
    for ending in ("crt", "key"):
        pair = f"pki/apiserver.{ending}"
        (cluster / pair).write_bytes((tmp_path / "other/cluster" / pair).read_bytes())
    with Up(tmp_path) as running:
        assert running.join().code == 0
        assert running.end() == 0
    assert '"certificate replaced" file="cluster/pki/apiserver.crt"' in running.stderr


# ------------------------------------------------------------------ what nobody foresaw


@pytest.mark.parametrize("broken", ["import", "call"])
def test_an_unforeseen_exception_is_one_line(tmp_path: Path, broken: str) -> None:
    """A module that cannot be loaded, as with a broken installation, or that raises when it is used."""
    code = "import nowhere_to_be_found" if broken == "import" else "def new_event_loop(): raise KeyError('surprise')"
    (tmp_path / "uvloop.py").write_text(code)
    ended = up(tmp_path, PYTHONPATH=str(tmp_path))
    assert ended.code == ExitCode.FAILED
    error, hint = ended.stderr.splitlines()
    assert error.startswith("error: unexpected ")
    assert hint == "hint: this is a defect in kubevouch; KUBEVOUCH_DEBUG=1 shows where it happened"


def test_help_loads_next_to_nothing(tmp_path: Path) -> None:
    code = "import sys; from kubevouch.cli.main import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run(
        [KUBEVOUCH[0], "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    assert "Commands:" in ended.stdout
    heavy = {"aiohttp", "cryptography", "msgspec", "asyncio", "uvloop", "sqlite3", "google.protobuf", "yaml"}
    assert not heavy & set(ended.stderr.split())
