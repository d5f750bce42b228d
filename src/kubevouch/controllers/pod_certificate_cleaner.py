"""podcertificaterequest-cleaner-controller: removes requests for pods' certificates, answered or not.

A kubelet whose request has gone asks anew, so that what could not be answered is not waited for for ever.

Source: pkg/controller/certificates/cleaner/pcrcleaner.go (Kubernetes 1.36), which does not wait for its cache.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from kubevouch import wellknown
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers import pod_certificates
from kubevouch.controllers.cleaner import Cleaner
from kubevouch.controllers.interface import Context
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, Object, Preconditions
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.gotext import quote
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import give_way

log = get_logger("controllers.pod_certificate_cleaner")

NAME = wellknown.POD_CERTIFICATE_CLEANER_CONTROLLER

INTERVAL_SECONDS = 300.0
EXPIRATION = dt.timedelta(minutes=15)
SLICE = 200


def is_due(obj: Object, now: dt.datetime) -> bool:
    """Whether it was made 15 minutes ago or earlier."""
    created = obj.metadata.creation_timestamp
    return created is not None and now - created.datetime() >= EXPIRATION


class PodCertificateCleaner(Cleaner):
    """A pass each five minutes over all requests, whoever signs them."""

    def __init__(self, client: Client, resource: Resource[Any], informer: SharedInformer[Any], clock: Clock) -> None:
        super().__init__(NAME, [informer], clock, INTERVAL_SECONDS)
        self._client = client
        self._resource = resource
        self._informer = informer

    async def clean(self) -> None:
        now = self._clock.now()
        for number, obj in enumerate(self._informer.lister.list(), 1):
            if number % SLICE == 0:
                await give_way()
            if is_due(obj, now):
                await self._delete(obj)

    async def _delete(self, obj: Object) -> None:
        meta = obj.metadata
        options = DeleteOptions(preconditions=Preconditions(uid=meta.uid))
        try:
            await self._client.delete(self._resource, meta.name, meta.namespace, options)
        except (APIStatusError, TransportError) as err:
            if isinstance(err, APIStatusError) and err.code == 404:
                return
            name = quote(f"{meta.namespace}/{meta.name}")
            log.error("a request stays", err=f"unable to delete PodCertificateRequest {name}: {err}")


def build(context: Context) -> PodCertificateCleaner | None:
    """None where there are no such requests."""
    resource = pod_certificates.served(context.resources)
    if resource is None:
        return None
    client = context.connect(NAME)
    return PodCertificateCleaner(client, resource, context.informers.informer(resource, client=client), context.clock)
