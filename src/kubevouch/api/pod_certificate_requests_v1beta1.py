"""certificates.k8s.io/v1beta1: PodCertificateRequest, with which a kubelet asks for a pod's certificate.

Source: k8s.io/api/certificates/v1beta1, pkg/apis/certificates/{validation,v1beta1} (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import msgspec

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import validate_signer_name
from kubevouch.api.meta_v1 import Condition, validate_conditions
from kubevouch.machinery import field, object_meta
from kubevouch.machinery.declaration import Int32, Struct, always, always_named, null, null_named, wire
from kubevouch.machinery.field import OMITTED, FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import Time

if TYPE_CHECKING:
    from kubevouch.pki.pod_keys import PodKeySource

DEFAULT_SECONDS = 24 * 3600
MIN_SECONDS, MAX_SECONDS = 3600, 91 * 24 * 3600
MAX_KUBERNETES_SECONDS = 24 * 3600
"""Of ``maxExpirationSeconds`` for the signers of kubernetes.io."""
MAX_UID_BYTES = 128

UNSUPPORTED_KEY_TYPE = "UnsupportedKeyType"
INVALID_USER_ANNOTATIONS = "InvalidUnverifiedUserAnnotations"
"""Reasons of a Denied condition that Kubernetes has names for."""

_FINAL_TYPES = (wellknown.POD_CERTIFICATE_ISSUED, wellknown.CSR_DENIED, wellknown.CSR_FAILED)
_TRUE_ONLY = (wellknown.CONDITION_TRUE,)

STUB = "A PKCS #10 request in DER that proves who has the key; of what it says nothing else counts."
ANNOTATIONS = "What the pod's author tells the signer. Nobody has checked it."


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
    pkix_public_key: Annotated[bytes | None, wire(9, "The key in DER. Deprecated: stubPKCS10Request.")] = null()
    proof_of_possession: Annotated[
        bytes | None, wire(10, "The key's signature over the pod's UID. Deprecated: stubPKCS10Request.")
    ] = null()
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


def final_condition(request: PodCertificateRequest) -> Condition | None:
    """What was decided, or None while it is pending."""
    return next(
        (
            each
            for each in request.status.conditions
            if each.type in _FINAL_TYPES and each.status == wellknown.CONDITION_TRUE
        ),
        None,
    )


def key_source(spec: PodCertificateRequestSpec) -> PodKeySource:
    """Where the request has its key."""
    from kubevouch.pki.pod_keys import PodKeySource

    return PodKeySource(
        stub_request=spec.stub_pkcs10_request or b"",
        public_key=spec.pkix_public_key or b"",
        proof=spec.proof_of_possession or b"",
        pod_uid=spec.pod_uid,
    )


# ------------------------------------------------------------------ validation


def validate_pod_certificate_request(request: PodCertificateRequest, *, v1: bool = False) -> list[FieldError]:
    """What is wrong with a new request, metadata apart."""
    spec = request.spec
    errors = validate_signer_name("spec.signerName", spec.signer_name)
    errors += _annotation_errors(spec.unverified_user_annotations)
    errors += _reference_errors("pod", spec.pod_name, spec.pod_uid)
    errors += _reference_errors("serviceAccount", spec.service_account_name, spec.service_account_uid)
    errors += _reference_errors("node", spec.node_name, spec.node_uid)
    seconds = spec.max_expiration_seconds
    if seconds is None:
        return [*errors, field.required("spec.maxExpirationSeconds", "must be set")]
    domain = spec.signer_name.partition("/")[0]
    of_kubernetes = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    longest = MAX_KUBERNETES_SECONDS if of_kubernetes else MAX_SECONDS
    if not MIN_SECONDS <= seconds <= longest:
        why = f"must be in the range [{MIN_SECONDS}, {longest}]"
        errors.append(field.invalid("spec.maxExpirationSeconds", seconds, why))
    return errors + _key_errors(spec, v1=v1)


def _annotation_errors(annotations: dict[str, str]) -> list[FieldError]:
    path = "spec.unverifiedUserAnnotations"
    errors: list[FieldError] = []
    for key in (each.lower() for each in annotations):
        faults = names.qualified_name(key)
        if not key:
            errors.append(field.required(path))
        elif faults:
            errors += (field.invalid(path, key, fault) for fault in faults)
        elif "/" not in key:
            errors.append(field.invalid(path, key, 'must be a domain-prefixed key (such as "acme.io/foo")'))
    if object_meta.annotations_size(annotations) > object_meta.MAX_ANNOTATIONS_BYTES:
        errors.append(field.too_long(path, object_meta.MAX_ANNOTATIONS_BYTES))
    return errors


def _reference_errors(kind: str, name: str, uid: str) -> list[FieldError]:
    errors = [field.invalid(f"spec.{kind}Name", name, fault) for fault in names.subdomain(name)]
    if not uid:
        errors.append(field.invalid(f"spec.{kind}UID", uid, "must not be empty"))
    if len(uid.encode(errors="surrogatepass")) > MAX_UID_BYTES:
        errors.append(field.too_long(f"spec.{kind}UID", MAX_UID_BYTES))
    return errors


def _key_errors(spec: PodCertificateRequestSpec, *, v1: bool) -> list[FieldError]:
    # Imported late for the reason that certificates_v1 gives.
    from kubevouch.pki.pod_keys import PodKeyError, verify_possession

    if v1 and not spec.stub_pkcs10_request:
        return [field.required("spec.stubPKCS10Request")]
    try:
        verify_possession(key_source(spec))
    except PodKeyError as err:
        return [err.fault]
    return []


def validate_pod_certificate_request_update(new: PodCertificateRequest, old: PodCertificateRequest) -> list[FieldError]:
    """What is wrong with a change of a request itself, metadata apart."""
    if new.spec == old.spec:
        return []
    return [field.invalid("spec", _as_go_prints(new.spec), "field is immutable")]


class _Printed(msgspec.Struct, rename="pascal"):
    """Of the internal type, which has no names for JSON, Go prints those of its fields."""

    signer_name: str
    pod_name: str
    pod_uid: str = msgspec.field(name="PodUID")
    service_account_name: str
    service_account_uid: str = msgspec.field(name="ServiceAccountUID")
    node_name: str
    node_uid: str = msgspec.field(name="NodeUID")
    max_expiration_seconds: int | None
    pkix_public_key: bytes | None = msgspec.field(name="PKIXPublicKey")
    proof_of_possession: bytes | None
    stub_pkcs10_request: bytes | None = msgspec.field(name="StubPKCS10Request")
    unverified_user_annotations: dict[str, str] | None


def _as_go_prints(spec: PodCertificateRequestSpec) -> _Printed:
    given = {name: getattr(spec, name) for name in _Printed.__struct_fields__}
    return _Printed(**(given | {"unverified_user_annotations": spec.unverified_user_annotations or None}))


def condition_errors(conditions: list[Condition]) -> list[FieldError]:
    """What is wrong with the conditions of a status, whatever else it says."""
    errors: list[FieldError] = []
    seen = 0
    for index, condition in enumerate(conditions):
        path = f"status.conditions.[{index}]"
        if condition.type not in _FINAL_TYPES:
            errors.append(field.not_supported(f"{path}.type", condition.type, _FINAL_TYPES))
            continue
        seen += 1
        if seen > 1:
            why = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(field.invalid(f"{path}.type", condition.type, why))
        if condition.status != wellknown.CONDITION_TRUE:
            errors.append(field.not_supported(f"{path}.status", condition.status, _TRUE_ONLY))
    return errors + validate_conditions(conditions, "status.conditions")


def validate_pod_certificate_request_status_update(
    new: PodCertificateRequest, old: PodCertificateRequest, now: dt.datetime
) -> list[FieldError]:
    """What is wrong with a signer's answer, metadata apart. One answer is all that there ever is."""
    errors = condition_errors(new.status.conditions)
    if errors:
        return errors
    if final_condition(old) is not None:
        why = "immutable after PodCertificateRequest is issued, denied, or failed"
        return [] if new.status == old.status else [field.invalid("status", OMITTED, why)]
    answer = final_condition(new)
    if answer is None:
        why = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
        return [] if new.status == old.status else [field.invalid("status", OMITTED, why)]
    if answer.type != wellknown.POD_CERTIFICATE_ISSUED:
        only = PodCertificateRequestStatus(conditions=new.status.conditions)
        why = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        return [] if new.status == only else [field.invalid("status", OMITTED, why)]
    return _issued_errors(new, now)


def _issued_errors(new: PodCertificateRequest, now: dt.datetime) -> list[FieldError]:
    from kubevouch.api.issued_pod_certificates import Issued, issued_errors

    status = new.status
    issued = Issued(
        chain=status.certificate_chain,
        not_before=status.not_before,
        not_after=status.not_after,
        begin_refresh_at=status.begin_refresh_at,
    )
    return issued_errors(issued, key_source(new.spec), new.spec.max_expiration_seconds or 0, now)
