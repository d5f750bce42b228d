"""One certificate that is kept fresh (client-go ``util/certificate`` manager, Kubernetes 1.36).

Unlike there, a request that is still pending is taken up again with its key, a pair that works is never given up before
the next one is on disk, and a clock that is plainly wrong means to wait. The decisions are in ``rotation_plan``.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import random as random_module
import secrets
from collections.abc import Callable

from kubevouch import wellknown
from kubevouch.agent.attestation_settings import is_given_for
from kubevouch.agent.attested_request import obtain
from kubevouch.agent.certificate_request import Poster, RequestTemplate
from kubevouch.agent.certificate_store import CertificateStore, StoredPair
from kubevouch.agent.file_faults import explain
from kubevouch.agent.interface import (
    AgentError,
    AttestationRefusedError,
    AttestationUnavailableError,
    CertificateStoreError,
    CertificateStoreInUseError,
    CredentialRefusedError,
    MachineBannedError,
    RequestDeniedError,
    WrongCertificateError,
)
from kubevouch.agent.manager_interface import Access, Listener, LoggingObserver, Standing
from kubevouch.agent.rotation_plan import (
    NEXT_ATTEMPT,
    ClockWatch,
    Plan,
    Reason,
    Retries,
    Schedule,
    Situation,
    jump_words,
    moved,
    ordered_renewal,
    plan,
    schedule,
)
from kubevouch.agent.servers import answers
from kubevouch.client.interface import ClientConfigurationError, TransportError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki import keys, rotation
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import CertificateNotYetValidError, ClientCertificateError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.usages import EXTENDED_KEY_USAGES
from kubevouch.records.ca_rotation import RenewalOrder
from kubevouch.util import backoff
from kubevouch.util.clock import Clock, wait_at_most
from kubevouch.util.files import Stamp
from kubevouch.util.logger import get_logger

log = get_logger("agent.certificates")

ATTEMPT_SECONDS = 900.0
"""For request and certificate (client-go's certificateWaitTimeout)."""
# Another program is at it: its pair is taken over when it is there.
_IN_USE_SECONDS = 5.0

Failure = AgentError | TransportError | APIStatusError | ClientConfigurationError | OSError
_FAILURES = (AgentError, TransportError, APIStatusError, ClientConfigurationError, OSError)


class CertificateManager:
    """Keeps the pair of ``store`` as ``template`` wants it.

    Args:
        name: what the certificate is called in logs, metrics and status: ``client``, ``serving`` or a name of one's
            own.
        template: asked before each look; None while nothing can be asked for.
        attempt_seconds: how long to wait for one request before looking at it all again.
    """

    def __init__(
        self,
        name: str,
        store: CertificateStore,
        template: Callable[[], RequestTemplate | None],
        access: Access,
        clock: Clock,
        listener: Listener,
        *,
        random: backoff.Random = random_module.random,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        self.name = name
        self.standing = Standing(name, str(store.current_path))
        self.pair: StoredPair | None = None
        self._store = store
        self._template = template
        self._access = access
        self._clock = clock
        self._listener = listener
        self._random = random
        self._attempt_seconds = attempt_seconds
        self._retries = Retries(random)
        self._retry_at = 0.0
        self._forced = False
        self._wake = asyncio.Event()
        self._watch = ClockWatch(clock.now(), clock.monotonic())
        self._schedule: Schedule | None = None
        self._stamp: Stamp | None = None
        self._trusted: tuple[TrustAnchors | None, StoredPair | None, bool] = (None, None, True)
        self._ordered: tuple[RenewalOrder | None, TrustAnchors | None, StoredPair | None, dt.datetime | None]
        self._ordered = (None, None, None, None)
        self._algorithm: KeyAlgorithm | None = None
        # The last pair with which the API server has answered 401.
        self._refused: StoredPair | None = None

    # -------------------------------------------------------------- from outside

    def rotate_now(self) -> None:
        """Ask for a certificate as soon as the loop comes round, whatever the schedule says."""
        self._forced = True
        self._wake.set()

    def look(self) -> None:
        """Look again now: what is wanted may have changed."""
        self._wake.set()

    def refused(self) -> None:
        """The API server does not accept the pair that there is."""
        self._refused = self.pair
        self._access.refused(self.pair)
        self._wake.set()

    @property
    def usable(self) -> bool:
        """Whether there is a certificate that has not expired."""
        return self.pair is not None and rotation.usable(self.pair.leaf, now=self._clock.now())

    @property
    def is_gone(self) -> bool:
        """Whether the pair that is in use was deleted or moved: what starts next, a kubelet perhaps, has none."""
        return self._stamp is not None and self._store.stamp() is None

    def prime(self) -> None:
        """Take note of what is on disk, before :meth:`run` and without telling anybody.

        Raises:
            OSError: the files cannot be read.
        """
        self._load()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Look once, and then ask or wait: one turn of the loop."""
        try:
            former = self.pair
            self._load()
            if self.pair is not None and self.pair is not former:
                self._forced = self._forced and former is None
                await self._taken(former)
                return
            situation = self._situation()
            if plan(situation).ask is Reason.OTHER_CA:
                # The order is as old as the last look at cluster-info: the operator may have paused or gone back.
                await self._access.refresh()
                situation = self._situation()
        except _FAILURES as err:
            self._failed(err, "")
            await self._sleep(max(self._retry_at - self._clock.monotonic(), 1.0))
            return
        todo = plan(situation)
        self._note(todo)
        if todo.ask is None:
            await self._sleep(todo.seconds)
            return
        await self._ask(todo.ask)

    # -------------------------------------------------------------- looking

    def _load(self) -> None:
        """The pair as it is on disk; files that are no pair are put in order first."""
        now = self._clock.now()
        stamp = self._store.stamp()
        if stamp is not None and stamp == self._stamp:
            return
        try:
            found = self._store.current()
            broken = "the link to the current pair is missing" if found is None and self._store.has_pairs() else ""
        except CertificateStoreError as err:
            found, broken = None, str(err)
        if broken:
            log.warning("the certificate files are put in order", certificate=self.name, reason=broken)
            self._repair(now)
            found = self._store.current()
        self._stamp = self._store.stamp()
        known = self.pair
        if found is not None and known is not None and found.chain == known.chain:
            return
        self.pair = found
        self._algorithm = None if found is None else keys.algorithm_of(found.key)
        self._schedule = None
        if found is not None:
            draws = (self._random(), self._random())
            self._schedule = schedule(found.leaf, now=now, monotonic=self._clock.monotonic(), draws=draws)

    def _repair(self, now: dt.datetime) -> None:
        template = self._template()

        def usable(pair: StoredPair) -> bool:
            return template is None or rotation.satisfies(pair.leaf, template.wanted)

        with self._store.locked():
            for sentence in self._store.repair(usable, now=now):
                log.warning(sentence, certificate=self.name)

    def _situation(self) -> Situation:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        jump = self._watch.jump(now, monotonic)
        if jump:
            log.warning("the clock was set", certificate=self.name, by=jump_words(jump))
            if self._schedule is not None:
                self._schedule = moved(self._schedule, jump)
            self._retry_at = 0.0
        template, anchors = self._template(), self._access.anchors()
        return Situation(
            current=None if self.pair is None else self.pair.leaf,
            schedule=self._schedule,
            wanted=None if template is None else template.wanted,
            now=now,
            monotonic=monotonic,
            forced=self._forced,
            trusted=self._is_trusted(template, anchors),
            fitting_key=template is None or self._algorithm in (None, template.algorithm),
            # A machine that can prove itself need not wait until its time has come.
            accepted=template is None
            or template.attestation is None
            or self.pair is None
            or self.pair is not self._refused,
            proven=template is None
            or self.pair is None
            or is_given_for(self._store.current_path, template.attestation, self.pair.leaf),
            trust_begins=None if anchors is None else min(each.not_before for each in anchors.certificates),
            retry_at=self._retry_at,
            renew_at=self._renew_at(template, anchors),
        )

    def _renew_at(self, template: RequestTemplate | None, anchors: TrustAnchors | None) -> dt.datetime | None:
        order = self._access.renewal_order()
        if order is None or anchors is None or template is None or self.pair is None:
            self._ordered = (None, None, None, None)
            return None
        if self._ordered[:3] != (order, anchors, self.pair):
            who = template.wanted.common_name.removeprefix(wellknown.NODE_USER_PREFIX)
            moment = ordered_renewal(self.pair.leaf, order, anchors.certificates, who)
            self._ordered = (order, anchors, self.pair, moment)
        return self._ordered[3]

    def _is_trusted(self, template: RequestTemplate | None, anchors: TrustAnchors | None) -> bool:
        """Whether the chain leads to a trusted CA, on a day on which all of it was valid."""
        if self.pair is None or anchors is None or template is None:
            return True
        if self._trusted[0] is not anchors or self._trusted[1] is not self.pair:
            leaf, *chain = self.pair.chain
            try:
                when = min(max(self._clock.now(), leaf.not_before), leaf.not_after)
                verify_chain(leaf, chain, anchors, now=when, usage=EXTENDED_KEY_USAGES[template.purpose])
                trusted = True
            except ClientCertificateError:
                trusted = False
            self._trusted = (anchors, self.pair, trusted)
        return self._trusted[2]

    def _note(self, todo: Plan) -> None:
        standing = self.standing
        # The line about a failure says when it is tried again.
        # What follows the colon changes with the time.
        topic = todo.waits_for.partition(":")[0]
        if topic not in ("", NEXT_ATTEMPT, standing.waits_for.partition(":")[0]):
            log.info("waiting", certificate=self.name, reason=todo.waits_for)
        standing.waits_for = todo.waits_for
        standing.asking = todo.ask or ""
        leaf = None if self.pair is None else self.pair.leaf
        standing.subject = "" if leaf is None else leaf.subject.common_name
        standing.not_before = None if leaf is None else leaf.not_before
        standing.not_after = None if leaf is None else leaf.not_after
        standing.serial = "" if leaf is None else f"{leaf.serial:x}"
        standing.next_rotation = None if self._schedule is None else self._schedule.rotate_at
        standing.ordered_renewal = self._ordered[3]

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await wait_at_most(self._clock, self._wake.wait(), seconds)
        self._wake.clear()

    # -------------------------------------------------------------- asking

    async def _ask(self, why: Reason) -> None:
        """One attempt, which ends early when what is wanted changes meanwhile."""
        template = self._template()
        assert template is not None  # the plan says so
        self._forced = False
        self._wake.clear()
        attempt = asyncio.create_task(self._attempt(template, why), name=f"{self.name}-attempt")
        changed = asyncio.create_task(self._changed(template), name=f"{self.name}-template")
        try:
            await asyncio.wait({attempt, changed}, return_when=asyncio.FIRST_COMPLETED)
            if not attempt.done():
                log.info("what is wanted has changed", certificate=self.name)
                return
        finally:
            for task in (attempt, changed):
                task.cancel()
            await asyncio.wait({attempt, changed})
        attempt.result()

    async def _changed(self, template: RequestTemplate) -> None:
        while self._template() == template:
            await self._wake.wait()
            self._wake.clear()

    async def _attempt(self, template: RequestTemplate, why: Reason) -> None:
        number = secrets.token_hex(4)
        observer = LoggingObserver(certificate=self.name, attempt=number)
        log.info("a certificate is asked for", certificate=self.name, attempt=number, reason=why.value)
        pair = self.pair if self.pair is not None and rotation.satisfies(self.pair.leaf, _who(template)) else None
        try:
            with self._store.locked():
                if self._store.stamp() != self._stamp:
                    return  # another program was faster
                for sentence in self._store.repair(lambda _: False, now=self._clock.now()):
                    observer.warning(sentence)
                self._stamp = self._store.stamp()
                async with self._access.connected(pair) as poster:
                    await self._obtain(poster, template, observer)
        except CertificateStoreInUseError:
            self._forced = why is Reason.FORCED
            await self._sleep(_IN_USE_SECONDS)
            return
        except _FAILURES as err:
            if isinstance(err.__cause__, APIStatusError) and err.__cause__.code == 401:
                self._access.refused(pair)
                self._refused = pair
            self._failed(err, number)
            return
        former = self.pair
        self._load()
        assert self.pair is not None  # it was put there under the lock
        standing = self.standing
        standing.rotations += 1
        standing.last_rotation = self._clock.now()
        standing.last_error, standing.hint, standing.server_answers = "", "", True
        standing.refused = False
        self._retries.reset()
        self._retry_at = 0.0
        await self._taken(former)

    async def _obtain(self, poster: Poster, template: RequestTemplate, observer: LoggingObserver) -> None:
        async def attempt() -> None:
            await obtain(
                self._store,
                poster,
                template,
                self._access.anchors(),
                self._clock,
                observer,
                timeout=self._attempt_seconds,
                random=self._random,
            )

        try:
            await attempt()
        except WrongCertificateError as err:
            if err.spent:
                raise
            # The CA may have changed under us; the certificate waits where it is.
            await self._access.refresh()
            try:
                await attempt()
            except WrongCertificateError as again:
                # A clock can be set; another CA will not sign what has been signed.
                again.spent = not isinstance(again.__cause__, CertificateNotYetValidError)
                raise

    async def _taken(self, former: StoredPair | None) -> None:
        self._note(plan(self._situation()))
        assert self.pair is not None
        log.info("certificate in use", certificate=self.name, until=self.pair.leaf.not_after.isoformat())
        await self._listener.renewed(self, former)

    def _failed(self, err: Failure, number: str) -> None:
        now = self._clock.now()
        spent = isinstance(err, AgentError) and err.spent
        if spent:
            with contextlib.suppress(OSError):
                self._store.drop_pending_key()
        left = dt.timedelta() if self.pair is None else self.pair.leaf.not_after - now
        delay = self._retries.delay(spent=spent or isinstance(err, AttestationRefusedError), left=left)
        if isinstance(err, AttestationUnavailableError):
            delay = max(delay, err.retry_after)
        self._retry_at = self._clock.monotonic() + delay
        standing = self.standing
        standing.failures += 1
        standing.last_error, standing.hint = _words(err)
        standing.last_error_at = now
        standing.refused = isinstance(err, MachineBannedError | CredentialRefusedError)
        cause = err if isinstance(err, TransportError | APIStatusError) else err.__cause__
        if isinstance(cause, TransportError | APIStatusError):
            standing.server_answers = answers(cause)
        if isinstance(err, RequestDeniedError) and spent:
            standing.hint = f"another request with another key is made by itself in {delay:.0f} s at the latest"
        log.error(
            "the attempt failed",
            certificate=self.name,
            attempt=number,
            error=standing.last_error,
            retry_in=round(delay),
        )
        self._listener.failed(self)


def _who(template: RequestTemplate) -> rotation.WantedCertificate:
    """A pair that is somebody else's is no credential; one that only lacks names is."""
    return rotation.WantedCertificate(
        common_name=template.wanted.common_name, organizations=template.wanted.organizations
    )


def _words(err: Failure) -> tuple[str, str]:
    """The sentence, and what to do."""
    return explain(err) if isinstance(err, OSError) else (str(err), getattr(err, "hint", "") or "")
