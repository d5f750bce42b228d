"""Certificates and keys that proofs of machines are held against: files of one folder, checked before they replace.

Clouds open regions and change keys at their own times, not at those of releases: what is trusted is data. A name says
what a file is for; verifiers are given the files by their settings.

RootsError    a file cannot be used, or is not what its name says
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kubevouch.attestation.aws.evidence import Form
from kubevouch.attestation.aws.identity_document import REGION
from kubevouch.attestation.jwt import KeySet, KeySetError
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util import files

FOLDER = Path("/etc/kubernetes/kubevouch/attestation")
MAX_BYTES = 1 << 20
MAX_CERTIFICATES = 500
"""Of one file: makers of TPMs have some hundreds of CAs."""
_MODE = 0o644
_NAME = re.compile(r"[a-z0-9]{1,32}/(roots|intermediates)", re.ASCII)
_AWS = re.compile(r"aws/([^/]{1,64})/([a-z0-9]{1,16})", re.ASCII)
_KEYS = re.compile(r"[a-z0-9]{1,32}/keys", re.ASCII)
_KINDS = {Form.RSA2048: (KeyKind.RSA, 2048), Form.SIGNATURE: (KeyKind.RSA, 1024), Form.PKCS7: (KeyKind.DSA, 1024)}


class RootsError(Exception):
    """A file cannot be used, or is not what its name says; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Anchor(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One certificate, or a set of keys, of the file ``name``. ``fingerprint`` is a hexadecimal SHA-256."""

    name: str
    subject: str
    key: str
    fingerprint: str
    not_after: dt.datetime | None = None

    def ended(self, now: dt.datetime) -> bool:
        return self.not_after is not None and self.not_after < now


class Change(msgspec.Struct, frozen=True):
    """What a replacement does: all that is there afterwards, what of it is new, and what goes."""

    path: Path
    contents: bytes
    kept: Sequence[Anchor]
    added: Sequence[Anchor]
    removed: Sequence[Anchor]


def path_of(folder: Path, name: str) -> Path:
    """Where the file of that name is. Raises :class:`RootsError`: nothing is called so."""
    aws = _AWS.fullmatch(name)
    if aws and REGION.fullmatch(aws[1]) and aws[2] in tuple(Form):
        return folder / "aws" / aws[1] / f"{aws[2]}.pem"
    if _NAME.fullmatch(name):
        return folder / f"{name}.pem"
    if _KEYS.fullmatch(name):
        return folder / f"{name}.json"
    raise RootsError(
        f"got {name[:80]!r}, expected aws/REGION/FORM, PROVIDER/roots, PROVIDER/intermediates or PROVIDER/keys",
        hint="such as aws/eu-west-1/rsa2048, tpm/roots, gcp/keys",
    )


def known(folder: Path) -> list[Anchor]:
    """All of the folder, by name. Raises :class:`RootsError`."""
    found: list[Anchor] = []
    paths = sorted((*folder.glob("*/*.pem"), *folder.glob("*/*.json"), *folder.glob("aws/*/*.pem")))
    for path in paths:
        name = str(path.relative_to(folder).with_suffix(""))
        found.extend(_anchors(name, _read(path)))
    return found


def change(folder: Path, name: str, contents: bytes, *, keep: bool, now: dt.datetime) -> Change:
    """What comes of putting ``contents`` in the place of the file ``name``.

    Args:
        keep: what is there and has not ended stays beside it.

    Raises:
        RootsError: ``contents`` is not what ``name`` says, or nothing of it counts any more.
    """
    path = path_of(folder, name)
    given = _anchors(name, contents)
    _verify(name, contents, given, now)
    former_text = _read(path) if path.exists() else b""
    former = _anchors(name, former_text) if former_text else []
    stays: list[Anchor] = []
    if keep and path.suffix == ".pem":
        brought = {each.fingerprint for each in given}
        stays = [each for each in former if each.fingerprint not in brought and not each.ended(now)]
        wanted = {each.fingerprint for each in stays}
        contents = (
            contents.rstrip()
            + b"\n"
            + b"".join(each.pem() for each in _certificates(former_text) if each.fingerprint().hex() in wanted)
        )
    whole = [*given, *stays]
    before, after = {each.fingerprint for each in former}, {each.fingerprint for each in whole}
    return Change(
        path,
        contents,
        [each for each in whole if each.fingerprint in before],
        [each for each in whole if each.fingerprint not in before],
        [each for each in former if each.fingerprint not in after],
    )


def write(changed: Change) -> None:
    """Put the file in its place, whole or not at all. Raises :class:`RootsError`."""
    try:
        files.make_folder(changed.path.parent, 0o755)
        files.write_atomically(changed.path, changed.contents, mode=_MODE)
    except OSError as err:
        raise RootsError(f"{changed.path}: {err.strerror or err}") from err


def _read(path: Path) -> bytes:
    try:
        return files.read_regular(path, MAX_BYTES)
    except OSError as err:
        raise RootsError(f"{path}: {err.strerror or err}") from err


def _certificates(contents: bytes) -> list[Certificate]:
    try:
        found = x509_certificate.parse_bundle(contents)
    except ParseError as err:
        raise RootsError(f"no certificates can be read: {err}", hint="expected them in PEM") from err
    if len(found) > MAX_CERTIFICATES:
        raise RootsError(f"got {len(found)} certificates, expected {MAX_CERTIFICATES} at most")
    return found


def _anchors(name: str, contents: bytes) -> list[Anchor]:
    if len(contents) > MAX_BYTES:
        raise RootsError(f"got {len(contents)} bytes for {name}, expected {MAX_BYTES} at most")
    try:
        if _KEYS.fullmatch(name):
            KeySet.parse(contents)
            return [Anchor(name, "", "JWK Set", hashlib.sha256(contents).hexdigest())]
        return [
            Anchor(
                name,
                each.subject.common_name or str(each.subject),
                each.public_key.name,
                each.fingerprint().hex(),
                each.not_after,
            )
            for each in _certificates(contents)
        ]
    except KeySetError as err:
        raise RootsError(f"{name}: no keys can be read: {err}", hint="expected a JWK Set") from err
    except RootsError as err:
        raise RootsError(f"{name}: {err}", err.hint) from err


def _verify(name: str, contents: bytes, given: Sequence[Anchor], now: dt.datetime) -> None:
    if all(each.ended(now) for each in given):
        raise RootsError(f"{name}: every certificate has ended, the last one at {given[-1].not_after}")
    aws = _AWS.fullmatch(name)
    if _KEYS.fullmatch(name):
        return
    for each in _certificates(contents):
        if aws:
            kind, bits = _KINDS[Form(aws[2])]
            if each.public_key.kind is not kind or each.public_key.bits < bits:
                wanted = f"{kind} with at least {bits} bits"
                raise RootsError(f"{name}: got a certificate for a key {each.public_key.name}, expected {wanted}")
        elif not each.meaning.is_ca:
            raise RootsError(f"{name}: {each.subject.common_name!r} is the certificate of no CA")
