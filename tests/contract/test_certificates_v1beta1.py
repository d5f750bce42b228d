"""CertificateSigningRequest in v1beta1, as design 002 and Kubernetes 1.21 have it, beside v1 on one store."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS as V1
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS_V1BETA1 as V1BETA1
from kubevouch.api.certificates_v1beta1 import CertificateSigningRequest, CertificateSigningRequestCondition
from kubevouch.client.interface import MERGE_PATCH
from kubevouch.machinery.errors import APIStatusError
from kubevouch.testing import Cluster

FIXTURES = Path(__file__).parents[1] / "vectors" / "fixtures-controllers"
KUBELET_USAGES = ["key encipherment", "digital signature", "client auth"]
SERVING_USAGES = ["key encipherment", "digital signature", "server auth"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(runtime_config="certificates.k8s.io/v1beta1=true") as cluster:
        yield cluster


def manifest(name: str, request: str = "client-good.csr", **spec: Any) -> dict[str, Any]:
    content = base64.b64encode((FIXTURES / request).read_bytes()).decode()
    return {
        "apiVersion": "certificates.k8s.io/v1beta1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"request": content, **spec},
    }


def changed(obj: CertificateSigningRequest, **status: Any) -> CertificateSigningRequest:
    return msgspec.structs.replace(obj, status=msgspec.structs.replace(obj.status, **status))


def condition(kind: str) -> CertificateSigningRequestCondition:
    return CertificateSigningRequestCondition(type=kind, status="True")


def types(cluster: Cluster, name: str) -> list[str]:
    return [each.type for each in cluster.get(V1, name).status.conditions]


@pytest.fixture
def csr(cluster: Cluster) -> Iterator[CertificateSigningRequest]:
    cluster.create(manifest("subject", signerName="example.com/x"))
    yield cluster.get(V1BETA1, "subject")
    cluster.delete(V1, "subject")


@pytest.mark.parametrize(
    ("request_file", "usages", "signer"),
    [
        ("client-good.csr", KUBELET_USAGES, "kubernetes.io/kube-apiserver-client-kubelet"),
        ("serving-good.csr", SERVING_USAGES, "kubernetes.io/kubelet-serving"),
        ("client-good.csr", ["any"], "kubernetes.io/legacy-unknown"),
        ("client-good.csr", None, "kubernetes.io/legacy-unknown"),
    ],
)
def test_the_signer_is_guessed_from_the_request(
    cluster: Cluster, request_file: str, usages: list[str] | None, signer: str
) -> None:
    more = {} if usages is None else {"usages": usages}
    cluster.create(manifest("guessed", request_file, **more))
    stored = cluster.get(V1, "guessed")
    cluster.delete(V1, "guessed")
    assert stored.spec.signer_name == signer
    assert stored.spec.usages == (usages or ["digital signature", "key encipherment"])


def test_v1_neither_guesses_nor_takes_the_legacy_signer(cluster: Cluster) -> None:
    for spec in ({}, {"signerName": "kubernetes.io/legacy-unknown"}):
        wanted = manifest("refused", usages=["any"], **spec) | {"apiVersion": "certificates.k8s.io/v1"}
        with pytest.raises(APIStatusError, match=r"spec\.signerName"):
            cluster.create(wanted)


def test_usages_may_be_unknown_and_repeated(cluster: Cluster) -> None:
    cluster.create(manifest("odd", usages=["whatever", "whatever"]))
    assert cluster.get(V1, "odd").spec.usages == ["whatever", "whatever"]
    cluster.delete(V1, "odd")


def test_a_condition_without_a_status_is_true(cluster: Cluster, csr: CertificateSigningRequest) -> None:
    patch = {"status": {"conditions": [{"type": "Approved", "reason": "Because"}]}}
    name = csr.metadata.name
    cluster.run(cluster.client().patch(V1BETA1, name, patch, MERGE_PATCH, subresource="approval"))
    (approved,) = cluster.get(V1, name).status.conditions
    assert (approved.type, approved.status) == ("Approved", "True")
    assert approved.last_update_time is not None


def test_decisions_come_through_approval_only_and_other_edits_are_ignored(
    cluster: Cluster, csr: CertificateSigningRequest
) -> None:
    cluster.update(changed(csr, conditions=[condition("Approved")]), subresource="status")
    assert types(cluster, "subject") == []
    now = cluster.get(V1BETA1, "subject")
    cluster.update(changed(now, conditions=[condition("Approved")], certificate=b"ignored"), subresource="approval")
    assert types(cluster, "subject") == ["Approved"]
    assert cluster.get(V1, "subject").status.certificate == b""
    now = cluster.get(V1BETA1, "subject")
    cluster.update(changed(now, conditions=[condition("Failed")]), subresource="status")
    assert types(cluster, "subject") == ["Approved", "Failed"]


def test_failed_may_also_come_through_approval(cluster: Cluster, csr: CertificateSigningRequest) -> None:
    cluster.update(changed(csr, conditions=[condition("Failed")]), subresource="approval")
    assert types(cluster, "subject") == ["Failed"]


def test_the_certificate_is_anything_and_can_be_replaced(cluster: Cluster, csr: CertificateSigningRequest) -> None:
    cluster.update(changed(csr, certificate=b"no certificate"), subresource="status")
    cluster.update(changed(cluster.get(V1BETA1, "subject"), certificate=b"another"), subresource="status")
    assert cluster.get(V1, "subject").status.certificate == b"another"
    stored = cluster.get(V1, "subject")
    third = msgspec.structs.replace(stored, status=msgspec.structs.replace(stored.status, certificate=b"third"))
    with pytest.raises(APIStatusError, match="updates may not modify existing certificate content"):
        cluster.update(third, subresource="status")


def test_the_spec_does_not_change(cluster: Cluster, csr: CertificateSigningRequest) -> None:
    edited = msgspec.structs.replace(csr, spec=msgspec.structs.replace(csr.spec, username="mallory"))
    cluster.update(edited)
    assert cluster.get(V1, "subject").spec.username == csr.spec.username


def test_it_is_off_until_it_is_asked_for() -> None:
    with Cluster() as cluster, pytest.raises(APIStatusError):
        cluster.list(V1BETA1)


def _send(cluster: Cluster, path: str, body: dict[str, Any], kind: str = "apply-patch+yaml") -> Any:
    headers = {"Content-Type": f"application/{kind}"}
    return json.loads(cluster.run(cluster.client().raw("PATCH", path, json.dumps(body).encode(), headers)).body)


def _apply(cluster: Cluster, version: str, name: str, manager: str, body: dict[str, Any], query: str = "") -> Any:
    path = f"/apis/{version}/certificatesigningrequests/{name}?fieldManager={manager}{query}"
    return _send(cluster, path, {"kind": "CertificateSigningRequest", **body})


def _owners(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return [(entry["manager"], entry["apiVersion"]) for entry in obj["metadata"]["managedFields"]]


def test_apply_names_the_version_that_was_asked_for(cluster: Cluster) -> None:
    old, current = "certificates.k8s.io/v1beta1", "certificates.k8s.io/v1"
    body = manifest("applied")
    body["metadata"]["labels"] = {"a": "1", "b": "1"}
    created = _apply(cluster, old, "applied", "one", body)
    assert created["apiVersion"] == old
    assert created["spec"]["signerName"] == "kubernetes.io/legacy-unknown"
    assert _owners(created) == [("one", old)]
    # Owners of both versions are asked.
    label = {"apiVersion": current, "metadata": {"name": "applied", "labels": {"a": "2"}}}
    refused = _apply(cluster, current, "applied", "two", label)
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "one": .metadata.labels.a'
    forced = _apply(cluster, current, "applied", "two", label, "&force=true")
    assert _owners(forced) == [("one", old), ("two", current)]
    # What is no longer applied goes, unless it is somebody else's.
    del body["metadata"]["labels"]
    left = _apply(cluster, old, "applied", "one", body)
    assert left["metadata"]["labels"] == {"a": "2"}
    cluster.delete(V1, "applied")


def test_an_update_is_written_down_under_its_version(cluster: Cluster) -> None:
    body = manifest("updated", signerName="example.com/x")
    body["metadata"]["labels"] = {"b": "1"}
    cluster.create(body)
    path = "/apis/certificates.k8s.io/v1beta1/certificatesigningrequests/updated?fieldManager=patcher"
    patched = _send(cluster, path, {"metadata": {"labels": {"a": "1"}}}, "merge-patch+json")
    assert ("patcher", "certificates.k8s.io/v1beta1") in _owners(patched)
    cluster.delete(V1, "updated")


def test_an_event_is_applied_in_either_group(cluster: Cluster) -> None:
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-11-21T12:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "c-0",
        "action": "Look",
        "reason": "Seen",
        "type": "Normal",
        "regarding": {"kind": "ConfigMap", "name": "x", "namespace": "default"},
    }
    path = "/apis/events.k8s.io/v1/namespaces/default/events/e?fieldManager=one"
    applied = _send(cluster, path, new)
    assert applied["regarding"]["name"] == "x", applied
    assert _owners(applied) == [("one", "events.k8s.io/v1")]
    label = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "labels": {"a": "1"}}}
    path = "/api/v1/namespaces/default/events/e?fieldManager=two"
    both = _send(cluster, path, label)
    assert both["involvedObject"]["name"] == "x", both
    assert sorted(_owners(both)) == [("one", "events.k8s.io/v1"), ("two", "v1")]
