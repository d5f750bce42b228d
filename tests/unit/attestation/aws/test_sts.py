"""Signed calls as botocore makes them, and those that would have STS say of one machine that it is another."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

import evidence_cases
from cloud_servers.aws import Role, call_identity
from evidence_cases import Case
from kubevouch.attestation.aws import sigv4, sts
from kubevouch.attestation.aws.evidence import BINDING_HEADER, TOKEN_HEADER, SignedRequest, binding_digest, binding_text
from kubevouch.attestation.interface import RefusedEvidenceError, UnavailableError
from unit.attestation.aws.test_identity_document import NODE_CASES

NOW = dt.datetime(2026, 11, 22, 6, tzinfo=dt.UTC)
HOST = "sts.eu-west-1.amazonaws.com"
EXPECTED = binding_text(binding_digest(b"key", "blue", b"n" * 32))
ROLE = Role("arn:aws:sts::111122223333:assumed-role/node-role/i-0abc000000000000a")


def answered(request: sts.Outgoing, roles: list[Role], now: dt.datetime) -> sts.Caller:
    """What the STS of the tests makes of it."""
    headers = {**request.headers, "host": urlsplit(request.url).netloc}
    found = call_identity(request.method, request.url, headers, request.body or b"", roles, now, "sts")
    if isinstance(found, str):
        return sts.caller_in(403, msgspec.json.encode({"Error": {"Code": found}}))
    result = {"GetCallerIdentityResponse": {"GetCallerIdentityResult": {"Arn": found.arn}}}
    return sts.caller_in(200, msgspec.json.encode(result))


@pytest.mark.parametrize("case", evidence_cases.of("aws-sts"))
def test_calls_of_botocore(case: Case) -> None:
    given = case.given
    roles = [Role(each["arn"], each["access_key"], each["secret_key"], each["session_token"]) for each in case.roots]
    assert given["binding_header"].lower() == BINDING_HEADER

    def judged() -> None:
        request = msgspec.convert(given["request"], SignedRequest)
        expected = binding_text(binding_digest(case.spki, given["cluster_id"], case.nonce))
        outgoing = sts.verify_request(request, hosts=given["allowed_hosts"], expected=expected, now=case.now)
        caller = answered(outgoing, roles, case.now)
        verify = {"partition": "aws", "accounts": given["accounts"], "roles": given["roles"]}
        sts.verify_caller(caller, **verify, session=given["instance_id"])

    case.judge(judged)


def of_cases(when: str) -> list[Any]:
    found = [each for each in NODE_CASES if each["area"] == "attest-aws" and each["when"] == when]
    assert found
    return [pytest.param(each["given"], each["then"], id=each["id"]) for each in found]


@pytest.mark.parametrize(("given", "then"), of_cases("pre-check presigned token"))
def test_tokens_of_the_cases(given: dict[str, Any], then: dict[str, Any]) -> None:
    now = dt.datetime.fromisoformat(given["now"])

    def judged() -> sts.Outgoing:
        url = sts.url_of_token(given["token"])
        assert url == given["url"]
        request = sts.presigned(url, TOKEN_HEADER, given["cluster_id"])
        hosts, expected = given["allowed_hosts"], given["cluster_id"]
        return sts.verify_request(request, hosts=hosts, expected=expected, now=now, header=TOKEN_HEADER)

    if then["ok"]:
        sent = judged()
        assert {"method": sent.method, "headers": sent.headers, "follow_redirects": False} == then["outgoing"]
        return
    with pytest.raises(RefusedEvidenceError):
        judged()


@pytest.mark.parametrize(("given", "then"), [*of_cases("map identity"), *of_cases("node identity")])
def test_identities_of_the_cases(given: dict[str, Any], then: dict[str, Any]) -> None:
    def judged() -> sts.Caller:
        caller = sts.parse_arn(given["arn"])
        roles = given.get("node_roles", [caller.role])
        sts.verify_caller(caller, partition=given.get("partition", "aws"), roles=roles)
        return caller

    if then.get("ok", True):
        caller = judged()
        assert then.get("canonical", caller.canonical) == caller.canonical
        assert then.get("session", caller.session) == caller.session
        return
    with pytest.raises(RefusedEvidenceError):
        judged()


@pytest.mark.parametrize(("given", "then"), of_cases("verify body binding"))
def test_bindings_of_the_cases(given: dict[str, Any], then: dict[str, Any]) -> None:
    expected = binding_text(hashlib.sha256(given["body"].encode()).digest())
    if then["ok"]:
        sts.verify_binding(given["header"], expected, "x-kops-request-sha", given["signed_headers"])
        return
    with pytest.raises(RefusedEvidenceError, match=r"^binding"):
        sts.verify_binding(given["header"], expected, "x-kops-request-sha", given["signed_headers"])


def test_the_binding_of_the_cases_is_the_one_of_another_body() -> None:
    """So that the refusals above are for the right reason."""
    (given, _), *_ = (each.values for each in of_cases("verify body binding"))
    digest = hashlib.sha256(str(given["body"]).strip().encode()).digest()
    sts.verify_binding(given["header"], binding_text(digest), "x-kops-request-sha", given["signed_headers"])


# ------------------------------------------------------------------ calls by hand


def posted(**changes: Any) -> SignedRequest:
    """As the attestor signs it."""
    credentials = sigv4.Credentials(ROLE.access_key, ROLE.secret_key, ROLE.session_token)
    headers = sigv4.signed_headers(
        "POST",
        f"https://{HOST}/",
        {"content-type": "application/x-www-form-urlencoded", BINDING_HEADER: EXPECTED},
        sts.BODY.encode(),
        credentials,
        region="eu-west-1",
        service="sts",
        now=changes.pop("now", NOW),
    )
    headers = {**headers, **changes.pop("headers", {})}
    for name in changes.pop("without", ()):
        headers.pop(name)
    return msgspec.structs.replace(
        SignedRequest(method="POST", url=f"https://{HOST}/", headers=headers, body=sts.BODY), **changes
    )


def query(**changes: str) -> str:
    pairs = {
        "Action": "GetCallerIdentity",
        "Version": "2011-06-15",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{ROLE.access_key}%2F20261122%2Feu-west-1%2Fsts%2Faws4_request",
        "X-Amz-Date": "20261122T060000Z",
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": f"host%3B{BINDING_HEADER}",
        "X-Amz-Security-Token": "t%3D%3D",
        "X-Amz-Signature": "ab" * 32,
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    return "&".join(f"{name}={value}" for name, value in pairs.items() if value != "ABSENT")


def presigned(url: str = "", headers: dict[str, str] | None = None, body: str = "", **changes: str) -> SignedRequest:
    sent = {"Host": HOST, BINDING_HEADER: EXPECTED} if headers is None else headers
    return SignedRequest(method="GET", url=url or f"https://{HOST}/?{query(**changes)}", headers=sent, body=body)


def verified(request: SignedRequest, now: dt.datetime = NOW) -> sts.Outgoing:
    return sts.verify_request(request, hosts=[HOST], expected=EXPECTED, now=now)


def test_what_the_node_signs_is_sent_without_what_the_server_says_itself() -> None:
    sent = verified(posted(headers={"content-length": "43"}))
    assert answered(sent, [ROLE], NOW) == sts.Caller("aws", "111122223333", "node-role", "i-0abc000000000000a")
    names = {"accept", "authorization", "content-type", "x-amz-date", "x-amz-security-token", BINDING_HEADER}
    assert (sent.method, sent.url, set(sent.headers)) == ("POST", f"https://{HOST}/", names)
    other = [Role(ROLE.arn, ROLE.access_key, "another", ROLE.session_token)]
    with pytest.raises(RefusedEvidenceError, match=r"^signature: STS answered 403 SignatureDoesNotMatch"):
        answered(sent, other, NOW)


URLS = {
    "http": (f"http://{HOST}/", "scheme"),
    "capitals": (f"HTTPS://{HOST}/", "scheme"),
    "no scheme": (f"//{HOST}/", "scheme"),
    "a name behind it": (f"https://{HOST}.evil.example/", "host"),
    "a name before it": (f"https://evil-{HOST}/", "host"),
    "a port": (f"https://{HOST}:443/", "host"),
    "another port": (f"https://{HOST}:8443/", "host"),
    "a user": (f"https://user@{HOST}/", "host"),
    "a user that looks like the host": (f"https://{HOST}@evil.example/", "host"),
    "a user behind a slash": (f"https://evil.example\\@{HOST}/", "structure"),
    "capitals in the host": (f"https://{HOST.upper()}/", "host"),
    "a full stop": (f"https://{HOST}./", "host"),
    "another region": ("https://sts.eu-west-2.amazonaws.com/", "host"),
    "another partition": (f"https://{HOST}.cn/", "host"),
    "an address": ("https://[::1]/", "host"),
    "half an address": ("https://[::1/", "structure"),
    "another script": (f"https://{HOST.replace('a', 'а', 1)}/", "structure"),
    "a line feed": (f"https://{HOST}/\n", "structure"),
    "a tab in the host": (f"https://sts\t.{HOST[4:]}/", "structure"),
    "no path": (f"https://{HOST}", "path"),
    "a path": (f"https://{HOST}/x", "path"),
    "two slashes": (f"https://{HOST}//", "path"),
    "a path that ends nowhere": (f"https://{HOST}/.", "path"),
    "a fragment": (f"https://{HOST}/#", "path"),
    "a parameter of the path": (f"https://{HOST}/;x", "path"),
    "a query": (f"https://{HOST}/?{sts.BODY}", "query"),
    "an empty query": (f"https://{HOST}/?", "query"),
    "too long": (f"https://{HOST}/{'a' * 4096}", "size"),
}


@pytest.mark.parametrize("case", URLS)
def test_where_it_may_go(case: str) -> None:
    url, step = URLS[case]
    with pytest.raises(RefusedEvidenceError) as refused:
        verified(posted(url=url))
    assert refused.value.step == step


POSTED: dict[str, tuple[dict[str, Any], str]] = {
    "another method": ({"method": "PUT"}, "method"),
    "a method in small letters": ({"method": "post"}, "method"),
    "another action": ({"body": sts.BODY.replace("GetCallerIdentity", "AssumeRole")}, "action"),
    "another version": ({"body": sts.BODY.replace("2011", "2012")}, "action"),
    "no version": ({"body": "Action=GetCallerIdentity"}, "action"),
    "the action twice": ({"body": f"{sts.BODY}&Action=GetCallerIdentity"}, "query"),
    "the action in another case": ({"body": f"{sts.BODY}&action=AssumeRole"}, "query"),
    "one parameter more": ({"body": f"{sts.BODY}&DurationSeconds=1"}, "query"),
    "an empty parameter": ({"body": f"{sts.BODY}&"}, "query"),
    "another separator": ({"body": sts.BODY.replace("&", ";")}, "action"),
    "no body": ({"body": ""}, "query"),
    "a long body": ({"body": sts.BODY + "x" * 4096}, "size"),
    "another host's header": ({"headers": {"host": "evil.example"}}, "headers"),
    "a header more": ({"headers": {"x-forwarded-for": "::1"}}, "headers"),
    "a header twice": ({"headers": {"X-Amz-Date": "20261122T060000Z"}}, "headers"),
    "another length": ({"headers": {"content-length": "44"}}, "headers"),
    "another type": ({"headers": {"content-type": "application/json"}}, "headers"),
    "another body's digest": ({"headers": {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}}, "headers"),
    "an answer of another form": ({"headers": {"accept": "text/xml"}}, "headers"),
    "a value of two lines": ({"headers": {"x-amz-security-token": "a\r\nHost: b"}}, "headers"),
    "a value of white space": ({"headers": {"x-amz-security-token": " "}}, "headers"),
    "an empty value": ({"headers": {BINDING_HEADER: ""}}, "headers"),
    "a long value": ({"headers": {"x-amz-security-token": "a" * 4097}}, "headers"),
    "many headers": ({"headers": {f"x-{at}": "a" for at in range(17)}}, "size"),
    "no type": ({"without": ["content-type"]}, "headers"),
    "no date": ({"without": ["x-amz-date"]}, "headers"),
    "no signature": ({"without": ["authorization"]}, "headers"),
    "a signed header that is not there": ({"without": ["x-amz-security-token"]}, "headers"),
    "another scheme": ({"headers": {"authorization": "Bearer x"}}, "authorization"),
    "no binding": ({"without": [BINDING_HEADER]}, "binding"),
    "a binding for another key": (
        {"headers": {BINDING_HEADER: binding_text(binding_digest(b"other", "blue", b"n" * 32))}},
        "binding",
    ),
    "a binding for another cluster": (
        {"headers": {BINDING_HEADER: binding_text(binding_digest(b"key", "green", b"n" * 32))}},
        "binding",
    ),
    "a binding with padding": ({"headers": {BINDING_HEADER: f"{EXPECTED}="}}, "binding"),
    "old": ({"now": NOW - sts.LIFETIME - dt.timedelta(seconds=1)}, "time"),
    "from the future": ({"now": NOW + sts.SKEW + dt.timedelta(seconds=1)}, "time"),
    "yesterday's": ({"now": NOW - dt.timedelta(days=1)}, "time"),
}


@pytest.mark.parametrize("case", POSTED)
def test_what_it_may_be(case: str) -> None:
    changes, step = POSTED[case]
    with pytest.raises(RefusedEvidenceError) as refused:
        verified(posted(**changes))
    assert refused.value.step == step


AUTHORIZATIONS = {
    "of another service": ("/sts/", "/s3/", "authorization"),
    "of another day": ("/20261122/", "/20261121/", "authorization"),
    "without an end": ("/aws4_request", "", "authorization"),
    "host not signed": ("host;", "", "authorization"),
    "date not signed": ("x-amz-date;", "", "authorization"),
    "token not signed": ("x-amz-security-token;", "", "authorization"),
    "binding not signed": (f";{BINDING_HEADER}", "", "binding"),
    "the binding twice": (f";{BINDING_HEADER}", f";{BINDING_HEADER};{BINDING_HEADER}", "authorization"),
    "a header that is not there": ("host;", "host;x-other;", "headers"),
    "names in capitals": ("host;", "Host;", "authorization"),
    "a signature in capitals": ("Signature=", "Signature=A", "authorization"),
    "a part twice": ("Signature=", "Signature=a, Signature=", "authorization"),
    "another algorithm": ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "authorization"),
}


@pytest.mark.parametrize("case", AUTHORIZATIONS)
def test_what_is_signed(case: str) -> None:
    old, new, step = AUTHORIZATIONS[case]
    authorization = posted().headers["authorization"]
    assert old in authorization
    with pytest.raises(RefusedEvidenceError) as refused:
        verified(posted(headers={"authorization": authorization.replace(old, new)}))
    assert refused.value.step == step


PRESIGNED = {
    "another action": (presigned(Action="AssumeRole"), "action"),
    "no action": (presigned(Action="ABSENT"), "action"),
    "another action in small letters": (presigned(action="AssumeRole"), "query"),
    "the action twice": (presigned(f"https://{HOST}/?{query()}&Action=GetCallerIdentity"), "query"),
    "small letters": (presigned(Action="ABSENT", action="GetCallerIdentity"), "query"),
    "one more": (presigned(DurationSeconds="1"), "query"),
    "an encoded name": (presigned(f"https://{HOST}/?{query()}&%41ction=AssumeRole"), "query"),
    "a name without a value": (presigned(f"https://{HOST}/?{query()}&X-Amz-Expires"), "query"),
    "a name without a value, once": (
        presigned(f"https://{HOST}/?{query(X_Amz_Security_Token='ABSENT')}&X-Amz-Security-Token"),
        "query",
    ),
    "a plus": (presigned(X_Amz_Security_Token="a+b"), "query"),
    "half an escape": (presigned(X_Amz_Security_Token="a%2"), "query"),
    "an escaped line feed": (presigned(X_Amz_Security_Token="a%0Ab"), "query"),
    "no signature": (presigned(X_Amz_Signature="ABSENT"), "query"),
    "no time": (presigned(X_Amz_Date="ABSENT"), "query"),
    "no end": (presigned(X_Amz_Expires="ABSENT"), "query"),
    "too long": (presigned(X_Amz_Expires="901"), "time"),
    "a negative end": (presigned(X_Amz_Expires="-1"), "time"),
    "an end with digits of another script": (presigned(X_Amz_Expires="%D9%A3"), "query"),
    "another algorithm": (presigned(X_Amz_Algorithm="AWS4-HMAC-SHA512"), "authorization"),
    "no time at all": (presigned(X_Amz_Date="20261122T066000Z"), "time"),
    "a time of fewer digits": (presigned(X_Amz_Date="20261122T60000Z"), "time"),
    "half a time": (presigned(X_Amz_Date="20261122"), "time"),
    "binding not signed": (presigned(X_Amz_SignedHeaders="host"), "binding"),
    "host not signed": (presigned(X_Amz_SignedHeaders=BINDING_HEADER), "authorization"),
    "no binding sent": (presigned(headers={"Host": HOST}), "binding"),
    "two signatures": (presigned(headers={"Authorization": "x", BINDING_HEADER: EXPECTED}), "headers"),
    "the date in a header too": (presigned(headers={"X-Amz-Date": "x", BINDING_HEADER: EXPECTED}), "headers"),
    "a body": (presigned(body=sts.BODY), "headers"),
    "no query": (presigned(f"https://{HOST}/"), "query"),
}


@pytest.mark.parametrize("case", PRESIGNED)
def test_what_a_url_may_say(case: str) -> None:
    request, step = PRESIGNED[case]
    assert verified(presigned()).headers == {BINDING_HEADER: EXPECTED, "accept": "application/json"}
    with pytest.raises(RefusedEvidenceError) as refused:
        verified(request)
    assert refused.value.step == step


def test_the_clocks_may_differ_within_bounds() -> None:
    for moment in (NOW - sts.LIFETIME, NOW + sts.SKEW):
        verified(posted(now=moment))


@pytest.mark.parametrize(
    "token", ["", "k8s-aws-v1.", "k8s-aws-v2.aHR0", "k8s-aws-v1.a", "k8s-aws-v1.aHR0+w", "aHR0", "k8s-aws-v1.w6k"]
)
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(RefusedEvidenceError, match=r"^structure"):
        sts.url_of_token(token)


def test_a_token_has_an_end() -> None:
    with pytest.raises(RefusedEvidenceError, match=r"^size"):
        sts.url_of_token("k8s-aws-v1." + "a" * 4096)


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:iam::111122223333:user/i-0abc000000000000a",
        "arn:aws:sts::111122223333:federated-user/i-0abc000000000000a",
        "arn:aws:sts::111122223333:assumed-role/node-role",
        "arn:aws:sts::111122223333:assumed-role/path/node-role/i-0abc000000000000a",
        "arn:aws:sts::111122223333:assumed-role/node-role/i-0abc000000000000a\n",
        "arn:aws:sts::11112222333٣:assumed-role/node-role/i-0abc000000000000a",
        "arn:aws:iam::111122223333:root",
        "",
    ],
)
def test_who_is_no_node(arn: str) -> None:
    with pytest.raises(RefusedEvidenceError, match=r"^role"):
        sts.parse_arn(arn)


def test_a_caller_is_the_node_of_its_session() -> None:
    caller = sts.parse_arn(ROLE.arn)
    good: dict[str, Any] = {
        "partition": "aws",
        "accounts": ["111122223333"],
        "roles": ["node-role"],
        "session": "i-0abc000000000000a",
    }
    sts.verify_caller(caller, **good)
    others: dict[str, dict[str, Any]] = {
        "partition": {"partition": "aws-cn"},
        "account": {"accounts": ["999900001111"]},
        "role": {"roles": ["Node-role", "node-rol", "admins"]},
        "session": {"session": "i-0bad0000000000009"},
    }
    with pytest.raises(RefusedEvidenceError, match=r"^session: the call is by jane, expected an instance"):
        sts.verify_caller(sts.Caller("aws", "111122223333", "node-role", "jane"), **{**good, "session": ""})
    for step, changed in others.items():
        with pytest.raises(RefusedEvidenceError) as refused:
            sts.verify_caller(caller, **{**good, **changed})
        assert refused.value.step == step


def test_an_answer_that_is_not_of_sts_says_nothing() -> None:
    for status, body in (
        (200, b"<html>"),
        (200, b"{}"),
        (200, b'{"GetCallerIdentityResponse": {"GetCallerIdentityResult": []}}'),
        (200, b'{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Arn":"a","Arn":"b"}}}'),
        (403, b"<html>"),
        (404, b""),
        (400, b'{"Error":{"Code":"Throttling"}}'),
    ):
        with pytest.raises(UnavailableError):
            sts.caller_in(status, body)
    with pytest.raises(RefusedEvidenceError, match=r"^signature: STS answered 403 ExpiredToken"):
        sts.caller_in(403, json.dumps({"Error": {"Code": "ExpiredToken"}}).encode())
