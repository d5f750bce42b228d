"""Whether the members of an etcd hold the same, by etcd's own hashes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from kubevouch.storage.etcd import messages
from kubevouch.storage.etcd.client import ATTEMPT_SECONDS, EtcdClient
from kubevouch.storage.etcd.errors import CallFailed
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.interface import Revision
from kubevouch.util.clock import Clock

_TRIES = 3
"""A compaction in between leaves hashes that cannot be compared."""


@dataclass(frozen=True, slots=True)
class Member:
    """What one said of itself; ``hash`` is of all from ``compacted`` on. ``finding``: why it said nothing."""

    url: str
    finding: str = ""
    alarms: tuple[str, ...] = ()
    compacted: int = 0
    hash: int = 0


async def verify_members(options: EtcdOptions, revision: Revision, clock: Clock) -> list[str]:
    """What is wrong with the members of ``options``, each asked by itself about all up to ``revision``."""
    members: list[Member] = []
    for _ in range(_TRIES):
        members = await asyncio.gather(*(_asked(url, options, revision, clock) for url in options.endpoints))
        if len({each.compacted for each in members if not each.finding}) <= 1:
            break
    return findings(members, revision)


def findings(members: list[Member], revision: Revision) -> list[str]:
    """Of hashes with different beginnings nothing can be said."""
    found = [f"{each.url}: {each.finding}" for each in members if each.finding]
    found += sorted({f"{each.url}: {alarm}" for each in members for alarm in each.alarms})
    hashes: dict[tuple[int, int], list[str]] = {}
    for each in members:
        if not each.finding:
            hashes.setdefault((each.compacted, each.hash), []).append(each.url)
    if len({hashed for _, hashed in hashes}) > 1 and len({compacted for compacted, _ in hashes}) == 1:
        groups = "; ".join(sorted(" and ".join(sorted(urls)) for urls in hashes.values()))
        found.append(f"members that hold other keys or values than others up to revision {revision}: {groups}")
    return found


async def _asked(url: str, options: EtcdOptions, revision: Revision, clock: Clock) -> Member:
    client = EtcdClient(msgspec.structs.replace(options, endpoints=(url,)), clock)
    try:
        status: Any = await client.call(messages.STATUS, messages.StatusRequest(), ATTEMPT_SECONDS)
        answer: Any = await client.call(messages.HASH_KV, messages.HashKVRequest(revision=revision), ATTEMPT_SECONDS)
    except CallFailed as err:
        return Member(url, err.text)
    finally:
        await client.close()
    return Member(url, "", tuple(status.errors), answer.compact_revision, answer.hash)
