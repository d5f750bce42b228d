"""Certificate requests that must not come to anything, by raw requests: refused at once, or failed by the signer."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import Up
from wire import CSRS, Wire

VECTORS = Path(__file__).parents[1] / "vectors"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
OTHER = "example.com/dolphins"
USAGES = ["digital signature", "client auth"]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    folder = tmp_path_factory.mktemp("requests")
    with Up(folder) as up:
        yield Wire.of_kubeconfig(folder / "cluster/admin.conf", folder)
        assert up.stderr == ""


def manifest(request: str | bytes, signer: str = CLIENT, **spec: Any) -> dict[str, Any]:
    contents = (VECTORS / "fixtures-controllers" / request).read_bytes() if isinstance(request, str) else request
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"bad-{next(_numbers)}"},
        "spec": {"request": base64.b64encode(contents).decode(), "signerName": signer, "usages": USAGES} | spec,
    }


class Stored:
    """A request in the cluster."""

    def __init__(self, wire: Wire, tree: dict[str, Any]) -> None:
        self.wire = wire
        self.path = f"{CSRS}/{tree['metadata']['name']}"
        reply = wire.json("POST", CSRS, tree)
        assert reply.code == 201, reply

    def get(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.wire.request("GET", self.path).body)
        return found

    def decide(self, kind: str) -> None:
        """Adds a condition by hand. Whatever controller writes meanwhile, the next try has it."""
        for _ in range(10):
            tree = self.get()
            tree["status"].setdefault("conditions", []).append(condition(kind))
            reply = self.wire.json("PUT", f"{self.path}/approval", tree)
            if reply.code != 409:
                break
        assert reply.code == 200, reply

    def put(self, subresource: str, **status: Any) -> tuple[int, str, str]:
        tree = self.get()
        tree["status"] |= status
        return self.wire.json("PUT", f"{self.path}/{subresource}", tree).told

    def until(self, *wanted: str) -> dict[str, Any]:
        """The status once it has one of these conditions, or ``certificate``, by a watch."""
        query = f"?watch=true&fieldSelector=metadata.name={self.path.rpartition('/')[2]}"
        with self.wire.connected() as connection:
            connection.sendall(f"GET {CSRS}{query} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            for line in connection.makefile("rb"):
                if not line.startswith(b"{"):
                    continue
                status: dict[str, Any] = json.loads(line)["object"]["status"]
                found = {each["type"] for each in status.get("conditions", [])} | set(status)
                if found & set(wanted):
                    return status
        raise AssertionError("the watch ended")


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "ByHand", "message": "a test wants it"}


# ------------------------------------------------------------------ refused at once


@pytest.mark.parametrize(
    ("tree", "field", "message"),
    [
        (manifest(b""), "spec.request", "PEM block type must be CERTIFICATE REQUEST"),
        (manifest(b"hello"), "spec.request", "PEM block type must be CERTIFICATE REQUEST"),
        (manifest("der-not-pem.csr"), "spec.request", "PEM block type must be CERTIFICATE REQUEST"),
        (manifest("pem-certificate.csr"), "spec.request", "PEM block type must be CERTIFICATE REQUEST"),
        (manifest("bad-signature.csr"), "spec.request", "x509: ECDSA verification failure"),
        (manifest("user-rsa512.csr"), "spec.request", "crypto/rsa: 512-bit keys are insecure"),
        (
            manifest("user-good.csr", expirationSeconds=599),
            "spec.expirationSeconds",
            "Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
        ),
        (
            manifest("user-good.csr", "nope"),
            "spec.signerName",
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        (manifest("user-good.csr", usages=[]), "spec.usages", "Required value"),
        (manifest("user-good.csr", usages=["clientauth"]), "spec.usages[0]", 'Unsupported value: "clientauth"'),
        (manifest("user-good.csr", usages=["any", "any"]), "spec.usages[1]", 'Duplicate value: "any"'),
    ],
    ids=[
        "empty", "text", "der", "certificate", "signature", "rsa512", "599", "signer", "usages", "usage", "twice",
    ],
)  # fmt: skip
def test_refused_by_validation(admin: Wire, tree: dict[str, Any], field: str, message: str) -> None:
    reply = admin.json("POST", CSRS, tree)
    code, reason, _ = reply.told
    assert (code, reason) == (422, "Invalid")
    (cause,) = reply.status["details"]["causes"]
    assert cause["field"] == field
    assert message in cause["message"]
    assert admin.request("GET", f"{CSRS}/{tree['metadata']['name']}").code == 404


def test_nobody_asks_for_the_group_of_masters(admin: Wire) -> None:
    code, reason, text = admin.json("POST", CSRS, manifest("user-masters.csr")).told
    assert (code, reason) == (403, "Forbidden")
    assert text.endswith(f"use of {CLIENT} signer with system:masters group is not allowed")


# ------------------------------------------------------------------ failed by the signer


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (manifest("client-wrong-org.csr", KUBELET), "subject organization is not system:nodes"),
        (manifest("client-bad-cn.csr", KUBELET), "subject common name does not begin with system:node:"),
        (manifest("client-dns.csr", KUBELET), "DNS subjectAltNames are not allowed"),
        (manifest("client-ip.csr", KUBELET), "IP subjectAltNames are not allowed"),
        (
            manifest("client-good.csr", KUBELET, usages=[*USAGES, "server auth"]),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            manifest("client-good.csr", KUBELET, usages=["digital signature"]),
            "usages did not match [client auth digital signature key encipherment]",
        ),
    ],
    ids=["organization", "name", "dns", "ip", "extra-usage", "missing-usage"],
)
def test_approved_by_mistake_and_failed_by_the_signer(admin: Wire, tree: dict[str, Any], message: str) -> None:
    stored = Stored(admin, tree)
    stored.decide("Approved")
    status = stored.until("Failed", "certificate")
    assert "certificate" not in status
    (failed,) = [each for each in status["conditions"] if each["type"] == "Failed"]
    assert failed["reason"] == "SignerValidationFailure"
    assert failed["message"] == message


def test_a_signer_that_nobody_is_waits_without_harm(admin: Wire) -> None:
    stored = Stored(admin, manifest("user-good.csr", OTHER))
    stored.decide("Approved")
    # Another request passes the signer meanwhile, so it has seen this one.
    Stored(admin, manifest("client-good.csr", KUBELET)).until("certificate")
    assert set(stored.get()["status"]) == {"conditions"}


# ------------------------------------------------------------------ what cannot be taken back


@pytest.mark.parametrize(("first", "second"), [("Approved", "Denied"), ("Denied", "Approved")])
def test_both_decisions_exclude_each_other(admin: Wire, first: str, second: str) -> None:
    stored = Stored(admin, manifest("user-good.csr", OTHER))
    stored.decide(first)
    code, reason, text = stored.put("approval", conditions=[condition(first), condition(second)])
    assert (code, reason) == (422, "Invalid")
    assert text.endswith(
        f'status.conditions: Invalid value: "{second}": Approved and Denied conditions are mutually exclusive'
    )


@pytest.mark.parametrize("kind", ["Approved", "Denied"])
@pytest.mark.parametrize("subresource", ["approval", "status"])
def test_a_decision_stays(admin: Wire, kind: str, subresource: str) -> None:
    stored = Stored(admin, manifest("user-good.csr", OTHER))
    stored.decide(kind)
    code, reason, text = stored.put(subresource, conditions=[])
    assert (code, reason) == (422, "Invalid")
    assert text.endswith(f'status.conditions: Forbidden: updates may not remove a condition of type "{kind}"')
    patch = b'{"status":{"conditions":null}}'
    path = f"{stored.path}/{subresource}"
    assert admin.request("PATCH", path, patch, "application/merge-patch+json").told == (code, reason, text)
    assert [each["type"] for each in stored.get()["status"]["conditions"]] == [kind]


@pytest.mark.parametrize(
    "value", ["", base64.b64encode((VECTORS / "fixtures-server/cert-worker-7.pem").read_bytes()).decode()]
)
def test_an_issued_certificate_stays(admin: Wire, value: str) -> None:
    stored = Stored(admin, manifest("client-good.csr", KUBELET))
    issued = stored.until("certificate")["certificate"]
    code, reason, text = stored.put("status", certificate=value)
    assert (code, reason) == (422, "Invalid")
    assert text.endswith("status.certificate: Forbidden: updates may not modify existing certificate content")
    assert stored.get()["status"]["certificate"] == issued


def test_a_certificate_that_is_none(admin: Wire) -> None:
    stored = Stored(admin, manifest("user-good.csr", OTHER))
    stored.decide("Approved")
    code, _, text = stored.put("status", certificate=base64.b64encode(b"garbage").decode())
    assert code == 422
    assert text.endswith(
        'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block'
    )


def test_what_was_asked_for_stays(admin: Wire) -> None:
    stored = Stored(admin, manifest("user-good.csr", OTHER))
    tree = stored.get()
    tree["spec"] |= {"signerName": CLIENT, "username": "system:masters", "groups": ["system:masters"]}
    assert admin.json("PUT", stored.path, tree).code == 200
    spec = stored.get()["spec"]
    assert spec["signerName"] == OTHER
    assert spec["username"] == "kubernetes-admin"
