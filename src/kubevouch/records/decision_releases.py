"""Which decisions were taken back, for all processes that act on one cluster: each has a ledger of its own.

Sixteen ConfigMaps in kube-system. An entry is about one object, by its uid: a name is somebody else's later. It says up
to which generation the object was taken back, for the same object may be banned again; or which object took its place,
when it was put back, so that the release of that one is told to whoever knows only the former. The oldest go when there
are too many: what they were about is put back by a ledger that still has it.

Source: kubevouch's own; docs/adr/0046-decisions-outlive-their-definitions.md.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping

import msgspec

from kubevouch.records.config_map_overflow import Layout
from kubevouch.wellknown import DECISION_RELEASES_PREFIX as PREFIX

LAYOUT = Layout(PREFIX, tuple("0123456789abcdef"), overflows=0)
MAX_RELEASES = 1000
"""In one ConfigMap: some 150 KiB."""
MAX_SUCCESSORS = 32
"""How often what is looked up may have been put back."""


class Release(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one object.

    Args:
        at: when it was taken back, or put back as another object.
        generation: what was said up to this one counts no more.
        successor: the uid of the object that took its place; it was not taken back, then.
    """

    at: dt.datetime
    generation: int = 0
    successor: str = ""


def key_of(plural: str, uid: str) -> str:
    return f"{plural}.{uid}"


def config_map_of(uid: str) -> str:
    return f"{PREFIX}{hashlib.sha256(uid.encode()).hexdigest()[0]}"


def find(data: Mapping[str, str], plural: str, uid: str) -> Release | None:
    """None for what cannot be read, too: nothing was taken back by it."""
    try:
        return msgspec.json.decode(data.get(key_of(plural, uid), ""), type=Release)
    except msgspec.MsgspecError:
        return None


def added(data: Mapping[str, str], plural: str, uid: str, release: Release) -> dict[str, str]:
    """With one more; without the oldest, if there are too many, and without what cannot be read."""
    former = find(data, plural, uid)
    is_again = former is not None and not (former.successor or release.successor)
    if is_again and former is not None and former.generation >= release.generation:
        return dict(data)
    kept: dict[str, tuple[dt.datetime, str]] = {}
    for key, text in data.items():
        each = find(data, *key.partition(".")[::2])
        if each is not None:
            kept[key] = each.at, text
    kept.pop(key_of(plural, uid), None)
    newest = sorted(kept, key=lambda key: kept[key][0], reverse=True)[: MAX_RELEASES - 1]
    return {key: kept[key][1] for key in newest} | {key_of(plural, uid): msgspec.json.encode(release).decode()}
