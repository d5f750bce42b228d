"""What is remembered of a node's name: since when it is free, and which of its certificates are locked out.

One entry a name, in sixteen ConfigMaps, and in sixteen more that take what does not fit there. The entry of a Node that
is there holds its UID alone: so a deletion is noticed that happened while nobody looked. Two moments may stand beside
it. Up to ``released``, certificates give no claim to
the name, and still work, as in Kubernetes. Up to ``locked``, they are locked out. Both end when no certificate can be
left that they are about. No record of a Node that is there is dropped: its deletion would not be noticed.

    NodeRecordsFullError    there is no room for a record

Source: kubevouch's own; docs/howto/node-names.md.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.text.times import Time
from kubevouch.pki.policy import BACKDATE
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.config_map_overflow import Layout, Placed, cost, place

NAMESPACE = "kube-system"
PREFIX = "kubevouch-nodes-"
SHARDS = tuple("0123456789abcdef")
LAYOUT = Layout(PREFIX, SHARDS, overflows=16)
CONFIG_MAPS = LAYOUT.names
_NAMES = frozenset(CONFIG_MAPS)

MAX_WHY = 128
"""Bytes of a reason."""


class NodeRecordsFullError(ValueError):
    """There is no room for a record. ``placed`` is what can be written nevertheless."""

    def __init__(self, placed: Placed) -> None:
        super().__init__(
            f"there is no room for the records of {len(placed.left_over)} names, {placed.left_over[0]} among them: "
            "lift lock-outs that are not needed any more"
        )
        self.placed = placed


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


def _lasting(record: NodeRecord, lifetime: dt.timedelta) -> NodeRecord:
    moments = [moment for moment in (record.released, record.locked) if moment is not None]
    if not moments or record.until is None:
        return record
    return msgspec.structs.replace(record, until=max(record.until, max(moments) + lifetime))


def followed(
    records: Mapping[str, NodeRecord],
    nodes: Mapping[str, str],
    now: dt.datetime,
    until: dt.datetime,
    *,
    lock: bool,
    why: str,
    settled: dt.datetime | None = None,
) -> dict[str, NodeRecord]:
    """The records after a look at the Nodes.

    Args:
        until: when the last certificate that is issued now ends. A record of somebody who did not know how long
            certificates live here is made to last as long.
        nodes: UIDs by name. A Node of another UID is another one: the former was deleted.
        lock: whether the certificates of a deleted Node are locked out.
        settled: by which what has ended is forgotten; ``now`` unless given.
    """
    found = {}
    for name, record in records.items():
        if record.uid and nodes.get(name) != record.uid:
            record = removed(record, now, until, lock=lock, why=why)
        found[name] = current(_lasting(record, until - now), settled or now)
    for name, uid in nodes.items():
        found[name] = msgspec.structs.replace(found.get(name, NONE), uid=uid)
    return {name: record for name, record in found.items() if record != NONE}


def joined(records: Iterable[NodeRecord]) -> NodeRecord:
    """What several records of one name say together: the later moments count."""
    found = NONE
    for each in records:
        later = each if _after(each.locked, found.locked) else found
        found = NodeRecord(
            uid=found.uid or each.uid,
            released=each.released if _after(each.released, found.released) else found.released,
            locked=later.locked,
            until=each.until if _after(each.until, found.until) else found.until,
            why=later.why,
        )
    return found


def _after(moment: dt.datetime | None, other: dt.datetime | None) -> bool:
    return moment is not None and (other is None or moment > other)


# ------------------------------------------------------------------ ConfigMaps


def placed(stored: Mapping[str, Mapping[str, str]], changes: Mapping[str, NodeRecord]) -> Placed:
    """What is to be written so that these records hold; :data:`NONE` goes.

    Where there is no room, what locks nobody out and is of no Node goes first, the soonest to end before the rest: its
    certificates give a claim to the name again.

    Args:
        stored: the data of the ConfigMaps of one path, empty for those that are not there.

    Raises:
        NodeRecordsFullError
    """
    wanted = encode(changes)
    found = place(stored, wanted)
    if not found.left_over:
        return found
    spare = _spare(stored, changes)
    needed = sum(cost(name, wanted[name]) for name in found.left_over)
    for name, size in spare.items():
        if needed <= 0:
            break
        wanted[name] = ""
        needed -= size
    found = place(stored, wanted)
    if found.left_over:
        raise NodeRecordsFullError(found)
    return found


def _spare(stored: Mapping[str, Mapping[str, str]], changes: Mapping[str, NodeRecord]) -> dict[str, int]:
    """What may go, and what it has in bytes, in the order in which it goes."""
    ends: dict[str, tuple[dt.datetime, int]] = {}
    kept = set(changes)
    for data in stored.values():
        for name, record in decode(data).items():
            if record.uid or record.locked is not None:
                kept.add(name)
            else:
                last = record.until or dt.datetime.max.replace(tzinfo=dt.UTC)
                ends[name] = (last, ends.get(name, (last, 0))[1] + cost(name, data[name]))
    names = sorted(ends.keys() - kept, key=lambda name: ends[name][0])
    return {name: ends[name][1] for name in names}


def config_maps_of(node_name: str) -> tuple[str, ...]:
    """The names of the ConfigMaps in which the node's record may be; the first is the one where it is as a rule."""
    return LAYOUT.path(shard_of(node_name))


def shard_of(node_name: str) -> str:
    return hashlib.sha256(node_name.encode()).hexdigest()[0]


def decode(stored: Mapping[str, str]) -> dict[str, NodeRecord]:
    """What cannot be read was not written by us, and is left out."""
    return {name: record for name, text in stored.items() if (record := _read(text)) != NONE}


def records_of(stored: Iterable[Mapping[str, str]], shard: str) -> dict[str, NodeRecord]:
    """The records of one shard in the ConfigMaps of its path."""
    found: dict[str, NodeRecord] = {}
    for number, data in enumerate(stored):
        for name, record in decode(data).items():
            if number == 0 or shard_of(name) == shard:
                found[name] = joined((found[name], record)) if name in found else record
    return found


def record_in(stored: Iterable[Mapping[str, str]], node_name: str) -> NodeRecord:
    """The record of one node in the data of the ConfigMaps of its path."""
    return joined(_read(data[node_name]) for data in stored if node_name in data)


def _read(text: str) -> NodeRecord:
    try:
        return msgspec.json.decode(text, type=NodeRecord)
    except msgspec.MsgspecError:
        return NONE


def encode(records: Mapping[str, NodeRecord]) -> dict[str, str]:
    """Empty for :data:`NONE`."""
    return {
        name: "" if records[name] == NONE else msgspec.json.encode(records[name]).decode() for name in sorted(records)
    }


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

    def changed(self, namespace: str, name: str, config_map: ConfigMap | None) -> bool:
        """The ConfigMap is now this, or gone; those of others are passed over. Whether somebody else is locked out."""
        if namespace != NAMESPACE or name not in _NAMES:
            return False
        before = self._locked.pop(name, None)
        records = {} if config_map is None else decode(config_map.data)
        locked = {node: record for node, record in records.items() if record.locked is not None}
        if locked:
            self._locked[name] = locked
        return before != self._locked.get(name)

    def __bool__(self) -> bool:
        return bool(self._locked)

    def __len__(self) -> int:
        return len({node for locked in self._locked.values() for node in locked})

    def of(self, node: str, issued: dt.datetime) -> str:
        """Why what was given to the node at that time counts no more; empty if it does."""
        if not self._locked or not node:
            return ""
        record = joined(locked[node] for locked in self._locked.values() if node in locked)
        if not record.locks(issued):
            return ""
        assert record.locked is not None  # it locks
        return f"node {node} is locked out since {Time.of(record.locked)}: {record.why}"
