from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.api import certificates_v1
from kubevouch.api.certificates_v1beta1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
    ClusterTrustBundle,
    ClusterTrustBundleSpec,
    default_certificate_signing_request,
    from_v1,
    to_v1,
    validate_cluster_trust_bundle,
    validate_cluster_trust_bundle_update,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time

FIXTURES = Path(__file__).parents[2] / "vectors" / "fixtures-server"
CA = (FIXTURES / "ca.pem").read_text()
LEAF = (FIXTURES / "cert-worker-7.pem").read_text()


def bundle(
    trust_bundle: str = CA, signer_name: str = "", name: str = "b", generate_name: str = ""
) -> ClusterTrustBundle:
    return ClusterTrustBundle(
        metadata=ObjectMeta(name=name, generate_name=generate_name),
        spec=ClusterTrustBundleSpec(signer_name=signer_name, trust_bundle=trust_bundle),
    )


def faults(subject: ClusterTrustBundle) -> list[str]:
    return [str(error) for error in validate_cluster_trust_bundle(subject)]


def test_names_follow_the_signer() -> None:
    assert faults(bundle()) == []
    assert faults(bundle(name="a:b")) == [
        'metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name'
    ]
    assert faults(bundle(signer_name="a.b/c", name="a.b:c:x")) == []
    assert faults(bundle(signer_name="a.b/c", name="x")) == [
        'metadata.name: Invalid value: "x": ClusterTrustBundle for signerName a.b/c must be named with prefix a.b:c:'
    ]
    [text] = faults(bundle(signer_name="a.b/c", name="a.b:c:X"))
    assert text.startswith('metadata.name: Invalid value: "a.b:c:X": a lowercase RFC 1123 subdomain must')


def test_generated_names_may_end_in_a_dash() -> None:
    assert faults(bundle(signer_name="a.b/c", name="a.b:c:x-1", generate_name="a.b:c:x-")) == []


def test_the_signer_is_checked_if_there_is_one() -> None:
    assert faults(bundle(signer_name="nodots/x", name="nodots:x:y")) == [
        'spec.signerName: Invalid value: "nodots": should be a domain with at least two segments separated by dots'
    ]


@pytest.mark.parametrize(
    ("trust_bundle", "why"),
    [
        ("", ["at least one trust anchor must be provided"]),
        ("text", ["at least one trust anchor must be provided"]),
        (CA + CA, ["duplicate trust anchor (indices [0 1])"]),
        (CA + LEAF, ["entry 1 does not have the CA bit set"]),
        (
            "-----BEGIN FOO-----\nAA==\n-----END FOO-----\n" + CA.replace("-----\n", "-----\nA: b\n\n", 1),
            ["entry 0 has bad block type: FOO", "entry 1 has PEM block headers"],
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
            ["entry 0 does not parse as X.509"],
        ),
    ],
)
def test_anchors(trust_bundle: str, why: list[str]) -> None:
    assert faults(bundle(trust_bundle)) == [
        f'spec.trustBundle: Invalid value: "<value omitted>": {text}' for text in why
    ]


def test_size() -> None:
    assert faults(bundle("x" * ((1 << 20) + 1))) == ["spec.trustBundle: Too long: may not be more than 1048576 bytes"]


def test_update_parses_only_what_changed_and_keeps_the_signer() -> None:
    stored = bundle("never parsed")
    assert validate_cluster_trust_bundle_update(stored, stored) == []
    assert [str(e) for e in validate_cluster_trust_bundle_update(bundle("garbage"), stored)] == [
        'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided'
    ]
    moved = bundle("never parsed", signer_name="a.b/c", name="a.b:c:x")
    assert [str(e) for e in validate_cluster_trust_bundle_update(moved, stored)] == [
        'spec.signerName: Invalid value: "a.b/c": field is immutable'
    ]


# ------------------------------------------------------------------ the CSR of old


def old_csr(fixture: str | None, *usages: str) -> CertificateSigningRequest:
    request = (FIXTURES / fixture).read_bytes() if fixture else None
    return CertificateSigningRequest(spec=CertificateSigningRequestSpec(request=request, usages=list(usages)))


@pytest.mark.parametrize(
    ("fixture", "usages", "signer_name"),
    [
        (
            "csr-client-worker-7.pem",
            ("digital signature", "client auth"),
            "kubernetes.io/kube-apiserver-client-kubelet",
        ),
        ("csr-serving-worker-7.pem", ("digital signature", "server auth"), "kubernetes.io/kubelet-serving"),
        ("csr-client-worker-7.pem", (), "kubernetes.io/legacy-unknown"),
        ("csr-alice.pem", ("client auth",), "kubernetes.io/legacy-unknown"),
        ("not-pem.txt", ("client auth",), "kubernetes.io/legacy-unknown"),
        (None, ("client auth",), "kubernetes.io/legacy-unknown"),
    ],
)
def test_the_signer_is_guessed(fixture: str | None, usages: tuple[str, ...], signer_name: str) -> None:
    csr = default_certificate_signing_request(old_csr(fixture, *usages))
    assert csr.spec.signer_name == signer_name
    assert csr.spec.usages == (list(usages) or ["digital signature", "key encipherment"])


def test_a_signer_that_is_given_stays_even_if_it_is_empty() -> None:
    csr = CertificateSigningRequest(spec=CertificateSigningRequestSpec(signer_name=""))
    assert default_certificate_signing_request(csr).spec.signer_name == ""


def test_conditions_become_true() -> None:
    csr = CertificateSigningRequest(
        status=CertificateSigningRequestStatus(
            conditions=[
                CertificateSigningRequestCondition(type="Approved"),
                CertificateSigningRequestCondition(type="Own", status="False"),
            ]
        )
    )
    defaulted = default_certificate_signing_request(csr)
    assert [condition.status for condition in defaulted.status.conditions] == ["True", "False"]


def test_both_versions_say_the_same() -> None:
    csr = certificates_v1.CertificateSigningRequest(
        metadata=ObjectMeta(name="c"),
        spec=certificates_v1.CertificateSigningRequestSpec(
            request=b"r",
            signer_name="a.b/c",
            expiration_seconds=600,
            usages=["any"],
            username="u",
            uid="i",
            groups=["g"],
            extra={"k": ["v"]},
        ),
        status=certificates_v1.CertificateSigningRequestStatus(
            conditions=[
                certificates_v1.CertificateSigningRequestCondition(
                    type="Approved",
                    status="True",
                    reason="r",
                    message="m",
                    last_update_time=Time(1),
                    last_transition_time=Time(2),
                )
            ],
            certificate=b"c",
        ),
    )
    assert to_v1(from_v1(csr)) == csr
