"""CustomResourceDefinition, with ``/status``.

Source: apiextensions-apiserver pkg/registry/customresourcedefinition (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch.api import catalog
from kubevouch.api.apiextensions_v1.conditions import CLEANUP_FINALIZER, TERMINATING, TRUE, Finding, with_finding
from kubevouch.api.apiextensions_v1.definitions import (
    CustomResourceDefinition,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionStatus,
    default_definition,
    stored_version,
)
from kubevouch.api.apiextensions_v1.validation import (
    definition_name,
    format_warnings,
    validate_definition,
    validate_status,
)
from kubevouch.machinery.codec.elements import MAX_BODY_ELEMENTS
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.names import NameRule
from kubevouch.machinery.text.times import Time
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import NAME

_DELETION_PENDING = Finding(
    TERMINATING,
    TRUE,
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)


class DefinitionStrategy(Strategy[CustomResourceDefinition]):
    unconditional_update = False
    # Its rules are compiled, and a schema may be long.
    validates_elsewhere = True
    # Those of Argo's ApplicationSet have twenty thousand lines.
    max_elements = MAX_BODY_ELEMENTS
    preconditions_of_storage = True
    standard_finalizers = False
    reset_fields: Sequence[tuple[str, ...]] = (("status",),)

    def prepare_for_create(self, _ctx: Context, obj: CustomResourceDefinition) -> CustomResourceDefinition:
        fresh = msgspec.structs.replace(obj, status=_storing(CustomResourceDefinitionStatus(), obj.spec))
        made: CustomResourceDefinition = replace_metadata(fresh, generation=1)
        return made

    def prepare_for_update(
        self, _ctx: Context, new: CustomResourceDefinition, old: CustomResourceDefinition
    ) -> CustomResourceDefinition:
        updated = msgspec.structs.replace(new, status=_storing(old.status, new.spec))
        if new.spec != old.spec:
            updated = replace_metadata(updated, generation=old.metadata.generation + 1)
        return updated

    def name_rule(self, obj: CustomResourceDefinition) -> NameRule:
        return definition_name(obj)

    def validate(self, _ctx: Context, obj: CustomResourceDefinition) -> list[FieldError]:
        return validate_definition(obj)

    def warnings_on_create(self, _ctx: Context, obj: CustomResourceDefinition) -> list[str]:
        return format_warnings(obj)

    def validate_update(
        self, _ctx: Context, new: CustomResourceDefinition, old: CustomResourceDefinition
    ) -> list[FieldError]:
        return validate_definition(new, old)

    def warnings_on_update(
        self, _ctx: Context, new: CustomResourceDefinition, old: CustomResourceDefinition
    ) -> list[str]:
        return format_warnings(new, old)

    def begin_deletion(self, ctx: Context, obj: CustomResourceDefinition) -> CustomResourceDefinition:
        """Its objects go first."""
        meta, now = obj.metadata, Time.of(ctx.now)
        finalizers = meta.finalizers
        if CLEANUP_FINALIZER not in finalizers:
            finalizers = [*finalizers, CLEANUP_FINALIZER]
        marked: CustomResourceDefinition = replace_metadata(obj, finalizers=finalizers, deletion_timestamp=now)
        return with_finding(marked, _DELETION_PENDING, now)


class DefinitionStatusStrategy(DefinitionStrategy):
    """Of ``/status``, which takes labels and annotations, too."""

    validates_elsewhere = False
    reset_fields = (("metadata",), ("spec",))

    def prepare_for_update(
        self, _ctx: Context, new: CustomResourceDefinition, old: CustomResourceDefinition
    ) -> CustomResourceDefinition:
        return msgspec.structs.replace(new, spec=old.spec)

    def validate_update(
        self, _ctx: Context, new: CustomResourceDefinition, _old: CustomResourceDefinition
    ) -> list[FieldError]:
        return validate_status(new)

    def warnings_on_update(
        self, _ctx: Context, _new: CustomResourceDefinition, _old: CustomResourceDefinition
    ) -> list[str]:
        return []


def _storing(
    status: CustomResourceDefinitionStatus, spec: CustomResourceDefinitionSpec
) -> CustomResourceDefinitionStatus:
    """The status once objects are stored in the version that ``spec`` says."""
    known, stored = status.stored_versions or [], stored_version(spec)
    if stored is None or stored in known:
        return status
    return msgspec.structs.replace(status, stored_versions=[*known, stored])


def _cells(obj: CustomResourceDefinition, _now: dt.datetime) -> list[object]:
    return [obj.metadata.name, str(obj.metadata.creation_timestamp)]


DEFINITION = Definition(
    resource=catalog.CUSTOM_RESOURCE_DEFINITIONS,
    defaulter=default_definition,
    strategy=DefinitionStrategy(),
    printer=Printer((NAME, Column("Created At", type="date", description="When it was made.")), _cells),
    subresources=(Subresource("status", DefinitionStatusStrategy()),),
    categories=("api-extensions",),
)
