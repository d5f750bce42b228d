"""signers/outside.py: from a SigningConfiguration to signers, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller_world import FIXTURES
from kubevouch.config import signing_config
from kubevouch.signers import outside
from kubevouch.signers.catalog import PairFiles, SigningOptions, build_signers
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import SignerError
from kubevouch.signers.remote import RemoteSigner
from kubevouch.testing.clock import FakeClock
from kubevouch.wellknown import KUBELET_SERVING_SIGNER

PAIR = PairFiles(str(FIXTURES / "ca-ec.crt"), str(FIXTURES / "ca-ec.key"))
WAYS: dict[str, Any] = {
    "process": {"socket": "s"},
    "webhook": {"kubeconfigFile": "conf"},
    "cfssl": {"kubeconfigFile": "conf", "authKeyFile": "key"},
    "vault": {"kubeconfigFile": "conf"},
    "acme": {"directory": "https://127.0.0.1/dir", "accountKeyFile": "account.key"},
}


def written(folder: Path, **changes: Any) -> Path:
    authority = {"name": "theirs", "trustFile": "ca.crt", "signerNames": [KUBELET_SERVING_SIGNER], **changes}
    document = {
        "apiVersion": signing_config.API_VERSION,
        "kind": signing_config.KIND,
        "authorities": [authority],
    }
    (folder / "ca.crt").write_bytes((FIXTURES / "ca-ec.crt").read_bytes())
    (folder / "signing.yaml").write_text(json.dumps(document))
    return folder / "signing.yaml"


@pytest.mark.parametrize("way", list(WAYS))
def test_the_signers_that_a_configuration_names_are_its_own(tmp_path: Path, way: str) -> None:
    path = written(tmp_path, **{way: WAYS[way]})
    signers = build_signers(SigningOptions(PAIR, outside=path, clock=FakeClock()))
    kinds = {name: type(signer) for name, signer in signers.items()}
    assert kinds.pop(KUBELET_SERVING_SIGNER) is RemoteSigner
    assert set(kinds.values()) == {FileSigner}


def test_all_of_kubernetes_signers_by_a_process(tmp_path: Path) -> None:
    pair = PairFiles(str(FIXTURES / "ca-ec.crt"))
    signers = build_signers(SigningOptions(pair, socket=tmp_path / "s", clock=FakeClock()))
    assert {type(signer) for signer in signers.values()} == {RemoteSigner}
    with pytest.raises(SignerError, match="cannot specify --signing-socket and a key at the same time"):
        build_signers(SigningOptions(PAIR, socket=tmp_path / "s"))
    with pytest.raises(SignerError, match=r"the trusted CAs of .*/none cannot be read: no such file or directory"):
        build_signers(SigningOptions(PairFiles(str(tmp_path / "none")), socket=tmp_path / "s"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"signerNames": ["example.com/x"], "process": {"socket": "s"}}, "got signerName example.com/x in"),
        ({"trustFile": "none", "process": {"socket": "s"}}, "authority theirs: the trusted CAs of .*none"),
        ({}, "must have exactly one of"),
    ],
)
def test_a_configuration_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(SignerError, match=why):
        build_signers(SigningOptions(PAIR, outside=written(tmp_path, **changes), clock=FakeClock()))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SignerError, match=r"none cannot be read: no such file or directory"):
        outside.load(tmp_path / "none")
