"""POST: what is stored, what is answered, and Kubernetes' refusals in the order of its checks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from unit.server.handlers.api import API, CONFIG_MAPS, TABLE, config_map, tree


def test_an_object_is_stored_and_answered_with_201(api: API) -> None:
    reply = api.json("POST", CONFIG_MAPS, config_map("created", k="v"))
    assert reply.code == 201
    made = tree(reply)
    assert made["data"] == {"k": "v"}
    assert made["metadata"]["namespace"] == "default"
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", made["metadata"]["uid"])
    assert tree(api.json("GET", f"{CONFIG_MAPS}/created")) == made


def test_what_the_server_owns_is_not_taken_from_the_body(api: API) -> None:
    sent = config_map("owned")
    sent["metadata"] |= {
        "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 1, "selfLink": "/me",
    }  # fmt: skip
    made = tree(api.json("POST", CONFIG_MAPS, sent))["metadata"]
    assert made["uid"] != "mine"
    assert not made["creationTimestamp"].startswith("2001")
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & set(made)


def test_a_generated_name_is_the_prefix_and_five_characters(api: API) -> None:
    sent = {"metadata": {"generateName": "prefix-"}}
    names = {tree(api.json("POST", CONFIG_MAPS, sent))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"prefix-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_a_name_comes_before_a_prefix(api: API) -> None:
    made = tree(api.json("POST", CONFIG_MAPS, {"metadata": {"name": "named", "generateName": "x-"}}))
    assert (made["metadata"]["name"], made["metadata"]["generateName"]) == ("named", "x-")


def test_a_dry_run_stores_nothing(api: API) -> None:
    reply = api.json("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("dry"))
    assert reply.code == 201
    assert "resourceVersion" not in tree(reply)["metadata"]
    assert tree(reply)["metadata"]["uid"]
    assert api.json("GET", f"{CONFIG_MAPS}/dry").code == 404


@pytest.mark.parametrize(
    ("query", "headers", "manager"),
    [
        ("", {}, "unit-test"),
        ("?fieldManager=me", {}, "me"),
        ("", {"User_Agent": "kubectl/v1.36.2 (linux/amd64)"}, "kubectl"),
        ("", {"User_Agent": ""}, "unknown"),
        ("", {"User_Agent": f"{'x' * 200}/1"}, "x" * 128),
    ],
)
def test_the_field_manager_is_said_or_is_the_program(
    api: API, query: str, headers: dict[str, str], manager: str
) -> None:
    reply = api.json(
        "POST", CONFIG_MAPS + query, {"metadata": {"generateName": "managed-"}, "data": {"a": ""}}, **headers
    )
    [entry] = tree(reply)["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == (manager, "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:generateName": {}}}


def test_an_existing_name_is_409(api: API) -> None:
    api.create("twice")
    assert api.json("POST", CONFIG_MAPS, config_map("twice")).told == (
        409, "AlreadyExists", 'configmaps "twice" already exists'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "headers", "told"),
    [
        (
            "/api/v1/configmaps",
            config_map("x"),
            {},
            (405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
        ),
        (
            CONFIG_MAPS,
            {"metadata": {"name": "x", "namespace": "kube-system"}},
            {},
            (
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ),
        (
            CONFIG_MAPS,
            config_map("x"),
            {"Content_Type": "text/plain"},
            (
                415,
                "UnsupportedMediaType",
                (
                    "the body of the request was in an unknown format - accepted media types include: "
                    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
                ),
            ),
        ),
        (
            CONFIG_MAPS,
            config_map("x"),
            {"Accept": "text/html"},
            (
                406,
                "NotAcceptable",
                (
                    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
                    "application/vnd.kubernetes.protobuf"
                ),
            ),
        ),
        (
            f"{CONFIG_MAPS}?dryRun=Some",
            config_map("x"),
            {},
            (
                422,
                "Invalid",
                'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
            ),
        ),
        (
            f"{CONFIG_MAPS}?fieldValidation=Strict",
            config_map("x") | {"spec": {}},
            {},
            (
                400,
                "BadRequest",
                (
                    'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
                    'unknown field "spec"'
                ),
            ),
        ),
        (
            "/api/v1/namespaces/nowhere/configmaps",
            config_map("x"),
            {},
            (404, "NotFound", 'namespaces "nowhere" not found'),
        ),
        (
            CONFIG_MAPS,
            {},
            {},
            (
                422,
                "Invalid",
                'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
            ),
        ),
    ],
)
def test_refusals(api: API, path: str, body: Any, headers: dict[str, str], told: tuple[int, str, str]) -> None:
    assert api.json("POST", path, body, **headers).told == told
    assert api.json("GET", f"{CONFIG_MAPS}/x").code == 404


def test_a_namespace_in_the_body_of_a_cluster_scoped_object_is_dropped(api: API) -> None:
    sent = {"metadata": {"name": "cluster-scoped", "namespace": "default"}}
    assert "namespace" not in tree(api.json("POST", "/api/v1/namespaces", sent))["metadata"]


def test_unknown_fields_are_dropped_without_strict_validation(api: API) -> None:
    assert "spec" not in api.create("lax", spec={"a": 1})


def test_the_answer_can_be_a_table(api: API) -> None:
    reply = api.json("POST", CONFIG_MAPS, config_map("tabled", a="1", b="2"), Accept=TABLE)
    assert reply.code == 201
    [row] = tree(reply)["rows"]
    assert row["cells"] == ["tabled", 2, "0s"]


# ------------------------------------------------------------------ what is answered and forgotten


def test_a_review_is_answered_with_201_and_not_stored(api: API) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    reply = api.json("POST", path, {}, user="jane")
    assert reply.code == 201
    found = tree(reply)
    assert (found["kind"], found["apiVersion"]) == ("SelfSubjectReview", "authentication.k8s.io/v1")
    assert found["status"]["userInfo"] == {"username": "jane", "groups": ["system:authenticated"]}
    assert api.json("GET", path).code == 405


def test_a_local_review_takes_the_namespace_of_the_url(api: API) -> None:
    path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
    spec = {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    assert tree(api.json("POST", path, {"spec": spec}))["metadata"]["namespace"] == "default"
    assert api.json("POST", path, {"metadata": {"namespace": "other"}, "spec": spec}).told == (
        400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"
    )  # fmt: skip


def test_a_review_of_another_kind_is_refused(api: API) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    sent = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    assert api.json("POST", path, sent).told == (
        400,
        "BadRequest",
        (
            'SelfSubjectReview in version "v1" cannot be handled as a TokenReview: converting '
            "(v1.SelfSubjectReview) to "
            "(authentication.TokenReview): unknown conversion"
        ),
    )
    assert api.json("POST", path, {"spec": {}}).told == (
        400, "BadRequest", "token is required for TokenReview in authentication"
    )  # fmt: skip
