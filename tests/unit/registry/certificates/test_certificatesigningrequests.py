"""The requester's stamp, and what each way of writing can change."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
import pytest

from decisions import csr, request_pem
from kubevouch import wellknown
from kubevouch.api.certificates_v1 import (
    INVALID_SIGNATURE_REASON,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.meta import OwnerReference, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import usages
from kubevouch.registry.certificates.certificatesigningrequests import (
    DEFINITION,
    MAX_RECORDED_BYTES,
    RECORDED_AN_HOUR,
    RecordedRefusals,
    condition_text,
    definition,
)
from kubevouch.registry.interface import Context, Strategy

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
EARLIER = Time.of(NOW - dt.timedelta(hours=1))
USER = UserInfo("jane", "u-1", ("a", "b"), {"k": ("v", "w")})
V1BETA1 = "certificates.k8s.io/v1beta1"


def context(api_version: str = "certificates.k8s.io/v1") -> Context:
    return Context(user=USER, now=NOW, api_version=api_version)


def condition(kind: str, status: str = "True", **more: Any) -> CertificateSigningRequestCondition:
    return CertificateSigningRequestCondition(type=kind, status=status, **more)


def with_status(*conditions: CertificateSigningRequestCondition, certificate: bytes = b"") -> CertificateSigningRequest:
    status = CertificateSigningRequestStatus(conditions=list(conditions), certificate=certificate)
    return msgspec.structs.replace(csr("example.com/a"), status=status)


def subresource(name: str) -> Strategy[CertificateSigningRequest]:
    found = DEFINITION.subresource(name)
    assert found is not None
    return found.strategy


def types(obj: CertificateSigningRequest) -> list[str]:
    return [each.type for each in obj.status.conditions]


def test_whatever_the_body_says_the_requester_is_who_sent_it() -> None:
    sent = with_status(condition("Approved"), certificate=b"x")
    lies = {"username": "admin", "uid": "0", "groups": ["system:masters"], "extra": {"x": ["y"]}}
    sent = msgspec.structs.replace(sent, spec=msgspec.structs.replace(sent.spec, **lies))
    made = DEFINITION.strategy.prepare_for_create(context(), sent)
    assert (made.spec.username, made.spec.uid, made.spec.groups) == ("jane", "u-1", ["a", "b"])
    assert made.spec.extra == {"k": ["v", "w"]}
    assert made.spec.signer_name == "example.com/a"
    assert made.status == CertificateSigningRequestStatus()


def test_a_plain_update_changes_metadata_only() -> None:
    old = with_status(condition("Denied"), certificate=b"old")
    new = with_status(condition("Approved"), certificate=b"new")
    spec = msgspec.structs.replace(new.spec, username="other")
    new = replace_metadata(msgspec.structs.replace(new, spec=spec), labels={"a": "b"})
    got = DEFINITION.strategy.prepare_for_update(context(), new, old)
    assert (got.spec, got.status, got.metadata.labels) == (old.spec, old.status, {"a": "b"})


def test_approval_changes_conditions_and_not_the_certificate() -> None:
    old = with_status(certificate=b"old")
    new = with_status(condition("Approved"), certificate=b"new")
    got = subresource("approval").prepare_for_update(context(), new, old)
    assert types(got) == ["Approved"]
    assert got.status.certificate == b"old"
    assert got.spec == old.spec


@pytest.mark.parametrize("name", ["approval", "status"])
def test_a_subresource_leaves_what_was_asked_for_alone(name: str) -> None:
    """What was approved is what is signed."""
    old, new = with_status(), msgspec.structs.replace(with_status(), spec=csr("example.com/other", b"other").spec)
    assert subresource(name).prepare_for_update(context(), new, old).spec == old.spec


def test_times_left_out_are_stamped() -> None:
    stamped = subresource("approval").prepare_for_update(context(), with_status(condition("Approved")), with_status())
    [found] = stamped.status.conditions
    assert found.last_update_time == found.last_transition_time == Time.of(NOW)


@pytest.mark.parametrize(("status", "transition"), [("True", EARLIER), ("False", Time.of(NOW))])
def test_a_transition_is_a_change_of_status(status: str, transition: Time) -> None:
    old = with_status(condition("Failed", last_update_time=EARLIER, last_transition_time=EARLIER))
    got = subresource("status").prepare_for_update(context(), with_status(condition("Failed", status)), old)
    [found] = got.status.conditions
    assert (found.last_update_time, found.last_transition_time) == (Time.of(NOW), transition)


@pytest.mark.parametrize(
    ("given", "update", "transition"),
    [
        ({"last_update_time": EARLIER}, EARLIER, Time.of(NOW)),
        ({"last_transition_time": EARLIER}, Time.of(NOW), EARLIER),
    ],
)
def test_one_time_left_out_is_stamped(given: dict[str, Any], update: Time, transition: Time) -> None:
    new = with_status(condition("Approved", **given))
    [found] = subresource("approval").prepare_for_update(context(), new, with_status()).status.conditions
    assert (found.last_update_time, found.last_transition_time) == (update, transition)


def test_times_that_were_given_stay() -> None:
    given = condition("Approved", last_update_time=EARLIER, last_transition_time=EARLIER)
    got = subresource("approval").prepare_for_update(context(), with_status(given), with_status())
    assert got.status.conditions == [given]


APPROVED = condition("Approved", reason="good", last_update_time=EARLIER, last_transition_time=EARLIER)


def test_status_cannot_edit_a_decision() -> None:
    edited = msgspec.structs.replace(APPROVED, reason="edited")
    new = with_status(condition("Failed"), edited, certificate=b"issued")
    got = subresource("status").prepare_for_update(context(), new, with_status(APPROVED))
    assert types(got) == ["Failed", "Approved"]
    assert got.status.conditions[1] == APPROVED
    assert got.status.certificate == b"issued"


@pytest.mark.parametrize(("old", "new"), [([APPROVED], []), ([], [APPROVED])], ids=["removing", "adding"])
def test_adding_or_removing_a_decision_is_left_for_validation_to_refuse(old: list[Any], new: list[Any]) -> None:
    strategy = subresource("status")
    got = strategy.prepare_for_update(context(), with_status(*new), with_status(*old))
    assert types(got) == [each.type for each in new]
    before = replace_metadata(with_status(*old), resource_version="1")
    after = replace_metadata(got, resource_version="1")
    assert [error.path for error in strategy.validate_update(context(), after, before)] != []


@pytest.mark.parametrize(("old", "new"), [([APPROVED], []), ([], [APPROVED])], ids=["removing", "adding"])
def test_in_v1beta1_it_is_undone(old: list[Any], new: list[Any]) -> None:
    got = subresource("status").prepare_for_update(context(V1BETA1), with_status(*new), with_status(*old))
    assert got.status.conditions == old


@pytest.mark.parametrize(
    ("conditions", "certificate", "text"),
    [
        ([], b"", "Pending"),
        (["Approved"], b"", "Approved"),
        (["Denied"], b"", "Denied"),
        (["Approved", "Denied"], b"", "Denied"),
        (["Approved"], b"x", "Approved,Issued"),
        (["Approved", "Failed"], b"", "Approved,Failed"),
        (["Failed"], b"x", "Pending,Failed,Issued"),
        (["Other"], b"", "Pending"),
    ],
)
def test_the_condition_column(conditions: list[str], certificate: bytes, text: str) -> None:
    assert condition_text(with_status(*map(condition, conditions), certificate=certificate)) == text


@pytest.mark.parametrize(("seconds", "shown"), [(None, "<none>"), (600, "10m"), (86400, "24h")])
def test_the_row(seconds: int | None, shown: str) -> None:
    obj = csr("example.com/a")
    obj = msgspec.structs.replace(
        obj, spec=msgspec.structs.replace(obj.spec, username="jane", expiration_seconds=seconds)
    )
    obj = replace_metadata(obj, creation_timestamp=EARLIER)
    assert DEFINITION.printer.cells(obj, NOW) == ["csr-1", "60m", "example.com/a", "jane", shown, "Pending"]


SOURCE = "kubevouch.io/source-address"


@pytest.mark.parametrize("source", ["192.0.2.7", ""])
def test_the_server_says_from_where_a_request_came(source: str) -> None:
    """And nobody else: neither at creation nor later."""
    sent = replace_metadata(csr("example.com/a"), annotations={SOURCE: "198.51.100.1", "x": "y"})
    made = DEFINITION.strategy.prepare_for_create(context_from(source), sent)
    expected = {"x": "y", SOURCE: source} if source else {"x": "y"}
    assert made.metadata.annotations == expected
    forged = replace_metadata(made, annotations={SOURCE: "203.0.113.1", "z": ""})
    for strategy in (DEFINITION.strategy, subresource("approval"), subresource("status")):
        kept = strategy.prepare_for_update(context_from("203.0.113.1"), forged, made)
        assert kept.metadata.annotations == ({"z": "", SOURCE: source} if source else {"z": ""})


def test_a_requester_does_not_say_why_a_request_waits() -> None:
    sent = replace_metadata(csr("example.com/a"), annotations={wellknown.JOIN_STUCK_ANNOTATION: "approve it", "x": "y"})
    made = DEFINITION.strategy.prepare_for_create(context(), sent)
    assert made.metadata.annotations == {"x": "y"}
    assert made.spec.signer_name == "example.com/a"
    told = replace_metadata(made, annotations={wellknown.JOIN_STUCK_ANNOTATION: "no approver"})
    assert DEFINITION.strategy.prepare_for_update(context(), told, made).metadata == told.metadata


def context_from(source: str) -> Context:
    machine = UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers",))
    return Context(user=machine, now=NOW, api_version="certificates.k8s.io/v1", source=source)


def test_a_persons_request_stays_as_it_is() -> None:
    ctx = msgspec.structs.replace(context_from("192.0.2.7"), user=USER)
    assert DEFINITION.strategy.prepare_for_create(ctx, csr("example.com/a")).metadata.annotations == {}


# ------------------------------------------------------------------ validation

GOOD = csr("example.com/a", request_pem("a"))
TWICE = msgspec.structs.replace(GOOD, spec=msgspec.structs.replace(GOOD.spec, usages=["client auth", "client auth"]))
ISSUED = (Path(__file__).parents[3] / "vectors" / "fixtures-controllers" / "issued-valid.crt").read_bytes()


def test_a_new_request_is_validated_as_its_version_has_it() -> None:
    strategy = DEFINITION.strategy
    assert strategy.validate(context(), GOOD) == []
    assert [error.path for error in strategy.validate(context(), TWICE)] == ["spec.usages[1]"]
    assert strategy.validate(context(V1BETA1), TWICE) == []
    assert [error.path for error in strategy.validate(context(V1BETA1), csr("example.com/a"))] == ["spec.request"]


@pytest.mark.parametrize("name", ["", "approval", "status"])
def test_a_change_is_validated_as_its_version_has_it(name: str) -> None:
    strategy = subresource(name) if name else DEFINITION.strategy
    assert strategy.validate_update(context(), GOOD, GOOD) == []
    assert strategy.validate_update(context(), TWICE, TWICE) == []
    assert [error.path for error in strategy.validate_update(context(), TWICE, GOOD)] == ["spec.usages[1]"]
    assert strategy.validate_update(context(V1BETA1), TWICE, GOOD) == []


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("", ["status.conditions", "status.certificate"]),
        ("approval", ["status.certificate"]),
        ("status", ["status.conditions"]),
    ],
)
def test_each_way_of_writing_has_its_own_right(name: str, refused: list[str]) -> None:
    strategy = subresource(name) if name else DEFINITION.strategy
    status = CertificateSigningRequestStatus(conditions=[condition("Approved")], certificate=ISSUED)
    new = msgspec.structs.replace(GOOD, status=status)
    assert [error.path for error in strategy.validate_update(context(), new, GOOD)] == refused


# ------------------------------------------------------------------ requests that their own key has not signed

FORGED = (Path(__file__).parents[3] / "vectors" / "fixtures-controllers" / "bad-signature.csr").read_bytes()


def recorded(
    obj: CertificateSigningRequest, refusals: RecordedRefusals, now: dt.datetime = NOW, *, dry_run: bool = False
) -> bool:
    """Whether the request is denied as it is stored, and says so."""
    ctx = msgspec.structs.replace(context(), now=now, dry_run=dry_run, annotations={}, warnings=[])
    made = definition(refusals).strategy.prepare_for_create(ctx, obj)
    assert (made.spec.username, made.spec.request) == ("jane", obj.spec.request)
    assert bool(made.status.conditions) is bool(ctx.annotations) is bool(ctx.warnings)
    if not made.status.conditions:
        return False
    [denied] = made.status.conditions
    assert (denied.type, denied.status, denied.reason) == ("Denied", "True", INVALID_SIGNATURE_REASON)
    assert denied.message.startswith("the certificate request is not signed by its own key: ")
    assert denied.last_update_time == denied.last_transition_time == Time.of(now)
    assert list(ctx.annotations.values()) == [denied.message]
    assert ctx.warnings == [f"{denied.message}; it is recorded as denied"]
    return True


def forged(**metadata: Any) -> CertificateSigningRequest:
    changed: CertificateSigningRequest = replace_metadata(csr("example.com/a", FORGED), **metadata)
    return changed


def test_only_small_requests_that_nothing_keeps_are_recorded() -> None:
    assert recorded(forged(), RecordedRefusals())
    assert not recorded(GOOD, RecordedRefusals())
    assert not recorded(forged(), RecordedRefusals(), dry_run=True)
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid="1")
    keeping: list[dict[str, Any]] = [
        {"labels": {"a": "b"}},
        {"annotations": {"a": "b"}},
        {"finalizers": ["a/b"]},
        {"owner_references": [owner]},
    ]
    for more in keeping:
        assert not recorded(forged(**more), RecordedRefusals())
    for size, small in ((MAX_RECORDED_BYTES, True), (MAX_RECORDED_BYTES + 1, False)):
        spec = msgspec.structs.replace(forged().spec, request=FORGED.ljust(size, b"\n"))
        assert recorded(msgspec.structs.replace(forged(), spec=spec), RecordedRefusals()) is small
    for number, small in ((len(usages.ALL), True), (len(usages.ALL) + 1, False)):
        spec = msgspec.structs.replace(forged().spec, usages=["client auth"] * number)
        assert recorded(msgspec.structs.replace(forged(), spec=spec), RecordedRefusals()) is small


def test_so_many_an_hour_are_recorded() -> None:
    refusals = RecordedRefusals()
    assert all(recorded(forged(), refusals) for _ in range(RECORDED_AN_HOUR))
    assert not recorded(forged(), refusals)
    one = dt.timedelta(hours=1) / RECORDED_AN_HOUR + dt.timedelta(milliseconds=1)
    # A clock that goes back earns nothing.
    assert not recorded(forged(), refusals, NOW - one)
    assert [recorded(forged(), refusals, NOW + one) for _ in range(2)] == [True, False]
    long = NOW + dt.timedelta(days=9)
    assert sum(recorded(forged(), refusals, long) for _ in range(RECORDED_AN_HOUR + 2)) == RECORDED_AN_HOUR
