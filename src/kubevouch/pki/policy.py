"""What Kubernetes' own signers sign, and for how long (Kubernetes 1.36).

The texts become ``Failed`` conditions and are Kubernetes' to the byte; so is the order of the tests, which differs
between the two kubelet signers. Sources: ``pkg/apis/certificates/helpers.go``,
``pkg/controller/certificates/signer/signer.go``, ``…/authority/policies.go``.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Sequence

import msgspec

from kubevouch.machinery.text.gotext import go_time, quote
from kubevouch.pki.errors import AuthorityError, AuthorityExpiredError, PolicyError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.usages import CLIENT_AUTH, DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, SERVER_AUTH
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.wellknown import (
    ATTESTED_CLIENT_SIGNER_PREFIX,
    ATTESTED_SERVING_SIGNER_PREFIX,
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBE_APISERVER_CLIENT_SIGNER,
    KUBELET_SERVING_SIGNER,
    LEGACY_UNKNOWN_SIGNER,
    MASTERS_GROUP,
    NODE_USER_PREFIX,
    NODES_GROUP,
)

NODE_SIGNERS = frozenset({KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER})
"""Kubernetes' own signers whose certificates name a node."""

_ATTESTED = {
    ATTESTED_CLIENT_SIGNER_PREFIX: KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    ATTESTED_SERVING_SIGNER_PREFIX: KUBELET_SERVING_SIGNER,
}


FAILED_REASON = "SignerValidationFailure"
"""Reason of the Failed condition that a refusal becomes."""

DEFAULT_SIGNING_DURATION = dt.timedelta(hours=8760)
BACKDATE = dt.timedelta(minutes=5)
MIN_TTL = dt.timedelta(seconds=600)
# From this lifetime on the back-date is taken off the end, so that the span is what was asked for.
_SHORT = dt.timedelta(hours=8)

_SERVING_USAGES = frozenset({DIGITAL_SIGNATURE, SERVER_AUTH})
_CLIENT_USAGES = frozenset({DIGITAL_SIGNATURE, CLIENT_AUTH})
# Of a name that is no node's; it may be as long as the request.
_SHOWN = 253
_SYSTEM = "system:"
_MASTERS_REFUSED = f"use of {KUBE_APISERVER_CLIENT_SIGNER} signer with {MASTERS_GROUP} group is not allowed"


def attestation_provider(signer_name: str) -> str:
    """The method of attestation that a signer of Cluster API's "kubelet authentication" is of; else empty."""
    for prefix in _ATTESTED:
        if signer_name.startswith(prefix):
            return signer_name.removeprefix(prefix)
    return ""


def rules_signer(signer_name: str) -> str:
    """The signer of Kubernetes by whose rules ``signer_name`` signs: of an attested one the kubelets', else itself."""
    for prefix, signer in _ATTESTED.items():
        if signer_name.startswith(prefix) and signer_name != prefix:
            return signer
    return signer_name


def names_node(signer_name: str) -> bool:
    """Whether the signer's certificates name a node."""
    return rules_signer(signer_name) in NODE_SIGNERS


def verify_shape(signer_name: str, request: CertificateRequest, usages: Sequence[str]) -> None:
    """Hold a request against the rules of one of Kubernetes' four signers.

    Raises:
        PolicyError: the request can never be signed; the message is that of the Failed condition.
        AuthorityError: the signer is none of the four.
    """
    rule = _RULES.get(rules_signer(signer_name))
    if rule is None:
        raise AuthorityError(f"unrecognized signerName: {quote(signer_name)}")
    rule(request, usages)
    if names_node(signer_name):
        verify_node_name(request.subject)


def verify_node_name(subject: Subject) -> None:
    """That the subject of a node's certificate names a node (S25), which Kubernetes leaves to whoever uses the name.

    Raises:
        PolicyError: no node can have that name.
    """
    if not node_name_of(subject.common_name):
        name = subject.common_name.removeprefix(NODE_USER_PREFIX)
        raise PolicyError(f"{quote(name[:_SHOWN])} is not a node name")


def _verify_kubelet_serving(request: CertificateRequest, usages: Sequence[str]) -> None:
    names = request.alt_names
    if request.subject.organizations != (NODES_GROUP,):
        raise PolicyError(f"subject organization is not {NODES_GROUP}")
    if not names.dns_names and not names.ip_addresses:
        raise PolicyError("DNS or IP subjectAltName is required")
    if names.email_addresses:
        raise PolicyError("Email subjectAltNames are not allowed")
    if names.uris:
        raise PolicyError("URI subjectAltNames are not allowed")
    _verify_usages(usages, _SERVING_USAGES)
    _verify_node_name(request.subject)


def _verify_kubelet_client(request: CertificateRequest, usages: Sequence[str]) -> None:
    names = request.alt_names
    if request.subject.organizations != (NODES_GROUP,):
        raise PolicyError(f"subject organization is not {NODES_GROUP}")
    if names.dns_names:
        raise PolicyError("DNS subjectAltNames are not allowed")
    if names.email_addresses:
        raise PolicyError("Email subjectAltNames are not allowed")
    if names.ip_addresses:
        raise PolicyError("IP subjectAltNames are not allowed")
    if names.uris:
        raise PolicyError("URI subjectAltNames are not allowed")
    _verify_node_name(request.subject)
    _verify_usages(usages, _CLIENT_USAGES)


def _verify_usages(usages: Sequence[str], required: frozenset[str]) -> None:
    """Exactly these, with or without key encipherment (optional since Kubernetes 1.27)."""
    if frozenset(usages) - {KEY_ENCIPHERMENT} != required:
        raise PolicyError(f"usages did not match [{' '.join(sorted({*required, KEY_ENCIPHERMENT}))}]")


def _verify_node_name(subject: Subject) -> None:
    if not subject.common_name.startswith(NODE_USER_PREFIX):
        raise PolicyError(f"subject common name does not begin with {NODE_USER_PREFIX}")


def _verify_kube_apiserver_client(_: CertificateRequest, usages: Sequence[str]) -> None:
    for usage in usages:
        if usage not in {DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH}:
            raise PolicyError(f"invalid usage for client certificate: {usage}")
    if CLIENT_AUTH not in usages:
        raise PolicyError(f"missing required usage for client certificate: {CLIENT_AUTH}")


def _verify_legacy_unknown(_: CertificateRequest, __: Sequence[str]) -> None:
    """No rule: such CSRs come only out of old stores, approved by a human."""


_RULES: dict[str, Callable[[CertificateRequest, Sequence[str]], None]] = {
    KUBELET_SERVING_SIGNER: _verify_kubelet_serving,
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER: _verify_kubelet_client,
    KUBE_APISERVER_CLIENT_SIGNER: _verify_kube_apiserver_client,
    LEGACY_UNKNOWN_SIGNER: _verify_legacy_unknown,
}

KUBERNETES_SIGNERS: tuple[str, ...] = tuple(_RULES)


def default_signer_name(request: CertificateRequest, usages: Sequence[str]) -> str:
    """The signer that certificates.k8s.io/v1beta1 filled in; needed only to import old objects."""
    for signer_name in (KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER):
        try:
            verify_shape(signer_name, request, usages)
        except PolicyError:
            continue
        return signer_name
    return LEGACY_UNKNOWN_SIGNER


def verify_no_escalation(signer_name: str, subject: Subject) -> None:
    """The last look before any signer signs (S7): nobody becomes more than the signer is for.

    The shape rules and admission say so in part. This stands by itself because an approval proves nothing about the
    request, because admission can be turned off, and because a certificate of ``system:masters`` outlives every change
    of RBAC.

    Raises:
        PolicyError: the subject would be a cluster administrator; of a node signer, more than a node; of the signer for
            objects of old, one of Kubernetes' own users or groups.
    """
    if MASTERS_GROUP in subject.organizations:
        raise PolicyError(f"{signer_name} never issues the {MASTERS_GROUP} group")
    if names_node(signer_name):
        if not subject.common_name.startswith(NODE_USER_PREFIX):
            raise PolicyError(
                f"{signer_name} issues no subject but {NODE_USER_PREFIX}<name>, got {quote(subject.common_name)}"
            )
        verify_node_name(subject)
    elif signer_name == LEGACY_UNKNOWN_SIGNER:
        for name in (subject.common_name, *subject.organizations):
            if name.startswith(_SYSTEM):
                shown = quote(name[:_SHOWN])
                raise PolicyError(f"{signer_name} issues no name that begins with {_SYSTEM}, got {shown}")


def verify_no_masters(signer_name: str, subject: Subject) -> None:
    """CertificateSubjectRestriction: no ``system:masters`` through the client signer.

    kube-apiserver asks this when a CSR is created; the strict profile asks it again when it signs.

    Raises:
        PolicyError: with the admission plug-in's text.
    """
    if signer_name == KUBE_APISERVER_CLIENT_SIGNER and MASTERS_GROUP in subject.organizations:
        raise PolicyError(_MASTERS_REFUSED)


class Validity(msgspec.Struct, frozen=True):
    """First and last moment of a certificate, in UTC."""

    not_before: dt.datetime
    not_after: dt.datetime


def lifetime(
    expiration_seconds: int | None,
    signing_duration: dt.timedelta = DEFAULT_SIGNING_DURATION,
    default: dt.timedelta | None = None,
) -> dt.timedelta:
    """How long to sign for.

    Args:
        expiration_seconds: ``spec.expirationSeconds``; ``None`` asks for nothing.
        signing_duration: the most that is granted.
        default: granted where nothing is asked for; None is the most, as in Kubernetes.

    Returns:
        At least ten minutes where something was asked for, even if the signer's own is shorter.
    """
    if expiration_seconds is None:
        return signing_duration if default is None else min(default, signing_duration)
    wanted = dt.timedelta(seconds=expiration_seconds)
    if wanted > signing_duration:
        return signing_duration
    return max(wanted, MIN_TTL)


def validity(
    now: dt.datetime, ttl: dt.timedelta, authority_not_after: dt.datetime, backdate: dt.timedelta | None = None
) -> Validity:
    """From when until when to sign.

    Args:
        backdate: how far in the past it begins, and that much sooner it ends, so that ``ttl`` is all of it; None is as
            Kubernetes' signers have it.

    Raises:
        AuthorityExpiredError: the authority has ended; nothing it signs would be valid.
    """
    sooner = (BACKDATE if ttl >= _SHORT else dt.timedelta()) if backdate is None else backdate
    not_before = now - (BACKDATE if backdate is None else backdate)
    not_after = min(now + ttl - sooner, authority_not_after)
    if not_before >= authority_not_after:
        raise AuthorityExpiredError(f"the signer has expired: NotAfter={go_time(authority_not_after)}")
    if now >= authority_not_after:
        raise AuthorityExpiredError(
            f"refusing to sign a certificate that expired in the past: NotAfter={go_time(not_after)}"
        )
    return Validity(not_before, not_after)


def spread(period: Validity, now: dt.datetime, part: float, key: bytes, seed: str) -> Validity:
    """``period``, ending sooner by up to ``part`` of what is left of it, and never later.

    The CA's own end has been taken into account by then, so that a fleet whose certificates it cuts short does not end
    together either.

    Args:
        key: decides with ``seed`` by how much, so that a second attempt ends where the first one did.
    """
    if not part:
        return period
    digest = hashlib.sha256(key + b"\0" + seed.encode()).digest()
    left = period.not_after - now
    sooner = left * part * (int.from_bytes(digest[:8]) / 2**64)
    return Validity(period.not_before, max(period.not_after - sooner, min(now + MIN_TTL, period.not_after)))
