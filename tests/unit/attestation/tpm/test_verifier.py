"""The whole way from the opening to what is known, each part of it of somebody else by itself."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

import aio
import evidence_cases
from asynctest import async_test
from event_logs import ON, event, header
from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine
from kubevouch.attestation import catalog, request
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnsupportedVersionError,
)
from kubevouch.attestation.tpm import certification, verifier
from kubevouch.attestation.tpm.attestor import MAX_EVENT_LOG_BYTES
from kubevouch.attestation.tpm.evidence import Answer, KeyProtection, Question, Quote
from kubevouch.attestation.tpm.verifier import TPMVerifier, make_verifier
from kubevouch.config import attestation_config
from kubevouch.machinery.codec import json_codec
from kubevouch.pki.tpm import algorithms, attest, event_log
from kubevouch.pki.tpm.public_area import Public
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs
from kubevouch.util.clock import Clock
from pretended_tpm import (
    CLOCK,
    KEY_ATTRIBUTES,
    NOW,
    VALUES,
    Maker,
    PretendedTPM,
    certified_body,
    curve_key,
    public_of,
    quoted_body,
    said,
    signed,
    texts,
)

_SOURCES = Path(verifier.__file__).parent
_PAGE = Path(__file__).parents[4] / "docs" / "attestation" / "tpm" / "control-plane.md"
_TPM = PretendedTPM()
_KEY = public_of(curve_key("node"), KEY_ATTRIBUTES)
_BINDING = Binding(spki=_KEY.spki(), cluster_id="c", nonce=b"n" * 32)
_ROOTS = evidence_cases.named("ev-tpm-enroll-006").roots[0]


@dataclass(frozen=True)
class Around:
    clock: Clock
    client: None = None


def _made(**settings: Any) -> TPMVerifier:
    given = {"roots": _pem(Maker()), **settings}
    return make_verifier({name: value for name, value in given.items() if value is not None}, Around(FakeClock()))


def _pem(maker: Maker) -> str:
    return maker.root.public_bytes(Encoding.PEM).decode()


_VALUES7 = {"sha256": {"7": [VALUES[algorithms.SHA256][7].hex(), "00" * 32]}}
_STRICT = {"strict": {"values": _VALUES7}}


async def _attested(
    made: TPMVerifier,
    tpm: PretendedTPM = _TPM,
    key: Public = _KEY,
    binding: Binding = _BINDING,
    *,
    opening: Mapping[str, Any] | None = None,
    version: str = "v1",
    **answered: Any,
) -> Attested:
    """As an honest node would do it, but for what is given."""
    opened = msgspec.json.encode(tpm.opening(**(opening or {})))
    challenge = made.challenge(opened, NOW, secrets.token_bytes)
    question = msgspec.json.decode(challenge.content, type=Question)
    answer = tpm.answer(question, key, binding.digest, **answered)
    return await _shown(made, answer, challenge, binding, version)


async def _shown(made: TPMVerifier, answer: Answer, challenge: Challenge, binding: Binding, version: str) -> Attested:
    evidence = Evidence(provider="tpm", version=version, data=msgspec.json.encode(answer), challenge="attest-1")
    return await made.verify_client(evidence, binding, challenge, NOW)


async def _step(made: TPMVerifier, **fields: Any) -> str:
    with pytest.raises(RefusedEvidenceError) as caught:
        await _attested(made, **fields)
    return caught.value.step


def _claims(attested: Attested) -> dict[str, str]:
    return {each.name: each.value for each in attested.claims}


@async_test
async def test_a_machine_with_a_tpm() -> None:
    made = _made()
    attested = await _attested(made)
    ek_hash = hashlib.sha256(_TPM.ek.encode_area()).hexdigest()
    assert attested.identity == f"sha256:{ek_hash}"
    assert (attested.strength, attested.renewable, attested.node_name) == (Strength.TPM, True, "")
    claims = _claims(attested)
    assert claims["tpm.ekHash"] == ek_hash
    assert claims["tpm.manufacturer"] == "id:4D414445"
    assert claims["tpm.keyProtection"] == "Resident"
    assert (claims["tpm.resetCount"], claims["tpm.restartCount"]) == ("7", "1")
    assert {each.source for each in attested.claims} == {"tpm-ek-certificate", "tpm-certify"}
    assert await made.verify_serving(attested, ["node-1", "10.0.0.1"], NOW) == {}
    assert made.machine_name(attested) == ""


@async_test
async def test_a_machine_that_was_booted_as_it_should_be() -> None:
    attested = await _attested(_made(pcrPolicies=_STRICT, requireQuote=True))
    assert attested.strength is Strength.MEASURED
    claims = _claims(attested)
    assert claims["tpm.pcrPolicy"] == "strict"
    assert claims["tpm.pcr7"] == VALUES[algorithms.SHA256][7].hex()


@async_test
async def test_secure_boot_is_told_where_its_register_was_quoted() -> None:
    log = header() + ON
    replayed = event_log.parse(log).replay(algorithms.SHA256)
    for pcr, told in ((7, "true"), (0, None)):
        tpm = PretendedTPM(values={algorithms.SHA256: {pcr: replayed[pcr]}})
        quote = tpm.quote(_BINDING.digest, event_log=log)
        attested = await _attested(_made(pcrPolicies={"any": {"pcrs": [pcr]}}), tpm, quote=quote)
        assert _claims(attested).get("tpm.secureBoot") == told


@async_test
async def test_the_longest_log_that_a_node_sends_fits_behind_a_request() -> None:
    log = header() + event(4, 0x0D, secrets.token_bytes(MAX_EVENT_LOG_BYTES - len(header()) - 78), of=b"")
    assert MAX_EVENT_LOG_BYTES - 16 < len(log) <= MAX_EVENT_LOG_BYTES
    every = {bank: dict.fromkeys(range(24), bytes(algorithms.HASHES[bank].size)) for bank in algorithms.HASHES}
    longest = Answer(
        secret=bytes(32), key_public=bytes(600), attest=bytes(200), signature=bytes(600), creation_data=bytes(200),
        quote=Quote(attest=bytes(300), signature=bytes(600), pcrs=texts(every), event_log=log, omitted=(9,) * 50),
    )  # fmt: skip
    evidence = Evidence(provider="tpm", version="v1", data=msgspec.json.encode(longest), challenge="a" * 63)
    assert len(request.build(b"x" * 2000, [evidence])) <= request.MAX_BYTES


@async_test
async def test_a_policy_that_anything_fits_measures_nothing() -> None:
    attested = await _attested(_made(pcrPolicies={"any": {}}))
    assert (attested.strength, _claims(attested)["tpm.pcrPolicy"]) == (Strength.TPM, "any")


@async_test
async def test_a_machine_that_fits_no_policy_lacks_the_claim_or_is_refused() -> None:
    other = {"other": {"values": {"sha256": {"7": ["00" * 32]}}}}
    attested = await _attested(_made(pcrPolicies=other))
    assert attested.strength is Strength.TPM
    assert "tpm.pcrPolicy" not in _claims(attested)
    assert await _step(_made(pcrPolicies=other, requireQuote=True)) == "policy"
    assert await _step(_made(pcrPolicies=_STRICT, requireQuote=True), quote=None) == "quote"
    assert (await _attested(_made(pcrPolicies=_STRICT), quote=None)).strength is Strength.TPM


@async_test
async def test_a_tpm_without_a_certificate() -> None:
    ek_hash = hashlib.sha256(_TPM.ek.encode_area()).hexdigest()
    made = _made(roots=None, allowed=[f"sha256:{ek_hash.upper()}"])
    attested = await _attested(made, opening={"ek_certificate": b"", "chain": ()})
    assert {each.source for each in attested.claims} == {"tpm-ek-allow-list", "tpm-certify"}
    with pytest.raises(RefusedEvidenceError, match="ek-allow-list"):
        made.challenge(msgspec.json.encode(PretendedTPM("b").opening(ek_certificate=b"")), NOW, secrets.token_bytes)


@async_test
async def test_a_key_in_a_file_counts_only_where_that_was_said_and_for_less() -> None:
    in_a_file: dict[str, Any] = {"key_public": b"", "attest": b"", "signature": b""}
    assert await _step(_made(), **in_a_file) == "structure"
    loose = _made(keyProtection="Vouched")
    with capture_logs() as logs:
        attested = await _attested(loose, **in_a_file)
    assert [each["log_level"] for each in logs] == ["warning"]
    assert (attested.strength, _claims(attested)["tpm.keyProtection"]) == (Strength.KEY, "Vouched")
    assert await _step(loose, **in_a_file, quote=None) == "quote"
    assert await _step(loose, **in_a_file, quote=_TPM.quote(b"another key")) == "quote-extra-data"
    assert (await _attested(loose)).strength is Strength.TPM
    measured = _made(keyProtection="Vouched", pcrPolicies=_STRICT)
    assert (await _attested(measured, **in_a_file)).strength is Strength.KEY


_OTHER = PretendedTPM("other")
_QUOTE = said(attest.QUOTE, _BINDING.digest, quoted_body(VALUES))
_CERTIFICATION = said(attest.CERTIFY, _BINDING.digest, certified_body(_KEY))
_FOREIGN = said(attest.QUOTE, _BINDING.digest, quoted_body(VALUES), magic=1)
_LATER = said(attest.QUOTE, _BINDING.digest, quoted_body(VALUES), clock=msgspec.structs.replace(CLOCK, reset_count=8))


@pytest.mark.parametrize(
    ("answered", "step"),
    [
        ({"secret": b"x" * 32}, "secret"),
        ({"secret": b""}, "secret"),
        ({"attest": b""}, "structure"),
        ({"signature": b""}, "structure"),
        ({"key_public": b""}, "structure"),
        ({"signature": signed(_OTHER.ak_private, _CERTIFICATION)}, "signature"),
        ({"attest": _QUOTE, "signature": signed(_TPM.ak_private, _QUOTE)}, "attest-type"),
        ({"creation_data": b"x"}, "attest-type"),
        ({"key_public": public_of(curve_key("second"), KEY_ATTRIBUTES).encode()}, "name"),
        ({"quote": _TPM.quote(_BINDING.digest, attest=b"")}, "quote-structure"),
        ({"quote": _TPM.quote(_BINDING.digest, signature=signed(_OTHER.ak_private, _QUOTE))}, "quote-signature"),
        ({"quote": _OTHER.quote(_BINDING.digest)}, "quote-signature"),
        ({"quote": _TPM.quote(b"n" * 32)}, "quote-extra-data"),
        ({"quote": _TPM.quote(b"", attest=said(attest.QUOTE, _BINDING.digest, b"", magic=1))}, "quote-structure"),
        ({"quote": _TPM.quote(b"", attest=_FOREIGN)}, "quote-magic"),
        ({"quote": _TPM.quote(b"", attest=_CERTIFICATION)}, "quote-attest-type"),
        ({"quote": _TPM.quote(b"", attest=_LATER)}, "clock"),
        ({"quote": _TPM.quote(_BINDING.digest, pcrs=texts({algorithms.SHA256: {0: bytes(32)}}))}, "pcr-digest"),
        ({"quote": _TPM.quote(_BINDING.digest, pcrs={"sha256": {"9": "00" * 32}})}, "selection"),
        ({"quote": _TPM.quote(_BINDING.digest, event_log=b"x")}, "event-log"),
    ],
    ids=range(20),
)  # fmt: skip
def test_answers_that_are_wrong(answered: dict[str, Any], step: str) -> None:
    async def scenario() -> None:
        assert await _step(_made(pcrPolicies=_STRICT), **answered) == step
        # A forged quote is one too where none was asked for.
        if "quote" in answered and step != "selection":
            assert await _step(_made(), **answered) == step

    aio.run(scenario())


@async_test
async def test_an_answer_for_another_key_or_nonce_or_by_another_machine() -> None:
    made = _made()
    other_key = public_of(curve_key("second"), KEY_ATTRIBUTES)
    replayed: dict[str, Any] = {"attest": _CERTIFICATION, "signature": signed(_TPM.ak_private, _CERTIFICATION)}
    later = Binding(spki=_KEY.spki(), cluster_id="c", nonce=b"m" * 32)
    assert await _step(made, binding=later, **replayed) == "extra-data"
    elsewhere = Binding(spki=other_key.spki(), cluster_id="c", nonce=b"n" * 32)
    assert await _step(made, binding=elsewhere, **replayed) == "extra-data"
    assert await _step(made, binding=elsewhere) == "csr-key"

    opened = msgspec.json.encode(_TPM.opening())
    first, second = (made.challenge(opened, NOW, secrets.token_bytes) for _ in range(2))
    answer = _TPM.answer(msgspec.json.decode(first.content, type=Question), _KEY, _BINDING.digest)
    await _shown(made, answer, first, _BINDING, "v1")
    with pytest.raises(RefusedEvidenceError, match="secret"):
        await _shown(made, answer, second, _BINDING, "v1")


@async_test
async def test_only_the_tpm_itself_reads_the_secret() -> None:
    """The credential is for the certified key: who shows another machine's certificate cannot answer."""
    challenge = _made().challenge(msgspec.json.encode(_TPM.opening()), NOW, secrets.token_bytes)
    question = msgspec.json.decode(challenge.content, type=Question)
    with pytest.raises(RefusedEvidenceError, match="integrity"):
        _OTHER.activated(question.credential)
    secret = _TPM.activated(question.credential)
    assert hashlib.sha256(secret).hexdigest() == challenge.secret_digest
    assert secret not in challenge.content + challenge.state
    assert len(secret) == certification.SECRET_BYTES


@pytest.mark.parametrize(
    ("opening", "step"),
    [
        ({"ak_public": b""}, "structure"),
        ({"ak_public": PretendedTPM(ak_fields={"attributes": 0x00040072}).ak.encode()}, "ak-attributes"),
        ({"ak_public": PretendedTPM(ak_fields={"scheme": (algorithms.NULL, 0)}).ak.encode()}, "ak-scheme"),
        ({"ak_public": PretendedTPM(ak_fields={"name_algorithm": algorithms.SHA1}).ak.encode()}, "structure"),
        ({"ek_public": b""}, "structure"),
        ({"ek_public": _OTHER.ek.encode()}, "ek-key"),
        ({"ek_certificate": b""}, "ek-allow-list"),
        ({"chain": ()}, "chain"),
        ({"ak_public": _TPM.ek.encode()}, "ak-attributes"),
        ({"ek_public": _TPM.ak.encode()}, "ek-attributes"),
    ],
    ids=range(10),
)  # fmt: skip
def test_openings_that_get_no_challenge(opening: dict[str, Any], step: str) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        _made().challenge(msgspec.json.encode(_TPM.opening(**opening)), NOW, secrets.token_bytes)
    assert caught.value.step == step


@pytest.mark.parametrize(
    ("opening", "step"),
    [
        (b"", "structure"),
        (b"[]", "structure"),
        (b'{"ekPublic":"AA=="}', "structure"),
        (b'{"ekPublic":"*","akPublic":""}', "structure"),
        (b'{"ekPublic":"","ekPublic":"","akPublic":""}', "duplicate-key"),
        (b"[" * 100_000, "structure"),
    ],
)
def test_openings_that_are_none(opening: bytes, step: str) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        _made().challenge(opening, NOW, secrets.token_bytes)
    assert caught.value.step == step


def test_an_endorsement_key_on_the_list_that_protects_nothing_gets_no_challenge() -> None:
    tpm = PretendedTPM(ek_fields={"symmetric": (0, 0, 0)})
    made = _made(allowed=[hashlib.sha256(tpm.ek.encode_area()).hexdigest()])
    with pytest.raises(RefusedEvidenceError, match="ek-attributes"):
        made.challenge(msgspec.json.encode(tpm.opening()), NOW, secrets.token_bytes)


@async_test
async def test_evidence_that_is_not_read() -> None:
    made = _made()
    with pytest.raises(UnsupportedVersionError) as unsupported:
        await _attested(made, version="v2")
    assert unsupported.value.supported == ("v1",)
    for text, step in ((b"", "structure"), (b"{}", "structure"), (b'{"secret":"","secret":""}', "duplicate-key")):
        challenge = made.challenge(msgspec.json.encode(_TPM.opening()), NOW, secrets.token_bytes)
        with pytest.raises(RefusedEvidenceError) as caught:
            await made.verify_client(Evidence(provider="tpm", version="v1", data=text), _BINDING, challenge, NOW)
        assert caught.value.step == step
    stale = Challenge(content=b"{}", secret_digest="", state=b"{}")
    evidence = Evidence(provider="tpm", version="v1", data=b'{"secret":""}')
    with pytest.raises(RefusedEvidenceError, match="another version of this"):
        await made.verify_client(evidence, _BINDING, stale, NOW)
    with pytest.raises(RefusedEvidenceError, match="nonce: got no challenge"):
        await made.verify_client(Evidence(provider="tpm", version="v1", data=b"{}"), _BINDING, None, NOW)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"roots": None}, "got neither roots nor allowed"),
        ({"roots": "x"}, "roots: "),
        ({"roots": _ROOTS, "rootsFile": "/x"}, "got both of roots and rootsFile"),
        ({"roots": None, "rootsFile": "/nowhere/roots.pem"}, "No such file"),
        ({"intermediatesFile": "/nowhere/between.pem"}, "No such file"),
        ({"allowed": ["abc"]}, "allowed: got 'abc', expected a SHA-256"),
        ({"revoked": ["z" * 64]}, "revoked: got"),
        ({"allowedFile": "/nowhere/allowed"}, "No such file"),
        ({"endorsementKeys": []}, "endorsementKeys: got none"),
        ({"endorsementKeys": ["RSA-1024"]}, "endorsementKeys: got RSA-1024"),
        ({"keyProtection": "None"}, "Invalid enum value"),
        ({"requireQuote": True}, "requireQuote without pcrPolicies"),
        ({"root": "x"}, "unknown field"),
        ({"pcrPolicies": {"a": {"banks": []}}}, "expected banks"),
        ({"pcrPolicies": {"a": {"banks": ["sha1"]}}}, "expected banks"),
        ({"pcrPolicies": {"a": {"values": {"sha1": {"0": ["00" * 20]}}}}}, "expected banks"),
        ({"pcrPolicies": {"a": {"banks": ["md5"]}}}, "got PCR bank 'md5'"),
        ({"pcrPolicies": {"a": {"pcrs": [24]}}}, "expected pcrs from 0 to 23"),
        ({"pcrPolicies": {"a": {"values": {"sha256": {"7": []}}}}}, "may have no value at all"),
        ({"pcrPolicies": {"a": {"values": {"sha256": {"7": ["00"]}}}}}, "got 1 bytes for PCR 7"),
        ({"pcrPolicies": {"a": {"values": {"sha256": {"x": ["00" * 32]}}}}}, "got PCR 'x'"),
        ({"pcrPolicies": {str(n): {} for n in range(33)}}, "got 33 pcrPolicies"),
    ],
)
def test_settings_that_cannot_be_meant(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(told)):
        _made(**settings)


def test_a_certificate_that_is_no_ca_s_is_no_root() -> None:
    leaf = x509.load_der_x509_certificate(Maker().certificate(_TPM.ek_private.public_key()))
    with pytest.raises(SettingsError, match="is no CA"):
        _made(roots=leaf.public_bytes(Encoding.PEM).decode())


def test_the_list_of_a_file(tmp_path: Path) -> None:
    ek_hash = hashlib.sha256(_TPM.ek.encode_area()).hexdigest()
    listed = tmp_path / "allowed"
    listed.write_text(f"# rack 7\n\nsha256:{ek_hash}  # node-1\n")
    made = _made(roots=None, allowedFile=str(listed))
    made.challenge(msgspec.json.encode(_TPM.opening(ek_certificate=b"")), NOW, secrets.token_bytes)


def test_certificates_between_in_a_file(tmp_path: Path) -> None:
    between = tmp_path / "between.pem"
    between.write_bytes(Maker().issuing.public_bytes(Encoding.PEM))
    alone = msgspec.json.encode(_TPM.opening(chain=()))
    _made(intermediatesFile=str(between)).challenge(alone, NOW, secrets.token_bytes)
    with pytest.raises(RefusedEvidenceError, match="chain"):
        _made().challenge(alone, NOW, secrets.token_bytes)


def test_a_quote_is_asked_for_as_policies_need_it() -> None:
    def asked(**settings: Any) -> Question:
        made = _made(**settings)
        challenge = made.challenge(msgspec.json.encode(_TPM.opening()), NOW, secrets.token_bytes)
        return msgspec.json.decode(challenge.content, type=Question)

    assert (asked().pcrs, asked().event_log) == ({}, False)
    strict = asked(pcrPolicies={"a": {"pcrs": [0]}, "b": {"pcrs": [4], "secureBoot": True}})
    assert (strict.pcrs, strict.event_log) == ({"sha256": [0, 4, 7]}, True)
    vouched = asked(keyProtection="Vouched")
    assert (vouched.pcrs, vouched.key_protection) == ({"sha256": list(range(8))}, KeyProtection.VOUCHED)


def test_it_is_installed() -> None:
    assert catalog.verifier("tpm") is make_verifier


# Rules of pki/device_chain.py and pki/tpm/ek_certificate.py.
_ELSEWHERE = {
    "chain", "critical-extension", "validity", "key-size", "ca", "key-usage", "path-length", "eku",
    "policy-constraints", "name-constraints", "san",
}  # fmt: skip


def test_the_page_lists_every_step_in_its_order() -> None:
    rows = re.findall(r"^\| (\d+) \| (`[^|]+`) \|", _PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 30))
    listed = [step for _, steps in rows for step in re.findall(r"`([a-z-]+)`", steps)]
    raised: set[str] = set()
    for module in ("endorsement", "certification", "measurement", "verifier"):
        for node in ast.walk(ast.parse((_SOURCES / f"{module}.py").read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RefusedEvidenceError":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    raised.add(str(first.value))
                elif isinstance(first, ast.JoinedStr):
                    step = str(first.values[-1].value)  # type: ignore[attr-defined] # what stands behind the prefix
                    raised |= {step, f"quote-{step}"}
    assert len(raised) > 20
    assert raised | _ELSEWHERE == {*listed, "nonce"}


def test_the_settings_of_the_page_are_read() -> None:
    configuration, machine = re.findall(r"```yaml\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    spec = json_codec.decode(json.dumps(yaml.safe_load(machine)).encode(), AllowedMachine).spec
    assert [each.provider for each in spec.identities] == ["tpm"]
    attestation_config.decode(configuration.encode())
    settings = yaml.safe_load(configuration)["attestors"][0]["settings"]
    assert settings.pop("rootsFile")
    _made(**settings)
    named = set(re.findall(r"^\| `(\w+)`(?:, `(\w+)`)?", _PAGE.read_text(), re.MULTILINE))
    known = {each.encode_name for each in msgspec.structs.fields(verifier.Settings)}
    assert known <= {name for pair in named for name in pair}
    assert json.dumps(settings)


def _flipped(octets: bytes) -> Iterator[bytes]:
    """It with one bit of each octet turned, a different one each time."""
    for at, octet in enumerate(octets):
        yield octets[:at] + bytes((octet ^ 1 << at % 8,)) + octets[at + 1 :]


@async_test
async def test_every_octet_of_an_answer_counts() -> None:
    made = _made(pcrPolicies=_STRICT)
    challenge = made.challenge(msgspec.json.encode(_TPM.opening()), NOW, secrets.token_bytes)
    good = _TPM.answer(msgspec.json.decode(challenge.content, type=Question), _KEY, _BINDING.digest)
    assert good.quote is not None
    await _shown(made, good, challenge, _BINDING, "v1")
    answers = [
        msgspec.structs.replace(good, **{name: octets})
        for name in ("secret", "key_public", "attest", "signature")
        for octets in _flipped(getattr(good, name))
    ] + [
        msgspec.structs.replace(good, quote=msgspec.structs.replace(good.quote, **{name: octets}))
        for name in ("attest", "signature")
        for octets in _flipped(getattr(good.quote, name))
    ]
    assert len(answers) > 500
    for answer in answers:
        with pytest.raises(RefusedEvidenceError):
            await _shown(made, answer, challenge, _BINDING, "v1")


def test_every_octet_of_an_endorsement_counts() -> None:
    made, good = _made(), _TPM.opening()
    for name in ("ek_public", "ek_certificate"):
        for octets in _flipped(getattr(good, name)):
            opening = msgspec.json.encode(msgspec.structs.replace(good, **{name: octets}))
            with pytest.raises(RefusedEvidenceError):
                made.challenge(opening, NOW, secrets.token_bytes)


@async_test
async def test_an_attestation_key_of_which_a_bit_was_turned_reads_no_secret() -> None:
    """What gets a challenge all the same is another key's name, which no TPM has under that certificate."""
    made, answered = _made(), 0
    for octets in _flipped(_TPM.ak.encode()):
        opening = msgspec.json.encode(_TPM.opening(ak_public=octets))
        try:
            challenge = made.challenge(opening, NOW, secrets.token_bytes)
        except RefusedEvidenceError:
            continue
        answered += 1
        with pytest.raises(RefusedEvidenceError, match="integrity"):
            _TPM.activated(msgspec.json.decode(challenge.content, type=Question).credential)
    assert answered < 20
