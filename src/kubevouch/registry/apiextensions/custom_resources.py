"""Custom objects: for each version of a kind what a built-in resource declares in its module.

Source: apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy,validator}.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from kubevouch.cel.program import TURN, Turn
from kubevouch.machinery import errors, field
from kubevouch.machinery.custom_object import CustomCodec, CustomObject
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.writing.typed_tree import MapType
from kubevouch.registry.apiextensions import custom_columns, custom_scale
from kubevouch.registry.apiextensions.custom_kinds import Kind, KindVersion
from kubevouch.registry.interface import Context, Conversion, Definition, FieldGetter, Strategy, Subresource
from kubevouch.structural import paths
from kubevouch.structural.merging import merge_type
from kubevouch.structural.version import CompiledVersion
from kubevouch.util.worker import is_beside_loop

Tree = dict[str, Any]
Convert = Callable[["ServedKind", "ServedKindVersion"], Conversion[CustomObject]]

_STATUS = "status"
# In the order in which discovery lists them.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_TERMINATING = "create not allowed while custom resource definition is terminating"


class ServedKind:
    """A kind and its versions. Schemas are compiled when they are first needed, see :meth:`compile`.

    Args:
        convert: makes the conversion to a version.

    Attributes:
        terminating: its definition is being deleted.
    """

    def __init__(self, kind: Kind, convert: Convert) -> None:
        self.kind = kind
        self.convert = convert
        self.terminating = False
        self.versions = {
            version.name: ServedKindVersion(self, version, kind.api_version(version)) for version in kind.versions
        }

    @property
    def stored(self) -> ServedKindVersion:
        return self.versions[self.kind.stored.name]

    def compile(self) -> None:
        """What takes long for a long definition."""
        for version in self.versions.values():
            version.codec.merge_type  # noqa: B018 - made when it is looked at


class ServedKindVersion:
    """One version of a kind, and all that is made of it."""

    def __init__(self, owner: ServedKind, version: KindVersion, api_version: str) -> None:
        self.owner = owner
        self.version = version
        self.api_version = api_version
        self.codec = VersionCodec(self)

    @cached_property
    def compiled(self) -> CompiledVersion:
        return CompiledVersion(self.version.schema, self.version.scale)

    @cached_property
    def resource(self) -> Resource[CustomObject]:
        kind = self.owner.kind
        return Resource(
            kind.group,
            self.version.name,
            kind.kind,
            kind.plural,
            CustomObject,
            namespaced=kind.namespaced,
            short_names=kind.short_names,
            storage_prefix=f"{kind.group}/{kind.plural}",
            singular=kind.singular,
            list_kind=kind.list_kind,
            codec=self.codec,
        )

    @cached_property
    def definition(self) -> Definition[CustomObject]:
        owner = self.owner
        others = [each.api_version for each in owner.versions.values() if each is not self]
        return Definition(
            resource=self.resource,
            strategy=CustomStrategy(self),
            printer=custom_columns.printer(self.version.columns),
            subresources=self._subresources(),
            selectable_fields=_selectable(self.version.selectable),
            categories=owner.kind.categories,
            verbs=_VERBS,
            deprecation=owner.kind.deprecation(self.version),
            kindred=tuple(others),
            conversion=owner.convert(owner, self),
            served_besides=self._served_besides,
        )

    def _served_besides(self) -> list[Definition[CustomObject]]:
        return [each.definition for each in self.owner.versions.values() if each is not self and each.version.served]

    def _subresources(self) -> tuple[Subresource[CustomObject], ...]:
        found = []
        if self.version.has_status:
            found.append(Subresource(_STATUS, StatusStrategy(self)))
        if self.version.scale is not None:
            form = custom_scale.form(self.resource, self.version.scale)
            found.append(Subresource("scale", CustomStrategy(self), form=form))
        return tuple(found)


class VersionCodec(CustomCodec):
    """Cleans what comes in by the version's schema, and what was stored by that of the version it was stored in."""

    def __init__(self, version: ServedKindVersion) -> None:
        self._version = version

    @cached_property
    def merge_type(self) -> MapType:  # type: ignore[override]  # computed once
        return merge_type(self._version.compiled.schema)

    def cleaner(self, api_version: str) -> CompiledVersion | None:
        if not api_version or api_version == self._version.api_version:
            return self._version.compiled
        group, _, name = api_version.rpartition("/")
        other = self._version.owner.versions.get(name) if group == self._version.owner.kind.group else None
        return None if other is None else other.compiled


class CustomStrategy(Strategy[CustomObject]):
    """Of the objects themselves."""

    standard_finalizers = False
    unconditional_update = False

    def __init__(self, version: ServedKindVersion) -> None:
        self._version = version
        self._has_status = version.version.has_status
        if self._has_status:
            self.reset_fields: Sequence[tuple[str, ...]] = ((_STATUS,),)

    async def check_create(self, _ctx: Context, obj: CustomObject) -> None:
        self.check_open(obj)

    def check_open(self, obj: CustomObject) -> None:
        """What is stored when the objects of a definition have been counted would stay behind."""
        if self._version.owner.terminating:
            raise errors.forbidden(self._version.resource.group_resource, obj.metadata.name, _TERMINATING)

    def prepare_for_create(self, _ctx: Context, obj: CustomObject) -> CustomObject:
        if self._has_status and _STATUS in obj.content:
            obj = _with_content(obj, {key: value for key, value in obj.content.items() if key != _STATUS})
        made: CustomObject = replace_metadata(obj, generation=1)
        return made

    def validate_kind(self, obj: CustomObject) -> list[FieldError]:
        resource = self._version.resource
        problems = []
        if obj.kind != resource.kind:
            problems.append(field.invalid("kind", obj.kind, f"must be {resource.kind}"))
        if obj.api_version != resource.api_version:
            problems.append(field.invalid("apiVersion", obj.api_version, f"must be {resource.api_version}"))
        return problems

    def validate(self, ctx: Context, obj: CustomObject) -> list[FieldError]:
        return self._verdict(ctx, obj, None, "")

    def warnings_on_create(self, _ctx: Context, obj: CustomObject) -> list[str]:
        return _finalizer_warnings(obj.metadata.finalizers, ())

    def prepare_for_update(self, _ctx: Context, new: CustomObject, old: CustomObject) -> CustomObject:
        if self._has_status and (_STATUS in new.content or _STATUS in old.content):
            content = {key: value for key, value in new.content.items() if key != _STATUS}
            if _STATUS in old.content:
                content[_STATUS] = old.content[_STATUS]
            new = _with_content(new, content)
        if new.content != old.content:
            changed: CustomObject = replace_metadata(new, generation=old.metadata.generation + 1)
            return changed
        return new

    def validate_update(self, ctx: Context, new: CustomObject, old: CustomObject) -> list[FieldError]:
        return self._verdict(ctx, new, old, "")

    def warnings_on_update(self, _ctx: Context, new: CustomObject, old: CustomObject) -> list[str]:
        return _finalizer_warnings(new.metadata.finalizers, old.metadata.finalizers)

    def _verdict(self, ctx: Context, new: CustomObject, old: CustomObject | None, subresource: str) -> list[FieldError]:
        validate = self._version.compiled.validate
        # Where others wait for this thread, rules that take long give way and are run again on another.
        turn = None if is_beside_loop() else Turn(TURN)
        verdict = validate(_tree(new), None if old is None else _tree(old), subresource=subresource, turn=turn)
        ctx.warnings.extend(verdict.warnings)
        return verdict.errors


class StatusStrategy(CustomStrategy):
    """Of ``/status``: everything else is as it is stored."""

    def __init__(self, version: ServedKindVersion) -> None:
        super().__init__(version)
        self.reset_fields = (("spec",),)

    def prepare_for_update(self, _ctx: Context, new: CustomObject, old: CustomObject) -> CustomObject:
        content = {key: value for key, value in old.content.items() if key != _STATUS}
        if _STATUS in new.content:
            content[_STATUS] = new.content[_STATUS]
        metadata = msgspec.structs.replace(old.metadata, managed_fields=new.metadata.managed_fields)
        return msgspec.structs.replace(new, content=content, metadata=metadata)

    def validate_update(self, ctx: Context, new: CustomObject, old: CustomObject) -> list[FieldError]:
        return self._verdict(ctx, new, old, _STATUS)

    def warnings_on_update(self, _ctx: Context, _new: CustomObject, _old: CustomObject) -> list[str]:
        return []


def _with_content(obj: CustomObject, content: Tree) -> CustomObject:
    return msgspec.structs.replace(obj, content=content)


def _tree(obj: CustomObject) -> Tree:
    """What a schema sees of an object: of its metadata the names only."""
    names = {"name": obj.metadata.name}
    if obj.metadata.generate_name:
        names["generateName"] = obj.metadata.generate_name
    return {**obj.content, "apiVersion": obj.api_version, "kind": obj.kind, "metadata": names}


def _finalizer_warnings(new: Sequence[str], old: Sequence[str]) -> list[str]:
    """Of finalizers that came just now (apiserver pkg/registry/rest; Kubernetes 1.36)."""
    found = []
    for each in sorted(set(new) - set(old)):
        if "/" not in each:
            path = " including a path (/)" if "." in each else ""
            found.append(
                f"metadata.finalizers: {quote(each)}: prefer a domain-qualified finalizer name{path} to avoid "
                "accidental conflicts with other finalizer writers"
            )
    return found


def _selectable(selected: Sequence[str]) -> Mapping[str, FieldGetter]:
    return {path.removeprefix("."): _getter(paths.names(path)) for path in selected}


def _getter(names: tuple[str, ...]) -> FieldGetter:
    def read(obj: CustomObject) -> str:
        value = paths.value_at(obj.content, names)
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read
