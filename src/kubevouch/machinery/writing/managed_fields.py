"""Who owns which field: tracking on every write, and server-side apply.

One :class:`ManagedFieldsManager` stands for one way of writing one kind (a resource or one of its subresources). Both
of its methods take the object as the client wants it, before the resource's strategy has put anything back: fields
that a strategy restores are named in ``reset_fields``.

Sources: k8s.io/apimachinery/pkg/util/managedfields, sigs.k8s.io/structured-merge-diff/v6 merge (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.declaration import RawJSON
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ManagedFieldsEntry, Object, StatusCause, replace_metadata
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind, Resource
from kubevouch.machinery.text import gotext
from kubevouch.machinery.text.times import Time
from kubevouch.machinery.writing import field_set, last_applied, managed_versions, struct_compare, typed_tree
from kubevouch.machinery.writing.field_set import FieldSet, FieldSetError
from kubevouch.machinery.writing.json_patch import too_deep
from kubevouch.machinery.writing.managed_versions import Change, Changes, Foreign, Pruning
from kubevouch.machinery.writing.typed_tree import MapType

T = TypeVar("T", bound=Object)

MAX_UPDATE_MANAGERS = 10
_OLD_CHANGES = "ancient-changes"
_BEFORE_FIRST_APPLY = "before-first-apply"
_APPLY, _UPDATE = "Apply", "Update"

_NEVER_OWNED = field_set.of_paths(
    ("apiVersion",), ("kind",), ("metadata",), *(("metadata", name) for name in struct_compare.NEVER_OWNED)
)


class _Key(NamedTuple):
    """Tells managers apart; an applier keeps its entry when it changes the version."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    @property
    def text(self) -> str:
        """Kubernetes' identifier, which decides the order of managers."""
        named = (
            ("manager", self.manager), ("operation", self.operation), ("apiVersion", self.api_version),
            ("subresource", self.subresource),
        )  # fmt: skip
        return json_codec.encode_in_order({name: value for name, value in named if value}).decode()

    def __str__(self) -> str:
        """As conflicts name it."""
        text = gotext.quote(self.manager)
        if self.subresource:
            text += f" with subresource {gotext.quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == _UPDATE else text


class _Owned(NamedTuple):
    """What a manager owns. ``entry`` is where it was read from and still says the same, or None."""

    api_version: str
    fields: FieldSet
    time: Time | None
    entry: ManagedFieldsEntry | None = None


_Managers = dict[_Key, _Owned]


def _decode(entries: list[ManagedFieldsEntry]) -> _Managers:
    """Raises :class:`FieldSetError` when one entry is unusable."""
    managers: _Managers = {}
    for index, entry in enumerate(entries):
        if entry.operation not in (_APPLY, _UPDATE):
            raise FieldSetError("operation must be `Apply` or `Update`")
        if not entry.api_version:
            raise FieldSetError("apiVersion must not be empty")
        if entry.fields_type != "FieldsV1":
            quoted = gotext.quote(entry.fields_type)
            what = f"invalid fieldsType {quoted}" if entry.fields_type else "missing fieldsType"
            raise FieldSetError(f"{what} in managed fields entry {index}")
        version = entry.api_version if entry.operation == _UPDATE else ""
        key = _Key(entry.manager, entry.operation, version, entry.subresource)
        fields = field_set.EMPTY if entry.fields_v1 is None else field_set.from_fields_v1(entry.fields_v1.raw)
        managers[key] = _Owned(entry.api_version, fields, entry.time, entry)
    return managers


def _encode(managers: _Managers) -> list[ManagedFieldsEntry]:
    entries = [_entry(key, owned) for key, owned in managers.items()]
    return sorted(entries, key=_entry_order) if len(entries) > 1 else entries


def _entry(key: _Key, owned: _Owned) -> ManagedFieldsEntry:
    return owned.entry or ManagedFieldsEntry(
        manager=key.manager,
        operation=key.operation,
        api_version=owned.api_version,
        time=owned.time,
        fields_type="FieldsV1",
        fields_v1=RawJSON(field_set.to_fields_v1(owned.fields)),
        subresource=key.subresource,
    )


def _entry_order(entry: ManagedFieldsEntry) -> tuple[str, int, str, str, str]:
    seconds = 0 if entry.time is None else entry.time.seconds
    return (entry.operation, seconds, entry.manager, entry.api_version, entry.subresource)


def asks_reset(tree: Any) -> bool:
    """Whether a body, as a JSON tree, empties managedFields with ``[]``, which a struct cannot tell from none."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    return isinstance(metadata, dict) and metadata.get("managedFields") == []


def restore_times(new: T, old: T) -> T:
    """``new`` with the times of ``old``'s managedFields when nothing else differs, so that no write happens."""
    entries, before = new.metadata.managed_fields, old.metadata.managed_fields
    if not entries or len(entries) != len(before) or entries == before:
        return new
    candidate: T = replace_metadata(new, managed_fields=before)
    timeless = [msgspec.structs.replace(entry, time=was.time) for entry, was in zip(entries, before, strict=True)]
    return candidate if timeless == before and candidate == old else new


def _as_it_is(obj: Any) -> Any:
    return obj


class ManagedFieldsManager:
    """Keeps managedFields for one kind and one way of writing it.

    Args:
        resource: the kind, in the version that is written.
        subresource: empty for the resource itself.
        reset_fields: paths of fields that this way of writing never owns, with everything below them.
        defaulter: fills in defaults after an apply.
        kindred: other versions of the kind whose fields have the same names, so that their owners compare.
        foreign: other versions whose fields have other names: objects are converted to see what their owners lose.
    """

    def __init__(
        self,
        resource: Resource[Any],
        subresource: str = "",
        reset_fields: Iterable[tuple[str, ...]] = (),
        defaulter: Callable[[Any], Any] | None = None,
        *,
        kindred: Iterable[str] = (),
        foreign: Iterable[Foreign] = (),
    ) -> None:
        self._resource: Resource[Any] = resource
        self._gvk = resource.gvk
        self._api_version = resource.api_version
        self._comparable = frozenset((resource.api_version, *kindred))
        self._foreign = {each.resource.api_version: each for each in foreign}
        self._subresource = subresource
        self._reset = field_set.of_paths(*reset_fields)
        self._default = defaulter or (lambda obj: obj)
        self._empty: Object = resource.type()

    @property
    def _type(self) -> MapType:
        return self._resource.codec.merge_type

    # -------------------------------------------------------------- create, update and patch

    def track_update(self, new: T, old: T | None, manager: str, now: Time, *, reset: bool = False) -> T:
        """``new`` with managedFields that say what ``manager`` changed.

        Args:
            old: the stored object; None when ``new`` is to be created.
            manager: the name of the field manager; empty counts as ``unknown``.
            reset: the client emptied managedFields (see :func:`asks_reset`).
        """
        managers = self._managers_of(new, old, reset=reset)
        if managers or old is None:
            live = type(new)() if old is None else old
            managers = self._after_update(managers, live, new, manager, now)
        entries = _encode(managers)
        if not entries and not new.metadata.managed_fields:
            return new
        tracked: T = replace_metadata(new, managed_fields=entries)
        return tracked

    def _managers_of(self, new: T, old: T | None, *, reset: bool) -> _Managers:
        """The entries that the client sent if they can be used, or the stored ones."""
        sent = new.metadata.managed_fields
        stored = [] if old is None else old.metadata.managed_fields
        # A subresource cannot be used to change managedFields.
        if not self._subresource:
            if reset or (len(sent) == 1 and sent[0] == ManagedFieldsEntry()):
                return {}
            try:
                managers = _decode(sent)
            except FieldSetError:
                managers = {}
            if managers:
                return managers
        try:
            return _decode(stored)
        except FieldSetError:
            return {}

    def _after_update(self, managers: _Managers, live: Any, new: Any, manager: str, now: Time) -> _Managers:
        own = managed_versions.change(live, new, self._resource, self._reset)
        changed = own.changed
        managers = self._after_change(managers, self._changes(own, live, lambda: new))
        if changed:
            key = _Key(manager or "unknown", _UPDATE, self._api_version, self._subresource)
            previous = managers.get(key)
            fields = changed if previous is None else field_set.union(changed, previous.fields)
            managers[key] = _Owned(self._api_version, fields, now)
        return _capped(managers)

    def _changes(self, own: Change, live: Any, new: Callable[[], Any]) -> Changes:
        """``own`` in every version; the new object is made only when somebody owns fields in another one."""
        known = dict.fromkeys(self._comparable, own)

        def in_version(api_version: str) -> Change | None:
            found, other = known.get(api_version), self._foreign.get(api_version)
            if found is None and other is not None:
                found = known[api_version] = managed_versions.change(
                    other.there(live), other.there(new()), other.resource
                )
            return found

        return in_version

    @staticmethod
    def _after_change(managers: _Managers, changes: Changes, but: _Key | None = None) -> _Managers:
        """What is left to the managers when somebody else changes fields. Obsolete versions are dropped."""
        result: _Managers = {}
        for key, owned in managers.items():
            change = changes(owned.api_version)
            if change is None:
                continue
            if key == but:
                left = owned.fields
            else:
                left = field_set.difference(field_set.difference(owned.fields, change.changed), change.removed)
            if left == owned.fields:
                if left:
                    result[key] = owned
            elif left:
                result[key] = _Owned(owned.api_version, left, owned.time)
        return result

    # -------------------------------------------------------------- apply

    def apply(self, live: T | None, patch: Any, manager: str, now: Time, *, force: bool = False) -> T:
        """``live`` with what the applied configuration says, and what it no longer says removed.

        Args:
            live: the stored object; None when it is to be created.
            patch: the JSON tree of the configuration.
            force: take fields from other managers instead of refusing.

        Raises:
            APIStatusError: 400, 409 for conflicts, 500 for what does not fit the schema.
        """
        try:
            return self._apply(live, patch, manager, now, force=force)
        except RecursionError as err:
            raise too_deep() from err

    def _apply(self, live: T | None, patch: Any, manager: str, now: Time, *, force: bool) -> T:
        self._check_kind(patch)
        base: Any = self._empty if live is None else live
        try:
            managers = _decode(base.metadata.managed_fields)
        except FieldSetError as err:
            raise errors.untyped(f"failed to decode managed fields: {err}") from err
        if not managers and live is not None:
            managers = self._after_update({}, self._empty, live, _BEFORE_FIRST_APPLY, now)
        metadata = patch.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
            raise errors.bad_request("metadata.managedFields must be nil")
        self._check_schema(patch)
        key = _Key(manager, _APPLY, "", self._subresource)
        live_tree = self._tree(base)
        try:
            merged, managers = self._merge(base, live_tree, patch, managers, key, force=force)
        except _Conflicts as conflicts:
            if manager != last_applied.MANAGER:
                raise conflicts.status() from None
            # kubectl may take over what it applied on the client's side before.
            remaining = conflicts.without(last_applied.owned(live_tree, self._api_version, self._type))
            if remaining.found:
                raise remaining.status() from None
            merged, managers = self._merge(base, live_tree, patch, managers, key, force=True)
        if merged == live_tree:
            result = base
        else:
            if key in managers:
                managers[key] = managers[key]._replace(time=now, entry=None)
            result = self._default(self._struct_of(merged, patch))
        if manager == last_applied.MANAGER:
            result = last_applied.updated(result, patch)
        applied: T = replace_metadata(result, managed_fields=_encode(managers))
        return applied

    def _check_kind(self, patch: Any) -> None:
        kind, api_version = (patch.get("kind"), patch.get("apiVersion")) if isinstance(patch, dict) else (None, None)
        try:
            group_version = GroupVersion.parse(api_version if isinstance(api_version, str) else "")
            given = GroupVersionKind(*group_version, kind if isinstance(kind, str) else "")
        except ValueError:
            given = GroupVersionKind("", "", "")
        if given != self._gvk:
            raise errors.bad_request(f"invalid object type: {given}")

    def _check_schema(self, patch: dict[str, Any]) -> None:
        problems = typed_tree.validate(patch, self._type)
        if not problems:
            return
        text = typed_tree.problems_text(problems)
        raise errors.untyped(f"failed to create typed patch object ({self._describe(patch)}): {text}")

    def _describe(self, patch: dict[str, Any]) -> str:
        metadata = patch.get("metadata")
        names = [metadata.get(name) for name in ("namespace", "name")] if isinstance(metadata, dict) else ["", ""]
        namespace, name = (name if isinstance(name, str) else "" for name in names)
        return f"{namespace}/{name}; {self._gvk}"

    def _tree(self, obj: Any) -> dict[str, Any]:
        return managed_versions.tree_of(obj, self._resource)

    def _struct_of(self, tree: dict[str, Any], patch: dict[str, Any]) -> Any:
        try:
            return managed_versions.object_of(tree, self._resource)
        except json_codec.UnmarshalError as err:
            raise errors.untyped(
                f"failed to convert new object ({self._describe(patch)}) to proper version: "
                f"unable to convert unstructured object to {self._gvk}: {err}"
            ) from err

    def _merge(
        self, base: Any, live: dict[str, Any], patch: dict[str, Any], managers: _Managers, key: _Key, *, force: bool
    ) -> tuple[dict[str, Any], _Managers]:
        """The merged tree and the managers after it; ``live`` is the tree of ``base``.

        Raises:
            _Conflicts: unless forced.
        """
        last = managers.get(key)
        fields = field_set.without(typed_tree.to_set(patch, self._type), self._reset)
        applied = _Owned(self._api_version, fields, last.time if last else None)
        managers = {**managers, key: applied}
        merged = typed_tree.merge(live, patch, self._type)
        if last is not None and last.fields:
            merged = self._prune(merged, patch, managers, last)
        difference = typed_tree.compare(live, merged, self._type)
        change = Change(
            field_set.without(difference.changed, self._reset), field_set.without(difference.removed, self._reset)
        )
        changes = self._changes(change, base, lambda: self._struct_of(merged, patch))
        if not force:
            self._check_conflicts(managers, changes, key)
        managers = self._after_change(managers, changes, but=key)
        own = field_set.difference(fields, _NEVER_OWNED)
        if own:
            unchanged = last is not None and last.fields == own and last.api_version == self._api_version
            managers[key] = applied._replace(fields=own, entry=last.entry if last and unchanged else None)
        else:
            managers.pop(key, None)
        return merged, managers

    @staticmethod
    def _check_conflicts(managers: _Managers, changes: Changes, key: _Key) -> None:
        found: list[_Conflict] = []
        for other in sorted(managers, key=lambda each: each.text):
            owned = managers[other]
            change = changes(owned.api_version)
            if other != key and change is not None:
                lost = field_set.intersection(owned.fields, change.changed)
                found += (_Conflict(other, path) for path in field_set.paths(lost))
        if found:
            raise _Conflicts(found)

    def _prune(
        self, merged: dict[str, Any], patch: dict[str, Any], managers: _Managers, last: _Owned
    ) -> dict[str, Any]:
        """Takes out what was applied last time and not this time, unless another manager owns it."""
        versions = {self._api_version: Foreign(self._resource, _as_it_is, _as_it_is), **self._foreign}
        version = self._api_version if last.api_version in self._comparable else last.api_version
        if version not in versions:
            return merged
        obj = self._struct_of(merged, patch)

        def at(which: str) -> Pruning:
            other = versions[which]
            if which == self._api_version:
                return Pruning(other.resource, merged)
            return Pruning(other.resource, managed_versions.tree_of(other.there(obj), other.resource))

        def moved(tree: dict[str, Any], source: str, target: str) -> dict[str, Any]:
            if source == target:
                return tree
            origin, goal = versions[source], versions[target]
            own = origin.back(managed_versions.object_of(tree, origin.resource))
            return managed_versions.tree_of(goal.there(own), goal.resource)

        pruned = at(version).take_out(last.fields)
        for each in versions:
            owned = self._owned_in(each, managers)
            if owned or each == version:
                pruned = moved(at(each).add_back_owned(moved(pruned, version, each), owned), each, version)
        return moved(at(version).add_back_dangling(pruned, last.fields), version, self._api_version)

    def _owned_in(self, version: str, managers: _Managers) -> FieldSet:
        alike = self._comparable if version in self._comparable else {version}
        owned: FieldSet = {}
        for manager in managers.values():
            if manager.api_version in alike:
                owned = field_set.union(owned, manager.fields)
        return owned


class _Conflict(NamedTuple):
    manager: _Key
    path: tuple[str, ...]


class _Conflicts(Exception):
    """Fields that the applied configuration changes and other managers own."""

    def __init__(self, found: list[_Conflict]) -> None:
        super().__init__(len(found))
        self.found = found

    def without(self, allowed: FieldSet) -> _Conflicts:
        return _Conflicts([each for each in self.found if not field_set.has(allowed, each.path)])

    def status(self) -> APIStatusError:
        texts = [field_set.path_text(each.path) for each in self.found]
        causes = [
            StatusCause(reason="FieldManagerConflict", message=f"conflict with {each.manager}", field=text)
            for each, text in zip(self.found, texts, strict=True)
        ]
        if len(texts) == 1:
            message = f"Apply failed with 1 conflict: conflict with {self.found[0].manager}: {texts[0]}"
            return errors.apply_conflict(message, causes)
        lines = []
        previous = None
        for each, text in zip(self.found, texts, strict=True):
            if each.manager != previous:
                lines.append(f"conflicts with {each.manager}:")
                previous = each.manager
            lines.append(f"- {text}")
        return errors.apply_conflict(f"Apply failed with {len(texts)} conflicts: {chr(10).join(lines)}", causes)


def _capped(managers: _Managers) -> _Managers:
    """At most ten updaters: the oldest ones of each version are put together as ``ancient-changes``."""
    updaters = [key for key in managers if key.operation == _UPDATE]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managers
    updaters.sort(key=lambda key: (_seconds(managers[key]), key.text))
    firsts: dict[str, _Key] = {}
    for key in updaters:
        if excess <= 0:
            break
        owned = managers[key]
        first = firsts.setdefault(owned.api_version, key)
        if first is key:
            continue
        bucket = _Key(_OLD_CHANGES, _UPDATE, owned.api_version, "")
        if bucket not in managers:
            managers[bucket] = managers.pop(first)
        fields = field_set.union(owned.fields, managers[bucket].fields)
        managers[bucket] = _Owned(owned.api_version, fields, owned.time)
        managers.pop(key)
        excess -= 1
    return managers


def _seconds(owned: _Owned) -> int:
    return 0 if owned.time is None else owned.time.seconds
