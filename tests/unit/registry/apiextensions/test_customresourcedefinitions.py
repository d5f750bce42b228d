"""How a definition is created, changed and deleted."""

from __future__ import annotations

import copy
import json
from typing import Any

from asynctest import async_test
from custom_world import GROUP, ask, definition, version
from definition_world import NAME, PATH, change, conditions, create, is_settled, until
from kubevouch.testing import Cluster

APPLY_PATCH = "application/apply-patch+yaml"
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


@async_test
async def test_what_clients_say_of_the_status_of_a_new_definition_is_dropped() -> None:
    async with Cluster() as cluster:
        manifest = definition()
        manifest["metadata"]["generation"] = 7
        manifest["status"] = {"storedVersions": ["v9"], "acceptedNames": {"plural": "x", "kind": "X"}}
        made = await create(cluster.client(), manifest)
        assert made["status"] == {
            "conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"],
        }  # fmt: skip
        assert made["metadata"]["generation"] == 1
        assert made["spec"]["conversion"] == {"strategy": "None"}


@async_test
async def test_an_update_keeps_the_status_and_counts_what_changes_the_spec() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await create(client, definition())
        await until(client, is_settled)
        _, found = await change(client, {"status": {"storedVersions": []}, "metadata": {"labels": {"a": "b"}}})
        assert (found["metadata"]["generation"], found["status"]["storedVersions"]) == (1, ["v1"])
        versions = [version("v2"), version("v1", storage=False)]
        _, found = await change(client, {"spec": {"versions": versions}})
        assert (found["metadata"]["generation"], found["status"]["storedVersions"]) == (2, ["v1", "v2"])
        _, found = await change(client, {"spec": {"versions": [version("v1"), version("v2", storage=False)]}})
        assert (found["metadata"]["generation"], found["status"]["storedVersions"]) == (3, ["v1", "v2"])


@async_test
async def test_status_takes_labels_and_never_the_spec() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await create(client, definition())
        await until(client, is_settled)
        patch = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"scope": "Cluster"},
            "status": {"storedVersions": ["v7"]},
        }
        code, found = await change(client, patch, subresource="status")
        assert code == 200
        assert found["metadata"]["labels"] == {"a": "b"}
        assert (found["spec"]["scope"], found["metadata"]["generation"]) == ("Namespaced", 1)
        assert found["status"]["storedVersions"] == ["v7"]
        _, found = await change(client, {"status": {"storedVersions": []}}, subresource="status")
        assert found["status"]["storedVersions"] == ["v1"]


@async_test
async def test_an_update_says_which_version_it_was_made_from() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await create(client, definition())
        answer = await ask(client, "PUT", f"{PATH}/{NAME}", definition())
        assert json.loads(answer.body)["message"] == (
            f'customresourcedefinitions.apiextensions.k8s.io "{NAME}" is invalid: metadata.resourceVersion: Invalid '
            "value: 0: must be specified for an update"
        )
        manifest = definition(plural="gadgets", kind="Gadget")
        answer = await ask(client, "PUT", f"{PATH}/gadgets.{GROUP}", manifest)
        assert answer.status == 404


@async_test
async def test_its_objects_go_before_a_definition() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        manifest = definition()
        manifest["metadata"]["finalizers"] = ["example.com/hold"]
        made = await create(client, manifest)
        await until(client, is_settled)
        for wanted, what in (({"uid": "x"}, "UID"), ({"resourceVersion": "1"}, "ResourceVersion")):
            answer = await ask(client, "DELETE", f"{PATH}/{NAME}", {"preconditions": wanted})
            found = json.loads(answer.body)
            assert (found["code"], found["details"]["kind"]) == (409, "customresourcedefinitions")
            assert f"Precondition failed: {what} in precondition: {next(iter(wanted.values()))}," in found["message"]
        answer = await ask(client, "DELETE", f"{PATH}/{NAME}", {"propagationPolicy": "Foreground"})
        found = json.loads(answer.body)
        assert found["metadata"]["finalizers"] == ["example.com/hold", _CLEANUP]
        assert found["metadata"]["generation"] == made["metadata"]["generation"]
        assert "deletionTimestamp" in found["metadata"]
        assert "deletionGracePeriodSeconds" not in found["metadata"]
        assert conditions(found)["Terminating"] == (
            "True", "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        )  # fmt: skip


@async_test
async def test_a_definition_is_applied() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        path = f"{PATH}/{NAME}?fieldManager=me"
        first = definition()
        answer = await ask(client, "PATCH", path, first, APPLY_PATCH)
        assert answer.status == 201
        await until(client, is_settled)
        manifest = copy.deepcopy(first)
        manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = {"type": "string"}
        answer = await ask(client, "PATCH", path, manifest, APPLY_PATCH)
        assert answer.status == 200, answer.body
        found = json.loads(answer.body)
        assert "more" in found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        (mine,) = (each for each in found["metadata"]["managedFields"] if each["manager"] == "me")
        assert mine["fieldsV1"]["f:spec"]["f:versions"] == {}
        answer = await ask(client, "PATCH", f"{path[:-2]}other", first, APPLY_PATCH)
        assert json.loads(answer.body)["message"] == 'Apply failed with 1 conflict: conflict with "me": .spec.versions'


@async_test
async def test_a_definition_may_have_as_many_elements_as_a_body() -> None:
    """Those of real projects have more lines than any other object has elements."""

    def manifest(size: int) -> Any:
        return definition(version("v1", {"type": "object", "properties": {"n": {"enum": [*range(size)], **integer}}}))

    integer = {"type": "integer"}
    async with Cluster() as cluster:
        client = cluster.client()
        await create(client, manifest(30_000))
        await until(client, is_settled)
        answer = await ask(client, "POST", PATH, manifest(100_001))
        assert answer.status == 413
