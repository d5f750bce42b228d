"""S25: what becomes a path, a label or is matched with a wild card is a DNS-1123 subdomain, or nothing comes of it."""

from __future__ import annotations

import ast
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

import identity_world as world
import kubevouch
from identity_world import NODE_CLIENT, NODE_SERVING
from kubevouch.machinery.errors import APIStatusError
from kubevouch.phases import bootstrap_token
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.records import token_bounds
from kubevouch.records.bootstrap_tokens import generate_token
from kubevouch.testing.cluster import ADMIN, Cluster

NAMES = [
    "worker-1\n", "worker-1\nx", "worker-1\0", "worker-1/../admin", "../worker-1", ".", "..", "worker-1/", "a%2fb",
    "", "Worker-1", "worker_1", "w\u043erker-1", "worker-\u0661", "worker-1 ", "*", "worker-*", "worker-" + "1" * 300,
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=("csrapproving", "csrsigning", "tokenuses")) as running:
        yield running


@pytest.mark.parametrize("name", NAMES)
def test_no_such_name_is_approved(cluster: Cluster, name: str) -> None:
    """A request of Kubernetes' shape, with a good token: Kubernetes approves and signs it."""
    posted = world.ask(cluster, world.token_user(), world.node_request(name))
    assert world.outcome(cluster, posted) == "Pending"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("signer", [NODE_CLIENT, NODE_SERVING])
def test_no_such_name_is_signed_although_it_was_approved(cluster: Cluster, name: str, signer: str) -> None:
    names = SubjectAltNames(dns_names=("worker-1",) if signer == NODE_SERVING else ())
    posted = world.ask(cluster, ADMIN, world.request(world.node_subject(name), names=names), signer=signer)
    world.approve(cluster, posted)
    ended = world.outcome(cluster, posted)
    assert ended.startswith("Approved,Failed: ") and ended.endswith("is not a node name")
    assert all(char.isprintable() for char in ended)


@pytest.mark.parametrize("name", NAMES)
def test_no_such_name_passes_a_tokens_wild_card(cluster: Cluster, name: str) -> None:
    token = generate_token()
    bounds = token_bounds.parse(node_names=["worker-*", "*"])
    plan = bootstrap_token.plan(token, now=cluster.clock.now(), bounds=bounds, ttl=dt.timedelta(hours=1))
    cluster.run(bootstrap_token.create(cluster.server.client, plan))
    posted = world.ask(cluster, world.token_user(token.token_id), world.node_request(name))
    assert not world.settled(cluster, posted).status.certificate
    assert not bounds.allows_node(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_for_a_name_that_no_node_can_have_writes_nothing(cluster: Cluster, name: str) -> None:
    """An older signer has issued it. Its holder is no node, neither to the authorizer nor to NodeRestriction."""
    with pytest.raises(APIStatusError) as refused:
        cluster.as_user(world.node_user(name)).create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "worker-1", "namespace": "kube-node-lease"},
                "spec": {},
            }
        )
    assert refused.value.code == 403


def test_one_place_takes_a_nodes_name_out_of_a_users() -> None:
    """Wherever a name is cut off ``system:node:`` by hand, it would be any text."""
    found = set()
    root = Path(kubevouch.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                cuts = node.func.attr in ("removeprefix", "partition", "split", "replace")
            else:
                cuts = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
            if cuts and "NODE_USER_PREFIX" in ast.dump(node):
                found.add(path.relative_to(root).as_posix())
    # The second prints the wrong name in a refusal; the third cuts its own, which it has made.
    assert found == {"pki/node_user.py", "pki/policy.py", "agent/certificate_manager.py"}
