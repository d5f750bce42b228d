"""S4: whatever is not opened on purpose is closed to who shows nothing, however the path is written (CVE-2026-1709)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract import route_matrix
from kubevouch.testing import Cluster
from wire import Wire

# Kubernetes' system:public-info-viewer and the probes. cluster-info is one object, and no route of its own.
OPEN = {"get /healthz", "get /livez", "get /readyz", "get /version"}
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "LIST")
# Ways to say /api/v1/secrets that a router may understand and an authorizer may not, or the other way round.
SECRETS = (
    "//api/v1/secrets", "/api//v1/secrets", "/api/v1/secrets/", "/api/v1//secrets", "/./api/v1/secrets",
    "/livez/../api/v1/secrets", "/version/..%2fapi/v1/secrets", "/%61pi/v1/secrets", "/api/v1/%73ecrets",
    "/api/v1/secrets%00", "/api/v1/secrets;x=/livez", "/api/v1/secrets?path=/livez", "/api/v1/secrets#/livez",
    "/API/v1/secrets", "/api/v1/watch/secrets", "/api/v1/namespaces/kube-public/../kube-system/secrets",
    "/api/v1/namespaces/kube-public/configmaps/cluster-info/../../../kube-system/secrets", "/livez/api/v1/secrets",
    f"{CLUSTER_INFO}/../admin", f"{CLUSTER_INFO}%2f..%2fadmin", "/api/v1/namespaces/kube-public/configmaps",
    "https://127.0.0.1/api/v1/secrets", "/api/v1/proxy/nodes/n", "/api/v1/nodes/n/proxy/",
)  # fmt: skip


@pytest.fixture(scope="module")
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    folder = tmp_path_factory.mktemp("nobody")
    with Cluster(https=True) as cluster:
        cluster.token()
        yield Wire.of_kubeconfig(Path(cluster.kubeconfig), folder, anonymous=True)


def test_only_what_is_meant_to_be_open_is_open() -> None:
    """The file is compared with the router by tests/contract/test_route_matrix.py."""
    opened = {route for route, by_name in route_matrix.read().items() if by_name["none"] not in (401, 403)}
    assert opened == OPEN


def code(wire: Wire, method: str, path: str) -> int:
    answer = wire.raw(f"{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
    return int(answer[9:12]) if answer else 0


@pytest.mark.parametrize("path", SECRETS)
def test_no_other_way_to_write_a_path_opens_it(nobody: Wire, path: str) -> None:
    # A path that is understood is answered 301 to its proper form, or refused; nothing is ever shown.
    assert code(nobody, "GET", path) in (0, 301, 307, 400, 401, 403, 404)


def test_what_is_open_is_open_for_reading_only(nobody: Wire) -> None:
    found = {
        (method, path): code(nobody, method, path)
        for path in ("/livez", "/version", CLUSTER_INFO, "/", "/metrics", "/openapi/v2")
        for method in METHODS
    }
    allowed = {at for at, answered in found.items() if answered < 400}
    assert allowed <= {(method, path) for method in ("GET", "HEAD") for path in ("/livez", "/version", CLUSTER_INFO)}
    assert max(found.values()) < 500
