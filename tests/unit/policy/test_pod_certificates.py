from __future__ import annotations

import datetime as dt
import hashlib
from typing import Any

import msgspec
import pytest

from kubevouch.api.core_v1 import Node, Pod, PodSpec, ServiceAccount
from kubevouch.api.core_v1.pod_status import PodStatus
from kubevouch.api.core_v1.volumes import PodCertificateProjection, ProjectedVolumeSource, Volume, VolumeProjection
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    CertificateRevocation,
    CertificateRevocationSpec,
    RevocationTargets,
)
from kubevouch.api.pod_certificate_requests_v1beta1 import PodCertificateRequest
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.policy.pod_certificates import (
    Found,
    PodCertificateRules,
    account_user,
    decide,
    names_of,
    projections,
    refresh_at,
)
from kubevouch.policy.verdict import Outcome, Verdict
from kubevouch.revocation.revocations import Revocations
from pod_requests import HOUR, MINUTE, NOW, POD_UID, SIGNER, key_of, proof, public_key, request

RULES = PodCertificateRules()
NONE = Revocations.none()


def projection(**changes: Any) -> PodCertificateProjection:
    return msgspec.structs.replace(PodCertificateProjection(signer_name=SIGNER, key_type="ECDSAP256"), **changes)


def volume(*wanted: PodCertificateProjection) -> Volume:
    sources = [VolumeProjection(), *(VolumeProjection(pod_certificate=each) for each in wanted)]
    return Volume(name="certificates", projected=ProjectedVolumeSource(sources=sources))


def pod(*volumes: Volume, uid: str = POD_UID, mirror: bool = False, phase: str = "", **spec: Any) -> Pod:
    annotations = {"kubernetes.io/config.mirror": "x"} if mirror else {}
    made = PodSpec(node_name="n1", service_account_name="app", volumes=list(volumes or [volume(projection())]))
    return Pod(
        metadata=ObjectMeta(name="p", namespace="default", uid=uid, annotations=annotations),
        spec=msgspec.structs.replace(made, **spec),
        status=PodStatus(phase=phase),
    )


def found(**changes: Any) -> Found:
    made = Found(
        pod=pod(),
        account=ServiceAccount(metadata=ObjectMeta(name="app", namespace="default", uid="u2")),
        node=Node(metadata=ObjectMeta(name="n1", uid="u3")),
    )
    return msgspec.structs.replace(made, **changes)


def verdict(asked: PodCertificateRequest | None = None, rules: PodCertificateRules = RULES, **changes: Any) -> Verdict:
    return decide(asked or request(), found(**changes), rules, NONE)


def test_what_is_all_true_is_issued() -> None:
    said = verdict()
    assert (said.outcome, said.reason) == (Outcome.APPROVE, "Issued")
    assert said.message == "pod default/p runs on n1 as app"
    assert [(each.rule, each.result) for each in said.steps] == [
        ("key", "met"), ("node", "met"), ("pod", "met"), ("account", "met"), ("volume", "met"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"node": None}, "Node n1 with UID u3"),
        ({"node": Node(metadata=ObjectMeta(name="n1", uid="made-anew"))}, "Node n1 with UID u3"),
        ({"pod": None}, f"pod default/p with UID {POD_UID}"),
        ({"pod": pod(uid="of-another")}, f"pod default/p with UID {POD_UID}"),
        ({"pod": pod(node_name="")}, "pod default/p on a node"),
        ({"pod": pod(phase="Succeeded")}, "pod default/p that has not ended"),
        ({"account": None}, "ServiceAccount default/app with UID u2"),
        ({"account": ServiceAccount(metadata=ObjectMeta(uid="new"))}, "ServiceAccount default/app with UID u2"),
    ],
)
def test_what_may_come_right_waits(changes: dict[str, Any], missing: str) -> None:
    said = verdict(**changes)
    assert (said.outcome, said.missing, said.retry) == (Outcome.NO_OPINION, missing, True)
    assert said.steps[-1].result == "unknown"


OTHER_SIGNER = pod(volume(projection(signer_name="example.com/other")))


@pytest.mark.parametrize(
    ("changes", "reason", "message"),
    [
        ({"pod": pod(node_name="n2")}, "NotThePods", "pod default/p runs on node n2, not on n1"),
        ({"pod": pod(mirror=True)}, "NotThePods", "pod default/p is a mirror pod, which has no account"),
        (
            {"pod": pod(service_account_name="other")},
            "NotThePods",
            "pod default/p has the account other, not app",
        ),
        (
            {"pod": OTHER_SIGNER},
            "NotAskedForByPod",
            f"no volume of pod default/p names the signer {SIGNER}",
        ),
        ({"pod": pod(Volume(name="x"))}, "NotAskedForByPod", f"no volume of pod default/p names the signer {SIGNER}"),
        (
            {"pod": pod(volume(projection(key_type="ED25519")))},
            "NotAskedForByPod",
            f"no volume of pod default/p asks {SIGNER} for ECDSA-P256 for 86400 seconds",
        ),
        (
            {"pod": pod(volume(projection(max_expiration_seconds=3600)))},
            "NotAskedForByPod",
            f"no volume of pod default/p asks {SIGNER} for ECDSA-P256 for 86400 seconds",
        ),
        (
            {"pod": pod(volume(projection(user_annotations={"a.b/c": "d"})))},
            "NotAskedForByPod",
            f"no volume of pod default/p asks {SIGNER} for ECDSA-P256 for 86400 seconds",
        ),
    ],
)
def test_what_never_comes_right_is_denied(changes: dict[str, Any], reason: str, message: str) -> None:
    said = verdict(**changes)
    assert (said.outcome, said.reason, said.message) == (Outcome.DENY, reason, message)
    assert said.steps[-1].result == "unmet"


def test_one_of_several_volumes_is_enough() -> None:
    many = pod(volume(projection(key_type="RSA3072"), projection(max_expiration_seconds=86400)), Volume(name="x"))
    assert verdict(pod=many).outcome is Outcome.APPROVE
    assert len(list(projections(many))) == 2


@pytest.mark.parametrize(
    ("named", "key"),
    [
        ("RSA3072", "RSA-3072"), ("RSA4096", "RSA-4096"), ("ECDSAP256", "P-256"), ("ECDSAP384", "P-384"),
        ("ECDSAP521", "P-521"), ("ED25519", "Ed25519"),
    ],
)  # fmt: skip
def test_every_kind_of_key_that_a_volume_can_name(named: str, key: str) -> None:
    asked = request(key_of(key))
    assert verdict(asked, pod=pod(volume(projection(key_type=named)))).outcome is Outcome.APPROVE


def test_pods_that_name_no_signer_where_that_is_wanted() -> None:
    rules = PodCertificateRules(any_pod=True)
    assert verdict(rules=rules, pod=OTHER_SIGNER).outcome is Outcome.APPROVE
    # What a pod does name is held against it.
    assert verdict(rules=rules, pod=pod(volume(projection(key_type="RSA3072")))).outcome is Outcome.DENY
    assert verdict(rules=rules, pod=pod(node_name="n2")).outcome is Outcome.DENY


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unverified_user_annotations": {"a.b/c": "d"}}, "InvalidUnverifiedUserAnnotations"),
        ({"stub_pkcs10_request": b"x"}, "UnsupportedKeyType"),
        ({"pod_name": "../p"}, "NotThePods"),
        ({"service_account_name": "a/../b"}, "NotThePods"),
        ({"node_name": ""}, "NotThePods"),
    ],
)
def test_what_a_server_should_not_have_stored(changes: dict[str, Any], reason: str) -> None:
    assert verdict(request(**changes)).reason == reason


@pytest.mark.parametrize(("name", "allowed"), [("P-256", True), ("Ed25519", True), ("RSA-3072", False)])
def test_the_proof_of_before_1_36(name: str, allowed: bool) -> None:
    key = key_of(name)
    old = request(stub_pkcs10_request=None, pkix_public_key=public_key(key), proof_of_possession=proof(key))
    kind = {"P-256": "ECDSAP256", "Ed25519": "ED25519", "RSA-3072": "RSA3072"}[name]
    said = verdict(old, pod=pod(volume(projection(key_type=kind))))
    assert (said.outcome, said.reason) == (
        (Outcome.APPROVE, "Issued") if allowed else (Outcome.DENY, "UnsupportedKeyType")
    )


# ------------------------------------------------------------------ revoked


FINGERPRINT = hashlib.sha256(public_key(key_of("P-256"))).hexdigest()


@pytest.mark.parametrize(
    ("targets", "since", "message"),
    [
        ({"keys": [FINGERPRINT]}, -HOUR, "its key is revoked: "),
        (
            {"users": ["system:serviceaccount:default:app"]},
            HOUR,
            "system:serviceaccount:default:app was revoked after this was asked for: ",
        ),
        ({"users": ["system:serviceaccount:default:app"]}, -HOUR, ""),
        ({"nodes": ["n1"]}, HOUR, "node n1 was revoked after this was asked for: "),
        ({"nodes": ["n1"]}, -HOUR, ""),
        ({"nodes": ["n2"]}, HOUR, ""),
    ],
)
def test_what_is_revoked_gets_nothing_more(targets: dict[str, Any], since: dt.timedelta, message: str) -> None:
    asked = replace_metadata(request(), creation_timestamp=Time.of(NOW))
    revocations = Revocations()
    spec = CertificateRevocationSpec(revoked=RevocationTargets(**targets), reason="keyCompromise")
    metadata = ObjectMeta(name="r", creation_timestamp=Time.of(NOW + since))
    revocations.load([CertificateRevocation(metadata=metadata, spec=spec)])
    said = decide(asked, found(), RULES, revocations)
    assert said.outcome is (Outcome.DENY if message else Outcome.APPROVE)
    assert said.reason == ("Revoked" if message else "Issued")
    if message:
        assert said.message.startswith(message)


# ------------------------------------------------------------------ what it says


def test_a_certificate_names_the_pods_account() -> None:
    asked = request(stub_pkcs10_request=None)
    subject, names = names_of(asked, PodCertificateRules(trust_domain="prod.example.com"))
    assert subject.common_name == ""
    assert names.uris == ("spiffe://prod.example.com/ns/default/sa/app",)
    assert names.dns_names == ()
    assert account_user(asked) == "system:serviceaccount:default:app"


def test_every_place_is_filled() -> None:
    rules = PodCertificateRules(
        trust_domain="d",
        uris=(),
        dns_names=("{pod}.{namespace}.pods", "{pod}.{namespace}.pods", "{node}.nodes"),
        common_name="{podUID}/{serviceAccount}@{trustDomain}",
    )
    subject, names = names_of(request(), rules)
    assert (subject.common_name, names.dns_names) == (f"{POD_UID}/app@d", ("p.default.pods", "n1.nodes"))


@pytest.mark.parametrize(
    ("lifetime", "part", "after"),
    [
        (24 * HOUR, 2 / 3, 16 * HOUR),
        (HOUR, 0.0, 10 * MINUTE),
        (HOUR, 1.0, 50 * MINUTE),
        (20 * MINUTE, 0.9, 10 * MINUTE),
    ],
)
def test_when_the_kubelet_asks_again(lifetime: dt.timedelta, part: float, after: dt.timedelta) -> None:
    assert refresh_at(NOW, NOW + lifetime, part) == NOW + after
