"""A request as webhooks and expressions see it, and what webhooks answer; no I/O.

    InvalidResponse       a webhook's answer cannot be used; ``str()`` says why
    Denied                an APIStatusError: a webhook's own

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/{request/admissionreview.go,errors/statuserror.go} (1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from kubevouch.admission.dynamic.matching import namespace_of
from kubevouch.admission.interface import Operation, Request, Version
from kubevouch.api import admission_v1, meta_v1
from kubevouch.api.admission_v1 import AdmissionResponse, AdmissionReview
from kubevouch.api.admissionregistration_v1.expressions import (
    ASKED,
    ASKED_RESOURCE,
    NAMESPACE,
    OBJECT,
    OLD_OBJECT,
    REQUEST,
)
from kubevouch.api.admissionregistration_v1.webhooks import REVIEW_VERSIONS
from kubevouch.cel.library.authorizer import Authorizer, Question, ResourceCheck
from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Status
from kubevouch.machinery.scheme import GroupVersionKind, Resource
from kubevouch.machinery.text.gotext import quote

Tree = dict[str, Any]

_OPTIONS = {
    Operation.CREATE: "CreateOptions", Operation.UPDATE: "UpdateOptions", Operation.DELETE: "DeleteOptions",
}  # fmt: skip


class InvalidResponse(Exception):
    """What a webhook answered is no answer."""


class Denied(APIStatusError):
    """A webhook refuses the request."""


def object_tree(obj: Any, resource: Resource[Any], kind: GroupVersionKind | None = None) -> Tree | None:
    """The JSON of an object with its kind, that of the resource if none is given; None stays None."""
    if obj is None:
        return None
    kind = kind or resource.gvk
    return {"kind": kind.kind, "apiVersion": kind.api_version, **resource.codec.to_tree(obj)}


class Shown:
    """A request in one version of its object's kind, as JSON trees that are made when they are first asked for."""

    def __init__(self, request: Request, version: Version) -> None:
        self.request = request
        self.version = version
        self._obj, self._old = request.obj, request.old

    async def converted(self) -> Shown:
        """This, once the objects are in the version. Raises ``APIStatusError``."""
        convert = self.version.to_shown
        if convert is not None:
            objs = [obj for obj in (self._obj, self._old) if obj is not None]
            made = iter(await convert(objs))
            self._obj, self._old = (None if obj is None else next(made) for obj in (self._obj, self._old))
        return self

    @cached_property
    def object(self) -> Tree | None:
        return self._tree(self._obj)

    @cached_property
    def old_object(self) -> Tree | None:
        return self._tree(self._old)

    def _tree(self, obj: Any) -> Tree | None:
        return (
            None
            if obj is None
            else object_tree(self.version.from_storage(obj), self.version.resource, self.version.kind)
        )

    @cached_property
    def attributes(self) -> Tree:
        """An AdmissionRequest without uid and objects."""
        request, asked, shown = self.request, self.request.versions[0], self.version
        user = request.user
        tree: Tree = {
            "kind": _kind(shown.kind),
            "resource": _resource(shown.resource),
            "requestKind": _kind(asked.kind),
            "requestResource": _resource(asked.resource),
            "operation": str(request.operation),
            "userInfo": _filled(
                username=user.name,
                uid=user.uid,
                groups=list(user.groups),
                extra={key: list(values) for key, values in user.extra.items()},
            ),
            "dryRun": request.dry_run,
            "options": _options(request),
        }
        return tree | _filled(
            subResource=request.subresource,
            requestSubResource=request.subresource,
            name=request.name,
            namespace=namespace_of(request),
        )

    def variables(self, namespace: Tree | None = None) -> Tree:
        """What expressions see."""
        return {
            OBJECT: self.object, OLD_OBJECT: self.old_object, REQUEST: self.attributes, NAMESPACE: namespace,
            ASKED: Authorizer(), ASKED_RESOURCE: self._asked_resource(),
        }  # fmt: skip

    def _asked_resource(self) -> ResourceCheck:
        request, resource = self.request, self.version.resource
        return ResourceCheck(
            Question(
                "",
                group=resource.group,
                resource=resource.plural,
                subresource=request.subresource,
                namespace=namespace_of(request),
                name=request.name,
            )
        )

    def review(self, uid: str, version: str) -> Tree:
        """The AdmissionReview to send."""
        request = {"uid": uid, **self.attributes, "object": self.object, "oldObject": self.old_object}
        return {"kind": admission_v1.KIND, "apiVersion": f"{admission_v1.GROUP}/{version}", "request": request}


def _kind(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(resource: Resource[Any]) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _filled(**members: Any) -> Tree:
    return {name: value for name, value in members.items() if value}


def _options(request: Request) -> Tree | None:
    kind = _OPTIONS.get(request.operation)
    if kind is None or request.options is None:
        return None
    tree: Tree = json_codec.to_builtins(request.options)
    # A patch is an update, or a creation, by the time it gets here.
    return {
        "kind": kind,
        "apiVersion": f"{meta_v1.GROUP}/v1",
        **{name: value for name, value in tree.items() if name not in ("kind", "apiVersion", "force")},
    }


# ------------------------------------------------------------------ answers


def review_version(versions: Sequence[str]) -> str:
    """The first of a webhook's versions that is known here. Raises :class:`InvalidResponse` when none is."""
    found = next((version for version in versions if version in REVIEW_VERSIONS), None)
    if found is None:
        known = ", ".join(REVIEW_VERSIONS)
        raise InvalidResponse(f"webhook does not accept known AdmissionReview versions ({known})")
    return found


def verify_response(answer: Any, uid: str, version: str, *, mutating: bool) -> AdmissionResponse:
    """The response in a review that came back.

    Raises:
        InvalidResponse
    """
    try:
        review = msgspec.convert(answer, AdmissionReview)
    except msgspec.ValidationError as err:
        raise InvalidResponse(str(err)) from err
    response = review.response
    if response is None:
        raise InvalidResponse("webhook response was absent")
    if version == "v1":
        _verify_v1(review, response, uid, mutating)
    elif response.patch and mutating:
        # v1beta1 never looked at the type.
        response.patch_type = admission_v1.JSON_PATCH
    return response


def _verify_v1(review: AdmissionReview, response: AdmissionResponse, uid: str, mutating: bool) -> None:
    if response.uid != uid:
        raise InvalidResponse(f"expected response.uid={quote(uid)}, got {quote(response.uid)}")
    expected = GroupVersionKind(admission_v1.GROUP, "v1", admission_v1.KIND)
    group, _, version = review.api_version.rpartition("/")
    found = GroupVersionKind(group, version, review.kind)
    if found != expected:
        raise InvalidResponse(f"expected webhook response of {expected}, got {found}")
    if not mutating:
        for wrong, name in ((response.patch, "patch"), (response.patch_type is not None, "patchType")):
            if wrong:
                raise InvalidResponse(f"validating webhook may not return response.{name}")
        return
    if response.patch and response.patch_type is None:
        raise InvalidResponse("webhook returned response.patch but not response.patchType")
    if not response.patch and response.patch_type is not None:
        raise InvalidResponse("webhook returned response.patchType but not response.patch")
    if response.patch_type == "":
        raise InvalidResponse('webhook returned invalid response.patchType of ""')


def rejection(webhook: str, status: Status | None) -> Denied:
    """What a client hears of a webhook's denial; whatever status came with it, it is a failure."""
    status = status or Status()
    denied = f"admission webhook {quote(webhook)} denied the request"
    why = status.message or status.reason
    return Denied(
        msgspec.structs.replace(
            status,
            kind="",
            api_version="",
            status="Failure" if status.status in ("", "Success") else status.status,
            code=max(status.code, 400),
            message=f"{denied}: {why}" if why else f"{denied} without explanation",
        )
    )


def dry_run_unsupported(webhook: str) -> APIStatusError:
    return errors.bad_request(f"admission webhook {quote(webhook)} does not support dry run")
