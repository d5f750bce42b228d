"""Whether a pod gets the certificate that is asked for it, and what it says.

A PodCertificateRequest proves nothing: only nodes are held to the truth when they create one, everybody else with that
right may name any pod, and who did is not written down. So pod, node, account and their UIDs count as the API server
has them now, and the pod has to name the signer itself.

A denial is for ever: the kubelet never asks again for that volume. It is for what can never become right; whatever
time, a cache or a repaired Node can put right stays pending.

Source of the traps: NodeRestriction and the kubelet's podcertificate manager of Kubernetes 1.36, which compares neither
signer nor annotations nor lifetime with the pod's volume.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator

import msgspec

from kubevouch import wellknown
from kubevouch.api.core_v1 import Node, Pod, ServiceAccount
from kubevouch.api.core_v1.volumes import PodCertificateProjection
from kubevouch.api.issued_pod_certificates import REFRESH_MARGIN
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import SPIFFE_ID, CertificateSignerSpec
from kubevouch.api.pod_certificate_requests_v1beta1 import (
    DEFAULT_SECONDS,
    INVALID_USER_ANNOTATIONS,
    UNSUPPORTED_KEY_TYPE,
    PodCertificateRequest,
    key_source,
)
from kubevouch.machinery.text.names import subdomain
from kubevouch.pki.pod_keys import PodKeyError, verify_possession
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.policy.verdict import Outcome, Step, StepResult, Verdict
from kubevouch.revocation.revocations import Revocations

APPROVER = "pods"

ISSUED = "Issued"
NOT_ASKED_FOR, NOT_THE_PODS, REVOKED = "NotAskedForByPod", "NotThePods", "Revoked"
"""Reasons of denials, beside those that Kubernetes has names for."""

USAGES = ("digital signature", "client auth", "server auth")
REFRESH = 2 / 3

_MIRROR = "kubernetes.io/config.mirror"
_PLACE = re.compile(r"\{([A-Za-z]+)\}", re.ASCII)
_KEY_TYPES = {
    "RSA3072": "RSA-3072",
    "RSA4096": "RSA-4096",
    "ECDSAP256": "ECDSA-P256",
    "ECDSAP384": "ECDSA-P384",
    "ECDSAP521": "ECDSA-P521",
    "ED25519": "Ed25519",
}
_ENDED = ("Failed", "Succeeded")


class PodCertificateRules(msgspec.Struct, frozen=True, kw_only=True):
    """What one signer does for pods. Texts may hold places in braces, as ``spec.podCertificates`` has them.

    Args:
        any_pod: also for pods that name the signer in no volume.
        refresh: the part of its lifetime after which the kubelet asks for the next one.
    """

    trust_domain: str = "cluster.local"
    uris: tuple[str, ...] = (SPIFFE_ID,)
    dns_names: tuple[str, ...] = ()
    common_name: str = ""
    usages: tuple[str, ...] = USAGES
    any_pod: bool = False
    refresh: float = REFRESH


def rules_of(spec: CertificateSignerSpec) -> PodCertificateRules | None:
    """What a signer does for pods; None where that is nothing."""
    said = spec.pod_certificates
    if said is None:
        return None
    defaults = PodCertificateRules()
    return PodCertificateRules(
        trust_domain=said.trust_domain or defaults.trust_domain,
        uris=tuple(said.uris),
        dns_names=tuple(said.dns_names),
        common_name=said.common_name,
        usages=tuple(said.usages) or tuple(each for each in USAGES if each in spec.usages.permitted),
        any_pod=said.any_pod,
        refresh=said.refresh_percent / 100 if said.refresh_percent else defaults.refresh,
    )


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server has under the names of a request, now; None where it has nothing."""

    pod: Pod | None = None
    account: ServiceAccount | None = None
    node: Node | None = None


def decide(
    request: PodCertificateRequest, found: Found, rules: PodCertificateRules, revocations: Revocations
) -> Verdict:
    """Approved is to be issued, denied is denied for ever, and no opinion says what it waits for."""
    steps: list[Step] = []
    for verdict in _checks(request, found, rules, revocations):
        if isinstance(verdict, Verdict):
            return msgspec.structs.replace(verdict, steps=(*steps, *verdict.steps))
        steps.append(verdict)
    spec = request.spec
    said = f"pod {request.metadata.namespace}/{spec.pod_name} runs on {spec.node_name} as {spec.service_account_name}"
    return Verdict(Outcome.APPROVE, APPROVER, ISSUED, said, steps=tuple(steps))


def _met(rule: str, got: str, by: str) -> Step:
    return Step(rule, StepResult.MET, got, by=by)


def _deny(rule: str, reason: str, message: str, got: str = "", expected: str = "") -> Verdict:
    steps = (Step(rule, StepResult.UNMET, got, expected),)
    return Verdict(Outcome.DENY, APPROVER, reason, message, steps=steps)


def _wait(rule: str, missing: str, got: str = "", expected: str = "") -> Verdict:
    steps = (Step(rule, StepResult.UNKNOWN, got, expected),)
    return Verdict(Outcome.NO_OPINION, APPROVER, missing=missing, steps=steps, retry=True)


def _checks(
    request: PodCertificateRequest, found: Found, rules: PodCertificateRules, revocations: Revocations
) -> Iterator[Step | Verdict]:
    spec = request.spec
    # 1. The key, whoever has looked at it before.
    try:
        key = verify_possession(key_source(spec))
    except PodKeyError as err:
        yield _deny("key", UNSUPPORTED_KEY_TYPE, str(err))
        return
    if key.kind.value == "RSA" and not spec.stub_pkcs10_request:
        yield _deny("key", UNSUPPORTED_KEY_TYPE, "an RSA key has to come in a PKCS #10 request; ECDSAP256 need not")
        return
    yield _met("key", key.name, "proof of possession")
    # 2. What the pod's author says to the signer. This one takes nothing, so nothing is passed over.
    if spec.unverified_user_annotations:
        told = ", ".join(sorted(spec.unverified_user_annotations))
        yield _deny("annotations", INVALID_USER_ANNOTATIONS, f"this signer knows none of {told[:1000]}", told[:200])
        return
    # 3. Who must not have one any more.
    refused = _revoked(request, key, revocations)
    if refused:
        yield _deny("revocations", REVOKED, refused)
        return
    # 4. The names: they become part of names.
    for value in (request.metadata.namespace, spec.pod_name, spec.service_account_name, spec.node_name):
        if subdomain(value):
            yield _deny("names", NOT_THE_PODS, f"{value[:200]!r} is the name of nothing")
            return
    yield from _of_cluster(request, found)
    if found.pod is not None:
        yield _of_volume(request, found.pod, key, any_pod=rules.any_pod)


def _revoked(request: PodCertificateRequest, key: PublicKey, revocations: Revocations) -> str:
    if revoked := revocations.key(hashlib.sha256(key.canonical_info).digest()):
        return f"its key is revoked: {revoked}"
    created = request.metadata.creation_timestamp
    if created is None:
        return ""
    spec, asked = request.spec, created.datetime()
    account = account_user(request)
    if revoked := revocations.user(account, asked):
        return f"{account} was revoked after this was asked for: {revoked}"
    if why := revocations.node(spec.node_name, asked):
        return f"node {spec.node_name} was revoked after this was asked for: {why}"
    return ""


def _of_cluster(request: PodCertificateRequest, found: Found) -> Iterator[Step | Verdict]:
    """Node, pod and account, in NodeRestriction's order."""
    spec, namespace = request.spec, request.metadata.namespace
    # 5. The Node. One that was made anew has another UID than its kubelet may know for a moment.
    if found.node is None or found.node.metadata.uid != spec.node_uid:
        has = "" if found.node is None else found.node.metadata.uid
        yield _wait("node", f"Node {spec.node_name} with UID {spec.node_uid}", has, spec.node_uid)
        return
    yield _met("node", spec.node_name, spec.node_uid)
    # 6. The pod. Another one of the same name may have been here before, or be there now.
    pod, name = found.pod, f"{namespace}/{spec.pod_name}"
    if pod is None or pod.metadata.uid != spec.pod_uid:
        has = "" if pod is None else pod.metadata.uid
        yield _wait("pod", f"pod {name} with UID {spec.pod_uid}", has, spec.pod_uid)
        return
    if not pod.spec.node_name:
        yield _wait("pod.node", f"pod {name} on a node", "", spec.node_name)
        return
    if pod.spec.node_name != spec.node_name:
        said = f"pod {name} runs on node {pod.spec.node_name}, not on {spec.node_name}"
        yield _deny("pod.node", NOT_THE_PODS, said, pod.spec.node_name, spec.node_name)
        return
    if _MIRROR in pod.metadata.annotations:
        yield _deny("pod.mirror", NOT_THE_PODS, f"pod {name} is a mirror pod, which has no account")
        return
    if pod.status.phase in _ENDED:
        yield _wait("pod.phase", f"pod {name} that has not ended", pod.status.phase)
        return
    # 7. Its account, which never changes.
    if pod.spec.service_account_name != spec.service_account_name:
        said = f"pod {name} has the account {pod.spec.service_account_name}, not {spec.service_account_name}"
        got, expected = pod.spec.service_account_name, spec.service_account_name
        yield _deny("account", NOT_THE_PODS, said, got, expected)
        return
    account = found.account
    if account is None or account.metadata.uid != spec.service_account_uid:
        has = "" if account is None else account.metadata.uid
        missing = f"ServiceAccount {namespace}/{spec.service_account_name} with UID {spec.service_account_uid}"
        yield _wait("account", missing, has, spec.service_account_uid)
        return
    yield _met("pod", name, spec.pod_uid)
    yield _met("account", spec.service_account_name, spec.service_account_uid)


def _of_volume(request: PodCertificateRequest, pod: Pod, key: PublicKey, *, any_pod: bool) -> Step | Verdict:
    """8. A node may ask any signer for any of its pods: what the pod itself names counts. Volumes never change."""
    spec = request.spec
    named = [each for each in projections(pod) if each.signer_name == spec.signer_name]
    if any(_is_of(each, request, key) for each in named):
        return _met("volume", spec.signer_name, "the pod's volume")
    if any_pod and not named:
        return Step("volume", StepResult.SKIPPED, by="any pod")
    where = f"pod {request.metadata.namespace}/{spec.pod_name}"
    if not named:
        return _deny("volume", NOT_ASKED_FOR, f"no volume of {where} names the signer {spec.signer_name}")
    asked = f"{key.name} for {spec.max_expiration_seconds} seconds"
    return _deny("volume", NOT_ASKED_FOR, f"no volume of {where} asks {spec.signer_name} for {asked}", asked)


def projections(pod: Pod) -> Iterator[PodCertificateProjection]:
    """The certificates that a pod's volumes hold."""
    for volume in pod.spec.volumes:
        for source in (volume.projected.sources or ()) if volume.projected is not None else ():
            if source.pod_certificate is not None:
                yield source.pod_certificate


def _is_of(wanted: PodCertificateProjection, request: PodCertificateRequest, key: PublicKey) -> bool:
    spec = request.spec
    longest = DEFAULT_SECONDS if wanted.max_expiration_seconds is None else wanted.max_expiration_seconds
    return (
        _KEY_TYPES.get(wanted.key_type) == key.name
        and (spec.max_expiration_seconds or 0) <= longest
        and wanted.user_annotations == spec.unverified_user_annotations
    )


# ------------------------------------------------------------------ what the certificate says


def account_user(request: PodCertificateRequest) -> str:
    """As whom the pod acts in the cluster."""
    account = f"{request.metadata.namespace}:{request.spec.service_account_name}"
    return f"{wellknown.SERVICE_ACCOUNT_USER_PREFIX}{account}"


def names_of(request: PodCertificateRequest, rules: PodCertificateRules) -> tuple[Subject, SubjectAltNames]:
    """Nothing that the requester wrote, but for names that :func:`decide` has found to be those of the cluster."""
    spec = request.spec
    values = {
        "trustDomain": rules.trust_domain,
        "namespace": request.metadata.namespace,
        "serviceAccount": spec.service_account_name,
        "pod": spec.pod_name,
        "podUID": spec.pod_uid,
        "node": spec.node_name,
    }

    def filled(text: str) -> str:
        return _PLACE.sub(lambda place: values[place[1]], text)

    names = SubjectAltNames(
        dns_names=tuple(dict.fromkeys(map(filled, rules.dns_names))),
        uris=tuple(dict.fromkeys(map(filled, rules.uris))),
    )
    return Subject(common_name=filled(rules.common_name)), names


def refresh_at(not_before: dt.datetime, not_after: dt.datetime, part: float) -> dt.datetime:
    """When the kubelet is to ask for the next certificate: no nearer to either end than the server lets it be."""
    wanted = not_before + (not_after - not_before) * part
    return min(max(wanted, not_before + REFRESH_MARGIN), not_after - REFRESH_MARGIN)
