"""What a kube-apiserver is configured with so that it learns of revocations (``--authorization-config``).

Source: k8s.io/apiserver/pkg/apis/apiserver/v1 AuthorizationConfiguration (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, User, dump
from kubevouch.machinery.codec.yamltext import dumps
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA

WEBHOOK_NAME = "kubevouch-revocations"
CONFIG_FILE, KUBECONFIG_FILE = "authorization-config.yaml", "deny-webhook.conf"
NOBODY = "https://127.0.0.1:9/"
"""Where nothing listens (RFC 863): a request that a condition fits fails, and that is what is wanted."""
MAX_LISTED = 1_000
"""Fingerprints of a list in a file. One is a comparison for each request; more are the webhook's."""


def kubeconfig(server: str, ca: bytes = b"", certificate: bytes = b"", key: bytes = b"") -> str:
    """How the API server reaches the webhook; ``certificate`` and ``key`` are what it shows there."""
    cluster = Cluster(server=server, certificate_authority_data=ca)
    user = User(client_certificate_data=certificate, client_key_data=key)
    return dump(
        Kubeconfig(
            clusters={WEBHOOK_NAME: cluster},
            users={"kube-apiserver": user},
            contexts={WEBHOOK_NAME: Context(cluster=WEBHOOK_NAME, user="kube-apiserver")},
            current_context=WEBHOOK_NAME,
        )
    )


def configuration(kubeconfig_file: str, *, failure_policy: str, conditions: Iterable[str] = ()) -> str:
    """The webhook first, then what kube-apiserver has by itself. Nothing is remembered of what the webhook says.

    Args:
        failure_policy: ``NoOpinion`` lets everybody pass while the webhook is away, ``Deny`` nobody who comes with a
            certificate.
        conditions: CEL, beside that the request comes with a certificate.
    """
    shown = f"request.extra['{CREDENTIAL_ID_EXTRA}']"
    has_certificate = f"'{CREDENTIAL_ID_EXTRA}' in request.extra && {shown}.exists(id, id.startsWith('X509SHA256='))"
    expressions = [has_certificate, *conditions]
    webhook: Mapping[str, Any] = {
        "timeout": "3s",
        "authorizedTTL": "5m",
        "unauthorizedTTL": "30s",
        "cacheAuthorizedRequests": False,
        "cacheUnauthorizedRequests": False,
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": failure_policy,
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig_file},
        "matchConditions": [{"expression": each} for each in expressions],
    }
    authorizers = [
        {"type": "Webhook", "name": WEBHOOK_NAME, "webhook": webhook},
        {"type": "Node", "name": "node"},
        {"type": "RBAC", "name": "rbac"},
    ]
    return dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthorizationConfiguration",
            "authorizers": authorizers,
        }
    )


def is_not(user: str) -> str:
    """A condition that keeps the webhook from being asked about itself: it could not load what it answers by."""
    quoted = user.replace("\\", "\\\\").replace("'", "\\'")
    return f"request.user != '{quoted}'"


def fingerprints_of(revocations: Iterable[CertificateRevocation]) -> list[str]:
    """SHA-256 of every certificate that is known to be revoked, in hexadecimal digits."""
    found = {each for obj in revocations for each in (*obj.spec.revoked.certificates, *obj.status.certificates)}
    return sorted(each for each in found if len(each) == 64 and all(char in "0123456789abcdef" for char in each))


def deny_list(fingerprints: Iterable[str]) -> str:
    """A condition that is true of requests with these certificates: no webhook has to run to refuse them."""
    fingerprints = list(fingerprints)
    if not fingerprints:
        return "false"
    listed = ", ".join(f"'X509SHA256={each}'" for each in fingerprints)
    return f"request.extra['{CREDENTIAL_ID_EXTRA}'].exists(id, id in [{listed}])"
