"""signers/pkcs11.py: a CA key in a token signs as one in a file does, while the token comes and goes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from asynctest import async_test
from controller_world import NOW, fixture
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.errors import AuthorityError, IssuedMismatchError, KeyMaterialError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers import pkcs11
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval, Requester, SignerUnavailable, SigningStopped, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.signers.keys import KeyOptions, token_key
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER
from softhsm import ALGORITHMS, PIN, SoftHSM

WANTED = Wanted(
    "c",
    "u",
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    x509_request.parse_pem(fixture("client-good.csr")),
    ["digital signature", "client auth"],
)


NOTHING = KeyOptions()


async def sign(signer: FileSigner, uid: str = "u") -> Certificate:
    wanted = msgspec.structs.replace(WANTED, uid=uid)
    return await issue(signer, Requester("u"), Approval("r", "m"), wanted, now=NOW, ledger=MemoryLedger())


def log_out(softhsm: SoftHSM) -> None:
    """A process logs in once, for all that it does with a token."""
    module = pkcs11.module(str(softhsm.module))
    module.restart(module.generation)


class World:
    """A signer with the key of this label."""

    def __init__(self, softhsm: SoftHSM, folder: Path, label: str) -> None:
        self.softhsm = softhsm
        self.folder = folder
        self.label = label
        self.clock = FakeClock(NOW)
        self.pin = folder / "pin"
        self.pin.write_text(f"{PIN}\n")
        self.pin.chmod(0o600)
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(softhsm.authorities[label].certificate.pem())

    def signer(self, uri: str = "", options: KeyOptions = NOTHING) -> FileSigner:
        uri = uri or self.softhsm.uri(self.label, self.pin)
        return FileSigner(self.certificate, uri, SigningRules(), keys=options, clock=self.clock)


@pytest.mark.parametrize("label", list(ALGORITHMS))
@async_test
async def test_a_key_in_a_token_signs(softhsm: SoftHSM, tmp_path: Path, label: str) -> None:
    signer = World(softhsm, tmp_path, label).signer()
    first, *others = await asyncio.gather(*(sign(signer, f"u{number}") for number in range(pkcs11.MAX_SESSIONS)))
    certificate = softhsm.authorities[label].certificate
    assert first.issuer_name == certificate.subject_name
    # Each was verified with the certificate's key (SigningRules.verify_signature).
    assert first.signature_algorithm == certificate.signature_algorithm
    assert len({each.serial for each in others}) == pkcs11.MAX_SESSIONS - 1


@async_test
async def test_a_token_that_is_pulled_out_and_put_back(softhsm: SoftHSM, tmp_path: Path) -> None:
    world = World(softhsm, tmp_path, "p256")
    signer = world.signer()
    assert await sign(signer)
    softhsm.remove()
    try:
        for _ in range(2):
            world.clock.advance(pkcs11.RESTART_SECONDS)
            with pytest.raises(SignerUnavailable, match=r"cannot be used now: the token is not there$"):
                await sign(signer)
    finally:
        softhsm.insert()
    world.clock.advance(pkcs11.RESTART_SECONDS)
    assert await sign(signer)


@async_test
async def test_a_token_that_is_not_there_at_the_start_may_come(softhsm: SoftHSM, tmp_path: Path) -> None:
    world = World(softhsm, tmp_path, "p384")
    log_out(softhsm)
    softhsm.remove()
    try:
        with capture_logs() as logs:
            signer = world.signer()
    finally:
        softhsm.insert()
    assert [line["event"] for line in logs] == ["the CA key cannot be reached; requests wait until it is there"]
    world.clock.advance(pkcs11.RESTART_SECONDS)
    assert await sign(signer)


@async_test
async def test_a_wrong_pin_is_shown_once(softhsm: SoftHSM, tmp_path: Path) -> None:
    softhsm.tool("--init-token", "--free", "--label", "locked", "--pin", PIN, "--so-pin", PIN)
    authority = softhsm.put("other", KeyAlgorithm.ECDSA_P256, 1, "locked")
    world = World(softhsm, tmp_path, "p256")
    world.certificate.write_bytes(authority.certificate.pem())
    world.pin.write_text("wrong")
    log_out(softhsm)
    uri = softhsm.uri("other", world.pin).replace("token=ca", "token=locked")
    with (
        capture_logs() as logs,
        pytest.raises(AuthorityError, match=r"^the CA key cannot be used: the PIN for .* is refused: PinIncorrect$"),
    ):
        world.signer(uri)
    assert "wrong" not in str(logs)
    key = token_key(uri, authority.certificate.public_key, KeyOptions(), world.clock)
    for refusal in ("is refused", "was refused, and is the same still"):
        with pytest.raises(KeyMaterialError, match=refusal):
            key.verify()
    world.pin.write_text(PIN)
    key.verify()


def test_what_can_never_sign_is_told_at_the_start(softhsm: SoftHSM, tmp_path: Path) -> None:
    world = World(softhsm, tmp_path, "p256")
    log_out(softhsm)
    for uri, why in (
        (softhsm.uri("p256", tmp_path / "none"), "the PIN in .*none cannot be read: no such file or directory"),
        (softhsm.uri("missing", world.pin), 'there is no key "missing" of token "ca"'),
        ("pkcs11:token=ca;object=p256", "a PKCS#11 URI without module-path needs --pkcs11-module"),
        ("pkcs11:token=ca;object=p256?module-path=/none.so", 'module "/none.so" cannot be loaded'),
    ):
        with pytest.raises(AuthorityError, match=why):
            world.signer(uri)


@async_test
async def test_another_key_under_the_name_stops_the_signer(softhsm: SoftHSM, tmp_path: Path) -> None:
    world = World(softhsm, tmp_path, "p256")
    world.certificate.write_bytes(
        create_authority("p256", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW).certificate.pem()
    )
    signer = world.signer()
    with pytest.raises(IssuedMismatchError, match="its signature"):
        await sign(signer)
    with pytest.raises(SigningStopped):
        await sign(signer)


@async_test
async def test_pin_and_module_by_options_and_by_credential(
    softhsm: SoftHSM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(softhsm, tmp_path, "p256")
    options = KeyOptions(pkcs11_module=str(softhsm.module), pkcs11_pin_file=str(world.pin))
    assert await sign(world.signer("pkcs11:token=ca;id=%02", options))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    world.pin.rename(tmp_path / "pkcs11-pin")
    assert await sign(world.signer("pkcs11:token=ca;id=%02", KeyOptions(pkcs11_module=str(softhsm.module))))


def test_only_rsa_and_ecdsa(softhsm: SoftHSM) -> None:
    public = keys.public_key_of(Ed25519PrivateKey.generate())
    with pytest.raises(KeyMaterialError, match="a Ed25519 key in a PKCS#11 token is not supported"):
        token_key(softhsm.uri("p256"), public, KeyOptions(), FakeClock())
