"""How a kind is declared: one typed struct, from which codecs, validation and OpenAPI are made.

A field is written once::

    class Widget(Struct):
        name: Annotated[str, wire(1, "What people call it.")] = ""
        size: Annotated[Int32 | None, wire(2)] = None

* the protobuf field number and the description stand in ``wire``;
* ``X | None`` is a Go pointer: absent and zero differ;
* a plain default means Go's ``omitempty``; ``always(…)`` means that the field is written even when it is empty.

Structs are frozen: a change makes a new object (``msgspec.structs.replace``), so the caches share them freely.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar, dataclass_transform

import msgspec

from kubevouch.machinery.text import quantity

T = TypeVar("T")

ListType = Literal["", "atomic", "set", "map"]


class wire:  # noqa: N801 - reads as a keyword inside Annotated
    """What the type alone does not say about a field.

    Args:
        number: the protobuf field number (Kubernetes' generated.proto).
        doc: one or two sentences for ``kubectl explain``.
        required: listed as required in OpenAPI.
        list_type: how server-side apply merges a list; empty means atomic.
        map_keys: the keys of ``list_type="map"``.
        patch_merge_key: the key of a strategic merge; empty replaces the list.
        patch_strategy: ``merge`` for lists of scalars that a strategic merge unites.
        atomic: server-side apply owns a map or struct as a whole.
        enum: the values that OpenAPI lists.
        proto_name: where protobuf's field name is not the JSON name.
        inside: the numbers of the messages that hold the field in protobuf only: structs that Go embeds, whose fields
            stand beside the others in JSON. They are always written.
        schema: what else the schema of a custom resource says of the field, such as ``pattern``, ``maxItems``,
            ``default`` or ``x-kubernetes-validations``; nothing else reads it.
    """

    __slots__ = (
        "atomic", "doc", "enum", "inside", "list_type", "map_keys", "number", "patch_merge_key", "patch_strategy",
        "proto_name", "required", "schema",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        doc: str = "",
        *,
        required: bool = False,
        list_type: ListType = "",
        map_keys: tuple[str, ...] = (),
        patch_merge_key: str = "",
        patch_strategy: Literal["", "merge"] = "",
        atomic: bool = False,
        enum: tuple[str, ...] = (),
        proto_name: str = "",
        inside: tuple[int, ...] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        self.number = number
        self.doc = doc
        self.required = required
        self.list_type = list_type
        self.map_keys = map_keys
        self.patch_merge_key = patch_merge_key
        self.patch_strategy = patch_strategy
        self.atomic = atomic
        self.enum = enum
        self.proto_name = proto_name
        self.inside = inside
        self.schema = schema or {}


class GoType:
    """The Go type of a scalar where Python has one type for several."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Wrapped:
    """Marks a list that is a bare array in JSON and a message ``{items = 1}`` in protobuf."""


Int32 = Annotated[int, GoType("int32"), msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, GoType("int64"), msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
# authentication.k8s.io and friends: the values of one extra key.
ExtraValue = Annotated[list[str], Wrapped()]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _StructMeta(msgspec.StructMeta):
    """Gives every wire struct the same settings, so that no declaration has to repeat them."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **settings: Any) -> Any:
        defaults: dict[str, Any] = {
            "frozen": True, "kw_only": True, "omit_defaults": True, "gc": False, "rename": "camel",
        }  # fmt: skip
        return super().__new__(cls, name, bases, namespace, **(defaults | settings))


class Struct(msgspec.Struct, metaclass=_StructMeta):
    """Base of every wire struct: frozen, keyword-only; wire names are camelCase, attributes snake_case."""


WHOLE: set[type[Struct]] = set()
"""What :func:`whole` was told."""

StructType = TypeVar("StructType", bound=type[Struct])


def whole(struct: StructType) -> StructType:
    """Server-side apply owns such a struct as a whole, wherever it stands: Go's ``+structType=atomic``."""
    WHOLE.add(struct)
    return struct


class Quantity:
    """A Kubernetes resource quantity, kept as its text (``k8s.io/apimachinery/pkg/api/resource``)."""

    __slots__ = ("text",)

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """In the form in which Kubernetes writes it.

        Raises:
            ValueError: with Kubernetes' sentence, for a text that is no quantity.
        """
        return cls(quantity.canonical(text))

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"


class IntOrString:
    """A number or a name, such as that of a port (``k8s.io/apimachinery/pkg/util/intstr``)."""

    __slots__ = ("value",)

    def __init__(self, value: int | str = 0) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntOrString) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"IntOrString({self.value!r})"


class RawJSON:
    """A JSON document inside a document, kept as its bytes (Go's FieldsV1 and RawExtension)."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawJSON) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"RawJSON({self.raw!r})"


Note = Callable[[str, str], None]
"""Is told what a strict reader has against a field: ``unknown`` or ``duplicate``, and its path."""


class Opaque(ABC):
    """A value that reads and writes its own forms, where no declaration can say them: Go's own marshallers.

    Patches and server-side apply take it as one value.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def tree(self) -> Any:
        """Its JSON, in builtins. Raises ``ValueError`` if a message that was read is none."""

    @classmethod
    @abstractmethod
    def from_tree(cls, tree: Any, note: Note, stack: str, path: str) -> Self:
        """From JSON; ``stack`` is Go's stack of fields in errors, ``path`` where the value stands in the document.

        Raises:
            ValueError: with Go's sentence.
        """

    @classmethod
    @abstractmethod
    def from_message(cls, data: bytes) -> Self:
        """From its protobuf message, which it may look into only when its tree is asked for."""

    @abstractmethod
    def to_message(self) -> bytes:
        """Its protobuf message."""


def always(factory: Callable[[], T]) -> T:
    """A field that is written even when it holds its zero value: Go's tag without ``omitempty``.

    msgspec leaves out fields that equal a plain default, but not those that come from a factory of its own.
    """
    return msgspec.field(default_factory=factory)


def null() -> Any:
    """A pointer or time that is written as ``null`` when unset: Go's tag without ``omitempty``."""
    return msgspec.field(default_factory=_none)


def named(name: str, default: Any = "") -> Any:
    """A field whose wire name is not the camelCase of its attribute, such as ``podCIDR``."""
    if isinstance(default, (list, dict)) and not default:
        return msgspec.field(default_factory=type(default), name=name)
    return msgspec.field(default=default, name=name)


def always_named(name: str, factory: Callable[[], T]) -> T:
    """:func:`always` with a wire name of its own."""
    return msgspec.field(default_factory=factory, name=name)


def null_named(name: str) -> Any:
    """:func:`null` with a wire name of its own."""
    return msgspec.field(default_factory=_none, name=name)


def zero() -> Quantity:
    """For :func:`always`: Go prints a quantity that nobody has set as 0."""
    return Quantity("0")


def _none() -> None:
    return None
