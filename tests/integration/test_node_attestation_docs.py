"""docs/howto/node-attestation.md, typed as it stands there by somebody whose machine has a certificate of its maker."""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
from pathlib import Path

import yaml

import peers
import processes
from device_certificates import issue
from fixed_ports import free_port
from kubevouch.agent import attestation_settings
from kubevouch.agent.attestation_settings import AttestationSettings
from kubevouch.util.clock import SystemClock
from transcript_page import Reader, blocks_of

PAGE = (peers.ROOT / "docs" / "howto" / "node-attestation.md").read_text()
CONFIGURATION, KUBECONFIG = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)


def test_the_session(tmp_path: Path) -> None:
    begins = SystemClock().now() - dt.timedelta(days=1)
    factory = issue("factory", ca=True, begins=begins)
    (tmp_path / "factory.crt").write_text(factory.pem)
    certificate, _ = issue("worker-1", factory, begins=begins).write(tmp_path)
    certificate.rename(tmp_path / "device.crt")
    (tmp_path / "attestation.yaml").write_text(CONFIGURATION)
    port = str(free_port())
    page = PAGE.replace("6443", port).replace("kubevouch up ", f"kubevouch up --secure-port {port} ")
    path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
    with Reader(tmp_path, processes.environment(PATH=path, HOME=str(tmp_path))) as reader:
        for each in blocks_of(page):
            reader.follow(each)


def _settings(words: list[str], flag: str) -> AttestationSettings | None:
    """What the words of a command mean by ``flag`` and its settings."""
    values = [(words[at], words[at + 1]) for at in range(len(words) - 1) if words[at].startswith("--")]
    methods = [value for name, value in values if name == flag]
    said = [value for name, value in values if name == f"{flag}-setting"]
    return attestation_settings.parse(methods, said, [])


def test_the_other_commands_can_be_meant() -> None:
    agents = [line.split() for line in re.findall(r"^    kubevouch agent (.*)$", PAGE, re.M)]
    assert [str(_settings(words, "--attest")) for words in agents] == ["x509pop", "tpm+aws"]
    called = yaml.safe_load(KUBECONFIG)["users"][0]["user"]["exec"]
    method = called["command"].removeprefix("kubelet-authenticator-")
    assert _settings(["--provider", method, *called["args"]], "--provider") == attestation_settings.parse(
        ["x509pop"], ["certificate=/etc/device.crt", "key=/etc/device.key"], []
    )
