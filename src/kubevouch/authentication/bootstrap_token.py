"""Bootstrap tokens as bearer tokens.

Source: plugin/pkg/auth/authenticator/token/bootstrap (Kubernetes 1.36); the rules are in
``records/bootstrap_tokens.py``.
"""

from __future__ import annotations

import datetime as dt
import hmac
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kubevouch.api.core_v1.secrets import Secret
from kubevouch.authentication.interface import Authentication, UserInfo
from kubevouch.records import bootstrap_tokens, token_bounds
from kubevouch.records.bootstrap_tokens import TOKEN_SECRET_KEY, TokenRefusedError, TokenSyntaxError
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA, TokenBoundsError
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

METHOD = "bootstrap-token"

log = get_logger("authentication.bootstrap-token")

SecretGetter = Callable[[str], Secret | None]

# A fleet joins with one token, or a few.
MAX_REMEMBERED = 64


class _Accepted(NamedTuple):
    """What was found good, so that only what the next bearer shows and the time have to be looked at again.

    Args:
        secret: the very object that was judged: whatever changes is a new one.
        until: when it expires; None if it never does.
    """

    secret: Secret
    until: dt.datetime | None
    authentication: Authentication


class BootstrapTokenAuthenticator:
    """Looks a token up by the name of its Secret. Whatever is wrong with it, the client sees the same 401.

    Args:
        secret_named: the Secret of that name in ``kube-system``, or None. Secrets are never listed: the cost of a
            request must not grow with the number of tokens.
        clock: decides what has expired.
    """

    def __init__(self, secret_named: SecretGetter, clock: Clock) -> None:
        self._secret_named = secret_named
        self._clock = clock
        self._accepted: dict[str, _Accepted] = {}

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        """The user ``system:bootstrap:<token-id>``, or None: a bad token is no error, as other kinds come after it.

        Users of Kubernetes' own tokens have no extra; those of bounded ones are told apart by it.
        """
        if audiences:
            # The token stands for no audience, so it satisfies nobody who names one.
            return None
        try:
            token = bootstrap_tokens.parse_token(bearer_token)
        except TokenSyntaxError:
            return None
        secret = self._secret_named(token.secret_name)
        if secret is None:
            log.debug("bootstrap token refused", reason=bootstrap_tokens.no_secret_text(token.token_id))
            return None
        now = self._clock.now()
        accepted = self._accepted.get(token.token_id)
        if (
            accepted is not None
            and accepted.secret is secret
            and (accepted.until is None or now < accepted.until)
            and hmac.compare_digest(secret.data[TOKEN_SECRET_KEY], token.token_secret.encode())
        ):
            return accepted.authentication
        try:
            groups = bootstrap_tokens.accept_for_authentication(secret, token.token_secret, now)
            bounds = token_bounds.from_annotations(secret.metadata.annotations)
        except (TokenRefusedError, TokenBoundsError) as err:
            log.info("bootstrap token refused", token_id=token.token_id, reason=str(err))
            return None
        extra = {TOKEN_UID_EXTRA: (secret.metadata.uid,)} if bounds else {}
        user = UserInfo(token.user, groups=tuple(groups), extra=extra)
        found = Authentication(user, METHOD, source_ranges=bounds.source_ranges, credential=f"token {token.token_id}")
        self._remember(token.token_id, secret, now, found)
        return found

    def _remember(self, token_id: str, secret: Secret, now: dt.datetime, found: Authentication) -> None:
        self._accepted.pop(token_id, None)
        if len(self._accepted) >= MAX_REMEMBERED:
            del self._accepted[next(iter(self._accepted))]
        remaining = bootstrap_tokens.expiration_of(secret, now).remaining
        self._accepted[token_id] = _Accepted(secret, None if remaining is None else now + remaining, found)
