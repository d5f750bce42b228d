"""EndpointSlice: that of ``default/kubernetes`` (columns: pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.api import catalog
from kubevouch.api.discovery_v1 import EndpointSlice
from kubevouch.registry.generations import CountingStrategy
from kubevouch.registry.interface import NO_SERVICE_NETWORK, READ_VERBS, Column, Definition, Printer
from kubevouch.registry.printing import AGE, NAME, UNSET, age


class EndpointSliceStrategy(CountingStrategy[EndpointSlice]):
    """Counts the changes of everything but annotations and the like."""

    def counts(self, new: EndpointSlice, old: EndpointSlice) -> bool:
        changed = msgspec.structs.replace(new, metadata=old.metadata) != old
        return changed or new.metadata.labels != old.metadata.labels


def _cells(part: EndpointSlice, now: dt.datetime) -> list[object]:
    ports = ",".join(str(port.port or "") for port in part.ports or ())
    addresses = ",".join(address for endpoint in part.endpoints or () for address in endpoint.addresses or ())
    return [
        part.metadata.name,
        part.address_type,
        ports or UNSET,
        addresses or UNSET,
        age(part.metadata.creation_timestamp, now),
    ]


DEFINITION = Definition(
    resource=catalog.ENDPOINT_SLICES,
    strategy=EndpointSliceStrategy(),
    printer=Printer(
        (
            NAME,
            Column("AddressType", description="The kind of its addresses."),
            Column("Ports", description="The ports of its endpoints."),
            Column("Endpoints", description="The addresses of its endpoints."),
            AGE,
        ),
        _cells,
    ),
    verbs=READ_VERBS,
    refuses_creation=NO_SERVICE_NETWORK,
)
