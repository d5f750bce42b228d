"""The audit policy: which rule counts, and which files are refused."""

from typing import Any

import pytest

from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes
from kubevouch.server.audit.policy import AuditPolicyError, Level, decide, parse_policy
from kubevouch.testing.logs import capture_logs

HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
NODE = UserInfo("system:node:a", groups=("system:nodes", "system:authenticated"))


def level(rules: str, **attributes: Any) -> Level:
    default: dict[str, Any] = {"resource": "configmaps", "namespace": "default", "name": "x"}
    return decide(
        parse_policy((HEAD + f"rules: {rules}").encode()), Attributes(NODE, "get", **(default | attributes))
    ).level


def test_the_first_rule_that_matches_counts() -> None:
    assert level("[{level: None, verbs: [get]}, {level: Request}]") is Level.NONE
    assert level("[{level: None, verbs: [list]}, {level: Request}]") is Level.REQUEST


def test_without_a_match_nothing_is_recorded() -> None:
    assert level("[{level: Metadata, users: [somebody]}]") is Level.NONE


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ("users: ['system:node:a']", True),
        ("users: ['system:node:*']", False),
        ("userGroups: [other, 'system:nodes']", True),
        ("userGroups: [other]", False),
        ("namespaces: [default]", True),
        ("namespaces: ['']", False),
        ("resources: [{group: ''}]", True),
        ("resources: [{group: apps}]", False),
        ("resources: [{resources: [configmaps]}]", True),
        ("resources: [{resources: ['*']}]", True),
        ("resources: [{resources: [configmaps/status]}]", False),
        ("resources: [{resources: [configmaps/*]}]", True),
        ("resources: [{resources: [configmaps], resourceNames: [x]}]", True),
        ("resources: [{resources: [configmaps], resourceNames: [z]}]", False),
        ("nonResourceURLs: ['*']", False),
    ],
)
def test_filters_of_a_rule(rule: str, matches: bool) -> None:
    assert (level(f"[{{level: Metadata, {rule}}}]") is Level.METADATA) is matches


@pytest.mark.parametrize(
    ("resources", "matches"),
    [("[nodes]", False), ("[nodes/status]", True), ("['*/status']", True), ("['*']", True), ("['nodes/*']", True)],
)
def test_subresources_are_named_with_their_resource(resources: str, matches: bool) -> None:
    rules = f"[{{level: Metadata, resources: [{{resources: {resources}}}]}}]"
    found = level(rules, resource="nodes", subresource="status", namespace="")
    assert (found is Level.METADATA) is matches


@pytest.mark.parametrize(
    ("url", "matches"), [("*", True), ("/healthz", False), ("/version", True), ("/ver*", True), ("/v/*", False)]
)
def test_paths(url: str, matches: bool) -> None:
    found = level(f"[{{level: Metadata, nonResourceURLs: ['{url}']}}]", resource="", namespace="", path="/version")
    assert (found is Level.METADATA) is matches


@pytest.mark.parametrize(
    ("group", "resource", "subresource"),
    [("", "secrets", ""), ("", "serviceaccounts", "token"), ("authentication.k8s.io", "tokenreviews", "")],
)
def test_objects_that_hold_credentials_are_never_recorded(group: str, resource: str, subresource: str) -> None:
    rules = "[{level: RequestResponse}]"
    assert level(rules, group=group, resource=resource, subresource=subresource) is Level.METADATA


def test_stages_and_managed_fields_of_policy_and_rule() -> None:
    text = HEAD + (
        "omitStages: [RequestReceived]\nomitManagedFields: true\n"
        "rules: [{level: Metadata, verbs: [get], omitStages: [Panic]}, {level: Metadata, omitManagedFields: false}]"
    )
    policy = parse_policy(text.encode())
    first = decide(policy, Attributes(NODE, "get", resource="nodes"))
    assert first.omit_stages == {"RequestReceived", "Panic"} and first.omit_managed_fields
    second = decide(policy, Attributes(NODE, "list", resource="nodes"))
    assert second.omit_stages == {"RequestReceived"} and not second.omit_managed_fields


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "failed decoding"),
        ("rules: []", "failed decoding"),
        (HEAD, "loaded illegal policy with 0 rules"),
        (HEAD + "rules: [{verbs: [get]}]", "rules[0].level: Required value"),
        (HEAD + "rules: [{level: All}]", 'Unsupported value: "All": supported values: "None", "Metadata", "Request"'),
        (HEAD + "rules: [{level: None, nonResourceURLs: [logs]}]", "must begin with a '/' character"),
        (HEAD + "rules: [{level: None, nonResourceURLs: ['/a*b']}]", "must be the final character of the rule"),
        (
            HEAD + "rules: [{level: None, nonResourceURLs: ['/a'], namespaces: [b]}]",
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
        (HEAD + "rules: [{level: None, resources: [{group: BAD}]}]", "rules[0].resources[0].group: Invalid value"),
        (
            HEAD + "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
            "using resourceNames requires at least one resource",
        ),
        (HEAD + "rules: [{level: None, omitStages: [Never]}]", 'rules[0].omitStages[0]: Unsupported value: "Never"'),
    ],
)
def test_refused_files(text: str, complaint: str) -> None:
    with pytest.raises(AuditPolicyError) as caught:
        parse_policy(text.encode())
    assert complaint in str(caught.value)


def test_an_unknown_field_is_passed_over_with_a_warning() -> None:
    with capture_logs() as logs:
        policy = parse_policy((HEAD + "rules: [{level: Metadata, user: [a]}]").encode())
    assert policy.rules[0].users == ()
    assert [entry["err"] for entry in logs] == ['unknown field "rules[0].user"']
