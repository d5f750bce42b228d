"""DELETE: what is answered, preconditions, finalizers, policies, collections."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api import catalog
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.meta import DeleteOptions, Preconditions
from unit.server.handlers.api import API, CONFIG_MAPS, MERGE, TABLE, tree

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def test_the_answer_says_what_is_gone(api: API) -> None:
    made = api.create("gone")
    reply = api.json("DELETE", f"{CONFIG_MAPS}/gone")
    assert reply.code == 200
    assert tree(reply) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "gone", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    assert api.json("DELETE", f"{CONFIG_MAPS}/gone").told == (404, "NotFound", 'configmaps "gone" not found')


def test_a_status_is_no_table(api: API) -> None:
    api.create("no-table")
    assert tree(api.json("DELETE", f"{CONFIG_MAPS}/no-table", Accept=TABLE))["kind"] == "Status"


@pytest.mark.parametrize("where", ["query", "body", "protobuf"])
def test_a_dry_run_deletes_nothing(api: API, where: str) -> None:
    name = f"dry-{where}"
    api.create(name)
    path = f"{CONFIG_MAPS}/{name}"
    if where == "query":
        reply = api.json("DELETE", f"{path}?dryRun=All")
    elif where == "body":
        reply = api.json("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
    else:
        raw = protobuf.codec_for(DeleteOptions).encode(DeleteOptions(dry_run=["All"]))
        reply = api.request("DELETE", path, protobuf.seal("v1", "DeleteOptions", raw), Content_Type=PROTOBUF)
    assert tree(reply)["status"] == "Success"
    assert api.json("GET", path).code == 200


@pytest.mark.parametrize("version", ["", "v1", "certificates.k8s.io/v1", "anything/v7"])
def test_options_come_in_any_version(api: API, version: str) -> None:
    api.create("options")
    sent = {"kind": "DeleteOptions", "apiVersion": version, "propagationPolicy": "Background"}
    assert api.json("DELETE", f"{CONFIG_MAPS}/options", sent).code == 200


@pytest.mark.parametrize(
    ("preconditions", "why"),
    [
        (
            {"uid": "other"},
            (
                "the UID in the precondition (other) does not match the UID in record ({uid}). The object might "
                "have been deleted and then recreated"
            ),
        ),
        (
            {"resourceVersion": "1"},
            (
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record "
                "({version}). The object might have been modified"
            ),
        ),
    ],
)
def test_preconditions_must_hold(api: API, preconditions: dict[str, str], why: str) -> None:
    made = api.create(f"precondition-{next(iter(preconditions)).lower()}")["metadata"]
    path = f"{CONFIG_MAPS}/{made['name']}"
    reply = api.json("DELETE", path, {"preconditions": preconditions})
    why = why.format(uid=made["uid"], version=made["resourceVersion"])
    assert reply.told == (
        409, "Conflict", f'Operation cannot be fulfilled on ConfigMap "{made["name"]}": {why}'
    )  # fmt: skip
    assert reply.status["details"] == {"name": made["name"], "kind": "ConfigMap"}
    holding = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    assert api.json("DELETE", path, {"preconditions": holding}).code == 200


def test_preconditions_in_the_query(api: API) -> None:
    api.create("query-precondition")
    assert api.json("DELETE", f"{CONFIG_MAPS}/query-precondition?preconditions.uid=x").code == 409


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (
            {"propagationPolicy": "Sometimes"},
            (
                'propagationPolicy: Unsupported value: "Sometimes": supported values: "Foreground", "Background", '
                '"Orphan", "nil"'
            ),
        ),
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
        ({"dryRun": ["Some"]}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
    ],
)
def test_options_that_mean_nothing(api: API, sent: dict[str, Any], message: str) -> None:
    assert api.json("DELETE", f"{CONFIG_MAPS}/any", sent).told == (
        422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {message}'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "media", "message"),
    [
        (
            b'{"kind":"Secret"}',
            "application/json",
            "decoded object cannot be converted to DeleteOptions: got kind 'Secret'",
        ),
        (b"{", "application/json", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (
            b'{"dryRun":1}',
            "application/json",
            (
                'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: json: cannot unmarshal '
                "number into Go "
                "struct field DeleteOptions.dryRun of type []string"
            ),
        ),
        (
            b"x",
            PROTOBUF,
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
    ],
)
def test_a_body_that_is_none(api: API, body: bytes, media: str, message: str) -> None:
    assert api.request("DELETE", f"{CONFIG_MAPS}/any", body, Content_Type=media).told == (400, "BadRequest", message)


def test_finalizers_hold_it_until_they_are_gone(api: API) -> None:
    made = api.create("held", metadata={"name": "held", "finalizers": ["example.com/hold"]})
    path = f"{CONFIG_MAPS}/held"
    found = tree(api.json("DELETE", path))
    assert (found["kind"], found["metadata"]["deletionGracePeriodSeconds"]) == ("ConfigMap", 0)
    assert found["metadata"]["deletionTimestamp"]
    assert int(found["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert api.json("POST", CONFIG_MAPS, {"metadata": {"name": "held"}}).told == (
        409, "AlreadyExists", 'object is being deleted: configmaps "held" already exists'
    )  # fmt: skip
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    assert api.json("PATCH", path, more, Content_Type=MERGE).told == (
        422,
        "Invalid",
        (
            'ConfigMap "held" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the '
            'object is being deleted, found new finalizers []string{"example.com/more"}'
        ),
    )
    assert api.json("PATCH", path, {"metadata": {"finalizers": None}}, Content_Type=MERGE).code == 200
    assert api.json("GET", path).code == 404


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_policies_are_for_the_garbage_collector(api: API, policy: str, finalizer: str) -> None:
    api.create(f"policy-{policy.lower()}")
    found = tree(api.json("DELETE", f"{CONFIG_MAPS}/policy-{policy.lower()}?propagationPolicy={policy}"))
    assert found["metadata"]["finalizers"] == [finalizer]


def test_a_collection_goes_as_far_as_the_selector_says(api: API) -> None:
    api.create("emptied", "/api/v1/namespaces")
    path = "/api/v1/namespaces/emptied/configmaps"
    for name, labels in (("a", {}), ("b", {"x": "y"}), ("c", {"x": "y"})):
        api.create(name, path, metadata={"name": name, "labels": labels})
    reply = api.json("DELETE", f"{path}?labelSelector=x")
    found = tree(reply)
    assert (reply.code, found["kind"]) == (200, "ConfigMapList")
    assert [item["metadata"]["name"] for item in found["items"]] == ["b", "c"]
    assert [item["metadata"]["name"] for item in tree(api.json("GET", path))["items"]] == ["a"]
    assert api.json("DELETE", path, {"dryRun": ["All"]}).code == 200
    assert [item["metadata"]["name"] for item in tree(api.json("GET", path))["items"]] == ["a"]
    assert api.json("DELETE", f"{path}?fieldSelector=x%3Dy").told == (
        400, "BadRequest", '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )  # fmt: skip
    assert api.json("DELETE", path).code == 200
    assert tree(api.json("GET", path))["items"] == []


def test_some_collections_cannot_be_deleted(api: API) -> None:
    assert api.json("DELETE", "/api/v1/namespaces").told == (
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )  # fmt: skip


def test_typed_options_go_the_same_way(api: API) -> None:
    api.create("typed-options")
    client = api.cluster.client()
    options = DeleteOptions(preconditions=Preconditions(uid="other"))
    with pytest.raises(Exception, match="the UID in the precondition"):
        api.cluster.run(client.delete(catalog.CONFIG_MAPS, "typed-options", "default", options))
