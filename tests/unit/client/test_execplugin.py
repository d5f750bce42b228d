"""client/execplugin.py: real programs, and the case file's exec cases."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from kubevouch.client.execplugin import (
    V1,
    ExecCluster,
    ExecConfig,
    ExecPlugin,
    InteractiveMode,
    PluginError,
    exec_info,
    parse_output,
)
from kubevouch.client.interface import CredentialsFailed
from kubevouch.testing.clock import FakeClock
from throwaway_ca import ThrowawayCA

VECTORS = Path(__file__).parents[2] / "vectors/node.jsonl"

PROGRAM = """\
import json, os, sys
with open({log!r}, "a") as file:
    file.write(os.environ["KUBERNETES_EXEC_INFO"] + "\\n")
sys.stdout.write(open({output!r}).read())
sys.exit({code})
"""


class Program:
    """A plug-in that prints what the test wrote down, and keeps the input of each run."""

    def __init__(self, folder: Path, clock: FakeClock, *, code: int = 0) -> None:
        self.output = folder / "output"
        self._log = folder / "log"
        script = folder / "plugin.py"
        script.write_text(PROGRAM.format(log=str(self._log), output=str(self.output), code=code))
        self.config = ExecConfig(V1, sys.executable, (str(script),), {"LANG": "C"}, "install it", "Never")
        self.source = ExecPlugin(self.config, clock)

    def says(self, **status: Any) -> None:
        self.output.write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}))

    @property
    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


def printed(document: Any) -> bytes:
    return document.encode() if isinstance(document, str) else msgspec.json.encode(document)


def calls() -> Iterator[Any]:
    for line in VECTORS.read_text().splitlines():
        case = json.loads(line)
        if case["area"] == "exec" and case["when"] == "call":
            yield pytest.param(case["given"]["stdout"], case["then"], id=case["id"])


@pytest.mark.parametrize(("stdout", "then"), list(calls()))
def test_case_file(stdout: Any, then: dict[str, Any]) -> None:
    if "header" in then:
        issued = parse_output(printed(stdout), V1)
        assert f"Authorization: {issued.credential.authorization}" == then["header"]
        return
    with pytest.raises(PluginError) as caught:
        parse_output(printed(stdout), V1)
    assert then.get("error_contains", "decoding stdout: ") in str(caught.value)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"apiVersion": V1 + "beta1", "kind": "ExecCredential"},
         f"exec plugin is configured to use API version {V1}, plugin returned version {V1}beta1"),
        ({"apiVersion": V1, "kind": "Secret"}, "got kind 'Secret', expected ExecCredential"),
        ({"status": {"token": "a b"}}, "the bearer token"),
        ({"status": {"token": 3}}, "decoding stdout: Expected `str"),
        ({"status": {"token": "t", "clientKeyData": "k"}}, "returned only certificate or key, not both"),
        ({"status": {"clientCertificateData": "c", "clientKeyData": "k"}}, "failed parsing client key/certificate: "),
        ({"status": {"token": "t", "expirationTimestamp": "soon"}}, "expirationTimestamp"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(PluginError) as caught:
        parse_output(printed({"apiVersion": V1, "kind": "ExecCredential"} | document), V1)
    assert problem in str(caught.value)


def test_a_pair(ca: ThrowawayCA) -> None:
    pair = ca.issue("node")
    status = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode(), "token": "t"}
    issued = parse_output(printed({"apiVersion": V1, "kind": "ExecCredential", "status": status}), V1)
    assert (issued.credential.certificate, issued.credential.private_key) == (pair.certificate, pair.key)
    assert issued.credential.authorization == "Bearer t"
    mixed = {**status, "clientKeyData": ca.issue().key.decode()}
    with pytest.raises(PluginError, match="do not belong together"):
        parse_output(printed({"apiVersion": V1, "kind": "ExecCredential", "status": mixed}), V1)


def test_the_input() -> None:
    cluster = ExecCluster("https://c", "name", True, b"PEM", "http://p", True, {"a": 1})
    config = ExecConfig(V1, "x", cluster=cluster)
    assert json.loads(exec_info(config, interactive=True)) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": True,
            "cluster": {
                "server": "https://c", "tls-server-name": "name", "insecure-skip-tls-verify": True,
                "certificate-authority-data": "UEVN", "proxy-url": "http://p", "disable-compression": True,
                "config": {"a": 1},
            },
        },
    }  # fmt: skip


@async_test
async def test_the_answer_is_kept_until_it_has_expired(tmp_path: Path) -> None:
    clock = FakeClock()
    program = Program(tmp_path, clock)
    program.says(token="t1", expirationTimestamp="2026-01-01T00:00:10Z")
    assert (await program.source.current()).authorization == "Bearer t1"
    program.says(token="t2")
    clock.advance(10)
    assert (await program.source.current()).authorization == "Bearer t1", "at the very second it still holds"
    clock.advance(1)
    assert (await program.source.current()).authorization == "Bearer t2"
    clock.advance(10_000_000)
    assert (await program.source.current()).authorization == "Bearer t2", "no expiry means until a 401"
    assert program.runs == [{"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}] * 2


@async_test
async def test_many_refusals_of_one_credential_run_the_plugin_once(tmp_path: Path) -> None:
    program = Program(tmp_path, FakeClock())
    program.says(token="t1")
    first = await program.source.current()
    program.says(token="t2")
    assert await asyncio.gather(*(program.source.refused(first) for _ in range(20))) == [True] * 20
    assert len(program.runs) == 2
    again = await program.source.current()
    assert not await program.source.refused(again), "the plug-in has nothing better"


@async_test
async def test_failures_are_client_go_s_sentences(tmp_path: Path) -> None:
    failing = Program(tmp_path, FakeClock(), code=3)
    failing.says(token="t")
    with pytest.raises(CredentialsFailed) as caught:
        await failing.source.current()
    assert str(caught.value) == f"getting credentials: exec: executable {sys.executable} failed with exit code 3"
    missing = ExecPlugin(ExecConfig(V1, "no-such-program-here", install_hint="brew install it"), FakeClock())
    with pytest.raises(CredentialsFailed) as caught:
        await missing.current()
    assert str(caught.value) == "getting credentials: exec: executable no-such-program-here not found"
    assert caught.value.hint == "brew install it"
    with pytest.raises(CredentialsFailed, match="exec: /etc: Permission denied"):
        await ExecPlugin(ExecConfig(V1, "/etc"), FakeClock()).current()


@async_test
async def test_a_plugin_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    clock = FakeClock()
    script = tmp_path / "hang.sh"
    script.write_text("#!/bin/sh\nsleep 1000 &\nwait\n")
    script.chmod(0o755)
    plugin = ExecPlugin(ExecConfig(V1, str(script), interactive_mode="Never"), clock)
    asking = asyncio.create_task(plugin.current())
    await clock.until_asleep()
    clock.advance(60)
    with pytest.raises(CredentialsFailed, match="gave no answer within 60s"):
        await asking


@async_test
async def test_output_is_bounded(tmp_path: Path) -> None:
    program = Program(tmp_path, FakeClock())
    program.output.write_text("x" * 2_000_000)
    with pytest.raises(CredentialsFailed, match="more than 1048576 bytes"):
        await program.source.current()


@async_test
async def test_always_interactive_needs_a_terminal() -> None:
    plugin = ExecPlugin(ExecConfig(V1, "true", interactive_mode="Always"), FakeClock(), at_terminal=lambda: False)
    with pytest.raises(CredentialsFailed, match="standard input is not a terminal"):
        await plugin.current()


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [("Never", True, False), ("IfAvailable", True, True), ("IfAvailable", False, False), ("Always", True, True)],
)
def test_the_plugin_is_told_whether_it_may_ask(
    tmp_path: Path, mode: InteractiveMode, terminal: bool, interactive: bool
) -> None:
    @async_test
    async def scenario() -> None:
        clock = FakeClock()
        program = Program(tmp_path, clock)
        program.says(token="t")
        config = replace(program.config, interactive_mode=mode)
        await ExecPlugin(config, clock, at_terminal=lambda: terminal).current()
        assert program.runs[0]["spec"] == {"interactive": interactive}

    scenario()
