from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from kubevouch.agent.attestation_settings import AttestationSettings, Method, is_given_for, note, note_path, parse
from kubevouch.agent.interface import SettingsError
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.x509_certificate import Certificate

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


def leaf(name: str = "system:node:worker-1") -> Certificate:
    return authority.create_authority(name, KEY, now=NOW).certificate


def test_flags() -> None:
    assert parse([], [], []) is None
    one = parse(["tpm"], ["device=/dev/tpmrm0", "a.b=c=d"], ["v1"])
    assert one == AttestationSettings((Method("tpm", (("a.b", "c=d"), ("device", "/dev/tpmrm0")), "v1"),))
    assert one.signer_name == "cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm"
    two = parse(["tpm", "aws"], ["tpm.device=x", "aws.region="], ["aws=v2"])
    assert two == AttestationSettings((Method("tpm", (("device", "x"),)), Method("aws", (("region", ""),), "v2")))
    assert (two.signer_name, str(two)) == (one.signer_name, "tpm+aws")


@pytest.mark.parametrize(
    ("names", "settings", "oldest"),
    [
        (["TPM"], [], []),
        (["-"], [], []),
        (["tpm\n"], [], []),
        (["a" * 64], [], []),
        (["tpm", "tpm"], [], []),
        (["a", "b", "c", "d", "e"], [], []),
        (["tpm"], ["device"], []),
        (["tpm"], ["=x"], []),
        (["tpm"], ["a=1", "a=2"], []),
        (["tpm", "aws"], ["device=x"], []),
        (["tpm", "aws"], ["gcp.device=x"], []),
        (["tpm", "aws"], [], ["v1"]),
        (["tpm"], [], ["aws=v1"]),
        (["tpm"], [], ["tpm="]),
        (["tpm"], [], ["v1", "v2"]),
        ([], ["device=x"], []),
        ([], [], ["v1"]),
    ],
)
def test_what_cannot_be_meant(names: list[str], settings: list[str], oldest: list[str]) -> None:
    with pytest.raises(SettingsError, match="expected"):
        parse(names, settings, oldest)


def test_a_setting_may_be_a_secret() -> None:
    with pytest.raises(SettingsError) as err:
        parse(["a", "b"], ["token=abcdef.0123456789abcdef"], [])
    assert "0123456789abcdef" not in str(err.value)


def test_a_certificate_is_noted_with_what_it_was_given_for(tmp_path: Path) -> None:
    current = tmp_path / "pki" / "kubelet-client-current.pem"
    settings, found = parse(["tpm"], ["device=x"], []), leaf()
    assert settings is not None
    assert is_given_for(current, None, found)
    assert not is_given_for(current, settings, found)
    note(current, settings, found)
    assert note_path(current).name == "kubelet-client-attested.json"
    assert is_given_for(current, settings, found)
    # Another certificate, and each other way of proving.
    assert not is_given_for(current, settings, leaf("system:node:worker-2"))
    for names, others, oldest in (
        (["aws"], ["device=x"], []),
        (["tpm"], ["device=y"], []),
        (["tpm"], [], []),
        (["tpm"], ["device=x"], ["v1"]),
        (["tpm", "aws"], ["tpm.device=x"], []),
    ):
        assert not is_given_for(current, parse(names, others, oldest), found)
    # The order of settings says nothing, that of methods says who signs.
    ab, ba = parse(["a"], ["x=1", "y=2"], []), parse(["a"], ["y=2", "x=1"], [])
    assert ab == ba
    first, second = parse(["a", "b"], [], []), parse(["b", "a"], [], [])
    assert first is not None and second is not None and first.digest != second.digest


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"[" * 4096, b"\xff", b'{"settings":1}'])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    current, settings, found = tmp_path / "kubelet-client-current.pem", parse(["tpm"], [], []), leaf()
    assert settings is not None
    note(current, settings, found)
    note_path(current).write_bytes(content)
    assert not is_given_for(current, settings, found)


def test_a_note_that_others_may_have_written_is_none(tmp_path: Path) -> None:
    current, settings, found = tmp_path / "kubelet-client-current.pem", parse(["tpm"], [], []), leaf()
    assert settings is not None
    note(current, settings, found)
    note_path(current).chmod(0o644)
    assert not is_given_for(current, settings, found)
