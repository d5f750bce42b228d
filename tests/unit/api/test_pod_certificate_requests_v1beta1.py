from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubevouch.api import pod_certificate_requests_v1 as v1
from kubevouch.api.catalog import POD_CERTIFICATE_REQUESTS
from kubevouch.api.meta_v1 import Condition
from kubevouch.api.pod_certificate_requests_v1beta1 import (
    PodCertificateRequest,
    PodCertificateRequestStatus,
    final_condition,
    validate_pod_certificate_request,
    validate_pod_certificate_request_status_update,
    validate_pod_certificate_request_update,
)
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import Time
from pod_requests import NOW, condition, key_of, proof, public_key, request, status

FIXTURE = Path(__file__).parents[2] / "vectors" / "etcd" / "podcertificaterequest.json"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"
DOMAIN = "must be a fully qualified domain and path of the form 'example.com/signer-name'"


def faults(subject: PodCertificateRequest, *, v1: bool = False) -> list[str]:
    return [str(each) for each in validate_pod_certificate_request(subject, v1=v1)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_expiration_seconds": 3600},
        {"max_expiration_seconds": 7862400},
        {"signer_name": "kubernetes.io/nobody-knows-it"},
        {"signer_name": "kubernetes.io/x", "max_expiration_seconds": 3600},
        {"signer_name": "notkubernetes.io/x", "max_expiration_seconds": 7862400},
        {"unverified_user_annotations": {"Example.COM/K": "v", "a.b/c": ""}},
        {"unverified_user_annotations": {"a.b/c": "x" * (262144 - 5)}},
        {"pod_uid": "x" * 128, "node_uid": "é" * 64},
        {
            "stub_pkcs10_request": None,
            "pkix_public_key": public_key(key_of("P-521")),
            "proof_of_possession": proof(key_of("P-521")),
        },
    ],
)
def test_what_passes(changes: dict[str, Any]) -> None:
    assert faults(request(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"signer_name": ""}, "spec.signerName: Required value"),
        ({"signer_name": "bad"}, f'spec.signerName: Invalid value: "bad": {DOMAIN}'),
        ({"signer_name": "a.b/c/d"}, f'spec.signerName: Invalid value: "a.b/c/d": {DOMAIN}'),
        ({"pod_uid": ""}, 'spec.podUID: Invalid value: "": must not be empty'),
        ({"service_account_uid": ""}, 'spec.serviceAccountUID: Invalid value: "": must not be empty'),
        ({"node_uid": ""}, 'spec.nodeUID: Invalid value: "": must not be empty'),
        ({"pod_uid": "x" * 129}, "spec.podUID: Too long: may not be more than 128 bytes"),
        ({"service_account_uid": "x" * 129}, "spec.serviceAccountUID: Too long: may not be more than 128 bytes"),
        ({"node_uid": "é" * 65}, "spec.nodeUID: Too long: may not be more than 128 bytes"),
        ({"max_expiration_seconds": None}, "spec.maxExpirationSeconds: Required value: must be set"),
        (
            {"max_expiration_seconds": 3599},
            "spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]",
        ),
        (
            {"max_expiration_seconds": 7862401},
            "spec.maxExpirationSeconds: Invalid value: 7862401: must be in the range [3600, 7862400]",
        ),
        (
            {"max_expiration_seconds": 86401, "signer_name": "kubernetes.io/x"},
            "spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]",
        ),
        (
            {"max_expiration_seconds": 86401, "signer_name": "a.kubernetes.io/x"},
            "spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]",
        ),
        (
            {"unverified_user_annotations": {"Plain": "x"}},
            (
                'spec.unverifiedUserAnnotations: Invalid value: "plain": must be a domain-prefixed key '
                '(such as "acme.io/foo")'
            ),
        ),
        ({"unverified_user_annotations": {"": "x"}}, "spec.unverifiedUserAnnotations: Required value"),
        (
            {"unverified_user_annotations": {"a.b/c": "x" * (262144 - 4)}},
            "spec.unverifiedUserAnnotations: Too long: may not be more than 262144 bytes",
        ),
        ({"stub_pkcs10_request": b"x"}, "spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], text: str) -> None:
    assert faults(request(**changes)) == [text]


@pytest.mark.parametrize("field", ["podName", "serviceAccountName", "nodeName"])
@pytest.mark.parametrize("value", ["", "A", "a_b", "a..b"])
def test_names(field: str, value: str) -> None:
    attribute = {"podName": "pod_name", "serviceAccountName": "service_account_name", "nodeName": "node_name"}[field]
    changes: dict[str, Any] = {attribute: value}
    (text,) = faults(request(**changes))
    assert text.startswith(f'spec.{field}: Invalid value: "{value}": {SUBDOMAIN}')


def test_signer_names_are_lower_case_and_annotations_are_keys() -> None:
    assert faults(request(signer_name="Example.com/s"))[0].startswith('spec.signerName: Invalid value: "Example.com"')
    (text,) = faults(request(unverified_user_annotations={"a b/c": ""}))
    assert text.startswith('spec.unverifiedUserAnnotations: Invalid value: "a b/c": prefix part ')


def test_v1_has_one_way_only() -> None:
    assert faults(request(), v1=True) == []
    assert faults(request(stub_pkcs10_request=None), v1=True) == ["spec.stubPKCS10Request: Required value"]


def test_the_order_of_faults() -> None:
    nothing = request(
        signer_name="", pod_name="", pod_uid="", service_account_name="", service_account_uid="", node_name="",
        node_uid="", max_expiration_seconds=1, stub_pkcs10_request=None, unverified_user_annotations={"x": ""},
    )  # fmt: skip
    assert [text.partition(":")[0] for text in faults(nothing)] == [
        "spec.signerName", "spec.unverifiedUserAnnotations", "spec.podName", "spec.podUID", "spec.serviceAccountName",
        "spec.serviceAccountUID", "spec.nodeName", "spec.nodeUID", "spec.maxExpirationSeconds", "spec",
    ]  # fmt: skip


def test_a_day_is_what_nobody_asks_for() -> None:
    assert v1.default_pod_certificate_request(request(max_expiration_seconds=None)).spec.max_expiration_seconds == 86400
    given = request(max_expiration_seconds=3600)
    assert v1.default_pod_certificate_request(given) is given


def test_the_spec_never_changes() -> None:
    new, old = request(pod_name="q"), request()
    assert validate_pod_certificate_request_update(old, old) == []
    (text,) = map(str, validate_pod_certificate_request_update(new, old))
    assert text.startswith('spec: Invalid value: {"SignerName":"example.com/pods","PodName":"q","PodUID":"1111')
    assert text.endswith('"UnverifiedUserAnnotations":null}: field is immutable')
    assert '"MaxExpirationSeconds":86400,"PKIXPublicKey":null,"ProofOfPossession":null,"StubPKCS10Request":"MI' in text


# ------------------------------------------------------------------ answers


def answer(new: PodCertificateRequestStatus, old: PodCertificateRequestStatus | None = None) -> list[str]:
    before = msgspec.structs.replace(request(), status=old or PodCertificateRequestStatus())
    after = msgspec.structs.replace(request(), status=new)
    return [str(each) for each in validate_pod_certificate_request_status_update(after, before, NOW)]


def of(*conditions: Condition) -> PodCertificateRequestStatus:
    return PodCertificateRequestStatus(conditions=list(conditions))


AT = "status.conditions.[0]"


@pytest.mark.parametrize(
    ("conditions", "texts"),
    [
        (
            [condition("Foo")],
            [f'{AT}.type: Unsupported value: "Foo": supported values: "Issued", "Denied", "Failed"'],
        ),
        (
            [condition("Denied"), condition("Failed")],
            [
                (
                    'status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition with type '
                    '"Issued", "Denied", or "Failed"'
                )
            ],
        ),
        (
            [condition(status="False")],
            [f'{AT}.status: Unsupported value: "False": supported values: "True"'],
        ),
        ([condition(last_transition_time=None)], ["status.conditions[0].lastTransitionTime: Required value"]),
        ([condition(reason="")], ["status.conditions[0].reason: Required value"]),
        ([condition(reason="R" * 1025)], ["status.conditions[0].reason: Too long: may not be more than 1024 bytes"]),
        (
            [condition(message="m" * 32769)],
            ["status.conditions[0].message: Too long: may not be more than 32768 bytes"],
        ),
        (
            [condition(observed_generation=-1)],
            ["status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero"],
        ),
        ([condition(message="", reason="A:b,c_9", last_transition_time=Time.parse("2099-01-01T00:00:00Z"))], []),
    ],
)
def test_conditions(conditions: list[Condition], texts: list[str]) -> None:
    assert answer(of(*conditions)) == texts


def test_a_reason_is_one_word() -> None:
    (text,) = answer(of(condition(reason="two words")))
    assert text.startswith('status.conditions[0].reason: Invalid value: "two words": a condition reason must ')


@pytest.mark.parametrize("first", ["Denied", "Failed", "Issued"])
def test_the_first_answer_stays(first: str) -> None:
    given = status() if first == "Issued" else of(condition(first))
    assert answer(given) == []
    assert answer(given, given) == []
    final = ["status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"]
    for other in (of(condition("Failed", reason="Other")), status(certificate_chain=""), of()):
        assert answer(other, given) == final


def test_only_an_answer_says_anything() -> None:
    note = PodCertificateRequestStatus(certificate_chain="x")
    assert answer(of()) == []
    assert answer(note) == [
        'status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
    ]


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
@pytest.mark.parametrize("change", ["certificate_chain", "not_before", "not_after", "begin_refresh_at"])
def test_a_refusal_holds_no_certificate(kind: str, change: str) -> None:
    full = status()
    refused = msgspec.structs.replace(of(condition(kind)), **{change: getattr(full, change)})
    assert answer(refused) == [
        (
            "status: Invalid value: non-condition status fields must be empty when denying or failing the "
            "PodCertificateRequest"
        )
    ]


def test_what_was_decided() -> None:
    assert final_condition(request()) is None
    assert final_condition(msgspec.structs.replace(request(), status=of(condition("Denied", status="False")))) is None
    assert final_condition(msgspec.structs.replace(request(), status=status())) == condition("Issued")


# ------------------------------------------------------------------ on the wire


def test_what_kubernetes_stored_is_read_and_written_byte_for_byte() -> None:
    fixture = json.loads(FIXTURE.read_text())
    value = base64.b64decode(fixture["value_b64"])
    resource = POD_CERTIFICATE_REQUESTS
    read = resource.codec.from_value(value, resource.api_version, resource.kind)
    assert resource.codec.to_value(read, resource.api_version, resource.kind) == value
    shown = json.loads(json_codec.encode(read))
    expected = {key: value for key, value in fixture["object"].items() if key not in ("kind", "apiVersion")}
    del expected["metadata"]["resourceVersion"]
    assert shown == expected
    assert list(shown["spec"]) == list(expected["spec"])


def test_v1_shows_the_same_without_the_old_way() -> None:
    stored = msgspec.structs.replace(request(), status=status())
    assert v1.to_v1beta1(v1.from_v1beta1(stored)) == stored
    old = request(pkix_public_key=b"k", proof_of_possession=b"p", stub_pkcs10_request=None)
    shown = json.loads(json_codec.encode(v1.from_v1beta1(old)))["spec"]
    assert shown["stubPKCS10Request"] is None
    assert "pkixPublicKey" not in shown
    short = v1.from_v1beta1(request(max_expiration_seconds=None))
    assert v1.default_pod_certificate_request(short).spec.max_expiration_seconds == 86400
    day = v1.from_v1beta1(request())
    assert v1.default_pod_certificate_request(day) is day
