from __future__ import annotations

from typing import Any

import pytest

from kubevouch.server.query import Query
from kubevouch.server.request_info import parse, selected_name

CSR = {"group": "certificates.k8s.io", "version": "v1", "resource": "certificatesigningrequests"}
PODS = {"version": "v1", "resource": "pods"}


@pytest.mark.parametrize(
    ("method", "path", "query", "said"),
    [
        ("GET", "/api/v1/nodes", "", {"verb": "list", "version": "v1", "resource": "nodes"}),
        ("GET", "/api/v1/nodes/", "", {"verb": "list", "version": "v1", "resource": "nodes"}),
        ("GET", "/api/v1/nodes", "watch=true", {"verb": "watch", "version": "v1", "resource": "nodes"}),
        ("GET", "/api/v1/nodes", "watch", {"verb": "watch", "version": "v1", "resource": "nodes"}),
        ("GET", "/api/v1/nodes", "watch=0", {"verb": "list", "version": "v1", "resource": "nodes"}),
        ("GET", "/api/v1/nodes/n", "watch=1", {"verb": "get", "version": "v1", "resource": "nodes", "name": "n"}),
        ("HEAD", "/api/v1/nodes/n", "", {"verb": "get", "version": "v1", "resource": "nodes", "name": "n"}),
        ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "", {"verb": "create", **CSR}),
        (
            "PUT",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval",
            "",
            {"verb": "update", "name": "c", "subresource": "approval", **CSR},
        ),
        (
            "PATCH",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/status",
            "",
            {"verb": "patch", "name": "c", "subresource": "status", **CSR},
        ),
        ("DELETE", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "", {"verb": "deletecollection", **CSR}),
        ("GET", "/api/v1/namespaces/shop/pods", "", {"verb": "list", "namespace": "shop", **PODS}),
        (
            "GET",
            "/api/v1/namespaces/shop/pods/web/log",
            "",
            {"verb": "get", "namespace": "shop", "name": "web", "subresource": "log", **PODS},
        ),
        ("GET", "/api/v1/namespaces", "", {"verb": "list", "version": "v1", "resource": "namespaces"}),
        (
            "DELETE",
            "/api/v1/namespaces/shop",
            "",
            {"verb": "delete", "version": "v1", "resource": "namespaces", "namespace": "shop", "name": "shop"},
        ),
        (
            "PUT",
            "/api/v1/namespaces/shop/finalize",
            "",
            {
                "verb": "update",
                "version": "v1",
                "resource": "namespaces",
                "namespace": "shop",
                "name": "shop",
                "subresource": "finalize",
            },
        ),
        ("GET", "/api/v1/watch/pods", "", {"verb": "watch", "deprecated_watch": True, **PODS}),
        (
            "GET",
            "/api/v1/watch/namespaces/shop/pods/web",
            "",
            {"verb": "watch", "deprecated_watch": True, "namespace": "shop", "name": "web", **PODS},
        ),
        (
            "GET",
            "/api/v1/namespaces/shop/pods/web/proxy/a/b",
            "",
            {
                "verb": "get", "namespace": "shop", "name": "web", "subresource": "proxy", "extra_parts": 2, **PODS,
            },
        ),
        (
            "GET",
            "/api/v1/pods",
            "fieldSelector=metadata.name%3Dweb&labelSelector=a%3Db",
            {
                "verb": "list", "name": "web", "field_selector": "metadata.name=web", "label_selector": "a=b", **PODS,
            },
        ),
        (
            "DELETE",
            "/api/v1/pods",
            "fieldSelector=metadata.name%3Dweb",
            {"verb": "deletecollection", "field_selector": "metadata.name=web", **PODS},
        ),
        ("POST", "/api/v1/pods", "fieldSelector=metadata.name%3Dweb", {"verb": "create", **PODS}),
        ("GET", "/api/v1/pods/w%65b", "", {"verb": "get", "name": "web", **PODS}),
        ("OPTIONS", "/api/v1/pods", "", {"verb": "", **PODS}),
    ],
)  # fmt: skip
def test_request_about_a_resource(method: str, path: str, query: str, said: dict[str, Any]) -> None:
    info = parse(method, path, Query(query))
    absent = {
        "group": "", "namespace": "", "subresource": "", "name": "", "field_selector": "", "label_selector": "",
        "deprecated_watch": False, "extra_parts": 0,
    }  # fmt: skip
    assert info.is_resource
    assert {key: getattr(info, key) for key in absent | said} == absent | said


@pytest.mark.parametrize(
    "path",
    [
        "/", "/api", "/api/", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/version",
        "/openapi/v3/apis/apps/v1", "/apiserver/v1/pods", "/api/v1//pods", "/api/v1/watch", "/metrics/api/v1/pods",
    ],
)  # fmt: skip
@pytest.mark.parametrize(("method", "verb"), [("GET", "get"), ("POST", "post"), ("DELETE", "delete")])
def test_other_paths(path: str, method: str, verb: str) -> None:
    info = parse(method, path, Query())
    assert (info.is_resource, info.path, info.verb, info.resource) == (False, path, verb, "")


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("spec.nodeName=n,metadata.name=a", "a"),
        ("metadata.name!=a", ""),
        ("metadata.namespace=a", ""),
        ("xmetadata.name=a", ""),
        ("metadata.name", ""),
        ("", ""),
    ],
)
def test_name_that_a_selector_pins(selector: str, name: str) -> None:
    assert selected_name(selector) == name
