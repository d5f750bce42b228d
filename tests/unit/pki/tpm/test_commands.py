from __future__ import annotations

import struct

import pytest

from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import commands
from kubevouch.pki.tpm.commands import EMPTY, Authorization, Command, CommandCode, ResponseCode, TPMResponseError
from kubevouch.pki.tpm.pcrs import Selection

_FLUSH = commands.flush_context(0x80000000)


def _answer(code: int, parameters: bytes = b"", tag: int = 0x8001) -> bytes:
    return struct.pack(">HII", tag, 10 + len(parameters), code) + parameters


def test_a_certification_is_asked_for_as_the_tools_send_it_by_hand() -> None:
    expected = (
        "80020000002f00000148810100208101002100000012400000090000000000400000090000000000"
        "00036e6f6e0010"
    )  # fmt: skip
    assert commands.certify(0x81010020, 0x81010021, b"non").to_bytes().hex() == expected


def test_a_command_without_authorizations_has_no_area_for_them() -> None:
    assert _FLUSH.to_bytes().hex() == "80010000000e0000016580000000"


def test_a_session_stays_and_a_password_has_no_attributes() -> None:
    sent = commands.activate_credential(1, 2, Authorization(0x03000000), b"id", b"seed").to_bytes()
    assert "400000090000000000030000000000010000" in sent.hex()
    assert sent.endswith(b"\0\2id\0\4seed")


def test_a_password_is_sent() -> None:
    assert b"\x40\0\0\x09\0\0\0\0\5hello" in Command(1, (5,), (Authorization(secret=b"hello"),)).to_bytes()


def test_the_answer_to_a_command_with_authorizations_ends_before_them() -> None:
    command = Command(CommandCode.QUOTE, (1,), (EMPTY,))
    answer = _answer(0, struct.pack(">I", 3) + b"abc" + b"\0\0\1\0\0", tag=0x8002)
    assert commands.parse_response(command, answer).parameters == b"abc"


def test_a_handle_comes_before_the_parameters() -> None:
    command = Command(CommandCode.LOAD, (1,), (EMPTY,), answers_handle=True)
    response = commands.parse_response(command, _answer(0, struct.pack(">II", 0x80000001, 2) + b"xy", tag=0x8002))
    assert (response.handle, response.parameters) == (0x80000001, b"xy")


@pytest.mark.parametrize(
    ("full", "code"),
    [
        (0x101, ResponseCode.FAILURE),
        (0x1DF, ResponseCode.INTEGRITY),
        (0x99D, ResponseCode.POLICY_FAIL),
        (0xA9D, ResponseCode.POLICY_FAIL),
        (0x922, ResponseCode.RETRY),
        (0x921, ResponseCode.LOCKOUT),
        (0x18B, ResponseCode.HANDLE),
        (0x2C4, ResponseCode.VALUE),
        (0x9A2, ResponseCode.BAD_AUTH),
        (0x98E, ResponseCode.AUTH_FAIL),
        # Linux' resource manager answers for the TPM, with its own layer in the upper half.
        (0xB0143, ResponseCode.COMMAND_CODE),
    ],
)
def test_a_response_code_is_known_whatever_parameter_it_was_about(full: int, code: ResponseCode) -> None:
    with pytest.raises(TPMResponseError) as caught:
        commands.parse_response(_FLUSH, _answer(full))
    assert caught.value.code == code
    assert f"{code.name.lower().replace('_', ' ')} to flush context" in str(caught.value)


def test_a_code_that_nobody_knows_is_told_as_a_number() -> None:
    with pytest.raises(TPMResponseError, match="the TPM answers 0x3e0 to command 0x999"):
        commands.parse_response(Command(0x999), _answer(0x3E0))


@pytest.mark.parametrize(
    "octets",
    [b"", b"\x80\x01", _answer(0)[:9], _answer(0) + b"x", _answer(0, tag=0x8003), b"\x80\x01" + bytes(8)],
)
def test_what_is_no_response_is_refused(octets: bytes) -> None:
    with pytest.raises(StructureError):
        commands.parse_response(_FLUSH, octets)


@pytest.mark.parametrize(
    ("read", "parameters"),
    [
        (commands.capability_handles, struct.pack(">BII", 0, 1, 5)),
        (commands.capability_handles, struct.pack(">BIII", 0, 6, 1, 1)),
        (commands.capability_properties, struct.pack(">BIII", 0, 6, 1, 1)),
        (commands.capability_banks, struct.pack(">BII", 0, 5, 1 << 31)),
        (commands.first_sized, b"\0\5abc"),
        (commands.first_sized, b"\xff\xff"),
        (commands.nv_attributes, b"\0\2ab"),
        (commands.created, b"\0\1a"),
        (commands.attested, b"\0\5"),
        (commands.ecdsa_signature, b"\0\x14\0\x0b\0\1a\0\1b"),
        (commands.pcr_values, struct.pack(">III", 1, 0, 1) + b"\0\1a"),
    ],
)
def test_an_answer_that_is_cut_off_or_about_something_else_is_refused(read: object, parameters: bytes) -> None:
    assert callable(read)
    with pytest.raises(StructureError):
        read(commands.Response(0, parameters))


def test_values_come_with_the_registers_that_they_are_of() -> None:
    selection = struct.pack(">IHB", 1, 0x0B, 3) + bytes((0b101, 0, 0b10000000))
    values = struct.pack(">I", 3) + b"\0\1a\0\1b\0\1c"
    changed, read = commands.pcr_values(commands.Response(0, struct.pack(">I", 7) + selection + values))
    assert changed == 7
    assert read == [(0x0B, 0, b"a"), (0x0B, 2, b"b"), (0x0B, 23, b"c")]


def test_a_quote_asks_for_its_banks_in_their_order() -> None:
    asked = commands.quote(1, b"n", [Selection(4, (0, 7)), Selection(0x0B, (8,))]).parameters
    assert asked.hex() == "00016e001000000002000403810000000b03000100"
