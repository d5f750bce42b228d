"""Real TPMs in software: swtpm on sockets in a folder, with endorsement key certificates of a manufacturer of our own.

They are filled by our own commands and not by swtpm_setup, which takes a second for each and can make no odd ones.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding

import peers
from kubevouch.attestation.tpm.device import Device
from kubevouch.pki.tpm import algorithms, commands, public_area, templates
from kubevouch.pki.tpm.commands import EMPTY, Command
from kubevouch.pki.tpm.marshalling import sized
from kubevouch.pki.tpm.public_area import Public
from processes import Ended, run

NOW = dt.datetime(2026, 11, 22, 6, tzinfo=dt.UTC)
"""When certificates of :class:`Manufacturer` are valid for sure: from a year before to thirty years after."""

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_EVICT_CONTROL, _NV_UNDEFINE, _NV_DEFINE, _NV_WRITE = 0x120, 0x122, 0x12A, 0x137
_CLEAR, _HIERARCHY_CHANGE_AUTH, _DICTIONARY_ATTACK_PARAMETERS = 0x126, 0x129, 0x13A
_PLATFORM = 0x4000000C
# Made and written by the platform, so that clearing the TPM leaves it; no lockout (part 2, 13.4).
_OF_THE_MAKER = 1 << 0 | 1 << 25 | 1 << 30
_FIRST_OF_CHAIN = 0x01C00100


def libraries() -> str:
    """What LD_LIBRARY_PATH has to be for the TPM programs of .peers."""
    path = peers.binary("debian", f"{_LIBRARIES}/libtpms.so.0").parent
    return f"{path}:{path / 'swtpm'}"


class Manufacturer:
    """Who vouches for endorsement keys: a root, and below it who signs them."""

    def __init__(self, name: str = "Test TPMs") -> None:
        self._root_key = ec.generate_private_key(ec.SECP256R1())
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.root = self._authority(f"{name} Root", f"{name} Root", self._root_key, self._root_key)
        self.intermediate = self._authority(f"{name} CA", f"{name} Root", self._key, self._root_key)

    @property
    def root_pem(self) -> str:
        return self.root.public_bytes(Encoding.PEM).decode()

    def certificate(self, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> x509.Certificate:
        """Of an endorsement key, as the profile of the TCG has it: no subject, and who made it in the critical SAN."""
        made_by = x509.Name(
            [
                x509.NameAttribute(x509.ObjectIdentifier("2.23.133.2.1"), "id:00001014"),
                x509.NameAttribute(x509.ObjectIdentifier("2.23.133.2.2"), "swtpm"),
                x509.NameAttribute(x509.ObjectIdentifier("2.23.133.2.3"), "id:20191023"),
            ]
        )
        names = x509.SubjectAlternativeName([x509.DirectoryName(made_by)])
        builder = self._builder(x509.Name([]), self.intermediate.subject, key, self._key)
        builder = builder.add_extension(names, critical=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(key), critical=True)
        purpose = x509.ExtendedKeyUsage([x509.ObjectIdentifier("2.23.133.8.1")])
        return builder.add_extension(purpose, critical=False).sign(self._key, hashes.SHA256())

    def _authority(
        self, name: str, issuer: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey
    ) -> x509.Certificate:
        builder = self._builder(_common_name(name), _common_name(issuer), key.public_key(), by)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(key_cert_sign=True), critical=True)
        return builder.sign(by, hashes.SHA256())

    @staticmethod
    def _builder(
        subject: x509.Name,
        issuer: x509.Name,
        key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
        by: ec.EllipticCurvePrivateKey,
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - dt.timedelta(days=365))
            .not_valid_after(NOW + dt.timedelta(days=30 * 365))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
        )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _usage(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> x509.KeyUsage:
    return _key_usage(key_encipherment=True) if isinstance(key, rsa.RSAPublicKey) else _key_usage(key_agreement=True)


def _key_usage(**said: bool) -> x509.KeyUsage:
    every = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: said.get(name, False) for name in every})


class SoftwareTPM:
    """A TPM of its own. From :meth:`start` to :meth:`stop` its machine runs; with another start it is booted again.

    Args:
        folder: for its state; the sockets lie elsewhere, for their paths have to be short.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sockets = tempfile.TemporaryDirectory(prefix="tpm-")
        self._socket = Path(self._sockets.name) / "tpm"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def where(self) -> str:
        """For :class:`Device`, and for TPM2TOOLS_TCTI and TPM2OPENSSL_TCTI too."""
        return f"swtpm:path={self._socket}"

    def device(self) -> Device:
        return Device(self.where)

    def start(self) -> None:
        """Switch the machine on."""
        program = peers.binary("debian", "usr/bin/swtpm")
        self._process = subprocess.Popen(
            [
                str(program), "socket", "--tpm2", "--tpmstate", f"dir={self._folder}",
                "--server", f"type=unixio,path={self._socket}", "--ctrl", f"type=unixio,path={self._socket}.ctrl",
                "--flags", "not-need-init,startup-clear",
            ],
            env={**os.environ, "LD_LIBRARY_PATH": libraries()},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not self._listens():  # it says nowhere that it does
            assert self._process.poll() is None, "swtpm has ended"
            threading.Event().wait(0.003)

    def _listens(self) -> bool:
        for path in (self._socket, f"{self._socket}.ctrl"):
            with socket.socket(socket.AF_UNIX) as tried:
                if tried.connect_ex(str(path)):
                    return False
        return True

    def stop(self) -> None:
        """Switch the machine off, all at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        for path in (self._socket, Path(f"{self._socket}.ctrl")):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """It and its sockets."""
        self.stop()
        self._sockets.cleanup()

    # ---------------------------------------------------------- what only a maker or an owner does

    def certify(self, manufacturer: Manufacturer, kinds: Sequence[str] = ("ECC-P256",)) -> None:
        """Put certificates for its endorsement keys into it, and who has signed them; the root has to be known.

        Args:
            kinds: of the keys, such as ECC-P256 and RSA-2048; the latter takes a moment longer.
        """
        for kind in kinds:
            key = next(each for each in templates.ENDORSEMENT_KEYS if each.kind == kind)
            certificate = manufacturer.certificate(self.public_key(key))
            self.define(key.certificate, certificate.public_bytes(Encoding.DER))
        self.define(_FIRST_OF_CHAIN, manufacturer.intermediate.public_bytes(Encoding.DER))

    def public_key(self, kind: templates.EndorsementKey) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
        """Of an endorsement key; it is not kept in the TPM."""
        with self.device().opened() as tpm:
            created = tpm.run(commands.create_primary(commands.ENDORSEMENT, kind.template))
            return public_area.parse_area(commands.first_sized(created)).key()

    def define(
        self,
        index: int,
        content: bytes,
        *,
        readers: int = commands.NV_OWNER_READ | commands.NV_AUTH_READ,
        written: bool = True,
    ) -> None:
        """Make an NV index that holds ``content``, as a maker does."""
        public = struct.pack(">IHI", index, algorithms.SHA256, _OF_THE_MAKER | readers) + sized(b"")
        public += struct.pack(">H", len(content))
        with self.device().opened() as tpm:
            if index in tpm.handles(index):
                tpm.run(Command(_NV_UNDEFINE, (_PLATFORM, index), (EMPTY,)))
            parameters = sized(b"") + sized(public)
            tpm.run(Command(_NV_DEFINE, (_PLATFORM,), (EMPTY,), parameters))
            for offset in range(0, len(content) if written else 0, 512):
                part = sized(content[offset : offset + 512]) + struct.pack(">H", offset)
                tpm.run(Command(_NV_WRITE, (_PLATFORM, index), (EMPTY,), part))

    def keep(self, template: Public, handle: int, hierarchy: int = commands.ENDORSEMENT) -> None:
        """Make a primary key persistent."""
        with self.device().opened() as tpm:
            made = tpm.run(commands.create_primary(hierarchy, template)).handle
            parameters = struct.pack(">I", handle)
            tpm.run(Command(_EVICT_CONTROL, (commands.OWNER, made), (EMPTY,), parameters))

    def set_password(self, hierarchy: int, password: bytes) -> None:
        """Of a hierarchy that has none."""
        with self.device().opened() as tpm:
            tpm.run(Command(_HIERARCHY_CHANGE_AUTH, (hierarchy,), (EMPTY,), sized(password)))

    def lock_out(self, seconds: int) -> None:
        """As if somebody had guessed passwords; one more guess is allowed every so many seconds."""
        with self.device().opened() as tpm:
            parameters = struct.pack(">III", 0, seconds, seconds)
            tpm.run(Command(_DICTIONARY_ATTACK_PARAMETERS, (commands.LOCKOUT_HIERARCHY,), (EMPTY,), parameters))

    def clear(self) -> None:
        """What an owner does who gives a machine away: keys below the owner are gone, endorsement keys stay."""
        with self.device().opened() as tpm:
            tpm.run(Command(_CLEAR, (commands.LOCKOUT_HIERARCHY,), (EMPTY,)))

    # ---------------------------------------------------------- everybody else's tools

    def environment(self) -> Mapping[str, str]:
        """For programs that use the TPM2 tools or the OpenSSL provider."""
        modules = peers.binary("debian", f"{_LIBRARIES}/ossl-modules/tpm2.so").parent
        return {
            "LD_LIBRARY_PATH": libraries(),
            "TPM2TOOLS_TCTI": self.where,
            "TPM2OPENSSL_TCTI": self.where,
            "OPENSSL_MODULES": str(modules),
        }

    def tool(self, name: str, *arguments: str | Path, folder: Path) -> Ended:
        """Run one of the TPM2 tools; what it has loaded is flushed, for nobody else would."""
        program = peers.binary("debian", "usr/bin/tpm2")
        ended = run(program, name, *arguments, cwd=folder, **self.environment())
        run(program, "flushcontext", "-t", cwd=folder, **self.environment())
        run(program, "flushcontext", "-l", cwd=folder, **self.environment())
        return ended


@contextlib.contextmanager
def software_tpm(
    folder: Path, manufacturer: Manufacturer | None = None, kinds: Sequence[str] = ("ECC-P256",)
) -> Iterator[SoftwareTPM]:
    """One that runs until the end of the block; without a ``manufacturer`` nobody vouches for it."""
    tpm = SoftwareTPM(folder)
    try:
        tpm.start()
        if manufacturer is not None:
            tpm.certify(manufacturer, kinds)
        yield tpm
    finally:
        tpm.remove()


@pytest.fixture(scope="session")
def manufacturer() -> Manufacturer:
    return Manufacturer()


@pytest.fixture(scope="session")
def tpm(tmp_path_factory: pytest.TempPathFactory, manufacturer: Manufacturer) -> Iterator[SoftwareTPM]:
    """A machine's, for tests that leave it as it was: with a P-256 endorsement key and its certificate."""
    with software_tpm(tmp_path_factory.mktemp("tpm"), manufacturer) as started:
        yield started
