"""S1, S23: a bootstrap token takes over the name of a node that is there; S6: a request is posted again by another."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

import identity_world as world
from kubevouch import wellknown
from kubevouch.authentication.interface import UserInfo
from kubevouch.phases import bootstrap_token
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.records import token_bounds
from kubevouch.records.bootstrap_tokens import generate_token
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA
from kubevouch.standalone.options import IdentityOptions
from kubevouch.testing.cluster import ADMIN, Cluster

NAME = "worker-1"
YEAR = dt.timedelta(days=366).total_seconds()
CONTROLLERS = ("csrapproving", "csrsigning", "certificateledger", "csrcleaner", "tokenuses", "noderemoval")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=CONTROLLERS) as running:
        yield running


def join(cluster: Cluster, user: UserInfo, key: PrivateKey | None = None, name: str = NAME) -> str:
    return world.outcome(cluster, world.ask(cluster, user, world.node_request(name, key)))


def bound_token(cluster: Cluster, *names: str) -> UserInfo:
    """A token for these names, as the API server lets its holder in."""
    token = generate_token()
    plan = bootstrap_token.plan(token, now=cluster.clock.now(), bounds=token_bounds.parse(node_names=names))
    cluster.run(bootstrap_token.create(cluster.server.client, plan))
    secret = cluster.get("Secret", token.secret_name, "kube-system")
    user = world.token_user(token.token_id)
    return UserInfo(user.name, groups=user.groups, extra={TOKEN_UID_EXTRA: (secret.metadata.uid,)})


def register(cluster: Cluster, *, ready: bool = True, heartbeat: dt.datetime | None = None) -> None:
    """As the kubelet does."""
    now = heartbeat or cluster.clock.now()
    condition = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "lastHeartbeatTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}, "status": {"conditions": [condition]}}
    cluster.as_user(world.node_user(NAME)).create(node)


def renew_lease(cluster: Cluster) -> None:
    now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    cluster.as_user(world.node_user(NAME)).create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "namespace": wellknown.KUBE_NODE_LEASE_NAMESPACE},
            "spec": {"holderIdentity": NAME, "leaseDurationSeconds": 40, "renewTime": now},
        }
    )


# ------------------------------------------------------------------ S1, S23


def test_a_stolen_token_gets_no_name_that_has_a_valid_certificate(cluster: Cluster) -> None:
    assert join(cluster, world.token_user()) == "Approved,Issued"
    ended = join(cluster, world.token_user("stolen"))
    assert ended.startswith(
        "Denied: the name worker-1 belongs to another machine: it has a certificate with another key"
    )
    # It has not made its Node yet, and `kubectl delete node` would answer NotFound.
    assert "kubectl delete node" not in ended and "kubevouch token create --node-name worker-1" in ended
    register(cluster)
    assert "kubectl delete node worker-1" in join(cluster, world.token_user("stolen"))
    # Not even the token that the machine itself came with.
    assert join(cluster, world.token_user()).startswith("Denied")


def test_the_ledger_remembers_it_when_the_request_is_cleaned_away(cluster: Cluster) -> None:
    key = world.new_key()
    posted = world.ask(cluster, world.token_user(), world.node_request(NAME, key))
    assert world.outcome(cluster, posted) == "Approved,Issued"
    cluster.clock.advance(30)
    cluster.settle()
    cluster.delete("CertificateSigningRequest", posted)
    cluster.settle()
    assert join(cluster, world.token_user("stolen")).startswith("Denied")
    assert join(cluster, world.token_user(), key) == "Approved,Issued"
    cluster.restart()
    assert join(cluster, world.token_user("stolen")).startswith("Denied")


def test_a_name_is_free_when_its_last_certificate_has_ended(cluster: Cluster) -> None:
    assert join(cluster, world.token_user()) == "Approved,Issued"
    cluster.clock.advance(YEAR)
    assert join(cluster, world.token_user("second")) == "Approved,Issued"


@pytest.mark.parametrize("sign_of_life", ["lease", "ready"])
def test_a_node_that_lives_keeps_its_name_whoever_has_certified_it(cluster: Cluster, sign_of_life: str) -> None:
    """Of the control plane's own machines no request is known: kubeadm signs for them itself."""
    register(cluster, ready=sign_of_life == "ready")
    if sign_of_life == "lease":
        renew_lease(cluster)
    ended = join(cluster, world.token_user())
    assert ended.startswith("Denied: the name worker-1 belongs to another machine: its ")


def test_a_node_that_was_not_heard_of_for_long_does_not(cluster: Cluster) -> None:
    register(cluster)
    renew_lease(cluster)
    cluster.clock.advance(3600)
    assert join(cluster, world.token_user()) == "Approved,Issued"


def test_the_same_machine_comes_again(cluster: Cluster) -> None:
    """A join that was killed at any point is run again, with the key that it has on disk."""
    key = world.new_key()
    for _ in range(3):
        assert join(cluster, world.token_user(), key) == "Approved,Issued"
    register(cluster)
    renew_lease(cluster)
    assert join(cluster, world.token_user(), key) == "Approved,Issued"


def test_the_node_itself_renews(cluster: Cluster) -> None:
    assert join(cluster, world.token_user()) == "Approved,Issued"
    assert join(cluster, world.node_user(NAME)) == "Approved,Issued"
    assert join(cluster, world.token_user("stolen")).startswith("Denied")


def test_a_token_for_that_name_gets_it_and_one_for_what_fits_a_wild_card_does_not(cluster: Cluster) -> None:
    assert join(cluster, world.token_user()) == "Approved,Issued"
    assert join(cluster, bound_token(cluster, "worker-*")).startswith("Denied")
    assert join(cluster, bound_token(cluster, "worker-2", NAME)) == "Approved,Issued"
    # Whoever says that he came with such a token, while no API server says so.
    user = bound_token(cluster, NAME)
    assert join(cluster, UserInfo(user.name, groups=user.groups)).startswith("Denied")


def test_deleting_the_node_releases_its_name(cluster: Cluster) -> None:
    assert join(cluster, world.token_user()) == "Approved,Issued"
    register(cluster)
    cluster.settle()
    cluster.clock.advance(30)
    cluster.settle()
    cluster.delete("Node", NAME)
    cluster.settle()
    assert join(cluster, world.token_user("second")) == "Approved,Issued"
    assert join(cluster, world.token_user("third0")).startswith("Denied")


def test_a_deletion_is_noticed_that_happened_while_nobody_looked(tmp_path: object) -> None:
    with Cluster(controllers=CONTROLLERS, store=f"sqlite:{tmp_path}/store.db") as first:
        assert join(first, world.token_user()) == "Approved,Issued"
        register(first)
        first.clock.advance(30)
        first.settle()
        later = first.clock.now() + dt.timedelta(hours=1)
    with Cluster(store=f"sqlite:{tmp_path}/store.db", now=later) as second:
        second.delete("Node", NAME)
    with Cluster(controllers=CONTROLLERS, store=f"sqlite:{tmp_path}/store.db", now=later) as third:
        third.settle()
        assert join(third, world.token_user("second")) == "Approved,Issued"


def test_two_machines_at_once(cluster: Cluster) -> None:
    """Both ask before either has been looked at. One gets the name."""
    posted = [world.ask(cluster, world.token_user(), world.node_request("twin")) for _ in range(8)]
    ended = [world.outcome(cluster, name) for name in posted]
    cluster.clock.advance(60)
    ended = [world.outcome(cluster, name) for name in posted]
    assert sorted(each.partition(":")[0] for each in ended) == ["Approved,Issued"] + ["Denied"] * 7


def test_the_old_way() -> None:
    with Cluster(controllers=CONTROLLERS, identity=IdentityOptions(allow_name_takeover=True)) as cluster:
        for token in ("aaaaaa", "bbbbbb"):
            assert join(cluster, world.token_user(token)) == "Approved,Issued"


def test_a_person_decides_otherwise(cluster: Cluster) -> None:
    """What a person has approved before anybody else decided is signed."""
    assert join(cluster, world.token_user()) == "Approved,Issued"
    posted = world.ask(cluster, ADMIN, world.node_request(NAME), name="by-hand")
    world.approve(cluster, posted)
    assert world.outcome(cluster, posted) == "Approved,Issued"


# ------------------------------------------------------------------ S6


def test_s06_the_same_bytes_from_another_poster(cluster: Cluster) -> None:
    pem = world.node_request(NAME)
    first = world.ask(cluster, world.token_user("first0"), pem)
    assert world.outcome(cluster, first) == "Approved,Issued"
    replayed = world.ask(cluster, world.token_user("second"), pem)
    ended = world.outcome(cluster, replayed)
    assert ended.startswith(f"Denied: the request {first} is for the same key and came from another requester")
    again = world.ask(cluster, world.token_user("first0"), pem)
    assert world.outcome(cluster, again) == "Approved,Issued"


def test_s06_the_same_key_under_another_name(cluster: Cluster) -> None:
    key = world.new_key()
    assert join(cluster, world.token_user("first0"), key, "worker-1") == "Approved,Issued"
    assert join(cluster, world.token_user("second"), key, "worker-2").startswith("Denied")


def test_s06_what_was_denied_gives_no_claim_to_a_key(cluster: Cluster) -> None:
    """Who copies a request and is denied does not keep its machine out."""
    key = world.new_key()
    first = world.ask(cluster, world.token_user("first0"), world.node_request(NAME, key))
    assert world.outcome(cluster, first) == "Approved,Issued"
    assert join(cluster, world.token_user("thief0"), key).startswith("Denied")
    cluster.delete("CertificateSigningRequest", first)
    assert join(cluster, world.token_user("first0"), key) == "Approved,Issued"


def test_s06_a_node_uses_its_own_key_again(cluster: Cluster) -> None:
    key = world.new_key()
    assert join(cluster, world.token_user("first0"), key) == "Approved,Issued"
    assert join(cluster, world.node_user(NAME), key) == "Approved,Issued"
