"""Looking whether an API server refuses what is revoked, by asking it.

A SubjectAccessReview with the fingerprint of a revoked certificate goes through the whole authorizer chain of a
kube-apiserver, as a request with that certificate would. The answer shows whether a webhook or a deny list of the chain
denies it. Source: kubevouch's own; k8s.io/apiserver/pkg/authorization/union (Kubernetes 1.36).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from kubevouch import wellknown
from kubevouch.api.authentication_v1 import GROUP as AUTHENTICATION_GROUP
from kubevouch.api.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubevouch.api.catalog import (
    NODES,
    SELF_SUBJECT_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from kubevouch.api.kubevouch_v1alpha1.revoked_writes import REVOKED_WRITES, refuses_writes
from kubevouch.api.meta_v1 import Condition
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.stored import find
from kubevouch.machinery.errors import APIStatusError
from kubevouch.revocation.enforcement import (
    OWN_SERVER,
    REFUSES_EVERYBODY,
    STRANGER,
    Answer,
    Holder,
    Reach,
    State,
    Way,
    authorizers,
    holders,
    judge,
    refuses_everybody,
    unanswered,
    weigh,
)
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.revocation_enforcement")

OWN_BUILD = "+kubevouch-"
"""In the version of an API server of ours."""
LOOK_SECONDS = 20.0
"""Between two rounds: what is said of a server is younger than a minute, also if one round fails."""
SOON_SECONDS = 3.0
"""… while something new is not refused yet: a webhook hears of an object within a second or two."""
_NEW_SECONDS = 30.0
MOST_ASKED = 60
"""Holders of whom one round asks, with two questions each: six questions in a second, whatever is revoked."""
_ROUND_SECONDS = 10.0
_PATIENCE_SECONDS = 40.0
"""With a round of ten seconds, and one more in between, nothing is said on for longer than a minute."""


class Enforcement(Protocol):
    """Who says whether a revocation is in force."""

    def condition(self, reach: Reach, former: Condition | None) -> Condition:
        """As far as it was seen.

        Args:
            former: what was said before, also by another process.
        """
        ...

    def forget(self, name: str) -> None:
        """The revocation of this name is gone."""
        ...


class OwnServerEnforcement:
    """Beside an API server of ours, which refuses by the same set of revocations."""

    def condition(self, reach: Reach, former: Condition | None) -> Condition:  # noqa: ARG002
        """See :class:`Enforcement`."""
        return judge(reach, [OWN_SERVER])

    def forget(self, name: str) -> None:
        """See :class:`Enforcement`."""


class _Known(msgspec.Struct):
    """What was seen of one revocation; ``told`` was said of it last. Moments are of the monotonic clock."""

    asked_about: tuple[Holder, ...]
    since: float
    asked: float = float("-inf")
    way: Way | None = None
    told: Way | None = None


class ObservedEnforcement:
    """Asks a server that is not ours, again and again, about some of those whom each revocation reaches.

    What was seen once of a revocation stands as long as each round sees that the server goes on refusing others: with
    more revocations than a round has questions, each has its turn.

    Args:
        changed: told the names of revocations of which something else is to be said.
        look_soon: something new is there to be asked about.
    """

    def __init__(
        self, client: Client, clock: Clock, changed: Callable[[str], None], look_soon: Callable[[], None]
    ) -> None:
        self._client = client
        self._clock = clock
        self._changed = changed
        self._look_soon = look_soon
        self._known: dict[str, _Known] = {}
        self._all: Way | None = None
        self._admission: tuple[Way, ...] = ()
        self._answered = float("-inf")
        self._turn = 0

    def condition(self, reach: Reach, former: Condition | None) -> Condition:
        """See :class:`Enforcement`."""
        known = self._known.get(reach.name)
        chosen = holders(reach, _stranger(), self._turn)
        if known is None:
            self._known[reach.name] = known = _Known(chosen, self._clock.monotonic())
            self._look_soon()
        known.asked_about = chosen
        way = self._way(known)
        known.told = way
        if way is None and former is not None:
            # Who begins to lead takes nothing back before it could ask.
            return former
        return judge(reach, [] if way is None else [way, *self._admission])

    def forget(self, name: str) -> None:
        """See :class:`Enforcement`."""
        self._known.pop(name, None)

    def _way(self, known: _Known) -> Way | None:
        """None for one whose turn comes, within a minute."""
        way = self._all or known.way
        if way is None and self._clock.monotonic() - known.since < _PATIENCE_SECONDS:
            return None
        # The moment is another one each time, and not told.
        return _NOT_YET if way is None else msgspec.structs.replace(way, seen=None)

    async def look(self) -> float:
        """One round of questions; the seconds until the next."""
        self._turn += 1
        before = self._admission
        try:
            self._admission = await admission(self._client)
            self._all = await self._look()
            self._answered = self._clock.monotonic()
        except (APIStatusError, TransportError) as err:
            if self._clock.monotonic() - self._answered < _PATIENCE_SECONDS:
                log.info("the API server cannot be asked what it refuses", err=str(err))
                return SOON_SECONDS
            self._all = unanswered(f"the API server cannot be asked: {err}")
        for name, known in list(self._known.items()):
            if known.told != self._way(known) or before != self._admission:
                self._changed(name)
        return SOON_SECONDS if self._is_waiting() else LOOK_SECONDS

    async def _look(self) -> Way | None:
        """What holds for all revocations; None where each is another matter."""
        if await is_own(self._client):
            return OWN_SERVER
        if not self._known:
            return None
        if refuses_everybody(await ask(self._client, Holder(STRANGER, _AUTHENTICATED, _stranger()))):
            return EVERYBODY
        began, left, has_stopped = self._clock.monotonic(), MOST_ASKED, False
        asked: set[str] = set()
        for name, known in sorted(self._known.items(), key=lambda item: item[1].asked):
            now = self._clock.monotonic()
            if left <= 0 or now - began > _ROUND_SECONDS:
                break
            left -= max(len(known.asked_about), 1)
            way = await seen(self._client, known.asked_about, self._clock)
            did_refuse = known.way is not None and known.way.state is State.REFUSES
            has_stopped |= did_refuse and way.state is not State.REFUSES
            known.way, known.asked = way, now
            asked.add(name)
        if has_stopped:
            # What was seen of the others before is over as well.
            for name, known in self._known.items():
                if name not in asked:
                    known.way = _NOT_YET
        return None

    def _is_waiting(self) -> bool:
        if self._all is not None:
            return False
        now = self._clock.monotonic()
        return any(
            known.way in (None, _NOT_YET) or (known.way.state is not State.REFUSES and now - known.since < _NEW_SECONDS)
            for known in self._known.values()
        )


EVERYBODY = unanswered(
    "kube-apiserver denies everybody who comes with a certificate, revoked or not: its webhook does not answer, and its"
    " failure policy is Deny",
    REFUSES_EVERYBODY,
)
_BY_ADMISSION = Way(
    "the admission policy", State.CONFIGURED, writes=True,
    about=f"the admission policy {REVOKED_WRITES} refuses writes",
    leaves_open="watches that are open, and impersonation",
)  # fmt: skip
_NOT_YET = unanswered("the API server has not been asked about it yet")
_AUTHENTICATED = (wellknown.AUTHENTICATED_GROUP,)


def _stranger() -> str:
    """The fingerprint of a certificate that nobody has."""
    return secrets.token_hex(32)


async def is_own(client: Client) -> bool:
    """Whether the API server is ours, which refuses by itself. Raises APIStatusError, TransportError."""
    answer = await client.raw("GET", "/version")
    try:
        version = msgspec.json.decode(answer.body, type=dict[str, object])
    except msgspec.DecodeError:
        return False
    return answer.status == 200 and OWN_BUILD in str(version.get("gitVersion", ""))


async def seen(client: Client, asked_about: Sequence[Holder], clock: Clock) -> Way:
    """What the authorizers of a server that is not ours say of these holders.

    Raises:
        APIStatusError, TransportError
    """
    verdicts = []
    for holder in asked_about:
        shown = await ask(client, holder)
        bare = shown
        if shown.denied:
            bare = await ask(client, msgspec.structs.replace(holder, fingerprint=""))
        verdicts.append((holder, weigh(shown, bare)))
    return authorizers(verdicts, clock.now())


async def look(client: Client, reach: Reach, clock: Clock) -> Condition:
    """Whether a revocation is in force on the server of ``client``, seen now. Raises APIStatusError, TransportError."""
    if await is_own(client):
        return judge(reach, [OWN_SERVER])
    if refuses_everybody(await ask(client, Holder(STRANGER, _AUTHENTICATED, _stranger()))):
        return judge(reach, [EVERYBODY])
    by_authorizers = await seen(client, holders(reach, _stranger()), clock)
    return judge(reach, [by_authorizers, *await admission(client)])


async def admission(client: Client) -> tuple[Way, ...]:
    """The admission policy that refuses writes, where it stands as it is shipped; empty where it does not, or may not
    be read. Nobody can see it refuse without the right to pretend to be whom it refuses.

    Raises:
        APIStatusError, TransportError
    """
    try:
        policy = await find(client, VALIDATING_ADMISSION_POLICIES, REVOKED_WRITES)
        binding = await find(client, VALIDATING_ADMISSION_POLICY_BINDINGS, REVOKED_WRITES)
    except APIStatusError as err:
        if err.code != 403:
            raise
        return ()
    if policy is None or binding is None or not refuses_writes(policy, binding):
        return ()
    return (_BY_ADMISSION,)


async def ask(client: Client, holder: Holder) -> Answer:
    """Whether the holder may do what every such user may by default. Raises APIStatusError, TransportError.

    A node may create its Node by the Node authorizer, everybody else may ask who they are by ``system:basic-user``.
    Where an authorizer in front of the webhook allows that, the webhook is not asked, and no denial is seen.
    """
    resource = NODES if wellknown.NODES_GROUP in holder.groups else SELF_SUBJECT_REVIEWS
    group = "" if resource is NODES else AUTHENTICATION_GROUP
    spec = SubjectAccessReviewSpec(
        user=holder.user,
        groups=list(holder.groups),
        extra={wellknown.CREDENTIAL_ID_EXTRA: [f"X509SHA256={holder.fingerprint}"]} if holder.fingerprint else {},
        resource_attributes=ResourceAttributes(verb="create", group=group, version="v1", resource=resource.plural),
    )
    status = (await client.create(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=spec))).status
    return Answer(status.allowed, status.denied)
