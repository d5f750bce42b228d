"""Names of kinds and resources, and the table of what exists."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from kubevouch.machinery.codec.object_codec import ObjectCodec, codec_of
from kubevouch.machinery.meta import Object

T = TypeVar("T", bound=Object)


class GroupVersion(NamedTuple):
    """An API group at a version; the core group is the empty string."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, text: str) -> GroupVersion:
        """From an ``apiVersion``. Raises ``ValueError`` in Kubernetes' words when there is more than one slash."""
        head, slash, tail = text.partition("/")
        if "/" in tail:
            raise ValueError(f"unexpected GroupVersion string: {text}")
        return cls(head, tail) if slash else cls("", head)


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return str(GroupVersion(self.group, self.version))

    def __str__(self) -> str:
        """As Go prints it: ``certificates.k8s.io/v1, Kind=CertificateSigningRequest``."""
        return f"{self.group}/{self.version}, Kind={self.kind}"


class GroupResource(NamedTuple):
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


_BY_TYPE: Any = None


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind as a client and a server name it.

    ``type`` is the Python struct; ``plural`` the path segment; ``storage_prefix`` the segments under ``/registry``
    where they are not the plural, and ``storage_version`` the version in which objects lie there where it is another.
    ``singular`` and ``list_kind`` follow from the kind where they are left out, and ``codec`` from the type.
    """

    group: str
    version: str
    kind: str
    plural: str
    type: type[T]
    namespaced: bool
    short_names: tuple[str, ...] = ()
    storage_prefix: str = ""
    singular: str = ""
    list_kind: str = ""
    storage_version: str = ""
    codec: ObjectCodec[T] = field(default=_BY_TYPE, repr=False, compare=False)
    # Made once: a join asks for them forty times.
    group_version: GroupVersion = field(init=False, repr=False, compare=False)
    api_version: str = field(init=False, repr=False, compare=False)
    gvk: GroupVersionKind = field(init=False, repr=False, compare=False)
    group_resource: GroupResource = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        version = GroupVersion(self.group, self.version)
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or f"{self.kind}List")
        if self.codec is _BY_TYPE:
            object.__setattr__(self, "codec", codec_of(self.type))
        object.__setattr__(self, "group_version", version)
        object.__setattr__(self, "api_version", str(version))
        object.__setattr__(self, "gvk", GroupVersionKind(self.group, self.version, self.kind))
        object.__setattr__(self, "group_resource", GroupResource(self.group, self.plural))

    @property
    def internal_name(self) -> str:
        """The Go type inside kube-apiserver, such as ``core.Secret``, which some of its errors name."""
        package = self.group.partition(".")[0]
        return f"{'core' if package in ('', 'events') else package}.{self.kind}"

    @property
    def stored_api_version(self) -> str:
        """What stored objects say."""
        return str(GroupVersion(self.group, self.storage_version)) if self.storage_version else self.api_version

    @property
    def storage_version_hash(self) -> str:
        digest = hashlib.sha256(f"{self.group}/{self.storage_version or self.version}/{self.kind}".encode()).digest()
        return base64.b64encode(digest[:8]).decode()

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, an object or a subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


Defaulter = Callable[[Any], Any]


class Scheme(msgspec.Struct):
    """Which Python type stands for which kind, and which defaults a kind gets when it is read."""

    kinds: dict[GroupVersionKind, type[Any]] = msgspec.field(default_factory=dict)
    resources: dict[GroupVersionKind, Resource[Any]] = msgspec.field(default_factory=dict)
    defaulters: dict[type[Any], Defaulter] = msgspec.field(default_factory=dict)

    def add_kind(self, gvk: GroupVersionKind, struct: type[Any], defaulter: Defaulter | None = None) -> None:
        self.kinds[gvk] = struct
        if defaulter is not None:
            self.defaulters[struct] = defaulter

    def add(self, resource: Resource[Any], defaulter: Defaulter | None = None) -> None:
        self.add_kind(resource.gvk, resource.type, defaulter)
        self.resources[resource.gvk] = resource

    def default(self, obj: Any) -> Any:
        defaulter = self.defaulters.get(type(obj))
        return obj if defaulter is None else defaulter(obj)

    def versions(self, group: str, kind: str) -> Iterator[GroupVersionKind]:
        return (gvk for gvk in self.kinds if gvk.group == group and gvk.kind == kind)

    def knows_group_version(self, group: str, version: str) -> bool:
        return any(gvk.group == group and gvk.version == version for gvk in self.kinds)

    @classmethod
    def of(cls, resources: Iterable[Resource[Any]]) -> Scheme:
        scheme = cls()
        for resource in resources:
            scheme.add(resource)
        return scheme
