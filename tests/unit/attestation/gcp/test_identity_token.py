"""Identity tokens of Google's metadata service."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

import evidence_cases
from evidence_cases import Case
from kubevouch.attestation.gcp import identity_token
from kubevouch.attestation.gcp.evidence import audience
from kubevouch.attestation.gcp.identity_token import ComputeEngine
from kubevouch.attestation.interface import Binding, RefusedEvidenceError
from kubevouch.attestation.jwt import KeySet
from node_cases import CASES, fixture

TOKENS = [case for case in CASES if case["area"] == "attest-gcp" and case["when"] == "verify identity token"]


def verified(case: Case) -> ComputeEngine:
    keys = KeySet.parse(json.dumps(case.roots[0]).encode())
    binding = Binding(case.spki, case.given["cluster_id"], case.nonce)
    instance = identity_token.verify(
        keys.payload(case.text("token")),
        audience=audience(binding),
        projects=case.given["projects"],
        now=case.now,
        issuer=case.given["issuer"],
    )
    if instance.instance_id != case.given["instance_id"]:
        raise RefusedEvidenceError("instance", "another instance")
    return instance


@pytest.mark.parametrize("case", evidence_cases.of("gcp-identity-token"))
def test_tokens_that_real_tools_made(case: Case) -> None:
    case.judge(lambda: verified(case))


@pytest.mark.parametrize("case", TOKENS, ids=[case["id"] for case in TOKENS])
def test_the_cases_of_other_attestation_systems(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    keys = KeySet.parse(json.dumps(fixture(given["jwks"])).encode())

    def verify() -> ComputeEngine:
        return identity_token.verify(
            keys.payload(given["jwt"]),
            audience=given["audience"],
            projects=given["projects"],
            now=dt.datetime.fromisoformat(given["now"]),
        )

    if then["ok"]:
        instance = verify()
        assert f"{instance.project_id}/{instance.instance_id}" == then["identity"]
        return
    with pytest.raises(RefusedEvidenceError) as caught:
        verify()
    steps = {"audience": "audience", "issuer": "issuer", "project not allowed": "project"}
    assert caught.value.step == steps.get(then["why"], "alg")


NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
MOMENT = int(NOW.timestamp())
GOOD: dict[str, Any] = {
    "iss": "https://accounts.google.com",
    "aud": "a",
    "iat": MOMENT - 60,
    "exp": MOMENT + 3540,
    "google": {
        "compute_engine": {
            "project_id": "demo-proj",
            "project_number": 424242424242,
            "zone": "us-east9-z",
            "instance_id": "7700112233445566",
            "instance_name": "vm-blue-3",
        }
    },
}


def changed(**claims: Any) -> bytes:
    return json.dumps({**GOOD, **claims}).encode()


def instance(**claims: Any) -> bytes:
    return changed(google={"compute_engine": {**GOOD["google"]["compute_engine"], **claims}})


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


@pytest.mark.parametrize(
    ("payload", "step"),
    [
        (b"", "structure"),
        (b"[]", "structure"),
        (b"\xff", "structure"),
        (json.dumps(GOOD).encode() + b"{}", "structure"),
        (json.dumps(GOOD).encode()[:-1] + b',"iss":"https://accounts.google.com"}', "duplicate-key"),
        (changed(iss="https://accounts.google.com.evil.test"), "issuer"),
        (changed(iss="accounts.google.com"), "issuer"),
        (without("iss"), "issuer"),
        (changed(aud="b"), "audience"),
        (changed(aud=["a"]), "audience"),
        (changed(aud=["a", "b"]), "audience"),
        (without("aud"), "audience"),
        (changed(aud="A"), "audience"),
        (changed(exp=MOMENT - 121), "time"),
        (changed(iat=MOMENT - 3720, exp=MOMENT - 120), "time"),
        (changed(iat=MOMENT + 121), "time"),
        (changed(nbf=MOMENT + 121), "time"),
        (changed(exp=MOMENT + 86400), "time"),
        (changed(exp=MOMENT - 61), "time"),
        (without("exp"), "time"),
        (without("iat"), "time"),
        (changed(exp=10**400), "structure"),
        (changed(exp="1"), "structure"),
        (changed(exp=True), "structure"),
        (changed(iat=-(10**300), exp=10**300), "structure"),
        (without("google"), "claims"),
        (changed(google={}), "claims"),
        (changed(google={"compute_engine": {}}), "structure"),
        (changed(google=[]), "structure"),
        (instance(instance_id=7700112233445566), "structure"),
        (instance(instance_id="../1"), "claims"),
        (instance(instance_id="１"), "claims"),
        (instance(instance_id="1\n"), "claims"),
        (instance(instance_name="vm/../x"), "claims"),
        (instance(instance_name="VM"), "claims"),
        (instance(instance_name="a" * 64), "claims"),
        (instance(zone="a/b"), "claims"),
        (instance(project_id="demo-proj/x"), "claims"),
        (instance(project_id="demo-proj2"), "project"),
        (instance(project_id="demo"), "project"),
        (instance(zone="us-east9-y"), "zone"),
    ],
)
def test_a_payload_is_refused_at_the_step_that_fails(payload: bytes, step: str) -> None:
    def verify(octets: bytes) -> ComputeEngine:
        return identity_token.verify(octets, audience="a", projects=["demo-proj"], zones=["us-east9-z"], now=NOW)

    verify(changed())
    with pytest.raises(RefusedEvidenceError) as caught:
        verify(payload)
    assert caught.value.step == step


def test_clocks_may_differ_by_two_minutes() -> None:
    for claims in (
        {"iat": MOMENT + 120, "exp": MOMENT + 4020},
        {"exp": MOMENT - 119, "iat": MOMENT - 3600},
    ):
        identity_token.verify(changed(**claims), audience="a", projects=["demo-proj"], now=NOW)


@pytest.mark.parametrize(("verified_address", "expected"), [(True, "nodes@p.test"), (False, "")])
def test_an_address_that_google_has_not_verified_is_none(verified_address: bool, expected: str) -> None:
    payload = changed(email="nodes@p.test", email_verified=verified_address)
    found = identity_token.verify(payload, audience="a", projects=["demo-proj"], now=NOW)
    assert found.service_account == expected


def test_the_address_is_not_what_the_instance_says() -> None:
    found = identity_token.verify(
        instance(service_account="admin@p.test"), audience="a", projects=["demo-proj"], now=NOW
    )
    assert found.service_account == ""
