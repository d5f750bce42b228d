"""Answers in which a server easily differs from kube-apiserver: one of each class, and all kinds where it is one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kubevouch.testing import Cluster
from wire import Reply, Wire

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
SECRETS = "/api/v1/namespaces/default/secrets"
MERGE, JSON_PATCH, STRATEGIC = (
    f"application/{name}+json" for name in ("merge-patch", "json-patch", "strategic-merge-patch")
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """One cluster for all; each test has names of its own there."""
    with Cluster(https=True) as cluster:
        yield Wire.of_kubeconfig(cluster.kubeconfig, tmp_path_factory.mktemp("pair"))


def tree(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.body)
    return found


def create(api: Wire, name: str) -> None:
    api.json("POST", CONFIG_MAPS, {"metadata": {"name": name}})


def first_bookmark(api: Wire, path: str, more: str = "") -> dict[str, Any]:
    """The Table in the bookmark that ends the objects a watch begins with."""
    query = f"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&{more}"
    with api.connected() as connection:
        connection.sendall(f"GET {path}?{query} HTTP/1.1\r\nHost: a\r\nAccept: {TABLE}\r\n\r\n".encode())
        with connection.makefile("rb") as lines:
            event = next(json.loads(line) for line in lines if line.startswith(b'{"type":"BOOKMARK"'))
    found: dict[str, Any] = event["object"]
    return found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{LEASES}/versioned", {"spec": {}}),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/versioned", {"rules": []}),
        (f"{ROLES}/versioned", {"rules": []}),
        ("/api/v1/namespaces/default/events/versioned", {"involvedObject": {"namespace": "default"}}),
    ],
)
def test_a_put_that_creates_says_nothing_of_a_version(api: Wire, path: str, body: dict[str, Any]) -> None:
    reply = api.json("PUT", path, {"metadata": {"name": "versioned", "resourceVersion": "5"}} | body)
    assert reply.code == 201
    assert tree(reply)["metadata"]["resourceVersion"] not in ("", "5")


@pytest.mark.parametrize("start", ["kube-system/x\0", "zzz\0", "/default/a\0"])
def test_a_page_that_starts_elsewhere_in_the_namespace(api: Wire, start: str) -> None:
    create(api, "y-last")
    token = base64.urlsafe_b64encode(json.dumps({"v": "meta.k8s.io/v1", "rv": -1, "start": start}).encode()).decode()
    reply = api.json("GET", f"{CONFIG_MAPS}?limit=500&continue={token.rstrip('=')}")
    assert reply.code == 200
    assert ("y-last" in [item["metadata"]["name"] for item in tree(reply)["items"]]) is (start < "y-last")


def test_a_namespaces_pages_follow_each_other(api: Wire) -> None:
    names = ["page-a", "page-b", "page-c"]
    for name in names:
        create(api, name)
    found, token = [], ""
    while True:
        page = tree(api.json("GET", f"{CONFIG_MAPS}?limit=1&continue={token}"))
        found += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert [name for name in found if name.startswith("page-")] == names


@pytest.mark.parametrize(
    ("query", "code"), [("timeout=abc", 400), ("timeout=5", 400), ("timeout=0s", 200), ("timeout=90h", 200)]
)
@pytest.mark.parametrize("path", [CONFIG_MAPS, "/apis", "/version"])
def test_a_timeout_is_a_duration(api: Wire, path: str, query: str, code: int) -> None:
    reply = api.json("GET", f"{path}?{query}")
    assert reply.code == code
    if code == 400:
        assert str(tree(reply)["message"]).startswith("invalid timeout specified in the request URL - time: ")


def test_a_watch_has_seconds_and_no_timeout(api: Wire) -> None:
    assert first_bookmark(api, CONFIG_MAPS, "timeout=abc")["kind"] == "Table"


def test_the_times_of_a_lease_have_six_decimals(api: Wire) -> None:
    reply = api.json("POST", LEASES, {"metadata": {"name": "t"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}})
    assert reply.told == (
        400,
        "BadRequest",
        (
            'Lease in version "v1" cannot be handled as a Lease: parsing time "2026-01-01T00:00:00Z" as '
            '"2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'
        ),
    )


@pytest.mark.parametrize("media", [MERGE, JSON_PATCH, STRATEGIC])
@pytest.mark.parametrize(
    ("kind", "version", "why"),
    [
        ("Secret", "v1", "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        ("Nothing", "v1", 'no kind "Nothing" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'),  # noqa: E501
        ("ConfigMap", "v2", 'no kind "ConfigMap" is registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30"'),  # noqa: E501
        ("ConfigMap", "a/b/c", "unexpected GroupVersion string: a/b/c"),
    ],
)  # fmt: skip
def test_a_patch_keeps_the_kind(api: Wire, media: str, kind: str, version: str, why: str) -> None:
    create(api, "kept")
    body: Any = {"kind": kind, "apiVersion": version}
    if media == JSON_PATCH:
        body = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in body.items()]
    reply = api.json("PATCH", f"{CONFIG_MAPS}/kept", body, Content_Type=media)
    if media == STRATEGIC:  # fills a struct that has its kind
        assert reply.code == 200
        return
    assert reply.code == 422 and str(tree(reply)["message"]).endswith(why)
    assert str(tree(reply)["message"]).startswith(' "" is invalid: patch: Invalid value: ')


def test_a_patch_may_leave_the_kind_out(api: Wire) -> None:
    create(api, "without")
    reply = api.json("PATCH", f"{CONFIG_MAPS}/without", {"kind": None, "apiVersion": None}, Content_Type=MERGE)
    assert (reply.code, tree(reply)["kind"]) == (200, "ConfigMap")


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        (b"", b"", "tls: failed to find any PEM data in certificate input"),
        (b"nothing", b"nothing", "tls: failed to find any PEM data in certificate input"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_tls_secret_that_cannot_serve_is_warned_of(
    api: Wire, method: str, certificate: bytes, key: bytes, why: str
) -> None:
    data = {"tls.crt": base64.b64encode(certificate).decode(), "tls.key": base64.b64encode(key).decode()}
    secret = {"metadata": {"name": f"tls-{len(key)}"}, "type": "kubernetes.io/tls", "data": data}
    if method == "PUT":
        api.json("POST", SECRETS, secret)
    path = SECRETS if method == "POST" else f"{SECRETS}/tls-{len(key)}"
    reply = api.json(method, path, secret | {"metadata": {"name": f"tls-{len(key)}", "labels": {"by": method.lower()}}})
    assert f'299 - "{why}"' in reply.headers.get("Warning", "")


@pytest.mark.parametrize(
    ("path", "routed"),
    [("/api", True), ("/apis", False), ("/api/v1", True), ("/apis/certificates.k8s.io", False),
     ("/apis/certificates.k8s.io/v1", True)],
)  # fmt: skip
def test_what_discovery_says_to_a_browser(api: Wire, path: str, routed: bool) -> None:
    reply = api.request("GET", path, Accept="text/html")
    start = "406: Not Acceptable" if routed else "only the following media types are accepted: "
    assert reply.code == 406 and str(tree(reply)["message"]).startswith(start)


def test_a_metadata_list_of_one_object(api: Wire) -> None:
    create(api, "one")
    assert api.request("GET", f"{CONFIG_MAPS}/one", Accept=METADATA_LIST).told == (
        406,
        "NotAcceptable",
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)",
    )


@pytest.mark.parametrize("body", [{}, {"rules": []}, {"rules": None}])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_no_rules_are_null(api: Wire, method: str, body: dict[str, Any]) -> None:
    name = f"rules-{method.lower()}-{len(str(body))}"
    path = ROLES if method == "POST" else f"{ROLES}/{name}"
    made = tree(api.json(method, path, {"metadata": {"name": name}} | body))
    again = tree(api.json("PUT", f"{ROLES}/{name}", {"metadata": {"name": name, "labels": {"a": "b"}}} | body))
    read = tree(api.json("GET", f"{ROLES}/{name}"))
    assert [made["rules"], again["rules"], read["rules"]] == [None] * 3


def test_an_empty_protobuf_body(api: Wire) -> None:
    for data, why in ((b"", "empty data (<empty>)"), (b"k8s\0", "empty body (6b387300)")):
        reply = api.request("POST", CONFIG_MAPS, data, content_type="application/vnd.kubernetes.protobuf")
        assert reply.told == (
            400, "BadRequest", f"the object provided is unrecognized (must be of type ConfigMap): {why}"
        )  # fmt: skip


def test_field_selectors_of_kinds_without_their_own(api: Wire) -> None:
    own = api.json("GET", "/api/v1/nodes?fieldSelector=spec.x%3D1")
    none = api.json("GET", f"{ROLES}?fieldSelector=spec.x%3D1")
    assert own.told == (400, "BadRequest", "field label not supported: spec.x")
    assert none.told == (
        400, "BadRequest", '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )  # fmt: skip
    assert api.json("GET", f"{ROLES}?fieldSelector=metadata.namespace%3Da").code == 200
    assert api.json("GET", "/api/v1/nodes?fieldSelector=metadata.namespace%3Da").code == 400


def test_who_was_sorted_is_told_where(api: Wire) -> None:
    names = {"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"}
    for reply in (api.json("GET", CONFIG_MAPS), api.json("GET", f"{CONFIG_MAPS}/none"), api.json("GET", "/version")):
        assert names <= set(reply.headers)


def test_a_row_of_a_bookmark_is_that_of_an_empty_object(api: Wire) -> None:
    expected = {CONFIG_MAPS: ["", 0, "<unknown>"], SECRETS: ["", "", 0, "<unknown>"]}
    for path, cells in expected.items():
        assert [row["cells"] for row in first_bookmark(api, path)["rows"]] == [cells]
