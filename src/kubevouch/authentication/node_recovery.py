"""Challenges for nodes whose certificate has ended, and sessions for those that answer one.

Neither is kept: both are JWS of a key that all API servers share, so that any of them takes what another one gave.

Source: kubevouch's own; docs/adr/0010-recovery-is-a-request-of-its-own-user.md.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from kubevouch.authentication.interface import Authentication, AuthenticationError, UserInfo
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import RecoveryProofError
from kubevouch.pki.recognizers import RECOVERY_USER_PREFIX
from kubevouch.pki.recovery_proof import Answer, verify_answer
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import CloneError, Record, RecoveryPolicy, RecoveryRefusedError, Use
from kubevouch.revocation.revocations import Revocations, marks_of
from kubevouch.util.clock import Clock
from kubevouch.util.expiring_cache import ExpiringCache

METHOD = "node-recovery"
CHALLENGE_LIFE = dt.timedelta(minutes=2)
SESSION_LIFE = dt.timedelta(minutes=20)
"""An attempt of the agent takes 15 at most."""
# More than a cluster has nodes.
_MAX_ANSWERED = 100_000
_MAX_TOKEN = 2048
_ALGORITHM = "HS256"
_HEADER = {"alg": _ALGORITHM, "typ": "kubevouch-recovery"}


class _Challenge(msgspec.Struct, frozen=True, tag="challenge"):
    node: str
    nonce: str
    exp: int


class _Session(msgspec.Struct, frozen=True, tag="session"):
    node: str
    use: Use
    exp: int


T = TypeVar("T", _Challenge, _Session)


class NodeRecovery:
    """Gives challenges, takes answers, and knows its sessions again.

    Args:
        secret: the key that all API servers share; empty while there is none, when nobody recovers.
        record_of: the record of a node, or None.
        locked: how many nodes are locked.
        revocations: what is revoked does not recover, for its key may be what was stolen.
    """

    def __init__(
        self,
        policy: RecoveryPolicy,
        anchors: TrustAnchors,
        clock: Clock,
        secret: Callable[[], bytes],
        record_of: Callable[[str], Record | None],
        locked: Callable[[], int],
        revocations: Revocations | None = None,
    ) -> None:
        self._revocations = revocations or Revocations()
        self._policy = policy
        self._anchors = anchors
        self._clock = clock
        self._secret = secret
        self._record_of = record_of
        self.locked = locked
        self._answered: ExpiringCache[str, bool] = ExpiringCache(_MAX_ANSWERED, clock)

    def replace_anchors(self, anchors: TrustAnchors) -> None:
        """Believe the certificates of another client CA bundle."""
        self._anchors = anchors

    def challenge(self, node_name: str) -> str:
        """A challenge for whoever says to be that node. Raises :class:`RecoveryProofError` while there is no key."""
        return self._sealed(_Challenge(node_name, secrets.token_urlsafe(16), self._until(CHALLENGE_LIFE)))

    def session(self, answer: Answer) -> str:
        """A bearer token with which the node may make its request.

        The record is only looked at: a replayed key gets its session too, for the approving controller has to see it.

        Raises:
            RecoveryProofError: the answer proves nothing.
            RecoveryRefusedError: it does, and the node may not recover.
        """
        challenge = self._opened(answer.challenge, _Challenge)
        if challenge is None or challenge.node != answer.node_name:
            raise RecoveryProofError("the challenge is not one for this node, or its time is over")
        if self._answered.get(challenge.nonce):
            raise RecoveryProofError("the challenge has been answered already")
        now = self._clock.now()
        proven = verify_answer(answer, self._anchors, now=now, max_age=self._policy.max_age)
        self._answered.put(challenge.nonce, True, CHALLENGE_LIFE.total_seconds())
        why = self._revocations.why(marks_of(proven.chain))
        if why:
            raise RecoveryRefusedError(f"the certificate that has ended is revoked: {why}")
        digest = node_recovery.digest
        wanted = Use(digest(proven.key), digest(proven.next_key), digest(proven.request.public_key))
        try:
            node_recovery.use(self._record_of(proven.node_name), wanted, self._policy, now=now)
        except CloneError:
            pass
        return self._sealed(_Session(proven.node_name, wanted, self._until(SESSION_LIFE)))

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        """The user that recovers a node; nobody for whom an audience is named: the token is for this server only."""
        session = None if audiences else self._opened(bearer_token, _Session)
        if session is None:
            return None
        begun = dt.datetime.fromtimestamp(session.exp, dt.UTC) - SESSION_LIFE
        if why := self._revocations.node(session.node, begun):
            raise AuthenticationError(f"the node is revoked: {why}")
        extra = node_recovery.user_extra(session.use)
        user = UserInfo(f"{RECOVERY_USER_PREFIX}{session.node}", "", (node_recovery.RECOVERERS_GROUP,), extra)
        return Authentication(user, METHOD)

    # -------------------------------------------------------------- sealing

    def _until(self, life: dt.timedelta) -> int:
        return int((self._clock.now() + life).timestamp())

    def _key(self) -> OctKey | None:
        secret = self._secret()
        return OctKey.import_key(secret) if secret else None

    def _sealed(self, content: _Challenge | _Session) -> str:
        key = self._key()
        if key is None:
            raise RecoveryProofError("the cluster has no key for recovery yet")
        return jws.serialize_compact(_HEADER, msgspec.json.encode(content), key, algorithms=[_ALGORITHM])

    def _opened(self, text: str, kind: type[T]) -> T | None:
        """What we sealed, if its time is not over."""
        # Every bearer token comes by here, most of other kinds.
        if len(text) > _MAX_TOKEN or text.count(".") != 2 or (key := self._key()) is None:
            return None
        try:
            payload = jws.deserialize_compact(text.encode(), key, algorithms=[_ALGORITHM]).payload
            content = msgspec.json.decode(payload, type=kind)
        except (JoseError, msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return content if self._clock.now().timestamp() < content.exp else None
