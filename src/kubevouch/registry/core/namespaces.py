"""Namespace, with ``/status`` and ``/finalize`` (pkg/registry/core/namespace; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import Namespace
from kubevouch.api.core_v1.namespaces import ACTIVE, TERMINATING
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text.names import dns_label_name
from kubevouch.registry.interface import ALL_VERBS, Column, Context, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import AGE, NAME, age


class NamespaceStrategy(Strategy[Namespace]):
    reset_fields: Sequence[tuple[str, ...]] = (("status",),)

    def prepare_for_create(self, _ctx: Context, obj: Namespace) -> Namespace:
        """A namespace starts Active and keeps the finalizer ``kubernetes`` until its content is gone."""
        finalizers = obj.spec.finalizers
        if wellknown.NAMESPACE_FINALIZER not in finalizers:
            finalizers = [*finalizers, wellknown.NAMESPACE_FINALIZER]
        return msgspec.structs.replace(
            core_v1.default_namespace(obj),
            spec=msgspec.structs.replace(obj.spec, finalizers=finalizers),
            status=core_v1.NamespaceStatus(phase=ACTIVE),
        )

    def validate(self, _ctx: Context, obj: Namespace) -> list[FieldError]:
        return core_v1.validate_namespace(obj)

    def prepare_for_update(self, _ctx: Context, new: Namespace, old: Namespace) -> Namespace:
        spec = msgspec.structs.replace(new.spec, finalizers=old.spec.finalizers)
        return msgspec.structs.replace(core_v1.default_namespace(new), spec=spec, status=old.status)

    def validate_update(self, _ctx: Context, new: Namespace, old: Namespace) -> list[FieldError]:
        return core_v1.validate_namespace_update(new, old)

    def may_remove(self, obj: Namespace) -> bool:
        return not obj.spec.finalizers

    def prepare_for_delete(self, _ctx: Context, obj: Namespace) -> Namespace:
        return msgspec.structs.replace(obj, status=msgspec.structs.replace(obj.status, phase=TERMINATING))


class NamespaceStatusStrategy(NamespaceStrategy):
    reset_fields: Sequence[tuple[str, ...]] = (("spec",),)

    def prepare_for_update(self, _ctx: Context, new: Namespace, old: Namespace) -> Namespace:
        return msgspec.structs.replace(new, spec=old.spec)

    def validate_update(self, _ctx: Context, new: Namespace, old: Namespace) -> list[FieldError]:
        return core_v1.validate_namespace_status_update(new, old)


class NamespaceFinalizeStrategy(NamespaceStrategy):
    reset_fields: Sequence[tuple[str, ...]] = ()

    def prepare_for_update(self, _ctx: Context, new: Namespace, old: Namespace) -> Namespace:
        return msgspec.structs.replace(new, status=old.status)

    def validate_update(self, _ctx: Context, new: Namespace, old: Namespace) -> list[FieldError]:
        return core_v1.validate_namespace_finalize_update(new, old)


def _cells(obj: Namespace, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, obj.status.phase, age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.NAMESPACES,
    defaulter=core_v1.default_namespace,
    strategy=NamespaceStrategy(),
    name_rule=dns_label_name,
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    printer=Printer((NAME, Column("Status", description="Active or Terminating."), AGE), _cells),
    subresources=(
        Subresource("finalize", NamespaceFinalizeStrategy(), verbs=("update",)),
        Subresource("status", NamespaceStatusStrategy()),
    ),
    selectable_fields={"status.phase": lambda obj: obj.status.phase, "name": lambda obj: obj.metadata.name},
)
