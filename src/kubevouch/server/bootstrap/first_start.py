"""Whether a store has begun its life here: what an operator takes away later does not come back by a restart.

The mark is an annotation of the Namespace ``kube-system``, which nobody can delete, for as long as the first start is
under way. A store that has the Namespace without it has been started, also one of a version that knew no mark.
"""

from __future__ import annotations

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Namespace
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta

ANNOTATION = "kubevouch.io/first-start"
_UNDER_WAY = "under-way"


async def begin(client: Client) -> bool:
    """Whether this is the first start, or one that takes up a first start that was cut short.

    Raises:
        APIStatusError, TransportError
    """
    name = wellknown.KUBE_SYSTEM_NAMESPACE
    try:
        stored = await client.get(catalog.NAMESPACES, name)
    except APIStatusError as err:
        if err.code != 404:
            raise
        meta = ObjectMeta(name=name, annotations={ANNOTATION: _UNDER_WAY})
        stored = await client.create(catalog.NAMESPACES, Namespace(metadata=meta))
    return stored.metadata.annotations.get(ANNOTATION) == _UNDER_WAY


async def end(client: Client) -> None:
    """The first start is done, for good. Raises what the client raises."""
    change = {"metadata": {"annotations": {ANNOTATION: None}}}
    await client.patch(catalog.NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE, change, MERGE_PATCH)
