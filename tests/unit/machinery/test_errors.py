"""machinery/errors.py: every failure's code, reason, message and details, as kube-apiserver writes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.machinery import errors, field
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import StatusCause
from kubevouch.machinery.scheme import GroupResource, GroupVersionKind

CSRS = GroupResource("certificates.k8s.io", "certificatesigningrequests")
SECRETS = GroupResource("", "secrets")
CSR = GroupVersionKind("certificates.k8s.io", "v1", "CertificateSigningRequest")
SECRET = GroupVersionKind("", "v1", "Secret")
ABOUT_CSR = {"name": "a", "group": "certificates.k8s.io", "kind": "certificatesigningrequests"}


@pytest.mark.parametrize(
    ("error", "code", "reason", "message", "details"),
    [
        (errors.bad_request("why"), 400, "BadRequest", "why", None),
        (errors.unauthorized(), 401, "Unauthorized", "Unauthorized", None),
        (
            errors.forbidden(CSRS, "a", "why"),
            403,
            "Forbidden",
            'certificatesigningrequests.certificates.k8s.io "a" is forbidden: why',
            ABOUT_CSR,
        ),
        (errors.forbidden(SECRETS, "", "why"), 403, "Forbidden", "secrets is forbidden: why", {"kind": "secrets"}),
        (errors.forbidden_path("why"), 403, "Forbidden", "forbidden: why", {}),
        (
            errors.not_found(CSRS, "a"),
            404,
            "NotFound",
            'certificatesigningrequests.certificates.k8s.io "a" not found',
            ABOUT_CSR,
        ),
        (errors.unknown_resource(), 404, "NotFound", "the server could not find the requested resource", {}),
        (
            errors.method_not_allowed(),
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
            {},
        ),
        (
            errors.method_not_supported(CSRS, "update"),
            405,
            "MethodNotAllowed",
            'update is not supported on resources of kind "certificatesigningrequests.certificates.k8s.io"',
            {"group": "certificates.k8s.io", "kind": "certificatesigningrequests"},
        ),
        (errors.not_acceptable("why"), 406, "NotAcceptable", "why", None),
        (errors.not_acceptable("why", routed=True), 406, "NotAcceptable", "why", {}),
        (
            errors.already_exists(SECRETS, "a"),
            409,
            "AlreadyExists",
            'secrets "a" already exists',
            {"name": "a", "kind": "secrets"},
        ),
        (
            errors.already_exists(SECRETS, "a", being_deleted=True),
            409,
            "AlreadyExists",
            'object is being deleted: secrets "a" already exists',
            {"name": "a", "kind": "secrets"},
        ),
        (
            errors.generate_name_conflict(SECRETS, "a"),
            409,
            "AlreadyExists",
            'secrets "a" already exists, the server was not able to generate a unique name for the object',
            {"name": "a", "kind": "secrets", "retryAfterSeconds": 1},
        ),
        (
            errors.conflict(SECRETS, "a"),
            409,
            "Conflict",
            ('Operation cannot be fulfilled on secrets "a": the object has been modified; please apply your changes to '
            "the latest version and try again"),
            {"name": "a", "kind": "secrets"},
        ),
        (
            errors.precondition_failed(CSR, "a", "why"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on CertificateSigningRequest.certificates.k8s.io "a": why',
            {"name": "a", "group": "certificates.k8s.io", "kind": "CertificateSigningRequest"},
        ),
        (
            errors.apply_conflict("why", [StatusCause(message="m")]),
            409,
            "Conflict",
            "why",
            {"causes": [{"message": "m"}]},
        ),
        (errors.expired("why"), 410, "Expired", "why", None),
        (
            errors.request_entity_too_large("limit is 3145728"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
            None,
        ),
        (errors.unsupported_media_type("why", routed=True), 415, "UnsupportedMediaType", "why", {}),
        (
            errors.unprocessable(),
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
            {},
        ),
        (errors.too_many_requests("why", 7), 429, "TooManyRequests", "why", {"retryAfterSeconds": 7}),
        (
            errors.internal("why"),
            500,
            "InternalError",
            "Internal error occurred: why",
            {"causes": [{"message": "why"}]},
        ),
        (errors.untyped("why"), 500, "", "why", None),
        (errors.service_unavailable("why"), 503, "ServiceUnavailable", "why", {"retryAfterSeconds": 1}),
        (errors.timeout("why"), 504, "Timeout", "Timeout: why", {}),
        (
            errors.too_large_resource_version(9, 7),
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 7",
            {
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        ),
    ],
    ids=lambda value: "" if not isinstance(value, APIStatusError) else value.status.message[:40],
)  # fmt: skip
def test_failures(error: APIStatusError, code: int, reason: str, message: str, details: Any) -> None:
    assert (error.code, error.reason, str(error)) == (code, reason, message)
    assert error.status.status == "Failure"
    assert (None if error.status.details is None else json_codec.to_builtins(error.status.details)) == details


def test_invalid_names_every_cause_and_repeats_no_text() -> None:
    problems = [field.required("spec.a"), field.invalid("spec.b", "x", "why"), field.required("spec.a")]
    error = errors.invalid(CSR, "n", problems)
    assert (error.code, error.reason) == (422, "Invalid")
    assert str(error) == (
        'CertificateSigningRequest.certificates.k8s.io "n" is invalid: [spec.a: Required value, spec.b: Invalid value: '
        '"x": why]'
    )
    details = error.status.details
    assert details is not None
    assert (details.name, details.group, details.kind) == ("n", "certificates.k8s.io", "CertificateSigningRequest")
    assert [msgspec.structs.astuple(cause) for cause in details.causes] == [
        ("FieldValueRequired", "Required value", "spec.a"),
        ("FieldValueInvalid", 'Invalid value: "x": why', "spec.b"),
        ("FieldValueRequired", "Required value", "spec.a"),
    ]


def test_invalid_of_the_core_group_and_of_no_kind() -> None:
    assert str(errors.invalid(SECRET, "n", [field.required("a")])) == 'Secret "n" is invalid: a: Required value'
    no_kind = GroupVersionKind("", "", "")
    assert str(errors.invalid(no_kind, "", [field.required("a")])) == ' "" is invalid: a: Required value'


def test_names_are_quoted_as_go_quotes() -> None:
    assert str(errors.not_found(SECRETS, 'a"\n')) == 'secrets "a\\"\\n" not found'


def test_an_expired_list_may_go_on() -> None:
    assert errors.expired("why", continue_token="token").status.metadata.continue_ == "token"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (field.invalid("a", "x", "why"), 'a: Invalid value: "x": why'),
        (field.invalid("a", field.TypedString("x"), "why"), 'a: Invalid value: "x": why'),
        (field.invalid("a", 'q"<', "why"), 'a: Invalid value: "q\\"<": why'),
        (field.invalid("a", field.TypedString("<"), "why"), 'a: Invalid value: "\\u003c": why'),
        (field.invalid("a", 7, "why"), "a: Invalid value: 7: why"),
        (field.invalid("a", True, "why"), "a: Invalid value: true: why"),
        (field.invalid("a", None, "why"), "a: Invalid value: null: why"),
        (field.invalid("a", ["x"], "why"), 'a: Invalid value: ["x"]: why'),
        (field.invalid("a", "", ""), 'a: Invalid value: ""'),
        (field.required("a"), "a: Required value"),
        (field.required("a", "why"), "a: Required value: why"),
        (field.duplicate("a", "x"), 'a: Duplicate value: "x"'),
        (field.forbidden("a", "why"), "a: Forbidden: why"),
        (field.not_supported("a", "x", ["B", "A"]), 'a: Unsupported value: "x": supported values: "B", "A"'),
        (field.too_long("a", 5), "a: Too long: may not be more than 5 bytes"),
        (field.too_many("a", 3, 2), "a: Too many: 3: must have at most 2 items"),
        (field.not_found("a", "x"), 'a: Not found: "x"'),
    ],
)
def test_field_errors(error: field.FieldError, text: str) -> None:
    assert str(error) == text
    assert field.aggregate([error, error]) == text


def test_faults_beyond_a_thousand_are_counted() -> None:
    faults = [field.required(f"spec.items[{number}]") for number in range(1200)]
    status = errors.invalid(GroupVersionKind("", "v1", "K"), "n", faults).status
    assert status.message.endswith("spec.items[999]: Required value], and 200 more")
    assert status.details is not None and len(status.details.causes) == 1000


def test_an_answer_tells_of_no_more_faults_than_it_has_room_for() -> None:
    """Each may repeat what the schema offers: thousands of them made answers of 66 MB."""
    faults = [field.not_supported(f"spec.items[{number}]", "q", ["x" * 50_000]) for number in range(900)]
    status = errors.invalid(GroupVersionKind("", "v1", "K"), "n", faults).status
    assert status.details is not None and len(status.details.causes) == 5
    one = errors.invalid(GroupVersionKind("", "v1", "K"), "n", [field.not_supported("a", "q", ["x" * 900_000])]).status
    assert one.details is not None and len(one.details.causes) == 1


def test_a_refusal_says_what_was_refused_and_quotes_nothing_else() -> None:
    user = 'User "system:serviceaccount:a:b" cannot get resource "configmaps" in API group "" in the namespace "n"'
    maps = GroupResource("", "configmaps")
    refused = errors.forbidden(maps, "kept", user)
    assert errors.loggable(refused) == "APIStatusError: 403 Forbidden: cannot get configmaps kept in the namespace n"
    everywhere = 'User "x" cannot list resource "secrets" in API group "" at the cluster scope: RBAC: more'
    assert errors.loggable(errors.forbidden(GroupResource("", "secrets"), "", everywhere)) == (
        "APIStatusError: 403 Forbidden: cannot list secrets"
    )
    told = RuntimeError("error publishing")
    told.__cause__ = refused
    assert errors.loggable(told) == "RuntimeError: 403 Forbidden: cannot get configmaps kept in the namespace n"
    by_webhook = errors.forbidden(maps, "kept", 'denied request: the value "hunter2" is not allowed')
    assert errors.loggable(by_webhook) == "APIStatusError: 403 Forbidden"
