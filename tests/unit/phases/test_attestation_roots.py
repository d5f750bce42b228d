"""Files of certificates that replace others only once they are what their name says."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from cloud_servers import aws
from kubevouch.phases.attestation_roots import RootsError, change, known, path_of, write
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from throwaway_ca import ThrowawayCA

NOW = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
REGION = aws.region_certificate("eu-west-1").encode()
OTHER = aws.region_certificate("eu-west-2").encode()
AWS = "aws/eu-west-1/rsa2048"


def fingerprint(pem: bytes) -> str:
    return x509_certificate.parse_pem(pem).fingerprint().hex()


def put(folder: Path, name: str, contents: bytes, *, keep: bool = False) -> tuple[list[str], list[str], list[str]]:
    """The fingerprints of what stays, comes and goes."""
    changed = change(folder, name, contents, keep=keep, now=NOW)
    write(changed)
    kept, added, removed = (
        [each.fingerprint for each in some] for some in (changed.kept, changed.added, changed.removed)
    )
    return kept, added, removed


def test_certificates_of_a_region_come_stay_and_go(tmp_path: Path) -> None:
    first, second = fingerprint(REGION), fingerprint(OTHER)
    assert put(tmp_path, AWS, REGION) == ([], [first], [])
    assert put(tmp_path, AWS, REGION) == ([first], [], [])
    assert put(tmp_path, AWS, OTHER, keep=True) == ([first], [second], [])
    assert [each.fingerprint for each in known(tmp_path)] == [second, first]
    assert put(tmp_path, AWS, OTHER) == ([second], [], [first])
    path = tmp_path / "aws" / "eu-west-1" / "rsa2048.pem"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (OTHER, 0o644)


def test_what_has_ended_is_not_kept(tmp_path: Path) -> None:
    path = path_of(tmp_path, "tpm/roots")
    path.parent.mkdir()
    past = authority.create_authority("past", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - dt.timedelta(days=9999))
    ended = past.certificate.pem()
    path.write_bytes(ended)
    new = ThrowawayCA("maker").bundle
    assert put(tmp_path, "tpm/roots", new, keep=True) == ([], [fingerprint(new)], [fingerprint(ended)])
    with pytest.raises(RootsError, match="every certificate has ended"):
        put(tmp_path, "tpm/roots", ended)


def test_keys_are_a_jwk_set(tmp_path: Path) -> None:
    empty = b'{"keys": []}'
    with pytest.raises(RootsError, match="no keys can be read"):
        put(tmp_path, "gcp/keys", b"{}")
    with pytest.raises(RootsError, match="no keys can be read"):
        put(tmp_path, "gcp/keys", empty)


@pytest.mark.parametrize(
    "name",
    [
        *("", "aws", "aws/eu-west-1", "aws/eu-west-1/rsa4096", "aws/../x/rsa2048", "aws/eu-west-1/rsa2048\n"),
        *("../roots", "tpm/roots/x", "TPM/roots", "tpm/other", "/roots", "tpm//roots"),
    ],
)
def test_names_that_nothing_has(tmp_path: Path, name: str) -> None:
    with pytest.raises(RootsError, match="expected aws/REGION/FORM"):
        put(tmp_path, name, REGION)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_what_its_name_says_replaces_nothing(tmp_path: Path) -> None:
    put(tmp_path, AWS, REGION)
    for name, contents, words in (
        (AWS, b"", "no certificates can be read"),
        (AWS, b"x" * (1 << 20) + b"x", "expected 1048576 at most"),
        (AWS, REGION * 501, "got 501 certificates"),
        (AWS, ThrowawayCA().bundle, "got a certificate for a key ECDSA-P256, expected RSA with at least 2048 bits"),
        ("aws/eu-west-1/pkcs7", REGION, "expected DSA"),
        ("tpm/roots", ThrowawayCA().issue().certificate, "'server' is the certificate of no CA"),
    ):
        with pytest.raises(RootsError, match=words):
            put(tmp_path, name, contents)
    assert [each.name for each in known(tmp_path)] == [AWS]
    (tmp_path / "aws" / "eu-west-1" / "rsa2048.pem").write_text("broken")
    with pytest.raises(RootsError, match="aws/eu-west-1/rsa2048: no certificates can be read"):
        known(tmp_path)
