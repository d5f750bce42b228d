"""Looking at a store that is not in use, and going on with one that has lost writes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from kubevouch.api import catalog
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.scheme import Resource
from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite import acceptance, verification
from kubevouch.storage.sqlite.verification import Verified

_ROOT = "/registry/"


class StillDamagedError(Exception):
    """What is left cannot be gone on with."""

    hint = "restore a backup; kubevouch store verify says what is wrong"


def verify(path: Path) -> Verified:
    """Looks at all of the store at ``path``; changes nothing.

    Raises:
        StoreInUse, StoreDamaged (it is no store at all), StoreUnavailable
    """
    with verification.alone(path) as real:
        return verification.verify(real, judged)


def accept_loss(path: Path, now: dt.datetime) -> tuple[Revision, Path | None]:
    """Lets the store at ``path`` go on without what it has lost.

    Returns:
        Its revision from now on, and a copy of its log if it had one.

    Raises:
        StillDamagedError: there is more wrong than writes that are missing. Nothing was changed.
        StoreInUse, StoreDamaged, StoreUnavailable
    """
    with verification.alone(path) as real:
        verified = verification.verify(real, judged)
        if verified.damaged:
            raise StillDamagedError(f"{real}: got {verified.damaged[0]}, expected to miss the newest writes only")
        return acceptance.jump(real, now)


def judged(key: str, value: bytes) -> str:
    """What is wrong with an object as it is stored; an empty text for a sound one, and for a kind we do not know."""
    if not key.startswith(_ROOT):
        return ""
    prefix, _, place = key.removeprefix(_ROOT).partition("/")
    resource = _RESOURCES.get(prefix)
    if resource is None:
        return ""
    try:
        opened = protobuf.unseal(value)
        if (opened.api_version, opened.kind) != (resource.api_version, resource.kind):
            return f"a {opened.kind} of {opened.api_version} where a {resource.kind} of {resource.api_version} belongs"
        metadata = protobuf.codec_for(resource.type).decode(opened.raw).metadata
    except ValueError as err:
        return f"no {resource.kind} that can be read ({err})"
    named = f"{metadata.namespace}/{metadata.name}" if resource.namespaced else metadata.name
    return "" if named == place else f"an object that is called {named}"


_RESOURCES: dict[str, Resource[Any]] = {each.storage_prefix or each.plural: each for each in catalog.STORED}
