"""A real PKCS#11 token: SoftHSM with keys whose certificates are known, in a folder that can be pulled out."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import peers
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.keys import KeyAlgorithm
from processes import run

PIN = "4711-and-more"
_NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ALGORITHMS = {
    "rsa": KeyAlgorithm.RSA_2048,
    "p256": KeyAlgorithm.ECDSA_P256,
    "p384": KeyAlgorithm.ECDSA_P384,
}


@dataclass(frozen=True)
class SoftHSM:
    """A token named ``ca`` with a key for each of :data:`ALGORITHMS`, and who signs with it, by that name."""

    folder: Path
    module: Path
    authorities: dict[str, CertificateAuthority]

    @property
    def configuration(self) -> Path:
        return self.folder / "softhsm2.conf"

    def uri(self, label: str, pin_file: Path | None = None) -> str:
        pin = f"&pin-source=file:{pin_file}" if pin_file is not None else ""
        return f"pkcs11:token=ca;object={label}?module-path={self.module}{pin}"

    def remove(self) -> None:
        """Pull the token out."""
        (self.folder / "tokens").rename(self.folder / "pulled-out")
        (self.folder / "tokens").mkdir()

    def insert(self) -> None:
        (self.folder / "tokens").rmdir()
        (self.folder / "pulled-out").rename(self.folder / "tokens")

    def tool(self, *arguments: str) -> None:
        program = peers.binary("debian", "usr/bin/softhsm2-util")
        done = run(program, "--module", self.module, *arguments, cwd=self.folder, SOFTHSM2_CONF=str(self.configuration))
        assert done.code == 0, done.stderr

    def put(self, label: str, algorithm: KeyAlgorithm, number: int, token: str = "ca") -> CertificateAuthority:
        """A new key in the token, and its CA."""
        key = keys.generate(algorithm)
        file = self.folder / "key.pem"
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.tool("--import", str(file), "--token", token, "--label", label, "--id", f"{number:02x}", "--pin", PIN)
        file.unlink()
        return create_authority(label, key, now=_NOW)


@pytest.fixture(scope="session")
def softhsm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftHSM]:
    """One for all tests of a process, for a process initializes a module once."""
    folder = tmp_path_factory.mktemp("softhsm")
    (folder / "tokens").mkdir()
    made = SoftHSM(folder, peers.binary("debian", "usr/lib/softhsm/libsofthsm2.so"), {})
    made.configuration.write_text(f"directories.tokendir = {folder}/tokens\nobjectstore.backend = file\n")
    made.tool("--init-token", "--free", "--label", "ca", "--pin", PIN, "--so-pin", PIN)
    for number, (label, algorithm) in enumerate(ALGORITHMS.items(), 1):
        made.authorities[label] = made.put(label, algorithm, number)
    before = os.environ.get("SOFTHSM2_CONF")
    os.environ["SOFTHSM2_CONF"] = str(made.configuration)
    yield made
    if before is None:
        del os.environ["SOFTHSM2_CONF"]
