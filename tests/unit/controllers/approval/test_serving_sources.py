"""controllers/approval/serving_sources.py: what is known of a node, out of objects that anybody may have written."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestStatus
from kubevouch.api.core_v1 import ConfigMap, Node, Service
from kubevouch.api.core_v1.services import ServiceSpec
from kubevouch.api.discovery_v1 import Endpoint, EndpointSlice
from kubevouch.client.cache.indexer import Indexer
from kubevouch.controllers.approval.serving_sources import (
    APIServers,
    Changes,
    Machine,
    ServingSources,
    machine_of,
)
from kubevouch.controllers.inventory import MachineInventory
from kubevouch.ledger.entries import ISSUED, REVOKED, Entry
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import x509_request
from kubevouch.policy import inventory as inventory_policy
from kubevouch.policy.facts import facts_of
from kubevouch.policy.kubelet_serving import PATIENCE, Known, Rival, ServingRules, Source
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.revocation.node_records import NONE, NodeRecord
from kubevouch.testing.clock import FakeClock
from serving_requests import asks, node_with

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
TOLD = ServingRules(source_is_told=True)


class World:
    def __init__(self, *nodes: Node, inventory: MachineInventory | None = None) -> None:
        self.csrs: Indexer[CertificateSigningRequest] = Indexer()
        self.nodes: Indexer[Node] = Indexer()
        self.ledger = MemoryLedger()
        self.sources = ServingSources(self.csrs, self.nodes, self.ledger, FakeClock(NOW), inventory)
        for node in nodes:
            self.nodes.put(node)

    async def known(
        self, csr: CertificateSigningRequest, rules: ServingRules = TOLD, record: NodeRecord = NONE
    ) -> Known:
        self.csrs.put(csr)
        request = x509_request.parse_pem(csr.spec.request or b"")
        return await self.sources.known(csr, facts_of(csr, request), rules, record)

    async def issued(self, node: str, *names: str, days: int = 100, serial: str = "1", began: int = 1) -> None:
        entry = Entry(
            kind=ISSUED, at=NOW, signer=wellknown.KUBELET_SERVING_SIGNER, node=node, names=names, serial=serial,
            not_before=NOW - dt.timedelta(days=began), not_after=NOW + dt.timedelta(days=days),
        )  # fmt: skip
        await self.ledger.append(entry)


def from_source(csr: CertificateSigningRequest, address: str) -> CertificateSigningRequest:
    made: CertificateSigningRequest = replace_metadata(csr, annotations={SOURCE_ADDRESS_ANNOTATION: address})
    return made


class TestSource:
    """The address that the API server has seen the request come from."""

    @async_test
    async def test_of_this_node_alone(self) -> None:
        world = World()
        assert (await world.known(from_source(asks("a"), "10.0.0.9"))).source == "10.0.0.9"
        assert (await world.known(from_source(asks("b"), "::ffff:10.0.0.9"))).source == "10.0.0.9"

    @async_test
    async def test_nothing_where_the_requester_may_write_it(self) -> None:
        assert (await World().known(from_source(asks("a"), "10.0.0.9"), ServingRules())).source == ""

    @pytest.mark.parametrize("other", ["n2", "n1"])
    def test_nothing_where_another_machine_comes_from_there(self, other: str) -> None:
        """A balancer, a router, or a pod on the machine whose address it is."""

        @async_test
        async def tried() -> None:
            world = World()
            bootstrap = asks("b", other)
            spec = msgspec.structs.replace(
                bootstrap.spec,
                username="system:bootstrap:abcdef",
                signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
            )
            world.csrs.put(from_source(msgspec.structs.replace(bootstrap, spec=spec), "10.0.0.9"))
            known = await world.known(from_source(asks("a"), "10.0.0.9"))
            assert known.source == ("10.0.0.9" if other == "n1" else "")

        tried()


class TestRivals:
    @async_test
    async def test_by_name_address_and_label(self) -> None:
        world = World(
            node_with(),
            node_with("n2", [("InternalIP", "10.0.0.2"), ("Hostname", "h2")]),
            node_with("cp", [("InternalIP", "10.0.0.3")], **{wellknown.CONTROL_PLANE_LABEL: ""}),
        )
        csr = asks("a", dns=("h2", "n1", "n2"), ips=("10.0.0.2", "10.0.0.3", "10.0.0.9"))
        assert (await world.known(csr)).rivals == {
            "h2": Rival("n2", Source.NODE),
            "n2": Rival("n2", Source.IDENTITY),
            "10.0.0.2": Rival("n2", Source.NODE),
            "10.0.0.3": Rival("cp", Source.CONTROL_PLANE),
        }

    @async_test
    async def test_a_name_that_is_another_nodes_in_a_domain(self) -> None:
        world = World(node_with(), node_with("n2", ()), node_with("n1.example.com", ()), node_with("a", ()))
        csr = asks("a", dns=("n1.example.com", "n1.example.org", "n2.example.com", "a.example.com"), ips=())
        rivals = (await world.known(csr)).rivals
        assert rivals == {
            "n1.example.com": Rival("n1.example.com", Source.IDENTITY),
            "n2.example.com": Rival("n2", Source.NODE),
            "a.example.com": Rival("a", Source.NODE),
        }
        # The name in full is more than its beginning.
        own = asks("b", "n1.example.com", ("n1.example.com",), ())
        assert (await world.known(own)).rivals == {}

    @async_test
    async def test_who_holds_a_certificate_with_it(self) -> None:
        world = World(node_with(), node_with("n2", [("InternalIP", "10.0.0.9")]))
        assert (await world.known(asks("a"))).rivals == {"10.0.0.9": Rival("n2", Source.NODE)}
        await world.issued("n2", "n2", "10.0.0.9", days=-1)
        await world.issued("n3", "10.0.0.9", serial="3")
        assert (await world.known(asks("a"))).rivals == {"10.0.0.9": Rival("n2", Source.NODE)}
        await world.issued("n2", "n2", "10.0.0.9", serial="2")
        assert (await world.known(asks("a"))).rivals == {"10.0.0.9": Rival("n2", Source.NODE, holds=True)}

    @async_test
    async def test_a_nodes_name_is_no_claim_to_an_address(self) -> None:
        world = World(node_with(), node_with("10.0.0.9", [("InternalIP", "10.0.0.3")]))
        assert (await world.known(asks("a"))).rivals == {}
        # What it reports is one, as everybody's is.
        world.nodes.put(node_with("10.0.0.9", [("Hostname", "10.0.0.9")]))
        assert (await world.known(asks("a"))).rivals == {"10.0.0.9": Rival("10.0.0.9", Source.NODE)}

    @async_test
    async def test_who_is_called_so_and_holds_a_certificate_with_it(self) -> None:
        world = World(node_with(), node_with("n2.example.com", ()))
        csr = asks("a", dns=("n2.example.com",), ips=())
        rival = Rival("n2.example.com", Source.IDENTITY)
        assert (await world.known(csr)).rivals == {"n2.example.com": rival}
        await world.issued("n2.example.com", "n2.example.com")
        assert (await world.known(csr)).rivals == {"n2.example.com": msgspec.structs.replace(rival, holds=True)}

    @pytest.mark.parametrize("text", ["64:ff9b::a00:2", "2002:a00:2::1", "::ffff:0:a00:2", "::ffff:10.0.0.2"])
    def test_an_address_that_another_nodes_is_written_into(self, text: str) -> None:
        @async_test
        async def tried() -> None:
            world = World(node_with(), node_with("n2", [("InternalIP", "10.0.0.2")]))
            await world.issued("n2", "10.0.0.2")
            (rival,) = (await world.known(asks("a", ips=(text,)))).rivals.values()
            assert rival == Rival("n2", Source.NODE, holds=True)
            # Its own is its own.
            assert (await world.known(asks("b", "n2", ("n2",), (text,)))).rivals == {}

        tried()

    @async_test
    async def test_machines(self) -> None:
        world = World(node_with())
        mine, other = Machine("d/m", "n1", frozenset({"10.0.0.9"})), ("InternalIP", "10.0.0.9")
        assert world.sources.saw_machine(_machine("m", "n1", other), gone=False) == (mine,)
        assert world.sources.saw_machine(_machine("m", "n1", other), gone=False) == ()
        known = await world.known(asks("a"))
        assert (known.of_machine, known.rivals) == (frozenset({"10.0.0.9"}), {})
        assert len(world.sources.saw_machine(_machine("m", "n2", other), gone=False)) == 2
        known = await world.known(asks("a"))
        assert (known.of_machine, known.rivals) == (frozenset(), {"10.0.0.9": Rival("n2", Source.MACHINE)})
        world.sources.saw_machine(_machine("m", "n2", other), gone=True)
        assert (await world.known(asks("a"))).rivals == {}


def _machine(name: str, node: object, *addresses: tuple[str, str]) -> CustomObject:
    status = {"nodeRef": {"name": node}, "addresses": [{"type": kind, "address": text} for kind, text in addresses]}
    return CustomObject(metadata=ObjectMeta(name=name, namespace="d"), content={"status": status})


@pytest.mark.parametrize(
    "content",
    [
        {}, {"status": None}, {"status": []}, {"status": {"nodeRef": "n1"}}, {"status": {"nodeRef": {"name": 1}}},
        {"status": {"nodeRef": {"name": ""}}},
    ],
)  # fmt: skip
def test_machines_without_a_node(content: dict[str, object]) -> None:
    assert machine_of(CustomObject(metadata=ObjectMeta(name="m", namespace="d"), content=content)) is None


def test_malformed_addresses_of_a_machine_are_passed_over() -> None:
    status = {"nodeRef": {"name": "n1"}, "addresses": [1, {}, {"type": 1, "address": "x"}, {"type": "InternalIP"}]}
    found = machine_of(CustomObject(metadata=ObjectMeta(name="m", namespace="d"), content={"status": status}))
    assert found == Machine("d/m", "n1", frozenset())
    status["addresses"] = {"type": "InternalIP", "address": "10.0.0.1"}
    assert machine_of(CustomObject(metadata=ObjectMeta(name="m"), content={"status": status})) is not None


class TestLast:
    @async_test
    async def test_the_newest_valid_one_of_this_node(self) -> None:
        world = World(node_with())
        await world.issued("n2", "theirs")
        await world.issued("n1", "older", began=9)
        await world.issued("n1", "NEWER", "10.0.0.8", serial="2")
        assert (await world.known(asks("a"))).last == {"newer", "10.0.0.8"}

    @async_test
    async def test_none_that_has_ended_or_is_revoked(self) -> None:
        world = World(node_with())
        await world.issued("n1", "a", days=-1)
        assert (await world.known(asks("a"))).last == frozenset()
        await world.issued("n1", "a", serial="2")
        await world.ledger.append(Entry(kind=REVOKED, at=NOW, serial="2"))
        assert (await world.known(asks("a"))).last == frozenset()

    @async_test
    async def test_none_of_who_had_the_name_before(self) -> None:
        world = World(node_with())
        await world.issued("n1", "a", began=9)
        freed = NodeRecord(released=NOW - dt.timedelta(days=5), until=NOW + dt.timedelta(days=500))
        assert (await world.known(asks("a"), record=freed)).last == frozenset()
        await world.issued("n1", "b", serial="2")
        assert (await world.known(asks("a"), record=freed)).last == {"b"}

    @async_test
    async def test_what_cannot_be_read_is_none(self) -> None:
        world = World(node_with())
        status = CertificateSigningRequestStatus(certificate=b"x")
        world.csrs.put(msgspec.structs.replace(asks("old"), status=status))
        assert (await world.known(asks("a"))).last == frozenset()


def test_what_was_dropped_is_bounded() -> None:
    changes = Changes()
    for number in range(Changes.MOST + 1):
        changes.add(f"n{number}", frozenset({"a"}))
    assert changes.of("n0") is None
    assert changes.of("n1") == frozenset({"a"})
    changes.add("n1", frozenset(map(str, range(1000))))
    assert len(changes.of("n1") or ()) == 100
    changes.forget("n1")
    assert changes.of("n1") is None


@async_test
async def test_changes_count_while_a_request_waits() -> None:
    world = World(node_with())
    world.sources.node_changed("n1", frozenset({"10.0.0.8"}))
    assert not (await world.known(asks("a"))).changed
    world.sources.node_changed("n1", frozenset({"10.0.0.8"}))
    known = await world.known(asks("a"))
    assert (known.changed, known.dropped) == (True, frozenset({"10.0.0.8"}))
    old = replace_metadata(asks("b", "n2"), creation_timestamp=Time.of(NOW - PATIENCE))
    assert (await world.known(old)).changed


def test_where_api_servers_are() -> None:
    slices: Indexer[EndpointSlice] = Indexer()
    services: Indexer[Service] = Indexer()
    config_maps: Indexer[ConfigMap] = Indexer()
    servers = APIServers(slices, services, config_maps)
    assert servers.names() == frozenset()
    at = ObjectMeta(name="kubernetes", namespace="default")
    slices.put(EndpointSlice(metadata=at, endpoints=[Endpoint(addresses=["10.0.0.1", "::FFFF:10.0.0.2"]), Endpoint()]))
    services.put(
        Service(metadata=at, spec=ServiceSpec(cluster_ip="10.96.0.1", cluster_ips=["10.96.0.1", "fd00:96::1"]))
    )
    info = build_kubeconfig(ClusterInfo("https://LB.example.com:6443", b"", servers=("https://192.0.2.1:6443",)))
    config_maps.put(ConfigMap(metadata=ObjectMeta(name="cluster-info"), data={"kubeconfig": info}))
    config_maps.put(ConfigMap(metadata=ObjectMeta(name="broken"), data={"kubeconfig": "{"}))
    assert servers.names() == {"10.0.0.1", "10.0.0.2", "10.96.0.1", "fd00:96::1", "lb.example.com", "192.0.2.1"}


@async_test
async def test_what_the_operator_expects_of_the_machine() -> None:
    inventory = MachineInventory()
    replace = inventory.add_documents()
    listed = inventory_policy.Machine(node_name="n1", addresses=("10.0.0.8",), dns_names=("X.example.com",))
    ended = msgspec.structs.replace(listed, addresses=("10.0.0.7",), not_after=NOW - dt.timedelta(days=1))
    replace([listed, ended, msgspec.structs.replace(listed, node_name="n2", addresses=("10.0.0.6",))])
    world = World(node_with(), inventory=inventory)
    assert (await world.known(asks("a"))).of_machine == {"10.0.0.8", "x.example.com"}
