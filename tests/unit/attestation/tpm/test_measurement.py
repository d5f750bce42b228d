"""How a machine was booted: quotes, values and logs that do not belong together, and policies."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import evidence_cases
from event_logs import OFF, ON, event, header
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.attestation.tpm import measurement
from kubevouch.attestation.tpm.measurement import Measured, Policy
from kubevouch.pki.tpm import algorithms, attest, event_log, pcrs
from kubevouch.pki.tpm.attest import ClockInfo
from kubevouch.pki.tpm.marshalling import sized
from kubevouch.pki.tpm.pcrs import Selection
from pretended_tpm import VALUES, PretendedTPM, quoted_body, said, texts

_AK = PretendedTPM().ak
_CASE = evidence_cases.named("ev-tpm-quote-003")
_LOG = _CASE.octets("event_log")
_TRUE = pcrs.parse_values(_CASE.given["pcrs"])
_SHA256 = algorithms.SHA256
_FIRMWARE = tuple(range(8))


def _measured(
    values: Any = VALUES, shown: Any = None, log: bytes = b"", body: bytes | None = None, **more: Any
) -> Measured:
    octets = said(attest.QUOTE, b"", quoted_body(values) if body is None else body)
    quoted = attest.parse(octets, attest.QUOTE)
    return measurement.verify_measurement(quoted, _AK, texts(values) if shown is None else shown, log, **more)


def _step(**fields: Any) -> str:
    with pytest.raises(RefusedEvidenceError) as caught:
        _measured(**fields)
    return caught.value.step


def test_what_was_quoted() -> None:
    assert _measured().values == VALUES
    log = _measured(_TRUE, log=_LOG).log
    assert log is not None
    assert log.secure_boot is True


def _without(pcr: int) -> dict[int, bytes]:
    return {number: value for number, value in VALUES[_SHA256].items() if number != pcr}


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"shown": texts({_SHA256: {**VALUES[_SHA256], 9: bytes(32)}})}, "selection"),
        ({"shown": texts({**VALUES, algorithms.SHA1: {0: bytes(20)}})}, "selection"),
        ({"shown": {}}, "pcr-digest"),
        ({"shown": texts({_SHA256: _without(7)})}, "pcr-digest"),
        ({"shown": texts({_SHA256: {**VALUES[_SHA256], 3: bytes(32)}})}, "pcr-digest"),
        (
            {"shown": texts({_SHA256: {**VALUES[_SHA256], 0: VALUES[_SHA256][1], 1: VALUES[_SHA256][0]}})},
            "pcr-digest",
        ),
        ({"shown": {"sha256": {"0": "zz"}}}, "pcr-digest"),
        ({"shown": {"md5": {}}}, "pcr-digest"),
        ({"shown": {"sha256": {"00": "00" * 32}}}, "pcr-digest"),
        ({"body": pcrs.encode_selections([Selection(_SHA256, _FIRMWARE)]) + sized(bytes(32))}, "pcr-digest"),
        ({"body": pcrs.encode_selections([Selection(_SHA256, _FIRMWARE)]) + sized(b"")}, "pcr-digest"),
        ({"log": b"x"}, "event-log"),
        ({"log": _LOG}, "event-log"),
        ({"values": _TRUE, "log": _LOG[:-1]}, "event-log"),
        ({"values": _TRUE, "log": _LOG + b"\0"}, "event-log"),
        ({"values": {algorithms.SHA384: {0: bytes(48)}}, "log": _LOG}, "event-log"),
        ({"stored": ClockInfo(7, 1, 123_457, True)}, "clock"),
        ({"stored": ClockInfo(7, 2, 0, True)}, "clock"),
        ({"stored": ClockInfo(8, 0, 0, True)}, "clock"),
    ],
    ids=range(19),
)  # fmt: skip
def test_measurements_that_are_wrong(fields: dict[str, Any], step: str) -> None:
    assert _step(**fields) == step


@pytest.mark.parametrize(
    "stored", [ClockInfo(7, 1, 123_456, True), ClockInfo(7, 0, 999_999, False), ClockInfo(6, 9, 1 << 60, True)]
)
def test_a_clock_counts_within_one_reset_and_restart(stored: ClockInfo) -> None:
    _measured(stored=stored)


def test_what_stands_in_another_order_has_another_digest() -> None:
    """The digest is of the values in the order of the quote, which is that of the banks in it."""
    two = {algorithms.SHA1: {0: b"a" * 20}, _SHA256: {0: b"b" * 32}}
    swapped = [Selection(_SHA256, (0,)), Selection(algorithms.SHA1, (0,))]
    body = pcrs.encode_selections(swapped) + sized(hashlib.sha256(b"a" * 20 + b"b" * 32).digest())
    assert _step(values=two, body=body) == "pcr-digest"


@pytest.mark.parametrize("pcr", _FIRMWARE)
def test_every_register_of_the_firmware_has_to_follow_from_the_log(pcr: int) -> None:
    values = {_SHA256: {**_TRUE[_SHA256], pcr: hashlib.sha256(b"other").digest()}}
    assert _step(values=values, log=_LOG) == "event-log"


def test_what_an_operating_system_has_measured_is_not_in_the_log() -> None:
    values = {_SHA256: {**_TRUE[_SHA256], 10: hashlib.sha256(b"files").digest()}}
    _measured(values, log=_LOG)
    mentioned = {_SHA256: {**_TRUE[_SHA256], 8: hashlib.sha256(b"other").digest()}}
    assert _step(values=mentioned, log=_LOG) == "event-log"


def test_an_event_that_was_left_out_or_put_twice() -> None:
    last = _LOG.rindex((8).to_bytes(4, "little") + (13).to_bytes(4, "little"))
    values = {_SHA256: {8: _replayed(8), **_TRUE[_SHA256]}}
    _measured(values, log=_LOG)
    assert _step(values=values, log=_LOG + _LOG[last:]) == "event-log"
    # Without its only event the log says nothing of the register: a policy has to ask for its value.
    with pytest.raises(RefusedEvidenceError, match="policy"):
        measurement.verify_policy(
            _measured(values, log=_LOG[:last]), _policy(values={_SHA256: {8: frozenset({bytes(32)})}})
        )


def _replayed(pcr: int) -> bytes:
    return event_log.parse(_LOG).replay(_SHA256)[pcr]


def _policy(**fields: Any) -> Policy:
    return Policy(**{"banks": (_SHA256,), "pcrs": _FIRMWARE, **fields})


def _policy_step(measured: Measured, policy: Policy) -> str:
    with pytest.raises(RefusedEvidenceError) as caught:
        measurement.verify_policy(measured, policy)
    return caught.value.step


_GOOD = {_SHA256: {7: frozenset({_TRUE[_SHA256][7], bytes(32)})}}


@pytest.mark.parametrize(
    "policy", [_policy(), _policy(values=_GOOD), _policy(event_log=True), _policy(secure_boot=True), _policy(pcrs=())]
)
def test_machines_that_fit(policy: Policy) -> None:
    measurement.verify_policy(_measured(_TRUE, log=_LOG), policy)


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"pcrs": (*_FIRMWARE, 9)}, "selection"),
        ({"banks": (algorithms.SHA384,)}, "selection"),
        ({"values": {_SHA256: {7: frozenset({bytes(32)})}}}, "policy"),
        ({"values": {_SHA256: {14: frozenset({bytes(32)})}}}, "selection"),
        ({"values": {algorithms.SHA384: {7: frozenset({bytes(48)})}}}, "selection"),
    ],
)
def test_machines_that_do_not_fit(fields: dict[str, Any], step: str) -> None:
    assert _policy_step(_measured(_TRUE, log=_LOG), _policy(**fields)) == step


def test_without_a_log_nothing_is_known_of_the_firmware() -> None:
    assert _policy_step(_measured(_TRUE), _policy(event_log=True)) == "event-log"
    assert _policy_step(_measured(_TRUE), _policy(secure_boot=True)) == "event-log"


def test_a_log_without_its_register_says_nothing_of_secure_boot() -> None:
    values = {_SHA256: {pcr: value for pcr, value in _TRUE[_SHA256].items() if pcr != 7}}
    assert _policy_step(_measured(values, log=_LOG), _policy(pcrs=(0,), secure_boot=True)) == "selection"


def _booted(log: bytes, *banks: int) -> Measured:
    """A machine whose PCR 7 follows from ``log`` in the first of the banks; of the others it is zero."""
    values = {bank: {7: bytes(algorithms.HASHES[bank].size)} for bank in banks}
    values[banks[0]] = {7: event_log.parse(log).replay(banks[0])[7]}
    return _measured(values, log=log)


def test_secure_boot_that_is_off_or_that_the_log_does_not_tell() -> None:
    wanted = _policy(pcrs=(7,), secure_boot=True)
    measurement.verify_policy(_booted(header() + ON, _SHA256), wanted)
    for events in (OFF, event(7, 4, b"\0\0\0\0"), event(7, 4, b"\0\0\0\0") + ON):
        assert _policy_step(_booted(header() + events, _SHA256), wanted) == "policy"


def test_a_log_that_is_not_for_every_bank_of_the_policy() -> None:
    measured = _booted(header() + ON, _SHA256, algorithms.SHA384)
    for demand in ({"secure_boot": True}, {"event_log": True}):
        assert _policy_step(measured, _policy(banks=(_SHA256, algorithms.SHA384), pcrs=(7,), **demand)) == "event-log"


def test_a_log_without_some_data_leads_to_the_same_values() -> None:
    log = header() + ON + event(4, 4, bytes(40_000))
    values = {_SHA256: {pcr: event_log.parse(log).replay(_SHA256)[pcr] for pcr in _FIRMWARE}}
    shorter, omitted = event_log.without_data(log, 1000)
    measured = _measured(values, log=shorter, omitted=omitted)
    measurement.verify_policy(measured, _policy(event_log=True, secure_boot=True))
    assert _step(values=values, log=shorter) == "event-log"


def test_the_first_policy_that_fits_gives_its_name() -> None:
    measured = _measured(_TRUE, log=_LOG)
    wrong = _policy(values={_SHA256: {7: frozenset({bytes(32)})}})
    assert measurement.verify_policies(measured, {"a": wrong, "b": _policy(values=_GOOD), "c": _policy()}) == "b"
    with pytest.raises(RefusedEvidenceError, match=r"^policy: policy d: PCR 7") as caught:
        measurement.verify_policies(measured, {"a": _policy(pcrs=(9,)), "d": wrong})
    assert caught.value.step == "policy"
    with pytest.raises(RefusedEvidenceError, match="no policy"):
        measurement.verify_policies(measured, {})


def test_a_quote_is_asked_for_that_fits_all_policies() -> None:
    policies = [_policy(pcrs=(0, 4)), _policy(banks=(algorithms.SHA384,), pcrs=(7,), values=_GOOD, secure_boot=True)]
    assert measurement.asked_of(policies) == {"sha256": [0, 4, 7], "sha384": [7]}
    assert measurement.asked_of([]) == {}


def test_what_a_policy_demands() -> None:
    assert not _policy(event_log=True).demands
    assert _policy(values=_GOOD).demands
    assert _policy(secure_boot=True).demands
