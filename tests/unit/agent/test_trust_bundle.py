from __future__ import annotations

import datetime as dt
import stat
from pathlib import Path

import pytest

from kubevouch.agent import trust_bundle
from kubevouch.agent.trust_bundle import TrustBundleError
from kubevouch.config import kubeconfig
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
OLD, NEW = (
    authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW).certificate for _ in range(2)
)


def _kubeconfig(path: Path, **cluster: object) -> None:
    path.write_text(
        kubeconfig.dump(
            kubeconfig.Kubeconfig(
                clusters={"c": kubeconfig.Cluster(server="https://a:6443", **cluster)},  # type: ignore[arg-type]
                users={"u": kubeconfig.User(token="t")},
                contexts={"x": kubeconfig.Context(cluster="c", user="u")},
                current_context="x",
            )
        )
    )


def test_the_hash_does_not_depend_on_the_order() -> None:
    assert trust_bundle.bundle_hash((OLD, NEW)) == trust_bundle.bundle_hash((NEW, OLD))
    assert trust_bundle.bundle_hash((OLD,)) != trust_bundle.bundle_hash((NEW,))


def test_an_overlap_has_both_once() -> None:
    assert trust_bundle.joined((OLD,), (NEW, OLD)) == (NEW, OLD)
    assert not trust_bundle.is_rollover((OLD, NEW), (NEW, OLD))
    assert trust_bundle.is_rollover((OLD,), (NEW, OLD))


def test_inside_of_a_kubeconfig_and_in_the_copies_that_held_the_same(tmp_path: Path) -> None:
    path, copy, other = tmp_path / "kubelet.conf", tmp_path / "ca.crt", tmp_path / "other.crt"
    _kubeconfig(path, certificate_authority_data=OLD.pem())
    copy.write_bytes(OLD.pem())
    other.write_bytes(NEW.pem())
    trust_bundle.store(path, (NEW, OLD), [copy, other, tmp_path / "missing"])
    assert trust_bundle.load(path) == (NEW, OLD)
    assert copy.read_bytes() == NEW.pem() + OLD.pem()
    assert other.read_bytes() == NEW.pem()
    kept = kubeconfig.load(path.read_bytes())
    assert (kept.users["u"].token, kept.clusters["c"].server) == ("t", "https://a:6443")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_in_the_file_that_a_kubeconfig_names(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.conf"
    _kubeconfig(path, certificate_authority="pki.crt")
    (tmp_path / "pki.crt").write_bytes(OLD.pem())
    before = path.read_bytes()
    trust_bundle.store(path, (NEW,))
    assert trust_bundle.load(path) == (NEW,) and path.read_bytes() == before


@pytest.mark.parametrize("text", ["", "{{{", "apiVersion: v1\nkind: Config\ncurrent-context: x\n"])
def test_files_without_a_ca_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubelet.conf"
    path.write_text(text)
    with pytest.raises(TrustBundleError):
        trust_bundle.load(path)
    with pytest.raises(TrustBundleError, match="holds no CA certificate"):
        trust_bundle.parse(b"nothing", "x")
