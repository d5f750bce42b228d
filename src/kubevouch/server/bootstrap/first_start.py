"""Whether a store has begun its life here: what an operator takes away later does not come back by a restart.

The mark is an annotation of the Namespace ``kube-system``, which nobody can delete, for as long as the first start is
under way. A store that has the Namespace without it has been started, also one of a version that knew no mark.

Of several servers that start together over an empty store one makes what a first start makes; the mark names it, and
the others wait. Two of them would make two sets of tokens.
"""

from __future__ import annotations

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Namespace
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.client.leader_election import own_identity
from kubevouch.client.stored import find
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

ANNOTATION = "kubevouch.io/first-start"
_UNDER_WAY = "under-way"
PATIENCE_SECONDS = 15.0
"""How long another server may take, as this one sees it, before it counts as dead. It takes less than a second."""
_LOOK_SECONDS = 0.2

log = get_logger("first-start")


async def begin(client: Client, clock: Clock, *, alone: bool = True) -> bool:
    """Whether this is the first start, or one that takes up a first start that was cut short.

    Args:
        alone: no other server can be at work on the store: nobody is waited for.

    Raises:
        APIStatusError, TransportError
    """
    own = _UNDER_WAY if alone else f"{_UNDER_WAY} {own_identity()}"
    seen, since = "", clock.monotonic()
    while True:
        stored = await find(client, catalog.NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE)
        mark = own if stored is None else stored.metadata.annotations.get(ANNOTATION, "")
        if mark == own and stored is not None:
            return True
        if not mark.startswith(_UNDER_WAY):
            return False
        if mark != seen:
            seen, since = mark, clock.monotonic()
        if stored is None or alone or clock.monotonic() - since >= PATIENCE_SECONDS:
            await _claim(client, stored, own)
        else:
            log.info("waiting for the first start of another server", holder=mark.removeprefix(_UNDER_WAY).strip())
            await clock.sleep(_LOOK_SECONDS)


async def _claim(client: Client, stored: Namespace | None, own: str) -> None:
    """Write the mark with the version that was read: of two who do, one has it."""
    try:
        if stored is None:
            meta = ObjectMeta(name=wellknown.KUBE_SYSTEM_NAMESPACE, annotations={ANNOTATION: own})
            await client.create(catalog.NAMESPACES, Namespace(metadata=meta))
        else:
            annotations = stored.metadata.annotations | {ANNOTATION: own}
            await client.update(catalog.NAMESPACES, replace_metadata(stored, annotations=annotations))
    except APIStatusError as err:
        if err.reason not in (Reason.ALREADY_EXISTS, Reason.CONFLICT):
            raise


async def end(client: Client) -> None:
    """The first start is done, for good. Raises what the client raises."""
    change = {"metadata": {"annotations": {ANNOTATION: None}}}
    await client.patch(catalog.NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE, change, MERGE_PATCH)
