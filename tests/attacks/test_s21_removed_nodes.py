"""S21: a node that was taken out of service goes on with its certificate, registers again and renews."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

import identity_world as world
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.errors import APIStatusError
from kubevouch.phases import bootstrap_token, node_removal
from kubevouch.pki import keys
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.records import node_recovery, token_bounds
from kubevouch.records.bootstrap_tokens import generate_token
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA
from kubevouch.revocation import node_records
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.options import IdentityOptions
from kubevouch.testing.cluster import Cluster
from wire import Wire

NAME = "worker-1"
OWN_NODE = f"/api/v1/nodes/{NAME}"
CONTROLLERS = ("csrapproving", "csrsigning", "certificateledger", "tokenuses", "noderecovery", "noderemoval")
LOCKING = IdentityOptions(lock_out_deleted_nodes=True)


class Machine:
    """One that has joined: its key, its certificate, and what it sends."""

    def __init__(self, cluster: Cluster, folder: Path, user: UserInfo, key: PrivateKey | None = None) -> None:
        self.cluster = cluster
        self.key = key or world.new_key()
        posted = world.ask(cluster, user, world.node_request(NAME, self.key))
        self.ended = world.outcome(cluster, posted)
        if self.ended == "Approved,Issued":
            certificate = cluster.get("CertificateSigningRequest", posted).status.certificate
            pair = folder / f"{posted}.pem"
            pair.write_bytes(certificate + keys.to_pem(self.key))
            ca = cluster.pki.ca_certificate
            self.wire = Wire(int(cluster.url.rpartition(":")[2]), ca, pair)

    def register(self) -> int:
        return self.wire.json("POST", "/api/v1/nodes", {"metadata": {"name": NAME}}).code

    def looks(self) -> int:
        return self.wire.request("GET", OWN_NODE).code

    def renews(self) -> str:
        posted = world.ask(self.cluster, world.node_user(NAME), world.node_request(NAME))
        return world.outcome(self.cluster, posted)


def pass_time(cluster: Cluster, seconds: float = 30) -> None:
    cluster.settle()
    cluster.clock.advance(seconds)
    cluster.settle()


def joined(cluster: Cluster, folder: Path) -> Machine:
    machine = Machine(cluster, folder, world.token_user())
    assert machine.register() == 201 and machine.looks() == 200
    pass_time(cluster)
    return machine


def bound_token(cluster: Cluster) -> UserInfo:
    token = generate_token()
    plan = bootstrap_token.plan(token, now=cluster.clock.now(), bounds=token_bounds.parse(node_names=[NAME]))
    cluster.run(bootstrap_token.create(cluster.server.client, plan))
    uid = cluster.get("Secret", token.secret_name, "kube-system").metadata.uid
    user = world.token_user(token.token_id)
    return UserInfo(user.name, groups=user.groups, extra={TOKEN_UID_EXTRA: (uid,)})


def remove(cluster: Cluster) -> None:
    cluster.run(node_removal.remove(cluster.server.client, NAME, "stolen"))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=CONTROLLERS) as running:
        yield running


def test_a_removed_node_gets_401_at_once(cluster: Cluster, tmp_path: Path) -> None:
    machine = joined(cluster, tmp_path)
    remove(cluster)
    assert (machine.looks(), machine.register()) == (401, 401)
    assert cluster.list("Node") == []
    cluster.restart()
    assert machine.looks() == 401
    pass_time(cluster, dt.timedelta(days=300).total_seconds())
    assert machine.looks() == 401


def test_on_an_open_connection_too(cluster: Cluster, tmp_path: Path) -> None:
    machine = joined(cluster, tmp_path)
    with machine.wire.connected() as connection:
        for code in (b"200", b"401"):
            connection.sendall(f"GET {OWN_NODE} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            assert connection.recv(65_536).startswith(b"HTTP/1.1 " + code)
            remove(cluster)


def test_its_watches_end(cluster: Cluster, tmp_path: Path) -> None:
    machine = joined(cluster, tmp_path)
    path = f"/api/v1/nodes?watch=1&fieldSelector=metadata.name%3D{NAME}"
    with machine.wire.connected() as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        remove(cluster)
        cluster.clock.advance(10)
        told = b""
        while not told.endswith(b"0\r\n\r\n"):
            some = connection.recv(65_536)
            assert some
            told += some


def test_its_renewals_are_denied(cluster: Cluster, tmp_path: Path) -> None:
    machine = joined(cluster, tmp_path)
    remove(cluster)
    pass_time(cluster)
    ended = machine.renews()
    assert ended.startswith("Denied: node worker-1 is locked out since ") and "(stolen)" in ended


def test_a_request_of_before_is_not_signed_after(cluster: Cluster, tmp_path: Path) -> None:
    """It was approved, and the signer was away."""
    joined(cluster, tmp_path)
    pem = world.request(world.node_subject(NAME))
    posted = world.ask(cluster, world.node_user(NAME), pem, signer=world.NODE_SERVING)
    remove(cluster)
    world.approve(cluster, posted)
    assert world.outcome(cluster, posted).startswith("Approved,Failed: node worker-1 was locked out after")


def test_it_comes_back_by_somebodys_decision_only(cluster: Cluster, tmp_path: Path) -> None:
    machine = joined(cluster, tmp_path)
    remove(cluster)
    pass_time(cluster)
    assert Machine(cluster, tmp_path, world.token_user()).ended.startswith("Denied: node worker-1 is locked out")
    # Nor with the key that had the name.
    assert Machine(cluster, tmp_path, world.token_user(), machine.key).ended.startswith("Denied")
    new = Machine(cluster, tmp_path, bound_token(cluster))
    assert new.ended == "Approved,Issued" and new.register() == 201 and new.looks() == 200
    assert machine.looks() == 401
    pass_time(cluster)
    assert new.renews() == "Approved,Issued"
    assert Machine(cluster, tmp_path, world.token_user()).ended.startswith("Denied")


def test_lifting(cluster: Cluster, tmp_path: Path) -> None:
    machine = joined(cluster, tmp_path)
    remove(cluster)
    assert machine.looks() == 401
    locked = cluster.run(node_removal.lockouts(cluster.server.client, cluster.clock))
    assert locked[NAME].why == "stolen"
    cluster.run(node_removal.lift(cluster.server.client, NAME, cluster.clock))
    assert machine.looks() == 404 and machine.register() == 201
    assert cluster.run(node_removal.lockouts(cluster.server.client, cluster.clock)) == {}
    with pytest.raises(node_removal.NodeRemovalError, match="is not locked out"):
        cluster.run(node_removal.lift(cluster.server.client, NAME, cluster.clock))


def test_a_lock_ends_with_the_last_certificate(cluster: Cluster, tmp_path: Path) -> None:
    joined(cluster, tmp_path)
    remove(cluster)
    pass_time(cluster, dt.timedelta(days=366).total_seconds())
    assert Machine(cluster, tmp_path, world.token_user()).ended == "Approved,Issued"


def test_a_machine_of_which_nothing_is_known_is_removed_before_it_registers(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(cluster, tmp_path, world.token_user())
    pass_time(cluster)
    remove(cluster)
    assert machine.register() == 401


# ------------------------------------------------------------------ kubectl delete node


def test_as_in_kubernetes_a_deleted_node_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    """Operators delete the Node of a machine that they restart."""
    machine = joined(cluster, tmp_path)
    cluster.delete("Node", NAME)
    pass_time(cluster)
    assert machine.register() == 201 and machine.looks() == 200
    assert machine.renews() == "Approved,Issued"


def test_with_the_setting_a_deleted_node_is_locked_out(tmp_path: Path) -> None:
    with Cluster(https=True, controllers=CONTROLLERS, identity=LOCKING) as cluster:
        machine = joined(cluster, tmp_path)
        cluster.delete("Node", NAME)
        cluster.settle()
        assert (machine.looks(), machine.register()) == (401, 401)
        pass_time(cluster)
        assert machine.renews().startswith("Denied: node worker-1 is locked out")
        assert Machine(cluster, tmp_path, world.token_user()).ended.startswith("Denied")
        assert Machine(cluster, tmp_path, bound_token(cluster)).register() == 201


def test_a_node_is_locked_out_that_is_deleted_before_it_was_written_down(tmp_path: Path) -> None:
    """New Nodes share a write every ten seconds."""
    with Cluster(https=True, controllers=CONTROLLERS, identity=LOCKING) as cluster:
        machine = Machine(cluster, tmp_path, world.token_user())
        assert machine.register() == 201 and machine.looks() == 200
        cluster.settle()
        cluster.delete("Node", NAME)
        cluster.settle()
        assert machine.looks() == 401 and machine.register() == 401
        cluster.run(node_removal.lift(cluster.server.client, NAME, cluster.clock))
        pass_time(cluster)
        assert machine.looks() == 404, "lifted once is lifted"


def test_a_deleted_node_is_revoked_for_everybody_who_asks(tmp_path: Path) -> None:
    """CRLs, OCSP and the webhook of other servers know no lock-outs."""
    with Cluster(https=True, controllers=CONTROLLERS, identity=LOCKING) as cluster:
        cluster.run(own_kinds.ensure(cluster.server.client))
        machine = joined(cluster, tmp_path)
        cluster.delete("Node", NAME)
        cluster.settle()
        (made,) = cluster.list(CERTIFICATE_REVOCATIONS)
        assert (made.spec.reason, made.spec.revoked.nodes) == ("certificateHold", [NAME])
        remove(cluster)
        assert len(cluster.list(CERTIFICATE_REVOCATIONS)) >= 1 and machine.looks() == 401
        cluster.run(node_removal.lift(cluster.server.client, NAME, cluster.clock))
        assert cluster.list(CERTIFICATE_REVOCATIONS) == [] and machine.looks() == 404


def test_a_finalizer_keeps_nobody_in(tmp_path: Path) -> None:
    with Cluster(https=True, controllers=CONTROLLERS, identity=LOCKING) as cluster:
        machine = Machine(cluster, tmp_path, world.token_user())
        cluster.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "finalizers": ["example.com/drain"]}}
        )
        pass_time(cluster)
        cluster.delete("Node", NAME)
        cluster.settle()
        assert machine.looks() == 401


# ------------------------------------------------------------------ S26: nor by the node itself


@pytest.mark.parametrize("name", node_records.CONFIG_MAPS[:2])
def test_a_node_writes_no_records(cluster: Cluster, tmp_path: Path, name: str) -> None:
    joined(cluster, tmp_path)
    node = cluster.as_user(world.node_user(NAME))
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": {NAME: "{}"},
    }
    for act in (node.create, node.apply):
        with pytest.raises(APIStatusError) as refused:
            act(record)
        assert refused.value.code == 403
    with pytest.raises(APIStatusError):
        node.delete("Node", NAME)


def test_a_removed_node_does_not_recover(tmp_path: Path) -> None:
    """Its recovery key would bring it back once its certificate, and with it the lock, has ended."""
    with Cluster(https=True, controllers=CONTROLLERS, recovery=RecoveryPolicy(), identity=LOCKING) as cluster:
        joined(cluster, tmp_path)
        now = cluster.clock.now()
        record = node_recovery.Record(node=NAME, key="a" * 64, changed=now)
        cluster.run(cluster.server.client.create(CONFIG_MAPS, node_recovery.config_map(record)))
        cluster.delete("Node", NAME)
        cluster.settle()
        stored = cluster.get("ConfigMap", node_recovery.record_name(NAME), node_recovery.NAMESPACE)
        assert node_recovery.record_of(stored).locked == "its Node was deleted"
        cluster.run(node_removal.remove(cluster.server.client, NAME))
        stored = cluster.get("ConfigMap", node_recovery.record_name(NAME), node_recovery.NAMESPACE)
        assert node_recovery.record_of(stored).locked
