"""admission.k8s.io: what a webhook is asked about a write, and what it answers.

Source: k8s.io/api/admission/v1 types.go; as a type of expressions, k8s.io/apiserver/pkg/admission/plugin/cel
``BuildRequestType`` (Kubernetes 1.36). The objects stand beside the request: expressions have them as variables.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from kubevouch.api.authentication_v1 import UserInfo
from kubevouch.api.meta_v1 import GroupVersionKind
from kubevouch.machinery.declaration import RawJSON, Struct, always, wire
from kubevouch.machinery.meta import Status

GROUP = "admission.k8s.io"
KIND = "AdmissionReview"
JSON_PATCH = "JSONPatch"


class GroupVersionResource(Struct):
    """A resource, by all parts of its name."""

    group: Annotated[str, wire(1, "The group.")] = always(str)
    version: Annotated[str, wire(2, "The version.")] = always(str)
    resource: Annotated[str, wire(3, "The plural.")] = always(str)


class AdmissionRequest(Struct):
    """What is asked to be done, without the objects."""

    kind: Annotated[GroupVersionKind, wire(2, "The kind of the object, as it is shown.")] = always(GroupVersionKind)
    resource: Annotated[GroupVersionResource, wire(3, "The resource, as it is shown.")] = always(GroupVersionResource)
    sub_resource: Annotated[str, wire(4, "The subresource.")] = ""
    request_kind: Annotated[GroupVersionKind | None, wire(13, "The kind as it was requested.")] = None
    request_resource: Annotated[GroupVersionResource | None, wire(14, "The resource as it was requested.")] = None
    request_sub_resource: Annotated[str, wire(15, "The subresource as it was requested.")] = ""
    name: Annotated[str, wire(5, "The object's name; may be empty at a creation.")] = ""
    namespace: Annotated[str, wire(6, "The object's namespace.")] = ""
    operation: Annotated[str, wire(7, "CREATE, UPDATE, DELETE or CONNECT.")] = always(str)
    user_info: Annotated[UserInfo, wire(8, "Who asks.")] = always(UserInfo)
    dry_run: Annotated[bool | None, wire(11, "Nothing will be stored.")] = None
    options: Annotated[RawJSON | None, wire(12, "CreateOptions, UpdateOptions or DeleteOptions.")] = None


class AdmissionResponse(msgspec.Struct, rename="camel"):
    """A webhook's word. ``patch`` is decoded."""

    uid: str = ""
    allowed: bool = False
    status: Any = None
    patch: bytes | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None

    def refusal(self) -> Status | None:
        """The Status that came with a denial, if any. Raises ``msgspec.ValidationError``."""
        return None if self.status is None else msgspec.convert(self.status, Status)


class AdmissionReview(msgspec.Struct, rename="camel"):
    """The document that a webhook answers with."""

    api_version: str = ""
    kind: str = ""
    response: AdmissionResponse | None = None
