"""All that the API has, served from a memory store: what the documents are made of in these tests."""

from __future__ import annotations

from typing import Any

from kubevouch.admission.chain import AdmissionChain
from kubevouch.api import catalog
from kubevouch.machinery.scheme import Resource
from kubevouch.registry.certificates import certificatesigningrequests
from kubevouch.registry.core import namespaces, nodes
from kubevouch.registry.interface import Definition, Printer, Strategy, Validate, View
from kubevouch.registry.printing import NAME
from kubevouch.registry.store import ResourceStore
from kubevouch.registry.write_budget import WriteBudget
from kubevouch.server import node_proxy, version
from kubevouch.server.endpoints import Action, Connect, Served, install
from kubevouch.server.request import NOT_FOUND, Request, Result
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.watchcache.cacher import Cacher
from kubevouch.testing.clock import FakeClock

VERSION = version.document()

_PRINTER = Printer((NAME,), lambda obj, _now: [obj.metadata.name])
_OWN = {
    definition.resource.plural: definition
    for definition in (certificatesigningrequests.DEFINITION, namespaces.DEFINITION, nodes.DEFINITION)
}
_VIEWS = {catalog.EVENTS: catalog.EVENTS_V1}


def _same(obj: Any) -> Any:
    return obj


def _definition(resource: Resource[Any]) -> Definition[Any]:
    own = _OWN.get(resource.plural)
    if own is not None and own.resource is resource:
        return own
    views = (View(_VIEWS[resource], _same, _same),) if resource in _VIEWS else ()
    return Definition(resource, Strategy(), _PRINTER, views=views)


async def _answer(_ctx: Any, _namespace: str, _name: str, obj: Any, _validate: Validate) -> Any:
    return obj


async def _hand_on(_request: Request) -> Result:
    return NOT_FOUND


def everything_served() -> Served:
    """Every resource of the catalog, with the real subresources of nodes, namespaces and CSRs, and every review."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    cacher = Cacher(store, clock)
    served = Served(catalog.SCHEME)
    stores = [
        ResourceStore(_definition(r), store, cacher, AdmissionChain(), clock, WriteBudget(clock))
        for r in catalog.STORED
    ]
    install(served, stores)
    for review in catalog.REVIEWS:
        served.add_action(Action(review, _answer))
    served.connects.append(Connect(catalog.NODES, "proxy", node_proxy.KIND, node_proxy.VERBS, _hand_on))
    served.add_action(Action(catalog.SERVICE_ACCOUNTS, _answer, accepts=catalog.TOKEN_REQUEST, subresource="token"))
    return served
