"""certificates.k8s.io/v1: PodCertificateRequest as Kubernetes 1.37 has it, whose key is in a PKCS #10 request only.

Source: k8s.io/api/certificates/v1 (Kubernetes 1.37).
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from kubevouch.api import pod_certificate_requests_v1beta1 as v1beta1
from kubevouch.api.certificates_v1 import GROUP
from kubevouch.api.meta_v1 import Condition
from kubevouch.api.pod_certificate_requests_v1beta1 import ANNOTATIONS, DEFAULT_SECONDS, STUB
from kubevouch.machinery.declaration import Int32, Struct, always, always_named, null_named, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time

API_VERSION = f"{GROUP}/v1"


class PodCertificateRequestSpec(Struct):
    """Whose certificate is wanted, for which key and from whom. Cannot change once it is created."""

    signer_name: Annotated[str, wire(1, "Whose signature is wanted, as domain/path.", required=True)] = always(str)
    pod_name: Annotated[str, wire(2, "The pod that the certificate is for.", required=True)] = always(str)
    pod_uid: Annotated[str, wire(3, "Its UID.", required=True)] = always_named("podUID", str)
    service_account_name: Annotated[str, wire(4, "The pod's ServiceAccount.", required=True)] = always(str)
    service_account_uid: Annotated[str, wire(5, "Its UID.", required=True)] = always_named("serviceAccountUID", str)
    node_name: Annotated[str, wire(6, "The node that the pod runs on.", required=True)] = always(str)
    node_uid: Annotated[str, wire(7, "Its UID.", required=True)] = always_named("nodeUID", str)
    max_expiration_seconds: Annotated[
        Int32 | None, wire(8, "How long the certificate may hold at most; a day if it is not given.")
    ] = None
    stub_pkcs10_request: Annotated[bytes | None, wire(12, STUB, required=True)] = null_named("stubPKCS10Request")
    unverified_user_annotations: Annotated[dict[str, str], wire(11, ANNOTATIONS)] = {}


class PodCertificateRequestStatus(Struct):
    """What became of the request: written once, by the signer."""

    conditions: Annotated[
        list[Condition],
        wire(
            1, "Issued, Denied or Failed.", list_type="map", map_keys=("type",), patch_merge_key="type",
            patch_strategy="merge",
        ),
    ] = []  # fmt: skip
    certificate_chain: Annotated[str, wire(2, "The certificate in PEM, and after it those of its issuers.")] = ""
    not_before: Annotated[Time | None, wire(4, "From when the certificate holds, as it says itself.")] = None
    begin_refresh_at: Annotated[Time | None, wire(5, "From when the kubelet is to ask for the next one.")] = None
    not_after: Annotated[Time | None, wire(6, "Until when it holds, as it says itself.")] = None


class PodCertificateRequest(Object):
    """Asks for a certificate for a pod. There is no approval: the signer issues or denies."""

    spec: Annotated[
        PodCertificateRequestSpec, wire(2, "Whose certificate is wanted, for which key and from whom.", required=True)
    ] = always(PodCertificateRequestSpec)
    status: Annotated[PodCertificateRequestStatus, wire(3, "What became of the request.")] = always(
        PodCertificateRequestStatus
    )


_Request = TypeVar("_Request", PodCertificateRequest, v1beta1.PodCertificateRequest)


def default_pod_certificate_request(request: _Request) -> _Request:
    """A day where no lifetime is given."""
    if request.spec.max_expiration_seconds is not None:
        return request
    spec = msgspec.structs.replace(request.spec, max_expiration_seconds=DEFAULT_SECONDS)
    return msgspec.structs.replace(request, spec=spec)


def to_v1beta1(request: PodCertificateRequest) -> v1beta1.PodCertificateRequest:
    """The request as it is stored."""
    return v1beta1.PodCertificateRequest(
        metadata=request.metadata,
        spec=v1beta1.PodCertificateRequestSpec(**_fields(PodCertificateRequestSpec, request.spec)),
        status=v1beta1.PodCertificateRequestStatus(**_fields(PodCertificateRequestStatus, request.status)),
    )


def from_v1beta1(request: v1beta1.PodCertificateRequest) -> PodCertificateRequest:
    """The request as v1 shows it: without a key that is in no PKCS #10 request."""
    return PodCertificateRequest(
        metadata=request.metadata,
        spec=PodCertificateRequestSpec(**_fields(PodCertificateRequestSpec, request.spec)),
        status=PodCertificateRequestStatus(**_fields(PodCertificateRequestStatus, request.status)),
    )


def _fields(struct: type[Struct], value: Struct) -> dict[str, Any]:
    """Of the younger version, which has none that the older one has not."""
    return {name: getattr(value, name) for name in struct.__struct_fields__}
