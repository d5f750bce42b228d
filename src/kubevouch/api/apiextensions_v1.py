"""apiextensions.k8s.io/v1: CustomResourceDefinition, which kubectl lists before it creates what it does not know.

Schemas, conversion, printer columns and subresources are left out: the kinds that are served are fixed.

Field numbers and order: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import Struct, always, wire
from kubevouch.machinery.meta import Object

GROUP = "apiextensions.k8s.io"


class CustomResourceDefinitionNames(Struct):
    """What a kind is called."""

    plural: Annotated[str, wire(1, "Its name in paths.", required=True)] = always(str)
    singular: Annotated[str, wire(2, "One of them.")] = ""
    short_names: Annotated[list[str], wire(3, "Shorter names for it.", list_type="atomic")] = []
    kind: Annotated[str, wire(4, "The kind.", required=True)] = always(str)
    list_kind: Annotated[str, wire(5, "The kind of a list of them.")] = ""
    categories: Annotated[list[str], wire(6, "Groups of resources that it belongs to.", list_type="atomic")] = []


class CustomResourceDefinitionVersion(Struct):
    """One version of a kind."""

    name: Annotated[str, wire(1, "The version, such as v1.", required=True)] = always(str)
    served: Annotated[bool, wire(2, "Whether it is served.", required=True)] = always(bool)
    storage: Annotated[bool, wire(3, "Whether objects are stored in it.", required=True)] = always(bool)


class CustomResourceDefinitionSpec(Struct):
    """The kind that is defined."""

    group: Annotated[str, wire(1, "Its API group.", required=True)] = always(str)
    names: Annotated[CustomResourceDefinitionNames, wire(3, "What it is called.", required=True)] = always(
        CustomResourceDefinitionNames
    )
    scope: Annotated[str, wire(4, "Cluster or Namespaced.", required=True)] = always(str)
    versions: Annotated[
        list[CustomResourceDefinitionVersion], wire(7, "Its versions.", required=True, list_type="atomic")
    ] = always(list)


class CustomResourceDefinition(Object):
    """A kind that is added to those an API server has."""

    spec: Annotated[CustomResourceDefinitionSpec, wire(2, "The kind that is defined.", required=True)] = always(
        CustomResourceDefinitionSpec
    )
