"""``kubevouch attestation roots``, as a person types it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cloud_servers import aws
from kubevouch.cli.main import run


def test_certificates_are_shown_before_they_replace_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    given = tmp_path / "given.pem"
    given.write_text(aws.region_certificate("eu-west-1"))
    folder = ["--folder", str(tmp_path / "folder")]
    update = ["attestation", "roots", "update", "aws/eu-west-1/rsa2048", str(given), *folder]
    path = tmp_path / "folder" / "aws" / "eu-west-1" / "rsa2048.pem"
    assert run(update) == 1
    said = capsys.readouterr()
    assert "+   test imds eu-west-1   RSA-2048   2120-01-01   counts" in said.out
    assert "error: aborted; nothing was changed" in said.err and not path.exists()
    assert run([*update, "--yes", "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["path"], len(tree["added"]), tree["removed"]) == (str(path), 1, [])
    assert path.read_text() == given.read_text()
    assert run(update) == 0
    assert "has these already" in capsys.readouterr().out
    assert run(["attestation", "roots", "list", *folder]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("aws/eu-west-1/rsa2048   test imds eu-west-1")
    assert run(["attestation", "roots", "list", "--folder", str(tmp_path / "none"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_what_cannot_be_used_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "given.pem"
    for words in (["x", str(given)], ["tpm/roots", str(given)], ["tpm/roots", str(tmp_path)]):
        assert run(["attestation", "roots", "update", *words, "--folder", str(tmp_path)]) != 0
        assert capsys.readouterr().err.startswith("error: ")
    given.write_text("nothing")
    assert run(["attestation", "roots", "update", "tpm/roots", str(given), "--folder", str(tmp_path)]) == 1
    said = "error: tpm/roots: no certificates can be read: data does not contain any valid RSA or ECDSA certificates\n"
    assert capsys.readouterr().err == said + "hint: expected them in PEM\n"
