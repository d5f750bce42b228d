from __future__ import annotations

import pytest
import yaml

import peers
from kubevouch.cli.main import run

Captured = pytest.CaptureFixture[str]


def test_it_prints_what_is_in_deploy(capsys: Captured) -> None:
    assert run(["manifests"]) == 0
    assert capsys.readouterr().out == (peers.ROOT / "deploy" / "kubevouch.yaml").read_text()


def test_parts_and_flags(capsys: Captured) -> None:
    assert (
        run(["manifests", "controllers", "--signers", "example.com/a, example.com/b", "--image", "r.example/k:2"]) == 0
    )
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    pods = [each["spec"]["template"]["spec"] for each in found if each["kind"] == "Deployment"]
    assert [each["containers"][0]["image"] for each in pods] == ["r.example/k:2"] * 2
    assert "CustomResourceDefinition" not in {each["kind"] for each in found}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["crdz"], "error: got the part 'crdz', expected one of crds, guards, controllers"),
        (["--signers", "*"], "error: got --signers '*', expected the name of a signer"),
        (["--kube-version", "latest"], "error: got --kube-version 'latest', expected Kubernetes' version"),
        (["--api-server-port", "0"], "error: invalid value for '--api-server-port'"),
    ],
)
def test_what_cannot_be_meant_is_one_line(arguments: list[str], message: str, capsys: Captured) -> None:
    assert run(["manifests", *arguments]) == 3
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(message)
    assert all(each.startswith("hint: ") for each in rest)
