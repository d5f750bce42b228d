from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from kubevouch.agent import options
from kubevouch.agent.interface import SettingsError
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm

HEAD = "apiVersion: agent.kubevouch.io/v1alpha1\nkind: AgentConfiguration\n"


def test_certificates_of_other_programs_and_hooks() -> None:
    extras, hooks = options.load(
        (
            HEAD
            + """
clientHooks: [{command: [systemctl, reload, containerd]}]
certificates:
- name: etcd-client
  folder: /etc/etcd/pki
  signerName: example.com/etcd
  commonName: etcd-client
  purpose: server
  addresses: [etcd.test, 192.0.2.7]
  algorithm: RSA-2048
  hooks: [{command: [/bin/true]}]
"""
        ).encode()
    )
    (extra,) = extras
    assert (extra.name, extra.folder) == ("etcd-client", Path("/etc/etcd/pki"))
    template = extra.template
    assert (template.signer_name, template.purpose, template.algorithm) == (
        "example.com/etcd",
        "server auth",
        KeyAlgorithm.RSA_2048,
    )
    assert template.alt_names.dns_names == ("etcd.test",)
    assert template.alt_names.ip_addresses == (ipaddress.ip_address("192.0.2.7"),)
    assert hooks == {
        "etcd-client": (("/bin/true",),),
        "client": (("systemctl", "reload", "containerd"),),
        "serving": (),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("clientHooks: [{command: []}]", "no command"),
        ("cilentHooks: []", "unknown field"),
        ("certificates: [{name: A, folder: /a, signerName: a.b/c, commonName: x}]", "the name"),
        ("certificates: [{name: a, folder: b, signerName: a.b/c, commonName: x}]", "is not absolute"),
        ("certificates: [{name: a, folder: /b, signerName: a.b/c, commonName: x, purpose: both}]", "client or server"),
        ("certificates: [{name: client, folder: /b, signerName: a.b/c, commonName: x}]", "one name"),
        ("certificates: [{name: a, folder: /b, signerName: a.b/c, commonName: x, algorithm: DSA}]", "DSA"),
    ],
)
def test_what_cannot_be_meant_is_said(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        options.load((HEAD + text).encode())


def test_local_addresses() -> None:
    assert options.local_address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert options.local_address("[::1]:10451") == ("::1", 10451)
    assert options.local_address("") is None
    for text in ("localhost:1", "127.0.0.1", "127.0.0.1:x"):
        with pytest.raises(SettingsError, match="expected ADDRESS:PORT"):
            options.local_address(text)


def test_node_names(tmp_path: Path) -> None:
    assert options.node_name(" Worker-1 ", tmp_path) == "worker-1"
    assert options.node_name("", tmp_path)
    with pytest.raises(SettingsError, match="cannot be used"):
        options.node_name("a_b", tmp_path)


def test_the_algorithm_is_the_keys_unless_it_is_named() -> None:
    key = keys.generate(KeyAlgorithm.ECDSA_P384)
    assert options.algorithm("") is KeyAlgorithm.ECDSA_P256
    assert options.algorithm("", key) is options.algorithm("ECDSA-P384", key) is KeyAlgorithm.ECDSA_P384
    with pytest.raises(SettingsError, match="got a key of ECDSA-P384, and --key-algorithm RSA-2048"):
        options.algorithm("RSA-2048", key)
