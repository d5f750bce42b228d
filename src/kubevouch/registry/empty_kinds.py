"""The kinds of which there is never an object: listed, watched, and refused with a reason when one is created."""

from __future__ import annotations

from typing import Any

from kubevouch.api import catalog
from kubevouch.api.empty_kinds import EmptyKind
from kubevouch.machinery.scheme import Resource
from kubevouch.registry.interface import (
    NO_SERVICE_NETWORK,
    NO_WORKLOADS,
    READ_VERBS,
    Column,
    Definition,
    Printer,
    Strategy,
    View,
)
from kubevouch.registry.printing import NAME

_FIXED = "the kinds that kubevouch serves are fixed"
_REASONS = {
    "networking.k8s.io": NO_SERVICE_NETWORK,
    "apiregistration.k8s.io": _FIXED,
    "flowcontrol.apiserver.k8s.io": "the lanes of kubevouch's requests are fixed",
}


def _column(name: str) -> Column:
    bare = name.strip("()")
    return NAME if bare == "Name" else Column(bare, description=f"{bare} of the object.", priority=int(name != bare))


def _as_it_is(obj: Any) -> Any:
    """There is nothing to convert."""
    return obj


def _definition(kind: EmptyKind, resource: Resource[Any]) -> Definition[Any]:
    return Definition(
        resource=resource,
        strategy=Strategy(),
        printer=Printer(tuple(map(_column, kind.columns.split(", "))), lambda obj, _now: [obj.metadata.name]),
        verbs=READ_VERBS,
        views=(View(catalog.OLDER[kind], _as_it_is, _as_it_is),) if kind in catalog.OLDER else (),
        categories=("all",) if kind.in_all else (),
        is_empty=True,
        refuses_creation=_REASONS.get(resource.group, NO_WORKLOADS),
    )


DEFINITIONS = tuple(_definition(kind, resource) for kind, resource in catalog.EMPTY.items())
