"""What is known of a node that asks for a serving certificate: its Node, its Machine, requests, former certificates.

Over caches in a controller, over lists in a command: both judge by the same.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest, is_undecided
from kubevouch.api.core_v1 import ConfigMap, Node, Service
from kubevouch.api.discovery_v1 import EndpointSlice
from kubevouch.client.cache.indexer import Indexer
from kubevouch.client.endpoint import EndpointError, endpoint_of_url
from kubevouch.ledger.entries import ISSUED, REVOKED, Query
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import BACKDATE, rules_signer
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.policy import kubelet_serving
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.inventory import Inventory, current
from kubevouch.policy.kubelet_serving import Known, Rival, ServingRules, Source, normalized, reported_names
from kubevouch.records.cluster_info import ClusterInfoError, parse_kubeconfig
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.revocation.node_records import NONE, NodeRecord
from kubevouch.util.clock import Clock

NODE_NAMES = "serving-names"
"""Of Nodes: their names and all that kubelets make of their addresses."""
SERVING_NODE = "serving-node"
"""Of requests for serving certificates that come from a node: its name."""
SERVING_NAMES = "serving-names"
"""Of the same while nobody has decided: what they ask for."""
SOURCE = "source-address"
"""Of all requests, from where they came."""

MACHINE_GROUP, MACHINE_PLURAL = "cluster.x-k8s.io", "machines"
# Of a Node or a Machine; others write them.
_MOST_ADDRESSES = 100
# Larger requests are not found by their names: their makers choose how long they are.
_INDEXED_BYTES = 4096

Address = tuple[str, str]


class Machine(msgspec.Struct, frozen=True):
    """A Cluster API Machine (``cluster.x-k8s.io``, v1beta1 and v1beta2) that has become a node."""

    name: str
    node: str
    names: frozenset[str]


def machine_of(obj: CustomObject) -> Machine | None:
    """What a Machine says; None before it has a node. What is malformed in it counts as absent."""
    status = obj.content.get("status")
    reference = status.get("nodeRef") if isinstance(status, dict) else None
    node = reference.get("name") if isinstance(reference, dict) else None
    if not isinstance(status, dict) or not isinstance(node, str) or not node:
        return None
    listed = status.get("addresses")
    names = reported_names(_addresses(listed if isinstance(listed, list) else []))
    return Machine(f"{obj.metadata.namespace}/{obj.metadata.name}", node, names)


def _addresses(listed: Iterable[Any]) -> Iterator[Address]:
    for each in list(listed)[:_MOST_ADDRESSES]:
        kind, address = (each.get("type"), each.get("address")) if isinstance(each, dict) else (None, None)
        if isinstance(kind, str) and isinstance(address, str):
            yield kind, address


def addresses_of(node: Node) -> tuple[Address, ...]:
    return tuple((each.type, each.address) for each in node.status.addresses[:_MOST_ADDRESSES])


def names_of_node(node: Node) -> frozenset[str]:
    """Under which it is found."""
    return reported_names(addresses_of(node)) | {node.metadata.name}


class APIServers:
    """Where the cluster says that its API servers are.

    Args:
        slices, services: of the namespace ``default``.
        cluster_info: of ``kube-public``.
    """

    def __init__(
        self, slices: Indexer[EndpointSlice], services: Indexer[Service], cluster_info: Indexer[ConfigMap]
    ) -> None:
        self._slices = slices
        self._services = services
        self._cluster_info = cluster_info

    def names(self) -> frozenset[str]:
        return frozenset(map(normalized, self._names()))

    def _names(self) -> Iterator[str]:
        for each in self._slices.values():
            for endpoint in each.endpoints or ():
                yield from endpoint.addresses or ()
        service = self._services.get(f"{wellknown.DEFAULT_NAMESPACE}/kubernetes")
        if service is not None:
            yield from (service.spec.cluster_ip, *service.spec.cluster_ips)
        for config_map in self._cluster_info.values():
            with suppress(ClusterInfoError):
                info = parse_kubeconfig(config_map.data.get(wellknown.KUBECONFIG_KEY, ""))
                for url in (info.server, *info.servers):
                    with suppress(EndpointError):
                        yield endpoint_of_url(url).host


class Changes:
    """What Nodes have ceased to report while a request of theirs waited; empty of one that reports more only."""

    MOST = 4096

    def __init__(self) -> None:
        self._dropped: dict[str, frozenset[str]] = {}

    def add(self, node: str, dropped: frozenset[str]) -> None:
        known = self._dropped.pop(node, frozenset())
        self._dropped[node] = frozenset(sorted(known | dropped)[:_MOST_ADDRESSES])
        if len(self._dropped) > self.MOST:
            del self._dropped[next(iter(self._dropped))]

    def of(self, node: str) -> frozenset[str] | None:
        """None of a Node that has not changed."""
        return self._dropped.get(node)

    def forget(self, node: str) -> None:
        self._dropped.pop(node, None)


class ServingSources:
    """Adds what it looks up by to the indexes of requests and Nodes."""

    def __init__(
        self,
        csrs: Indexer[CertificateSigningRequest],
        nodes: Indexer[Node],
        ledger: ReadableLedger,
        clock: Clock,
        inventory: Inventory | None = None,
    ) -> None:
        for name, of_csr in ((SERVING_NODE, _serving_node), (SERVING_NAMES, _serving_names), (SOURCE, _source)):
            with suppress(ValueError):  # somebody who shares the cache has added it
                csrs.add_index(name, of_csr)
        with suppress(ValueError):
            nodes.add_index(NODE_NAMES, names_of_node)
        self.csrs = csrs
        self.nodes = nodes
        self.changes = Changes()
        self._machines: dict[str, Machine] = {}
        # By node, and by what they say it has.
        self._of_node: dict[str, set[Machine]] = {}
        self._with_name: dict[str, set[Machine]] = {}
        self._inventory = inventory
        self._ledger = ledger
        self._clock = clock

    # -------------------------------------------------------------- machines

    def saw_machine(self, obj: CustomObject, gone: bool) -> tuple[Machine, ...]:
        """Take note of one; what it was and what it is, where both differ."""
        key = f"{obj.metadata.namespace}/{obj.metadata.name}"
        before, now = self._machines.pop(key, None), None if gone else machine_of(obj)
        if before is not None:
            for names, value in self._places(before):
                names[value].discard(before)
                if not names[value]:
                    del names[value]
        if now is not None:
            self._machines[key] = now
            for names, value in self._places(now):
                names.setdefault(value, set()).add(now)
        return () if before == now else tuple(each for each in (before, now) if each is not None)

    def _places(self, machine: Machine) -> Iterator[tuple[dict[str, set[Machine]], str]]:
        yield self._of_node, machine.node
        for name in machine.names:
            yield self._with_name, name

    # -------------------------------------------------------------- one request

    async def known(
        self, csr: CertificateSigningRequest, facts: RequestFacts, rules: ServingRules, record: NodeRecord = NONE
    ) -> Known:
        """Of the node that asks. ``record``: what is remembered of its name.

        Raises:
            LedgerError: what was issued cannot be read.
        """
        name, wanted = kubelet_serving.node_of(facts), kubelet_serving.wanted_names(facts)
        node = self.nodes.get(name)
        return Known(
            reported=None if node is None else addresses_of(node),
            control_plane=node is not None and wellknown.CONTROL_PLANE_LABEL in node.metadata.labels,
            of_machine=frozenset(self._of_machine(name)),
            source=self._own_source(csr, name) if rules.source_is_told else "",
            last=await self._last(name, record),
            rivals=await self._rivals(name, wanted),
            dropped=self.changes.of(name) or frozenset(),
            changed=self.changes.of(name) is not None or self._has_waited(facts),
            told=self._was_told(csr, name, frozenset(wanted)),
        )

    def _of_machine(self, name: str) -> Iterator[str]:
        for each in self._of_node.get(name, ()):
            yield from each.names
        expected = () if self._inventory is None else self._inventory.machines(name)
        for listed in current(expected, self._clock.now()):
            yield from map(normalized, (*listed.addresses, *listed.dns_names))

    def _own_source(self, csr: CertificateSigningRequest, name: str) -> str:
        """From where it came; empty where requests for other machines come from, too: a balancer, a router, a pod."""
        source = csr.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, "")
        others = self.csrs.by_index(SOURCE, source) if source else ()
        return "" if any(_machine(each) != name for each in others) else normalized(source)

    async def _last(self, name: str, record: NodeRecord) -> frozenset[str]:
        """The names of the newest certificate, if it counts and its holder is still who has the name."""
        now, newest, names = self._clock.now(), dt.datetime.min.replace(tzinfo=dt.UTC), frozenset[str]()
        for issued, found in (*self._issued_lately(name), *await self._issued_before(name)):
            if issued > newest:
                newest, names = issued, found
        freed = record.frees(newest + BACKDATE) or record.locks(newest + BACKDATE)
        return frozenset() if freed or newest > now else names

    def _issued_lately(self, name: str) -> Iterator[tuple[dt.datetime, frozenset[str]]]:
        for csr in self.csrs.by_index(SERVING_NODE, name):
            if csr.status.certificate:
                with suppress(ParseError):
                    leaf = x509_certificate.parse_bundle(csr.status.certificate)[0]
                    if self._clock.now() < leaf.not_after and leaf.subject.common_name == csr.spec.username:
                        names = leaf.meaning.alt_names
                        listed = (*names.dns_names, *map(str, names.ip_addresses))
                        yield leaf.not_before, frozenset(map(normalized, listed))

    async def _issued_before(self, name: str, san: str = "") -> list[tuple[dt.datetime, frozenset[str]]]:
        query = Query(
            kinds=frozenset({ISSUED}),
            signer=wellknown.KUBELET_SERVING_SIGNER,
            node=name,
            name=san,
            ends_after=self._clock.now(),
            newest_first=True,
            limit=1,
        )
        found = []
        for each in await self._ledger.find(query):
            entry = each.entry
            if not await self._ledger.find(Query(kinds=frozenset({REVOKED}), serial=entry.serial, limit=1)):
                found.append((entry.not_before or entry.at, frozenset(map(normalized, entry.names))))
        return found

    # -------------------------------------------------------------- others

    async def _rivals(self, name: str, wanted: Iterable[str]) -> Mapping[str, Rival]:
        found: dict[str, Rival] = {}
        for key in dict.fromkeys(wanted):
            # An address that another one's is written into leads to that one, too.
            for meaning in kubelet_serving.meanings(key):
                rival = self._rival(name, meaning)
                if rival is not None and rival.by in (Source.NODE, Source.IDENTITY):
                    rival = msgspec.structs.replace(rival, holds=await self._holds(rival.node, meaning))
                if rival is not None:
                    found.setdefault(key, rival)
        return found

    def _rival(self, name: str, key: str) -> Rival | None:
        """Whoever has the best claim but ``name``."""
        machines = sorted(each.node for each in self._with_name.get(key, ()) if each.node != name)
        if machines:
            return Rival(machines[0], Source.MACHINE)
        others = [each for each in self.nodes.by_index(NODE_NAMES, key) if each.metadata.name != name]
        if _is_address(key):
            # Whoever joins chooses its name, which may read as another node's address.
            others = [each for each in others if key in reported_names(addresses_of(each))]
        claims = sorted((_claim(each, key) for each in others), key=lambda each: (each.by is Source.NODE, each.node))
        return claims[0] if claims else self._namesake(name, key)

    def _namesake(self, name: str, key: str) -> Rival | None:
        """Another Node whose name in some domain it could be; the longest name counts."""
        labels = key.split(".")
        for count in range(len(labels) - 1, 0, -1):
            host = ".".join(labels[:count])
            if host == name:
                return None
            if self.nodes.get(host) is not None and not kubelet_serving.begins_with(key, name):
                return Rival(host, Source.NODE)
        return None

    async def _holds(self, node: str, key: str) -> bool:
        lately = any(key in names for _, names in self._issued_lately(node))
        return lately or bool(await self._issued_before(node, key))

    def node_changed(self, node: str, dropped: frozenset[str]) -> None:
        """Take note of it, if a request of the node waits."""
        if any(map(is_undecided, self.csrs.by_index(SERVING_NODE, node))):
            self.changes.add(node, dropped)

    def _has_waited(self, facts: RequestFacts) -> bool:
        return facts.created is not None and self._clock.now() - facts.created >= kubelet_serving.PATIENCE

    def _was_told(self, csr: CertificateSigningRequest, name: str, wanted: frozenset[str]) -> bool:
        for other in self.csrs.by_index(SERVING_NODE, name):
            stale = any(each.reason == kubelet_serving.STALE_REASON for each in other.status.conditions)
            if stale and other.metadata.uid != csr.metadata.uid and frozenset(_names_in(other)) == wanted:
                return True
        return False


def _claim(node: Node, key: str) -> Rival:
    if node.metadata.name == key and not _is_address(key):
        return Rival(key, Source.IDENTITY)
    # API servers run there: what one says, a worker does not have.
    is_control_plane = wellknown.CONTROL_PLANE_LABEL in node.metadata.labels
    return Rival(node.metadata.name, Source.CONTROL_PLANE if is_control_plane else Source.NODE)


def _is_address(key: str) -> bool:
    try:
        ipaddress.ip_address(key)
    except ValueError:
        return False
    return True


def _machine(csr: CertificateSigningRequest) -> str:
    """The node that a request is for: whoever asks, or whom it names."""
    name = node_name_of(csr.spec.username)
    if name:
        return name
    try:
        return node_name_of(x509_request.parse_pem(csr.spec.request or b"").subject.common_name)
    except ParseError:
        return ""


def _serving_node(csr: CertificateSigningRequest) -> Iterable[str]:
    if rules_signer(csr.spec.signer_name) != wellknown.KUBELET_SERVING_SIGNER:
        return ()
    name = node_name_of(csr.spec.username)
    return (name,) if name else ()


def _serving_names(csr: CertificateSigningRequest) -> Iterable[str]:
    return _names_in(csr) if is_undecided(csr) and _serving_node(csr) else ()


def _names_in(csr: CertificateSigningRequest) -> tuple[str, ...]:
    request = csr.spec.request or b""
    if len(request) > _INDEXED_BYTES:
        return ()
    try:
        names = x509_request.parse_pem(request).alt_names
    except ParseError:
        return ()
    listed = (*names.dns_names, *map(str, names.ip_addresses))[: kubelet_serving.MAX_NAMES]
    return tuple(dict.fromkeys(map(normalized, listed)))


def _source(csr: CertificateSigningRequest) -> Iterable[str]:
    source = csr.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, "")
    return (source,) if source else ()
