from __future__ import annotations

import asyncio
import datetime as dt
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

import aio
from asynctest import async_test
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import CertificateStoreError, CertificateStoreInUseError
from kubevouch.attestation.tpm import node_keys
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.tpm import resident_key
from kubevouch.pki.tpm.resident_key import ResidentKey
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.files import write_new
from software_tpm import software_tpm

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)


def _pair() -> tuple[bytes, PrivateKey]:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    spec = authority.LeafSpec(common_name="system:node:a", purposes=("client auth",))
    return authority.issue_leaf(CA, spec, key, now=NOW).pem(), key


def test_a_new_pair_is_the_current_one(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path / "pki")
    assert store.current() is None
    certificate, key = _pair()
    dated = store.update(
        certificate + CA.certificate.pem() + b"-----BEGIN X-----\nAA==\n-----END X-----\n", key, now=NOW
    )
    found = store.current()
    assert found is not None
    assert [each.pem() for each in found.chain] == [certificate, CA.certificate.pem()]
    assert store.current_path.readlink() == dated
    assert stat.S_IMODE(dated.stat().st_mode) == 0o600
    assert dated.read_bytes() == certificate + CA.certificate.pem() + keys.to_pem(key)
    assert dated.name == f"kubelet-client-{NOW.astimezone():%Y-%m-%d-%H-%M-%S}.pem"


def test_updates_within_a_second_and_the_last_pairs(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path, relative_links=True)
    pairs = [_pair() for _ in range(4)]
    written = [store.update(*pair, now=NOW) for pair in pairs]
    assert len(set(written)) == len(written)
    assert [path for path in written if path.exists()] == written[-2:]
    assert store.current_path.readlink() == Path(written[-1].name)


def test_a_key_of_another_certificate_changes_nothing(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path)
    certificate, key = _pair()
    store.update(certificate, key, now=NOW)
    with pytest.raises(CertificateStoreError, match="private key does not match public key"):
        store.update(_pair()[0], key, now=NOW)
    found = store.current()
    assert found is not None and found.leaf.pem() == certificate
    assert len(list(tmp_path.iterdir())) == 2


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path)
    certificate, key = _pair()
    store.update(certificate, key, now=NOW)
    large = pem.encode(pem.CERTIFICATE, bytes(12 << 10))
    for text, why in (
        (certificate + large * 90, "is longer than 1048576 bytes"),
        (certificate + b"-----BEGIN X-----\n-----END X-----\n" * 2000, "PEM input with 2001 blocks"),
    ):
        with pytest.raises(CertificateStoreError, match=why):
            store.update(text, key, now=NOW)
    assert store.current_path.read_bytes() == certificate + keys.to_pem(key)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_broken_current_pair_is_an_error_and_no_reason_to_look_further(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path)
    certificate, key = _pair()
    (tmp_path / "kubelet-client.crt").write_bytes(certificate)
    write_new(tmp_path / "kubelet-client.key", keys.to_pem(key))
    assert store.current() is not None
    write_new(store.current_path, b"x")
    with pytest.raises(CertificateStoreError, match="holds no pair"):
        store.current()


def test_the_pending_key_is_kept_until_it_is_dropped(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path / "pki")
    key, made = aio.run(store.pending_key())
    again, made_again = aio.run(store.pending_key())
    assert (made, made_again) == (True, False)
    assert keys.to_pem(again) == keys.to_pem(key)
    assert stat.S_IMODE(store.pending_key_path.stat().st_mode) == 0o600
    store.pending_key_path.write_text("x")
    with pytest.raises(CertificateStoreError, match="holds no private key"):
        aio.run(store.pending_key())
    store.drop_pending_key()
    store.drop_pending_key()
    assert aio.run(store.pending_key())[1]


# ------------------------------------------------------------------ other programs, other algorithms


def test_a_lock_holds_off_other_programs_and_not_readers(tmp_path: Path) -> None:
    store, other = CertificateStore(tmp_path), CertificateStore(tmp_path)
    store.update(*_pair(), now=NOW)
    with store.locked():
        with pytest.raises(CertificateStoreInUseError, match="another program"), other.locked():
            pass
        assert other.current() is not None
        with CertificateStore(tmp_path, "kubelet-server").locked():
            pass
    with other.locked():
        pass


def test_a_pending_key_of_another_algorithm_is_replaced(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path)
    first, made = aio.run(store.pending_key(KeyAlgorithm.ECDSA_P384))
    assert made and keys.algorithm_of(first) is KeyAlgorithm.ECDSA_P384
    assert aio.run(store.pending_key(KeyAlgorithm.ECDSA_P384))[1] is False
    second, made = aio.run(store.pending_key(KeyAlgorithm.ECDSA_P256))
    assert made and keys.algorithm_of(second) is KeyAlgorithm.ECDSA_P256


@async_test
async def test_an_rsa_key_is_made_beside_the_loop(tmp_path: Path) -> None:
    """The loop has its turns meanwhile: the key's file comes after them."""
    store = CertificateStore(tmp_path)
    made = asyncio.create_task(store.pending_key(KeyAlgorithm.RSA_2048))
    turns = 0
    while not made.done():
        await asyncio.sleep(0)
        turns += 1
    key, _ = await made
    assert keys.algorithm_of(key) is KeyAlgorithm.RSA_2048
    assert turns > 2


def test_a_pending_key_that_is_in_use_already_is_replaced(tmp_path: Path) -> None:
    """A program that is killed before it drops the key would be given the same certificate again and again."""
    store = CertificateStore(tmp_path)
    key, _ = aio.run(store.pending_key())
    spec = authority.LeafSpec(common_name="system:node:a", purposes=("client auth",))
    store.update(authority.issue_leaf(CA, spec, key, now=NOW).pem(), key, now=NOW)
    again, made = aio.run(store.pending_key())
    assert made and keys.to_pem(again) != keys.to_pem(key)


def test_a_repair_keeps_every_byte_and_takes_the_newest_usable_pair(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path)
    pairs = [store.update(*_pair(), now=NOW + dt.timedelta(seconds=n)) for n in range(2)]
    wanted = pairs[0].read_bytes()
    pairs[1].write_bytes(b"garbage")
    broken_pending = b"no key"
    store.pending_key_path.write_bytes(broken_pending)
    serial = CertificateStore(tmp_path, certificate_file=pairs[0], key_file=pairs[0])
    with pytest.raises(CertificateStoreError):
        serial.current()
    said = store.repair(lambda pair: pair.leaf.pem() in wanted, now=NOW)
    found = store.current()
    assert found is not None and found.leaf.pem() in wanted
    assert pairs[1].with_name(pairs[1].name + ".broken").read_bytes() == b"garbage"
    assert store.pending_key_path.with_name("kubelet-client.key.tmp.broken").read_bytes() == broken_pending
    assert len(said) >= 3
    assert store.repair(lambda _: True, now=NOW) == []


def test_a_relative_link_stays_relative(tmp_path: Path) -> None:
    CertificateStore(tmp_path, relative_links=True).update(*_pair(), now=NOW)
    store = CertificateStore(tmp_path)
    dated = store.update(*_pair(), now=NOW)
    assert store.current_path.readlink() == Path(dated.name)


def test_a_pair_whose_key_is_in_the_tpm_is_stored_and_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_key, "default_signer", None)
    store = CertificateStore(tmp_path / "pki")
    with software_tpm(tmp_path / "tpm") as tpm:
        monkeypatch.setenv("KUBEVOUCH_TPM", tpm.where)
        key = node_keys.make(tpm.device())
        store.put_pending_key(key)
        pending, made = asyncio.run(store.pending_key())
        assert not made
        assert keys.to_pem(pending) == keys.to_pem(key)
        spec = authority.LeafSpec(common_name="system:node:a", purposes=("client auth",))
        store.update(authority.issue_leaf(CA, spec, key, now=NOW).pem(), key, now=NOW)
        current = store.current()
        assert current is not None
        assert isinstance(current.key, ResidentKey)
        algorithm = ec.ECDSA(hashes.SHA256())
        current.key.public_key().verify(current.key.sign(b"this", algorithm), b"this", algorithm)
        assert store.repair(lambda _: True, now=NOW) == []
    assert b"TSS2 PRIVATE KEY" in store.current_path.read_bytes()
