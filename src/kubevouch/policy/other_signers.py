"""Who else approves requests and signs them under the same names, by what the requests show. Pure.

managedFields do not tell it: kube-apiserver notes no owner on an object that had none when it was created, as the
request of a kubelet has not (measured on 1.36). So this program marks what it decides and signs, where other programs
may do the same, and what has no mark is somebody else's. The mark is no proof: whoever may write a certificate into a
request may write a mark beside it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Collection
from enum import Enum

import msgspec

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.coordination_v1 import LeaseSpec
from kubevouch.pki import recognizers
from kubevouch.pki.errors import PKIError
from kubevouch.pki.policy import BACKDATE
from kubevouch.pki.x509 import x509_certificate

PROBATION_SECONDS = 10.0
"""How long the first approved request waits for kube-controller-manager to sign it, which takes that 0.06 s."""
RETURN_SECONDS = 300.0
"""How long an approved request has to lie before a name counts as given up by whoever signed it last."""

_OF_KUBE_CONTROLLER_MANAGER = frozenset((recognizers.NODE_CLIENT.message, recognizers.SELF_NODE_CLIENT.message))


# ------------------------------------------------------------------ marks


def signed_mark(certificate: bytes) -> str:
    """What stands in the annotation beside what was signed here; of the octets of ``status.certificate``."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"


def approved_mark(csr: CertificateSigningRequest) -> str:
    """What stands in the annotation of a request that was decided here: nobody knows it who only creates a request."""
    return csr.metadata.uid


def is_signed_elsewhere(csr: CertificateSigningRequest) -> bool:
    """Whether it has a certificate, and not one that was signed here."""
    certificate = csr.status.certificate
    if not certificate:
        return False
    return csr.metadata.annotations.get(wellknown.SIGNED_ANNOTATION) != signed_mark(certificate)


def approved_by_manager_at(csr: CertificateSigningRequest) -> dt.datetime | None:
    """When kube-controller-manager's approver approved it, by its words and the missing mark; None if it did not."""
    if csr.metadata.annotations.get(wellknown.APPROVED_ANNOTATION) == approved_mark(csr):
        return None
    for each in csr.status.conditions:
        if each.type == wellknown.CSR_APPROVED and each.reason == recognizers.APPROVED_REASON:
            at = each.last_update_time
            if each.message in _OF_KUBE_CONTROLLER_MANAGER and at is not None:
                return at.datetime()
    return None


def signed_at(csr: CertificateSigningRequest) -> dt.datetime | None:
    """When its certificate was made, as kube-controller-manager dates certificates back; not before its approval.

    None for what no certificate can be read from and nobody has approved.
    """
    times = [
        each.last_update_time.datetime()
        for each in csr.status.conditions
        if each.type == wellknown.CSR_APPROVED and each.last_update_time is not None
    ]
    try:
        times.append(x509_certificate.parse_pem(csr.status.certificate or b"").not_before + BACKDATE)
    except PKIError:
        pass
    return max(times, default=None)


# ------------------------------------------------------------------ whose turn it is


class Turn(Enum):
    """Who signs under a name."""

    OURS = "ours"
    WATCHED = "watched"
    """kube-controller-manager has come, or was there before: the next request shows whether it signs."""
    ASIDE = "aside"
    """Somebody else has signed."""


_PATIENCE = {Turn.OURS: 0.0, Turn.WATCHED: PROBATION_SECONDS, Turn.ASIDE: RETURN_SECONDS}


class Turns:
    """Whose turn it is, by signer name. Times are seconds of a monotonic clock.

    Args:
        watched: the names that kube-controller-manager has where it runs.
    """

    def __init__(self, watched: Collection[str] = ()) -> None:
        self._watched = frozenset(watched)
        self._turns: dict[str, Turn] = {}
        # By name, since when a request waits, by its uid.
        self._waiting: dict[str, dict[str, float]] = {}

    def of(self, name: str) -> Turn:
        return self._turns.get(name, Turn.OURS)

    def wait(self, name: str, uid: str, now: float) -> float:
        """Seconds for which an approved request is to be left to others; after them the name is ours again."""
        patience = _PATIENCE[self.of(name)]
        if not patience:
            return 0.0
        left = self._waiting.setdefault(name, {}).setdefault(uid, now) + patience - now
        if left > 0:
            return left
        self._put(name, Turn.OURS)
        return 0.0

    def forget(self, name: str, uid: str) -> None:
        """A request waits no more."""
        self._waiting.get(name, {}).pop(uid, None)

    def signed_elsewhere(self, name: str) -> bool:
        """Somebody else has signed; whether that is new. Those who wait begin anew."""
        is_new = self.of(name) is not Turn.ASIDE
        self._put(name, Turn.ASIDE)
        return is_new

    def manager_came(self) -> None:
        """kube-controller-manager leads anew."""
        for name in self._watched:
            if self.of(name) is Turn.OURS:
                self._put(name, Turn.WATCHED)

    def _put(self, name: str, turn: Turn) -> None:
        self._turns[name] = turn
        self._waiting.pop(name, None)


def begins(old: LeaseSpec | None, new: LeaseSpec) -> bool:
    """Whether whoever has a Lease has it anew: another holder, another term, or one that was silent for too long."""
    if not new.holder_identity:
        return False
    if old is None or (old.holder_identity, old.acquire_time, old.lease_transitions) != (
        new.holder_identity, new.acquire_time, new.lease_transitions,
    ):  # fmt: skip
        return True
    if old.renew_time is None or new.renew_time is None:
        return True
    silent = new.renew_time.datetime() - old.renew_time.datetime()
    return silent > dt.timedelta(seconds=new.lease_duration_seconds or 0)


# ------------------------------------------------------------------ what a look at the cluster shows

RECENT = dt.timedelta(minutes=10)
"""What somebody did within this time counts as what they do now, where no Lease says since when they run."""


class Elsewhere(msgspec.Struct, frozen=True):
    """What somebody else has done: how often, and when last."""

    count: int
    last: dt.datetime

    def since(self, moment: dt.datetime | None) -> bool:
        """Whether the last one was at ``moment`` or after it; the times in requests are whole seconds."""
        return moment is not None and self.last + dt.timedelta(seconds=1) > moment


def signed_elsewhere(requests: Collection[CertificateSigningRequest], names: Collection[str]) -> dict[str, Elsewhere]:
    """By signer name, of those that have any, the certificates that were not signed here."""
    found: dict[str, Elsewhere] = {}
    for csr in requests:
        name, at = csr.spec.signer_name, signed_at(csr)
        if name in names and at is not None and is_signed_elsewhere(csr):
            found[name] = _with(found.get(name), at)
    return found


def approved_by_manager(requests: Collection[CertificateSigningRequest]) -> Elsewhere | None:
    """What kube-controller-manager has approved; None is nothing."""
    found: Elsewhere | None = None
    for csr in requests:
        at = approved_by_manager_at(csr)
        if at is not None:
            found = _with(found, at)
    return found


def _with(found: Elsewhere | None, at: dt.datetime) -> Elsewhere:
    return Elsewhere(1, at) if found is None else Elsewhere(found.count + 1, max(found.last, at))
