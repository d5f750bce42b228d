"""The node's certificate as an exec credential: what is asked, what is answered, and until when it may be used.

Source: k8s.io/client-go plugin/pkg/client/auth/exec (Kubernetes 1.36). A caller waits for this program at every start,
so what needs the network is in ``exec_renewal`` and is imported only for a renewal.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
from enum import Enum
from typing import Any

import msgspec

from kubevouch.agent.attestation_settings import STAYS_IN_TPM
from kubevouch.agent.certificate_store import StoredPair
from kubevouch.machinery.text.times import Time
from kubevouch.pki import keys
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import ClientCertificateError, ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate

V1 = "client.authentication.k8s.io/v1"
_VERSION = re.compile(r"client\.authentication\.k8s\.io/v1(beta1)?", re.ASCII)
_MAX_INFO = 4 << 20
# The kubelet authenticator proposal renews when a fifth of the life is left; agents do it earlier.
RENEW_BELOW = 0.2
# GKE's plug-in lets itself be asked every hour.
ASK_AGAIN = dt.timedelta(hours=1)
ASK_AGAIN_AFTER_FAILURE = dt.timedelta(minutes=5)
_MARGIN, _MARGIN_FRACTION = dt.timedelta(minutes=1), 0.1


class CredentialError(Exception):
    """There is nothing to answer with; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ExecRequest(msgspec.Struct, frozen=True):
    """What ``KUBERNETES_EXEC_INFO`` says. ``certificate_authority_data`` is there with ``provideClusterInfo`` only."""

    api_version: str = V1
    certificate_authority_data: bytes = b""


def parse_request(text: str) -> ExecRequest:
    """An empty text, as when a person runs it, asks for ``v1``.

    Raises:
        CredentialError: it is no ExecCredential of a version that is known.
    """
    if not text:
        return ExecRequest()
    hint = f"set apiVersion: {V1} in the exec stanza of the kubeconfig"
    try:
        tree = json.loads(text) if len(text) <= _MAX_INFO else None
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict) or tree.get("kind") != "ExecCredential":
        raise CredentialError("KUBERNETES_EXEC_INFO holds no ExecCredential", hint)
    version = tree.get("apiVersion")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise CredentialError(f"got apiVersion {str(version)[:120]!r}, expected {V1} or {V1}beta1", hint)
    return ExecRequest(version, _authority(tree.get("spec")))


def _authority(spec: Any) -> bytes:
    cluster = spec.get("cluster") if isinstance(spec, dict) else None
    content = cluster.get("certificate-authority-data") if isinstance(cluster, dict) else None
    try:
        return base64.b64decode(content, validate=True) if isinstance(content, str) else b""
    except binascii.Error:
        return b""


# ------------------------------------------------------------------ decisions


class Action(Enum):
    """What to do before answering."""

    KEEP = "keep"
    RENEW = "renew, and keep it if that fails"
    OBTAIN = "without a new one there is no answer"


def plan(leaf: Certificate | None, *, now: dt.datetime, proven: bool = True) -> Action:
    """
    Args:
        proven: whether the certificate was given for what would be shown now (``attestation_settings.is_given_for``).

    Raises:
        CredentialError: a certificate that begins in the future: the clock is wrong then.
    """
    if leaf is None or now > leaf.not_after:
        return Action.OBTAIN
    if now < leaf.not_before:
        raise CredentialError(
            f"the certificate begins at {Time.of(leaf.not_before)}, and it is {Time.of(now)} here",
            "set this machine's clock",
        )
    return Action.KEEP if proven and now < _due(leaf) else Action.RENEW


def _due(leaf: Certificate) -> dt.datetime:
    return leaf.not_after - (leaf.not_after - leaf.not_before) * RENEW_BELOW


def expiration(leaf: Certificate, *, now: dt.datetime) -> dt.datetime:
    """Until when a caller may use it without asking again: before its end, and soon after a renewal is due."""
    again = ASK_AGAIN if now < _due(leaf) else ASK_AGAIN_AFTER_FAILURE
    margin = min(_MARGIN, (leaf.not_after - leaf.not_before) * _MARGIN_FRACTION)
    end = leaf.not_after - margin if now < leaf.not_after - margin else leaf.not_after
    wanted = min(now + again, end)
    return min(wanted, _due(leaf)) if now < _due(leaf) else wanted


def stranger(request: ExecRequest, pair: StoredPair) -> str:
    """Why the cluster that is asked may not know the certificate; empty if nothing speaks for that."""
    if not request.certificate_authority_data:
        return ""
    try:
        anchors = TrustAnchors(x509_certificate.parse_bundle(request.certificate_authority_data))
        verify_chain(pair.leaf, pair.chain[1:], anchors, now=pair.leaf.not_before)
    except (ClientCertificateError, ParseError) as err:
        return f"the certificate of {pair.leaf.subject.common_name} does not come from this cluster's CA: {err}"
    return ""


def document(request: ExecRequest, pair: StoredPair, *, now: dt.datetime) -> str:
    """The answer, in one line of JSON. Raises :class:`CredentialError` where the key cannot be handed out."""
    if keys.is_in_tpm(pair.key):
        raise CredentialError(*STAYS_IN_TPM)
    status = {
        "expirationTimestamp": str(Time.of(expiration(pair.leaf, now=now))),
        "clientCertificateData": b"".join(each.pem() for each in pair.chain).decode("ascii"),
        "clientKeyData": keys.to_pem(pair.key).decode("ascii"),
    }
    tree = {"kind": "ExecCredential", "apiVersion": request.api_version, "spec": {}, "status": status}
    return json.dumps(tree, separators=(",", ":")) + "\n"
