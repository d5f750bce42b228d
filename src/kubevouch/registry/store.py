"""Writes of one stored resource, in Kubernetes' order of checks; its reads are :mod:`.reader`.

Source of the order: k8s.io/apiserver/pkg/registry/generic/registry/store.go and pkg/registry/rest (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from kubevouch.admission.chain import AdmissionChain
from kubevouch.admission.interface import Operation, Request, Version
from kubevouch.cel.program import TurnOver
from kubevouch.machinery import errors, field, object_meta
from kubevouch.machinery.codec import elements
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, Object, ObjectMeta, replace_metadata
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.machinery.text.generate_name import generate_name
from kubevouch.machinery.text.times import Time
from kubevouch.registry.interface import Context, Definition, Form, Strategy
from kubevouch.registry.managed_fields import FieldTracker
from kubevouch.registry.reader import ResourceReader, parse_resource_version
from kubevouch.registry.store_failures import status_of
from kubevouch.registry.write_budget import WriteBudget
from kubevouch.storage.interface import (
    Encrypting,
    EncryptionFailed,
    KeyExists,
    Revision,
    RevisionConflict,
    Store,
    StoreUnavailable,
    ValueTooLarge,
)
from kubevouch.storage.watchcache.cacher import Cacher
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.uuids import random_uuid
from kubevouch.util.worker import compute, elsewhere, is_large, weigh

log = get_logger("registry")

T = TypeVar("T", bound=Object)
FieldErrors = list[field.FieldError]

GENERATE_NAME_ATTEMPTS = 8

_IGNORE_READ_ERROR = "ignoreStoreReadErrorWithClusterBreakingPotential"
_FOR_CORRUPT_OBJECTS = "is exclusively used to delete corrupt object(s), try again by removing this option"

Transform = Callable[[T | None], Awaitable[T]]


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """What a deletion did: ``gone`` is False while finalizers keep the object."""

    stored: Stored[T]
    gone: bool


class ResourceStore(ResourceReader[T]):
    """REST storage of one resource."""

    def __init__(
        self,
        definition: Definition[T],
        store: Store,
        cacher: Cacher,
        admission: AdmissionChain,
        clock: Clock,
        write_budget: WriteBudget,
        cache: ResourceCache[T] | None = None,
    ) -> None:
        super().__init__(definition, store, cacher, clock, cache)
        self._write_budget = write_budget
        self._admission = admission
        self.fields = FieldTracker(definition)
        self._versions = _versions(definition)
        # Is told of each update that was stored: the new object and the one it took the place of.
        self.updated: Callable[[T, T], None] | None = None

    # -------------------------------------------------------------- values

    def _value(self, obj: T) -> bytes:
        resource = self.definition.resource
        if obj.metadata.resource_version or obj.metadata.self_link:
            obj = replace_metadata(obj, resource_version="", self_link="")
        return self._codec.to_value(obj, resource.stored_api_version, resource.kind)

    async def _as_if_stored(self, stored: Stored[T]) -> Stored[T]:
        """What is left of an object after it was stored in another version. Raises ``APIStatusError``."""
        if self._conversion is None:
            return stored
        kept = await self._conversion.to_stored(stored.obj)
        return await self._one_served(Stored(stored.key, kept, stored.revision, stored.raw))

    async def _value_of(self, obj: T) -> bytes:
        """In the stored version. Raises ``APIStatusError``."""
        if self._conversion is not None:
            obj = await self._conversion.to_stored(obj)
        return await compute(self._value, obj)

    # -------------------------------------------------------------- create

    async def create(self, ctx: Context, namespace: str, obj: T) -> Stored[T]:
        """Create, with up to eight tries for a generated name."""
        if is_large():
            await compute(elements.check, obj, self.definition.strategy.max_elements)
        generated = not obj.metadata.name and bool(obj.metadata.generate_name)
        attempts = GENERATE_NAME_ATTEMPTS if generated else 1
        for attempt in range(1, attempts + 1):
            named = await compute(self.fields.on_create, ctx, self._named(obj))
            try:
                return await self._create_once(ctx, namespace, named, obj.metadata.name)
            except KeyExists:
                name = named.metadata.name
                if attempt == attempts:
                    raise await self._exists(namespace, name, generated=generated) from None
        raise AssertionError("unreachable")

    def _named(self, obj: T) -> T:
        meta = obj.metadata
        if meta.name or not meta.generate_name:
            return obj
        named: T = replace_metadata(obj, name=generate_name(meta.generate_name))
        return named

    async def _exists(self, namespace: str, name: str, *, generated: bool) -> APIStatusError:
        resource = self.definition.resource.group_resource
        if generated:
            return errors.generate_name_conflict(resource, name)
        await self._cacher.newest()
        current = self.cache.get(self.definition.key(namespace, name))
        deleting = current is not None and current.obj.metadata.deletion_timestamp is not None
        return errors.already_exists(resource, name, being_deleted=deleting)

    async def _create_once(self, ctx: Context, namespace: str, obj: T, given_name: str) -> Stored[T]:
        """One attempt at an object whose managedFields are settled. Raises ``KeyExists`` besides APIStatusError."""
        definition, strategy = self.definition, self.definition.strategy
        asked_version = obj.metadata.resource_version
        request = self._request(ctx, Operation.CREATE, namespace, given_name, obj, None, "")
        tracked = await self._admission.admit(request)
        await strategy.check_create(ctx, tracked)
        created = await self._prepared(ctx, strategy, partial(self._prepared_to_create, ctx, namespace, tracked))
        request = self._request(ctx, Operation.CREATE, namespace, created.metadata.name, created, None, "")
        try:
            await self._admission.validate(request)
            if asked_version.isascii() and asked_version.isdigit() and int(asked_version):
                raise errors.untyped("resourceVersion should not be set on objects to be created")
            key = definition.key(namespace, created.metadata.name)
            if ctx.dry_run:
                await self._cacher.newest()
                if self.readable(key) is not None:
                    raise KeyExists(key)
                return await self._as_if_stored(Stored(key, created, Revision(0), b""))
            value = await self._value_of(created)
            self._spend(ctx, value)
            strategy.check_open(created)
            revision = await self._write(self._store.create(key, value, ttl=definition.ttl))
            return await self._stored(key, revision, created, value)
        finally:
            for end in request.at_end:
                end()

    @staticmethod
    async def _prepared(ctx: Context, strategy: Strategy[T], work: Callable[[], T]) -> T:
        """What ``work`` gives, done elsewhere if it takes long or, with rules of a schema, turns out to."""
        if not strategy.validates_elsewhere:
            said = len(ctx.warnings)
            try:
                return await compute(work)
            except TurnOver:
                # It begins again, and would say again what it has said.
                del ctx.warnings[said:]
        return await elsewhere(work)

    def _prepared_to_create(self, ctx: Context, namespace: str, obj: T) -> T:
        """The object as it will be stored. Raises ``APIStatusError`` (422)."""
        definition, strategy = self.definition, self.definition.strategy
        created = self._before_create(ctx, namespace, obj)
        problems = self._validate_create(ctx, created)
        if problems:
            raise errors.invalid(_named_kind(definition.resource.gvk, created), created.metadata.name, problems)
        ctx.warnings.extend(strategy.warnings_on_create(ctx, created))
        return created

    def _before_create(self, ctx: Context, namespace: str, obj: T) -> T:
        meta = obj.metadata
        filled: T = replace_metadata(
            obj,
            namespace=namespace if self.definition.resource.namespaced else "",
            uid=random_uuid(),
            resource_version="",
            self_link="",
            creation_timestamp=Time.of(ctx.now),
            deletion_timestamp=None,
            deletion_grace_period_seconds=None,
            owner_references=self._distinct_owners(ctx, meta),
        )
        return self.definition.strategy.prepare_for_create(ctx, filled)

    @staticmethod
    def _distinct_owners(ctx: Context, meta: ObjectMeta) -> list[Any]:
        """Equal owner references collapse; two with one UID are worth a warning (endpoints/handlers/rest.go)."""
        return object_meta.deduplicate_owner_references(meta.owner_references, ctx.warnings)

    def _validate_create(self, ctx: Context, obj: T) -> FieldErrors:
        definition = self.definition
        problems = definition.strategy.validate_kind(obj)
        problems += object_meta.validate_object_meta(
            obj.metadata, definition.resource.namespaced, definition.strategy.name_rule(obj) or definition.name_rule,
            standard_finalizers=definition.strategy.standard_finalizers,
        )  # fmt: skip
        problems += definition.strategy.validate(ctx, obj)
        if problems:
            return problems
        return object_meta.validate_path_segments(obj.metadata)

    # -------------------------------------------------------------- update

    async def update(
        self,
        ctx: Context,
        namespace: str,
        name: str,
        transform: Transform[T],
        subresource: str = "",
        *,
        may_create: bool = True,
        applies: bool = False,
    ) -> tuple[Stored[T], bool]:
        """Read, transform, check, compare-and-swap, again on conflict. The flag says that the object was created.

        ``transform`` gets the stored object (None when it is missing and this resource may be created by PUT) and
        returns the object as the client wants it, or raises. With ``applies`` it is a server-side apply, which creates
        any kind that is missing and keeps managedFields itself.
        """
        strategy = self._strategy(subresource)
        key = self.definition.key(namespace, name)
        await self._cacher.newest()
        existing = self.readable(key)
        while True:
            if existing is not None:
                weigh(len(existing.raw))
                existing = await self._one_served(existing)
                if not existing.obj.metadata.uid:
                    # As Kubernetes takes it, which only others' hands can have put there.
                    raise errors.not_found(self.definition.resource.group_resource, name)
            if existing is None:
                if subresource or not may_create or not (strategy.create_on_update or applies):
                    raise errors.not_found(self.definition.resource.group_resource, name)
                return await self._create_by_update(ctx, namespace, name, transform, applies=applies), True
            wanted = await transform(existing.obj)
            if is_large():
                await compute(elements.check, wanted, self.definition.strategy.max_elements)
            if not applies:
                wanted = await compute(self.fields.on_update, ctx, wanted, existing.obj, subresource)
            result = await self._update_once(ctx, namespace, existing, wanted, strategy, subresource)
            if isinstance(result, Stored):
                return result, False
            existing = result.current

    def _form(self, subresource: str) -> Form[T] | None:
        found = self.definition.subresource(subresource) if subresource else None
        return None if found is None else found.form

    def _strategy(self, subresource: str) -> Strategy[T]:
        if not subresource:
            return self.definition.strategy
        found = self.definition.subresource(subresource)
        if found is None:
            raise errors.unknown_resource()
        return found.strategy

    async def _create_by_update(
        self, ctx: Context, namespace: str, name: str, transform: Transform[T], *, applies: bool
    ) -> Stored[T]:
        wanted = await transform(None)
        if wanted.metadata.uid:
            raise errors.conflict(
                self.definition.resource.group_resource,
                name,
                uid_precondition_text(self.definition.key(namespace, name), wanted.metadata.uid, ""),
            )
        if is_large():
            await compute(elements.check, wanted, self.definition.strategy.max_elements)
        if not applies:
            wanted = await compute(self.fields.on_create, ctx, wanted)
        # Unlike a create, an update of what is not there says nothing of the version that it was given.
        wanted = replace_metadata(wanted, resource_version="")
        try:
            return await self._create_once(ctx, namespace, wanted, name)
        except KeyExists:
            raise errors.already_exists(self.definition.resource.group_resource, name) from None

    async def _update_once(
        self, ctx: Context, namespace: str, existing: Stored[T], wanted: T, strategy: Strategy[T], subresource: str
    ) -> Stored[T] | _Moved[T]:
        """One attempt. Returns what is stored now, or the newer object that was in the way."""
        old = existing.obj
        name = old.metadata.name
        form = self._form(subresource)
        shown = wanted if form is None else form.show(wanted)
        shown_old = old if form is None else form.show(old)
        request = self._request(ctx, Operation.UPDATE, namespace, name, shown, shown_old, subresource)
        tracked = await self._admission.admit(request)
        if form is not None:
            tracked = wanted if tracked is shown else form.take(wanted, tracked)
        self._check_version(tracked, existing, strategy)
        await strategy.check_update(ctx, tracked, old)
        updated = await self._prepared(ctx, strategy, partial(self._prepared_to_update, ctx, tracked, old, strategy))
        await strategy.check_valid_update(ctx, updated, old)
        shown = updated if form is None else form.show(updated)
        request = self._request(ctx, Operation.UPDATE, namespace, name, shown, shown_old, subresource)
        await self._admission.validate(request)
        updated = await compute(self.fields.settle, updated, old)
        value = await self._value_of(updated)
        if value == existing.raw and not await self._is_stale(existing.key):
            return existing
        if ctx.dry_run:
            would_be = Stored(existing.key, self.at(updated, existing.revision), existing.revision, b"")
            return await self._as_if_stored(would_be)
        if updated.metadata.deletion_timestamp is not None and self._may_go(updated):
            return await self._finish_deletion(existing, updated)
        self._spend(ctx, value)
        try:
            write = self._store.update(existing.key, value, existing.revision, ttl=self.definition.ttl)
            revision = await self._write(write)
        except RevisionConflict as err:
            return _Moved(await self._from_conflict(err))
        if self.updated is not None:
            self.updated(updated, old)
        return await self._stored(existing.key, revision, updated, value)

    def _prepared_to_update(self, ctx: Context, wanted: T, old: T, strategy: Strategy[T]) -> T:
        """The object as it will be stored. Raises ``APIStatusError`` (422)."""
        updated = self._before_update(ctx, wanted, old, strategy)
        problems = self._validate_update(ctx, updated, old, strategy)
        if problems:
            raise errors.invalid(_named_kind(self.definition.resource.gvk, updated), old.metadata.name, problems)
        ctx.warnings.extend(strategy.warnings_on_update(ctx, updated, old))
        return updated

    def _validate_update(self, ctx: Context, new: T, old: T, strategy: Strategy[T]) -> FieldErrors:
        """Kubernetes runs the metadata rules twice on updates: in common and in the strategy; both show in causes."""
        namespaced, rule = self.definition.resource.namespaced, self.definition.name_rule
        standard = strategy.standard_finalizers
        return [
            *strategy.validate_kind(new),
            *object_meta.validate_object_meta_update(new.metadata, old.metadata),
            *object_meta.validate_object_meta(new.metadata, namespaced, rule, standard_finalizers=standard),
            *object_meta.validate_object_meta_update(new.metadata, old.metadata, standard_finalizers=standard),
            *strategy.validate_update(ctx, new, old),
        ]

    def _may_go(self, obj: T) -> bool:
        return not obj.metadata.finalizers and self.definition.strategy.may_remove(obj)

    async def _finish_deletion(self, existing: Stored[T], updated: T) -> Stored[T] | _Moved[T]:
        """The last finalizer has gone: the update becomes the deletion."""
        try:
            revision = await self._write(self._store.delete(existing.key, existing.revision))
        except RevisionConflict as err:
            return _Moved(await self._from_conflict(err))
        await self._cacher.reach(revision)
        return Stored(existing.key, self.at(updated, existing.revision), existing.revision, b"")

    async def _from_conflict(self, err: RevisionConflict) -> Stored[T] | None:
        current = err.current
        if current is None:
            return None
        weigh(len(current.value))
        return await compute(self.read, current)

    def _check_version(self, wanted: T, existing: Stored[T], strategy: Strategy[T]) -> None:
        version = parse_resource_version(wanted.metadata.resource_version, errors.untyped)
        resource = self.definition.resource
        if version == 0:
            if not strategy.unconditional_update:
                # details.kind is the resource here, unlike every other Invalid (registry/generic/registry/store.go).
                raise errors.invalid(
                    resource.gvk._replace(kind=resource.plural),
                    existing.obj.metadata.name,
                    [field.invalid("metadata.resourceVersion", 0, "must be specified for an update")],
                )
            return
        if version != existing.revision:
            raise errors.conflict(resource.group_resource, existing.obj.metadata.name)

    def _before_update(self, ctx: Context, wanted: T, old: T, strategy: Strategy[T]) -> T:
        meta, old_meta = wanted.metadata, old.metadata
        filled: T = replace_metadata(
            wanted,
            namespace=old_meta.namespace if not self.definition.resource.namespaced else meta.namespace,
            generation=old_meta.generation,
            owner_references=self._distinct_owners(ctx, meta),
            self_link="",
        )
        prepared = strategy.prepare_for_update(ctx, filled, old)
        meta = prepared.metadata
        settled: T = replace_metadata(
            prepared,
            uid=meta.uid or old_meta.uid,
            creation_timestamp=old_meta.creation_timestamp,
            deletion_timestamp=old_meta.deletion_timestamp or meta.deletion_timestamp,
            deletion_grace_period_seconds=(
                old_meta.deletion_grace_period_seconds
                if meta.deletion_grace_period_seconds is None
                else meta.deletion_grace_period_seconds
            ),
            resource_version=meta.resource_version or old_meta.resource_version,
        )
        return settled

    # -------------------------------------------------------------- delete

    async def delete(self, ctx: Context, namespace: str, name: str, options: DeleteOptions) -> Deleted[T]:
        """Delete, or mark for deletion while finalizers remain."""
        key = self.definition.key(namespace, name)
        await self._cacher.newest()
        if options.ignore_store_read_error_with_cluster_breaking_potential:
            return await self._delete_unreadable(ctx, key, name)
        existing = self.readable(key)
        while True:
            if existing is None:
                raise errors.not_found(self.definition.resource.group_resource, name)
            weigh(len(existing.raw))
            existing = await self._one_served(existing)
            self._check_preconditions(existing, options)
            request = self._request(ctx, Operation.DELETE, namespace, name, None, existing.obj, "")
            await self._admission.admit(request)
            await self._admission.validate(request)
            result = await self._delete_once(ctx, existing, options)
            if isinstance(result, Deleted):
                return result
            existing = result.current

    async def _delete_unreadable(self, ctx: Context, key: str, name: str) -> Deleted[T]:
        """Delete what nobody can read, whatever it says of finalizers and owners."""
        resource = self.definition.resource
        unreadable = self.cache.unreadable.get(key)
        if unreadable is None:
            if self.cache.get(key) is None:
                raise errors.not_found(resource.group_resource, name)
            raise errors.invalid(resource.gvk, name, [field.invalid(_IGNORE_READ_ERROR, True, _FOR_CORRUPT_OBJECTS)])
        if not ctx.dry_run:
            try:
                revision = await self._write(self._store.delete(key, unreadable.revision))
            except RevisionConflict:
                raise errors.conflict(resource.group_resource, name) from None
            log.warning("an unreadable object was deleted", key=key, revision=unreadable.revision, user=ctx.user.name)
            await self._cacher.reach(revision)
        gone = self._codec.blank(ObjectMeta(name=name), resource.kind, resource.api_version)
        return Deleted(Stored(key, gone, unreadable.revision, b""), gone=True)

    def _check_preconditions(self, existing: Stored[T], options: DeleteOptions) -> None:
        wanted = options.preconditions
        if wanted is None:
            return
        meta, resource = existing.obj.metadata, self.definition.resource
        gvk = resource.gvk
        if self.definition.strategy.preconditions_of_storage:
            for what, asked, found in (
                ("UID", wanted.uid, meta.uid),
                ("ResourceVersion", wanted.resource_version, meta.resource_version),
            ):
                if asked is not None and asked != found:
                    why = f"Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
                    raise errors.conflict(resource.group_resource, meta.name, why)
        if wanted.uid is not None and wanted.uid != meta.uid:
            raise errors.precondition_failed(
                gvk,
                meta.name,
                f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({meta.uid}). "
                "The object might have been deleted and then recreated",
            )
        if wanted.resource_version is not None and wanted.resource_version != meta.resource_version:
            raise errors.precondition_failed(
                gvk,
                meta.name,
                f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the "
                f"ResourceVersion in record ({meta.resource_version}). The object might have been modified",
            )

    async def _delete_once(self, ctx: Context, existing: Stored[T], options: DeleteOptions) -> Deleted[T] | _Moved[T]:
        strategy = self.definition.strategy
        obj = existing.obj
        begun = None if obj.metadata.deletion_timestamp is not None else strategy.begin_deletion(ctx, obj)
        finalizers = object_meta.deletion_finalizers(obj.metadata, options)
        if begun is None and not finalizers and strategy.may_remove(obj):
            return await self._remove(ctx, existing)
        marked = await compute(self._marked, ctx, obj, finalizers) if begun is None else begun
        value = await self._value_of(marked)
        if value == existing.raw:
            return Deleted(existing, gone=False)
        if ctx.dry_run:
            return Deleted(Stored(existing.key, marked, existing.revision, b""), gone=False)
        try:
            revision = await self._write(self._store.update(existing.key, value, existing.revision))
        except RevisionConflict as err:
            return _Moved(await self._from_conflict(err))
        return Deleted(await self._stored(existing.key, revision, marked, value), gone=False)

    def _marked(self, ctx: Context, obj: T, finalizers: list[str]) -> T:
        strategy = self.definition.strategy
        obj = strategy.prepare_for_delete(ctx, obj)
        meta = obj.metadata
        # A deletion changes what is wanted: it counts, for kinds that count (registry/generic/registry/store.go).
        counts = meta.generation > 0 and meta.deletion_grace_period_seconds is None
        marked: T = replace_metadata(
            obj,
            finalizers=finalizers,
            generation=meta.generation + counts,
            deletion_timestamp=meta.deletion_timestamp or Time.of(ctx.now),
            deletion_grace_period_seconds=0 if strategy.may_remove(obj) else meta.deletion_grace_period_seconds,
        )
        return marked

    async def _remove(self, ctx: Context, existing: Stored[T]) -> Deleted[T] | _Moved[T]:
        if not ctx.dry_run:
            try:
                revision = await self._write(self._store.delete(existing.key, existing.revision))
            except RevisionConflict as err:
                return _Moved(await self._from_conflict(err))
            await self._cacher.reach(revision)
        return Deleted(existing, gone=True)

    # -------------------------------------------------------------- shared

    def _spend(self, ctx: Context, value: bytes) -> None:
        """Raises ``APIStatusError`` (429)."""
        if not ctx.own:
            self._write_budget.spend(ctx.user, len(value), ctx.source)

    async def _is_stale(self, key: str) -> bool:
        """Whether an update that changes nothing is written all the same: that is how Kubernetes rotates keys."""
        return isinstance(self._store, Encrypting) and await self._store.is_stale(key)

    async def _write(self, write: Awaitable[Revision]) -> Revision:
        """Store errors that are the client's business become statuses; conflicts are the caller's."""
        try:
            return await write
        except ValueTooLarge:
            raise errors.request_entity_too_large("etcdserver: request is too large") from None
        except EncryptionFailed as err:
            raise errors.internal(str(err)) from err
        except StoreUnavailable as err:
            raise status_of(err) from err

    async def _stored(self, key: str, revision: Revision, obj: T, value: bytes) -> Stored[T]:
        """The object as the cache holds it, so that its encodings are shared with lists and watches."""
        await self._cacher.reach(revision)
        cached = self.cache.get(key)
        if cached is not None and cached.revision == revision:
            return await self._one_served(cached)
        return Stored(key, self.at(obj, revision), revision, value)

    def _request(
        self, ctx: Context, operation: Operation, namespace: str, name: str, obj: Any, old: Any, sub: str
    ) -> Request:
        resource, form = self.definition.resource, self._form(sub)
        versions = self._versions.get(ctx.api_version, self._versions[resource.api_version])
        if form is not None:
            shown = replace(resource, kind=form.resource.kind, type=form.resource.type, codec=form.resource.codec)
            versions = (Version(shown, body=form.resource.gvk),)
        return Request(
            user=ctx.user,
            operation=operation,
            resource=resource.group_resource,
            kind=resource.gvk if form is None else form.resource.gvk,
            subresource=sub,
            namespace=namespace,
            name=name,
            obj=obj,
            old=old,
            dry_run=ctx.dry_run,
            field_manager=ctx.field_manager,
            warnings=ctx.warnings,
            annotations=ctx.annotations,
            versions=versions,
            options=ctx.options,
            source=ctx.source,
        )


def _named_kind(kind: GroupVersionKind, obj: Object) -> GroupVersionKind:
    """What a refusal calls the kind: as the object does, where objects say theirs."""
    return kind._replace(kind=obj.kind) if obj.kind else kind


def _versions(definition: Definition[Any]) -> dict[str, tuple[Version, ...]]:
    """For each group version under which a request may come: that one, then the others."""
    own = definition.conversion
    every = [
        Version(definition.resource),
        *(Version(view.resource, view.from_storage, view.to_storage) for view in definition.views),
        *(
            Version(other.resource, to_shown=other.conversion.to_served, to_asked=own.to_served)
            for other in definition.served_besides()
            if own is not None and other.conversion is not None
        ),
    ]
    return {asked.resource.api_version: (asked, *(each for each in every if each is not asked)) for asked in every}


class _Moved(msgspec.Struct, Generic[T], frozen=True):
    """Somebody else wrote first; ``current`` is what is there now."""

    current: Stored[T] | None


def uid_precondition_text(key: str, wanted: str, found: str) -> str:
    """What etcd3 storage says when an object's UID is not the expected one."""
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
