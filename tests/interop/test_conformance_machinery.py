"""Kubernetes' promises for the kinds and the machinery that are served, each test named after the spec that it plays.

With the official Python client (Kubernetes 1.36, test/e2e/{apimachinery,auth,common/node,instrumentation}).
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, watch

from interop_world import InteropWorld, interop_world, unique

CONFIG: Any = config
WATCH: Any = watch
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteropWorld]:
    with interop_world(tmp_path_factory.mktemp("machinery")) as world:
        yield world


@pytest.fixture
def api(world: InteropWorld) -> Iterator[Any]:
    with CONFIG.new_client_from_config(str(world.kubeconfig)) as opened:
        yield opened


@pytest.fixture
def core(api: Any) -> Any:  # the models say None wherever the server could leave something out
    return client.CoreV1Api(api)


@pytest.fixture
def namespace(core: Any) -> Iterator[str]:
    name = unique("e2e")
    core.create_namespace({"metadata": {"name": name, "labels": {"e2e-run": name}}})
    yield name
    core.delete_namespace(name)


def ask(api: Any, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and JSON of what the library has no method for. ``headers``: with ``_`` for ``-``."""
    sent = {"Accept": "application/json", "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        answer = api.rest_client.request(method, api.configuration.host + path, headers=sent, body=body)
    except client.ApiException as err:
        return err.status, json.loads(err.body or "{}")
    answer.read()
    return answer.status, json.loads(answer.data)


def next_events(stream: Any, count: int) -> list[tuple[str, str]]:
    found = [next(stream) for _ in range(count)]
    return [(event["type"], event["raw_object"]["metadata"]["name"]) for event in found]


# ------------------------------------------------------------------ sig-auth


def test_self_subject_review_should_support_selfsubjectreview_api_operations(api: Any) -> None:
    """[sig-auth] SelfSubjectReview should support SelfSubjectReview API operations [Conformance]."""
    versions = [each["version"] for each in ask(api, "GET", "/apis/authentication.k8s.io")[1]["versions"]]
    assert "v1" in versions
    resources = ask(api, "GET", "/apis/authentication.k8s.io/v1")[1]["resources"]
    assert [r["verbs"] for r in resources if r["name"] == "selfsubjectreviews"] == [["create"]]
    review: Any = client.AuthenticationV1Api(api).create_self_subject_review(client.V1SelfSubjectReview())
    assert review.status.user_info.username == "kubernetes-admin"
    headers = {"Impersonate_User": "jane", "Impersonate_Group": "dev", "Impersonate_Extra_Scopes": "one"}
    _, seen = ask(api, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, **headers)
    user = seen["status"]["userInfo"]
    assert (user["username"], user["extra"]) == ("jane", {"scopes": ["one"]})
    assert set(user["groups"]) == {"dev", "system:authenticated"}


def test_service_accounts_should_run_through_the_lifecycle(core: Any, namespace: str) -> None:
    """[sig-auth] ServiceAccounts should run through the lifecycle of a ServiceAccount, should update a ServiceAccount,
    no secret-based service account token should be auto-generated [Conformance]."""
    made = core.create_namespaced_service_account(
        namespace, {"metadata": {"name": "testserviceaccount", "labels": {"test": "static"}}}
    )
    selected = {"label_selector": "test=static", "timeout_seconds": 30}
    stream = WATCH.Watch().stream(core.list_namespaced_service_account, namespace, **selected)
    assert next_events(stream, 1) == [("ADDED", "testserviceaccount")]
    core.patch_namespaced_service_account("testserviceaccount", namespace, {"automountServiceAccountToken": False})
    assert next_events(stream, 1) == [("MODIFIED", "testserviceaccount")]
    found = core.list_service_account_for_all_namespaces(label_selector="test=static").items
    assert [(each.metadata.uid, each.automount_service_account_token) for each in found] == [(made.metadata.uid, False)]
    core.delete_collection_namespaced_service_account(namespace, label_selector="test=static")
    assert next_events(stream, 1) == [("DELETED", "testserviceaccount")]
    stream.close()
    assert core.list_namespaced_secret(namespace).items == []


def test_service_accounts_should_guarantee_kube_root_ca_crt_exist_in_any_namespace(core: Any, namespace: str) -> None:
    """[sig-auth] ServiceAccounts should guarantee kube-root-ca.crt exist in any namespace [Conformance]."""
    name, only = "kube-root-ca.crt", {"field_selector": "metadata.name=kube-root-ca.crt", "timeout_seconds": 30}
    stream = WATCH.Watch().stream(core.list_namespaced_config_map, namespace, **only)
    assert next_events(stream, 1) == [("ADDED", name)]
    published = core.read_namespaced_config_map(name, namespace).data
    core.delete_namespaced_config_map(name, namespace)
    assert next_events(stream, 2) == [("DELETED", name), ("ADDED", name)]
    core.patch_namespaced_config_map(name, namespace, {"data": {"ca.crt": ""}})
    assert next_events(stream, 2) == [("MODIFIED", name), ("MODIFIED", name)]
    stream.close()
    assert core.read_namespaced_config_map(name, namespace).data == published


@pytest.mark.parametrize("there", [False, True], ids=["non-existent", "existing"])
def test_node_authorizer_getting_what_is_not_for_the_node(
    world: InteropWorld, core: Any, namespace: str, there: bool
) -> None:
    """[sig-auth] [Feature:NodeAuthorizer] Getting a non-existent secret should exit with the Forbidden error, not a
    NotFound error; an existing one too; a ConfigMap too; a node shouldn't be able to create or delete another node."""
    if there:
        core.create_namespaced_secret(namespace, {"metadata": {"name": "foo"}})
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "foo"}})
    headers = {"Impersonate_User": "system:node:node1", "Impersonate_Group": "system:nodes"}
    with CONFIG.new_client_from_config(str(world.super_kubeconfig)) as api:
        for path in (f"/api/v1/namespaces/{namespace}/secrets/foo", f"/api/v1/namespaces/{namespace}/configmaps/foo"):
            status, answer = ask(api, "GET", path, **headers)
            assert (status, answer["reason"]) == (403, "Forbidden")
        other = {"metadata": {"name": "node2"}}
        assert ask(api, "POST", "/api/v1/nodes", other, **headers)[0] == 403
        assert ask(api, "DELETE", "/api/v1/nodes/node2", **headers)[0] == 403


# ------------------------------------------------------------------ kinds


def test_config_map_should_run_through_a_configmap_lifecycle(core: Any, namespace: str) -> None:
    """[sig-node] ConfigMap should run through a ConfigMap lifecycle [Conformance]; immutable ones; empty keys."""
    labelled = {"metadata": {"name": "test", "labels": {"static": "true"}}, "data": {"a": "b"}}
    core.create_namespaced_config_map(namespace, labelled)
    core.patch_namespaced_config_map(
        "test", namespace, {"metadata": {"labels": {"patched": "true"}}, "data": {"c": "d"}}
    )
    found = core.list_config_map_for_all_namespaces(label_selector="static=true,patched=true").items
    assert [each.data for each in found] == [{"a": "b", "c": "d"}]
    core.delete_collection_namespaced_config_map(namespace, label_selector="static=true")
    assert core.list_namespaced_config_map(namespace, label_selector="static=true").items == []
    with pytest.raises(client.ApiException) as refused:
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "empty"}, "data": {"": "x"}})
    assert refused.value.status == 422
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "i"}, "data": {"a": "b"}, "immutable": True})
    for change in ({"data": {"a": "c"}}, {"immutable": False}):
        with pytest.raises(client.ApiException) as refused:
            core.patch_namespaced_config_map("i", namespace, change)
        assert refused.value.status == 422
    core.patch_namespaced_config_map("i", namespace, {"metadata": {"labels": {"allowed": "yes"}}})


def test_secrets_should_patch_a_secret(core: Any, namespace: str) -> None:
    """[sig-node] Secrets should patch a secret [Conformance]; should be immutable if immutable is set."""
    core.create_namespaced_secret(
        namespace, {"metadata": {"name": "s", "labels": {"t": "1"}}, "stringData": {"k": "v"}}
    )
    assert core.read_namespaced_secret("s", namespace).data == {"k": "dg=="}
    core.patch_namespaced_secret("s", namespace, {"data": {"k": base64.b64encode(b"w").decode()}, "immutable": True})
    assert core.list_secret_for_all_namespaces(label_selector="t=1").items[0].data == {"k": "dw=="}
    with pytest.raises(client.ApiException) as refused:
        core.patch_namespaced_secret("s", namespace, {"data": {"k": "eA=="}})
    assert refused.value.status == 422
    core.delete_collection_namespaced_secret(namespace, label_selector="t=1")
    assert core.list_namespaced_secret(namespace).items == []


def test_namespaces_should_apply_changes_to_a_namespace_status_and_finalizers(api: Any, core: Any) -> None:
    """[sig-api-machinery] Namespaces should patch a Namespace, apply changes to a namespace status, apply an update to
    a Namespace, apply a finalizer to a Namespace [Conformance]."""
    name = unique("ns")
    core.create_namespace({"metadata": {"name": name}})
    patched = core.patch_namespace(name, {"metadata": {"labels": {"testLabel": "testValue"}}})
    assert patched.metadata.labels["testLabel"] == "testValue"
    condition = {"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "Patched by an e2e test"}
    core.patch_namespace_status(name, {"status": {"conditions": [condition]}})
    status = core.read_namespace_status(name)
    assert [each.type for each in status.status.conditions] == ["StatusPatch"]
    status.status.conditions[0].type = "StatusUpdate"
    assert core.replace_namespace_status(name, status).status.conditions[0].type == "StatusUpdate"
    tree = ask(api, "GET", f"/api/v1/namespaces/{name}")[1]
    tree["spec"]["finalizers"] = ["kubernetes", "e2e.example.com/fakeFinalizer"]
    answered = ask(api, "PUT", f"/api/v1/namespaces/{name}/finalize", tree)[1]
    assert answered["spec"]["finalizers"] == ["kubernetes", "e2e.example.com/fakeFinalizer"]
    core.delete_namespace(name)
    held = ask(api, "GET", f"/api/v1/namespaces/{name}")[1]
    assert held["status"]["phase"] == "Terminating"
    while (held := ask(api, "GET", f"/api/v1/namespaces/{name}")[1])["spec"].get("finalizers") != [
        "e2e.example.com/fakeFinalizer"
    ]:
        assert held["status"]["phase"] == "Terminating"  # the controller takes its own finalizer away
    held["spec"]["finalizers"] = []
    assert ask(api, "PUT", f"/api/v1/namespaces/{name}/finalize", held)[0] == 200
    assert ask(api, "GET", f"/api/v1/namespaces/{name}")[0] == 404


def test_lease_api_should_be_available(api: Any, namespace: str) -> None:
    """[sig-node] Lease lease API should be available [Conformance]."""
    leases: Any = client.CoordinationV1Api(api)
    now = dt.datetime(2026, 1, 1, 0, 0, 0, 5, dt.UTC)
    spec = client.V1LeaseSpec(
        holder_identity="holder", lease_duration_seconds=30, acquire_time=now, renew_time=now, lease_transitions=0
    )
    leases.create_namespaced_lease(namespace, client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=spec))
    read = leases.read_namespaced_lease("l", namespace)
    assert (read.spec.holder_identity, read.spec.renew_time) == ("holder", now)
    read.spec.lease_transitions, read.metadata.labels = 1, {"deletecollection": "true"}
    assert leases.replace_namespaced_lease("l", namespace, read).spec.lease_transitions == 1
    assert leases.patch_namespaced_lease("l", namespace, {"spec": {"leaseTransitions": 2}}).spec.lease_transitions == 2
    leases.delete_collection_namespaced_lease(namespace, label_selector="deletecollection=true")
    assert leases.list_namespaced_lease(namespace).items == []


def test_events_should_manage_the_lifecycle_of_an_event(api: Any, core: Any, namespace: str) -> None:
    """[sig-instrumentation] Events should manage the lifecycle of an event, should delete a collection of events;
    Events API should ensure that an event can be fetched, patched, deleted, and listed [Conformance]."""
    about = {"namespace": namespace, "kind": "ConfigMap", "name": "x"}
    made = {"metadata": {"name": "e", "labels": {"t": "1"}}, "involvedObject": about, "reason": "Test", "message": "m"}
    core.create_namespaced_event(namespace, made)
    core.patch_namespaced_event("e", namespace, {"message": "patched"})
    assert core.list_event_for_all_namespaces(label_selector="t=1").items[0].message == "patched"
    newer = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    found = ask(api, "GET", f"{newer}?fieldSelector=reason%3DTest")[1]["items"]
    assert [(each["note"], each["regarding"]["name"]) for each in found] == [("patched", "x")]
    series = {"series": {"count": 100, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}
    assert ask(api, "PATCH", f"{newer}/e", series, Content_Type=MERGE)[1]["series"]["count"] == 100
    assert ask(api, "DELETE", f"{newer}/e")[0] == 200
    for number in range(3):
        core.create_namespaced_event(namespace, {**made, "metadata": {"name": f"e{number}", "labels": {"t": "1"}}})
    newest: Any = client.EventsV1Api(api)
    newest.delete_collection_namespaced_event(namespace, label_selector="t=1")
    assert core.list_namespaced_event(namespace).items == []


# ------------------------------------------------------------------ sig-api-machinery


def test_watchers_should_observe_notifications_from_a_version_and_through_a_selector(core: Any, namespace: str) -> None:
    """[sig-api-machinery] Watchers should observe add, update, and delete watch notifications on configmaps; start
    from a specific resource version; restart from the last one observed; observe an object deletion if it stops
    meeting the requirements of the selector [Conformance]."""
    labels = {"watch-this": "a"}
    first = core.create_namespaced_config_map(namespace, {"metadata": {"name": "w", "labels": labels}})
    for value in ("1", "2"):
        core.patch_namespaced_config_map("w", namespace, {"data": {"mutation": value}})
    core.patch_namespaced_config_map("w", namespace, {"metadata": {"labels": {"watch-this": "other"}}})
    core.patch_namespaced_config_map("w", namespace, {"data": {"mutation": "3"}})
    core.patch_namespaced_config_map("w", namespace, {"metadata": {"labels": {"watch-this": "a"}}})
    core.delete_namespaced_config_map("w", namespace)
    selected = {"label_selector": "watch-this=a", "timeout_seconds": 30}

    def events_after(version: str, count: int) -> list[tuple[str, str, str]]:
        stream = WATCH.Watch().stream(core.list_namespaced_config_map, namespace, resource_version=version, **selected)
        found = [next(stream) for _ in range(count)]
        stream.close()
        return [
            (
                e["type"],
                (e["raw_object"].get("data") or {}).get("mutation", ""),
                e["raw_object"]["metadata"]["resourceVersion"],
            )
            for e in found
        ]

    seen = events_after(first.metadata.resource_version, 5)
    assert [each[:2] for each in seen] == [
        ("MODIFIED", "1"), ("MODIFIED", "2"), ("DELETED", "2"), ("ADDED", "3"), ("DELETED", "3"),
    ]  # fmt: skip
    assert events_after(seen[1][2], 3) == seen[2:]
    # Concurrent watches see one order.
    assert events_after(first.metadata.resource_version, 5) == seen


def test_servers_with_support_for_table_transformation(api: Any, core: Any, namespace: str) -> None:
    """[sig-api-machinery] Servers with support for Table transformation should return generic metadata details across
    all namespaces, chunks of table results for list calls, a 406 for a backend which does not implement metadata."""
    for number in range(5):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": f"t{number}", "labels": {"table": "yes"}}})
    path, rows = f"/api/v1/namespaces/{namespace}/configmaps?labelSelector=table%3Dyes&limit=2", []
    _, page = ask(api, "GET", path, Accept=TABLE)
    assert (page["kind"], page["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    while True:
        rows += [row["object"]["metadata"]["name"] for row in page["rows"]]
        token = page["metadata"].get("continue")
        if not token:
            break
        _, page = ask(api, "GET", f"{path}&continue={token}", Accept=TABLE)
    assert rows == [f"t{number}" for number in range(5)]
    _, everywhere = ask(api, "GET", "/api/v1/configmaps", Accept=TABLE)
    assert everywhere["columnDefinitions"][0]["name"] == "Name"
    assert all(row["object"]["kind"] == "PartialObjectMetadata" for row in everywhere["rows"])
    review = {"spec": {"resourceAttributes": {"verb": "get"}}}
    status, _ = ask(api, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, Accept=TABLE)
    assert status == 406


def test_discovery_should_validate_preferredversion_and_locate_the_groupversion(api: Any) -> None:
    """[sig-api-machinery] Discovery should validate PreferredVersion for each APIGroup, should locate the groupVersion
    and a resource within each APIGroup, should accurately determine present and missing resources [Conformance]."""
    groups = ask(api, "GET", "/apis")[1]["groups"]
    for group in groups:
        one = ask(api, "GET", f"/apis/{group['name']}")[1]
        assert one["preferredVersion"] in one["versions"] == group["versions"]
        for version in one["versions"]:
            listed = ask(api, "GET", f"/apis/{version['groupVersion']}")[1]
            assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", version["groupVersion"])
            assert listed["resources"]
    assert len(groups) > 5
    names = {resource["name"] for resource in ask(api, "GET", "/api/v1")[1]["resources"]}
    assert {"namespaces", "secrets", "serviceaccounts/token"} <= names and "not-these" not in names


def test_field_validation_should_detect_unknown_fields(api: Any, namespace: str) -> None:
    """[sig-api-machinery] FieldValidation should detect unknown metadata fields and root fields of a typed object."""
    path = f"/api/v1/namespaces/{namespace}/configmaps?fieldManager=field_validation_mgr"
    body = {"metadata": {"name": "f", "foo": "1"}, "bar": 2}
    status, answer = ask(api, "POST", f"{path}&fieldValidation=Strict", body)
    assert status == 400
    assert 'unknown field "metadata.foo"' in answer["message"] and 'unknown field "bar"' in answer["message"]
    assert ask(api, "POST", f"{path}&fieldValidation=Ignore", body)[0] == 201
    item = f"/api/v1/namespaces/{namespace}/configmaps/f?fieldManager=m&fieldValidation="
    strategic = "application/strategic-merge-patch+json"
    for kind, change in ((MERGE, {"baz": 1}), (strategic, {"metadata": {"foo": "1"}})):
        assert ask(api, "PATCH", f"{item}Strict", change, Content_Type=kind)[0] in (400, 422)
        assert ask(api, "PATCH", f"{item}Warn", change, Content_Type=kind)[0] == 200


def test_server_side_apply_should_create_work_for_subresources_and_ignore_conflicts_by_force(
    api: Any, core: Any, namespace: str
) -> None:
    """[sig-api-machinery] ServerSideApply should create an applied object if it does not already exist, should work
    for subresources, should ignore conflict errors if force apply is used, should remove a field if it is owned but
    removed in the apply request."""

    def apply(path: str, tree: Any, manager: str, more: str = "") -> tuple[int, Any]:
        return ask(api, "PATCH", f"{path}?fieldManager={manager}{more}", tree, Content_Type=APPLY)

    path = f"/api/v1/namespaces/{namespace}/configmaps/a"
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
    assert apply(path, wanted, "one")[0] == 201
    other = {**wanted, "data": {"x": "2"}}
    status, conflict = apply(path, other, "two")
    assert (status, conflict["reason"]) == (409, "Conflict")
    assert conflict["details"]["causes"][0]["field"] == ".data.x"
    assert apply(path, other, "two", "&force=true")[1]["data"] == {"x": "2", "y": "1"}
    assert apply(path, {**wanted, "data": {}}, "one")[1]["data"] == {"x": "2"}
    node = unique("node")
    core.create_node({"metadata": {"name": node}})
    ready = {"type": "Ready", "status": "True", "reason": "R", "message": "m"}
    applied = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": {"conditions": [ready]}}
    _, answer = apply(f"/api/v1/nodes/{node}/status", applied, "kubelet")
    assert answer["status"]["conditions"][0]["type"] == "Ready"
    owners = {entry["manager"]: entry.get("subresource") for entry in answer["metadata"]["managedFields"]}
    assert owners["kubelet"] == "status"
    core.delete_node(node)
