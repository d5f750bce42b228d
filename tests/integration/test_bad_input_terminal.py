"""What a person reads when `join` or `token` cannot do what was asked: one sentence, what to do, an exit code."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import aio
from join_world import TOKEN, join_world
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import SystemClock
from processes import KUBEVOUCH, Ended, Up, environment, kubevouch
from wire import Wire

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
PIN = "--discovery-token-ca-cert-hash"
UNPROVEN = "couldn't validate the identity of the API Server: "


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("terminal")) as running:
        yield running
        assert running.stderr == ""


def said(ended: Ended, code: ExitCode) -> tuple[str, str]:
    """The error and the hint; steps and warnings may come before."""
    assert ended.code == code, ended
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("error: ") == 1
    error, _, hint = ended.stderr.partition("error: ")[2].rstrip("\n").partition("\nhint: ")
    assert "\n" not in error + hint
    return error, hint


def join(up: Up, folder: Path, *, to: str = "", token: str = "", pin: str = "", timeout: str = "1s") -> Ended:
    """A join whose folder stays empty, for it must not succeed."""
    _, own_token, own_pin = up.join_arguments
    ended = kubevouch(
        "join", to or f"127.0.0.1:{up.port}", "--token", token or own_token, PIN, pin or own_pin,
        "--timeout", timeout, "--node-name", "worker-1", "--rootfs", "./worker", cwd=folder,
    )  # fmt: skip
    assert not (folder / "worker/etc/kubernetes/kubelet.conf").exists()
    left = [path.read_text() for path in folder.rglob("worker/**/*") if path.is_file()]
    assert not any(own_token in text for text in left)
    return ended


# ------------------------------------------------------------------ join


@pytest.mark.parametrize(
    "token", ["nope", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef\n", "абвгде.0123456789abcdef"]
)
def test_a_malformed_token(up: Up, tmp_path: Path, token: str) -> None:
    error, hint = said(join(up, tmp_path, token=token), ExitCode.INVALID)
    assert error.startswith("the bootstrap token is invalid: a bootstrap token has the form [a-z0-9]{6}.[a-z0-9]{16}")
    assert token.strip() not in error
    assert hint == "kubevouch token create makes one"


def test_an_unknown_token(up: Up, tmp_path: Path) -> None:
    error, _ = said(join(up, tmp_path, token="abcdef.0123456789abcdef"), ExitCode.NO_ANSWER)
    assert error.startswith(
        f'{UNPROVEN}could not find a JWS signature in the cluster-info ConfigMap for token ID "abcdef": the token '
        "is unknown there or has expired"
    )


def test_an_expired_token(up: Up, tmp_path: Path) -> None:
    wire = Wire.of_kubeconfig(up.folder / "cluster/admin.conf", tmp_path)
    data = {
        "token-id": "expire", "token-secret": "0123456789abcdef", "expiration": "2020-01-01T00:00:00Z",
        "usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
    }  # fmt: skip
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-expire"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": data,
    }
    assert wire.json("POST", SECRETS, secret).code == 201
    error, _ = said(join(up, tmp_path, token="expire.0123456789abcdef"), ExitCode.NO_ANSWER)
    assert 'for token ID "expire": the token is unknown there or has expired' in error


def test_a_wrong_secret(up: Up, tmp_path: Path) -> None:
    token_id = up.join_arguments[1].partition(".")[0]
    error, hint = said(join(up, tmp_path, token=f"{token_id}.0123456789abcdef"), ExitCode.NOT_TRUSTED)
    assert error == (
        f"{UNPROVEN}failed to verify JWS signature of received cluster info object, can't trust this API Server"
    )
    assert hint == "check the token; kubevouch token list shows those that are valid"


def test_a_wrong_pin(up: Up, tmp_path: Path) -> None:
    error, hint = said(join(up, tmp_path, pin=f"sha256:{'0' * 64}"), ExitCode.NOT_TRUSTED)
    assert error.startswith(f"{UNPROVEN}cluster CA found in cluster-info ConfigMap is invalid: none of the public keys")
    assert hint == "check the address and the hash; if both are right, something in between answers for the server"


@pytest.mark.parametrize("pin", ["sha256:00", f"md5:{'0' * 64}", "sha256:nothex", "0"])
def test_a_malformed_pin(up: Up, tmp_path: Path, pin: str) -> None:
    error, hint = said(join(up, tmp_path, pin=pin), ExitCode.INVALID)
    assert error.startswith("the CA certificate hash cannot be used: ")
    assert hint == "kubevouch token create --print-join-command prints it"


def test_no_pin_at_all(up: Up, tmp_path: Path) -> None:
    ended = kubevouch("join", f"127.0.0.1:{up.port}", "--token", up.join_arguments[1], cwd=tmp_path)
    error, hint = said(ended, ExitCode.INVALID)
    assert "--discovery-token-unsafe-skip-ca-verification" in error
    assert hint == "kubevouch token create --print-join-command prints the hash"


@pytest.mark.parametrize("address", ["nonsense:port:x", "https://127.0.0.1:6443", "127.0.0.1"])
def test_a_malformed_address(up: Up, tmp_path: Path, address: str) -> None:
    _, hint = said(join(up, tmp_path, to=address), ExitCode.INVALID)
    assert hint == "give the API server as HOST:PORT, such as 192.0.2.10:6443"


def test_no_server(up: Up, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    error, hint = said(join(up, tmp_path, to=f"127.0.0.1:{port}"), ExitCode.NO_ANSWER)
    assert error.endswith(f"no connection to 127.0.0.1:{port}: connection refused")
    assert hint == "it was tried for 1 s; check the address, the server and the token"


def test_a_server_that_says_nothing(up: Up, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        error, _ = said(join(up, tmp_path, to=f"127.0.0.1:{port}"), ExitCode.NO_ANSWER)
    assert error.endswith(f"127.0.0.1:{port} did not answer in time")


def test_the_server_of_another_cluster(up: Up, tmp_path: Path) -> None:
    """It has no token of that ID; with the pin, that is told apart from a token that is not signed yet."""
    (tmp_path / "other").mkdir()
    with Up(tmp_path / "other") as other:
        error, hint = said(join(up, tmp_path, to=f"127.0.0.1:{other.port}"), ExitCode.NOT_TRUSTED)
        assert other.end() == 0
    assert "none of the public keys" in error
    assert "something in between answers for the server" in hint


def test_something_in_between_that_speaks_for_the_server(up: Up, tmp_path: Path) -> None:
    """It hands on the true cluster-info, and has a certificate of its own."""

    async def scenario() -> Ended:
        wire = Wire.of_kubeconfig(up.folder / "cluster/admin.conf", tmp_path, anonymous=True)
        true = wire.request("GET", CLUSTER_INFO)
        assert true.code == 200
        async with join_world(tmp_path, signed=False) as impostor:
            tree = json.loads(true.body)
            client = impostor.server.client
            found = await client.get(CONFIG_MAPS, "cluster-info", "kube-public")
            await client.update(CONFIG_MAPS, msgspec.structs.replace(found, data=tree["data"]))
            return await _joined(tmp_path, impostor.endpoint, up.join_arguments[1], up.join_arguments[2])

    error, hint = said(aio.run(scenario(), blocked_seconds=20.0), ExitCode.NOT_TRUSTED)
    assert "127.0.0.1" in error
    assert "certificate" in error
    assert hint


def test_a_clock_that_is_behind(tmp_path: Path) -> None:
    """The cluster was made on a machine whose clock is a day ahead."""

    async def scenario() -> Ended:
        clock = FakeClock(SystemClock().now() + dt.timedelta(days=1))
        async with join_world(tmp_path, clock) as world:
            return await _joined(tmp_path, world.endpoint, TOKEN.text, world.pin)

    error, hint = said(aio.run(scenario(), blocked_seconds=20.0), ExitCode.NOT_TRUSTED)
    assert "is not yet valid (it is " in error
    assert "clock" in hint


async def _joined(folder: Path, endpoint: str, token: str, pin: str) -> Ended:
    process = await asyncio.create_subprocess_exec(
        *KUBEVOUCH, "join", endpoint, "--token", token, PIN, pin, "--node-name", "worker-1", "--rootfs", "./worker",
        "--timeout", "3s", cwd=folder, env=environment(),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, stdout.decode(), stderr.decode())


@pytest.mark.parametrize("what", ["kubeconfig", "signature"])
def test_cluster_info_that_was_tampered_with(tmp_path: Path, what: str) -> None:
    with Up(tmp_path) as up:
        token = up.join_arguments[1]  # signed when it is told
        assert up.end() == 0
    with Up(tmp_path, ("--controllers", "csrapproving,csrsigning"), token=token) as up:
        wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
        data = json.loads(wire.request("GET", CLUSTER_INFO).body)["data"]
        key = "kubeconfig" if what == "kubeconfig" else f"jws-kubeconfig-{token.partition('.')[0]}"
        changed = data[key] + " " if what == "kubeconfig" else data[key][:-4] + "AAAA"
        patch = json.dumps({"data": {key: changed}}).encode()
        assert wire.request("PATCH", CLUSTER_INFO, patch, "application/merge-patch+json").code == 200
        error, _ = said(join(up, tmp_path), ExitCode.NOT_TRUSTED)
        assert error.endswith(
            "failed to verify JWS signature of received cluster info object, can't trust this API Server"
        )
        assert up.end() == 0


def test_plain_http(up: Up, tmp_path: Path) -> None:
    async def scenario() -> tuple[int, Ended]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return port, await _joined(tmp_path, f"127.0.0.1:{port}", *up.join_arguments[1:])

    port, ended = aio.run(scenario(), blocked_seconds=20.0)
    error, hint = said(ended, ExitCode.NOT_TRUSTED)
    assert error.endswith(f"127.0.0.1:{port} does not speak TLS")
    assert hint == "check the port; plain HTTP is not an API server's"


# ------------------------------------------------------------------ token


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("create", "nope"), ExitCode.INVALID, "a bootstrap token has the form [a-z0-9]{6}.[a-z0-9]{16}"),
        (("create", "--ttl=-1h"), ExitCode.INVALID, "invalid ttl -3600s"),
        (("create", "--ttl=soon"), ExitCode.INVALID, "invalid value for '--ttl': got 'soon', expected a duration"),
        (("create", "--usages", "x"), ExitCode.INVALID, "invalid bootstrap token usage string: x"),
        (("create", "--groups", "x"), ExitCode.INVALID, 'bootstrap group "x" is invalid'),
        (("delete", "nope!"), ExitCode.INVALID, "given token didn't match pattern"),
        (("delete",), ExitCode.INVALID, "missing argument; 'token delete' is missing token"),
        (("delete", "zzzzzz"), ExitCode.FAILED, 'failed to delete bootstrap token "zzzzzz"'),
        (("list", "-o", "xml"), ExitCode.INVALID, "invalid value for '-o' / '--output': 'xml' is not one of"),
        (("lisst",), ExitCode.INVALID, "no such command 'lisst'"),
    ],
)
def test_what_token_cannot_do(up: Up, arguments: tuple[str, ...], code: ExitCode, error: str) -> None:
    ended = kubevouch("token", *arguments, cwd=up.folder, KUBECONFIG="./cluster/admin.conf")
    assert said(ended, code)[0].startswith(error)
    assert ended.stdout == ""


def test_a_token_that_is_there(up: Up) -> None:
    token = up.join_arguments[1]
    ended = kubevouch("token", "create", token, cwd=up.folder, KUBECONFIG="./cluster/admin.conf")
    token_id = token.partition(".")[0]
    assert said(ended, ExitCode.FAILED) == (
        f'a token with id "{token_id}" already exists',
        f"kubevouch token delete {token_id} removes it",
    )


@pytest.mark.parametrize(
    ("name", "code", "error", "hint"),
    [
        ("missing", ExitCode.INVALID, "the kubeconfig missing cannot be read: No such file or directory", ""),
        ("text", ExitCode.INVALID, "the kubeconfig text cannot be used: ", ""),
        ("key", ExitCode.INVALID, "the client certificate is not PEM", ""),
        ("port", ExitCode.NO_ANSWER, "no connection to 127.0.0.1:1: connection refused", "check that the API server"),
        ("bearer", ExitCode.REFUSED, "from server (Unauthorized): Unauthorized", "the server does not know"),
        (
            "nobody",
            ExitCode.REFUSED,
            'from server (Forbidden): secrets is forbidden: User "system:anonymous" cannot list resource "secrets"',
            "use a kubeconfig that may do this",
        ),
    ],
)  # fmt: skip
def test_a_kubeconfig_that_does_not_do(
    up: Up, tmp_path: Path, name: str, code: ExitCode, error: str, hint: str
) -> None:
    good = (up.folder / "cluster/admin.conf").read_text()
    lines = [line for line in good.splitlines(keepends=True) if "client-" not in line]
    bad = base64.b64encode(b"hello").decode()
    made = {
        "text": "hello\n",
        "key": "".join([*lines, f"    client-certificate-data: {bad}\n    client-key-data: {bad}\n"]),
        "port": re.sub(r"server: .*", "server: https://127.0.0.1:1", good),
        "bearer": "".join([*lines, "    token: nope\n"]),
        "nobody": "".join([*lines, "    username: ''\n"]),
    }
    if name in made:
        (tmp_path / name).write_text(made[name])
    told, advice = said(kubevouch("token", "list", "--kubeconfig", name, cwd=tmp_path), code)
    assert told.startswith(error)
    assert advice.startswith(hint)


def test_no_kubeconfig(tmp_path: Path) -> None:
    error, hint = said(kubevouch("token", "list", cwd=tmp_path, HOME=str(tmp_path)), ExitCode.INVALID)
    assert error.startswith("no kubeconfig: there is none at ")
    assert hint == "give --kubeconfig FILE or set KUBECONFIG"
