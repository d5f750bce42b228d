"""MutatingAdmissionPolicy: changes and bindings in a running server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aio
import custom_world
from admission_webhook import AdmissionWebhook, Tree, config_map, configuration, rule, set_data
from admission_world import (
    GROUP,
    applied,
    binding,
    configure,
    install,
    mutating,
    mutating_binding,
    patched,
    policy,
    post,
    tree_of,
    with_cluster,
    with_webhook,
)
from kubevouch.client.interface import Client, RawResponse
from kubevouch.testing import Cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = custom_world.WIDGETS_PATH


def widget(name: str = "w", **spec: Any) -> Tree:
    kind = {"apiVersion": f"{custom_world.GROUP}/v1", "kind": "Widget"}
    return {**kind, "metadata": {"name": name}, "spec": spec or {"size": 1}}


def data(answer: RawResponse) -> Any:
    assert answer.status in (200, 201), answer.body
    return tree_of(answer)["data"]


async def data_with(client: Client, *policies: Tree, name: str = "a", **more: str) -> Any:
    """What a ConfigMap holds that is made while the policies are in force."""
    for each in policies:
        await install(client, each, mutating_binding(each["metadata"]["name"], each["metadata"]["name"]))
    return data(await post(client, CONFIG_MAPS, config_map(name, **more)))


def test_mutations_run_in_order_and_see_each_other() -> None:
    async def scenario(client: Client) -> None:
        mutations = (
            "Object{data: {'b': object.data.a + '2'}}",
            patched("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('c'), value: object.data.b + '3'}]"),
            "Object{metadata: Object.metadata{labels: {'seen': object.data.c}}}",
        )
        free = data(await post(client, CONFIG_MAPS, config_map("free", a="1")))
        assert free == {"a": "1"}
        await install(client, mutating(*mutations))
        # Without a binding it is not in force.
        assert data(await post(client, CONFIG_MAPS, config_map("unbound", a="1"))) == {"a": "1"}
        await install(client, mutating_binding())
        made = tree_of(await post(client, CONFIG_MAPS, config_map("a", a="1")))
        assert made["data"] == {"a": "1", "b": "12", "c": "123"}
        assert made["metadata"]["labels"] == {"seen": "123"}
        # Nobody owns what a policy sets.
        assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}
        assert data(await post(client, f"{CONFIG_MAPS}/a", config_map("a", a="9"), "PUT"))["c"] == "923"
        # A deletion brings nothing to change.
        assert (await client.raw("DELETE", f"{CONFIG_MAPS}/a")).status == 200

    with_cluster(scenario)


def test_what_expressions_see() -> None:
    async def scenario(client: Client) -> None:
        await post(client, CONFIG_MAPS, config_map("limits", top="7"))
        expression = (
            "Object{data: {'v': string(variables.upper), 'p': string(params.data.top), "
            "'n': namespaceObject.metadata.name, "
            "'u': request.userInfo.username, 'may': string(authorizer.group('').resource('nodes').check('get')"
            ".allowed())}}"
        )
        variables = [{"name": "upper", "expression": "object.metadata.name.upperAscii()"}]
        conditions = [{"name": "wanted", "expression": "object.data.k == 'v' && params.data.top == '7'"}]
        await install(
            client,
            mutating(
                expression,
                variables=variables,
                matchConditions=conditions,
                paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            ),
            mutating_binding(paramRef={"name": "limits", "parameterNotFoundAction": "Deny"}),
        )
        found = data(await post(client, CONFIG_MAPS, config_map("a")))
        assert found == {"k": "v", "v": "A", "p": "7", "n": "default", "u": found["u"], "may": "true"}
        assert found["u"]
        assert data(await post(client, CONFIG_MAPS, config_map("b", k="other"))) == {"k": "other"}

    with_cluster(scenario)


NO_KEY = "expression 'Object{data: {\"x\": object.data.color}}' resulted in error: no such key: color"


def test_an_error_refuses_or_is_ignored() -> None:
    async def scenario(client: Client) -> None:
        failing = 'Object{data: {"x": object.data.color}}'
        await install(client, mutating(failing, "Object{data: {'y': 'z'}}"), mutating_binding())
        answer = await post(client, CONFIG_MAPS, config_map())
        text = f"policy 'p' with binding 'b' denied request: {NO_KEY}"
        assert tree_of(answer) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": text,
            "reason": "Invalid",
            "details": {"name": "a", "kind": "configmaps", "causes": [{"message": text}]},
            "code": 403,
        }
        path = f"{GROUP}/mutatingadmissionpolicies/p"
        patch = {"spec": {"failurePolicy": "Ignore"}}
        assert (await post(client, path, patch, "PATCH", "merge-patch+json")).status == 200
        # The next one runs all the same.
        assert data(await post(client, CONFIG_MAPS, config_map())) == {"k": "v", "y": "z"}

    with_cluster(scenario)


MATCHES = "which matches field name path from root Object type"
ATOMIC = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs"
CONVERT = "error applying patch: failed to convert patch object to typed object"


@pytest.mark.parametrize(
    ("mutation", "wanted"),
    [
        (
            applied("Object{spec: Object.wrong{size: 2}}"),
            f'type mismatch: unexpected type name "Object.wrong", expected "Object.spec", {MATCHES}',
        ),
        (applied("Object{spec: Object.spec{nope: 2}}"), f"{CONVERT}: .spec.nope: field not declared in schema"),
        (
            applied("Object{spec: Object.spec{size: 'x'}}"),
            f"{CONVERT}: .spec.size: expected numeric (int or float), got string",
        ),
        (
            applied("Object{spec: Object.spec{at: ['x'], ports: [Object.spec.ports{name: 'a', hosts: ['h']}]}}"),
            f"{ATOMIC}: .spec.at, .spec.ports[0].hosts",
        ),
        (
            patched("[JSONPatch{op: 'remove', path: '/spec/none'}]"),
            "JSONPath: error in remove for path: '/spec/none': Unable to remove nonexistent key: none: missing value",
        ),
        (
            patched("[JSONPatch{op: 'add', path: '/none/x', value: 1}]"),
            'JSONPath: add operation does not apply: doc is missing path: "/none/x": missing value',
        ),
        (
            patched("[JSONPatch{op: 'add', path: '/spec', value: Object.spec{a: Object.a{}}}]"),
            f'type mismatch: unexpected type name "Object.a", expected "Object.spec.a", {MATCHES}',
        ),
    ],
)
def test_what_cannot_be_done_to_a_custom_object(mutation: Tree, wanted: str) -> None:
    schema = {**custom_world.SCHEMA, "properties": {**custom_world.SCHEMA["properties"]}}
    spec = schema["properties"]["spec"]
    strings = {"type": "array", "items": {"type": "string"}}
    item = spec["properties"]["ports"]["items"]
    ports = {
        **spec["properties"]["ports"],
        "items": {**item, "properties": {**item["properties"], "hosts": strings}},
    }
    schema["properties"]["spec"] = {**spec, "properties": {**spec["properties"], "at": strings, "ports": ports}}

    async def scenario() -> None:
        async with Cluster() as cluster:
            client = cluster.client()
            await custom_world.put(cluster.server, custom_world.definition(custom_world.version(schema=schema)))
            rules = [rule("widgets", "CREATE", group=custom_world.GROUP)]
            await install(client, mutating(mutation, rules=rules), mutating_binding())
            answer = await post(client, WIDGETS, widget())
            assert answer.status == 403
            assert tree_of(answer)["message"] == f"policy 'p' with binding 'b' denied request: {wanted}"

    aio.run(scenario())


def test_custom_objects_merge_by_their_schema_and_get_its_defaults() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            client = cluster.client()
            await custom_world.put(cluster.server, custom_world.definition())
            rules = [rule("widgets", "CREATE", "UPDATE", group=custom_world.GROUP)]
            mutations = (
                "Object{spec: Object.spec{color: 'blue', ports: [Object.spec.ports{name: 'b', port: 2}]}}",
                patched("[JSONPatch{op: 'remove', path: '/spec/size'}]"),
                # A test that fails is no failure, and nothing of its patch is done.
                patched("[JSONPatch{op: 'replace', path: '/spec/color', value: 'x'}, "
                        "JSONPatch{op: 'test', path: '/spec/color', value: 'y'}]"),
                # The default is there again.
                "Object{spec: Object.spec{color: object.spec.color + string(object.spec.size)}}",
            )  # fmt: skip
            await install(client, mutating(*mutations, rules=rules), mutating_binding())
            made = tree_of(await post(client, WIDGETS, widget(size=9, ports=[{"name": "a", "port": 1}])))
            assert made["spec"] == {
                "size": 3, "color": "blue3", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}],
            }  # fmt: skip

    aio.run(scenario())


@pytest.mark.parametrize("match", ["Equivalent", "Exact"])
def test_policies_see_objects_in_the_version_that_they_match(match: str) -> None:
    """Else whoever writes another version would get past them."""

    async def scenario() -> None:
        async with Cluster() as cluster:
            client = cluster.client()
            versions = [custom_world.version(), custom_world.version("v2", storage=False)]
            await custom_world.put(cluster.server, custom_world.definition(*versions))
            about: Tree = {
                "matchConstraints": {
                    "matchPolicy": match, "resourceRules": [rule("widgets", "CREATE", group=custom_world.GROUP)],
                }
            }  # fmt: skip
            await install(client, mutating("Object{spec: Object.spec{color: object.apiVersion}}", **about))
            await install(client, mutating_binding())
            path, tree = WIDGETS.replace("/v1/", "/v2/"), widget()
            tree["apiVersion"] = f"{custom_world.GROUP}/v2"
            made = tree_of(await post(client, path, tree))
            assert made["apiVersion"] == f"{custom_world.GROUP}/v2"
            assert made["spec"].get("color") == (f"{custom_world.GROUP}/v1" if match == "Equivalent" else None)
            forbids = policy({"expression": "object.apiVersion.endsWith('v2')", "message": "v1"}, name="q", **about)
            await install(client, forbids, binding(policy_name="q"))
            tree["metadata"]["name"] = "other"
            assert (await post(client, path, tree)).status == (422 if match == "Equivalent" else 201)

    aio.run(scenario())


def test_a_patch_that_makes_no_object_of_the_kind() -> None:
    async def scenario(client: Client) -> None:
        await install(client, mutating(patched("[JSONPatch{op: 'add', path: '/dates', value: 1}]")), mutating_binding())
        answer = await post(client, CONFIG_MAPS, config_map())
        assert answer.status == 500
        text = 'strict decoding error: unknown field "dates"'
        assert tree_of(answer)["message"] == f"Internal error occurred: {text}"

    with_cluster(scenario)


def adds(key: str, value: str) -> str:
    return f"Object{{data: {{'{key}': {value}}}}}"


LATER = "has(object.data.z) ? 'seen' : 'early'"


@pytest.mark.parametrize(
    ("again", "wanted"), [("Never", "early"), ("IfNeeded", "seen")]
)  # fmt: skip
def test_who_wants_to_see_later_changes_runs_again(again: str, wanted: str) -> None:
    async def scenario(client: Client) -> None:
        first = mutating(adds("a", LATER), name="a", reinvocationPolicy=again)
        found = await data_with(client, first, mutating(adds("z", "'1'"), name="z"))
        assert found == {"k": "v", "a": wanted, "z": "1"}

    with_cluster(scenario)


def test_there_are_two_rounds_and_no_more() -> None:
    async def scenario(client: Client) -> None:
        counts = "has(object.data.{0}) ? object.data.{0} + 'i' : 'i'"
        policies = [
            mutating(adds(name, counts.format(name)), name=name, reinvocationPolicy="IfNeeded") for name in "abc"
        ]
        assert await data_with(client, policies[0], name="alone") == {"k": "v", "a": "i"}
        assert await data_with(client, *policies[1:]) == {"k": "v", "a": "ii", "b": "ii", "c": "ii"}

    with_cluster(scenario)


def test_webhooks_come_after_policies_and_call_for_another_round(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        webhook.answer = set_data("z", "w")
        await configure(client, configuration("Mutating", webhook.entry(rules=[rule("configmaps", "CREATE")])))
        found = await data_with(client, mutating(adds("a", LATER), reinvocationPolicy="IfNeeded", name="b"))
        assert found == {"k": "v", "z": "w", "a": "seen"}
        assert webhook.requests[0]["object"]["data"] == {"k": "v", "a": "early"}

    with_webhook(tmp_path, scenario)


def test_policies_are_not_the_subject_of_policies() -> None:
    async def scenario(client: Client) -> None:
        everything = rule("*", "CREATE", "UPDATE", group="*", version="*", apiGroups=["*"], apiVersions=["*"])
        await install(
            client,
            mutating(patched("[JSONPatch{op: 'remove', path: '/none'}]"), rules=[everything]),
            mutating_binding(),
        )
        assert (await post(client, CONFIG_MAPS, config_map())).status == 403
        await install(client, mutating("Object{}", name="q"), mutating_binding("q", "q"))
        assert (await client.raw("DELETE", f"{GROUP}/mutatingadmissionpolicies/p")).status == 200
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201

    with_cluster(scenario)


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize("ref", [{"name": "limit"}, {"selector": {"matchLabels": {"is": "one"}}}])
def test_parameters_of_a_custom_kind(kind: str, ref: Tree) -> None:
    """Stored in another version than the policy asks for."""

    async def scenario() -> None:
        async with Cluster() as cluster:
            client = cluster.client()
            versions = [custom_world.version(), custom_world.version("v2", storage=False)]
            await custom_world.put(cluster.server, custom_world.definition(*versions))
            limit = widget("limit", size=7)
            limit["metadata"]["labels"] = {"is": "one"}
            assert (await post(client, WIDGETS, limit)).status == 201
            params = {"apiVersion": f"{custom_world.GROUP}/v2", "kind": "Widget"}
            seen = "string(params.spec.size) + params.apiVersion"
            where = {**ref, "parameterNotFoundAction": "Deny"}
            if kind == "Mutating":
                await install(client, mutating(f"Object{{data: {{'a': {seen}}}}}", paramKind=params))
                await install(client, mutating_binding(paramRef=where))
                assert data(await post(client, CONFIG_MAPS, config_map()))["a"] == f"7{custom_world.GROUP}/v2"
            else:
                await install(client, policy({"expression": "false", "messageExpression": seen}, paramKind=params))
                await install(client, binding(paramRef=where))
                refused = tree_of(await post(client, CONFIG_MAPS, config_map()))
                assert refused["message"].endswith(f"denied request: 7{custom_world.GROUP}/v2")
            await client.raw("DELETE", f"{WIDGETS}/limit")
            assert "no params found" in tree_of(await post(client, CONFIG_MAPS, config_map("b")))["message"]

    aio.run(scenario())


def test_parameters_that_are_not_there() -> None:
    async def scenario(client: Client) -> None:
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await install(client, mutating("Object{}", paramKind=kind))
        ref = {"name": "none", "parameterNotFoundAction": "Deny"}
        await install(client, mutating_binding(paramRef=ref))
        answer = await post(client, CONFIG_MAPS, config_map())
        assert answer.status == 403
        status = tree_of(answer)
        assert status["message"] == (
            "policy 'p' with binding 'b' denied request: failed to configure binding: no params found for policy "
            "binding with `Deny` parameterNotFoundAction"
        )
        assert status["reason"] == "Forbidden"

    with_cluster(scenario)


def test_what_is_counted() -> None:
    async def scenario(client: Client) -> None:
        await install(client, mutating("Object{}", applied("Object{data: {'x': object.none}}")), mutating_binding())
        assert (await post(client, CONFIG_MAPS, config_map())).status == 403
        text = (await client.raw("GET", "/metrics")).body.decode()
        for error in ("no_error", "invalid_error"):
            labels = f'error_type="{error}",policy="p",policy_binding="b"'
            assert f"apiserver_mutating_admission_policy_check_total{{{labels}}} 1.0" in text
            assert f"apiserver_mutating_admission_policy_check_duration_seconds_count{{{labels}}} 1.0" in text

    with_cluster(scenario)
