"""Events about objects, without a flood: what happens again counts up one Event, and there is an allowance for all.

Source: k8s.io/client-go/tools/record (Kubernetes 1.36), which allows each object 25 at once; here it is all objects
together, because it is the number of machines that makes the flood. Names follow from the contents, so that a restart
reports nothing twice.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from kubevouch import wellknown
from kubevouch.api.catalog import EVENTS
from kubevouch.api.core_v1.events import Event, EventSource
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import Time
from kubevouch.util.clock import Clock

BURST = 25
RATE = 1.0
_REMEMBERED = 4096
_MAX_MESSAGE = 1024
_LONGEST_NAME = 230


class Allowance:
    """``rate`` a second, ``burst`` at once."""

    def __init__(self, clock: Clock, *, rate: float = RATE, burst: int = BURST) -> None:
        self._clock, self._rate, self._burst = clock, rate, float(burst)
        self._left, self._at = float(burst), clock.monotonic()

    def take(self) -> float:
        """0 if there was one to take, else the seconds until there is."""
        now = self._clock.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1.0:
            return (1.0 - self._left) / self._rate
        self._left -= 1.0
        return 0.0


class EventRecorder:
    """Args: ``component`` is the controller, as which ``client`` acts."""

    def __init__(self, client: Client, clock: Clock, component: str) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._counts: OrderedDict[str, int] = OrderedDict()

    async def record(
        self, about: ObjectReference, kind: str, reason: str, message: str, *, related: ObjectReference | None = None
    ) -> None:
        """Report ``reason`` about an object; a second time for the same object and reason counts the Event up.

        Args:
            kind: ``Normal`` or ``Warning``.

        Raises:
            APIStatusError, TransportError
        """
        now = Time.of(self._clock.now())
        name = _name(about, reason)
        message = message.encode()[:_MAX_MESSAGE].decode(errors="ignore")
        count = self._count(name)
        namespace = about.namespace or wellknown.DEFAULT_NAMESPACE
        event = Event(
            metadata=ObjectMeta(name=name, namespace=namespace),
            involved_object=about,
            reason=reason,
            message=message,
            source=EventSource(component=self._component),
            first_timestamp=now,
            last_timestamp=now,
            count=count,
            type=kind,
            related=related,
            reporting_component=self._component,
        )
        if count == 1:
            try:
                await self._client.create(EVENTS, event)
            except APIStatusError as err:
                if err.reason != Reason.ALREADY_EXISTS:
                    raise
                count = self._count(name)
            else:
                return
        again = {"message": message, "lastTimestamp": str(now), "count": count}
        try:
            await self._client.patch(EVENTS, name, again, MERGE_PATCH, namespace)
        except APIStatusError as err:
            if err.code != 404:
                raise
            # Events are forgotten after an hour.
            await self._client.create(EVENTS, event)

    def _count(self, name: str) -> int:
        self._counts[name] = self._counts.pop(name, 0) + 1
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)
        return self._counts[name]


def _name(about: ObjectReference, reason: str) -> str:
    # Names of requests may hold what those of events may not.
    fits = len(about.name) <= _LONGEST_NAME and not names.subdomain(about.name)
    digest = hashlib.sha256(f"{about.kind}\0{about.name}\0{about.uid}\0{reason}".encode()).hexdigest()
    return f"{about.name if fits else about.kind.lower()}.{digest[:16]}"
