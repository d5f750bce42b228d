"""What a resource has to say about itself: a definition, strategies, columns.

Kubernetes calls the hooks of a resource its strategy; the order in which they run is in ``registry/store.py``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.codec.elements import MAX_ELEMENTS
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.names import NameRule, subdomain_name

T = TypeVar("T", bound=Object)


class Context(Struct):
    """One request as the registry sees it.

    Args:
        user: who asks.
        now: the wall clock when the request came in.
        api_version: the group version of the URL; matters where one store has two views.
        field_manager: the name under which changes are recorded in managedFields.
        warnings: texts for ``Warning`` headers; hooks append.
        annotations: for the audit event; hooks add.
        options: the CreateOptions, UpdateOptions, PatchOptions or DeleteOptions that came with it.
        source: the address that it came from; empty inside of this process.
        own: this process asks itself.
    """

    user: UserInfo
    now: dt.datetime
    api_version: str = ""
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    # The body emptied metadata.managedFields on purpose.
    resets_managed_fields: bool = False
    warnings: list[str] = []
    annotations: dict[str, str] = {}
    options: Any = None
    source: str = ""
    own: bool = False


Validate = Callable[[Any], Awaitable[None]]
"""Validating admission of what is answered and not stored. Raises APIStatusError."""


class Strategy(Generic[T]):
    """The hooks of a resource or of one of its subresources. The defaults keep everything and refuse nothing."""

    create_on_update = False
    unconditional_update = True
    # Validation takes long whatever the object's size, as compiling does: it is done in a thread. One that takes long
    # only sometimes raises TurnOver instead, and is done there from the beginning.
    validates_elsewhere = False
    # Finalizers have a domain, or are among the few of Kubernetes' own.
    standard_finalizers = True
    # See machinery.codec.elements.
    max_elements = MAX_ELEMENTS
    # What does not fit the preconditions of a deletion is said in the words of the storage.
    preconditions_of_storage = False
    # Field paths (as in FieldsV1, without the f: prefix) that this way of writing never owns.
    reset_fields: Sequence[tuple[str, ...]] = ()

    async def check_create(self, ctx: Context, obj: T) -> None:
        """Checks that come before validation and look beyond the object (RBAC escalation). Raises APIStatusError."""

    async def check_update(self, ctx: Context, new: T, old: T) -> None:
        """As ``check_create`` for updates."""

    def prepare_for_create(self, ctx: Context, obj: T) -> T:
        """The object with server-owned fields cleared or set."""
        return obj

    def name_rule(self, obj: T) -> NameRule | None:
        """The rule for names at creation where it depends on the object; None is that of the definition."""
        return None

    def validate_kind(self, obj: T) -> list[FieldError]:
        """Before anything else."""
        return []

    def validate(self, ctx: Context, obj: T) -> list[FieldError]:
        return []

    def check_open(self, obj: T) -> None:
        """Once more, in the moment in which ``obj`` is handed to the store as new. Raises APIStatusError."""

    def warnings_on_create(self, ctx: Context, obj: T) -> list[str]:
        return []

    def prepare_for_update(self, ctx: Context, new: T, old: T) -> T:
        """The new object with what this way of writing may not change restored from the old one."""
        return new

    def validate_update(self, ctx: Context, new: T, old: T) -> list[FieldError]:
        return []

    async def check_valid_update(self, ctx: Context, new: T, old: T) -> None:
        """Checks that look beyond the object and come after validation. Raises APIStatusError."""

    def warnings_on_update(self, ctx: Context, new: T, old: T) -> list[str]:
        return []

    def may_remove(self, obj: T) -> bool:
        """False while the object has to stay after its deletion was asked for, besides metadata.finalizers."""
        return True

    def begin_deletion(self, ctx: Context, obj: T) -> T | None:
        """The object as its first deletion leaves it; None is what other kinds look like."""
        return None

    def prepare_for_delete(self, ctx: Context, obj: T) -> T:
        """The object as it looks while its deletion waits for something."""
        return obj


class Column(msgspec.Struct, frozen=True):
    """One column of a Table; a priority above 0 shows with ``-o wide`` only."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


Cells = Callable[[Any, dt.datetime], Sequence[object]]


class Printer(msgspec.Struct, frozen=True):
    """The columns of a kind, and the cells of one object at a moment."""

    columns: tuple[Column, ...]
    cells: Cells


class Form(msgspec.Struct, Generic[T], frozen=True):
    """How a subresource shows an object as one of another kind.

    Args:
        resource: that kind.
        show: the object in that form; raises ``APIStatusError`` where it has none.
        take: the object with what the other form says, and with that one's uid and resourceVersion.
        configuration: an applied configuration in that form as one of the object; raises ``APIStatusError``.
        printer: the columns of that form's tables.
    """

    resource: Resource[Any]
    show: Callable[[T], Any]
    take: Callable[[T, Any], T]
    configuration: Callable[[Any], Any]
    printer: Printer


class Subresource(msgspec.Struct, Generic[T], frozen=True):
    """A subresource that reads and writes the whole object, such as ``/status``, perhaps in another form."""

    name: str
    strategy: Strategy[T]
    verbs: tuple[str, ...] = ("get", "patch", "update")
    prints_table: bool = True
    form: Form[T] | None = None


class Conversion(Protocol[T]):
    """Between the versions of a kind whose versions differ: one of them is served, another may be stored."""

    def serves(self, obj: T) -> bool:
        """Whether ``obj`` is in the served version."""
        ...

    def at_once(self, obj: T) -> T:
        """``obj`` in the served version, or as it is where others have to be asked for that."""
        ...

    async def to_served(self, objs: Sequence[T]) -> list[T]:
        """Raises ``APIStatusError``."""
        ...

    async def to_stored(self, obj: T) -> T:
        """Raises ``APIStatusError``."""
        ...


FieldGetter = Callable[[Any], str]

NO_WORKLOADS = "kubevouch runs no workloads"
"""Why what only workloads need cannot be created."""

NO_SERVICE_NETWORK = "kubevouch has no service network"
READ_VERBS = ("get", "list", "watch")
"""Of what clients cannot change, or of which there is nothing."""
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class View(msgspec.Struct, frozen=True):
    """Another served version or group of a stored kind.

    Args:
        same_fields: its fields have the same names as the stored ones.
        defaulter: fills in defaults after a server-side apply.
        deprecation: what whoever uses it is warned of.
    """

    resource: Resource[Any]
    to_storage: Callable[[Any], Any]
    from_storage: Callable[[Any], Any]
    selectable_fields: Mapping[str, FieldGetter] = msgspec.field(default_factory=dict)
    printer: Printer | None = None
    same_fields: bool = False
    defaulter: Callable[[Any], Any] | None = None
    deprecation: str = ""


class Definition(msgspec.Struct, Generic[T], frozen=True):
    """All that the server has to know of a stored resource.

    Args:
        resource: the stored kind, served under its own group and version.
        name_rule: the rule for names at creation.
        selectable_fields: field selectors besides ``metadata.name`` and ``metadata.namespace``.
        selects_namespace: whether ``metadata.namespace`` is a field selector too.
        views: other versions under which the same objects are served.
        defaulter: fills in defaults after a server-side apply.
        ttl: seconds after which the store forgets an object, or None.
        refuses_creation: why nobody can create one, where that is so.
        is_empty: there is never an object; what others have stored is left alone.
        is_stored: False for what is made up at each read.
        deprecation: what whoever uses its own version is warned of (k8s.io/api, prerelease-lifecycle).
        kindred: other versions of the kind, whose fields have the same names.
        conversion: for a kind whose objects may be stored in another version than this one.
        served_besides: its other versions that are served, for admission that is about one of them.
    """

    resource: Resource[T]
    strategy: Strategy[T]
    printer: Printer
    name_rule: NameRule = subdomain_name
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource[T], ...] = ()
    selectable_fields: Mapping[str, FieldGetter] = msgspec.field(default_factory=dict)
    selects_namespace: bool = True
    views: tuple[View, ...] = ()
    categories: tuple[str, ...] = ()
    ttl: float | None = None
    defaulter: Callable[[Any], Any] | None = None
    refuses_creation: str = ""
    deprecation: str = ""
    is_empty: bool = False
    is_stored: bool = True
    kindred: tuple[str, ...] = ()
    conversion: Conversion[T] | None = None
    served_besides: Callable[[], Sequence[Definition[T]]] = tuple

    @property
    def key_prefix(self) -> str:
        """``/registry/<resource>/``: Kubernetes' own layout in etcd."""
        return f"/registry/{self.resource.storage_prefix or self.resource.plural}/"

    def key(self, namespace: str, name: str) -> str:
        return f"{self.key_prefix}{namespace}/{name}" if self.resource.namespaced else f"{self.key_prefix}{name}"

    def subresource(self, name: str) -> Subresource[T] | None:
        return next((sub for sub in self.subresources if sub.name == name), None)
