"""Events are of two groups whose fields have other names: owners in one see what is written through the other."""

from __future__ import annotations

from typing import Any

from unit.server.handlers.api import API, APPLY, MERGE, tree
from wire import Reply

CORE = "/api/v1/namespaces/default/events"
NEWER = "/apis/events.k8s.io/v1/namespaces/default/events"
WHEN = "2026-01-01T00:00:00.000000Z"


def newer(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": WHEN,
        "reportingController": "example.com/x",
        "reportingInstance": "x-1",
        "action": "Look",
        "reason": "Seen",
        "type": "Normal",
        "regarding": {"kind": "Node", "name": "n", "namespace": "default"},
        **fields,
    }


def apply(api: API, path: str, sent: dict[str, Any], manager: str, query: str = "") -> Reply:
    name = sent["metadata"]["name"]
    return api.json("PATCH", f"{path}/{name}?fieldManager={manager}{query}", sent, Content_Type=APPLY)


def core(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}, **fields}


def owned(reply: Reply) -> dict[tuple[str, str], dict[str, Any]]:
    entries = tree(reply)["metadata"]["managedFields"]
    return {(entry["manager"], entry["apiVersion"]): entry["fieldsV1"] for entry in entries}


def test_a_write_is_recorded_in_the_fields_of_its_group(api: API) -> None:
    created = api.json("POST", f"{NEWER}?fieldManager=a", newer("own", note="one"))
    assert created.code == 201
    fields = owned(created)["a", "events.k8s.io/v1"]
    assert {"f:note", "f:regarding", "f:reportingController"} <= fields.keys()
    assert not {"f:message", "f:involvedObject", "f:reportingComponent", "f:source"} & fields.keys()


def test_whoever_loses_a_field_loses_it_in_its_own_words(api: API) -> None:
    api.json("POST", f"{NEWER}?fieldManager=a", newer("lost", note="one"))
    changed = api.json("PATCH", f"{CORE}/lost?fieldManager=b", {"message": "two", "count": 2}, Content_Type=MERGE)
    found = owned(changed)
    assert found["b", "v1"] == {"f:count": {}, "f:message": {}}
    assert "f:note" not in found["a", "events.k8s.io/v1"]
    assert "f:reason" in found["a", "events.k8s.io/v1"]
    # What is written back to what it was is nobody's loss: the newer view may change nothing but the series.
    again = api.json("PATCH", f"{NEWER}/lost?fieldManager=c", {"metadata": {"labels": {"a": "b"}}}, Content_Type=MERGE)
    assert owned(again)["b", "v1"] == found["b", "v1"]


def test_conflicts_name_fields_as_their_owners_do(api: API) -> None:
    assert apply(api, NEWER, newer("torn", note="one"), "first").code == 201
    refused = apply(api, CORE, core("torn", message="two"), "second")
    assert refused.told == (409, "Conflict", 'Apply failed with 1 conflict: conflict with "first": .note')
    forced = apply(api, CORE, core("torn", message="two"), "second", "&force=true")
    found = owned(forced)
    assert (tree(forced)["message"], found["second", "v1"]) == ("two", {"f:message": {}})
    assert "f:note" not in found["first", "events.k8s.io/v1"]
    # The same value is no conflict: both own it.
    shared = owned(apply(api, CORE, core("torn", message="two", reason="Seen"), "second"))
    assert "f:reason" in shared["first", "events.k8s.io/v1"]
    assert "f:reason" in shared["second", "v1"]


def test_what_an_applier_leaves_out_in_the_other_group_goes(api: API) -> None:
    apply(api, NEWER, newer("less", note="one") | {"metadata": {"name": "less", "labels": {"a": "b"}}}, "me")
    rest = {
        "eventTime": WHEN, "reportingComponent": "example.com/x", "reportingInstance": "x-1", "action": "Look",
        "reason": "Seen", "type": "Normal", "involvedObject": {"kind": "Node", "name": "n", "namespace": "default"},
    }  # fmt: skip
    apply(api, CORE, core("less", **rest, message="one"), "other")
    kept = tree(apply(api, CORE, core("less", **rest), "me"))
    assert (kept["message"], "labels" in kept["metadata"]) == ("one", False)
    gone = tree(apply(api, CORE, core("less", **rest), "other"))
    assert "message" not in gone
