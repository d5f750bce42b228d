"""certificates.k8s.io/v1: CertificateSigningRequest.

Source: k8s.io/api/certificates/v1, pkg/apis/certificates/validation, pkg/apis/core/validation/names.go (Kubernetes
1.36). Version v1 sets no defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

import msgspec

from kubevouch import wellknown
from kubevouch.machinery import field
from kubevouch.machinery.declaration import ExtraValue, Int32, Struct, always, null, wire
from kubevouch.machinery.field import FieldError, TypedString
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text import gotext, names
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import usages

GROUP = "certificates.k8s.io"

MIN_EXPIRATION_SECONDS = 600

_FINAL_TYPES = (wellknown.CSR_APPROVED, wellknown.CSR_DENIED, wellknown.CSR_FAILED)
_DECISIONS = (wellknown.CSR_APPROVED, wellknown.CSR_DENIED)
_STATUSES = (wellknown.CONDITION_FALSE, wellknown.CONDITION_TRUE, wellknown.CONDITION_UNKNOWN)
_TRUE_ONLY = (wellknown.CONDITION_TRUE,)
_USAGES = frozenset(usages.ALL)
_MAX_USAGES_TOLD = 200


class CertificateSigningRequestSpec(Struct):
    """What certificate is wanted, and by whom. Cannot change once it is created."""

    request: Annotated[
        bytes | None, wire(1, "A PKCS #10 request in PEM; only its first block is read.", required=True)
    ] = null()
    signer_name: Annotated[str, wire(7, "Whose signature is wanted, as domain/path.", required=True)] = always(str)
    expiration_seconds: Annotated[
        Int32 | None, wire(8, "How long the certificate should hold; at least 600. The signer may give less.")
    ] = None
    usages: Annotated[list[str], wire(5, "What the key is to be used for.", list_type="atomic", enum=usages.ALL)] = []
    username: Annotated[str, wire(2, "Name of the requester; set by the server.")] = ""
    uid: Annotated[str, wire(3, "UID of the requester; set by the server.")] = ""
    groups: Annotated[list[str], wire(4, "Groups of the requester; set by the server.", list_type="atomic")] = []
    extra: Annotated[dict[str, ExtraValue], wire(6, "What else is known of the requester; set by the server.")] = {}


class CertificateSigningRequestCondition(Struct):
    """A decision about a request, or something that became of it."""

    type: Annotated[str, wire(1, "Approved, Denied, Failed, or a word of one's own.", required=True)] = always(str)
    status: Annotated[str, wire(6, "True, False or Unknown; the known types are True or absent.", required=True)] = (
        always(str)
    )
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
    certificate: Annotated[
        bytes, wire(2, "The certificate in PEM, perhaps with its chain; cannot change once it is set.")
    ] = b""


class CertificateSigningRequest(Object):
    """Asks for a certificate. Somebody approves or denies, then the signer issues."""

    spec: Annotated[
        CertificateSigningRequestSpec, wire(2, "What certificate is wanted, and by whom.", required=True)
    ] = always(CertificateSigningRequestSpec)
    status: Annotated[CertificateSigningRequestStatus, wire(3, "What was decided, and the certificate.")] = always(
        CertificateSigningRequestStatus
    )


def has_condition(csr: CertificateSigningRequest, condition_type: str) -> bool:
    """Whether a condition of this type is there. As everywhere in Kubernetes, its status is not looked at."""
    return any(condition.type == condition_type for condition in csr.status.conditions)


def is_undecided(csr: CertificateSigningRequest) -> bool:
    """Neither approved, denied nor failed, and without a certificate; conditions of other types decide nothing."""
    return not csr.status.certificate and not any(each.type in _FINAL_TYPES for each in csr.status.conditions)


# ------------------------------------------------------------------ validation

INVALID_SIGNATURE_REASON = "InvalidSignature"
"""Of the Denied condition with which a request is stored that is not signed by its own key, where that is asked for."""


class _Tolerated(msgspec.Struct, frozen=True):
    """Faults that may stay because the stored object already has them."""

    both_decisions: bool = False
    legacy_signer: bool = False
    repeated_types: bool = False
    empty_type: bool = False
    bad_certificate: bool = False
    unknown_usages: bool = False
    repeated_usages: bool = False


_NOTHING = _Tolerated()
# Version v1beta1 knows none of these rules (Kubernetes 1.21, the last that served it).
_EVERYTHING = _Tolerated(True, True, True, True, True, True, True)


def validate_certificate_signing_request(csr: CertificateSigningRequest, *, v1beta1: bool = False) -> list[FieldError]:
    """What is wrong with a new CSR, metadata apart. Any name is a name."""
    return _errors(csr, _EVERYTHING if v1beta1 else _NOTHING)


def validate_certificate_signing_request_update(
    new: CertificateSigningRequest, old: CertificateSigningRequest, *, v1beta1: bool = False
) -> list[FieldError]:
    """What is wrong with a change of a CSR itself, metadata apart."""
    return _update_errors(new, old, decides=False, issues=False, v1beta1=v1beta1)


def validate_certificate_signing_request_approval_update(
    new: CertificateSigningRequest, old: CertificateSigningRequest, *, v1beta1: bool = False
) -> list[FieldError]:
    """What is wrong with a change through ``/approval``, metadata apart."""
    return _update_errors(new, old, decides=True, issues=False, v1beta1=v1beta1)


def validate_certificate_signing_request_status_update(
    new: CertificateSigningRequest, old: CertificateSigningRequest, *, v1beta1: bool = False
) -> list[FieldError]:
    """What is wrong with a change through ``/status``, metadata apart."""
    return _update_errors(new, old, decides=False, issues=True, v1beta1=v1beta1)


def _errors(csr: CertificateSigningRequest, tolerated: _Tolerated) -> list[FieldError]:
    spec = csr.spec
    errors: list[FieldError] = []
    fault = _request_fault(spec.request or b"")
    if fault and not _is_recorded(csr):
        errors.append(field.invalid("spec.request", spec.request, fault))
    errors += _usage_errors(spec.usages, tolerated)
    if spec.signer_name == wellknown.LEGACY_UNKNOWN_SIGNER and not tolerated.legacy_signer:
        errors.append(
            field.invalid(
                "spec.signerName", spec.signer_name, "the legacy signerName is not allowed via this API version"
            )
        )
    else:
        errors += validate_signer_name("spec.signerName", spec.signer_name)
    if spec.expiration_seconds is not None and spec.expiration_seconds < MIN_EXPIRATION_SECONDS:
        errors.append(
            field.invalid(
                "spec.expirationSeconds",
                spec.expiration_seconds,
                "may not specify a duration less than 600 seconds (10 minutes)",
            )
        )
    if csr.status.conditions:
        errors += _condition_errors(csr.status.conditions, tolerated)
    if csr.status.certificate and not tolerated.bad_certificate:
        fault = _certificate_fault(csr.status.certificate)
        if fault:
            errors.append(field.invalid("status.certificate", "<certificate data>", fault))
    return errors


# Whoever only names these kinds, such as the command line, does not pay the 45 ms that the parsers take to import.


# A request is looked at when it comes, when it is decided and when it is signed.
_REMEMBERED_BYTES = 4 << 10


def _request_fault(request: bytes) -> str:
    """What is wrong with ``spec.request``, or nothing."""
    return _fault(request)[0]


def signature_fault(request: bytes) -> str:
    """What is wrong with the signature of a request that is one otherwise, or nothing."""
    fault, of_signature = _fault(request)
    return fault if of_signature else ""


def _is_recorded(csr: CertificateSigningRequest) -> bool:
    """Whether it was denied when it was stored. A request never changes, and nothing takes a denial away."""
    return any(
        each.type == wellknown.CSR_DENIED and each.reason == INVALID_SIGNATURE_REASON for each in csr.status.conditions
    )


def _fault(request: bytes) -> tuple[str, bool]:
    """What is wrong, and whether it is the signature."""
    return _found_fault(request) if len(request) <= _REMEMBERED_BYTES else _found_fault.__wrapped__(request)


@lru_cache(maxsize=256)
def _found_fault(request: bytes) -> tuple[str, bool]:
    from kubevouch.pki.errors import ParseError, SignatureError
    from kubevouch.pki.x509 import x509_request

    try:
        x509_request.verify_signature(x509_request.parse_pem(request))
    except ParseError as err:
        return str(err), False
    except SignatureError as err:
        return str(err), True
    return "", False


def _certificate_fault(certificate: bytes) -> str:
    """What is wrong with ``status.certificate``, or nothing. It is not held against the request."""
    from kubevouch.pki import certificate_chain
    from kubevouch.pki.errors import ParseError

    try:
        certificate_chain.verify_certificate_chain(certificate)
    except ParseError as err:
        return str(err)
    return ""


def _usage_errors(wanted: list[str], tolerated: _Tolerated) -> list[FieldError]:
    if not wanted:
        return [field.required("spec.usages")]
    # More than these cannot all be different, and telling each fault of a body full of them would take seconds.
    told = wanted[:_MAX_USAGES_TOLD]
    errors: list[FieldError] = []
    if not tolerated.unknown_usages and not _USAGES.issuperset(told):
        errors += [
            field.not_supported(f"spec.usages[{index}]", TypedString(usage), usages.ALL)
            for index, usage in enumerate(told)
            if usage not in _USAGES
        ]
    if not tolerated.repeated_usages and _repeats(told):
        seen: set[str] = set()
        for index, usage in enumerate(told):
            if usage in seen:
                errors.append(field.duplicate(f"spec.usages[{index}]", TypedString(usage)))
            seen.add(usage)
    return errors


def _repeats(words: list[str]) -> bool:
    return len(set(words)) < len(words)


def _condition_errors(conditions: list[CertificateSigningRequestCondition], tolerated: _Tolerated) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        if not condition.type and not tolerated.empty_type:
            errors.append(field.required(f"{path}.type"))
        supported = _TRUE_ONLY if condition.type in _FINAL_TYPES else _STATUSES
        if not condition.status:
            errors.append(field.required(f"{path}.status"))
        elif condition.status not in supported:
            errors.append(field.not_supported(f"{path}.status", TypedString(condition.status), supported))
        if condition.type in _DECISIONS and not tolerated.both_decisions:
            other = _DECISIONS[1 - _DECISIONS.index(condition.type)]
            if other in seen:
                errors.append(
                    field.invalid(
                        "status.conditions",
                        TypedString(condition.type),
                        "Approved and Denied conditions are mutually exclusive",
                    )
                )
        if condition.type in seen and not tolerated.repeated_types:
            errors.append(field.duplicate(f"{path}.type", TypedString(condition.type)))
        seen.add(condition.type)
    return errors


def _update_errors(
    new: CertificateSigningRequest, old: CertificateSigningRequest, *, decides: bool, issues: bool, v1beta1: bool
) -> list[FieldError]:
    errors = _errors(new, _EVERYTHING if v1beta1 else _tolerated(new, old))
    if new.status.conditions != old.status.conditions:
        errors += _change_errors(new, old, decides=decides)
    if new.status.certificate != old.status.certificate:
        if not issues:
            errors.append(field.forbidden("status.certificate", "updates may not set certificate content"))
        elif old.status.certificate and not v1beta1:
            errors.append(field.forbidden("status.certificate", "updates may not modify existing certificate content"))
    return errors


def _change_errors(
    new: CertificateSigningRequest, old: CertificateSigningRequest, *, decides: bool
) -> list[FieldError]:
    errors = [
        field.forbidden("status.conditions", f'updates may not remove a condition of type "{condition_type}"')
        for condition_type in _FINAL_TYPES
        if len(_of_type(new, condition_type)) < len(_of_type(old, condition_type))
    ]
    if not decides:
        for condition_type in _DECISIONS:
            errors += _undecided_errors(_of_type(new, condition_type), _of_type(old, condition_type), condition_type)
    return errors


def _undecided_errors(
    new: list[CertificateSigningRequestCondition], old: list[CertificateSigningRequestCondition], condition_type: str
) -> list[FieldError]:
    if len(new) > len(old):
        return [field.forbidden("status.conditions", f'updates may not add a condition of type "{condition_type}"')]
    if len(new) == len(old) and new != old:
        # The registry restores such conditions first, so the diff that Kubernetes appends here is never seen.
        return [field.forbidden("status.conditions", f'updates may not modify a condition of type "{condition_type}"')]
    return []


def _of_type(csr: CertificateSigningRequest, condition_type: str) -> list[CertificateSigningRequestCondition]:
    return [condition for condition in csr.status.conditions if condition.type == condition_type]


def _tolerated(new: CertificateSigningRequest, old: CertificateSigningRequest) -> _Tolerated:
    types = [condition.type for condition in old.status.conditions]
    return _Tolerated(
        both_decisions=all(decision in types for decision in _DECISIONS),
        legacy_signer=old.spec.signer_name == wellknown.LEGACY_UNKNOWN_SIGNER,
        repeated_types=_repeats(types),
        empty_type="" in types,
        bad_certificate=new.status.certificate == old.status.certificate
        or (bool(old.status.certificate) and _certificate_fault(old.status.certificate) != ""),
        unknown_usages=not _USAGES.issuperset(old.spec.usages),
        repeated_usages=_repeats(old.spec.usages),
    )


# ------------------------------------------------------------------ signer names

_MAX_DOMAIN = 253
# A domain, a slash, a namespace, a dot and the name of an object in it.
MAX_SIGNER_NAME = _MAX_DOMAIN + 1 + 63 + 1 + 253
_LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_USUAL_SIGNER_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})+/{_LABEL}(?:\.{_LABEL})*")


def validate_signer_name(path: str, name: str) -> list[FieldError]:
    """What is wrong with a signer name: ``domain/path``, the domain of two labels at least."""
    if len(name) <= _MAX_DOMAIN and _USUAL_SIGNER_NAME.fullmatch(name):
        return []
    if not name:
        return [field.required(path)]
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        return [
            field.invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
        ]
    errors = []
    if _byte_length(domain) > _MAX_DOMAIN:
        errors.append(field.too_long(path, _MAX_DOMAIN))
    labels = domain.split(".")
    errors += _first_label_errors(path, domain, labels, names.dns_label)
    if len(labels) < 2:
        errors.append(field.invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    errors += _first_label_errors(path, rest, rest.split("."), names.subdomain)
    if _byte_length(name) > MAX_SIGNER_NAME:
        errors.append(field.too_long(path, MAX_SIGNER_NAME))
    return errors


def _first_label_errors(path: str, value: str, labels: list[str], rule: Callable[[str], list[str]]) -> list[FieldError]:
    """Only the first bad label is worth telling."""
    for label in labels:
        messages = rule(label)
        if messages:
            return [
                field.invalid(path, value, f"validating label {gotext.quote(label)}: {message}") for message in messages
            ]
    return []


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
