"""The cases ``token-cli`` of ``node.jsonl``, typed as a person types them, against a real server in another thread."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from join_world import TOKEN, JoinWorld, join_world
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Secret
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import run
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import bootstrap_token, kubeconfig
from kubevouch.pki import control_plane, pins
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records import token_pools
from kubevouch.records.bootstrap_tokens import parse_token

VECTORS = Path(__file__).parents[2] / "vectors" / "node.jsonl"
ALL = {case["id"]: case for case in map(json.loads, VECTORS.read_text().splitlines())}
CASES = [case for case in ALL.values() if case["area"] == "token-cli"]
Act = Callable[[Callable[[JoinWorld], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Act]:
    """A cluster that ``KUBECONFIG`` leads to; called with a coroutine function, runs it beside the server."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()

    def on_loop(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    try:
        world: JoinWorld = on_loop(stack.enter_async_context(join_world(tmp_path)))
        server = world.server
        text = kubeconfig.client_kubeconfig(
            server.endpoint.url, server.pki.authority, control_plane.ADMIN, now=world.clock.now()
        )
        kubeconfig.write(tmp_path / "admin.conf", text)
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "admin.conf"))
        yield lambda work: on_loop(work(world))
    finally:
        on_loop(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _none_left(world: JoinWorld) -> None:
    for each in (await bootstrap_token.list_tokens(world.server.client))[0]:
        await bootstrap_token.delete(world.server.client, each.token.token_id)


async def _make(world: JoinWorld, text: str) -> None:
    plan = bootstrap_token.plan(parse_token(text), now=world.clock.now())
    await bootstrap_token.create(world.server.client, plan)


async def _broken(world: JoinWorld, raw: dict[str, str]) -> None:
    secret = Secret(
        metadata=ObjectMeta(name=raw["name"], namespace="kube-system"),
        type=wellknown.BOOTSTRAP_TOKEN_SECRET,
        data={key: value.encode() for key, value in raw.items() if key != "name"},
    )
    await world.server.client.create(catalog.SECRETS, secret)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_token_cli(case: dict[str, Any], act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    given, then = case["given"], case["then"]
    act(_none_left)
    raws = given.get("secrets_raw", ())
    texts = [raw["token"] for raw in raws if "token" in raw]
    texts += [f"{name.removeprefix('bootstrap-token-')}.{'x' * 16}" for name in given.get("existing", ())]
    if given["argv"][1] == "delete":
        texts += [f"{text.partition('.')[0]}.{'x' * 16}" for text in given["argv"][2:]]
    for text in texts:
        act(partial(_make, text=text))
    for raw in (raw for raw in raws if "name" in raw):
        act(partial(_broken, raw=raw))
    code = run(given["argv"])
    output = capsys.readouterr()
    assert (code == 0) is (then.get("ok", True) and then.get("exit", 0) == 0)
    assert then.get("error_contains", "") in output.err
    if "stdout" in then:
        assert output.out == then["stdout"]
    if "rows" in then:
        assert len(output.out.splitlines()) == 1 + then["rows"]
    assert all(part in output.out for part in then.get("stdout_contains", ()))
    if given["argv"][1] == "create" and not then.get("ok", True) and "existing" not in given:
        assert not act(lambda world: bootstrap_token.list_tokens(world.server.client))[0]
    assert bool(output.err) is (then.get("stderr_non_empty", False) or not then.get("ok", True))
    if "secret_has_no_key" in then:
        stored = act(lambda world: world.server.client.get(catalog.SECRETS, "bootstrap-token-p9k2zq", "kube-system"))
        assert then["secret_has_no_key"] not in stored.data


def test_the_join_command_names_address_token_and_hash(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "create", "--no-separate", "--print-join-command", "aaaaaa.x4mz8tbr5hcp1vdy"]) == 0
    line = capsys.readouterr().out

    async def facts(world: JoinWorld) -> tuple[str, str]:
        return world.endpoint, pins.pin_of(x509_certificate.parse_pem(world.server.pki.ca_certificate))

    address, pin = act(facts)
    assert line == (f"kubevouch join {address} --token aaaaaa.x4mz8tbr5hcp1vdy --discovery-token-ca-cert-hash {pin}\n")


def test_a_command_that_cannot_be_printed_leaves_no_token(
    act: Act, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (tmp_path / "admin.conf").read_text()
    kept = [line for line in text.splitlines() if "certificate-authority-data" not in line]
    (tmp_path / "admin.conf").write_text("\n".join(kept))
    assert run(["token", "create", "--print-join-command", "aaaaaa.x4mz8tbr5hcp1vdy"]) == 3
    assert "no CA certificate" in capsys.readouterr().err
    with pytest.raises(APIStatusError, match="not found"):
        act(lambda world: world.server.client.get(catalog.SECRETS, "bootstrap-token-aaaaaa", "kube-system"))


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_lists_are_one_document_a_token(act: Act, capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert run(["token", "create", "aaaaaa.x4mz8tbr5hcp1vdy", "--ttl", "0"]) == 0
    capsys.readouterr()
    assert run(["token", "list", "-o", output]) == 0
    out = capsys.readouterr().out
    marks = {"json": '"kind": "BootstrapToken"', "yaml": "kind: BootstrapToken"}
    assert out.count(marks[output]) == 2
    assert out.count("aaaaaa.x4mz8tbr5hcp1vdy") == 1


def test_generate_asks_nobody(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert run(["token", "generate"]) == 0
    parse_token(capsys.readouterr().out.strip())


@pytest.mark.parametrize(
    "argv",
    [
        ["delete"],
        ["delete", "ZZ"],
        ["create", "abc"],
        ["create", "--usages", "x"],
        ["create", "--ttl", "5"],
        ["list", "x"],
    ],
)
def test_what_cannot_be_meant(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", *argv]) == 3
    output = capsys.readouterr()
    assert output.err.startswith("error: ") and not output.out


async def _id_of_first(world: JoinWorld) -> str:
    return (await bootstrap_token.list_tokens(world.server.client))[0][0].token.token_id


def test_show_tells_everything_but_the_secret(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    token_id = act(_id_of_first)
    assert run(["token", "show", token_id]) == 0
    shown = capsys.readouterr().out
    assert "signing, authentication" in shown
    assert "nobody has asked for a certificate with it" in shown
    assert run(["token", "show", token_id, "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["tokenID"], tree["state"], tree["signed"]) == (token_id, "valid", True)
    assert TOKEN.token_secret not in shown + json.dumps(tree)


def test_show_of_a_token_that_nobody_knows(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "show", "000000"]) == 1
    assert capsys.readouterr().err == (
        'error: nothing is known of a bootstrap token with the ID "000000"\n'
        "hint: kubevouch token list shows those that are there\n"
    )
    assert run(["token", "show", "nonsense"]) == 3


# ------------------------------------------------------------------ beyond kubeadm


def _secret(act: Act, text: str) -> Secret:
    name = f"bootstrap-token-{text[:6]}"
    found: Secret = act(lambda world: world.server.client.get(catalog.SECRETS, name, "kube-system"))
    return found


@pytest.mark.parametrize("asked", ["flag", "environment"])
def test_separate_tokens(
    act: Act, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    if asked == "environment":
        monkeypatch.setenv("KUBEVOUCH_SEPARATE_TOKENS", "true")
    flags = ["--separate"] if asked == "flag" else []
    assert run(["token", "create", *flags, "--uses", "2"]) == 0
    discovery, authentication = capsys.readouterr().out.split()
    signing, coming = _secret(act, discovery), _secret(act, authentication)
    assert "usage-bootstrap-authentication" not in signing.data and "auth-extra-groups" not in signing.data
    assert signing.metadata.annotations == {}
    assert "usage-bootstrap-signing" not in coming.data
    assert coming.metadata.annotations == {"bootstrap-token.kubevouch.io/uses": "2"}


def test_the_join_command_of_separate_tokens(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "create", "--separate", "--print-join-command", "aaaaaa.x4mz8tbr5hcp1vdy"]) == 0
    words = capsys.readouterr().out.split()
    assert words[:2] == ["kubevouch", "join"]
    flags = dict(zip(words[3::2], words[4::2], strict=True))
    assert set(flags) == {"--discovery-token", "--tls-bootstrap-token", "--discovery-token-ca-cert-hash"}
    assert flags["--tls-bootstrap-token"] == "aaaaaa.x4mz8tbr5hcp1vdy"
    assert "usage-bootstrap-signing" not in _secret(act, "aaaaaa").data
    assert _secret(act, flags["--discovery-token"]).data["usage-bootstrap-signing"] == b"true"


def test_of_two_tokens_that_cannot_both_be_made_none_stays(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(act(lambda world: bootstrap_token.list_tokens(world.server.client))[0])
    assert run(["token", "create", "--separate", TOKEN.text]) != 0
    assert "already exists" in capsys.readouterr().err
    assert len(act(lambda world: bootstrap_token.list_tokens(world.server.client))[0]) == before


def test_what_is_typed_wins_over_the_environment(
    act: Act, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEVOUCH_SEPARATE_TOKENS", "true")
    assert run(["token", "create", "--usages", "signing"]) == 0
    assert len(capsys.readouterr().out.split()) == 1
    assert run(["token", "create", "--no-separate"]) == 0
    assert len(capsys.readouterr().out.split()) == 1
    assert act(lambda world: bootstrap_token.list_tokens(world.server.client))


KEY = f"sha256:{'ab' * 32}"


def test_bounds_are_annotations_and_kubeadms_columns_stay(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    bounds = ["--uses", "3", "--node-name", "worker-*", "--node-name", "db-1", "--cidr", "192.0.2.0/24", "--key", KEY]
    assert run(["token", "create", "aaaaaa.x4mz8tbr5hcp1vdy", *bounds]) == 0
    stored = _secret(act, "aaaaaa")
    assert stored.metadata.annotations == {
        "bootstrap-token.kubevouch.io/uses": "3",
        "bootstrap-token.kubevouch.io/node-names": "worker-*,db-1",
        "bootstrap-token.kubevouch.io/source-ranges": "192.0.2.0/24",
        "bootstrap-token.kubevouch.io/public-keys": KEY,
    }
    assert set(stored.data) == {
        "token-id", "token-secret", "expiration", "usage-bootstrap-authentication", "usage-bootstrap-signing",
        "auth-extra-groups",
    }  # fmt: skip
    capsys.readouterr()
    assert run(["token", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split("   ")[-1].strip() == "EXTRA GROUPS"
    assert run(["token", "list", "-o", "wide"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split("   ")[-1].strip() == "BOUNDS" and "USES LEFT" in header
    bounded = next(row for row in rows if row.startswith("aaaaaa"))
    assert "   3           3 uses; node name worker-* or db-1; from 192.0.2.0/24; key sha256:abab" in bounded
    assert next(row for row in rows if row.startswith(TOKEN.token_id)).endswith("<any>       <none>")
    assert run(["token", "show", "aaaaaa", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["bounds"] == {
        "uses": 3,
        "usesLeft": 3,
        "nodeNames": ["worker-*", "db-1"],
        "sourceRanges": ["192.0.2.0/24"],
        "publicKeys": [KEY],
    }


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--uses", "0"], "got 0 uses, expected 1 to 500"),
        (["--uses", "many"], "Invalid value"),
        (["--cidr", "x"], "expected one such as"),
        (["--key", "x"], "invalid hash"),
        (["--node-name", "a_b"], "expected a DNS name"),
        (["--uses", "1", "--usages", "signing"], "got usages without authentication"),
        (["--separate", "--usages", "signing"], "cannot use --usages with --separate"),
    ],
)
def test_bounds_that_cannot_be_meant(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "create", *argv]) == 3
    assert text.lower() in capsys.readouterr().err.lower()


def test_a_person_is_told_what_a_token_can_do(act: Act) -> None:
    master, terminal = os.openpty()
    with os.fdopen(master, "rb", buffering=0) as screen:
        with os.fdopen(terminal, "wb") as errors:
            command = [sys.executable, "-m", "kubevouch.cli.main", "token", "create", "--ttl", "2h"]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, check=True, timeout=240)
        assert parse_token(done.stdout.decode().strip())
        assert screen.read(1000).startswith(b"whoever has the token can become any node whose name is free, ")


def test_a_token_is_kept_for_a_pool_and_no_longer(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    async def stored(world: JoinWorld) -> Secret:
        return await world.server.client.get(catalog.SECRETS, TOKEN.secret_name, wellknown.KUBE_SYSTEM_NAMESPACE)

    pool = ("--pool", "web", "--keeping", "rotate", "--nodes", "pool=web")
    assert run(["token", "keep", TOKEN.token_id, *pool]) == 0
    assert capsys.readouterr().out == f'bootstrap token "{TOKEN.token_id}" is kept\n'
    assert token_pools.pool_of(act(stored)) == token_pools.parse("web", "rotate", "pool=web", dt.timedelta(minutes=15))
    assert run(["token", "keep", TOKEN.text, "--pool", "db", "--ttl", "1h"]) == 0
    assert token_pools.pool_of(act(stored)) == token_pools.parse("db", "renew", "", dt.timedelta(hours=1))
    assert run(["token", "keep", TOKEN.token_id, "--end"]) == 0
    assert token_pools.pool_of(act(stored)) is None
    capsys.readouterr()
    for typed, code, expected in (
        ([TOKEN.token_id], ExitCode.INVALID, "expected either --pool or --end"),
        ([TOKEN.token_id, "--pool", "web", "--end"], ExitCode.INVALID, "expected either --pool or --end"),
        ([TOKEN.token_id, "--pool", "web", "--keeping", "rotate"], ExitCode.INVALID, "got no labels"),
        (["x", "--pool", "web"], ExitCode.INVALID, "didn't match pattern"),
        (["zzzzzz", "--pool", "web"], ExitCode.FAILED, 'there is no token with id "zzzzzz"'),
    ):
        assert run(["token", "keep", *typed]) == code
        assert expected in capsys.readouterr().err
