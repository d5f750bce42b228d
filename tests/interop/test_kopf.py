"""A small operator on kopf approves and denies by a rule, against a real process that comes and goes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import processes
from interop.clients.official import OfficialClient
from interop_world import CUSTOM_SIGNER, InteropWorld, interop_world, manifest, unique

OPERATOR = Path(__file__).with_name("approving_operator.py")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteropWorld]:
    with interop_world(tmp_path_factory.mktemp("kopf")) as world:
        yield world


def decided(client: OfficialClient, name: str, seen: subprocess.Popen[str]) -> str:
    """The first condition of a request, once kopf says that it has handled it."""
    assert seen.stdout is not None
    log = []
    for line in seen.stdout:
        log.append(line)
        if f"[{name}] Creation is processed: 1 succeeded" in line:
            type_: str = client.get(name)["status"]["conditions"][0]["type"]
            return type_
    raise AssertionError("".join(log))


def test_an_operator_decides_by_its_rule(world: InteropWorld) -> None:
    client = OfficialClient(world.kubeconfig)
    with subprocess.Popen(
        [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", str(OPERATOR)],
        env=processes.environment(KUBECONFIG=str(world.kubeconfig)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as operator:  # fmt: skip
        try:
            for labels, expected in (({"team": "red"}, "Approved"), ({"team": "green"}, "Denied")):
                name = unique("request")
                client.create(manifest(name, labels=labels))
                assert decided(client, name, operator) == expected
            world.proxy.cut()
            client.create(manifest(after := unique("after-a-cut"), labels={"team": "blue"}))
            assert decided(client, after, operator) == "Approved"
            world.restart()
            client.create(manifest(after := unique("after-a-restart"), labels={"team": "blue"}))
            assert decided(client, after, operator) == "Approved"
            client.create(manifest(other := unique("other"), labels={"team": "red"}, signer=f"{CUSTOM_SIGNER}-too"))
            client.create(manifest(last := unique("last"), labels={"team": "red"}))
            assert decided(client, last, operator) == "Approved"
            assert "conditions" not in client.get(other).get("status", {})
        finally:
            operator.terminate()
            operator.communicate()
    annotations = json.dumps(client.get(last)["metadata"]["annotations"])
    assert "kopf.zalando.org/last-handled-configuration" in annotations
