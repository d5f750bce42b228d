"""Whether a request for a node's client certificate gets the node's name, and its key: asked before it is approved.

What is known of a name comes from caches: the requests themselves, the ledger of certificates, the Node, the records of
Nodes that are gone. A Lease is read where nothing else speaks against a request and the Node is there.

NameRefusedError     the request never gets the name; ``reason`` is that of the condition
NoRoomError          not while its token, or the ledger, has no room for another name
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS, LEASES, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest, has_condition
from kubevouch.api.coordination_v1 import Lease
from kubevouch.api.core_v1 import ConfigMap, Node
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.approval.token_admission import TokenAdmission
from kubevouch.controllers.interface import Context, IgnorableError
from kubevouch.controllers.record_maps import RecordMaps
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import BACKDATE
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import node_names
from kubevouch.policy.node_names import Asked, Decision, Held, Inventory
from kubevouch.records import certificate_ledger
from kubevouch.records.bootstrap_tokens import token_id_of_user
from kubevouch.records.certificate_ledger import LAYOUT, Totals, key_digest, totals_of
from kubevouch.records.node_recovery import is_recovering
from kubevouch.revocation import node_records
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.name_admission")

NODE_INDEX = "node-name"
"""Of requests for nodes' client certificates, by the name of the node."""
KEY_INDEX = "public-key"
"""Of the same, by :func:`key_digest`."""
# Approvals that the caches may not have heard of.
_REMEMBERED = 4096


class NameRefusedError(Exception):
    """The request never gets the name; ``reason`` is that of the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NoRoomError(IgnorableError):
    """Not while the part of ``token`` in the ledger is used up, or the ledger is full."""

    def __init__(self, token: str, why: str) -> None:
        super().__init__(why)
        self.token = token


class NameCaches(msgspec.Struct, frozen=True):
    """What is looked up. The requests need :data:`NODE_INDEX` and :data:`KEY_INDEX`."""

    csrs: Lister[CertificateSigningRequest]
    nodes: Lister[Node]
    records: RecordMaps


def name_caches(context: Context, client: Client, csrs: SharedInformer[CertificateSigningRequest]) -> NameCaches:
    for index, function in ((NODE_INDEX, node_names_of_request), (KEY_INDEX, keys_of_request)):
        with suppress(ValueError):  # somebody who shares the cache has added it
            csrs.indexer.add_index(index, function)
    nodes = context.informers.informer(NODES, client=client)
    config_maps = context.informers.informer(CONFIG_MAPS, client=client, namespace=wellknown.KUBE_SYSTEM_NAMESPACE)
    return NameCaches(csrs.lister, nodes.lister, RecordMaps(config_maps.indexer))


class NameAdmission:
    """Args: ``takeover``: names may be taken over, as in Kubernetes."""

    def __init__(
        self, client: Client, caches: NameCaches, tokens: TokenAdmission, clock: Clock, *, takeover: bool
    ) -> None:
        self._client = client
        self._caches = caches
        self._tokens = tokens
        self._clock = clock
        self._takeover = takeover
        # The UIDs of requests that were admitted: of two at once, the second has to know of the first.
        self._admitted: dict[str, None] = {}
        # The tokens of which the log says that they wait for room.
        self._told: set[str] = set()
        self._counted: tuple[list[ConfigMap], dict[str, Totals]] = [], {}

    async def admit(self, csr: CertificateSigningRequest, wanted: CertificateRequest) -> None:
        """Nothing, if ``csr`` may be approved as far as its name and its key go.

        Raises:
            NameRefusedError: never.
            IgnorableError: not now.
            TokenBoundError, APIStatusError, TransportError
        """
        try:
            await self.verify(csr, wanted)
        except NoRoomError as err:
            if err.token not in self._told and len(self._told) < _REMEMBERED:
                # Once for each: who may post a request makes no log grow.
                self._told.add(err.token)
                log.warning("machines wait for room in the ledger", token=err.token, why=str(err))
            raise
        # Nothing was waited for since it was decided.
        self._admitted[csr.metadata.uid] = None
        if len(self._admitted) > _REMEMBERED:
            del self._admitted[next(iter(self._admitted))]

    async def verify(self, csr: CertificateSigningRequest, wanted: CertificateRequest) -> None:
        """As :meth:`admit`, with nothing noted: for who only wants to know what it would say."""
        name, key = node_name_of(wanted.subject.common_name), key_digest(wanted.public_key)
        self._refuse_replay(csr, wanted.subject.common_name, key)
        own = csr.spec.username == wanted.subject.common_name
        asked = Asked(node_name=name, key=key, own=own or is_recovering(csr.spec.username))
        if not asked.own:
            if not csr.spec.username.startswith(wellknown.BOOTSTRAP_USER_PREFIX):
                # Nobody whom Kubernetes calls a machine: he has been given the right to let nodes in.
                return
            asked = Asked(node_name=name, key=key, bound=await self._tokens.is_for_node(csr, name))
        lease = None if self._takeover or asked.own or asked.bound else await self._lease(name)
        # From here to the note of what was admitted nothing is waited for: of two at once, one would not be seen.
        inventory = self._inventory(csr, name, lease)
        verdict = node_names.decide(asked, inventory, takeover=self._takeover, now=self._clock.now())
        if verdict.decision is Decision.DENY:
            raise NameRefusedError(verdict.reason, verdict.message)
        if verdict.decision is Decision.WAIT:
            raise IgnorableError(verdict.message)
        if not asked.own:
            self._verify_room(csr, name)

    def _verify_room(self, csr: CertificateSigningRequest, name: str) -> None:
        """A name is given only if it is remembered to whom: otherwise it is anybody's once its request is cleaned.

        What was issued since the ledger was written last, some seconds ago, is not counted yet.

        Raises:
            NoRoomError: one token has given too many, or the ledger is full.
        """
        if self._in_ledger(name):
            return
        token = token_id_of_user(csr.spec.username)
        why = certificate_ledger.no_room(self._totals(), _ledger_key(name)[0], token)
        if why:
            raise NoRoomError(token, why)

    def _totals(self) -> dict[str, Totals]:
        maps = self._caches.records.all_of(LAYOUT)
        # The same objects, as a rule: the ledger is written every few seconds.
        if maps != self._counted[0]:
            self._counted = maps, {each.metadata.name: totals_of(each.metadata.annotations) for each in maps}
        return self._counted[1]

    def _refuse_replay(self, csr: CertificateSigningRequest, common_name: str, key: str) -> None:
        """A request can be copied from the API and posted again: its signature says nothing of who sends it (S6).

        The first who came with a key has it; a node has proven that it is the one, and so has a node that recovers.
        """
        if csr.spec.username == common_name or is_recovering(csr.spec.username):
            return
        for other in self._caches.csrs.by_index(KEY_INDEX, key):
            denied = has_condition(other, wellknown.CSR_DENIED) or has_condition(other, wellknown.CSR_FAILED)
            if other.spec.username == csr.spec.username or denied or not _came_first(other, csr):
                continue
            raise NameRefusedError(
                node_names.REPLAYED_REASON,
                f"the request {other.metadata.name} is for the same key and came from another requester; a machine "
                "that comes with another token makes another key",
            )

    def _inventory(self, csr: CertificateSigningRequest, name: str, lease: Lease | None) -> Inventory:
        held: list[Held] = []
        approved: list[str] = []
        for other in self._caches.csrs.by_index(NODE_INDEX, name):
            if other.metadata.uid == csr.metadata.uid:
                continue
            if other.status.certificate:
                held += _held(other)
            elif self._is_granted(other):
                approved += keys_of_request(other)
        node = self._caches.nodes.get(name)
        return Inventory(
            certificates=(*held, *self._in_ledger(name)),
            approved=tuple(approved),
            registered=node is not None,
            alive="" if node is None else node_names.alive(node, lease, self._clock.now()),
            record=node_record(self._caches.records, name),
        )

    def _is_granted(self, csr: CertificateSigningRequest) -> bool:
        """Whether it is approved and may still get its certificate; also if the cache has not heard of the approval."""
        if has_condition(csr, wellknown.CSR_DENIED) or has_condition(csr, wellknown.CSR_FAILED):
            return False
        return has_condition(csr, wellknown.CSR_APPROVED) or csr.metadata.uid in self._admitted

    def _in_ledger(self, name: str) -> list[Held]:
        key = _ledger_key(name)
        entries = (certificate_ledger.entry_in(data, key) for data in self._caches.records.path(LAYOUT, key[0]))
        return [
            Held(key=entry.public_key, issued=entry.not_before + BACKDATE, not_after=entry.not_after)
            for entry in entries
            if entry is not None
        ]

    async def _lease(self, name: str) -> Lease | None:
        """Read only where there is a Node: a machine that joins anew has none."""
        node = self._caches.nodes.get(name)
        if node is None or node.metadata.deletion_timestamp is not None:
            return None
        try:
            return await self._client.get(LEASES, name, wellknown.KUBE_NODE_LEASE_NAMESPACE)
        except APIStatusError as err:
            if err.code == 404:
                return None
            raise


def node_record(records: RecordMaps, name: str) -> node_records.NodeRecord:
    """What is remembered of a node's name."""
    return node_records.record_in(records.path(node_records.LAYOUT, node_records.shard_of(name)), name)


def _ledger_key(name: str) -> str:
    user = f"{wellknown.NODE_USER_PREFIX}{name}"
    return certificate_ledger.machine_key(wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER, user)


def _came_first(other: CertificateSigningRequest, csr: CertificateSigningRequest) -> bool:
    if other.metadata.uid == csr.metadata.uid:
        return False
    if other.status.certificate or has_condition(other, wellknown.CSR_APPROVED):
        return True

    def order(each: CertificateSigningRequest) -> tuple[str, int]:
        # A resourceVersion of an undecided request is that of its creation, or of a condition that says nothing.
        version = each.metadata.resource_version
        return str(each.metadata.creation_timestamp), int(version) if version.isdigit() else 0

    return order(other) < order(csr)


def _held(csr: CertificateSigningRequest) -> list[Held]:
    try:
        leaf = x509_certificate.parse_bundle(csr.status.certificate)[0]
    except ParseError:
        return []
    return [Held(key=key_digest(leaf.public_key), issued=node_records.issued_at(leaf), not_after=leaf.not_after)]


# Larger requests are parsed anew each time: their makers choose how long they are.
_CACHED_BYTES = 4096


def _names_and_keys(csr: CertificateSigningRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The node that a request is for, and its key; neither for requests that are for no node's client certificate."""
    request = csr.spec.request or b""
    if csr.spec.signer_name != wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER:
        return (), ()
    return _parsed(request) if len(request) <= _CACHED_BYTES else _parsed.__wrapped__(request)


# An index is asked about the same bytes at each change of their object, for both versions of it.
@lru_cache(maxsize=512)
def _parsed(request: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        wanted = x509_request.parse_pem(request)
    except ParseError:
        return (), ()
    name = node_name_of(wanted.subject.common_name)
    return (name,) if name else (), (key_digest(wanted.public_key),)


def node_names_of_request(csr: CertificateSigningRequest) -> Iterable[str]:
    return _names_and_keys(csr)[0]


def keys_of_request(csr: CertificateSigningRequest) -> Iterable[str]:
    return _names_and_keys(csr)[1]
