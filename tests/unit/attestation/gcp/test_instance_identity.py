"""The extension in which Google writes an instance."""

from __future__ import annotations

import msgspec
import pytest

from kubevouch.attestation.gcp import instance_identity
from kubevouch.attestation.gcp.instance_identity import InstanceIdentity
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.x509 import der
from node_cases import CASES

# The order of go-tpm-tools, and with everything that may be there.
GOOD = bytes.fromhex(
    "30400c0a75732d65617374392d7a020562c6d1a9b20c0964656d6f2d70726f6a02071b5b361667b8be0c09766d2d626c75652d33a00c300a"
    "a003020102a1030101ff"
)
BARE = bytes([0x30, 0x32]) + GOOD[2 : 2 + 0x32]
EXPECTED = InstanceIdentity(
    zone="us-east9-z",
    project_number=424242424242,
    project_id="demo-proj",
    instance_id=7700112233445566,
    instance_name="vm-blue-3",
    security_version=2,
    is_production=True,
)
SWAPPED = [case for case in CASES if case["when"] == "decode GCE identity"]


def test_every_field_is_read() -> None:
    assert instance_identity.parse(GOOD) == EXPECTED
    assert instance_identity.parse(BARE).is_production is None
    instance_identity.verify(EXPECTED, project_number=424242424242)
    instance_identity.verify(
        EXPECTED, project_number=424242424242, project_id="demo-proj", instance_id=7700112233445566
    )


@pytest.mark.parametrize("case", SWAPPED, ids=[case["id"] for case in SWAPPED])
def test_the_other_order_is_noticed(case: dict[str, dict[str, str | int]]) -> None:
    given = case["given"]
    assert given["oid"] == instance_identity.OID
    identity = instance_identity.parse(bytes.fromhex(str(given["value_hex"])))

    with pytest.raises(RefusedEvidenceError) as caught:
        instance_identity.verify(identity, project_number=int(given["api_project_number"]))
    assert caught.value.step == "instance-identity"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        GOOD + b"\x00",
        GOOD[:-1],
        BARE[:-1],
        b"\x30\x80" + GOOD[2:] + b"\x00\x00",
        b"\x30\x84\x7f\xff\xff\xff" + GOOD[2:],
        b"\x0c" + GOOD[1:],
        GOOD.replace(b"\x0c\x0a", b"\x13\x0a"),
        GOOD.replace(b"us-east9", b"us\xffeast9"),
        GOOD.replace(b"\xa1\x03\x01\x01\xff", b"\xa1\x03\x01\x01\x01"),
        GOOD.replace(b"\x02\x05\x62", b"\x02\x05\xe2"),
        GOOD.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x04\x01\x02"),
        b"\x30\x00",
    ],
)
def test_what_is_no_such_extension(value: bytes) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        instance_identity.parse(value)
    assert caught.value.step == "structure"


def with_security(*, within: bytes = b"", behind: bytes = b"", last: bytes = b"") -> bytes:
    """The same, with octets at the end of each element around what is last."""
    security = der.encode(der.SEQUENCE, bytes.fromhex("a003020102a1030101ff"), within)
    return der.encode(der.SEQUENCE, BARE[2:], der.encode(0xA0, security, behind), last)


@pytest.mark.parametrize("where", ["within", "behind", "last"])
def test_nothing_stands_behind_what_is_last(where: str) -> None:
    assert with_security() == GOOD
    with pytest.raises(RefusedEvidenceError):
        instance_identity.parse(with_security(**{where: b"\x05\x00"}))


@pytest.mark.parametrize("security", ["a0060201020201ff", "a1060101ff0101ff", "a1030101ffa003020102", "a0020500"])
def test_of_security_each_is_one_value(security: str) -> None:
    value = der.encode(der.SEQUENCE, BARE[2:], der.encode(0xA0, der.encode(der.SEQUENCE, bytes.fromhex(security))))
    with pytest.raises(RefusedEvidenceError):
        instance_identity.parse(value)


@pytest.mark.parametrize("change", [{"zone": "a/b"}, {"instance_name": "x\n"}, {"instance_id": 0}, {"project_id": ""}])
def test_names_have_the_forms_of_names(change: dict[str, str | int]) -> None:

    with pytest.raises(RefusedEvidenceError):
        instance_identity.verify(msgspec.structs.replace(EXPECTED, **change), project_number=424242424242)


@pytest.mark.parametrize(
    ("security", "expected"),
    [("", (None, None)), ("a003020102", (2, None)), ("a103010100", (None, False)), ("a003020100a1030101ff", (0, True))],
)
def test_each_of_security_may_be_left_out(security: str, expected: tuple[int | None, bool | None]) -> None:
    value = der.encode(der.SEQUENCE, BARE[2:], der.encode(0xA0, der.encode(der.SEQUENCE, bytes.fromhex(security))))
    found = instance_identity.parse(value)
    assert (found.security_version, found.is_production) == expected
