"""The provider's side of exec credentials; its cases of ``node.jsonl`` among them."""

from __future__ import annotations

import base64
import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubevouch.agent.certificate_store import StoredPair
from kubevouch.client.execplugin import ExecCluster, ExecConfig, exec_info, parse_output
from kubevouch.config.kubeconfig import EXEC_API_VERSIONS
from kubevouch.machinery.text.times import Time
from kubevouch.phases.exec_credential import (
    Action,
    CredentialError,
    ExecRequest,
    document,
    expiration,
    parse_request,
    plan,
    stranger,
)
from kubevouch.pki import keys
from kubevouch.pki.x509 import x509_certificate
from null_attestation import staying_key
from throwaway_ca import ThrowawayCA

VECTORS = Path(__file__).parents[2] / "vectors" / "node.jsonl"
CASES = [
    case
    for case in map(json.loads, VECTORS.read_text().splitlines())
    if case["area"] == "exec" and "stored_pair_left_fraction" in case["given"]
]
BEGIN = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
LIFE = dt.timedelta(days=100)
CA = ThrowawayCA()


def pair(life: dt.timedelta = LIFE) -> StoredPair:
    made = CA.issue("system:node:n1", not_before=BEGIN, not_after=BEGIN + life)
    return StoredPair((x509_certificate.parse_pem(made.certificate),), keys.load_pem(made.key))


# ------------------------------------------------------------------ what is asked


@pytest.mark.parametrize("version", EXEC_API_VERSIONS)
def test_what_a_client_asks(version: str) -> None:
    cluster = ExecCluster("https://192.0.2.1:6443", certificate_authority_data=CA.bundle)
    text = exec_info(ExecConfig(version, "kubevouch", cluster=cluster), interactive=False)
    assert parse_request(text) == ExecRequest(version, CA.bundle)
    assert parse_request(exec_info(ExecConfig(version, "kubevouch"), interactive=False)) == ExecRequest(version)


def test_a_person_at_a_terminal_asks_for_v1() -> None:
    assert parse_request("") == ExecRequest("client.authentication.k8s.io/v1")


@pytest.mark.parametrize(
    "text",
    [
        "no json", "[]", "[" * 100_000, "{}", '{"kind":"ExecCredential"}',
        '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1"}',
        '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1\\n"}',
        '{"kind":"ExecCredential","apiVersion":7}',
        '{"kind":"Config","apiVersion":"client.authentication.k8s.io/v1"}',
    ],
)  # fmt: skip
def test_what_nobody_may_ask(text: str) -> None:
    with pytest.raises(CredentialError) as caught:
        parse_request(text)
    assert caught.value.hint


@pytest.mark.parametrize("spec", [None, 7, {"cluster": 7}, {"cluster": {"certificate-authority-data": "%"}}])
def test_a_cluster_that_cannot_be_read_is_none(spec: Any) -> None:
    tree = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "spec": spec}
    assert parse_request(json.dumps(tree)).certificate_authority_data == b""


# ------------------------------------------------------------------ what is done


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_cases(case: dict[str, Any]) -> None:
    now = BEGIN + LIFE * (1 - case["given"]["stored_pair_left_fraction"])
    expected = {"return stored pair": Action.KEEP, "request new certificate": Action.RENEW}
    assert plan(pair().leaf, now=now) is expected[case["then"]["action"]]


def test_plans_at_the_edges() -> None:
    leaf = pair().leaf
    assert plan(None, now=BEGIN) is Action.OBTAIN
    assert plan(leaf, now=leaf.not_before) is Action.KEEP
    assert plan(leaf, now=leaf.not_after) is Action.RENEW
    assert plan(leaf, now=leaf.not_after + dt.timedelta(seconds=1)) is Action.OBTAIN
    with pytest.raises(CredentialError, match="begins at 2030-01-01T00:00:00Z, and it is 2029") as caught:
        plan(leaf, now=BEGIN - dt.timedelta(seconds=1))
    assert caught.value.hint == "set this machine's clock"


@pytest.mark.parametrize(
    ("life", "age", "lasts"),
    [
        (LIFE, dt.timedelta(), dt.timedelta(hours=1)),
        (LIFE, LIFE * 0.8 - dt.timedelta(minutes=10), dt.timedelta(minutes=10)),  # asked again when it is due
        (LIFE, LIFE * 0.9, dt.timedelta(minutes=5)),  # the renewal has failed
        (LIFE, LIFE - dt.timedelta(minutes=3), dt.timedelta(minutes=2)),  # not to the very end
        (LIFE, LIFE - dt.timedelta(seconds=30), dt.timedelta(seconds=30)),
        (dt.timedelta(minutes=10), dt.timedelta(), dt.timedelta(minutes=8)),
    ],
)
def test_how_long_a_caller_may_go_on(life: dt.timedelta, age: dt.timedelta, lasts: dt.timedelta) -> None:
    now = BEGIN + age
    assert expiration(pair(life).leaf, now=now) - now == lasts


# ------------------------------------------------------------------ what is answered


@pytest.mark.parametrize("version", EXEC_API_VERSIONS)
def test_a_client_takes_the_answer(version: str) -> None:
    given = pair()
    text = document(ExecRequest(version), given, now=BEGIN)
    assert text.count("\n") == 1
    issued = parse_output(text.encode(), version)
    assert issued.expires == Time.of(BEGIN + dt.timedelta(hours=1))
    assert x509_certificate.parse_pem(issued.credential.certificate) == given.leaf
    assert issued.credential.private_key == keys.to_pem(given.key)


def test_a_certificate_of_another_cluster() -> None:
    given = pair()
    assert stranger(ExecRequest(), given) == ""
    assert stranger(ExecRequest(certificate_authority_data=CA.bundle), given) == ""
    other = stranger(ExecRequest(certificate_authority_data=ThrowawayCA("x").bundle), given)
    assert other.startswith("the certificate of system:node:n1 does not come from this cluster's CA: ")
    assert stranger(ExecRequest(certificate_authority_data=base64.b64encode(b"x")), given)


def test_a_key_that_stays_in_a_tpm_is_not_handed_out() -> None:
    kept = replace(pair(), key=staying_key())
    with pytest.raises(CredentialError, match="stays in its TPM") as refused:
        document(ExecRequest(), kept, now=BEGIN)
    assert "kubevouch agent" in refused.value.hint
