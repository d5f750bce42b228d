"""Server-side apply: creating, merging, conflicts, force, and what it takes over from others."""

from __future__ import annotations

from typing import Any

import pytest

from unit.server.handlers.api import API, APPLY, CONFIG_MAPS, MERGE, config_map, tree
from wire import Reply


def apply(
    api: API, sent: Any, manager: str = "me", query: str = "", *, user: str | None = None, name: str = ""
) -> Reply:
    name = name or sent["metadata"]["name"]
    path = f"{CONFIG_MAPS}/{name}?fieldManager={manager}{query}"
    return api.json("PATCH", path, sent, Content_Type=APPLY, user=user)


def raw(api: API, name: str, body: str, query: str = "") -> Reply:
    path = f"{CONFIG_MAPS}/{name}?fieldManager=me{query}"
    return api.request("PATCH", path, body.encode(), Content_Type=APPLY)


def test_a_missing_object_is_created(api: API) -> None:
    reply = apply(api, config_map("applied", a="1"))
    assert reply.code == 201
    [entry] = tree(reply)["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("me", "Apply", "v1")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}
    assert apply(api, config_map("applied", a="1")).code == 200


def test_what_is_no_longer_applied_goes_unless_others_own_it(api: API) -> None:
    apply(api, config_map("shrinks", a="1", b="1", c="1"))
    apply(api, config_map("shrinks", b="1"), "other")
    found = tree(apply(api, config_map("shrinks", a="1")))
    assert found["data"] == {"a": "1", "b": "1"}


def test_the_same_again_writes_nothing(api: API) -> None:
    first = apply(api, config_map("again", a="1"))
    api.cluster.clock.advance(60)
    assert apply(api, config_map("again", a="1")).body == first.body


def test_conflicts_name_the_other_managers(api: API) -> None:
    apply(api, config_map("contested", a="1", b="1"), "first")
    reply = apply(api, config_map("contested", a="2"), "second")
    assert reply.told == (409, "Conflict", 'Apply failed with 1 conflict: conflict with "first": .data.a')
    assert reply.status["details"] == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".data.a"}]
    }
    assert apply(api, config_map("contested", a="2", b="2"), "second").told == (
        409,
        "Conflict",
        'Apply failed with 2 conflicts: conflicts with "first":\n- .data.a\n- .data.b',
    )
    assert apply(api, config_map("contested", a="1"), "second").code == 200


def test_conflicts_with_an_update_show_its_version(api: API) -> None:
    api.create("updated", data={"a": "1"})
    assert apply(api, config_map("updated", a="2")).told == (
        409, "Conflict", 'Apply failed with 1 conflict: conflict with "unit-test" using v1: .data.a'
    )  # fmt: skip


def test_force_takes_the_fields(api: API) -> None:
    apply(api, config_map("forced", a="1", b="1"), "first")
    found = tree(apply(api, config_map("forced", a="2"), "second", "&force=true"))
    assert found["data"] == {"a": "2", "b": "1"}
    owners = {entry["manager"]: entry["fieldsV1"]["f:data"] for entry in found["metadata"]["managedFields"]}
    assert owners == {"first": {"f:b": {}}, "second": {"f:a": {}}}
    assert tree(apply(api, config_map("forced"), "second"))["data"] == {"b": "1"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "fieldManager: Required value: is required for apply patch"),
        (f"?fieldManager={'x' * 129}", "fieldManager: Too long: may not be more than 128 bytes"),
        ("?fieldManager=a%07", 'fieldManager: Invalid value: "a\\a": invalid character U+0007 (at position 1)'),
    ],
)
def test_the_field_manager_is_needed(api: API, query: str, message: str) -> None:
    reply = api.json("PATCH", f"{CONFIG_MAPS}/any{query}", config_map("any"), Content_Type=APPLY)
    assert reply.told == (422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {message}')


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("{}", (400, "BadRequest", "invalid object type: /, Kind=")),
        (
            "{apiVersion: v1, kind: Secret, metadata: {name: bad}}",
            (400, "BadRequest", "invalid object type: /v1, Kind=Secret"),
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, managedFields: [{manager: a}]}}",
            (400, "BadRequest", "metadata.managedFields must be nil"),
        ),
        (
            "{apiVersion: v1, kind: ConfigMap}",
            (400, "BadRequest", "the name of the object (bad based on URL) was undeterminable: name must be provided"),
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}",
            (400, "BadRequest", "the name of the object (other) does not match the name on the URL (bad)"),
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, namespace: other}}",
            (
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, uid: u}}",
            (
                409,
                "Conflict",
                (
                    'Operation cannot be fulfilled on configmaps "bad": uid mismatch: the provided object '
                    "specified uid u, "
                    "and no existing object was found"
                ),
            ),
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad}, spec: 1}",
            (
                500,
                "",
                "failed to create typed patch object (/bad; /v1, Kind=ConfigMap): .spec: field not declared in schema",
            ),
        ),
    ],
)
def test_refusals(api: API, body: str, told: tuple[int, str, str]) -> None:
    assert raw(api, "bad", body).told == told
    assert api.json("GET", f"{CONFIG_MAPS}/bad").code == 404


def test_bad_yaml(api: API) -> None:
    code, reason, message = raw(api, "bad", "a: [").told
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("error decoding YAML: error converting YAML to JSON: yaml: ")


def test_repeated_keys(api: API) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: repeats}\ndata:\n  a: '1'\n  a: '2'\n"
    assert raw(api, "repeats", body, "&fieldValidation=Strict").told == (
        400,
        "BadRequest",
        'error strict decoding YAML: yaml: unmarshal errors:\n  line 6: key "a" already set in map',
    )
    assert tree(raw(api, "repeats", body))["data"] == {"a": "2"}


def test_creating_needs_the_right_to_create(api: API) -> None:
    api.allow("patcher", ["patch"], "", "configmaps")
    assert apply(api, config_map("by-patcher"), user="patcher").told == (
        403,
        "Forbidden",
        (
            'configmaps "by-patcher" is forbidden: User "patcher" cannot create resource "configmaps" in API '
            'group "" in the namespace "default"'
        ),
    )
    api.create("by-patcher")
    assert apply(api, config_map("by-patcher", a="1"), user="patcher").code == 200


def test_a_dry_run_stores_nothing(api: API) -> None:
    assert apply(api, config_map("dry-apply"), query="&dryRun=All").code == 201
    assert api.json("GET", f"{CONFIG_MAPS}/dry-apply").code == 404


def test_another_way_of_writing_takes_what_it_changes(api: API) -> None:
    apply(api, config_map("taken", a="1", b="1"))
    path = f"{CONFIG_MAPS}/taken?fieldManager=patcher"
    found = tree(api.json("PATCH", path, {"data": {"a": "2"}}, Content_Type=MERGE))
    owners = {entry["manager"]: entry["fieldsV1"]["f:data"] for entry in found["metadata"]["managedFields"]}
    assert owners == {"me": {"f:b": {}}, "patcher": {"f:a": {}}}


@pytest.mark.parametrize("entries", [[], [{}]])
def test_ownership_can_be_forgotten(api: API, entries: list[Any]) -> None:
    api.create(f"forgets-{len(entries)}", data={"a": "1"})
    change = {"metadata": {"managedFields": entries}}
    found = tree(api.json("PATCH", f"{CONFIG_MAPS}/forgets-{len(entries)}", change, Content_Type=MERGE))
    assert "managedFields" not in found["metadata"]
