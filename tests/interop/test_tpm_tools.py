"""What our own commands make of a TPM, beside what everybody else's tools make of the same one."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

import peers
from kubevouch.attestation.interface import Asked, Binding
from kubevouch.attestation.tpm import node_keys, own_endorsement
from kubevouch.attestation.tpm.attestor import make_attestor
from kubevouch.attestation.tpm.evidence import VERSION, Answer, Opening, Question
from kubevouch.pki import keys
from kubevouch.pki.tpm import algorithms, commands, credential, pcrs, public_area, templates
from kubevouch.pki.tpm.pcrs import Selection
from kubevouch.pki.tpm.resident_key import ResidentKey
from kubevouch.util.clock import SystemClock
from processes import Ended, run
from software_tpm import Manufacturer, SoftwareTPM, software_tpm

_ATTESTATION_KEY = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|sign"
_SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftwareTPM]:
    """With one PCR that is not zero."""
    folder = tmp_path_factory.mktemp("machine")
    with software_tpm(folder / "tpm", Manufacturer(), ("ECC-P256", "RSA-2048")) as started:
        _tool(started, folder, "pcrextend", f"7:sha256={'11' * 32},sha1={'22' * 20}")
        yield started


def _tool(machine: SoftwareTPM, folder: Path, name: str, *arguments: str | Path) -> Ended:
    ended = machine.tool(name, *arguments, folder=folder)
    assert ended.code == 0, ended.stderr
    return ended


def _attestation_key(machine: SoftwareTPM, folder: Path) -> Path:
    """Made by the tools, as a context of theirs."""
    options = ("-C", "e", "-G", "ecc256:ecdsa-sha256:null", "-a", _ATTESTATION_KEY, "-c", "ak.ctx")
    _tool(machine, folder, "createprimary", *options)
    _tool(machine, folder, "readpublic", "-c", "ak.ctx", "-o", "ak.pub", "-n", "ak.name")
    return folder / "ak.ctx"


@pytest.mark.parametrize(
    ("option", "kind"), [("ecc", "ECC-P256"), ("rsa", "RSA-2048"), ("ecc384", "ECC-P384"), ("rsa3072", "RSA-3072")]
)
def test_endorsement_keys_are_the_same(machine: SoftwareTPM, tmp_path: Path, option: str, kind: str) -> None:
    _tool(machine, tmp_path, "createek", "-G", option, "-c", "ek.ctx", "-u", "ek.pub")
    template = next(each for each in templates.ENDORSEMENT_KEYS if each.kind == kind).template
    with machine.device().opened() as tpm:
        ours = commands.first_sized(tpm.run(commands.create_primary(commands.ENDORSEMENT, template)))
    assert (tmp_path / "ek.pub").read_bytes()[2:] == ours


def test_attestation_keys_and_their_names_are_the_same(machine: SoftwareTPM, tmp_path: Path) -> None:
    _attestation_key(machine, tmp_path)
    opening = asyncio.run(_opening(machine))
    assert opening.ak_public == (tmp_path / "ak.pub").read_bytes()
    assert public_area.parse(opening.ak_public).name() == (tmp_path / "ak.name").read_bytes()


async def _opening(machine: SoftwareTPM) -> Opening:
    attestor = await make_attestor({"device": machine.where}, SystemClock())
    return msgspec.json.decode(await attestor.opening(VERSION), type=Opening)


def test_certificates_are_read_the_same(machine: SoftwareTPM, tmp_path: Path) -> None:
    for index in (0x01C0000A, 0x01C00002, 0x01C00100):
        _tool(machine, tmp_path, "nvread", hex(index), "-o", "nv")
        with machine.device().opened() as tpm:
            assert own_endorsement.read_index(tpm, index) == (tmp_path / "nv").read_bytes()


def test_pcrs_are_read_the_same(machine: SoftwareTPM, tmp_path: Path) -> None:
    _tool(machine, tmp_path, "pcrread", "sha1:0,7+sha256:7,16,23", "-o", "values", "-F", "values")
    wanted = [Selection(algorithms.SHA1, (0, 7)), Selection(algorithms.SHA256, (7, 16, 23))]
    with machine.device().opened() as tpm:
        _, values = commands.pcr_values(tpm.run(commands.pcr_read(wanted)))
    assert b"".join(value for _, _, value in values) == (tmp_path / "values").read_bytes()
    assert any(value.strip(b"\0") for _, pcr, value in values if pcr == 7)


# ------------------------------------------------------------------ credentials


def test_the_tools_open_our_credential(machine: SoftwareTPM, tmp_path: Path) -> None:
    _attestation_key(machine, tmp_path)
    _tool(machine, tmp_path, "createek", "-G", "rsa", "-c", "ek.ctx", "-u", "ek.pub")
    key = public_area.parse((tmp_path / "ek.pub").read_bytes())
    made = credential.make(key, (tmp_path / "ak.name").read_bytes(), _SECRET, secrets.token_bytes)
    (tmp_path / "blob").write_bytes(made.file())
    _tool(machine, tmp_path, "startauthsession", "--policy-session", "-S", "session")
    _tool(machine, tmp_path, "policysecret", "-S", "session", "-c", "e")
    _tool(
        machine, tmp_path, "activatecredential", "-c", "ak.ctx", "-C", "ek.ctx", "-i", "blob", "-o", "secret",
        "-P", "session:session",
    )  # fmt: skip
    assert (tmp_path / "secret").read_bytes() == _SECRET


def test_we_open_a_credential_of_the_tools_and_they_accept_our_quote(machine: SoftwareTPM, tmp_path: Path) -> None:
    _attestation_key(machine, tmp_path)
    opening = asyncio.run(_opening(machine))
    (tmp_path / "ek.pub").write_bytes(opening.ek_public)
    (tmp_path / "secret").write_bytes(_SECRET)
    name = (tmp_path / "ak.name").read_bytes().hex()
    _tool(machine, tmp_path, "makecredential", "-T", "none", "-u", "ek.pub", "-s", "secret", "-n", name, "-o", "blob")
    blob = credential.parse_file((tmp_path / "blob").read_bytes())

    async def attest() -> tuple[Answer, Binding]:
        attestor = await make_attestor({"device": machine.where}, SystemClock())
        key = await attestor.make_key()
        assert key is not None
        binding = Binding(keys.public_key_of(key).canonical_info, "cluster", secrets.token_bytes(32))
        wanted = Question(credential=blob, pcrs={"sha256": [0, 4, 7]})
        shown = await attestor.attest(
            VERSION, key, binding, Asked("attest-1", binding.nonce, msgspec.json.encode(wanted))
        )
        return msgspec.json.decode(shown, type=Answer), binding

    answer, binding = asyncio.run(attest())
    assert answer.secret == _SECRET
    quote = answer.quote
    assert quote is not None
    values = pcrs.parse_values(quote.pcrs)
    (tmp_path / "pcrs").write_bytes(b"".join(values[algorithms.SHA256].values()))
    (tmp_path / "quote").write_bytes(quote.attest)
    (tmp_path / "signature").write_bytes(quote.signature)
    check = (
        "checkquote", "-u", "ak.pub", "-m", "quote", "-s", "signature", "-g", "sha256", "-f", "pcrs",
        "-l", "sha256:0,4,7", "-q",
    )  # fmt: skip
    _tool(machine, tmp_path, *check, binding.digest.hex())
    assert machine.tool(*check, bytes(32).hex(), folder=tmp_path).code != 0
    # What is said of a key has another form, and the same signature.
    (tmp_path / "said").write_bytes(answer.attest)
    (tmp_path / "signature").write_bytes(answer.signature)
    _tool(machine, tmp_path, "verifysignature", "-c", "ak.ctx", "-g", "sha256", "-m", "said", "-s", "signature")


# ------------------------------------------------------------------ the node's key


def _openssl(machine: SoftwareTPM, folder: Path, *arguments: str) -> None:
    program = peers.binary("debian", "usr/bin/openssl")
    providers = ("-provider", "tpm2", "-provider", "default", "-propquery", "?provider=tpm2")
    ended = run(program, arguments[0], *providers, *arguments[1:], cwd=folder, **machine.environment())
    assert ended.code == 0, ended.stderr
    machine.tool("flushcontext", "-t", folder=folder)


def test_openssl_s_provider_signs_with_our_key(machine: SoftwareTPM, tmp_path: Path) -> None:
    key = node_keys.make(machine.device())
    (tmp_path / "key.pem").write_bytes(keys.to_pem(key))
    (tmp_path / "this").write_bytes(b"this")
    _openssl(machine, tmp_path, "dgst", "-sha256", "-sign", "key.pem", "-out", "signature", "this")
    key.public_key().verify((tmp_path / "signature").read_bytes(), b"this", ec.ECDSA(hashes.SHA256()))


def test_we_sign_with_a_key_of_openssl_s_provider(machine: SoftwareTPM, tmp_path: Path) -> None:
    _openssl(machine, tmp_path, "genpkey", "-algorithm", "EC", "-pkeyopt", "group:P-256", "-out", "key.pem")
    _openssl(machine, tmp_path, "pkey", "-in", "key.pem", "-pubout", "-out", "public.pem")
    read = keys.load_pem((tmp_path / "key.pem").read_bytes(), in_tpm=True)
    assert isinstance(read, ResidentKey)
    signature = node_keys.sign(machine.device(), read, hashlib.sha256(b"this").digest(), algorithms.SHA256)
    assert all(signature)
    public = load_pem_public_key((tmp_path / "public.pem").read_bytes())
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert public.public_bytes(*form) == read.public_key().public_bytes(*form)


def test_the_tools_find_our_key_as_it_is(machine: SoftwareTPM, tmp_path: Path) -> None:
    machine.keep(templates.STORAGE_ROOT_KEY, node_keys.STORAGE_ROOT_KEY, commands.OWNER)
    key = node_keys.make(machine.device())
    assert key.parent == node_keys.STORAGE_ROOT_KEY
    (tmp_path / "key.pub").write_bytes(key.public.encode())
    (tmp_path / "key.priv").write_bytes(len(key.private).to_bytes(2, "big") + key.private)
    _tool(
        machine, tmp_path, "load", "-C", hex(node_keys.STORAGE_ROOT_KEY), "-u", "key.pub", "-r", "key.priv",
        "-n", "key.name", "-c", "key.ctx",
    )  # fmt: skip
    assert (tmp_path / "key.name").read_bytes() == key.public.name()
    shown = _tool(machine, tmp_path, "readpublic", "-c", "key.ctx").stdout
    assert "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|sign\n" in shown
