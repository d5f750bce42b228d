"""What is stored under a key, as people read it: the object, and in which of its forms it is kept.

A form is how kube-apiserver would have to read the value: protobuf, JSON, YAML, encrypted, or none that is known.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.storage_keys import prefix_part
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.codec.encrypted_values import ENCRYPTED
from kubevouch.machinery.codec.object_codec import read_text
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.phases.store import stored_resource
from kubevouch.storage.copying.copy import Source
from kubevouch.storage.snapshot import ROOT, Record
from kubevouch.util.clock import Clock

_MOST_NAME = 300
"""Letters of an encryption's prefix that are looked at; provider names have 253 at most."""
_SECRETS = f"{ROOT}/secrets/"
_HIDDEN = "(hidden)"
_NOT_SECRET = {"apiVersion", "kind", "metadata", "type", "immutable"}


@dataclass(frozen=True, slots=True)
class Read:
    """A value as far as it can be read.

    Args:
        form: in a few words.
        tree: the object with apiVersion and kind; None if nobody can say what it is.
        wrong: why there is no tree.
    """

    form: str
    tree: Any = None
    wrong: str = ""


class Listed(NamedTuple):
    """A key in a list; ``expires`` is RFC 3339, empty for one that stays."""

    key: str
    revision: int
    bytes: int
    form: str
    expires: str


class Found(NamedTuple):
    """The key that was asked for, or those that begin so; ``prefix`` is what keys begin with where they are stored."""

    exact: Record | None
    keys: list[Listed]
    prefix: str


class Count(NamedTuple):
    """Of a resource's keys that are stored in one form."""

    keys: int
    bytes: int


async def look(place: Source, key: str, clock: Clock) -> Found:
    """Raises StoreError, OSError."""
    keys: list[Listed] = []
    async with place.snapshot(clock) as snapshot, aclosing(snapshot.batches(key)) as batches:
        async for batch in batches:
            for record in batch:
                if record.key == key:
                    return Found(record, [], snapshot.origin.prefix)
                expires = "" if record.expires is None else moment(record.expires)
                keys.append(Listed(record.key, record.revision, len(record.value), form_of(record.value), expires))
        return Found(None, keys, snapshot.origin.prefix)


def counted(keys: Iterable[Listed]) -> list[tuple[tuple[str, str], Count]]:
    """By resource and form, in the order of their names."""
    found: dict[tuple[str, str], Count] = {}
    for each in keys:
        place = (prefix_part(each.key), each.form)
        before = found.get(place, Count(0, 0))
        found[place] = Count(before.keys + 1, before.bytes + each.bytes)
    return sorted(found.items())


def moment(microseconds: int) -> str:
    """RFC 3339 of microseconds since 1970; of what no calendar has, the number."""
    try:
        return str(Time.of(dt.datetime.fromtimestamp(microseconds // 1_000_000, dt.UTC)))
    except (ValueError, OverflowError, OSError):
        return f"{microseconds} microseconds since 1970"


def whole_key(text: str) -> str:
    """The key that was meant: below the root, which need not be typed."""
    return text if text.startswith(ROOT) else f"{ROOT}/{text.lstrip('/')}"


def form_of(value: bytes) -> str:
    """Without reading the object."""
    if value.startswith(ENCRYPTED):
        # k8s:enc:PROVIDER:VERSION:KEY: and for KMS k8s:enc:kms:v2:PLUGIN:
        parts = value[:_MOST_NAME].split(b":")
        named = [part.decode(errors="replace") for part in parts[2:5]] if len(parts) > 5 else []
        return f"encrypted, {named[0]} {named[1]} {named[2]}" if named else "encrypted"
    if value.startswith(protobuf.MAGIC):
        return "protobuf"
    if not value:
        return "empty"
    return "JSON" if value.lstrip()[:1] == b"{" else "other"


def read(key: str, value: bytes) -> Read:
    """The object in ``value``, whoever has written it, in the version in which it lies there if that is known."""
    form = form_of(value)
    if form.startswith("encrypted"):
        return Read(form, wrong="it is encrypted")
    try:
        if form == "protobuf":
            return Read(form, _of_message(key, value))
        tree = read_text(value)
    except ValueError as err:
        return Read(form, wrong=str(err))
    return Read("YAML" if form == "other" else form, tree)


def _of_message(key: str, value: bytes) -> dict[str, Any]:
    """Raises ValueError."""
    opened = protobuf.unseal(value)
    resource = _KINDS.get((opened.api_version, opened.kind))
    if resource is not None:
        obj = resource.codec.from_message(opened.raw)
    else:
        resource = stored_resource(key)
        if resource is None:
            raise ValueError(f"a {opened.kind} of {opened.api_version}, which this program does not know")
        obj = resource.codec.from_value(value, resource.api_version, resource.kind)
    return {"apiVersion": resource.api_version, "kind": resource.kind} | resource.codec.to_tree(obj)


def is_secret(key: str, found: Read) -> bool:
    """Whether what can be read in it is nobody's business by default."""
    if found.form.startswith("encrypted"):
        return False
    return key.startswith(_SECRETS) or (isinstance(found.tree, dict) and found.tree.get("kind") == "Secret")


def hidden(tree: Any) -> Any:
    """A Secret without what is secret in it."""
    if not isinstance(tree, dict):
        return _HIDDEN
    shown = dict(tree)
    # Whatever else lies there: other objects are stored among Secrets by mistake, and hold what was meant for one.
    for field in tree.keys() - _NOT_SECRET:
        values = tree[field]
        shown[field] = dict.fromkeys(values, _HIDDEN) if isinstance(values, dict) else _HIDDEN
    metadata = tree.get("metadata")
    if (
        isinstance(metadata, dict)
        and isinstance(notes := metadata.get("annotations"), dict)
        and wellknown.LAST_APPLIED_ANNOTATION in notes
    ):
        shown["metadata"] = metadata | {"annotations": notes | {wellknown.LAST_APPLIED_ANNOTATION: _HIDDEN}}
    return shown


_KINDS: dict[tuple[str, str], Resource[Any]] = {(each.api_version, each.kind): each for each in catalog.STORED}
