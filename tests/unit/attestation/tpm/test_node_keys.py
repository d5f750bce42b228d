from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from kubevouch.attestation.tpm import node_keys
from kubevouch.attestation.tpm.device import TPMCommandError
from kubevouch.attestation.tpm.node_keys import TPMKeyLostError
from kubevouch.pki import keys
from kubevouch.pki.tpm import commands, public_area, templates
from kubevouch.pki.tpm.resident_key import ResidentKey
from software_tpm import Manufacturer, SoftwareTPM, software_tpm

_SHA256 = ec.ECDSA(hashes.SHA256())


def _verify(key: ResidentKey) -> None:
    key.public_key().verify(key.sign(b"this", _SHA256), b"this", _SHA256)


def test_a_key_is_made_in_the_tpm_and_signs_there(tpm: SoftwareTPM) -> None:
    key, other = node_keys.make(tpm.device()), node_keys.make(tpm.device())
    _verify(key)
    assert key.public.attributes == templates.NODE_KEY.attributes
    assert key.public_key() != other.public_key()


def test_it_signs_again_after_it_was_stored_and_the_machine_booted(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        stored = keys.to_pem(node_keys.make(tpm.device()))
        tpm.stop()
        tpm.start()
        read = keys.load_pem(stored, in_tpm=True)
        assert isinstance(read, ResidentKey)
        _verify(ResidentKey(read.parent, read.public, read.private, lambda *what: node_keys.sign(tpm.device(), *what)))


def test_it_lies_below_the_storage_root_key_that_the_owner_keeps(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        assert node_keys.make(tpm.device()).parent == commands.OWNER
        tpm.keep(templates.STORAGE_ROOT_KEY, node_keys.STORAGE_ROOT_KEY, commands.OWNER)
        tpm.set_password(commands.OWNER, b"secret")
        key = node_keys.make(tpm.device())
        assert key.parent == node_keys.STORAGE_ROOT_KEY
        _verify(key)


def test_without_a_storage_root_key_the_owners_password_is_in_the_way(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        tpm.set_password(commands.OWNER, b"secret")
        with pytest.raises(TPMCommandError, match="a password is set"):
            node_keys.make(tpm.device())


def test_a_persistent_key_of_another_kind_is_no_parent(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        tpm.keep(templates.ATTESTATION_KEY, node_keys.STORAGE_ROOT_KEY, commands.OWNER)
        assert node_keys.make(tpm.device()).parent == commands.OWNER


def test_what_another_tpm_has_made_is_lost_here(tmp_path: Path, tpm: SoftwareTPM) -> None:
    with software_tpm(tmp_path) as other:
        key = node_keys.make(other.device())
    with pytest.raises(TPMKeyLostError, match="was cleared since, or is another one") as caught:
        node_keys.sign(tpm.device(), key, bytes(32), 0x0B)
    assert caught.value.step == "key-lost"
    below = ResidentKey(0x81000001, key.public, key.private)
    with pytest.raises(TPMKeyLostError):
        node_keys.sign(tpm.device(), below, bytes(32), 0x0B)


def test_a_cleared_tpm_has_lost_its_keys_and_makes_others(tmp_path: Path, manufacturer: Manufacturer) -> None:
    with software_tpm(tmp_path, manufacturer) as tpm:
        key = node_keys.make(tpm.device())
        tpm.clear()
        with pytest.raises(TPMKeyLostError):
            key.sign(b"", _SHA256)
        _verify(node_keys.make(tpm.device()))


def test_nothing_is_left_in_the_tpm(tpm: SoftwareTPM) -> None:
    for _ in range(5):
        _verify(node_keys.make(tpm.device()))
    with tpm.device().opened() as connection:
        assert connection.handles(commands.FIRST_TRANSIENT) == ()


def test_a_key_is_found_with_the_public_area_it_was_made_with(tpm: SoftwareTPM) -> None:
    key = node_keys.make(tpm.device())
    with tpm.device().opened() as connection:
        loaded = node_keys.load(connection, key)
        read = public_area.parse_area(commands.first_sized(connection.run(commands.read_public(loaded))))
    assert read == key.public
