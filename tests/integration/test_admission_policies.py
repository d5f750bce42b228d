"""ValidatingAdmissionPolicy: rules and bindings in a running server."""

from __future__ import annotations

import pytest

import aio
from admission_webhook import Tree, config_map, rule
from admission_world import (
    BINDINGS,
    POLICIES,
    binding,
    install,
    policy,
    post,
    tree_of,
    with_cluster,
)
from kubevouch.client.interface import Client
from kubevouch.client.kubeconfig import load
from kubevouch.client.rest_config import resolve
from kubevouch.testing import Cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
HAS_OWNER = "has(object.data.owner)"


def test_a_denial() -> None:
    async def scenario(client: Client) -> None:
        await install(client, policy({"expression": HAS_OWNER}))
        # Without a binding it is not in force.
        assert (await post(client, CONFIG_MAPS, config_map("free"))).status == 201
        await install(client, binding())
        answered = await post(client, CONFIG_MAPS, config_map())
        text = f"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: {HAS_OWNER}"
        assert answered.status == 422
        assert tree_of(answered) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'configmaps "a" is forbidden: {text}',
            "reason": "Invalid",
            "details": {"name": "a", "kind": "configmaps", "causes": [{"message": text}]},
            "code": 422,
        }
        assert (await post(client, CONFIG_MAPS, config_map(owner="jane"))).status == 201
        await client.raw("DELETE", f"{BINDINGS}/b")
        assert (await post(client, CONFIG_MAPS, config_map("c"))).status == 201

    with_cluster(scenario)


@pytest.mark.parametrize(
    ("validation", "code", "reason", "message"),
    [
        ({"message": " no owner "}, 422, "Invalid", "no owner"),
        ({"reason": "Forbidden"}, 403, "Forbidden", f"failed expression: {HAS_OWNER}"),
        ({"reason": "RequestEntityTooLarge", "message": "m"}, 413, "RequestEntityTooLarge", "m"),
        ({"messageExpression": "'no owner in ' + object.metadata.name"}, 422, "Invalid", "no owner in a"),
        ({"messageExpression": "object.data.missing", "message": "m"}, 422, "Invalid", "must evaluate to string"),
        ({"messageExpression": "string(object.data.missing)", "message": "m"}, 422, "Invalid", "m"),
        ({"messageExpression": "'  '", "message": "m"}, 422, "Invalid", "m"),
        ({"messageExpression": "'a\\nb'", "message": "m"}, 422, "Invalid", "m"),
    ],
)
def test_messages_and_reasons(validation: Tree, code: int, reason: str, message: str) -> None:
    async def scenario(client: Client) -> None:
        made = await post(client, POLICIES, policy({"expression": HAS_OWNER, **validation}))
        if message.startswith("must evaluate"):
            assert message in tree_of(made)["message"]
            return
        await install(client, binding())
        status = tree_of(await post(client, CONFIG_MAPS, config_map()))
        assert (status["code"], status["reason"]) == (code, reason)
        assert status["message"].endswith(f"'p' with binding 'b' denied request: {message}")

    with_cluster(scenario)


def test_variables_see_those_before_them() -> None:
    async def scenario(client: Client) -> None:
        variables = [
            {"name": "known", "expression": "has(object.data)"},
            {"name": "owner", "expression": "object.data.owner"},
            {"name": "greeting", "expression": "'hello ' + string(variables.owner)"},
        ]
        check = {"expression": "variables.greeting == 'hello jane'", "messageExpression": "variables.greeting"}
        await install(client, policy({"expression": "variables.known"}, check, variables=variables), binding())
        assert (await post(client, CONFIG_MAPS, config_map(owner="jane"))).status == 201
        refused = tree_of(await post(client, CONFIG_MAPS, config_map("b", owner="joe")))
        assert refused["message"].endswith("denied request: hello joe")
        failed = tree_of(await post(client, CONFIG_MAPS, config_map("b", k="v")))
        assert failed["message"].endswith(
            "denied request: expression 'variables.greeting == 'hello jane'' resulted in error: composited variable "
            '"greeting" fails to evaluate: composited variable "owner" fails to evaluate: no such key: owner'
        )

    with_cluster(scenario)


@pytest.mark.parametrize(("failure_policy", "code"), [("Fail", 422), ("Ignore", 201)])
def test_failure_policy(failure_policy: str, code: int) -> None:
    async def scenario(client: Client) -> None:
        check = {"expression": "object.data.missing == 'x'"}
        await install(client, policy(check, failurePolicy=failure_policy), binding())
        answered = await post(client, CONFIG_MAPS, config_map(k="v"))
        assert answered.status == code
        if code == 422:
            assert tree_of(answered)["message"].endswith(
                "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
            )

    with_cluster(scenario)


def test_conditions_and_old_objects() -> None:
    async def scenario(client: Client) -> None:
        check = {"expression": "object.data.owner == oldObject.data.owner", "message": "owner is immutable"}
        conditions = [{"name": "update", "expression": "request.operation == 'UPDATE'"}]
        await install(client, policy(check, matchConditions=conditions), binding())
        assert (await post(client, CONFIG_MAPS, config_map(owner="jane"))).status == 201
        path, kind = f"{CONFIG_MAPS}/a", "merge-patch+json"
        assert (await post(client, path, {"data": {"k": "v"}}, "PATCH", kind)).status == 200
        assert (await post(client, path, {"data": {"owner": "joe"}}, "PATCH", kind)).status == 422

    with_cluster(scenario)


def test_namespaces_and_requesters() -> None:
    async def scenario(client: Client) -> None:
        await post(client, "/api/v1/namespaces", {"metadata": {"name": "prod", "labels": {"stage": "prod"}}})
        checks = (
            {"expression": "namespaceObject.metadata.labels['stage'] == 'prod'"},
            {"expression": "'system:masters' in request.userInfo.groups"},
        )
        selected = {"namespaceSelector": {"matchLabels": {"stage": "prod"}}}
        await install(client, policy(*checks), binding(matchResources=selected))
        # The binding is not about this namespace.
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201
        elsewhere = {**config_map(), "metadata": {"name": "a"}}
        assert (await post(client, "/api/v1/namespaces/prod/configmaps", elsewhere)).status == 201

    with_cluster(scenario)


def test_params() -> None:
    async def scenario(client: Client) -> None:
        check = {
            "expression": "size(object.data) <= int(params.data.max)",
            "messageExpression": "'at most ' + params.data.max + ' by ' + params.kind",
        }
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        conditions = [
            {"name": "limited", "expression": "params == null || object.metadata.name != params.metadata.name"}
        ]
        await post(client, CONFIG_MAPS, config_map("limit", max="1"))
        await install(client, policy(check, paramKind=kind, matchConditions=conditions))
        ref = {"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"}
        await install(client, binding(paramRef=ref))
        assert (await post(client, CONFIG_MAPS, config_map("one", a="1"))).status == 201
        refused = await post(client, CONFIG_MAPS, config_map("two", a="1", b="2"))
        assert tree_of(refused)["message"].endswith("denied request: at most 1 by ConfigMap")
        # What the cache holds now counts.
        await post(client, f"{CONFIG_MAPS}/limit", {"data": {"max": "2"}}, "PATCH", "merge-patch+json")
        assert (await post(client, CONFIG_MAPS, config_map("two", a="1", b="2"))).status == 201
        await client.raw("DELETE", f"{CONFIG_MAPS}/limit")
        missing = await post(client, CONFIG_MAPS, config_map("three", a="1"))
        assert tree_of(missing)["message"].endswith(
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: no params "
            "found for policy binding with `Deny` parameterNotFoundAction"
        )
        change = {"spec": {"paramRef": {**ref, "parameterNotFoundAction": "Allow"}}}
        assert (await post(client, f"{BINDINGS}/b", change, "PATCH", "merge-patch+json")).status == 200
        assert (await post(client, CONFIG_MAPS, config_map("three", a="1", b="2", c="3"))).status == 201

    with_cluster(scenario)


def test_params_by_selector_in_the_objects_namespace() -> None:
    async def scenario(client: Client) -> None:
        for name, value in (("x", "1"), ("y", "2")):
            limit = config_map(name, banned=value)
            limit["metadata"]["labels"] = {"role": "ban"}
            await post(client, CONFIG_MAPS, limit)
        check = {
            "expression": "object.data.value != params.data.banned",
            "messageExpression": "string(params.metadata.name)",
        }
        ref = {"selector": {"matchLabels": {"role": "ban"}}, "parameterNotFoundAction": "Deny"}
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await install(client, policy(check, paramKind=kind), binding(paramRef=ref))
        assert (await post(client, CONFIG_MAPS, config_map("a", value="3"))).status == 201
        for value, name in (("1", "x"), ("2", "y")):
            refused = await post(client, CONFIG_MAPS, config_map("b", value=value))
            assert tree_of(refused)["message"].endswith(f"denied request: {name}")

    with_cluster(scenario)


def test_params_of_an_unknown_kind() -> None:
    async def scenario(client: Client) -> None:
        kind = {"apiVersion": "rules.example.com/v1", "kind": "Limit"}
        await install(client, policy({"expression": "true"}, paramKind=kind), binding())
        refused = await post(client, CONFIG_MAPS, config_map())
        assert tree_of(refused)["message"].endswith(
            "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource "
            "referenced by paramKind: 'rules.example.com/v1, Kind=Limit'"
        )

    with_cluster(scenario)


def test_warnings_instead_of_a_denial() -> None:
    async def scenario() -> None:
        warnings: list[str] = []
        async with Cluster(https=True) as cluster:
            await install(cluster.client(), policy({"expression": HAS_OWNER}), binding("Warn", "Audit"))
            client = resolve(load(cluster.kubeconfig)).client(component="test", on_warning=warnings.append)
            async with client:
                assert (await post(client, CONFIG_MAPS, config_map())).status == 201
        assert warnings == [
            f"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: {HAS_OWNER}"
        ]

    aio.run(scenario())


def test_policies_are_not_their_own_subject() -> None:
    async def scenario(client: Client) -> None:
        everything = [rule("*", group="*", version="*")]
        await install(client, policy({"expression": "false"}, rules=everything), binding())
        assert (await post(client, CONFIG_MAPS, config_map())).status == 422
        assert (await client.raw("DELETE", f"{BINDINGS}/b")).status == 200
        assert (await client.raw("DELETE", f"{POLICIES}/p")).status == 200

    with_cluster(scenario)


def test_a_policy_counts_its_changes_and_keeps_its_status() -> None:
    async def scenario(client: Client) -> None:
        await install(client, policy({"expression": "true"}))
        path, kind = f"{POLICIES}/p", "merge-patch+json"
        when = "2026-01-01T00:00:00Z"
        condition = {"type": "Seen", "status": "True", "reason": "R", "message": "", "lastTransitionTime": when}
        status = {"status": {"observedGeneration": 1, "conditions": [condition]}}
        assert (await post(client, f"{path}/status", status, "PATCH", kind)).status == 200
        change = {"spec": {"failurePolicy": "Ignore"}, "status": {"observedGeneration": 7}}
        changed = tree_of(await post(client, path, change, "PATCH", kind))
        assert changed["metadata"]["generation"] == 2
        assert changed["status"]["observedGeneration"] == 1
        same = tree_of(await post(client, path, {"metadata": {"labels": {"a": "b"}}}, "PATCH", kind))
        assert same["metadata"]["generation"] == 2

    with_cluster(scenario)


def test_the_authorizer() -> None:
    async def run() -> None:
        async with Cluster() as cluster:
            admin = cluster.client()
            rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "claim"]}]
            subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
            creator = {**rules[0], "verbs": ["create"]}
            for user, granted in (("jane", rules), ("joe", [creator])):
                for path, tree in (
                    ("roles", {"rules": granted}),
                    (
                        "rolebindings",
                        {
                            "subjects": [{**subject, "name": user}],
                            "roleRef": {"apiGroup": subject["apiGroup"], "kind": "Role", "name": user},
                        },
                    ),
                ):
                    where = f"/apis/rbac.authorization.k8s.io/v1/namespaces/default/{path}"
                    made = await post(admin, where, {"metadata": {"name": user}, **tree})
                    assert made.status == 201, made.body
            check = {
                "expression": "authorizer.requestResource.check('claim').allowed()",
                "messageExpression": "'may not claim ' + request.name + ', nor ' + "
                "string(authorizer.serviceAccount('default', 'a').path('/healthz').check('get').allowed())",
                "reason": "Forbidden",
            }
            await install(admin, policy(check), binding())
            assert (await post(cluster.client("jane"), CONFIG_MAPS, config_map())).status == 201
            denied = await post(cluster.client("joe"), CONFIG_MAPS, config_map("b"))
            assert denied.status == 403
            assert tree_of(denied)["message"].endswith("denied request: may not claim b, nor false")
            # The check is of the requester, not of whoever wrote the policy.
            assert (await post(admin, CONFIG_MAPS, config_map("c"))).status == 201

    aio.run(run())


def test_types_are_checked() -> None:
    async def run() -> None:
        async with Cluster(controllers=("validatingadmissionpolicy-status-controller",)) as cluster:
            client = cluster.client()
            made = await post(client, POLICIES, policy({"expression": "object.spec.nope == 1"}))
            assert made.status == 201
            await cluster.settle_async()
            status = tree_of(await client.raw("GET", f"{POLICIES}/p"))["status"]
        text = "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'spec'\n | object.spec.nope == 1\n | ......^\n"
        warning = {"fieldRef": "spec.validations[0].expression", "warning": text}
        assert status == {"observedGeneration": 1, "typeChecking": {"expressionWarnings": [warning]}}

    aio.run(run())


def test_an_expression_that_costs_too_much() -> None:
    async def scenario(client: Client) -> None:
        keys = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != '')))"
        await install(client, policy({"expression": keys}), binding())
        large = {**config_map(), "data": {f"key-{n}": "v" for n in range(2000)}}
        status = tree_of(await post(client, CONFIG_MAPS, large))
        assert status["code"] == 422
        why = f"expression '{keys}' resulted in error: operation cancelled: actual cost limit exceeded"
        assert status["message"].endswith(why)

    with_cluster(scenario)
