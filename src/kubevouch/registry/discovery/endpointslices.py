"""EndpointSlice: that of ``default/kubernetes`` (columns: pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.api import catalog
from kubevouch.api.discovery_v1 import EndpointSlice
from kubevouch.machinery.meta import replace_metadata
from kubevouch.registry.interface import NO_SERVICE_NETWORK, READ_VERBS, Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, UNSET, age


class EndpointSliceStrategy(Strategy[EndpointSlice]):
    """Counts the changes of everything but annotations and the like."""

    def prepare_for_create(self, _ctx: Context, obj: EndpointSlice) -> EndpointSlice:
        counted: EndpointSlice = replace_metadata(obj, generation=1)
        return counted

    def prepare_for_update(self, _ctx: Context, new: EndpointSlice, old: EndpointSlice) -> EndpointSlice:
        changed = msgspec.structs.replace(new, metadata=old.metadata) != old
        generation = old.metadata.generation + (changed or new.metadata.labels != old.metadata.labels)
        counted: EndpointSlice = replace_metadata(new, generation=generation)
        return counted


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
