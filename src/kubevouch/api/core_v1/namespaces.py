"""Namespace.

Source: k8s.io/api/core/v1, pkg/apis/core/validation, pkg/apis/core/v1/defaults.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch import wellknown
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Struct, always, null, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import Time

ACTIVE = "Active"
TERMINATING = "Terminating"

_STANDARD_FINALIZERS = frozenset(
    (wellknown.NAMESPACE_FINALIZER, wellknown.ORPHAN_FINALIZER, wellknown.FOREGROUND_FINALIZER)
)


class NamespaceCondition(Struct):
    """What a controller found while it looked after a namespace."""

    type: Annotated[str, wire(1, "What was looked at.", required=True)] = always(str)
    status: Annotated[str, wire(2, "True, False or Unknown.", required=True)] = always(str)
    last_transition_time: Annotated[Time | None, wire(4, "When the status last changed.")] = null()
    reason: Annotated[str, wire(5, "Why, in one word for machines.")] = ""
    message: Annotated[str, wire(6, "What happened, for people.")] = ""


class NamespaceSpec(Struct):
    """What keeps a namespace from going."""

    finalizers: Annotated[list[str], wire(1, "Must be empty before the namespace is removed.", list_type="atomic")] = []


class NamespaceStatus(Struct):
    """Where in its life a namespace is."""

    phase: Annotated[str, wire(1, "Active or Terminating.", enum=(ACTIVE, TERMINATING))] = ""
    conditions: Annotated[
        list[NamespaceCondition],
        wire(2, "What controllers found.", list_type="map", map_keys=("type",), patch_merge_key="type"),
    ] = []


class Namespace(Object):
    """A scope for names and for access rules."""

    spec: Annotated[NamespaceSpec, wire(2, "What keeps the namespace from going.")] = always(NamespaceSpec)
    status: Annotated[NamespaceStatus, wire(3, "Where in its life the namespace is.")] = always(NamespaceStatus)


def default_namespace(namespace: Namespace) -> Namespace:
    """A Namespace that says no phase is Active, and each carries its name as a label."""
    name = namespace.metadata.name
    if name and namespace.metadata.labels.get(wellknown.NAMESPACE_NAME_LABEL) != name:
        labels = namespace.metadata.labels | {wellknown.NAMESPACE_NAME_LABEL: name}
        namespace = replace_metadata(namespace, labels=labels)
    if not namespace.status.phase:
        status = msgspec.structs.replace(namespace.status, phase=ACTIVE)
        namespace = msgspec.structs.replace(namespace, status=status)
    return namespace


def validate_namespace(namespace: Namespace) -> list[FieldError]:
    """What is wrong with a Namespace, metadata apart."""
    return [
        error for finalizer in namespace.spec.finalizers for error in _finalizer_errors(finalizer, "spec.finalizers")
    ]


def _finalizer_errors(finalizer: str, path: str) -> list[FieldError]:
    errors = [field.invalid(path, finalizer, message) for message in names.qualified_name(finalizer)]
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        errors.append(
            field.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
        )
    return errors


def validate_namespace_update(_new: Namespace, _old: Namespace) -> list[FieldError]:
    """What is wrong with a change of a Namespace, metadata apart: spec and status are restored, so nothing can be."""
    return []


def validate_namespace_status_update(new: Namespace, _old: Namespace) -> list[FieldError]:
    """What is wrong with a change of a Namespace's status, metadata apart."""
    deleting = new.metadata.deletion_timestamp is not None
    wanted, when = (TERMINATING, "is not empty") if deleting else (ACTIVE, "is empty")
    if new.status.phase == wanted:
        return []
    return [
        field.invalid(
            "status.Phase",
            field.TypedString(new.status.phase),
            f"may only be '{wanted}' if `deletionTimestamp` {when}",
        )
    ]


def validate_namespace_finalize_update(new: Namespace, _old: Namespace) -> list[FieldError]:
    """What is wrong with a change through ``/finalize``, metadata apart."""
    return [
        error
        for index, finalizer in enumerate(new.spec.finalizers)
        for error in _finalizer_errors(finalizer, f"spec.finalizers[{index}]")
    ]
