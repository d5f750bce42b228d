"""CustomResourceDefinition: an empty collection, which kubectl 1.25 and later list before they create a review.

Source (columns): apiextensions-apiserver, pkg/registry/customresourcedefinition (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition
from kubevouch.registry.interface import READ_VERBS, Column, Definition, Printer, Strategy
from kubevouch.registry.printing import NAME


def _cells(obj: CustomResourceDefinition, _now: dt.datetime) -> list[object]:
    return [obj.metadata.name, str(obj.metadata.creation_timestamp)]


DEFINITION = Definition(
    resource=catalog.CUSTOM_RESOURCE_DEFINITIONS,
    strategy=Strategy[CustomResourceDefinition](),
    printer=Printer((NAME, Column("Created At", type="date", description="When it was made.")), _cells),
    verbs=READ_VERBS,
    refuses_creation="the kinds that kubevouch serves are fixed",
)
