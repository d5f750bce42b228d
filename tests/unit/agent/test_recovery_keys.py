from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.agent.interface import CertificateStoreError, CertificateStoreInUseError
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.files import locked, write_new


def infos(found: tuple[PrivateKey, ...]) -> list[bytes]:
    return [keys.public_key_of(key).info for key in found]


def test_the_life_of_a_key(tmp_path: Path) -> None:
    kept = RecoveryKeys(tmp_path / "pki")
    assert not kept.present and kept.load() == () and kept.digests() == ""
    first = infos(kept.ensure())
    assert kept.path.stat().st_mode & 0o777 == 0o600
    assert infos(kept.ensure()) == first, "made once"
    both = infos(kept.with_next())
    assert both[0] == first[0] != both[1]
    assert infos(kept.with_next()) == both == infos(kept.load()), "the next key is on disk, and stays"
    assert [len(each) for each in kept.digests().split(",")] == [64, 64]
    kept.promote()
    assert infos(kept.load()) == both[1:]
    kept.promote()
    assert infos(kept.load()) == both[1:], "there is nothing to promote"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P384)),
        keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256)) * 3,
    ],
)
def test_a_broken_file_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    kept = RecoveryKeys(tmp_path)
    write_new(kept.path, content)
    for work in (kept.load, kept.ensure, kept.with_next, kept.promote, kept.digests):
        with pytest.raises(CertificateStoreError, match="holds no recovery key"):
            work()
    assert kept.path.read_bytes() == content


def test_two_programs_do_not_both_make_one(tmp_path: Path) -> None:
    kept = RecoveryKeys(tmp_path)
    with locked(tmp_path / ".recovery.key.lock"), pytest.raises(CertificateStoreInUseError):
        kept.ensure()
    assert not kept.present
