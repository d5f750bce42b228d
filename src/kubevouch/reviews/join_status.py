"""How far a machine has come on its way into the cluster, as the cluster sees it, and why not further."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from kubevouch.api.coordination_v1 import Lease
from kubevouch.api.core_v1 import Node, Secret
from kubevouch.api.core_v1.nodes import NODE_MONITOR_GRACE_PERIOD
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text import gotext
from kubevouch.machinery.text.times import Time
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.records.bootstrap_tokens import secret_name, token_id_of_user
from kubevouch.reviews import csr_review, token_biography
from kubevouch.reviews.csr_review import State, state_of


class Progress(StrEnum):
    """The steps that a cluster sees of a join, in their order."""

    NOTHING = "nothing seen"
    REQUESTED = "request created"
    APPROVED = "request approved"
    ISSUED = "certificate issued"
    REGISTERED = "node registered"
    READY = "node ready"


class JoinStatus(msgspec.Struct, frozen=True):
    """The last step that was reached.

    Args:
        stuck: whether it takes somebody's hand to go on.
        reason: why it has not gone further, or how it stands.
        request: the name of the newest request; empty without one.
        requester: who made it.
        token: what is known of the bootstrap token behind it.
    """

    node_name: str
    progress: Progress
    reason: str
    stuck: bool = False
    request: str = ""
    requester: str = ""
    token: str = ""

    def tree(self) -> dict[str, Any]:
        """The stable form for scripts."""
        return {
            "nodeName": self.node_name,
            "progress": self.progress.value,
            "stuck": self.stuck,
            "reason": self.reason,
            "request": self.request,
            "requestedBy": self.requester,
            "token": self.token,
        }


async def look(client: Client, node_name: str, *, now: dt.datetime) -> JoinStatus:
    """Raises APIStatusError, TransportError."""
    found = requests_of(node_name, (await csr_review.fetch(client)).all)
    newest = found[0] if found else None
    outlook = "" if newest is None else await csr_review.outlook(client, newest)
    node = await stored.find(client, catalog.NODES, node_name)
    lease = None if node is None else await _lease(client, node_name)
    token_id = "" if newest is None else token_id_of_user(newest.spec.username)
    secret = None
    if token_id:
        secret = await stored.find(client, catalog.SECRETS, secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
    token = describe_token(token_id, secret, now=now) if token_id else ""
    return judge(node_name, newest, node, token, outlook, silence(lease, now))


async def _lease(client: Client, node_name: str) -> Lease | None:
    """None also for those who may not see it: the Node says most."""
    try:
        return await stored.find(client, catalog.LEASES, node_name, wellknown.KUBE_NODE_LEASE_NAMESPACE)
    except APIStatusError as err:
        if err.code != 403:
            raise
        return None


# ------------------------------------------------------------------ judgements


def requests_of(node_name: str, requests: Iterable[CertificateSigningRequest]) -> list[CertificateSigningRequest]:
    """The requests for the node's client certificate, the newest first."""
    wanted = f"{wellknown.NODE_USER_PREFIX}{node_name}"
    found = []
    for csr in requests:
        if csr.spec.signer_name != wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER:
            continue
        try:
            subject = x509_request.parse_pem(csr.spec.request or b"").subject
        except ParseError:
            continue
        if subject.common_name == wanted:
            found.append(csr)
    return sorted(found, key=lambda csr: str(csr.metadata.creation_timestamp), reverse=True)


def describe_token(token_id: str, secret: Secret | None, *, now: dt.datetime) -> str:
    if secret is None:
        return f"{token_id}, which is deleted or has expired"
    try:
        bounds, record = token_biography.bounds_and_record(secret)
    except ValueError as err:
        return f"{token_id}, which is of no use: {err}"
    state = token_biography.state_of(secret, bounds, record, now)
    if state == "expired":
        return f"{token_id}, which has expired"
    told = ", ".join(bounds.told())
    return f"{token_id} ({told}), which is {state}" if told else f"{token_id}, which is {state}"


def silence(lease: Lease | None, now: dt.datetime) -> str:
    """For how long a kubelet has not renewed its Lease, as a clause; empty if that is not too long, or not known."""
    if lease is None or lease.spec.renew_time is None:
        return ""
    renewed = lease.spec.renew_time.datetime()
    if now - renewed <= NODE_MONITOR_GRACE_PERIOD:
        return ""
    ago = gotext.human_duration((now - renewed).total_seconds())
    return f"its kubelet has not renewed its Lease for {ago}, since {Time.of(renewed)}"


def judge(
    node_name: str,
    newest: CertificateSigningRequest | None,
    node: Node | None,
    token: str,
    outlook: str,
    silent: str = "",
) -> JoinStatus:
    """Later steps count more than earlier ones: requests are cleaned away, nodes stay.

    Args:
        silent: what :func:`silence` says of the node's Lease; a Ready that nobody renews is not believed.
    """
    request, requester = ("", "") if newest is None else (newest.metadata.name, newest.spec.username)

    def status(progress: Progress, reason: str, *, stuck: bool = False) -> JoinStatus:
        return JoinStatus(node_name, progress, reason, stuck, request, requester, token)

    state = None if newest is None else state_of(newest)
    if node is not None:
        ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
        if silent:
            return status(Progress.REGISTERED, f"the node is not ready: {silent}", stuck=True)
        if ready is not None and ready.status == wellknown.CONDITION_TRUE:
            return status(Progress.READY, "the kubelet says that it is ready")
        why = "its kubelet has not said anything yet" if ready is None else f"{ready.reason}: {ready.message}"
        return status(Progress.REGISTERED, f"the node is not ready: {why}", stuck=True)
    if newest is None or state is None:
        return status(
            Progress.NOTHING,
            "no request and no node of this name is in the cluster: the machine has not come that far, or it was long "
            "ago; kubevouch doctor join says why, run on the machine",
            stuck=True,
        )
    said = _said(newest.status.conditions)
    if state is State.PENDING:
        return status(Progress.REQUESTED, f"nobody has decided: {outlook}", stuck=True)
    if state is State.DENIED:
        return status(Progress.REQUESTED, f"the request was denied: {said}", stuck=True)
    if state is State.FAILED:
        return status(Progress.APPROVED, f"the certificate could not be signed: {said}", stuck=True)
    if state is State.APPROVED:
        return status(Progress.APPROVED, "nobody has signed it; does the signing controller run?", stuck=True)
    return status(Progress.ISSUED, f"{said}; {_lifetime(newest.status.certificate)}; no kubelet has registered yet")


def _said(conditions: Sequence[CertificateSigningRequestCondition]) -> str:
    return "; ".join(f"{each.reason}: {each.message.rstrip('.')}" for each in conditions)


def _lifetime(certificate: bytes) -> str:
    try:
        return f"valid until {Time.of(x509_certificate.parse_bundle(certificate)[0].not_after)}"
    except ParseError:
        return "its certificate cannot be read"
