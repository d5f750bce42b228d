"""Whoever has a bootstrap token fills the ledger of certificates, and a name is nobody's once its request is gone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice

import pytest

import identity_world as world
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records import certificate_ledger
from kubevouch.records.certificate_ledger import LAYOUT, TOKEN_BUDGET, TOTALS_ANNOTATION, IssuedCertificate, machine_key
from kubevouch.records.config_map_overflow import MAX_BYTES, size
from kubevouch.reviews import csr_review, join_status
from kubevouch.testing.cluster import Cluster
from kubevouch.wellknown import JOIN_STUCK_ANNOTATION
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER as SIGNER

NAME = "worker-1"
KEY = machine_key(SIGNER, f"system:node:{NAME}")
SHARD = KEY[0]
HOUR = 3600.0
CONTROLLERS = ("csrapproving", "csrsigning", "certificateledger", "csrcleaner", "tokenuses", "noderemoval")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=CONTROLLERS) as running:
        yield running


def join(cluster: Cluster, token: str = "abcdef") -> tuple[str, str]:
    posted = world.ask(cluster, world.token_user(token), world.node_request(NAME))
    return posted, world.outcome(cluster, posted)


def entries(cluster: Cluster) -> dict[str, str]:
    """As many as a ConfigMap holds, of one shard, by names of 236 letters."""
    now = cluster.clock.now()
    found: dict[str, str] = {}
    users = (f"system:node:{number:0236}" for number in count())
    keys = ((user, machine_key(SIGNER, user)) for user in users)
    for user, key in islice((pair for pair in keys if pair[1].startswith(SHARD)), 1500):
        entry = IssuedCertificate(
            common_name=user,
            signer_name=SIGNER,
            serial="a" * 40,
            not_before=now,
            not_after=now + dt.timedelta(days=365),
            authority="b" * 40,
            public_key="c" * 32,
        )
        found |= certificate_ledger.encode({key: entry})
    assert size(found) < MAX_BYTES
    return found | {"f" * 32: _padding(cluster, MAX_BYTES - size(found) - 48)}


def _padding(cluster: Cluster, length: int) -> str:
    now = cluster.clock.now()
    entry = IssuedCertificate(
        common_name="", signer_name="", serial="", not_before=now, not_after=now + dt.timedelta(days=365)
    )
    text = certificate_ledger.encode({"k": entry})["k"]
    return text + " " * (length - len(text))


def store(
    cluster: Cluster, name: str, data: dict[str, str], *, totals: str = "", immutable: bool | None = None
) -> None:
    """In place of what is there, once the controllers have made theirs."""
    cluster.settle()
    with suppress(APIStatusError):
        cluster.delete("ConfigMap", name, "kube-system")
    annotations = {TOTALS_ANNOTATION: totals} if totals else {}
    meta = ObjectMeta(name=name, namespace="kube-system", annotations=annotations)
    cluster.run(cluster.server.client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=data, immutable=immutable)))
    cluster.settle()


def test_a_name_is_remembered_although_its_config_map_is_full(cluster: Cluster) -> None:
    store(cluster, f"{certificate_ledger.PREFIX}{SHARD}", entries(cluster))
    posted, ended = join(cluster)
    assert ended == "Approved,Issued"
    cluster.clock.advance(30)
    cluster.settle()
    assert KEY in cluster.get("ConfigMap", LAYOUT.further[0], "kube-system").data
    cluster.delete("CertificateSigningRequest", posted)
    cluster.settle()
    assert join(cluster, "stolen")[1].startswith("Denied: the name worker-1 belongs to another machine")
    cluster.restart()
    assert join(cluster, "stolen")[1].startswith("Denied: the name worker-1 belongs to another machine")


def test_what_has_ended_makes_room_everywhere(cluster: Cluster) -> None:
    names = (f"{certificate_ledger.PREFIX}{SHARD}", LAYOUT.further[0])
    store(cluster, names[0], entries(cluster))
    store(cluster, names[1], {"0" * 32: _padding(cluster, 900 << 10)})
    cluster.clock.advance(366 * 24 * HOUR)
    cluster.settle()
    assert [cluster.get("ConfigMap", name, "kube-system").data for name in names] == [{}, {}]


def test_a_further_one_that_was_deleted_hides_none_of_those_that_follow(cluster: Cluster) -> None:
    ended = {"0" * 32: _padding(cluster, 900 << 10)}
    store(cluster, LAYOUT.further[5], ended)
    join(cluster)
    cluster.clock.advance(366 * 24 * HOUR)
    cluster.settle()
    assert cluster.get("ConfigMap", LAYOUT.further[5], "kube-system").data == {}


# ------------------------------------------------------------------ the cleaner


def requests(cluster: Cluster) -> list[str]:
    return [csr.metadata.name for csr in cluster.list("CertificateSigningRequest")]


def test_a_request_stays_until_its_certificate_is_recorded(cluster: Cluster) -> None:
    shard = f"{certificate_ledger.PREFIX}{SHARD}"
    store(cluster, shard, {}, immutable=True)
    posted, ended = join(cluster)
    assert ended == "Approved,Issued"
    for _ in range(3):
        cluster.clock.advance(HOUR)
        cluster.settle()
    assert requests(cluster) == [posted]
    assert join(cluster, "stolen")[1].startswith("Denied: the name worker-1 belongs to another machine")
    cluster.delete("ConfigMap", shard, "kube-system")
    for _ in range(5):
        cluster.clock.advance(HOUR)
        cluster.settle()
    assert requests(cluster) == [] and KEY in cluster.get("ConfigMap", shard, "kube-system").data


def test_without_a_ledger_requests_are_cleaned_as_in_kubernetes() -> None:
    with Cluster(controllers=("csrapproving", "csrsigning", "csrcleaner")) as cluster:
        assert join(cluster)[1] == "Approved,Issued"
        for _ in range(3):
            cluster.clock.advance(HOUR)
            cluster.settle()
        assert requests(cluster) == []


# ------------------------------------------------------------------ what one token may fill


def test_a_token_that_has_filled_its_part_waits_and_others_do_not(cluster: Cluster) -> None:
    name = f"{certificate_ledger.PREFIX}{'0' if SHARD != '0' else '1'}"
    store(cluster, name, {}, totals=f'{{"bytes":{MAX_BYTES},"tokens":{{"abcdef":{TOKEN_BUDGET}}}}}')
    waiting, ended = join(cluster)
    assert ended == "Pending"
    assert join(cluster, "fedcba")[1] == "Approved,Issued"
    # The node that is there goes on.
    renewal = world.ask(cluster, world.node_user(NAME), world.node_request(NAME))
    assert world.outcome(cluster, renewal) == "Approved,Issued"
    assert world.outcome(cluster, waiting) == "Pending"


def test_why_a_machine_waits_for_room_is_shown() -> None:
    with Cluster(controllers=(*CONTROLLERS, "joinstatus")) as cluster:
        name = f"{certificate_ledger.PREFIX}{'0' if SHARD != '0' else '1'}"
        store(cluster, name, {}, totals=f'{{"bytes":{MAX_BYTES},"tokens":{{"abcdef":{TOKEN_BUDGET}}}}}')
        waiting, ended = join(cluster)
        assert ended == "Pending"
        cluster.clock.advance(6)
        cluster.settle()
        csr = cluster.get("CertificateSigningRequest", waiting)
        assert csr.metadata.annotations[JOIN_STUCK_ANNOTATION].startswith("LedgerFull: ")
        client = cluster.client()
        assert cluster.run(csr_review.outlook(client, csr)).startswith("the machines that the token abcdef has let in")
        status = cluster.run(join_status.look(client, NAME, now=cluster.clock.now()))
        assert status.stuck and "give the machine another token" in status.reason


def test_what_a_machine_takes_of_its_token_is_counted(cluster: Cluster) -> None:
    join(cluster)
    cluster.clock.advance(30)
    cluster.settle()
    world.outcome(cluster, world.ask(cluster, world.node_user(NAME), world.node_request(NAME)))
    cluster.clock.advance(30)
    cluster.settle()
    shard = cluster.get("ConfigMap", f"{certificate_ledger.PREFIX}{SHARD}", "kube-system")
    totals = certificate_ledger.totals_of(shard.metadata.annotations)
    assert totals.tokens == {"abcdef": size(shard.data)} and totals.bytes == size(shard.data)


def test_nobody_gets_a_name_that_is_not_remembered(cluster: Cluster) -> None:
    for name in LAYOUT.path(SHARD):
        store(cluster, name, {}, totals=f'{{"bytes":{MAX_BYTES}}}')
    waiting, ended = join(cluster)
    assert ended == "Pending"
    store(cluster, LAYOUT.further[7], {}, totals="{}")
    # Within ten minutes: nobody looks for its token, which this cluster does not have.
    cluster.clock.advance(590)
    cluster.settle()
    assert world.outcome(cluster, waiting) == "Approved,Issued"
    # Whoever has it already keeps it.
    store(cluster, LAYOUT.further[7], {}, totals=f'{{"bytes":{MAX_BYTES}}}')
    renewal = world.ask(cluster, world.node_user(NAME), world.node_request(NAME))
    assert world.outcome(cluster, renewal) == "Approved,Issued"
