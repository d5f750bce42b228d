"""The signatures of botocore, and ours of the same requests."""

from __future__ import annotations

import datetime as dt

import evidence_cases
from kubevouch.attestation.aws import sigv4


def test_the_same_signatures_as_botocore() -> None:
    compared = 0
    for (case,) in (each.values for each in evidence_cases.of("aws-sts")):
        request, headers = case.given["request"], {k.lower(): v for k, v in case.given["request"]["headers"].items()}
        authorization = headers.pop("authorization", None)
        if authorization is None or (not case.accepted and case.step in ("signature", "binding", "query", "action")):
            continue
        role = next(each for each in case.roots if each["access_key"] in authorization)
        credentials = sigv4.Credentials(role["access_key"], role["secret_key"], role["session_token"])
        moment = dt.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
        signed = sigv4.signed_headers(
            request["method"],
            request["url"],
            {name: value for name, value in headers.items() if not name.startswith("x-amz-") and name != "host"},
            request["body"].encode(),
            credentials,
            region="zz-north-1",
            service="sts",
            now=moment,
        )
        assert signed.pop("authorization") == authorization
        assert signed == headers
        compared += 1
    assert compared >= 3


def test_credentials_do_not_show_their_secret() -> None:
    assert "hidden" not in repr(sigv4.Credentials("AKIA", "hidden", "hidden"))
    assert "hidden" not in str(sigv4.Credentials("AKIA", "hidden", "hidden"))
