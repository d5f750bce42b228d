"""A client-go program on the files that the agent keeps: kubectl, through a rotation."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from kubevouch.agent.certificate_store import CertificateStore
from peers import OLD_AND_NEW_VERSIONS, kubectl
from processes import PATIENCE_SECONDS, Up, environment, run
from running_agent import READY_LINE, RunningAgent

NODE = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "%s"}}'


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.mark.parametrize("version", [OLD_AND_NEW_VERSIONS[0], OLD_AND_NEW_VERSIONS[-1]])
def test_a_watch_goes_on_and_new_connections_take_the_new_certificate(tmp_path: Path, up: Up, version: str) -> None:
    name = f"worker-{version.replace('.', '-')}"
    assert up.join("--rootfs", str(tmp_path / "node"), name=name).code == 0
    config = tmp_path / "node/etc/kubernetes/kubelet.conf"
    command = (str(kubectl(version)), "--kubeconfig", str(config), "--cache-dir", str(tmp_path / "cache"))
    assert run(*command, "create", "-f", "-", cwd=tmp_path, text=NODE % name).code == 0
    with RunningAgent(tmp_path, tmp_path / "node") as agent, _Watch(command, name, tmp_path) as watch:
        agent.until(READY_LINE)
        assert watch.next() == "<none>"
        for round_trip in ("first", "second"):
            before = _credential(agent.store)
            assert agent.command("rotate").code == 0
            agent.until("certificate in use", 1 if round_trip == "first" else 2)
            assert _credential(agent.store) != before
            changed = run(*command, "annotate", "--overwrite", "node", name, f"round={round_trip}", cwd=tmp_path)
            assert changed.code == 0, changed.stderr
            assert watch.next() == round_trip
        if version == OLD_AND_NEW_VERSIONS[0]:
            # The server's word for which certificate it has seen.
            shown = run(*command, "auth", "whoami", "-o", "json", cwd=tmp_path)
            assert f"X509SHA256={_credential(agent.store)}" in shown.stdout


def _credential(store: CertificateStore) -> str:
    found = store.current()
    assert found is not None
    return found.leaf.fingerprint().hex()


class _Watch:
    """``kubectl get --watch``, line by line."""

    def __init__(self, command: tuple[str, ...], name: str, folder: Path) -> None:
        self._command = (
            *command, "get", "node", name, "--watch", "--no-headers",
            "-o", "custom-columns=R:.metadata.annotations.round",
        )  # fmt: skip
        self._folder = folder
        self._lines: Queue[str] = Queue()

    def __enter__(self) -> _Watch:
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, env=environment(), stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def next(self) -> str:
        return self._lines.get(timeout=PATIENCE_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
