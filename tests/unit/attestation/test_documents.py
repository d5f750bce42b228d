"""JSON that could be read in two ways, or could not be written down again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.attestation import documents, request
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.x509 import pem

REFUSED = {
    "a name twice": (b'{"a": {"b": 1, "b": 1}}', "duplicate-key"),
    "half a pair": (rb'{"a": "\ud800"}', "structure"),
    "the other half": (rb'{"a": ["\udfff"]}', "structure"),
    "half a pair in a name": (rb'{"\ud800": 1}', "structure"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "structure"),
    "UTF-32": ('{"a": 1}'.encode("utf-32"), "structure"),
    "no UTF-8": (b'{"a": "\xff"}', "structure"),
    "a mark in front": (b'\xef\xbb\xbf{"a": 1}', "structure"),
    "a number beyond all": (b'{"a": 1e999}', "structure"),
    "an integer beyond 64 bits": (b'{"a": 18446744073709551616}', "structure"),
    "one below them": (b'{"a": -9223372036854775809}', "structure"),
    "thousands of digits": (b'{"a": ' + b"9" * 5000 + b"}", "structure"),
    "no number": (b'{"a": NaN}', "structure"),
    "deep": (b'{"a":' * 32 + b"1" + b"}" * 32, "structure"),
    "deeper": (b"[" * 100_000, "structure"),
    "nothing": (b"", "structure"),
    "no object": (b"[]", "structure"),
    "more behind it": (b"{} {}", "structure"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_two_meanings_has_none(case: str) -> None:
    text, step = REFUSED[case]
    with pytest.raises(RefusedEvidenceError) as refused:
        documents.decode(text, dict[str, Any], "it")
    assert refused.value.step == step
    # It goes into conditions and events.
    msgspec.json.encode(str(refused.value))


def test_what_has_one_is_read() -> None:
    text = r'{"a": "\ud83d\ude00", "b": [18446744073709551615, -9223372036854775808, 1.5, true, null]}'
    expected = {"a": "\U0001f600", "b": [(1 << 64) - 1, -(1 << 63), 1.5, True, None]}
    assert documents.decode(text, dict[str, Any], "it") == documents.decode(text.encode(), dict, "it") == expected


@pytest.mark.parametrize("name", ["half a pair", "half a pair in a name", "an integer beyond 64 bits", "UTF-16"])
def test_a_request_with_such_evidence_is_refused(name: str) -> None:
    """And not worked on for ever because its words cannot be written down."""
    text, _ = REFUSED[name]
    data = b'{"version": "v1", "evidence": ' + text + b"}" if text.startswith(b"{") else text
    whole = (
        pem.encode(pem.CERTIFICATE_REQUEST, b"x")
        + pem.encode(request.PROVIDER_BLOCK, b"aws")
        + pem.encode(request.DATA_BLOCK, data)
    )
    with pytest.raises(RefusedEvidenceError, match=r"^structure"):
        request.parse(whole)
