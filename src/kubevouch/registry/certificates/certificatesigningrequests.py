"""CertificateSigningRequest, with ``/approval`` and ``/status``.

The requester is stamped here. Source: pkg/registry/certificates/certificates/strategy.go (Kubernetes 1.36; 1.21 for
v1beta1, which is one store with v1, takes more, and ignores some of what v1 refuses).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.api import catalog, certificates_v1, certificates_v1beta1
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text import gotext
from kubevouch.machinery.text.names import path_segment_name
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import usages
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.registry.certificates import derived_facts
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, Subresource, View
from kubevouch.registry.printing import AGE, NAME, NONE, age, or_none

_MACHINES = (wellknown.BOOTSTRAP_USER_PREFIX, wellknown.NODE_USER_PREFIX)
RECORDED_AN_HOUR = 60
"""Requests with a wrong signature; those of two hours are there at once before the cleaner comes."""
MAX_RECORDED_BYTES = 8 << 10
REFUSED_ANNOTATION = "certificates.kubevouch.io/refused"
_DECISIONS = (wellknown.CSR_APPROVED, wellknown.CSR_DENIED)


def _is_v1beta1(ctx: Context) -> bool:
    return ctx.api_version == certificates_v1beta1.API_VERSION


class RecordedRefusals:
    """Denies what has a wrong signature as it is stored, so that there is no moment in which it could be approved.

    What is denied is removed after an hour. So many are stored in an hour at most, and only small ones that nothing
    keeps; all others are refused as ever, with 422.
    """

    def __init__(self) -> None:
        self._left, self._seen = float(RECORDED_AN_HOUR), dt.datetime.min.replace(tzinfo=dt.UTC)

    def denied(self, ctx: Context, obj: CertificateSigningRequest) -> CertificateSigningRequest:
        """``obj``, with the condition if it is to be recorded."""
        fault = certificates_v1.signature_fault(obj.spec.request or b"")
        if not fault or ctx.dry_run or not _is_small(obj) or not self._take(ctx.now):
            return obj
        message = f"the certificate request is not signed by its own key: {fault}"
        ctx.annotations[REFUSED_ANNOTATION] = message
        ctx.warnings.append(f"{message}; it is recorded as denied")
        condition = CertificateSigningRequestCondition(
            type=wellknown.CSR_DENIED,
            status=wellknown.CONDITION_TRUE,
            reason=certificates_v1.INVALID_SIGNATURE_REASON,
            message=message,
        )
        status = CertificateSigningRequestStatus(conditions=_stamped([condition], [], ctx.now))
        return msgspec.structs.replace(obj, status=status)

    def _take(self, now: dt.datetime) -> bool:
        earned = (now - self._seen) / dt.timedelta(hours=1) * RECORDED_AN_HOUR
        self._left, self._seen = min(self._left + max(earned, 0.0), float(RECORDED_AN_HOUR)), max(now, self._seen)
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _is_small(obj: CertificateSigningRequest) -> bool:
    """Whether it holds little beside the request, and whatever removes it succeeds."""
    meta, spec = obj.metadata, obj.spec
    told = {key for key in meta.annotations if key != SOURCE_ADDRESS_ANNOTATION}
    bare = not (told or meta.labels or meta.finalizers or meta.owner_references)
    return bare and len(spec.request or b"") <= MAX_RECORDED_BYTES and len(spec.usages) <= len(usages.ALL)


class CSRStrategy(Strategy[CertificateSigningRequest]):
    """The object itself: only its metadata can change after creation."""

    reset_fields: Sequence[tuple[str, ...]] = (("spec",), ("status",))

    def __init__(self, refusals: RecordedRefusals | None = None, annotated: Sequence[str] = ()) -> None:
        """
        Args:
            refusals: of requests with a wrong signature that are stored and denied; None stores none.
            annotated: which derived facts stand in annotations.
        """
        self._refusals = refusals
        self._annotated = annotated

    def prepare_for_create(self, ctx: Context, obj: CertificateSigningRequest) -> CertificateSigningRequest:
        """Whatever the body says, the requester is who sent it, and nothing is decided yet."""
        user = ctx.user
        made = msgspec.structs.replace(
            _from(_without_reason(obj), ctx.source if _is_machine(user) else ""),
            spec=msgspec.structs.replace(
                obj.spec,
                username=user.name,
                uid=user.uid,
                groups=list(user.groups),
                extra={key: list(values) for key, values in user.extra.items()},
            ),
            status=CertificateSigningRequestStatus(),
        )
        return self._told(made if self._refusals is None else self._refusals.denied(ctx, made))

    def _told(self, obj: CertificateSigningRequest) -> CertificateSigningRequest:
        """With its facts, whatever a client says that they are."""
        if not self._annotated:
            return obj
        kept = {
            key: value
            for key, value in obj.metadata.annotations.items()
            if not key.startswith(derived_facts.ANNOTATION_PREFIX)
        }
        told: CertificateSigningRequest = replace_metadata(
            obj, annotations=kept | derived_facts.annotations_of(obj, self._annotated)
        )
        return told

    def validate(self, ctx: Context, obj: CertificateSigningRequest) -> list[FieldError]:
        return certificates_v1.validate_certificate_signing_request(obj, v1beta1=_is_v1beta1(ctx))

    def prepare_for_update(
        self, _ctx: Context, new: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> CertificateSigningRequest:
        return self._told(msgspec.structs.replace(_kept_source(new, old), spec=old.spec, status=old.status))

    def validate_update(
        self, ctx: Context, new: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> list[FieldError]:
        return certificates_v1.validate_certificate_signing_request_update(new, old, v1beta1=_is_v1beta1(ctx))


class CSRApprovalStrategy(CSRStrategy):
    """``/approval``: conditions, and metadata as it comes."""

    reset_fields: Sequence[tuple[str, ...]] = (("spec",), ("status", "certificate"))

    def prepare_for_update(
        self, ctx: Context, new: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> CertificateSigningRequest:
        conditions = _stamped(new.status.conditions, old.status.conditions, ctx.now)
        status = msgspec.structs.replace(old.status, conditions=conditions)
        return self._told(msgspec.structs.replace(_kept_source(new, old), spec=old.spec, status=status))

    def validate_update(
        self, ctx: Context, new: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> list[FieldError]:
        return certificates_v1.validate_certificate_signing_request_approval_update(new, old, v1beta1=_is_v1beta1(ctx))


class CSRStatusStrategy(CSRStrategy):
    """``/status``: the certificate and conditions other than a decision, which is restored from the old object."""

    reset_fields: Sequence[tuple[str, ...]] = (("spec",), ("status", "conditions"))

    def prepare_for_update(
        self, ctx: Context, new: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> CertificateSigningRequest:
        conditions = new.status.conditions
        if _is_v1beta1(ctx):
            conditions = _with_old_decisions(conditions, old.status.conditions)
        for decision in _DECISIONS:
            conditions = _with_old(conditions, old.status.conditions, decision)
        conditions = _stamped(conditions, old.status.conditions, ctx.now)
        status = msgspec.structs.replace(new.status, conditions=conditions)
        return self._told(msgspec.structs.replace(_kept_source(new, old), spec=old.spec, status=status))

    def validate_update(
        self, ctx: Context, new: CertificateSigningRequest, old: CertificateSigningRequest
    ) -> list[FieldError]:
        return certificates_v1.validate_certificate_signing_request_status_update(new, old, v1beta1=_is_v1beta1(ctx))


def _is_machine(user: UserInfo) -> bool:
    """From where a machine asks tells something about it; a person's requests stay as in Kubernetes."""
    return user.name.startswith(_MACHINES)


def _from(obj: CertificateSigningRequest, source: str) -> CertificateSigningRequest:
    """``obj`` with the annotation that says from where it came, or without, whatever the client says."""
    annotations = obj.metadata.annotations
    if annotations.get(SOURCE_ADDRESS_ANNOTATION, "") == source:
        return obj
    kept = {key: value for key, value in annotations.items() if key != SOURCE_ADDRESS_ANNOTATION}
    if source:
        kept[SOURCE_ADDRESS_ANNOTATION] = source
    changed: CertificateSigningRequest = replace_metadata(obj, annotations=kept)
    return changed


def _without_reason(obj: CertificateSigningRequest) -> CertificateSigningRequest:
    """What a person reads before deciding is not for the requester to write: only controllers say why it waits."""
    annotations = dict(obj.metadata.annotations)
    if annotations.pop(wellknown.JOIN_STUCK_ANNOTATION, None) is None:
        return obj
    changed: CertificateSigningRequest = replace_metadata(obj, annotations=annotations)
    return changed


def _kept_source(new: CertificateSigningRequest, old: CertificateSigningRequest) -> CertificateSigningRequest:
    return _from(new, old.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, ""))


Conditions = list[CertificateSigningRequestCondition]


def _with_old(conditions: Conditions, old: Conditions, kind: str) -> Conditions:
    """Edits of a decision are undone; adding or removing one is left for validation to refuse."""
    kept = [condition for condition in old if condition.type == kind]
    places = [index for index, condition in enumerate(conditions) if condition.type == kind]
    if len(kept) != len(places):
        return conditions
    restored = list(conditions)
    for place, condition in zip(places, kept, strict=True):
        restored[place] = condition
    return restored


def _with_old_decisions(conditions: Conditions, old: Conditions) -> Conditions:
    """Every difference in decisions is undone."""
    decided = [condition for condition in old if condition.type in _DECISIONS]
    if decided == [condition for condition in conditions if condition.type in _DECISIONS]:
        return conditions
    return [*decided, *(condition for condition in conditions if condition.type not in _DECISIONS)]


def _stamped(conditions: Conditions, old: Conditions, moment: dt.datetime) -> Conditions:
    """Times that the client left out: last update is now; last transition is the old one unless the status changed."""
    now = Time.of(moment)
    stamped = []
    for condition in conditions:
        if condition.last_update_time is None or condition.last_transition_time is None:
            before = condition.last_transition_time or next(
                (
                    known.last_transition_time
                    for known in old
                    if known.type == condition.type
                    and known.status == condition.status
                    and known.last_transition_time is not None
                ),
                now,
            )
            condition = msgspec.structs.replace(
                condition, last_update_time=condition.last_update_time or now, last_transition_time=before
            )
        stamped.append(condition)
    return stamped


def condition_text(obj: CertificateSigningRequest) -> str:
    """The Condition column: decision, then Failed, then Issued. Only the types count."""
    types = {condition.type for condition in obj.status.conditions}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if obj.status.certificate:
        words.append("Issued")
    return ",".join(words)


def _cells(obj: CertificateSigningRequest, now: dt.datetime) -> list[object]:
    seconds = obj.spec.expiration_seconds
    return [
        obj.metadata.name,
        age(obj.metadata.creation_timestamp, now),
        or_none(obj.spec.signer_name),
        obj.spec.username,
        NONE if seconds is None else gotext.human_duration(seconds),
        condition_text(obj),
    ]


DEFINITION = Definition(
    resource=catalog.CERTIFICATE_SIGNING_REQUESTS,
    strategy=CSRStrategy(),
    name_rule=path_segment_name,
    printer=Printer(
        (
            NAME,
            AGE,
            Column("SignerName", description="Whose signature is wanted."),
            Column("Requestor", description="Who asked."),
            Column("RequestedDuration", description="How long the certificate should hold."),
            Column("Condition", description="What was decided, and whether the certificate is there."),
        ),
        _cells,
    ),
    subresources=(
        Subresource("approval", CSRApprovalStrategy(), prints_table=False),
        Subresource("status", CSRStatusStrategy()),
    ),
    selectable_fields={"spec.signerName": lambda obj: obj.spec.signer_name},
    views=(
        View(
            catalog.CERTIFICATE_SIGNING_REQUESTS_V1BETA1,
            to_storage=certificates_v1beta1.to_v1,
            from_storage=certificates_v1beta1.from_v1,
            selectable_fields={"spec.signerName": lambda obj: obj.spec.signer_name or ""},
            same_fields=True,
            defaulter=certificates_v1beta1.default_certificate_signing_request,
            deprecation="certificates.k8s.io/v1beta1 CertificateSigningRequest is deprecated in v1.19+, unavailable in "
            "v1.22+; use certificates.k8s.io/v1 CertificateSigningRequest",
        ),
    ),
)


def definition(
    refusals: RecordedRefusals | None, columns: Sequence[str] = (), annotated: Sequence[str] = ()
) -> Definition[CertificateSigningRequest]:
    """
    Args:
        refusals: of requests with a wrong signature that are stored; None stores none.
        columns: which derived facts tables show, behind what Kubernetes shows.
        annotated: which of them stand in annotations.
    """
    printer = DEFINITION.printer
    if columns:
        printer = Printer(
            (*printer.columns, *derived_facts.columns(columns)),
            lambda obj, now: [*_cells(obj, now), *derived_facts.cells(obj, columns)],
        )
    return replace(
        DEFINITION,
        strategy=CSRStrategy(refusals, annotated),
        printer=printer,
        subresources=(
            Subresource("approval", CSRApprovalStrategy(annotated=annotated), prints_table=False),
            Subresource("status", CSRStatusStrategy(annotated=annotated)),
        ),
    )
