"""Waiting until a request has its certificate (client-go ``util/certificate/csr``, Kubernetes 1.36)."""

from __future__ import annotations

import asyncio
import math
import random as random_module
import re
from contextlib import aclosing

from kubevouch import wellknown
from kubevouch.agent.interface import (
    AttestationRefusedError,
    MachineBannedError,
    NotIssuedError,
    Observer,
    RequestDeniedError,
    Step,
)
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    has_condition,
)
from kubevouch.client.interface import EventType, TransportError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import quote
from kubevouch.policy import node_names
from kubevouch.records import token_bounds
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

_FIRST_DELAY, _LONGEST_DELAY = 0.25, 5.0
_LONGEST_REASON = 1024
_SOON_SECONDS = 1.0
BANNED = "banned"
"""The step by which who was banned is refused (``policy.node_identities``)."""
# The approver's message: "name-taken: …".
_STEP = re.compile(r"([a-z0-9][a-z0-9-]{0,62}): ", re.ASCII)


class UnreadEvidenceError(Exception):
    """The request waits: its evidence is of a version that is not read. ``supported`` as the cluster writes them."""

    def __init__(self, supported: str) -> None:
        super().__init__(supported)
        self.supported = supported


def judge(csr: CertificateSigningRequest, uid: str) -> bool:
    """Whether ``csr`` is done: approved, and its certificate there.

    Args:
        uid: that of the request one has made or found; empty if it is not known.

    Raises:
        NotIssuedError: another object has taken its name.
        RequestDeniedError: it was denied or has failed.
        UnreadEvidenceError: of a request with evidence.
    """
    name = csr.metadata.name
    attested = csr.spec.signer_name.startswith(wellknown.ATTESTED_CLIENT_SIGNER_PREFIX)
    if uid and csr.metadata.uid != uid:
        raise NotIssuedError(f"csr {quote(name)} changed UIDs", "somebody has deleted the request; join again")
    for condition in csr.status.conditions:
        if condition.type == wellknown.CSR_DENIED:
            raise (_refused if attested else _denied)("is denied", name, condition)
        if condition.type == wellknown.CSR_FAILED:
            raise (_refused if attested else _denied)("failed", name, condition)
    supported = csr.metadata.annotations.get(wellknown.SUPPORTED_VERSIONS_ANNOTATION, "")
    if attested and supported and not csr.status.conditions:
        raise UnreadEvidenceError(supported)
    return has_condition(csr, wellknown.CSR_APPROVED) and bool(csr.status.certificate)


def _denied(what: str, name: str, condition: CertificateSigningRequestCondition) -> RequestDeniedError:
    again = f"that is final; to ask once more, have the request deleted (kubectl delete csr {name}) and join again"
    if condition.reason in node_names.REASONS:
        again = "join again once that is done; this machine then asks with another key"
    if condition.reason == token_bounds.DENIED_REASON:
        again = "join again with another token, which is for this machine: kubevouch token create"
    return RequestDeniedError(
        f"certificate signing request {name} {what}, reason: {condition.reason or '-'}, "
        f"message: {condition.message or '-'}",
        again,
        spent=True,
        reason=condition.reason,
    )


def _refused(what: str, name: str, condition: CertificateSigningRequestCondition) -> AttestationRefusedError:
    """Not spent: the key may be what the machine was recorded by, and another request of it can be granted."""
    message = f"certificate signing request {name} {what}, reason: {condition.reason or '-'}, message: "
    message += condition.message or "-"
    step = _STEP.match(condition.message)
    reason = step[1] if step else condition.reason
    if reason == BANNED:
        return MachineBannedError(
            message, "an operator has to lift it: kubevouch node unban; this machine asks again by itself",
            reason=reason,
        )  # fmt: skip
    return AttestationRefusedError(
        message, "kubevouch csr describe says on the cluster what was shown and what it is held against", reason=reason
    )


# Conditions do not name who set them, but each approver has a reason of its own.
_APPROVERS = {"AutoApproved": "the approving controller", "KubectlApprove": "kubectl certificate approve"}


def approval_of(csr: CertificateSigningRequest) -> tuple[str, str]:
    """By whom and why, as far as the object tells."""
    condition = next(found for found in csr.status.conditions if found.type == wellknown.CSR_APPROVED)
    return _APPROVERS.get(condition.reason, condition.reason or "somebody"), condition.message or condition.reason


class _Patience:
    """Tells of the approval once, and what is waited for once."""

    def __init__(self, observer: Observer, *, attested: bool) -> None:
        self._observer = observer
        self._attested = attested
        self._approved = False
        self._told = ""
        self._proof_missing = False

    def saw(self, csr: CertificateSigningRequest) -> None:
        if has_condition(csr, wellknown.CSR_APPROVED) and not self._approved:
            self._approved = True
            who, why = approval_of(csr)
            self._observer.done(Step.APPROVED, f"by {who}: {why}" if why else f"by {who}")
        stuck = csr.metadata.annotations.get(wellknown.JOIN_STUCK_ANNOTATION, "")
        self._proof_missing = stuck.startswith(f"{wellknown.PROOF_MISSING_REASON}: ")
        if stuck and not self._approved:
            self.because(f"request {csr.metadata.name} waits: {stuck[:_LONGEST_REASON]}")

    def hint(self) -> str:
        """What to do when the time is over."""
        if self._proof_missing and not self._approved:
            return "machines prove here what they are: join with --attest NAME"
        return "the request stays; have it approved and join again"

    async def tell_later(self, name: str, clock: Clock) -> None:
        """A controller decides within milliseconds; what takes longer probably waits for a person."""
        await clock.sleep(_SOON_SECONDS)
        if not self._approved:
            self.because(self._usual(name))

    def _usual(self, name: str) -> str:
        if self._attested:
            return f"request {name} waits for the cluster's {wellknown.NODE_ATTESTATION_CONTROLLER}"
        return f"request {name} waits for approval (kubectl certificate approve {name})"

    def because(self, why: str) -> None:
        if why != self._told:
            self._told = why
            self._observer.waiting(why)


async def wait_for_certificate(
    requests: SigningRequests,
    csr: CertificateSigningRequest,
    clock: Clock,
    observer: Observer,
    *,
    timeout: float,
    random: backoff.Random = random_module.random,
) -> CertificateSigningRequest:
    """The request once it is done. Watches from ``csr`` on; lists when a watch cannot be had, or has lost the thread.

    Args:
        timeout: seconds.

    Raises:
        NotIssuedError: the time is over, or the request is gone.
        RequestDeniedError: it was denied or has failed, or may not be read.
        UnreadEvidenceError: as :func:`judge`.
    """
    attested = csr.spec.signer_name.startswith(wellknown.ATTESTED_CLIENT_SIGNER_PREFIX)
    patience = _Patience(observer, attested=attested)
    teller = asyncio.create_task(patience.tell_later(csr.metadata.name, clock), name="wait-for-approval")
    try:
        async with deadline(clock, timeout):
            return await _wait(requests, csr, clock, patience, timeout, random)
    except TimeoutError as err:
        raise NotIssuedError(
            f"timed out after {timeout:.0f} s waiting for the certificate of request {csr.metadata.name}",
            patience.hint(),
        ) from err
    finally:
        teller.cancel()


async def _wait(
    requests: SigningRequests,
    csr: CertificateSigningRequest,
    clock: Clock,
    patience: _Patience,
    timeout: float,
    random: backoff.Random,
) -> CertificateSigningRequest:
    name, uid = csr.metadata.name, csr.metadata.uid
    found: CertificateSigningRequest | None = csr
    version = csr.metadata.resource_version
    delays = backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), random)
    while True:
        if found is None:
            raise NotIssuedError(f"csr {quote(name)} was deleted", "join again to make a new request")
        patience.saw(found)
        if judge(found, uid):
            return found
        try:
            done = await _watch(requests, name, uid, version, patience, math.ceil(timeout))
            if done is not None:
                return done
        except (APIStatusError, TransportError) as err:
            _give_up_if_definite(err)
            patience.because(f"the watch of request {name} failed: {err}")
        # A watch that ends at once must not become a storm of lists.
        await clock.sleep(next(delays))
        while True:
            try:
                found, version = await requests.find(name)
                break
            except (APIStatusError, TransportError) as err:
                _give_up_if_definite(err, listing=True)
                patience.because(f"request {name} cannot be read: {err}")
                await clock.sleep(next(delays))


async def _watch(
    requests: SigningRequests, name: str, uid: str, version: str, patience: _Patience, timeout_seconds: int
) -> CertificateSigningRequest | None:
    """The request once it is done, None when the watch ended before."""
    async with aclosing(requests.watch(name, version, timeout_seconds)) as events:
        async for event in events:
            if event.status is not None:
                raise APIStatusError(event.status)
            if event.object is None or event.type is EventType.BOOKMARK:
                continue
            if event.type is EventType.DELETED:
                raise NotIssuedError(f"csr {quote(name)} was deleted", "join again to make a new request")
            patience.saw(event.object)
            if judge(event.object, uid):
                return event.object
    return None


def _give_up_if_definite(err: APIStatusError | TransportError, *, listing: bool = False) -> None:
    """A credential that has ended ends the wait; a refused watch does not, as long as lists are answered."""
    if isinstance(err, APIStatusError) and (err.code == 401 or (listing and err.code == 403)):
        raise RequestDeniedError(
            f"the API server no longer lets this machine read its request: {err}", "the token may have expired"
        ) from err
