"""S15: how large a page is, and where it begins, is the client's wish; how much memory that takes is not."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from kubevouch.registry.paging import ContinueToken
from kubevouch.testing import Cluster

MAPS = "/api/v1/namespaces/default/configmaps"
MEBIBYTE = 1 << 20
OBJECTS = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(real_time=True) as running:
        for number in range(OBJECTS):
            running.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m-{number}"}})
        yield running


def ask(cluster: Cluster, query: str) -> tuple[int, dict[str, object], int]:
    """Code, body, and the most memory that the answer took."""
    client = cluster.client()
    tracemalloc.start()
    try:
        answer = cluster.run(client.raw("GET", f"{MAPS}?{query}"))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return answer.status, json.loads(answer.body), most


@pytest.mark.parametrize("limit", ["100001", "2147483648", str((1 << 63) - 1), "-1", "-9223372036854775808", "0"])
def test_s15_a_page_of_any_size_is_as_large_as_what_is_there(cluster: Cluster, limit: str) -> None:
    code, body, most = ask(cluster, f"limit={limit}")
    assert code == 200
    assert len(body["items"]) == OBJECTS  # type: ignore[arg-type]
    assert most < MEBIBYTE


GARBAGE_NUMBERS = [
    "9223372036854775808", "1" * 10_000, "-", "+1", "1e9", "0x10", "1.0", " 1", "1 ", "\u0661", "\0", "NaN", "1_000",
]  # fmt: skip


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
@pytest.mark.parametrize("number", GARBAGE_NUMBERS)
def test_s15_what_is_no_number_is_refused(cluster: Cluster, name: str, number: str) -> None:
    code, body, most = ask(cluster, f"{name}={quote(number)}")
    if number == "+1":  # Go's ParseInt reads it
        assert code == 200
    else:
        assert (code, body["reason"]) == (400, "BadRequest")
    assert most < MEBIBYTE


def sealed(tree: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).rstrip(b"=").decode()


GARBAGE_TOKENS = [
    "garbage", "=", "%", "A" * 100_000, "\0", "null", sealed(None), sealed([]), sealed({}), sealed("x"),
    sealed({"v": "meta.k8s.io/v2", "rv": 1, "start": "default/a\0"}),
    sealed({"v": "meta.k8s.io/v1", "rv": 0, "start": "default/a\0"}),
    sealed({"v": "meta.k8s.io/v1", "rv": "1", "start": "default/a\0"}),
    sealed({"v": "meta.k8s.io/v1", "rv": 1, "start": ""}),
    sealed({"v": "meta.k8s.io/v1", "rv": 1, "start": "../secrets/kube-system/a"}),
    sealed({"v": "meta.k8s.io/v1", "rv": 1, "start": "default/../../secrets/a"}),
    sealed({"v": "meta.k8s.io/v1", "rv": 1, "start": ["default/a"]}),
    sealed({"v": "meta.k8s.io/v1", "rv": 1 << 70, "start": "default/a\0"}),
    sealed({"v": "meta.k8s.io/v1", "rv": 1 << 62, "start": "default/a\0"}),
    sealed([[[[[[[[[[[[]]]]]]]]]]]] * 50), base64.urlsafe_b64encode(b"[" * 3000).decode(),
]  # fmt: skip


@pytest.mark.parametrize("token", GARBAGE_TOKENS, ids=range(len(GARBAGE_TOKENS)))
def test_s15_a_token_that_nobody_gave_is_refused(cluster: Cluster, token: str) -> None:
    code, body, most = ask(cluster, f"limit=1&continue={quote(token)}")
    # A revision that is to come is waited for, as Kubernetes does, and not for long.
    assert (code, body["kind"]) in ((400, "Status"), (410, "Status"), (504, "Status"))
    assert most < 2 * MEBIBYTE


def test_s15_a_token_leads_nowhere_but_into_its_own_list(cluster: Cluster) -> None:
    revision = int(str(ask(cluster, "limit=1")[1]["metadata"]["resourceVersion"]))  # type: ignore[index]
    for start in ("kube-system/a\0", "zzz\0", "default/m-3\0", "m-3\0", "default/zzz\0"):
        code, body, _ = ask(cluster, f"continue={ContinueToken(revision, start).encode()}")
        names = [item["metadata"]["name"] for item in body.get("items", [])]  # type: ignore[attr-defined]
        assert set(names) <= {f"m-{number}" for number in range(OBJECTS)}
        assert code == 200
