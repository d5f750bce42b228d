"""What is remembered of a node's name: since when it is free, and which of its certificates are locked out.

One entry a name, in sixteen ConfigMaps. The entry of a Node that is there holds its UID alone: so a deletion is noticed
that happened while nobody looked. Two moments may stand beside it. Up to ``released``, certificates give no claim to
the name, and still work, as in Kubernetes. Up to ``locked``, they are locked out. Both end when no certificate can be
left that they are about.

    NodeRecordsFullError    more names are locked out than fit

Source: kubevouch's own; docs/howto/node-names.md.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import BACKDATE
from kubevouch.pki.x509.x509_certificate import Certificate

NAMESPACE = "kube-system"
PREFIX = "kubevouch-nodes-"
SHARDS = tuple("0123456789abcdef")
CONFIG_MAPS = tuple(f"{PREFIX}{shard}" for shard in SHARDS)

MAX_RECORDS = 1400
"""In a ConfigMap: with the longest names and reasons 1 MiB, which is what one may hold."""
MAX_WHY = 128
"""Bytes of a reason."""


class NodeRecordsFullError(ValueError):
    """More names are locked out than fit into a ConfigMap."""


class NodeRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is known of one name.

    Args:
        uid: of the Node that was seen last; empty once it is gone.
        released: certificates that were issued before give no claim to the name.
        locked: certificates that were issued until then are locked out.
        until: when the last of those certificates ends, at the latest; both moments are forgotten then.
        why: who or what has locked them out.
    """

    uid: str = ""
    released: dt.datetime | None = None
    locked: dt.datetime | None = None
    until: dt.datetime | None = None
    why: str = ""

    def locks(self, issued: dt.datetime) -> bool:
        # Certificates know whole seconds: what may have been issued before is locked, and gives a claim below.
        return self.locked is not None and issued <= self.locked

    def frees(self, issued: dt.datetime) -> bool:
        """Whether a certificate of that time gives no claim to the name any more."""
        return self.locks(issued) or (self.released is not None and issued < self.released)


NONE = NodeRecord()


def issued_at(certificate: Certificate) -> dt.datetime:
    """When it was signed: the signers here date their certificates back."""
    return certificate.not_before + BACKDATE


# ------------------------------------------------------------------ changes


def removed(record: NodeRecord, now: dt.datetime, until: dt.datetime, *, lock: bool, why: str) -> NodeRecord:
    """The record once the Node is gone, or somebody wants its certificates locked out.

    Args:
        until: after which no certificate of the name is valid that has been issued so far.
    """
    moment = now.replace(microsecond=0)
    return msgspec.structs.replace(
        record,
        uid="",
        released=moment,
        locked=moment if lock else record.locked,
        until=max(until, record.until or until),
        why=_short(why) if lock else record.why,
    )


def _short(why: str) -> str:
    plain = "".join(char if char.isprintable() else "?" for char in why[:MAX_WHY])
    return plain.encode()[:MAX_WHY].decode(errors="ignore")


def lifted(record: NodeRecord) -> NodeRecord:
    """Nobody is locked out any more; the name stays free."""
    return msgspec.structs.replace(record, locked=None, why="", released=record.released or record.locked)


def current(record: NodeRecord, now: dt.datetime) -> NodeRecord:
    """Without what has ended."""
    if record.until is None or now < record.until:
        return record
    return NodeRecord(uid=record.uid)


def followed(
    records: Mapping[str, NodeRecord],
    nodes: Mapping[str, str],
    now: dt.datetime,
    until: dt.datetime,
    *,
    lock: bool,
    why: str,
) -> dict[str, NodeRecord]:
    """The records after a look at the Nodes.

    Args:
        nodes: UIDs by name. A Node of another UID is another one: the former was deleted.
        lock: whether the certificates of a deleted Node are locked out.

    Raises:
        NodeRecordsFullError
    """
    found = {}
    for name, record in records.items():
        if record.uid and nodes.get(name) != record.uid:
            record = removed(record, now, until, lock=lock, why=why)
        found[name] = current(record, now)
    for name, uid in nodes.items():
        found[name] = msgspec.structs.replace(found.get(name, NONE), uid=uid)
    return fitting({name: record for name, record in found.items() if record != NONE})


def fitting(records: dict[str, NodeRecord]) -> dict[str, NodeRecord]:
    """At most :data:`MAX_RECORDS`: what locks nobody out goes first, the soonest to end before the rest.

    Raises:
        NodeRecordsFullError: all of them lock somebody out.
    """
    if len(records) <= MAX_RECORDS:
        return records
    spare = sorted(
        (name for name, record in records.items() if record.locked is None),
        key=lambda name: (bool(records[name].uid), records[name].until or dt.datetime.max.replace(tzinfo=dt.UTC)),
    )
    surplus = len(records) - MAX_RECORDS
    if len(spare) < surplus:
        raise NodeRecordsFullError(
            f"{len(records) - len(spare)} names are locked out, and {MAX_RECORDS} fit: lift some of them"
        )
    dropped = set(spare[:surplus])
    return {name: record for name, record in records.items() if name not in dropped}


# ------------------------------------------------------------------ ConfigMaps


def config_map_of(node_name: str) -> str:
    """The name of the ConfigMap that holds the node's record."""
    return f"{PREFIX}{shard_of(node_name)}"


def shard_of(node_name: str) -> str:
    return hashlib.sha256(node_name.encode()).hexdigest()[0]


def decode(stored: Mapping[str, str]) -> dict[str, NodeRecord]:
    """What cannot be read was not written by us, and is left out."""
    return {name: record for name in stored if (record := record_in(stored, name)) != NONE}


def record_in(stored: Mapping[str, str], node_name: str) -> NodeRecord:
    """The record of one node in the data of its ConfigMap."""
    try:
        return msgspec.json.decode(stored.get(node_name, "{}"), type=NodeRecord)
    except msgspec.MsgspecError:
        return NONE


def encode(records: Mapping[str, NodeRecord]) -> dict[str, str]:
    return {name: msgspec.json.encode(records[name]).decode() for name in sorted(records)}


def new_config_map(shard: str, records: Mapping[str, NodeRecord]) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=f"{PREFIX}{shard}", namespace=NAMESPACE), data=encode(records))


# ------------------------------------------------------------------ the set


class Lockouts:
    """Who is locked out now. Fed with the ConfigMaps as they are and as they change; a look-up is one of a dict."""

    def __init__(self) -> None:
        self._locked: dict[str, dict[str, NodeRecord]] = {}

    def load(self, config_maps: Iterable[ConfigMap]) -> None:
        """Start from all ConfigMaps there are."""
        self._locked.clear()
        for each in config_maps:
            self.changed(each.metadata.namespace, each.metadata.name, each)

    def changed(self, namespace: str, name: str, config_map: ConfigMap | None) -> None:
        """The ConfigMap is now this, or gone; those of others are passed over."""
        if namespace != NAMESPACE or name not in CONFIG_MAPS:
            return
        records = {} if config_map is None else decode(config_map.data)
        self._locked[name] = {node: record for node, record in records.items() if record.locked is not None}

    def __len__(self) -> int:
        return sum(map(len, self._locked.values()))

    def why(self, certificate: Certificate) -> str:
        """Why the certificate counts no more; empty for one that does."""
        if not self._locked:
            return ""
        node = node_name_of(certificate.subject.common_name)
        record = self._locked.get(config_map_of(node), {}).get(node) if node else None
        if record is None or not record.locks(issued_at(certificate)):
            return ""
        assert record.locked is not None  # it locks
        return f"node {node} is locked out since {Time.of(record.locked)}: {record.why}"
