"""The types of ``meta.k8s.io/v1`` that every kind shares.

Field numbers and order: k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto and types.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from kubevouch.machinery.declaration import (
    Int32,
    Int64,
    RawJSON,
    Struct,
    Wrapped,
    always,
    always_named,
    named,
    null,
    whole,
    wire,
)
from kubevouch.machinery.text.times import Time


@whole
class OwnerReference(Struct):
    """Names the object that owns this one; the garbage collector follows it."""

    api_version: Annotated[str, wire(5, "Group and version of the owner.", required=True)] = always(str)
    kind: Annotated[str, wire(1, "Kind of the owner.", required=True)] = always(str)
    name: Annotated[str, wire(3, "Name of the owner.", required=True)] = always(str)
    uid: Annotated[str, wire(4, "UID of the owner.", required=True)] = always(str)
    controller: Annotated[bool | None, wire(6, "True for the one owner that manages this object.")] = None
    block_owner_deletion: Annotated[
        bool | None, wire(7, "With foreground deletion the owner waits until this reference is gone.")
    ] = None


class ManagedFieldsEntry(Struct):
    """Which fields one manager owns through one way of writing."""

    manager: Annotated[str, wire(1, "Who wrote.")] = ""
    operation: Annotated[str, wire(2, "Apply or Update.")] = ""
    api_version: Annotated[str, wire(3, "The version of the object in which the fields are named.")] = ""
    time: Annotated[Time | None, wire(4, "When the set last changed.")] = None
    fields_type: Annotated[str, wire(6, "FieldsV1.")] = ""
    fields_v1: Annotated[RawJSON | None, wire(7, "The owned fields as a set of paths.")] = named("fieldsV1", None)
    subresource: Annotated[str, wire(8, "The subresource that was written through, if any.")] = ""


class ObjectMeta(Struct):
    """Metadata of an object: its name, its identity in time and what people attach to it."""

    name: Annotated[str, wire(1, "Unique within the namespace (or the cluster); fixed at creation.")] = ""
    generate_name: Annotated[
        str, wire(2, "Used when name is empty: the server adds five random characters to this prefix.")
    ] = ""
    namespace: Annotated[str, wire(3, "The namespace the object lives in; empty for cluster-scoped kinds.")] = ""
    self_link: Annotated[str, wire(4, "No longer written by any server.")] = ""
    uid: Annotated[str, wire(5, "Set by the server; tells apart objects that had the same name at other times.")] = ""
    resource_version: Annotated[
        str, wire(6, "Opaque version of the stored object, for optimistic concurrency and watches.")
    ] = ""
    generation: Annotated[Int64, wire(7, "Counts the changes of spec, for kinds that count them.")] = 0
    creation_timestamp: Annotated[Time | None, wire(8, "When the server made the object.")] = None
    deletion_timestamp: Annotated[
        Time | None, wire(9, "When deletion was asked for; the object goes once its finalizers are gone.")
    ] = None
    deletion_grace_period_seconds: Annotated[Int64 | None, wire(10, "Seconds allowed for a graceful end.")] = None
    labels: Annotated[dict[str, str], wire(11, "Keys and values that selectors look at.")] = {}
    annotations: Annotated[dict[str, str], wire(12, "Keys and values that no selector looks at.")] = {}
    owner_references: Annotated[
        list[OwnerReference],
        wire(13, "The objects this one depends on.", list_type="map", map_keys=("uid",), patch_merge_key="uid"),
    ] = []
    finalizers: Annotated[
        list[str], wire(14, "Must be empty before the object is removed.", list_type="set", patch_strategy="merge")
    ] = []
    managed_fields: Annotated[
        list[ManagedFieldsEntry], wire(17, "Which manager owns which fields, for server-side apply.")
    ] = []


class ListMeta(Struct):
    """Metadata of a list."""

    self_link: Annotated[str, wire(1, "No longer written by any server.")] = ""
    resource_version: Annotated[str, wire(2, "The version of the collection; a watch may start from it.")] = ""
    continue_: Annotated[str, wire(3, "Hand it back to read the next page.", proto_name="continue")] = named("continue")
    remaining_item_count: Annotated[Int64 | None, wire(4, "How many items follow this page.")] = None


class Object(Struct):
    """Base of every kind that is stored or reviewed.

    ``kind`` and ``api_version`` are set while a document is read or written and empty on objects in memory: there the
    Python type says it.
    """

    kind: Annotated[str, wire(0, "The kind of this object.")] = ""
    api_version: Annotated[str, wire(0, "The group and version of this document.")] = ""
    metadata: Annotated[ObjectMeta, wire(1, "Standard object metadata.")] = always(ObjectMeta)


class StatusCause(Struct):
    """One reason of a failure, tied to a field where there is one."""

    reason: Annotated[str, wire(1, "A word for machines.")] = ""
    message: Annotated[str, wire(2, "A sentence for people.")] = ""
    field: Annotated[str, wire(3, "Dotted path of the field.")] = ""


class StatusDetails(Struct):
    """What a failure was about."""

    name: Annotated[str, wire(1, "Name of the object.")] = ""
    group: Annotated[str, wire(2, "API group.")] = ""
    kind: Annotated[str, wire(3, "Resource or, for invalid objects, the kind.")] = ""
    uid: Annotated[str, wire(6, "UID of the object.")] = ""
    causes: Annotated[list[StatusCause], wire(4, "One entry for each thing that is wrong.")] = []
    retry_after_seconds: Annotated[Int32, wire(5, "Try again after so many seconds.")] = 0


class Status(Struct):
    """The answer to a request that returns no object."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    metadata: Annotated[ListMeta, wire(1, "Standard list metadata.")] = always(ListMeta)
    status: Annotated[str, wire(2, "Success or Failure.")] = ""
    message: Annotated[str, wire(3, "What happened, for people.")] = ""
    reason: Annotated[str, wire(4, "Why, in one word for machines.")] = ""
    details: Annotated[StatusDetails | None, wire(5, "What it was about.", atomic=True)] = None
    code: Annotated[Int32, wire(6, "The HTTP status.")] = 0


class Preconditions(Struct):
    """What must hold for a deletion to happen."""

    uid: Annotated[str | None, wire(1, "The object must have this UID.")] = None
    resource_version: Annotated[str | None, wire(2, "The object must be at this version.")] = None


class DeleteOptions(Struct):
    """Body of a DELETE."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    grace_period_seconds: Annotated[Int64 | None, wire(1, "Seconds before the object is removed.")] = None
    preconditions: Annotated[Preconditions | None, wire(2, "Must hold before anything is deleted.")] = None
    orphan_dependents: Annotated[bool | None, wire(3, "Deprecated; use propagationPolicy.")] = None
    propagation_policy: Annotated[str | None, wire(4, "Orphan, Background or Foreground.")] = None
    dry_run: Annotated[list[str], wire(5, "All: do everything but store.")] = []
    ignore_store_read_error_with_cluster_breaking_potential: Annotated[
        bool | None, wire(6, "Delete what cannot be read, whatever it says.")
    ] = None


class LabelSelectorRequirement(Struct):
    """One expression of a label selector."""

    key: Annotated[str, wire(1, "The label key.", required=True)] = always(str)
    operator: Annotated[str, wire(2, "In, NotIn, Exists or DoesNotExist.", required=True)] = always(str)
    values: Annotated[list[str], wire(3, "The values of In and NotIn.", list_type="atomic")] = []


@whole
class LabelSelector(Struct):
    """Selects objects by their labels; an empty selector selects all."""

    match_labels: Annotated[dict[str, str], wire(1, "Labels that must be equal.")] = {}
    match_expressions: Annotated[
        list[LabelSelectorRequirement], wire(2, "Expressions that must all hold.", list_type="atomic")
    ] = []


class FieldSelectorRequirement(Struct):
    """One expression of a field selector."""

    key: Annotated[str, wire(1, "The field.", required=True)] = always(str)
    operator: Annotated[str, wire(2, "In, NotIn, Exists or DoesNotExist.", required=True)] = always(str)
    values: Annotated[list[str], wire(3, "The values of In and NotIn.", list_type="atomic")] = []


class PartialObjectMetadata(Object):
    """An object of any kind, reduced to its metadata."""


Verbs = Annotated[list[str], Wrapped()]
"""A message of its own on the wire, as lists that may be null are."""


class APIResource(Struct):
    """One resource of a group version, in the older form of API discovery."""

    name: Annotated[str, wire(1, "Plural name; subresources follow a slash.", required=True)] = always(str)
    singular_name: Annotated[str, wire(6, "Singular name.", required=True)] = always(str)
    namespaced: Annotated[bool, wire(2, "True if objects live in namespaces.", required=True)] = always(bool)
    group: Annotated[str, wire(8, "Group of the kind, if it is another.")] = ""
    version: Annotated[str, wire(9, "Version of the kind, if it is another.")] = ""
    kind: Annotated[str, wire(3, "The kind.", required=True)] = always(str)
    verbs: Annotated[Verbs | None, wire(4, "The verbs that are served.", required=True)] = null()
    short_names: Annotated[list[str], wire(5, "Short names.")] = []
    categories: Annotated[list[str], wire(7, "Groups of resources that kubectl knows as one word.")] = []
    storage_version_hash: Annotated[str, wire(10, "Changes when the stored version changes.")] = ""


class APIResourceList(Struct):
    """The resources of one group version."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    group_version: Annotated[str, wire(1, "The group version.", required=True)] = always(str)
    resources: Annotated[list[APIResource] | None, wire(2, "Its resources.", required=True)] = null()


class GroupVersionForDiscovery(Struct):
    """A version of a group."""

    group_version: Annotated[str, wire(1, "group/version.", required=True)] = always(str)
    version: Annotated[str, wire(2, "version.", required=True)] = always(str)


class ServerAddressByClientCIDR(Struct):
    """The address under which clients of a network reach the server."""

    client_cidr: Annotated[str, wire(1, "The clients' network.", required=True)] = always_named("clientCIDR", str)
    server_address: Annotated[str, wire(2, "host:port of the server.", required=True)] = always(str)


class APIGroup(Struct):
    """A group and its versions."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    name: Annotated[str, wire(1, "Name of the group.", required=True)] = always(str)
    versions: Annotated[list[GroupVersionForDiscovery] | None, wire(2, "Its versions.", required=True)] = null()
    preferred_version: Annotated[GroupVersionForDiscovery, wire(3, "The version to prefer.")] = always(
        GroupVersionForDiscovery
    )
    server_address_by_client_cidrs: Annotated[
        list[ServerAddressByClientCIDR], wire(4, "Where clients reach the server.")
    ] = named("serverAddressByClientCIDRs", [])


class APIGroupList(Struct):
    """All groups."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    groups: Annotated[list[APIGroup] | None, wire(1, "The groups.", required=True)] = null()


class APIVersions(Struct):
    """The versions of the core group."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    versions: Annotated[list[str] | None, wire(1, "The versions.", required=True)] = null()
    server_address_by_client_cidrs: Annotated[
        list[ServerAddressByClientCIDR] | None, wire(2, "Where clients reach the server.", required=True)
    ] = msgspec.field(default_factory=lambda: None, name="serverAddressByClientCIDRs")


class TableColumnDefinition(Struct):
    """One column of a Table (JSON only)."""

    name: Annotated[str, wire(0)] = always(str)
    type: Annotated[str, wire(0)] = always(str)
    format: Annotated[str, wire(0)] = always(str)
    description: Annotated[str, wire(0)] = always(str)
    priority: Annotated[Int32, wire(0)] = always(int)


def replace_metadata(obj: Any, **changes: Any) -> Any:
    """A copy of ``obj`` whose metadata has ``changes``."""
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **changes))
