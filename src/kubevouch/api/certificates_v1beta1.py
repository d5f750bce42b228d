"""certificates.k8s.io/v1beta1: ClusterTrustBundle, and the CertificateSigningRequest of old.

The old CSR is served by no Kubernetes since 1.22, and here where ``--runtime-config`` asks for it; its defaults, which
v1 does not have, fill in signer name, usages and the status of conditions.

Source: k8s.io/api/certificates/v1beta1, pkg/apis/certificates/{validation,v1beta1} (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from kubevouch import wellknown
from kubevouch.api import certificates_v1
from kubevouch.api.certificates_v1 import GROUP as GROUP
from kubevouch.api.certificates_v1 import validate_signer_name
from kubevouch.machinery import field
from kubevouch.machinery.declaration import ExtraValue, Int32, Struct, always, null, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text import names
from kubevouch.machinery.text.times import Time

# ------------------------------------------------------------------ ClusterTrustBundle

API_VERSION = f"{GROUP}/v1beta1"

MAX_TRUST_BUNDLE = 1 << 20
_OMITTED = "<value omitted>"


class ClusterTrustBundleSpec(Struct):
    """Which trust anchors, and for whose certificates."""

    signer_name: Annotated[
        str, wire(1, "The signer whose certificates these anchors verify; empty for a bundle of any use.")
    ] = ""
    trust_bundle: Annotated[str, wire(2, "CA certificates in PEM, one a block.", required=True)] = always(str)


class ClusterTrustBundle(Object):
    """A set of trust anchors that everybody in the cluster may read."""

    spec: Annotated[
        ClusterTrustBundleSpec, wire(2, "Which trust anchors, and for whose certificates.", required=True)
    ] = always(ClusterTrustBundleSpec)


def validate_cluster_trust_bundle(bundle: ClusterTrustBundle) -> list[FieldError]:
    """What is wrong with a ClusterTrustBundle: its name, which depends on the signer, its signer and its anchors."""
    return _bundle_errors(bundle, parse=True)


def validate_cluster_trust_bundle_update(new: ClusterTrustBundle, old: ClusterTrustBundle) -> list[FieldError]:
    """What is wrong with a change of a ClusterTrustBundle. Anchors that do not change are not parsed again."""
    errors = _bundle_errors(new, parse=new.spec.trust_bundle != old.spec.trust_bundle)
    if new.spec.signer_name != old.spec.signer_name:
        errors.append(field.invalid("spec.signerName", new.spec.signer_name, "field is immutable"))
    return errors


def _bundle_errors(bundle: ClusterTrustBundle, *, parse: bool) -> list[FieldError]:
    spec, metadata = bundle.spec, bundle.metadata
    errors: list[FieldError] = []
    for path, name, prefix in (
        ("metadata.generateName", metadata.generate_name, True),
        ("metadata.name", metadata.name, False),
    ):
        if name:
            errors += (field.invalid(path, name, message) for message in _name_faults(name, prefix, spec.signer_name))
    if spec.signer_name:
        errors += validate_signer_name("spec.signerName", spec.signer_name)
    return errors + (_anchor_errors(spec.trust_bundle) if parse else [])


def _name_faults(name: str, prefix: bool, signer_name: str) -> list[str]:
    if not signer_name:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return names.subdomain_name(name, prefix)
    required = f"{signer_name.replace('/', ':')}:"
    if not name.startswith(required):
        return [f"ClusterTrustBundle for signerName {signer_name} must be named with prefix {required}"]
    return names.subdomain_name(name.removeprefix(required), prefix)


def _anchor_errors(text: str) -> list[FieldError]:
    # Imported late for the reason that certificates_v1 gives.
    from kubevouch.pki.errors import ParseError
    from kubevouch.pki.x509 import pem

    path = "spec.trustBundle"
    contents = text.encode(errors="surrogatepass")
    if len(contents) > MAX_TRUST_BUNDLE:
        return [field.too_long(path, MAX_TRUST_BUNDLE)]
    faults: list[str] = []
    places: dict[bytes, list[int]] = {}
    try:
        found = list(pem.blocks(contents))
    except ParseError as err:
        return [field.invalid(path, _OMITTED, str(err))]
    for index, block in enumerate(found):
        fault = _anchor_fault(block.type, block.headers, block.contents)
        if fault:
            faults.append(f"entry {index} {fault}")
        else:
            places.setdefault(block.contents, []).append(index)
    if not faults:
        if not places:
            faults.append("at least one trust anchor must be provided")
        faults += [
            f"duplicate trust anchor (indices [{' '.join(map(str, indices))}])"
            for indices in places.values()
            if len(indices) > 1
        ]
    return [field.invalid(path, _OMITTED, fault) for fault in faults]


def _anchor_fault(label: str, headers: Mapping[str, str], contents: bytes) -> str:
    from kubevouch.pki.errors import ParseError
    from kubevouch.pki.x509 import pem, x509_certificate

    if label != pem.CERTIFICATE:
        return f"has bad block type: {label}"
    if headers:
        return "has PEM block headers"
    try:
        certificate = x509_certificate.parse_der(contents)
    except ParseError:
        return "does not parse as X.509"
    return "" if certificate.meaning.is_ca else "does not have the CA bit set"


# ------------------------------------------------------------------ CertificateSigningRequest


class CertificateSigningRequestSpec(Struct):
    """What certificate is wanted, and by whom."""

    request: Annotated[
        bytes | None, wire(1, "A PKCS #10 request in PEM; only its first block is read.", required=True)
    ] = null()
    signer_name: Annotated[str | None, wire(7, "Whose signature is wanted; guessed if it is not given.")] = None
    expiration_seconds: Annotated[Int32 | None, wire(8, "How long the certificate should hold.")] = None
    usages: Annotated[list[str], wire(5, "What the key is to be used for.", list_type="atomic")] = []
    username: Annotated[str, wire(2, "Name of the requester; set by the server.")] = ""
    uid: Annotated[str, wire(3, "UID of the requester; set by the server.")] = ""
    groups: Annotated[list[str], wire(4, "Groups of the requester; set by the server.", list_type="atomic")] = []
    extra: Annotated[dict[str, ExtraValue], wire(6, "What else is known of the requester; set by the server.")] = {}


class CertificateSigningRequestCondition(Struct):
    """A decision about a request, or something that became of it."""

    type: Annotated[str, wire(1, "Approved, Denied, Failed, or a word of one's own.", required=True)] = always(str)
    status: Annotated[str, wire(6, "True, False or Unknown; True if it is not given.")] = always(str)
    reason: Annotated[str, wire(2, "Why, in one word for machines.")] = ""
    message: Annotated[str, wire(3, "Why, for people.")] = ""
    last_update_time: Annotated[Time | None, wire(4, "When the condition was last written.")] = null()
    last_transition_time: Annotated[Time | None, wire(5, "When its status last changed.")] = null()


class CertificateSigningRequestStatus(Struct):
    """What was decided, and the certificate."""

    conditions: Annotated[
        list[CertificateSigningRequestCondition],
        wire(1, "Decisions and results.", list_type="map", map_keys=("type",)),
    ] = []
    certificate: Annotated[bytes, wire(2, "The certificate in PEM, perhaps with its chain.")] = b""


class CertificateSigningRequest(Object):
    """Asks for a certificate, in the form of before 1.19."""

    spec: Annotated[CertificateSigningRequestSpec, wire(2, "What certificate is wanted, and by whom.")] = always(
        CertificateSigningRequestSpec
    )
    status: Annotated[CertificateSigningRequestStatus, wire(3, "What was decided, and the certificate.")] = always(
        CertificateSigningRequestStatus
    )


def default_certificate_signing_request(csr: CertificateSigningRequest) -> CertificateSigningRequest:
    """Usages, signer name and the status of conditions where they are not given."""
    spec, status = csr.spec, csr.status
    usages = spec.usages or ["digital signature", "key encipherment"]
    signer_name = _guessed_signer(spec.request or b"", usages) if spec.signer_name is None else spec.signer_name
    conditions = [
        condition if condition.status else msgspec.structs.replace(condition, status=wellknown.CONDITION_TRUE)
        for condition in status.conditions
    ]
    return msgspec.structs.replace(
        csr,
        spec=msgspec.structs.replace(spec, usages=usages, signer_name=signer_name),
        status=msgspec.structs.replace(status, conditions=conditions),
    )


def _guessed_signer(request: bytes, usages: list[str]) -> str:
    from kubevouch.pki import policy
    from kubevouch.pki.errors import ParseError
    from kubevouch.pki.x509 import x509_request

    try:
        return policy.default_signer_name(x509_request.parse_pem(request), usages)
    except ParseError:
        return wellknown.LEGACY_UNKNOWN_SIGNER


def to_v1(csr: CertificateSigningRequest) -> certificates_v1.CertificateSigningRequest:
    """The CSR as v1 shows and stores it; defaults have to be set before."""
    spec, status = csr.spec, csr.status
    return certificates_v1.CertificateSigningRequest(
        metadata=csr.metadata,
        spec=certificates_v1.CertificateSigningRequestSpec(
            request=spec.request,
            signer_name=spec.signer_name or "",
            expiration_seconds=spec.expiration_seconds,
            usages=spec.usages,
            username=spec.username,
            uid=spec.uid,
            groups=spec.groups,
            extra=spec.extra,
        ),
        status=certificates_v1.CertificateSigningRequestStatus(
            conditions=[
                certificates_v1.CertificateSigningRequestCondition(
                    type=condition.type,
                    status=condition.status,
                    reason=condition.reason,
                    message=condition.message,
                    last_update_time=condition.last_update_time,
                    last_transition_time=condition.last_transition_time,
                )
                for condition in status.conditions
            ],
            certificate=status.certificate,
        ),
    )


def from_v1(csr: certificates_v1.CertificateSigningRequest) -> CertificateSigningRequest:
    """A v1 CSR as v1beta1 shows it."""
    spec, status = csr.spec, csr.status
    return CertificateSigningRequest(
        metadata=csr.metadata,
        spec=CertificateSigningRequestSpec(
            request=spec.request,
            signer_name=spec.signer_name,
            expiration_seconds=spec.expiration_seconds,
            usages=spec.usages,
            username=spec.username,
            uid=spec.uid,
            groups=spec.groups,
            extra=spec.extra,
        ),
        status=CertificateSigningRequestStatus(
            conditions=[
                CertificateSigningRequestCondition(
                    type=condition.type,
                    status=condition.status,
                    reason=condition.reason,
                    message=condition.message,
                    last_update_time=condition.last_update_time,
                    last_transition_time=condition.last_transition_time,
                )
                for condition in status.conditions
            ],
            certificate=status.certificate,
        ),
    )
