"""server/openapi/v3.py, operations.py and parameters.py: the documents of version 3."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.machinery.codec import json_codec
from kubevouch.server.endpoints import Served
from kubevouch.server.openapi import v3
from unit.server.openapi.everything import VERSION, everything_served
from unit.server.openapi.rules import broken_rules

Tree = dict[str, Any]

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NAMESPACED = "/api/v1/namespaces/{namespace}"


@pytest.fixture(scope="module")
def served() -> Served:
    return everything_served()


@pytest.fixture(scope="module")
def documents(served: Served) -> v3.Documents:
    return v3.build(served, VERSION)


@pytest.fixture(scope="module")
def paths(documents: v3.Documents) -> dict[str, Tree]:
    return documents.paths


def names(operation: Tree) -> set[str]:
    return {parameter["name"] for parameter in operation["parameters"]}


def answer(operation: Tree, code: str = "200", media: str = "application/json") -> str:
    reference: str = operation["responses"][code]["content"][media]["schema"]["$ref"]
    return reference.removeprefix("#/components/schemas/")


# ------------------------------------------------------------------ documents


def test_every_document_keeps_the_rules(documents: v3.Documents) -> None:
    for name, document in documents.by_name.items():
        assert broken_rules(document) == [], name


def test_the_rules_find_faults(documents: v3.Documents) -> None:
    schemas = {"a": {"type": "array"}, "b": {"$ref": "#/components/schemas/c", "description": "lost"}}
    operation = {"operationId": "x", "parameters": [], "responses": {"200": {"description": "OK"}}}
    faulty = documents.by_name["version"] | {
        "components": {"schemas": schemas, "securitySchemes": {}},
        "paths": {"/{name}": {"get": operation, "put": operation | {"responses": {}}}},
    }
    assert broken_rules(faulty) == [
        "security: BearerToken is not declared",
        "$ref leads nowhere: #/components/schemas/c",
        "a: array without items, or items without array",
        "b: what stands beside $ref is ignored",
        "get /{name}: parameters []",
        "put /{name}: no response for success",
        "put /{name}: parameters []",
        "operationId x twice",
    ]


def test_one_document_a_group_version_and_small_ones_above(served: Served, documents: v3.Documents) -> None:
    versions = {f"apis/{gv}" if gv.group else f"api/{gv}" for gv in served.group_versions}
    groups = {f"apis/{group}" for group in served.groups()}
    assert set(documents.by_name) == {"api", "apis", "version", *groups, *versions}
    assert {"api/v1", "apis/certificates.k8s.io/v1", "apis/certificates.k8s.io/v1beta1"} <= versions


def test_a_document_holds_what_it_needs_and_no_more(documents: v3.Documents) -> None:
    found = documents.by_name["apis/coordination.k8s.io/v1"]["components"]["schemas"]
    assert {name for name in found if name.startswith("io.k8s.api.")} == {
        "io.k8s.api.coordination.v1.Lease",
        "io.k8s.api.coordination.v1.LeaseList",
        "io.k8s.api.coordination.v1.LeaseSpec",
    }


def test_documents_are_the_same_every_time(documents: v3.Documents) -> None:
    again = v3.build(everything_served(), VERSION)
    for name, document in documents.by_name.items():
        assert json_codec.encode(document) == json_codec.encode(again.by_name[name])


def test_the_title_names_the_version(documents: v3.Documents) -> None:
    assert documents.by_name["api/v1"]["info"] == {"title": "kubevouch", "version": VERSION["gitVersion"]}
    assert set(documents.schemas["io.k8s.apimachinery.pkg.version.Info"]["properties"]) == set(VERSION)


def test_discovery_and_version(paths: dict[str, Tree]) -> None:
    meta = "io.k8s.apimachinery.pkg.apis.meta.v1"
    expected = {
        "/api/": ("getCoreAPIVersions", "core", f"{meta}.APIVersions"),
        "/apis/": ("getAPIVersions", "apis", f"{meta}.APIGroupList"),
        "/api/v1/": ("getCoreV1APIResources", "core_v1", f"{meta}.APIResourceList"),
        "/apis/rbac.authorization.k8s.io/": ("getRbacAuthorizationAPIGroup", "rbacAuthorization", f"{meta}.APIGroup"),
        "/version/": ("getCodeVersion", "version", "io.k8s.apimachinery.pkg.version.Info"),
    }
    for path, (operation_id, tag, schema) in expected.items():
        operation = paths[path]["get"]
        assert (operation["operationId"], operation["tags"], answer(operation)) == (operation_id, [tag], schema)


# ------------------------------------------------------------------ what is served is described


def test_every_verb_of_every_endpoint_has_its_operation(served: Served, paths: dict[str, Tree]) -> None:
    methods = {
        "create": (False, "post"), "list": (False, "get"), "deletecollection": (False, "delete"),
        "get": (True, "get"), "update": (True, "put"), "patch": (True, "patch"), "delete": (True, "delete"),
    }  # fmt: skip
    count = 0
    for endpoint in served.endpoints.values():
        resource = endpoint.resource
        collection = resource.path("{namespace}" if resource.namespaced else "")
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        expected = [(f"{collection}/{{name}}" if on_item else collection, method)
                    for verb, (on_item, method) in methods.items() if verb in endpoint.verbs]  # fmt: skip
        expected += [
            (f"{collection}/{{name}}/{sub.name}", methods[verb][1])
            for sub in endpoint.subresources
            for verb in sub.verbs
        ]
        for path, method in expected:
            assert paths[path][method]["x-kubernetes-group-version-kind"] == kind
            count += 1
    assert count > 100


def test_a_verb_that_is_not_served_has_no_operation(served: Served, paths: dict[str, Tree]) -> None:
    definition = served.endpoints["", "v1", "namespaces"].store.definition
    assert "deletecollection" not in definition.verbs
    assert set(paths["/api/v1/namespaces"]) == {"parameters", "get", "post"}


def test_every_review_has_its_operation(served: Served, paths: dict[str, Tree]) -> None:
    for action in served.actions.values():
        path = action.resource.path("{namespace}" if action.resource.namespaced else "")
        if action.subresource:
            path += f"/{{name}}/{action.subresource}"
        operation = paths[path]["post"]
        assert operation["x-kubernetes-group-version-kind"]["kind"] == action.body.kind
        assert answer(operation, "201").endswith(f".{action.body.kind}")


def test_a_token_request_is_about_a_service_account(paths: dict[str, Tree]) -> None:
    operation = paths[f"{NAMESPACED}/serviceaccounts/{{name}}/token"]["post"]
    assert operation["operationId"] == "createCoreV1NamespacedServiceAccountToken"
    assert operation["x-kubernetes-group-version-kind"] == {
        "group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest",
    }  # fmt: skip
    assert answer(operation, "201") == "io.k8s.api.authentication.v1.TokenRequest"


@pytest.mark.parametrize(
    ("path", "method", "operation_id", "action"),
    [
        (CSRS, "get", "listCertificatesV1CertificateSigningRequest", "list"),
        (CSRS, "post", "createCertificatesV1CertificateSigningRequest", "post"),
        (CSRS, "delete", "deleteCertificatesV1CollectionCertificateSigningRequest", "deletecollection"),
        (f"{CSRS}/{{name}}", "get", "readCertificatesV1CertificateSigningRequest", "get"),
        (f"{CSRS}/{{name}}", "put", "replaceCertificatesV1CertificateSigningRequest", "put"),
        (f"{CSRS}/{{name}}", "patch", "patchCertificatesV1CertificateSigningRequest", "patch"),
        (f"{CSRS}/{{name}}", "delete", "deleteCertificatesV1CertificateSigningRequest", "delete"),
        (f"{CSRS}/{{name}}/approval", "put", "replaceCertificatesV1CertificateSigningRequestApproval", "put"),
        ("/api/v1/secrets", "get", "listCoreV1SecretForAllNamespaces", "list"),
        (f"{NAMESPACED}/secrets", "get", "listCoreV1NamespacedSecret", "list"),
        ("/api/v1/watch/secrets", "get", "watchCoreV1SecretListForAllNamespaces", "watchlist"),
        (
            "/api/v1/watch/namespaces/{namespace}/secrets/{name}", "get",
            "watchCoreV1NamespacedSecret", "watch",
        ),
        ("/api/v1/watch/nodes", "get", "watchCoreV1NodeList", "watchlist"),
    ],
)  # fmt: skip
def test_names_and_actions(paths: dict[str, Tree], path: str, method: str, operation_id: str, action: str) -> None:
    operation = paths[path][method]
    assert (operation["operationId"], operation["x-kubernetes-action"]) == (operation_id, action)
    assert operation.get("deprecated", False) == ("/watch/" in path)


# ------------------------------------------------------------------ what kubectl and generators look at


def test_server_side_validation_is_announced_on_every_patch(paths: dict[str, Tree]) -> None:
    found = [item["patch"] for item in paths.values() if "patch" in item]
    patches = [operation for operation in found if operation["x-kubernetes-action"] == "patch"]
    assert len(patches) > 20
    for operation in patches:
        assert {"dryRun", "fieldManager", "fieldValidation", "force"} == names(operation)
        assert set(operation["requestBody"]["content"]) == {
            "application/json-patch+json", "application/merge-patch+json",
            "application/strategic-merge-patch+json", "application/apply-patch+yaml",
        }  # fmt: skip


def test_parameters_are_the_fields_of_the_options(paths: dict[str, Tree]) -> None:
    writing = {"dryRun", "fieldManager", "fieldValidation"}
    selecting = {
        "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "limit",
        "continue", "shardSelector",
    }  # fmt: skip
    deleting = {
        "dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy",
        "ignoreStoreReadErrorWithClusterBreakingPotential",
    }  # fmt: skip
    watching = {"watch", "allowWatchBookmarks", "sendInitialEvents"}
    assert names(paths[CSRS]["post"]) == names(paths[f"{CSRS}/{{name}}"]["put"]) == writing
    assert names(paths[CSRS]["get"]) == selecting | watching
    assert names(paths[CSRS]["delete"]) == selecting | deleting
    assert names(paths[f"{CSRS}/{{name}}"]["delete"]) == deleting
    assert names(paths[f"{CSRS}/{{name}}"]["get"]) == {"resourceVersion"}
    assert [p["name"] for p in paths[f"{NAMESPACED}/secrets/{{name}}"]["parameters"]] == ["namespace", "name", "pretty"]
    limit = next(p for p in paths[CSRS]["get"]["parameters"] if p["name"] == "limit")
    assert limit == {
        "name": "limit", "in": "query", "description": limit["description"],
        "schema": {"type": "integer", "format": "int64"},
    }  # fmt: skip


def test_bodies_and_answers(paths: dict[str, Tree]) -> None:
    kind = "io.k8s.api.certificates.v1.CertificateSigningRequest"
    item, collection = paths[f"{CSRS}/{{name}}"], paths[CSRS]
    assert answer(item["get"]) == answer(item["put"], "201") == answer(collection["post"], "201") == kind
    assert answer(collection["get"], media="application/json;stream=watch") == f"{kind}List"
    assert answer(item["delete"]) == "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
    assert "required" not in item["delete"]["requestBody"]
    assert item["put"]["requestBody"]["required"] is True
    for operation in (item["get"], item["put"], collection["post"]):
        assert operation["responses"]["401"] == {"description": "Unauthorized"}
    assert set(item["get"]["responses"]["200"]["content"]) == {
        "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
    }  # fmt: skip


def test_kubectl_explain_finds_exactly_one_schema_of_every_kind(served: Served, documents: v3.Documents) -> None:
    for group_version in served.group_versions:
        name = f"apis/{group_version}" if group_version.group else f"api/{group_version}"
        found = [
            (kind["kind"], schema)
            for schema, tree in documents.by_name[name]["components"]["schemas"].items()
            for kind in tree.get("x-kubernetes-group-version-kind", ())
            if (kind["group"], kind["version"]) == group_version
        ]
        assert len(found) == len(dict(found))
        kinds = {e.resource.kind for e in served.endpoints.values() if e.resource.group_version == group_version}
        assert {*kinds, *(f"{kind}List" for kind in kinds)} <= {kind for kind, _ in found}
