"""The attestation key and what it says of the request's key, each field of it wrong by itself."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

import evidence_cases
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.attestation.tpm import certification
from kubevouch.pki.tpm import algorithms, attest
from kubevouch.pki.tpm.marshalling import sized, u16
from kubevouch.pki.tpm.public_area import Public
from kubevouch.pki.x509 import x509_request
from pretended_tpm import (
    AK_ATTRIBUTES,
    KEY_ATTRIBUTES,
    PretendedTPM,
    certified_body,
    curve_key,
    public_of,
    quoted_body,
    said,
    signed,
    weak_rsa,
)

_ROWS = {
    row["id"]: row for row in map(json.loads, (evidence_cases.FOLDER.parent / "node.jsonl").read_text().splitlines())
}
CERTIFICATIONS = [row for row in _ROWS.values() if row["when"] == "verify key certification"]
# Why each of them fails, in our words.
STEPS = {
    "nonce of another challenge": "extra-data",
    "quote offered as certify; must not crash": "attest-type",
    "certified name is another key": "name",
    "attributes show an imported key (no fixedTPM, fixedParent, sensitiveDataOrigin)": "key-attributes",
    "TLS key must not be restricted": "key-attributes",
    "attestation of one key, CSR with another": "csr-key",
    "AK not restricted: could sign arbitrary bytes": "ak-attributes",
    "signature bit flipped": "signature",
}

_TPM = PretendedTPM()
_AK = _TPM.ak_private
_KEY = public_of(curve_key("node"), KEY_ATTRIBUTES)
_EXTRA = hashlib.sha256(b"nonce and key").digest()
_BODY = certified_body(_KEY)
_SAID = said(attest.CERTIFY, _EXTRA, _BODY)
_CREATION_DATA = sized(bytes(4) + sized(b"") + b"\1" + u16(0x0B) + sized(b"") + sized(b"") + sized(b""))


def _verified(
    ak: Public = _TPM.ak,
    octets: bytes = _SAID,
    signature: bytes | None = None,
    public: bytes = _KEY.encode(),
    spki: bytes = _KEY.spki(),
    creation_data: bytes = b"",
    extra_data: bytes = _EXTRA,
) -> None:
    key = certification.verify_attestation_key(ak.encode())
    told = certification.verify_signed(
        key,
        octets,
        signed(_AK, octets) if signature is None else signature,
        plain=False,
        expected=attest.CREATION if creation_data else attest.CERTIFY,
        extra_data=extra_data,
    )
    certification.verify_key(told, public, spki, creation_data)


def _step(**fields: Any) -> str:
    with pytest.raises(RefusedEvidenceError) as caught:
        _verified(**fields)
    return caught.value.step


def test_a_good_certification() -> None:
    _verified()


@pytest.mark.parametrize("row", CERTIFICATIONS, ids=lambda row: row["id"])
def test_the_worked_cases(row: dict[str, Any]) -> None:
    given = {name[:-4]: bytes.fromhex(text) for name, text in row["given"].items() if name.endswith("_hex")}
    request = x509_request.parse_pem(_ROWS[row["given"]["csr"]]["given"]["pem"].encode())

    def rule() -> None:
        key = certification.verify_attestation_key(sized(given["ak_public"]))
        told = certification.verify_signed(
            key, given["attest"], given["signature"], plain=False, expected=attest.CERTIFY,
            extra_data=given["expected_extra"],
        )  # fmt: skip
        certification.verify_key(told, sized(given["key_public"]), request.public_key.canonical_info)

    if row["then"]["ok"]:
        rule()
        return
    with pytest.raises(RefusedEvidenceError) as caught:
        rule()
    assert caught.value.step == STEPS.get(row["then"]["why"], caught.value.step)


def _ak(**fields: Any) -> Public:
    return msgspec.structs.replace(_TPM.ak, **fields)


@pytest.mark.parametrize("bit", [1, 4, 5, 16, 18])
def test_step_11_an_attestation_key_that_lacks_an_attribute(bit: int) -> None:
    assert _step(ak=_ak(attributes=AK_ATTRIBUTES & ~(1 << bit))) == "ak-attributes"


def test_step_11_an_attestation_key_that_decrypts() -> None:
    assert _step(ak=_ak(attributes=AK_ATTRIBUTES | 1 << 17)) == "ak-attributes"


@pytest.mark.parametrize(
    "scheme",
    [
        (algorithms.NULL, 0),
        (algorithms.ECDSA, algorithms.SHA1),
        (algorithms.ECDSA, 0x12),
        (algorithms.ECDSA, algorithms.NULL),
        (algorithms.RSASSA, algorithms.SHA256),
        (0x1B, algorithms.SHA256),
        (0x19, algorithms.SHA256),
    ],
)
def test_step_12_an_attestation_key_of_another_scheme(scheme: tuple[int, int]) -> None:
    assert _step(ak=_ak(scheme=scheme)) == "ak-scheme"


def test_step_12_an_rsa_key_that_is_short() -> None:
    short = Public(
        type=algorithms.RSA, name_algorithm=algorithms.SHA256, attributes=AK_ATTRIBUTES, bits=1024,
        scheme=(algorithms.RSASSA, algorithms.SHA256), unique=(b"\xc1" + bytes(126) + b"\1",),
    )  # fmt: skip
    assert _step(ak=short) == "ak-scheme"


@pytest.mark.parametrize("curve", [0x0001, 0x0002, 0x0010, 0x0020])
def test_curves_that_are_short_or_not_known(curve: int) -> None:
    assert _step(ak=_ak(curve=curve)) == "ak-scheme"
    key = msgspec.structs.replace(_KEY, curve=curve)
    octets = said(attest.CERTIFY, _EXTRA, certified_body(key))
    assert _step(octets=octets, public=key.encode()) == "key-size"


def test_keys_of_a_tpm_that_made_weak_ones() -> None:
    assert _step(ak=weak_rsa(AK_ATTRIBUTES, scheme=(algorithms.RSASSA, algorithms.SHA256))) == "weak-key"
    key = weak_rsa(KEY_ATTRIBUTES)
    octets = said(attest.CERTIFY, _EXTRA, certified_body(key))
    assert _step(octets=octets, public=key.encode(), spki=key.spki()) == "weak-key"


def test_points_beside_their_curves() -> None:
    beside = (_KEY.unique[0], _KEY.unique[1][:-1] + bytes((_KEY.unique[1][-1] ^ 1,)))
    assert _step(ak=_ak(unique=beside)) == "structure"
    key = msgspec.structs.replace(_KEY, unique=beside)
    octets = said(attest.CERTIFY, _EXTRA, certified_body(key))
    assert _step(octets=octets, public=key.encode()) == "structure"


def test_step_15_another_key_of_the_same_tpm_has_signed() -> None:
    assert _step(signature=signed(curve_key("second AK"), _SAID)) == "signature"


def test_step_15_the_right_bytes_with_another_hash() -> None:
    assert _step(ak=_ak(scheme=(algorithms.ECDSA, algorithms.SHA384))) == "signature"


def test_step_15_every_bit_that_is_flipped() -> None:
    """None passes; nearly all are found by the signature, sizes and the body's end before that."""
    signature = signed(_AK, _SAID)
    steps = [
        _step(octets=_SAID[:at] + bytes((_SAID[at] ^ 1 << at % 8,)) + _SAID[at + 1 :], signature=signature)
        for at in range(len(_SAID))
    ]
    assert set(steps) == {"signature", "structure"}
    assert steps.count("structure") < 12


def test_step_15_every_octet_of_the_signature() -> None:
    good = signed(_AK, _SAID)
    for at in range(len(good)):
        assert _step(signature=good[:at] + bytes((good[at] ^ 1,)) + good[at + 1 :]) in {"signature", "structure"}


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"octets": _SAID[:-1]}, "structure"),
        ({"octets": _SAID + b"\0"}, "structure"),
        ({"octets": b""}, "structure"),
        ({"octets": bytes(1 << 16)}, "structure"),
        ({"signature": b""}, "structure"),
        ({"signature": signed(_AK, _SAID) + b"\0"}, "structure"),
        ({"signature": bytes(1 << 16)}, "structure"),
        ({"public": b""}, "structure"),
        ({"public": _KEY.encode() + b"\0"}, "structure"),
        ({"public": _KEY.encode_area()}, "structure"),
        ({"octets": said(attest.CERTIFY, _EXTRA, _BODY, magic=0xFE544347)}, "magic"),
        ({"octets": said(attest.CERTIFY, _EXTRA, _BODY, magic=0)}, "magic"),
        ({"octets": said(attest.QUOTE, _EXTRA, quoted_body(_TPM.values))}, "attest-type"),
        ({"octets": said(attest.QUOTE, _EXTRA, _BODY)}, "attest-type"),
        ({"octets": said(attest.CREATION, _EXTRA, sized(_KEY.name()) + sized(bytes(32)))}, "attest-type"),
        ({"octets": said(0x8019, _EXTRA, bytes(33))}, "attest-type"),
        ({"octets": said(attest.CERTIFY, _EXTRA[:-1], _BODY)}, "extra-data"),
        ({"octets": said(attest.CERTIFY, b"", _BODY)}, "extra-data"),
        ({"octets": said(attest.CERTIFY, _EXTRA + b"\0", _BODY)}, "extra-data"),
        ({"extra_data": hashlib.sha256(b"another").digest()}, "extra-data"),
        ({"octets": said(attest.CERTIFY, _EXTRA, sized(b"") + sized(b""))}, "name"),
        ({"octets": said(attest.CERTIFY, _EXTRA, sized(_KEY.name()[2:]) + sized(b""))}, "name"),
        ({"octets": said(attest.CERTIFY, _EXTRA, sized(b"\0\x0c" + _KEY.name()[2:]) + sized(b""))}, "name"),
        ({"spki": public_of(curve_key("another"), KEY_ATTRIBUTES).spki()}, "csr-key"),
    ],
    ids=range(24),
)  # fmt: skip
def test_what_is_wrong_by_itself(fields: dict[str, Any], step: str) -> None:
    assert _step(**fields) == step


def test_step_19_a_public_area_that_was_written_over() -> None:
    exportable = msgspec.structs.replace(_KEY, attributes=0x00040060)
    octets = said(attest.CERTIFY, _EXTRA, certified_body(exportable))
    assert _step(octets=octets) == "name"
    assert _step(octets=octets, public=exportable.encode()) == "key-attributes"


@pytest.mark.parametrize(
    "attributes",
    [KEY_ATTRIBUTES & ~(1 << bit) for bit in (1, 4, 5, 18)] + [KEY_ATTRIBUTES | 1 << 16, KEY_ATTRIBUTES | 1 << 17],
    ids=hex,
)
def test_step_21_a_key_that_can_leave_or_that_does_more(attributes: int) -> None:
    key = msgspec.structs.replace(_KEY, attributes=attributes)
    octets = said(attest.CERTIFY, _EXTRA, certified_body(key))
    assert _step(octets=octets, public=key.encode()) == "key-attributes"


def test_step_22_a_short_rsa_key() -> None:
    key = Public(
        type=algorithms.RSA, name_algorithm=algorithms.SHA256, attributes=KEY_ATTRIBUTES, bits=1024,
        unique=(b"\xc1" + bytes(126) + b"\1",),
    )  # fmt: skip
    octets = said(attest.CERTIFY, _EXTRA, certified_body(key))
    assert _step(octets=octets, public=key.encode(), spki=key.spki()) == "key-size"


def test_a_key_on_another_curve_is_another_key() -> None:
    key = public_of(curve_key("node", ec.SECP384R1), KEY_ATTRIBUTES)
    octets = said(attest.CERTIFY, _EXTRA, certified_body(key))
    assert _step(octets=octets, public=key.encode()) == "csr-key"
    _verified(octets=octets, public=key.encode(), spki=key.spki())


def test_a_name_that_rests_on_sha_1_is_none() -> None:
    key = msgspec.structs.replace(_KEY, name_algorithm=algorithms.SHA1)
    weak = sized(u16(algorithms.SHA1) + hashlib.sha1(key.encode_area()).digest()) + sized(b"")
    assert _step(octets=said(attest.CERTIFY, _EXTRA, weak), public=key.encode()) == "structure"


def _created(name: bytes = _KEY.name(), digest: bytes = hashlib.sha256(_CREATION_DATA[2:]).digest()) -> bytes:
    return said(attest.CREATION, _EXTRA, sized(name) + sized(digest))


def test_a_creation() -> None:
    _verified(octets=_created(), creation_data=_CREATION_DATA)


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"octets": _SAID, "creation_data": _CREATION_DATA}, "attest-type"),
        ({"octets": _created(digest=bytes(32)), "creation_data": _CREATION_DATA}, "creation-hash"),
        ({"octets": _created(digest=b""), "creation_data": _CREATION_DATA}, "creation-hash"),
        ({"octets": _created(), "creation_data": _CREATION_DATA[:-1]}, "structure"),
        ({"octets": _created(), "creation_data": _CREATION_DATA + b"\0"}, "structure"),
        ({"octets": _created(), "creation_data": bytes(1 << 16)}, "structure"),
        ({"octets": _created(name=b"\0\x0b" + bytes(32)), "creation_data": _CREATION_DATA}, "name"),
    ],
    ids=range(7),
)
def test_creations_that_are_wrong(fields: dict[str, Any], step: str) -> None:
    assert _step(**fields) == step


@pytest.mark.parametrize(
    ("name", "returned", "step"),
    [
        (_TPM.ak.name(), b"another" * 4, "secret"),
        (_TPM.ak.name(), b"", "secret"),
        (_KEY.name(), b"secret", "ak-name"),
        (b"", b"secret", "ak-name"),
    ],
)
def test_activations_that_are_wrong(name: bytes, returned: bytes, step: str) -> None:
    issued = hashlib.sha256(b"secret").hexdigest().encode()
    certification.verify_activation(_TPM.ak, _TPM.ak.name(), issued, b"secret")
    with pytest.raises(RefusedEvidenceError) as caught:
        certification.verify_activation(_TPM.ak, name, issued, returned)
    assert caught.value.step == step


def test_a_plain_signature_that_is_a_bomb() -> None:
    with pytest.raises(RefusedEvidenceError, match="structure"):
        certification.verify_signed(
            _TPM.ak, _SAID, bytes(1 << 16), plain=True, expected=attest.CERTIFY, extra_data=_EXTRA
        )
