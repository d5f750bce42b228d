"""Who may what: the answers of a running kube-apiserver 1.36.2, given here without a server."""

from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from kubevouch.api import rbac_v1
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.abac import ABACAuthorizer, parse_policy_file
from kubevouch.authorization.bootstrap_policy import bootstrap_policy
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.messages import forbidden
from kubevouch.authorization.rbac_escalation import EscalationGuard
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from unit.authorization.policy_cases import (
    attributes_of,
    authorizer_for,
    case_named,
    cases,
    indexed_for,
    json_tree,
    user_of,
    whole,
)

ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))


def ids(selected: list[dict[str, Any]]) -> list[str]:
    return [case["id"] for case in selected]


def is_refused_by_authorizer(case: dict[str, Any]) -> bool:
    return case["then"].get("status") == 403 and ": User " in case["then"].get("message_exact", "")


# These are decided by a second question that the handler asks: may he create what does not exist yet?
CREATE_BY_WRITE = ("srv-apply-create-needs-create", "srv-put-create-needs-create")
# Whoever authenticates in these is known only to the server.
NEEDS_A_CREDENTIAL = ("Authorization", "Impersonate-User", "Impersonate-Group", "Impersonate-Extra-k")

SINGLE_REQUESTS = [
    case
    for case in cases(
        "authz", "authn", "admission", "strategy", "errors", "list", "watch", "table", "discovery", "patch"
    )
    if {"method", "path"} <= case["when"].keys()
    and not set(NEEDS_A_CREDENTIAL) & set(case["when"].get("headers") or ())
    and "client_certificate" not in case["given"]
    and case["id"] not in CREATE_BY_WRITE
]


@pytest.mark.parametrize("case", SINGLE_REQUESTS, ids=ids(SINGLE_REQUESTS))
@async_test
async def test_request_is_allowed_or_refused_in_kubernetes_words(case: dict[str, Any]) -> None:
    user = user_of(case["given"]["user"]) if case["given"].get("user") else ANONYMOUS
    attributes = attributes_of(user, case["when"])
    verdict = await authorizer_for(case).authorize(attributes)
    if is_refused_by_authorizer(case):
        assert verdict.decision is Decision.NO_OPINION
        assert forbidden(attributes, verdict.reason).status.message == case["then"]["message_exact"]
    else:
        assert verdict.decision is Decision.ALLOW, case["then"].get("message_exact")


def test_that_there_are_cases_of_both_kinds() -> None:
    refused = [case for case in SINGLE_REQUESTS if is_refused_by_authorizer(case)]
    assert len(refused) > 20
    assert len(SINGLE_REQUESTS) - len(refused) > 100


@pytest.mark.parametrize("case_id", CREATE_BY_WRITE)
@async_test
async def test_creation_by_another_verb_needs_create(case_id: str) -> None:
    case = case_named(case_id)
    asked = attributes_of(user_of(case["given"]["user"]), case["when"])
    authorizer = authorizer_for(case)
    assert (await authorizer.authorize(asked)).decision is Decision.ALLOW
    create = Attributes(
        asked.user, "create", asked.group, asked.api_version, asked.resource, "", asked.namespace, asked.name
    )
    verdict = await authorizer.authorize(create)
    assert forbidden(create, verdict.reason).status.message == case["then"]["message_exact"]


# ------------------------------------------------------------------ access reviews

REVIEWS = [
    case
    for case in cases("authz")
    if case["when"].get("path", "").endswith("subjectaccessreviews") and case["then"]["status"] == 201
]


@pytest.mark.parametrize("case", REVIEWS, ids=ids(REVIEWS))
@async_test
async def test_access_review(case: dict[str, Any]) -> None:
    spec = case["when"]["body"]["spec"]
    asker = user_of(case["given"]["user"])
    if case["when"]["body"]["kind"] == "SelfSubjectAccessReview":
        user = asker
    else:
        user = UserInfo(spec["user"], groups=tuple(spec.get("groups", ())))
    if "nonResourceAttributes" in spec:
        asked = Attributes(user, spec["nonResourceAttributes"]["verb"], path=spec["nonResourceAttributes"]["path"])
    else:
        wanted = spec["resourceAttributes"]
        asked = Attributes(
            user, wanted["verb"], wanted.get("group", ""), wanted.get("version", ""), wanted["resource"],
            wanted.get("subresource", ""), wanted.get("namespace", ""), wanted.get("name", ""),
        )  # fmt: skip
    verdict = await authorizer_for(case).authorize(asked)
    fields = case["then"]["fields"]
    expected = fields.get("status") or {
        key.removeprefix("status."): value for key, value in fields.items() if key.startswith("status.")
    }
    assert (verdict.decision is Decision.ALLOW) == expected["allowed"]
    reason = expected.get("reason", "")
    if reason.startswith("$re:"):
        assert verdict.reason.startswith("RBAC: allowed by ClusterRoleBinding")
    elif reason or "status" in fields:
        assert verdict.reason == reason


# ------------------------------------------------------------------ escalation

ESCALATIONS = [
    case for case in cases("authz") if "escalation" in case["id"] or case["id"] == "srv-binding-missing-role"
]


@pytest.mark.parametrize("case", ESCALATIONS, ids=ids(ESCALATIONS))
@async_test
async def test_escalation(case: dict[str, Any]) -> None:
    user = user_of(case["given"]["user"])
    guard = EscalationGuard(indexed_for(case), authorizer_for(case))
    old_tree = next((obj for obj in case["given"].get("objects", []) if obj["kind"].endswith("Role")), None)
    tree = case["when"]["body"]
    namespace = "default" if "/namespaces/default/" in case["when"]["path"] else ""
    if "$merge" in tree:
        assert old_tree is not None
        tree = merged(old_tree, tree["$merge"])
    tree = tree | {"metadata": tree["metadata"] | {"namespace": namespace}}
    written = objects(tree)[0]
    old = objects(old_tree)[0] if old_tree else None
    is_role = isinstance(written, (rbac_v1.Role, rbac_v1.ClusterRole))
    check = guard.check_role(user, written, old) if is_role else guard.check_binding(user, written)
    if case["then"]["status"] == 201:
        await check
        return
    with pytest.raises(APIStatusError) as caught:
        await check
    assert caught.value.code == case["then"]["status"]
    assert caught.value.status.message == case["then"]["message_exact"]


def merged(tree: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json_tree(json_codec.from_tree(tree, rbac_v1.ClusterRole).value) | {"kind": tree["kind"]}
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = copied
        for key in parents:
            place = place.setdefault(key, {})
        place[last] = value
    return copied


def objects(tree: dict[str, Any]) -> tuple[Any, ...]:
    policy = whole(tree)
    return (*policy.every_role, *policy.every_binding)


# ------------------------------------------------------------------ ABAC

POLICY_LINES = [case for case in cases("authz") if "policy_line" in case["given"]]


@pytest.mark.parametrize("case", POLICY_LINES, ids=ids(POLICY_LINES))
@async_test
async def test_abac_policy_line(case: dict[str, Any]) -> None:
    line = json_codec.encode(case["given"]["policy_line"])
    authorizer = ABACAuthorizer(parse_policy_file("policy.jsonl", b"# a comment\n\n" + line + b"\n"))
    asked = case["when"]["authorize"]
    verdict = await authorizer.authorize(
        Attributes(
            user_of(case["given"]["user"]), asked["verb"], asked["apiGroup"], "v1", asked["resource"],
            namespace=asked["namespace"],
        )
    )  # fmt: skip
    assert (verdict.decision is Decision.ALLOW) == case["then"]["allowed"]


# ------------------------------------------------------------------ what ships with the server

SHIPPED = [case for case in cases("authz") if case["id"].startswith("srv-bootstrap-")]


@pytest.mark.parametrize("case", SHIPPED, ids=ids(SHIPPED))
def test_shipped_object(case: dict[str, Any]) -> None:
    path = case["when"]["path"].split("/")
    policy = bootstrap_policy()
    if "clusterroles" in path:
        found: Any = next(each for each in policy.cluster_roles if each.metadata.name == path[-1])
    elif "clusterrolebindings" in path:
        found = next(each for each in policy.cluster_role_bindings if each.metadata.name == path[-1])
    else:
        place = (path[-3], path[-1])
        found = next(each for each in policy.roles if (each.metadata.namespace, each.metadata.name) == place)
    tree = json_tree(found)
    for name, expected in case["then"]["fields"].items():
        value = tree
        for key in name.split("."):
            value = value[key]
        assert value == expected
