from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubevouch.agent.servers import Servers, answers
from kubevouch.client.interface import ConnectFailed, NotKubernetes, TransportError
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError

A, B, C = "https://a:6443", "https://b:6443", "https://c:6443"


def test_those_that_answer_come_first_and_the_oldest_failure_next() -> None:
    servers = Servers([A, B, "", A + "/", C])
    assert servers.in_order() == [A, B, C]
    servers.failed(A, 10.0)
    servers.failed(B, 5.0)
    assert servers.in_order() == [C, B, A]
    servers.worked(A)
    assert servers.in_order() == [A, C, B]
    servers.know([B, C])
    assert servers.in_order() == [C, B]
    servers.know([A, B, C])
    assert servers.in_order() == [A, C, B]


@pytest.mark.parametrize(
    ("err", "healthy"),
    [
        (None, True),
        (errors.unauthorized(), True),
        (errors.unknown_resource(), True),
        (errors.service_unavailable("no"), False),
        (errors.internal("no"), False),
        (NotKubernetes("a proxy's page", status=403), False),
        (ConnectFailed("refused"), False),
    ],
)
def test_a_refusal_is_an_answer(err: APIStatusError | TransportError | None, healthy: bool) -> None:
    assert answers(err) is healthy


def test_bootstrap_state_027() -> None:
    path = Path(__file__).parents[2] / "vectors" / "node.jsonl"
    case = next(each for each in map(json.loads, path.read_text().splitlines()) if each["id"] == "bootstrap-state-027")
    err = errors.forbidden_path("no") if case["given"]["create_csr_result"] == "403" else None
    assert err is not None and answers(err) is case["then"]["healthy"]
