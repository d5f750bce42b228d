"""When the certificate manager asks, when it waits, and what a failure means for the next attempt.

The schedule is client-go's (``util/certificate``, Kubernetes 1.36). Unlike there, a deadline is drawn once, counts on
the wall clock and on the monotonic clock, and is spread when it was missed, so that a fleet that wakes up together does
not ask together.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from kubevouch.machinery.text.gotext import human_duration
from kubevouch.machinery.text.times import Time
from kubevouch.pki import rotation
from kubevouch.pki.client_certificate import is_issued_by
from kubevouch.pki.rotation import WantedCertificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.ca_rotation import RenewalOrder, due_at, fingerprint
from kubevouch.util import backoff

CHECK_SECONDS = 60.0
"""How long to sleep at most: the wall clock may jump, and other programs may rotate."""
JUMP_SECONDS = 60.0
"""By how much wall clock and monotonic clock may drift apart between two looks; NTP slews less."""
NEXT_ATTEMPT = "the next attempt"
_SPREAD_FRACTION, _LONGEST_SPREAD = 0.1, 300.0
# client-go's 2, 4, 8, 16, 32 s. An outage is borne more calmly while the certificate lasts.
_FIRST_RETRY, _URGENT_RETRY, _CALM_RETRY = 2.0, 32.0, 300.0
_CALM_FROM = dt.timedelta(hours=1)
_FIRST_SPENT, _LONGEST_SPENT = 60.0, 3600.0
_NOT_SOONER = dt.timedelta(hours=1)


class Reason(StrEnum):
    """Why a certificate is asked for."""

    FORCED = "somebody asked for it"
    MISSING = "there is no certificate"
    EXPIRED = "the certificate has expired"
    REFUSED = "the cluster does not accept the certificate"
    OTHER_NAMES = "the certificate does not say what is wanted"
    UNTRUSTED = "the certificate's CA is no longer trusted"
    OTHER_CA = "the cluster has another CA now"
    OTHER_KEY = "the key is of another algorithm than is wanted"
    OTHER_PROOF = "the certificate was not given for the proof that this machine is told to show"
    DEADLINE = "its time has come"


class Schedule(msgspec.Struct, frozen=True):
    """The deadlines of one certificate: of rotation and of life, the latter only on the monotonic clock."""

    rotate_at: dt.datetime
    rotate_monotonic: float
    expires_monotonic: float


def schedule(certificate: Certificate, *, now: dt.datetime, monotonic: float, draws: tuple[float, float]) -> Schedule:
    """The deadlines from when the certificate is first seen.

    Args:
        draws: for the jitter of the deadline, and for its spread when it has been missed; from 0 up to 1.
    """
    deadline = rotation.rotation_deadline(certificate.not_before, certificate.not_after, draws[0])
    left = (certificate.not_after - now).total_seconds()
    if deadline < now and left > 0:
        deadline = now + dt.timedelta(seconds=min(left * _SPREAD_FRACTION, _LONGEST_SPREAD) * draws[1])
    until = (deadline - now).total_seconds()
    return Schedule(deadline, monotonic + until, monotonic + left)


def ordered_renewal(
    leaf: Certificate, order: RenewalOrder, anchors: Iterable[Certificate], node_name: str
) -> dt.datetime | None:
    """When a certificate is to be renewed by another CA; None if it comes from that CA, or the CA is not known yet.

    Whoever was given one of the former CA again waits for an hour, so that an order that cannot be met makes no storm.
    """
    ca = next((each for each in anchors if fingerprint(each.fingerprint()) == order.authority), None)
    if ca is None or is_issued_by(leaf, ca):
        return None
    return max(due_at(order, node_name), leaf.not_before + _NOT_SOONER)


class Situation(msgspec.Struct, frozen=True):
    """What a plan follows from.

    Args:
        wanted: None while nothing can be asked for.
        trusted: whether a CA that is trusted has signed the current certificate.
        fitting_key: whether the current key is of the wanted algorithm.
        accepted: whether the API server has not refused the current certificate.
        proven: whether the current certificate was given for what would be shown now.
        trust_begins: when the oldest trusted CA certificate begins; before that a clock is wrong.
        retry_at: monotonic time of the next attempt after a failed one.
        renew_at: when the cluster wants the certificate to be renewed by another CA; None if it does not.
    """

    current: Certificate | None
    schedule: Schedule | None
    wanted: WantedCertificate | None
    now: dt.datetime
    monotonic: float
    forced: bool = False
    trusted: bool = True
    fitting_key: bool = True
    accepted: bool = True
    proven: bool = True
    trust_begins: dt.datetime | None = None
    retry_at: float = 0.0
    renew_at: dt.datetime | None = None


class Plan(msgspec.Struct, frozen=True):
    """``ask`` says why a certificate is to be asked for now; without it, wait for ``seconds`` at most."""

    ask: Reason | None
    seconds: float = 0.0
    waits_for: str = ""


def plan(situation: Situation) -> Plan:
    """What to do now."""
    wrong = clock_fault(situation)
    if wrong:
        return Plan(None, CHECK_SECONDS, wrong)
    if situation.wanted is None:
        return Plan(None, CHECK_SECONDS, "what to ask for is not known yet")
    why = _reason(situation, situation.wanted)
    if why is None:
        assert situation.schedule is not None  # there is a certificate
        left = min(
            (situation.schedule.rotate_at - situation.now).total_seconds(),
            situation.schedule.rotate_monotonic - situation.monotonic,
        )
        return Plan(None, min(max(left, 0.0), CHECK_SECONDS))
    early = situation.retry_at - situation.monotonic
    if early > 0 and why is not Reason.FORCED:
        return Plan(None, min(early, CHECK_SECONDS), f"{NEXT_ATTEMPT}: {why}")
    return Plan(why)


def clock_fault(situation: Situation) -> str:
    """Why the wall clock cannot be right; empty if it can.

    Starting anew would help nobody then: what is issued would not be valid yet either.
    """
    now, begins = situation.now, situation.trust_begins
    if begins is not None and now < begins:
        what = f"the cluster's CA begins at {Time.of(begins)}"
    elif situation.current is not None and now < situation.current.not_before:
        what = f"its certificate begins at {Time.of(situation.current.not_before)}"
    else:
        return ""
    return f"the clock to be set: it is {Time.of(now)} here, and {what}"


def _reason(situation: Situation, wanted: WantedCertificate) -> Reason | None:
    current, times = situation.current, situation.schedule
    if situation.forced:
        return Reason.FORCED
    if current is None or times is None:
        return Reason.MISSING
    if not rotation.usable(current, now=situation.now) or situation.monotonic > times.expires_monotonic:
        return Reason.EXPIRED
    if not situation.accepted:
        return Reason.REFUSED
    if not rotation.satisfies(current, wanted):
        return Reason.OTHER_NAMES
    if not situation.trusted:
        return Reason.UNTRUSTED
    if not situation.fitting_key:
        return Reason.OTHER_KEY
    if not situation.proven:
        return Reason.OTHER_PROOF
    if situation.renew_at is not None and situation.now >= situation.renew_at:
        return Reason.OTHER_CA
    if situation.now >= times.rotate_at or situation.monotonic >= times.rotate_monotonic:
        return Reason.DEADLINE
    return None


class ClockWatch:
    """Notices that the wall clock was set, from what both clocks say."""

    def __init__(self, now: dt.datetime, monotonic: float) -> None:
        self._seen = (now, monotonic)

    def jump(self, now: dt.datetime, monotonic: float) -> dt.timedelta:
        """By how much it was set since the last look, zero for less than :data:`JUMP_SECONDS`.

        A machine that slept looks as if its clock was set forward, and is to be treated so.
        """
        before, then = self._seen
        self._seen = (now, monotonic)
        drift = (now - before) - dt.timedelta(seconds=monotonic - then)
        return drift if abs(drift.total_seconds()) >= JUMP_SECONDS else dt.timedelta()


def moved(times: Schedule, jump: dt.timedelta) -> Schedule:
    """After a jump forwards the monotonic deadlines come nearer; after one backwards they stay.

    So a clock set back cannot prolong a certificate's life, and one that was right all along loses nothing.
    """
    seconds = max(jump.total_seconds(), 0.0)
    return Schedule(times.rotate_at, times.rotate_monotonic - seconds, times.expires_monotonic - seconds)


def jump_words(jump: dt.timedelta) -> str:
    """``3h forwards``."""
    return f"{human_duration(abs(jump.total_seconds()))} {'forwards' if jump > dt.timedelta() else 'backwards'}"


class Retries:
    """The delays between attempts that fail, with full jitter; :meth:`reset` after one that does not."""

    def __init__(self, random: backoff.Random) -> None:
        self._random = random
        self.reset()

    def reset(self) -> None:
        self._usual: Iterator[float] = backoff.exponential(_FIRST_RETRY, _CALM_RETRY)
        self._spent: Iterator[float] = backoff.exponential(_FIRST_SPENT, _LONGEST_SPENT)

    def delay(self, *, spent: bool, left: dt.timedelta) -> float:
        """Seconds until the next attempt.

        Args:
            spent: the request was decided against; asking anew at once would only make another of its kind.
            left: of the current certificate's life; zero or less without one.
        """
        if spent:
            return next(self._spent) * (0.5 + 0.5 * self._random())
        delay = next(self._usual)
        return (delay if left > _CALM_FROM else min(delay, _URGENT_RETRY)) * self._random()
