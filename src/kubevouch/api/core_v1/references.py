"""References that the kinds of core/v1 share.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import Struct, whole, wire


@whole
class LocalObjectReference(Struct):
    """Names an object in the same namespace."""

    name: Annotated[str, wire(1, "Name of the object.")] = ""


@whole
class ObjectReference(Struct):
    """Names any object, or a part of it."""

    kind: Annotated[str, wire(1, "Kind of the object.")] = ""
    namespace: Annotated[str, wire(2, "Its namespace; empty for cluster-scoped kinds.")] = ""
    name: Annotated[str, wire(3, "Its name.")] = ""
    uid: Annotated[str, wire(4, "Its UID.")] = ""
    api_version: Annotated[str, wire(5, "Group and version of its kind.")] = ""
    resource_version: Annotated[str, wire(6, "The version that is meant, if one is.")] = ""
    field_path: Annotated[str, wire(7, "The part of the object that is meant, such as spec.containers{name}.")] = ""
