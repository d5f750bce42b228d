"""PUT: replacing, creating where the kind allows it, and the checks between body, URL and stored object."""

from __future__ import annotations

from typing import Any

import pytest

from unit.server.handlers.api import API, CONFIG_MAPS, LEASES, config_map, tree

NODES = "/api/v1/nodes"


def test_the_object_is_replaced(api: API) -> None:
    made = api.create("replaced", data={"a": "1", "b": "1"})
    reply = api.json("PUT", f"{CONFIG_MAPS}/replaced", config_map("replaced", a="2"))
    assert reply.code == 200
    found = tree(reply)
    assert found["data"] == {"a": "2"}
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert int(found["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_a_write_that_changes_nothing_is_none(api: API) -> None:
    made = api.create("same", data={"a": "1"})
    assert tree(api.json("PUT", f"{CONFIG_MAPS}/same", made)) == made
    bare = config_map("same", a="1")
    assert (
        tree(api.json("PUT", f"{CONFIG_MAPS}/same", bare))["metadata"]["resourceVersion"]
        == (made["metadata"]["resourceVersion"])
    )


def test_a_dry_run_changes_nothing(api: API) -> None:
    made = api.create("dry-update", data={"a": "1"})
    reply = api.json("PUT", f"{CONFIG_MAPS}/dry-update?dryRun=All", config_map("dry-update", a="2"))
    assert (reply.code, tree(reply)["data"]) == (200, {"a": "2"})
    assert tree(api.json("GET", f"{CONFIG_MAPS}/dry-update")) == made


def test_only_the_latest_version_may_be_replaced(api: API) -> None:
    first = api.create("raced", data={"a": "1"})
    second = tree(api.json("PUT", f"{CONFIG_MAPS}/raced", first | {"data": {"a": "2"}}))
    assert api.json("PUT", f"{CONFIG_MAPS}/raced", first | {"data": {"a": "3"}}).told == (
        409,
        "Conflict",
        (
            'Operation cannot be fulfilled on configmaps "raced": the object has been modified; please apply '
            "your changes "
            "to the latest version and try again"
        ),
    )
    assert tree(api.json("GET", f"{CONFIG_MAPS}/raced")) == second


def test_only_the_same_object_may_be_replaced(api: API) -> None:
    made = api.create("reborn")
    sent = config_map("reborn", a="1")
    sent["metadata"]["uid"] = "another"
    code, reason, message = api.json("PUT", f"{CONFIG_MAPS}/reborn", sent).told
    assert (code, reason) == (409, "Conflict")
    assert message == (
        'Operation cannot be fulfilled on configmaps "reborn": StorageError: invalid object, Code: 4, Key: '
        "/registry/configmaps/default/reborn, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
        f"precondition: another, UID in object meta: {made['metadata']['uid']}"
    )
    sent["metadata"]["uid"] = made["metadata"]["uid"]
    assert api.json("PUT", f"{CONFIG_MAPS}/reborn", sent).code == 200


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "the name of the object (checked based on URL) was undeterminable: name must be provided"),
        ({"name": ""}, "the name of the object (checked based on URL) was undeterminable: name must be provided"),
        ({"name": "other"}, "the name of the object (other) does not match the name on the URL (checked)"),
        (
            {"name": "checked", "namespace": "other"},
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
def test_body_and_url_must_agree(api: API, metadata: dict[str, str], message: str) -> None:
    assert api.json("PUT", f"{CONFIG_MAPS}/checked", {"metadata": metadata}).told == (400, "BadRequest", message)


def test_most_kinds_are_not_created_by_a_put(api: API) -> None:
    assert api.json("PUT", f"{CONFIG_MAPS}/absent", config_map("absent")).told == (
        404, "NotFound", 'configmaps "absent" not found'
    )  # fmt: skip


def test_some_kinds_are_created_by_a_put(api: API) -> None:
    reply = api.json("PUT", f"{LEASES}/put", {"metadata": {"name": "put"}, "spec": {"holderIdentity": "me"}})
    assert (reply.code, tree(reply)["spec"]) == (201, {"holderIdentity": "me"})


def test_creating_by_put_needs_the_right_to_create(api: API) -> None:
    api.allow("updater", ["update"], "coordination.k8s.io", "leases")
    sent: dict[str, Any] = {"metadata": {"name": "by-updater"}}
    assert api.json("PUT", f"{LEASES}/by-updater", sent, user="updater").told == (
        403,
        "Forbidden",
        (
            'leases.coordination.k8s.io "by-updater" is forbidden: User "updater" cannot create resource '
            '"leases" in API group "coordination.k8s.io" in the namespace "default"'
        ),
    )
    made = api.create("by-updater", LEASES)
    assert api.json("PUT", f"{LEASES}/by-updater", made | {"spec": {"holderIdentity": "x"}}, user="updater").code == 200


def test_a_subresource_writes_its_part_only(api: API) -> None:
    made = api.create("node-b", NODES)
    sent = made | {"spec": {"unschedulable": True}, "status": {"phase": "Running"}}
    found = tree(api.json("PUT", f"{NODES}/node-b/status", sent))
    assert found["status"]["phase"] == "Running"
    assert "unschedulable" not in found["spec"]
    sent = found | {"spec": {"unschedulable": True}, "status": {"phase": "Pending"}}
    found = tree(api.json("PUT", f"{NODES}/node-b", sent))
    assert found["status"]["phase"] == "Running"
    assert found["spec"]["unschedulable"] is True


def test_an_immutable_field(api: API) -> None:
    api.create("fixed", data={"a": "1"}, immutable=True)
    code, reason, message = api.json("PUT", f"{CONFIG_MAPS}/fixed", config_map("fixed", a="2")).told
    assert (code, reason) == (422, "Invalid")
    assert message.startswith('ConfigMap "fixed" is invalid: ')
    assert "field is immutable when `immutable` is set" in message
