"""PodCertificateRequest, with ``/status`` (pkg/registry/certificates/podcertificaterequest; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.admission.signer_permission import may_use_signer
from kubevouch.api import catalog, pod_certificate_requests_v1
from kubevouch.api import pod_certificate_requests_v1beta1 as requests
from kubevouch.api.pod_certificate_requests_v1beta1 import PodCertificateRequest, PodCertificateRequestStatus
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery import errors, field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.gotext import quote
from kubevouch.registry.interface import (
    Column,
    Context,
    Definition,
    FieldGetter,
    Printer,
    Strategy,
    Subresource,
    View,
)
from kubevouch.registry.printing import NAME, or_none


def _is_v1(ctx: Context) -> bool:
    return ctx.api_version == pod_certificate_requests_v1.API_VERSION


class PodCertificateRequestStrategy(Strategy[PodCertificateRequest]):
    """The object itself: only its metadata can change after creation."""

    unconditional_update = False
    reset_fields: Sequence[tuple[str, ...]] = (("status",),)

    def prepare_for_create(self, _ctx: Context, obj: PodCertificateRequest) -> PodCertificateRequest:
        return msgspec.structs.replace(obj, status=PodCertificateRequestStatus())

    def validate(self, ctx: Context, obj: PodCertificateRequest) -> list[FieldError]:
        return requests.validate_pod_certificate_request(obj, v1=_is_v1(ctx))

    def prepare_for_update(
        self, ctx: Context, new: PodCertificateRequest, old: PodCertificateRequest
    ) -> PodCertificateRequest:
        spec = new.spec
        if _is_v1(ctx):
            # A client of v1 has never seen them, and does not mean to take them away.
            kept = old.spec
            spec = msgspec.structs.replace(
                spec, pkix_public_key=kept.pkix_public_key, proof_of_possession=kept.proof_of_possession
            )
        return msgspec.structs.replace(new, spec=spec, status=old.status)

    def validate_update(
        self, _ctx: Context, new: PodCertificateRequest, old: PodCertificateRequest
    ) -> list[FieldError]:
        return requests.validate_pod_certificate_request_update(new, old)


class PodCertificateRequestStatusStrategy(PodCertificateRequestStrategy):
    """``/status``: of the metadata nothing, and only for whoever may sign for the signer."""

    reset_fields: Sequence[tuple[str, ...]] = (("spec",),)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def prepare_for_update(
        self, _ctx: Context, new: PodCertificateRequest, old: PodCertificateRequest
    ) -> PodCertificateRequest:
        meta = old.metadata
        kept: PodCertificateRequest = replace_metadata(
            new,
            labels=meta.labels,
            annotations=meta.annotations,
            finalizers=meta.finalizers,
            owner_references=meta.owner_references,
            deletion_timestamp=meta.deletion_timestamp,
            generation=meta.generation,
        )
        return msgspec.structs.replace(kept, spec=old.spec)

    def validate_update(self, ctx: Context, new: PodCertificateRequest, old: PodCertificateRequest) -> list[FieldError]:
        return requests.validate_pod_certificate_request_status_update(new, old, ctx.now)

    async def check_valid_update(self, ctx: Context, new: PodCertificateRequest, old: PodCertificateRequest) -> None:
        """The strategy's own business in Kubernetes too, and not admission's: hence 422, not 403."""
        signer_name = old.spec.signer_name
        if new.status == old.status or await may_use_signer(self._authorizer, ctx.user, "sign", signer_name):
            return
        why = f'User {quote(ctx.user.name)} is not permitted to "sign" for signer {quote(signer_name)}'
        kind = catalog.POD_CERTIFICATE_REQUESTS.gvk
        raise errors.invalid(kind, old.metadata.name, [field.forbidden("spec.signerName", why)])


def _state(obj: PodCertificateRequest) -> str:
    found = requests.final_condition(obj)
    return "Pending" if found is None else found.type


def _cells(obj: PodCertificateRequest, _now: dt.datetime) -> list[object]:
    spec = obj.spec
    annotations = ",".join(f"{key}={value}" for key, value in sorted(spec.unverified_user_annotations.items()))
    return [
        obj.metadata.name,
        spec.pod_name,
        spec.service_account_name,
        spec.node_name,
        spec.signer_name,
        _state(obj),
        or_none(annotations),
    ]


_FIELDS: Mapping[str, FieldGetter] = {
    "spec.signerName": lambda obj: obj.spec.signer_name,
    "spec.podName": lambda obj: obj.spec.pod_name,
    "spec.nodeName": lambda obj: obj.spec.node_name,
}


def definition(authorizer: Authorizer) -> Definition[PodCertificateRequest]:
    """``authorizer`` says who may sign for a signer."""
    return Definition(
        resource=catalog.POD_CERTIFICATE_REQUESTS,
        strategy=PodCertificateRequestStrategy(),
        printer=Printer(
            (
                NAME,
                Column("PodName", description="The pod that the certificate is for."),
                Column("ServiceAccountName", description="The pod's ServiceAccount."),
                Column("NodeName", description="The node that the pod runs on."),
                Column("SignerName", description="Whose signature is wanted."),
                Column("State", description="Pending, or what became of it."),
                Column("UnverifiedUserAnnotations", description="What the pod's author tells the signer."),
            ),
            _cells,
        ),
        subresources=(Subresource("status", PodCertificateRequestStatusStrategy(authorizer)),),
        selectable_fields=_FIELDS,
        selects_namespace=False,
        views=(
            View(
                catalog.POD_CERTIFICATE_REQUESTS_V1,
                to_storage=pod_certificate_requests_v1.to_v1beta1,
                from_storage=pod_certificate_requests_v1.from_v1beta1,
                selectable_fields=_FIELDS,
                same_fields=True,
                defaulter=pod_certificate_requests_v1.default_pod_certificate_request,
            ),
        ),
        defaulter=pod_certificate_requests_v1.default_pod_certificate_request,
    )
