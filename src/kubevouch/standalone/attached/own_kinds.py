"""Our own kinds on a server that may not have them: what is not served is not there, and is looked for again.

Whoever decides by policies or revocations decides nothing before they are loaded. On a cluster to which deploy/crds was
not applied there are none, which only its discovery can tell from a server that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS, OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.client.cache.informer import ChangeHandler, InformerFactory
from kubevouch.client.discovery import Discovered, discover
from kubevouch.client.interface import Client, ListOptions, TransportError
from kubevouch.client.pager import PAGE_SIZE, list_all
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource
from kubevouch.revocation.revocations import Revocations
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import PlannedEnd, Supervisor
from kubevouch.wellknown import KUBE_SYSTEM_NAMESPACE

log = get_logger("attached")

LOOK_SECONDS = 30.0


class KindsChangedError(PlannedEnd):
    """Kinds of ours came, so that everything has to begin anew."""


def missing(found: Discovered) -> list[Resource[Any]]:
    """Those that the server does not serve, as far as it could be asked."""
    served = (each.resource for each in OWN_KINDS)
    return [each for each in served if not found.serves(each) and each.api_version not in found.failures]


class AttachedInformers(InformerFactory):
    """Of a kind that is not served the copy is empty, and complete."""

    def __init__(self, client: Client, clock: Clock, absent: list[Resource[Any]]) -> None:
        super().__init__(client, clock)
        self._absent = absent

    def _start(self, tasks: Supervisor, key: tuple[str, ...]) -> None:
        informer = self._informers[key]
        if informer.resource in self._absent:
            tasks.start(f"absent-{informer.resource.plural}", lambda: informer.replace(()))
        else:
            super()._start(tasks, key)


async def until_they_come(client: Client, absent: list[Resource[Any]], clock: Clock) -> None:
    """For ever, unless one of them is served. Raises :class:`KindsChangedError`."""
    while True:
        await clock.sleep(LOOK_SECONDS)
        try:
            found = await discover(client)
        except (APIStatusError, TransportError) as err:
            log.info("the server's kinds cannot be looked at", err=str(err))
            continue
        if came := [each.plural for each in absent if found.serves(each)]:
            raise KindsChangedError(f"now served: {', '.join(came)}")


async def follow_revocations(
    revocations: Revocations,
    client: Client,
    informers: InformerFactory,
    absent: list[Resource[Any]],
    *,
    has_lockouts: bool,
) -> None:
    """Load what is revoked now, and have ``informers`` tell of changes.

    Args:
        has_lockouts: whether ``client`` may read the ConfigMaps in which they are.

    Raises:
        APIStatusError, TransportError
    """
    if CERTIFICATE_REVOCATIONS in absent:
        revocations.load(())
    else:
        listed = await list_all(client, CERTIFICATE_REVOCATIONS, "", ListOptions(limit=PAGE_SIZE))
        revocations.load(listed.items)

        def changed(obj: CertificateRevocation, gone: bool) -> None:
            revocations.changed(obj.metadata.name, None if gone else obj)

        informers.informer(CERTIFICATE_REVOCATIONS, client=client).add_handler(ChangeHandler(changed))
    if has_lockouts:
        config_maps = informers.informer(CONFIG_MAPS, client=client, namespace=KUBE_SYSTEM_NAMESPACE)
        config_maps.add_handler(ChangeHandler(_lockouts(revocations)))


def _lockouts(revocations: Revocations) -> Callable[[ConfigMap, bool], None]:
    def changed(obj: ConfigMap, gone: bool) -> None:
        if revocations.lockouts.changed(obj.metadata.namespace, obj.metadata.name, None if gone else obj):
            revocations.tell()

    return changed
