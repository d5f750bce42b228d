"""GET of objects and collections: selectors, pages, versions, tables."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from unit.server.handlers.api import API, CONFIG_MAPS, TABLE, tree
from wire import Reply

NODES = "/api/v1/nodes"
PAGED = "/api/v1/namespaces/paged/configmaps"


@pytest.fixture(scope="module", autouse=True)
def objects(api: API) -> None:
    api.create("paged", "/api/v1/namespaces")
    for number in range(5):
        labels = {"even": "yes"} if number % 2 == 0 else {}
        api.create(f"m{number}", PAGED, metadata={"name": f"m{number}", "labels": labels})


def names(reply: Reply) -> list[str]:
    assert reply.code == 200, reply.body
    return [item["metadata"]["name"] for item in tree(reply)["items"]]


def token_of(**parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def test_an_object_or_404(api: API) -> None:
    found = tree(api.json("GET", f"{PAGED}/m0"))
    assert (found["kind"], found["apiVersion"], found["metadata"]["name"]) == ("ConfigMap", "v1", "m0")
    reply = api.json("GET", f"{PAGED}/none")
    assert reply.told == (404, "NotFound", 'configmaps "none" not found')
    assert reply.status["details"] == {"name": "none", "kind": "configmaps"}


def test_a_version_that_is_none(api: API) -> None:
    why = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    assert api.json("GET", f"{PAGED}/m0?resourceVersion=abc").told == (500, "", why)
    assert api.json("GET", f"{PAGED}?resourceVersion=abc").told == (
        400,
        "BadRequest",
        f"invalid resource version: {why}",
    )


def test_a_collection_is_in_the_order_of_its_keys(api: API) -> None:
    reply = api.json("GET", PAGED)
    assert names(reply) == ["m0", "m1", "m2", "m3", "m4"]
    found = tree(reply)
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(found["metadata"]["resourceVersion"]) > 0
    assert not {"continue", "remainingItemCount"} & set(found["metadata"])
    assert {"kind", "apiVersion"}.isdisjoint(found["items"][0])


def test_all_namespaces_at_once(api: API) -> None:
    assert {"m0", "cluster-info"} <= set(names(api.json("GET", "/api/v1/configmaps")))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("labelSelector=even", ["m0", "m2", "m4"]),
        ("labelSelector=even%3Dyes", ["m0", "m2", "m4"]),
        ("labelSelector=even!%3Dyes", ["m1", "m3"]),
        ("labelSelector=!even", ["m1", "m3"]),
        ("labelSelector=even+in+(no)", []),
        ("fieldSelector=metadata.name%3Dm1", ["m1"]),
        ("fieldSelector=metadata.name%3Dm9", []),
        ("fieldSelector=metadata.name%3Da/b", []),
        ("fieldSelector=metadata.name!%3Dm1", ["m0", "m2", "m3", "m4"]),
        ("fieldSelector=metadata.namespace%3Dpaged,metadata.name%3Dm1", ["m1"]),
        ("fieldSelector=metadata.namespace%3Dother", []),
        ("fieldSelector=metadata.name%3Dm1&labelSelector=even", []),
        ("fieldSelector=metadata.name%3Dm2&labelSelector=even", ["m2"]),
    ],
)
def test_selectors(api: API, query: str, expected: list[str]) -> None:
    assert names(api.json("GET", f"{PAGED}?{query}")) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("fieldSelector=data%3Dx", '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("fieldSelector=metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("labelSelector=a+b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("limit=abc", 'strconv.ParseInt: parsing "abc": invalid syntax'),
        (
            "continue=%21",
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
        ),
        (
            f"continue={token_of(v='meta.k8s.io/v1', rv=0, start='x')}",
            (
                "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version "
                "meta.k8s.io/v1)"
            ),
        ),
        (
            f"continue={token_of(v='meta.k8s.io/v1', rv=1, start='')}",
            "invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
        ),
        (
            f"continue={token_of(v='meta.k8s.io/v1', rv=-1, start='x')}&resourceVersion=5",
            "specifying resource version is not allowed when using continue",
        ),
    ],
)
def test_bad_requests(api: API, query: str, message: str) -> None:
    assert api.json("GET", f"{PAGED}?{query}").told == (400, "BadRequest", message)


def test_a_field_that_only_namespaced_kinds_have(api: API) -> None:
    assert api.json("GET", f"{NODES}?fieldSelector=metadata.namespace%3Dx").told == (
        400, "BadRequest", "field label not supported: metadata.namespace"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "resourceVersionMatch=Exact",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "sendInitialEvents=true",
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ],
)
def test_combinations_that_mean_nothing(api: API, query: str, message: str) -> None:
    assert api.json("GET", f"{PAGED}?{query}").told == (
        422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {message}'
    )  # fmt: skip


def test_pages_show_one_moment(api: API) -> None:
    first = tree(api.json("GET", f"{PAGED}?limit=2"))
    assert [item["metadata"]["name"] for item in first["items"]] == ["m0", "m1"]
    assert first["metadata"]["remainingItemCount"] == 3
    api.create("m1a", PAGED)
    api.create("m9", PAGED)
    second = tree(api.json("GET", f"{PAGED}?limit=2&continue={first['metadata']['continue']}"))
    assert [item["metadata"]["name"] for item in second["items"]] == ["m2", "m3"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second["metadata"]["remainingItemCount"] == 1
    last = tree(api.json("GET", f"{PAGED}?limit=2&continue={second['metadata']['continue']}"))
    assert [item["metadata"]["name"] for item in last["items"]] == ["m4"]
    assert "continue" not in last["metadata"]
    for name in ("m1a", "m9"):
        assert api.json("DELETE", f"{PAGED}/{name}").code == 200


@pytest.mark.parametrize(
    ("query", "expected"),
    [("limit=5", 5), ("limit=6", 5), ("limit=0", 5), ("limit=-1", 5), ("limit=1&resourceVersion=0", 5), ("limit=4", 4)],
)
def test_limits(api: API, query: str, expected: int) -> None:
    reply = api.json("GET", f"{PAGED}?{query}")
    assert len(names(reply)) == expected
    assert ("continue" in tree(reply)["metadata"]) == (expected < 5)


def test_with_selectors_nobody_knows_how_many_are_left(api: API) -> None:
    found = tree(api.json("GET", f"{PAGED}?limit=1&labelSelector=even"))
    assert found["metadata"]["continue"]
    assert "remainingItemCount" not in found["metadata"]


def test_an_exact_version_is_the_past(api: API) -> None:
    version = tree(api.json("GET", PAGED))["metadata"]["resourceVersion"]
    api.create("late", PAGED)
    assert names(api.json("GET", f"{PAGED}?resourceVersion={version}&resourceVersionMatch=Exact")) == [
        "m0", "m1", "m2", "m3", "m4"
    ]  # fmt: skip
    assert "late" in names(api.json("GET", f"{PAGED}?resourceVersion={version}&resourceVersionMatch=NotOlderThan"))
    assert api.json("DELETE", f"{PAGED}/late").code == 200


@pytest.mark.parametrize(
    ("include", "look"),
    [
        ("", lambda row: row["object"]["kind"] == "PartialObjectMetadata"),
        ("Metadata", lambda row: "data" not in row["object"]),
        ("Object", lambda row: row["object"]["data"] == {"k": "v"}),
        ("None", lambda row: row["object"] is None),
    ],
)
def test_a_table_shows_as_much_of_the_object_as_is_asked(
    api: API, include: str, look: Callable[[dict[str, Any]], bool]
) -> None:
    name = f"table-{include.lower() or 'default'}"
    api.create(name, data={"k": "v"})
    reply = api.json("GET", f"{CONFIG_MAPS}/{name}?includeObject={include}", Accept=TABLE)
    found = tree(reply)
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Data", "Age"]
    [row] = found["rows"]
    assert row["cells"] == [name, 1, "0s"]
    assert look(row)


def test_a_table_with_another_include_object(api: API) -> None:
    assert api.json("GET", f"{PAGED}?includeObject=All", Accept=TABLE).told == (
        400,
        "BadRequest",
        (
            'Unable to convert to Table as requested: includeObject: Invalid value: "All": must be '
            "'Metadata', 'Object', 'None', or empty"
        ),
    )
    assert api.json("GET", f"{PAGED}?includeObject=All").code == 200


def test_metadata_only(api: API) -> None:
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    found = tree(api.json("GET", PAGED, Accept=accept))
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [item["metadata"]["name"] for item in found["items"]] == ["m0", "m1", "m2", "m3", "m4"]


def test_a_subresource_reads_the_whole_object(api: API) -> None:
    api.create("node-a", NODES, metadata={"name": "node-a", "labels": {"a": "b"}})
    assert tree(api.json("GET", f"{NODES}/node-a/status")) == tree(api.json("GET", f"{NODES}/node-a"))


def test_who_may_not_read_learns_nothing(api: API) -> None:
    for name in ("m0", "none"):
        assert api.json("GET", f"{PAGED}/{name}", user="stranger").told == (
            403,
            "Forbidden",
            (
                f'configmaps "{name}" is forbidden: User "stranger" cannot get resource "configmaps" in API group '
                f'"" in '
                'the namespace "paged"'
            ),
        )
