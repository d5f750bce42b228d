from __future__ import annotations

import json
from typing import Any

import pytest

from asynctest import async_test
from decisions import BOB
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.abac import MAX_FILE_BYTES, ABACAuthorizer, Policy, PolicyFileError, parse_policy_file
from kubevouch.authorization.interface import Attributes, Decision, Rule
from kubevouch.testing.logs import capture_logs

ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
READS_SECRETS = Policy(user="bob", readonly=True, resource="secrets", namespace="shop")


def line(**spec: Any) -> bytes:
    policy = {"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec}
    return json.dumps(policy).encode()


def asks(verb: str = "get", resource: str = "secrets", namespace: str = "shop", group: str = "", **other: Any) -> Any:
    return Attributes(other.pop("user", BOB), verb, group, "v1", resource, namespace=namespace, **other)


@pytest.mark.parametrize(
    ("policy", "user", "meant"),
    [
        (Policy(user="bob"), BOB, True),
        (Policy(user="alice"), BOB, False),
        (Policy(group="system:authenticated"), BOB, True),
        (Policy(group="devs"), BOB, False),
        (Policy(user="bob", group="devs"), BOB, False),
        (Policy(user="alice", group="system:authenticated"), BOB, False),
        (Policy(user="bob", group="system:authenticated"), BOB, True),
        (Policy(), BOB, False),
        (Policy(), UserInfo(""), False),
    ],
)
def test_for_whom_a_policy_is(policy: Policy, user: UserInfo, meant: bool) -> None:
    assert policy.is_for(user) is meant


@pytest.mark.parametrize(
    ("policy", "attributes", "allowed"),
    [
        (READS_SECRETS, asks("get"), True),
        (READS_SECRETS, asks("list"), True),
        (READS_SECRETS, asks("watch"), True),
        (READS_SECRETS, asks("create"), False),
        (READS_SECRETS, asks("GET"), False),
        (READS_SECRETS, asks(resource="nodes"), False),
        (READS_SECRETS, asks(namespace="other"), False),
        (READS_SECRETS, asks(namespace=""), False),
        (READS_SECRETS, asks(group="apps"), False),
        (READS_SECRETS, asks(subresource="status"), True),
        (READS_SECRETS, Attributes(BOB, "get", path="/metrics"), False),
        (Policy(user="bob", resource="*", namespace="*", api_group="*"), asks("delete", "nodes", "", "apps"), True),
        (Policy(user="bob", resource="nodes"), asks("delete", "nodes", ""), True),
        (Policy(user="bob", resource="nodes"), asks("delete", "nodes", "shop"), False),
        (Policy(user="bob", resource="*", namespace="*", api_group="*"), Attributes(BOB, "get", path="/x"), False),
        (Policy(user="bob", non_resource_path="*"), Attributes(BOB, "get", path="/x"), True),
        (Policy(user="bob", non_resource_path="/api"), Attributes(BOB, "get", path="/apis"), False),
        (Policy(user="bob", non_resource_path="/api*"), Attributes(BOB, "get", path="/apis"), True),
        (Policy(user="bob", non_resource_path="/*/x"), Attributes(BOB, "get", path="/y/x"), False),
        (Policy(user="bob", non_resource_path="*", readonly=True), Attributes(BOB, "post", path="/x"), False),
        (Policy(user="bob", non_resource_path="*"), asks(), False),
    ],
)
def test_what_a_policy_allows(policy: Policy, attributes: Attributes, allowed: bool) -> None:
    assert policy.allows(attributes) is allowed


@async_test
async def test_authorizer_allows_or_abstains() -> None:
    authorizer = ABACAuthorizer([Policy(user="alice", resource="*"), READS_SECRETS])
    assert (await authorizer.authorize(asks())).decision is Decision.ALLOW
    for refused in (asks("delete"), asks(user=UserInfo("carol"))):
        verdict = await authorizer.authorize(refused)
        assert (verdict.decision, verdict.reason) == (Decision.NO_OPINION, "No policy matched.")


@async_test
async def test_subject_and_request_have_to_match_in_one_policy() -> None:
    authorizer = ABACAuthorizer([Policy(user="bob", resource="nodes"), Policy(user="alice", resource="*")])
    assert (await authorizer.authorize(asks("get", "secrets", ""))).decision is Decision.NO_OPINION


@async_test
async def test_rules_of_a_user() -> None:
    paths = Policy(user="bob", namespace="*", resource="pods", api_group="*", non_resource_path="/version")
    authorizer = ABACAuthorizer([READS_SECRETS, paths, Policy(user="alice", resource="*", namespace="*")])
    reading = ("get", "list", "watch")
    assert (await authorizer.rules_for(BOB, "shop")).rules == (
        Rule(reading, ("",), ("secrets",)),
        Rule(("*",), ("*",), ("pods",)),
        Rule(("*",), non_resource_urls=("/version",)),
    )
    assert (await authorizer.rules_for(BOB, "other")).rules[0] == Rule(("*",), ("*",), ("pods",))


# ------------------------------------------------------------------ the file


def test_blank_lines_and_comments_are_passed_over() -> None:
    contents = b"# who may what\r\n\n   \n  # more\n" + line(user="bob", resource="secrets") + b"\r\n"
    assert parse_policy_file("p", contents) == [Policy(user="bob", resource="secrets")]
    assert parse_policy_file("p", b"") == []


def test_every_field() -> None:
    contents = line(user="u", group="g", readonly=True, apiGroup="a", resource="r", namespace="n", nonResourcePath="/p")
    assert parse_policy_file("p", contents) == [Policy("u", "g", True, "a", "r", "n", "/p")]


@pytest.mark.parametrize(
    "spec", [{"user": "*"}, {"group": "*"}, {"user": "*", "group": "x"}, {"user": "x", "group": "*"}]
)
@async_test
async def test_everybody_does_not_include_the_anonymous(spec: dict[str, str]) -> None:
    policies = parse_policy_file("p", line(**spec, resource="*", namespace="*", apiGroup="*"))
    assert policies == [Policy(group="system:authenticated", resource="*", namespace="*", api_group="*")]
    authorizer = ABACAuthorizer(policies)
    assert (await authorizer.authorize(asks())).decision is Decision.ALLOW
    assert (await authorizer.authorize(asks(user=ANONYMOUS))).decision is Decision.NO_OPINION


@pytest.mark.parametrize(
    ("document", "policy"),
    [
        ({"user": "u"}, Policy("u", "", False, "*", "*", "*", "*")),
        ({"group": "g", "readonly": True}, Policy("", "g", True, "*", "*", "*", "*")),
        ({"user": "u", "resource": "pods"}, Policy("u", "", False, "*", "pods", "*", "")),
        ({"user": "u", "namespace": "n"}, Policy("u", "", False, "*", "*", "n", "")),
        ({}, Policy("", "system:authenticated", False, "*", "*", "*", "*")),
        ({"user": "*"}, Policy("", "system:authenticated", False, "*", "*", "*", "*")),
    ],
)
def test_lines_of_the_old_format(document: dict[str, Any], policy: Policy) -> None:
    with capture_logs() as logged:
        assert parse_policy_file("p.jsonl", json.dumps(document).encode()) == [policy]
    assert [(entry["log_level"], entry["path"], entry["lines"]) for entry in logged] == [("warning", "p.jsonl", 1)]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"[]", "couldn't get version/kind; json parse error: got no JSON object"),
        (line(user=1), "got int for user, expected a string"),
        (line(user="u", readonly="yes"), "got str for readonly, expected true or false"),
        (b'{"user": ["u"]}', "got list for user, expected a string"),
        (
            b'{"apiVersion": "abac.authorization.kubernetes.io/v1", "kind": "Policy"}',
            'no kind "Policy" is registered for version "abac.authorization.kubernetes.io/v1"',
        ),
        (
            b'{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Role"}',
            'no kind "Role" is registered for version "abac.authorization.kubernetes.io/v1beta1"',
        ),
        (
            b'{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": [1]}',
            "got no JSON object for spec",
        ),
    ],
)
def test_bad_line(bad: bytes, why: str) -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse_policy_file("/etc/p", b"# first\n" + line(user="u") + b"\n" + bad + b"\n")
    assert str(caught.value) == f"error reading policy file /etc/p, line 3: {bad.decode()}: {why}"


@pytest.mark.parametrize("bad", [b"{", b"nonsense", b'{"user": "\xff"} x', b"\x00"])
def test_line_that_is_no_json(bad: bytes) -> None:
    with pytest.raises(PolicyFileError, match=r"line 1: .*couldn't get version/kind; json parse error: "):
        parse_policy_file("p", bad)


def test_file_has_a_bound() -> None:
    parse_policy_file("p", b"#".ljust(MAX_FILE_BYTES))
    with pytest.raises(PolicyFileError, match="at most 16777216"):
        parse_policy_file("p", b"#".ljust(MAX_FILE_BYTES + 1))
