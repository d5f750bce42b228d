from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.agent.own_tpm import know_tpm_of
from kubevouch.attestation.tpm import node_keys
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.tpm import resident_key
from software_tpm import software_tpm


def test_only_a_key_in_a_tpm_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_key, "default_signer", None)
    plain = keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256))
    file = tmp_path / "pair.pem"
    file.write_bytes(plain)
    for source in (b"", plain, file, tmp_path / "none", tmp_path):
        know_tpm_of(source)
        assert resident_key.default_signer is None
    with software_tpm(tmp_path / "tpm") as tpm:
        monkeypatch.setenv("KUBEVOUCH_TPM", tpm.where)
        key = node_keys.make(tpm.device())
        file.write_bytes(keys.to_pem(key))
        for source in (keys.to_pem(key), file):
            resident_key.default_signer = None
            know_tpm_of(source)
            node_keys.verify_usable(resident_key.ResidentKey(key.parent, key.public, key.private))


def test_a_tpm_that_somebody_has_named_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        monkeypatch.setattr(resident_key, "default_signer", None)
        node_keys.use(tpm.device())
        named = resident_key.default_signer
        know_tpm_of(keys.to_pem(node_keys.make(tpm.device())))
        assert resident_key.default_signer is named
