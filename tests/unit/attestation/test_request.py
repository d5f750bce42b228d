"""A request with evidence behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubevouch.attestation import request
from kubevouch.attestation.interface import Evidence, RefusedEvidenceError
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject

_CASES = Path(__file__).parents[2] / "vectors" / "node.jsonl"
FORMAT = [
    case
    for case in map(json.loads, _CASES.read_text().splitlines())
    if case["area"] == "attest-format" and case["when"] in ("parse", "select verifier")
]
PEM = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), Subject(common_name="system:node:a"))


@pytest.mark.parametrize("case", FORMAT, ids=[case["id"] for case in FORMAT])
def test_the_blocks_are_read_as_the_cases_say(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    text = given["request"].encode() if "request" in given else b"x" * given["request_bytes"]
    if not then["ok"]:
        with pytest.raises(RefusedEvidenceError):
            request.split(text)
        return
    provider, data = request.split(text)
    assert provider == then.get("provider", provider)
    assert data.decode() == then.get("data", data.decode())


def test_what_was_built_is_what_is_parsed() -> None:
    proofs = (
        Evidence(provider="tpm", version="v1", data=b'{"ak":"x"}', challenge="c-1"),
        Evidence(provider="aws", version="v2", data=b"[1]"),
    )

    assert request.parse(request.build(PEM, proofs)) == proofs


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lambda text: text + b"x\n", "structure"),
        (lambda text: b"x\n" + text, "structure"),
        (lambda text: text.replace(b"-----\n-----BEGIN KUBE", b"-----\nx\n-----BEGIN KUBE", 1), "structure"),
        (lambda text: text + b"-----BEGIN X-----\nAA==\n-----END X-----\n", "structure"),
        (lambda text: text + text, "structure"),
        (lambda text: text[len(PEM) :], "structure"),
        (lambda text: PEM, "provider"),
        (lambda text: text.replace(b"PROVIDER-----\n", b"PROVIDER-----\nA: b\n\n", 1), "structure"),
        (lambda text: text.replace(b"PROVIDER-----\ndHBt", b"PROVIDER-----\nVFBN"), "provider"),
        (lambda text: text + b" " * request.MAX_BYTES, "size"),
    ],
)
def test_what_could_be_meant_in_two_ways_is_refused(change: Any, step: str) -> None:
    good = request.build(PEM, [Evidence(provider="tpm", version="v1", data=b"{}")])
    request.parse(good)

    with pytest.raises(RefusedEvidenceError) as caught:
        request.parse(change(good))
    assert caught.value.step == step


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (b'{"version":"v1","version":"v2","evidence":{}}', "duplicate-key"),
        (b'{"version":"v1","evidence":{"a":1,"a":2}}', "duplicate-key"),
        (b'{"version":"v1","evidence":' + b"[" * 40 + b"]" * 40 + b"}", "structure"),
        (b"[" * 30_000 + b"]" * 30_000, "size"),
        (b"[" * 10_000 + b"]" * 10_000, "structure"),
        (b'{"version":"v1","evidence":NaN}', "structure"),
        (b'{"version":"v1","evidence":{},"more":1}', "structure"),
        (b'{"version":1,"evidence":{}}', "structure"),
        (b'{"evidence":{}}', "structure"),
        (b"\xff", "structure"),
        (b'{"version":"v1","evidence":{},"also":[{"provider":"tpm","version":"v1","evidence":{}}]}', "structure"),
        (
            msgspec.json.encode(
                {
                    "version": "v1",
                    "evidence": {},
                    "also": [{"provider": f"p{n}", "version": "v1", "evidence": {}} for n in range(request.MAX_PROOFS)],
                }
            ),
            "structure",
        ),
    ],
)
def test_data_that_is_no_document_is_refused(data: bytes, step: str) -> None:
    from kubevouch.pki.x509 import pem

    text = PEM + pem.encode(request.PROVIDER_BLOCK, b"tpm") + pem.encode(request.DATA_BLOCK, data)

    with pytest.raises(RefusedEvidenceError) as caught:
        request.parse(text)
    assert caught.value.step == step
