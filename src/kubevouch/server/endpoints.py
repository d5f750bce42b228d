"""What is served where: the table of group versions, resources and subresources that routing and discovery read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from kubevouch.machinery import errors
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind, Resource, Scheme
from kubevouch.machinery.text.versions import version_priority
from kubevouch.registry.apiextensions.custom_resources import ServedKindVersion
from kubevouch.registry.interface import Context, FieldGetter, Form, Subresource, Validate, View
from kubevouch.registry.store import ResourceStore
from kubevouch.server.encoding import ObjectEncoder
from kubevouch.server.request import Handler, ObjectResult
from kubevouch.storage.watchcache.objects import Stored

# By their first label (pkg/controlplane/apiserver/aggregator.go): clients take a kind from the first group that has it.
_GROUPS = (
    "apiregistration", "apps", "events", "authentication", "authorization", "autoscaling", "batch", "certificates",
    "networking", "policy", "rbac", "storage", "admissionregistration", "apiextensions", "scheduling", "coordination",
    "node", "discovery", "resource", "flowcontrol",
)  # fmt: skip
_PRIORITY = {group: number for number, group in enumerate(_GROUPS)}


class Shown(msgspec.Struct, frozen=True):
    """What requests about a resource or a subresource send and get."""

    resource: Resource[Any]
    encoder: ObjectEncoder
    form: Form[Any] | None = None

    def show(self, obj: Any) -> Any:
        return obj if self.form is None else self.form.show(obj)

    def take(self, existing: Any, sent: Any) -> Any:
        """The object as a client wants it, who has ``sent`` this. Raises ``APIStatusError``."""
        if self.form is None:
            return sent
        if existing is None:
            raise errors.not_found(self.resource.group_resource, sent.metadata.name)
        return self.form.take(existing, sent)

    def result(self, stored: Stored[Any], status: int = 200) -> ObjectResult:
        if self.form is not None:
            stored = Stored(stored.key, self.form.show(stored.obj), stored.revision, b"")
        return ObjectResult(stored, self.encoder, status)


class ServedVersion(msgspec.Struct, frozen=True):
    """One served version of a stored resource.

    Args:
        custom: what its definition says, of a kind that came at run time.
        ready: of such a kind, returns once requests for it can be answered; those that write, if it gets True.
    """

    resource: Resource[Any]
    store: ResourceStore[Any]
    encoder: ObjectEncoder
    view: View | None = None
    custom: ServedKindVersion | None = None
    ready: Callable[[bool], Awaitable[None]] | None = None

    @property
    def verbs(self) -> tuple[str, ...]:
        return self.store.definition.verbs

    @property
    def subresources(self) -> tuple[Subresource[Any], ...]:
        return self.store.definition.subresources

    @property
    def selectable_fields(self) -> dict[str, FieldGetter]:
        """Field selectors over the served version of an object."""
        own = self.view.selectable_fields if self.view is not None else self.store.definition.selectable_fields
        return dict(own)

    @property
    def deprecation(self) -> str:
        return self.store.definition.deprecation if self.view is None else self.view.deprecation

    def shown_by(self, subresource: str) -> Shown:
        """The form in which a subresource has the objects; the empty name is the resource itself."""
        found = self.store.definition.subresource(subresource) if subresource else None
        if found is None or found.form is None:
            return Shown(self.resource, self.encoder)
        return Shown(found.form.resource, ObjectEncoder(found.form.resource, found.form.printer), found.form)

    def to_storage(self, obj: Any) -> Any:
        return obj if self.view is None else self.view.to_storage(obj)

    def from_storage(self, obj: Any) -> Any:
        return obj if self.view is None else self.view.from_storage(obj)


Review = Callable[[Context, str, str, Any, Validate], Awaitable[Any]]


class Action(msgspec.Struct, frozen=True):
    """A resource or subresource that is only created and never stored: reviews, token requests.

    ``perform`` gets the context, the namespace, the name of the parent object, the decoded body, and what to call once
    the body is known to be valid.
    """

    resource: Resource[Any]
    perform: Review
    # The kind in the body, where it is not the resource's own (serviceaccounts/token).
    accepts: GroupVersionKind | None = None
    subresource: str = ""

    @property
    def body(self) -> Resource[Any]:
        """The kind of the body and of the answer, in the form a decoder expects."""
        if self.accepts is None:
            return self.resource
        group, version, kind = self.accepts
        return Resource(group, version, kind, self.resource.plural, self.resource.type, self.resource.namespaced)


class Connect(msgspec.Struct, frozen=True):
    """A subresource that hands requests on to something else, with whatever comes after it in the path.

    Args:
        kind: of its options, which discovery names.
    """

    resource: Resource[Any]
    subresource: str
    kind: str
    verbs: tuple[str, ...]
    serve: Handler


class _Order(msgspec.Struct):
    """Groups as lists name them, and the versions of each, as ``changes`` left them."""

    changes: int
    groups: list[str]
    groups_by_name: list[str]
    versions: dict[str, list[str]]


class Served(msgspec.Struct):
    """Everything that is served.

    Attributes:
        changes: counts what came, went and changed; who keeps something made of it looks there whether it still holds.
        stamps: for each group version what ``changes`` was when something of it changed.
        built_in_groups: those that have more than what came at run time.
    """

    scheme: Scheme
    changes: int = 0
    endpoints: dict[tuple[str, str, str], ServedVersion] = msgspec.field(default_factory=dict)
    actions: dict[tuple[str, str, str, str], Action] = msgspec.field(default_factory=dict)
    connects: list[Connect] = msgspec.field(default_factory=list)
    stamps: dict[GroupVersion, int] = msgspec.field(default_factory=dict)
    built_in_groups: set[str] = msgspec.field(default_factory=set)
    _within: dict[GroupVersion, dict[str, ServedVersion]] = msgspec.field(default_factory=dict)
    _order: _Order | None = None

    @property
    def group_versions(self) -> Iterable[GroupVersion]:
        """In the order in which they came."""
        return self._within.keys()

    def add(self, endpoint: ServedVersion) -> None:
        resource = endpoint.resource
        if endpoint.custom is None:
            self.built_in_groups.add(resource.group)
        self._within.setdefault(resource.group_version, {})[resource.plural] = endpoint
        self.endpoints[resource.group, resource.version, resource.plural] = endpoint
        self.note_change(resource.group_version)

    def remove(self, endpoint: ServedVersion) -> None:
        """Serve it no longer; its group version goes with the last that is served under it."""
        resource = endpoint.resource
        key = resource.group, resource.version, resource.plural
        if self.endpoints.get(key) is not endpoint:
            return
        del self.endpoints[key]
        siblings = self._within[resource.group_version]
        del siblings[resource.plural]
        self.note_change(resource.group_version)
        if not siblings and not any(each[:2] == key[:2] for each in self.actions):
            del self._within[resource.group_version]
            del self.stamps[resource.group_version]

    def note_change(self, group_version: GroupVersion) -> None:
        """What discovery says of something in ``group_version`` has changed."""
        self.changes += 1
        self.stamps[group_version] = self.changes

    def add_action(self, action: Action) -> None:
        resource = action.resource
        self.built_in_groups.add(resource.group)
        self._within.setdefault(resource.group_version, {})
        self.actions[resource.group, resource.version, resource.plural, action.subresource] = action
        self.note_change(resource.group_version)

    def built_in(self) -> Served:
        """What is served of it whatever definitions there are; a copy."""
        found = Served(self.scheme, connects=list(self.connects))
        for endpoint in self.endpoints.values():
            if endpoint.custom is None:
                found.add(endpoint)
        for action in self.actions.values():
            found.add_action(action)
        return found

    def customs(self) -> list[ServedKindVersion]:
        """The versions of kinds that came at run time."""
        return [endpoint.custom for endpoint in self.endpoints.values() if endpoint.custom is not None]

    def within(self, group_version: GroupVersion) -> Iterable[ServedVersion]:
        """What is served under a group version."""
        return self._within.get(group_version, {}).values()

    def endpoint(self, group: str, version: str, plural: str) -> ServedVersion | None:
        return self.endpoints.get((group, version, plural))

    def action(self, group: str, version: str, plural: str, subresource: str = "") -> Action | None:
        return self.actions.get((group, version, plural, subresource))

    def connect(self, group: str, version: str, plural: str, subresource: str) -> Connect | None:
        asked = (group, version, plural, subresource)
        return next(
            (
                each
                for each in self.connects
                if (*each.resource.group_version, each.resource.plural, each.subresource) == asked
            ),
            None,
        )

    def offers(self, verb: str, group: str, version: str, resource: str, subresource: str) -> bool:
        """Whether a request with these could be answered by more than a refusal."""
        if (group, version, resource, subresource) in self.actions:
            return verb == "create"
        connect = self.connect(group, version, resource, subresource)
        if connect is not None:
            return verb in connect.verbs
        endpoint = self.endpoints.get((group, version, resource))
        if endpoint is None or not subresource:
            return endpoint is not None and verb in endpoint.verbs
        found = endpoint.store.definition.subresource(subresource)
        return found is not None and verb in found.verbs

    def is_built_in(self, group_version: GroupVersion) -> bool:
        """Whether anything else is served there."""
        return self.serves(group_version) and not self.is_custom(group_version)

    def is_custom(self, group_version: GroupVersion) -> bool:
        """Whether kinds that came at run time are served there."""
        return any(each.custom is not None for each in self.within(group_version))

    def serves(self, group_version: GroupVersion) -> bool:
        return group_version in self._within

    def groups(self, *, by_name: bool = False) -> list[str]:
        """The named groups in Kubernetes' order; the core group is not one of them.

        Args:
            by_name: those of definitions in the order of their names. The older lists have them in that of the names
                of their first versions, for there they are APIServices, such as v1.demo.example.com (kube-aggregator
                pkg/apis/apiregistration/v1/helper, apiserver endpoints/discovery/aggregated; Kubernetes 1.36).
        """
        order = self._ordered()
        return order.groups_by_name if by_name else order.groups

    def versions_of(self, group: str) -> list[str]:
        """The versions of a group, the preferred one first."""
        return self._ordered().versions.get(group, [])

    def _ordered(self) -> _Order:
        if self._order is None or self._order.changes != self.changes:
            versions: dict[str, list[str]] = {}
            for group_version in self._within:
                versions.setdefault(group_version.group, []).append(group_version.version)
            for names in versions.values():
                names.sort(key=version_priority, reverse=True)
            named = [group for group in versions if group in self.built_in_groups and group]
            own = sorted(named, key=lambda group: _PRIORITY.get(group.partition(".")[0], len(_PRIORITY)))
            custom = [group for group in versions if group not in self.built_in_groups]
            first = sorted(custom, key=lambda group: min(f"{version}.{group}" for version in versions[group]))
            self._order = _Order(self.changes, own + first, own + sorted(custom), versions)
        return self._order


def _every(_resource: Resource[Any]) -> bool:
    return True


def install(
    served: Served, stores: Iterable[ResourceStore[Any]], serves: Callable[[Resource[Any]], bool] = _every
) -> None:
    """Add every store under its own version and its views, as far as ``serves`` says so."""
    for store in stores:
        definition = store.definition
        if serves(definition.resource):
            served.add(
                ServedVersion(definition.resource, store, ObjectEncoder(definition.resource, definition.printer))
            )
        for view in definition.views:
            if not serves(view.resource):
                continue
            encoder = ObjectEncoder(view.resource, view.printer or definition.printer, view.from_storage)
            served.add(ServedVersion(view.resource, store, encoder, view))
