"""``kubevouch tpm``, on real TPMs in software."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.attestation.tpm import node_keys
from kubevouch.cli.main import run
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.tpm import resident_key
from software_tpm import Manufacturer, SoftwareTPM, software_tpm

Captured = pytest.CaptureFixture[str]
NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)


def _store_pair(tpm: SoftwareTPM, folder: Path) -> None:
    key = node_keys.make(tpm.device())
    ca = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    spec = authority.LeafSpec(common_name="system:node:a", purposes=("client auth",))
    CertificateStore(folder).update(authority.issue_leaf(ca, spec, key, now=NOW).pem(), key, now=NOW)


def test_a_ready_tpm_and_one_that_was_cleared(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_key, "default_signer", None)
    with software_tpm(tmp_path / "tpm", Manufacturer()) as tpm:
        _store_pair(tpm, tmp_path / "pki")
        asked = ["tpm", "probe", "--device", tpm.where, "--cert-dir", str(tmp_path / "pki")]
        assert run(asked) == 0
        said = capsys.readouterr()
        assert said.err == ""
        assert [line.split()[:2] for line in said.out.splitlines()] == [
            ["TPM", f"{tpm.where},"], ["endorsement", "key"], ["its", "hash"], ["PCR", "banks"], ["the", "node's"],
        ]  # fmt: skip
        assert run([*asked, "-o", "json"]) == 0
        tree = json.loads(capsys.readouterr().out)
        assert (tree["state"], tree["nodeKey"], tree["certificate"], tree["problems"]) == ("ready", "usable", True, [])
        assert f"sha256:{tree['endorsementKeyHash']}" in said.out
        tpm.clear()
        assert run(asked) == 1
        assert "error: the TPM does not know the node's key: it was cleared since" in capsys.readouterr().err


def test_an_absent_tpm_is_one_error_with_what_to_do(tmp_path: Path, capsys: Captured) -> None:
    where = tmp_path / "tpmrm0"
    assert run(["tpm", "probe", "--device", str(where), "--cert-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"error: there is no TPM at {where}: No such file or directory (absent)\n"
        "hint: switch it on in the machine's firmware, or give the virtual machine one\n"
    )
    assert run(["tpm", "probe", "--device", "tpm0", "--cert-dir", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith("error: got the TPM 'tpm0', expected a path, swtpm:path=PATH")


def test_a_pair_that_cannot_be_looked_at_is_no_reason_to_stop(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "pki"
    folder.mkdir()
    (folder / "kubelet-client-current.pem").write_bytes(b"no pair")
    (folder / "kubelet-client-current.pem").chmod(0o600)
    with software_tpm(tmp_path / "tpm") as tpm:
        assert run(["tpm", "probe", "--device", tpm.where, "--cert-dir", str(folder)]) == 0
    said = capsys.readouterr().err
    assert "warning: the node's pair cannot be looked at" in said
    assert "warning: nobody vouches for the endorsement key" in said
