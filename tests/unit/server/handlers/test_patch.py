"""PATCH in its three older types; apply has a file of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unit.server.handlers.api import API, CONFIG_MAPS, JSON_PATCH, LEASES, MERGE, STRATEGIC, TABLE, tree

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SERVICE_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def patch(api: API, path: str, change: Any, kind: str, **headers: str) -> Any:
    return api.json("PATCH", path, change, Content_Type=kind, **headers)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (MERGE, {"data": {"a": "2", "b": None}}),
        (STRATEGIC, {"data": {"a": "2", "b": None}}),
        (
            JSON_PATCH,
            [{"op": "replace", "path": "/data/a", "value": "2"}, {"op": "remove", "path": "/data/b"}],
        ),
        (f"{MERGE}; charset=utf-8", {"data": {"a": "2", "b": None}}),
    ],
)
def test_the_three_types_change_what_they_name(api: API, kind: str, change: Any) -> None:
    made = api.create("patched", data={"a": "1", "b": "1", "c": "1"})
    reply = patch(api, f"{CONFIG_MAPS}/patched", change, kind)
    assert reply.code == 200
    assert tree(reply)["data"] == {"a": "2", "c": "1"}
    assert tree(reply)["metadata"]["uid"] == made["metadata"]["uid"]
    assert api.json("DELETE", f"{CONFIG_MAPS}/patched").code == 200


def test_a_patch_that_changes_nothing_writes_nothing(api: API) -> None:
    made = api.create("patched-same", data={"a": "1"})
    assert tree(patch(api, f"{CONFIG_MAPS}/patched-same", {"data": {"a": "1"}}, MERGE)) == made
    assert tree(patch(api, f"{CONFIG_MAPS}/patched-same", {}, STRATEGIC)) == made


def test_lists_with_a_merge_key_merge_under_strategic_only(api: API) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}
    meta = {"name": "owned-patch", "ownerReferences": [owner]}
    api.create("owned-patch", metadata=meta)
    change = {"metadata": {"ownerReferences": [owner | {"uid": "2"}]}}
    path = f"{CONFIG_MAPS}/owned-patch"
    found = tree(patch(api, path, change, STRATEGIC))["metadata"]["ownerReferences"]
    assert [reference["uid"] for reference in found] == ["2", "1"]
    found = tree(patch(api, path, change, MERGE))["metadata"]["ownerReferences"]
    assert [reference["uid"] for reference in found] == ["2"]


@pytest.mark.parametrize("kind", ["", "application/json", "application/yaml", "text/plain"])
def test_other_types_are_415(api: API, kind: str) -> None:
    reply = patch(api, f"{CONFIG_MAPS}/any", {}, kind)
    assert reply.told == (415, "UnsupportedMediaType", "415: Unsupported Media Type")
    assert reply.status["details"] == {}


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        (
            JSON_PATCH,
            b'[{"op":"test","path":"/data/a","value":"9"}]',
            (422, "Invalid", "the server rejected our request due to an error in our request"),
        ),
        (
            JSON_PATCH,
            b'[{"op":"remove","path":"/data/none"}]',
            (422, "Invalid", "the server rejected our request due to an error in our request"),
        ),
        (
            JSON_PATCH,
            b"{}",
            (
                400,
                "BadRequest",
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
        ),
        (
            JSON_PATCH,
            json.dumps([{"op": "test", "path": "/data/a", "value": "1"}] * 10001).encode(),
            (
                413,
                "RequestEntityTooLarge",
                "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
            ),
        ),
        (MERGE, b"{", (400, "BadRequest", "error decoding patch: unexpected end of JSON input")),
        (
            STRATEGIC,
            b'{"$patch":"explode"}',
            (500, "", "unknown patch type: explode in map: map[$patch:explode]"),
        ),
        (
            MERGE,
            b'{"metadata":{"name":"other"}}',
            (400, "BadRequest", "the name of the object (other) does not match the name on the URL (refusing)"),
        ),
        (
            MERGE,
            b'{"metadata":{"namespace":"other"}}',
            (
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ),
        (
            MERGE,
            b'{"metadata":{"resourceVersion":"1"}}',
            (
                409,
                "Conflict",
                (
                    'Operation cannot be fulfilled on configmaps "refusing": the object has been modified; '
                    "please apply "
                    "your changes to the latest version and try again"
                ),
            ),
        ),
        (
            MERGE,
            b'{"data":{"k/k":"v"}}',
            (
                422,
                "Invalid",
                (
                    'ConfigMap "refusing" is invalid: data[k/k]: Invalid value: "k/k": a valid config key must '
                    "consist of "
                    "alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
                    "regex used for validation is '[-._a-zA-Z0-9]+')"
                ),
            ),
        ),
    ],
)
def test_refusals(api: API, kind: str, body: bytes, told: tuple[int, str, str]) -> None:
    api.json("POST", CONFIG_MAPS, {"metadata": {"name": "refusing"}, "data": {"a": "1"}})
    before = api.json("GET", f"{CONFIG_MAPS}/refusing").body
    assert api.request("PATCH", f"{CONFIG_MAPS}/refusing", body, Content_Type=kind).told == told
    assert api.json("GET", f"{CONFIG_MAPS}/refusing").body == before


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, JSON_PATCH])
def test_a_missing_object_is_404_also_where_a_put_creates(api: API, kind: str) -> None:
    change: Any = [] if kind == JSON_PATCH else {}
    assert patch(api, f"{LEASES}/none", change, kind).told == (
        404, "NotFound", 'leases.coordination.k8s.io "none" not found'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("force=true", "force: Forbidden: may not be specified for non-apply patch"),
        ("fieldValidation=X", ('fieldValidation: Unsupported value: "X": supported values: "", "Ignore", "Strict", '
         '"Warn"')),
        ("dryRun=X", 'dryRun: Unsupported value: ["X"]: supported values: "All"'),
    ],
)  # fmt: skip
def test_options(api: API, query: str, message: str) -> None:
    assert patch(api, f"{CONFIG_MAPS}/any?{query}", {}, MERGE).told == (
        422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {message}'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "body", "printed", "why"),
    [
        (MERGE, b'{"bad":1}', '"{', 'unknown field "bad"'),
        (MERGE, b'{"data":{"a":"2","a":"3"}}', '"{', 'duplicate field "data.a"'),
        (STRATEGIC, b'{"bad":1}', '"map[bad:1]"', 'unknown field "bad"'),
        (
            JSON_PATCH,
            b'[{"op":"test","path":"/data/a","value":"1","foo":1}]',
            '"{',
            'json patch unknown field "[0].foo"',
        ),
    ],
)
def test_strict_validation_names_no_kind(api: API, kind: str, body: bytes, printed: str, why: str) -> None:
    api.json("POST", CONFIG_MAPS, {"metadata": {"name": "strict"}, "data": {"a": "1"}})
    path = f"{CONFIG_MAPS}/strict"
    code, reason, message = api.request("PATCH", f"{path}?fieldValidation=Strict", body, Content_Type=kind).told
    assert (code, reason) == (422, "Invalid")
    assert message.startswith(f' "" is invalid: patch: Invalid value: {printed}')
    assert message.endswith(f": strict decoding error: {why}")
    assert api.request("PATCH", f"{path}?dryRun=All", body, Content_Type=kind).code == 200


def test_a_value_of_the_wrong_type(api: API) -> None:
    api.create("typed", data={"a": "1"})
    code, reason, message = patch(api, f"{CONFIG_MAPS}/typed", {"data": {"a": 1}}, MERGE).told
    assert (code, reason) == (422, "Invalid")
    assert message.startswith(' "" is invalid: patch: Invalid value: "{')
    assert message.endswith(": json: cannot unmarshal number into Go struct field ConfigMap.data of type string")


def test_a_dry_run_changes_nothing(api: API) -> None:
    made = api.create("dry-patch", data={"a": "1"})
    path = f"{CONFIG_MAPS}/dry-patch"
    assert tree(patch(api, f"{path}?dryRun=All", {"data": {"a": "2"}}, MERGE))["data"] == {"a": "2"}
    assert tree(api.json("GET", path)) == made


def test_the_answer_can_be_a_table_but_for_some_subresources(api: API) -> None:
    api.create("tabled-patch")
    reply = patch(api, f"{CONFIG_MAPS}/tabled-patch", {"data": {"a": "1"}}, MERGE, Accept=TABLE)
    assert tree(reply)["rows"][0]["cells"] == ["tabled-patch", 1, "0s"]
    reply = patch(api, f"{CSRS}/none/approval", {}, MERGE, Accept=TABLE)
    assert (reply.code, reply.status["reason"]) == (406, "NotAcceptable")


def test_items_without_their_key(api: API) -> None:
    api.create("robot", SERVICE_ACCOUNTS, secrets=[{"name": "a"}])
    assert patch(api, f"{SERVICE_ACCOUNTS}/robot", {"secrets": [{}]}, STRATEGIC).told == (
        500, "", "map: map[] does not contain declared merge key: name"
    )  # fmt: skip
