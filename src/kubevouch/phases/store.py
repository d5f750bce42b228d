"""Looking at a store that is not in use, and going on with one that has lost writes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from kubevouch.api import catalog
from kubevouch.api.storage_keys import ROOT, prefix_part
from kubevouch.machinery.codec.encrypted_values import ENCRYPTED
from kubevouch.machinery.scheme import Resource
from kubevouch.storage.copying.copy import Told
from kubevouch.storage.interface import Revision, StoreUnavailable
from kubevouch.storage.options import EtcdSpec
from kubevouch.storage.sqlite import acceptance, verification
from kubevouch.storage.sqlite.verification import Verified
from kubevouch.util.clock import Clock


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


async def accept_loss_of_etcd(spec: EtcdSpec, clock: Clock, told: Told) -> Revision:
    """As :func:`accept_loss`, for the servers of one data directory on etcd; returns its revision from now on.

    Raises:
        StoreUnavailable, CopyError, OSError
    """
    assert spec.mark is not None  # it was named with a data directory
    try:
        from kubevouch.storage.etcd.place import EtcdPlace
    except ImportError as err:
        raise StoreUnavailable("a store on etcd needs the extra: pip install 'kubevouch[etcd]'") from err
    return await EtcdPlace(spec.etcd, str(spec)).accept_loss(spec.mark, clock, told)


def judged(key: str, value: bytes) -> str:
    """What is wrong with an object as it is stored, by whomever.

    Returns:
        An empty text for a sound one, and for what cannot be judged: a kind that we do not know, an encrypted value.
    """
    resource = stored_resource(key)
    if resource is None or value.startswith(ENCRYPTED):
        return ""
    try:
        metadata = resource.codec.from_value(value, resource.api_version, resource.kind).metadata
    except ValueError as err:
        return f"no {resource.kind} that can be read ({err})"
    place = key.removeprefix(f"{ROOT}{prefix_part(key)}/")
    named = f"{metadata.namespace}/{metadata.name}" if resource.namespaced else metadata.name
    return "" if named == place else f"an object that is called {named}"


def stored_resource(key: str) -> Resource[Any] | None:
    """The declared kind whose objects lie under such keys."""
    return _RESOURCES.get(prefix_part(key)) if key.startswith(ROOT) else None


_RESOURCES: dict[str, Resource[Any]] = {each.storage_prefix or each.plural: each for each in catalog.STORED}
