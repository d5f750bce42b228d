"""Bootstrap tokens: their syntax, the Secret that holds one, and when that Secret counts.

    BootstrapTokenError       anything that is wrong with a token or its Secret
    ├── TokenSyntaxError      a text that is no token; the text itself is not repeated
    ├── TokenSettingsError    usages, groups or an expiration that no token may have
    ├── WeakTokenError        a secret that can be guessed; the secret itself is not repeated
    └── TokenRefusedError     a Secret that does not count for what is asked; ``str()`` is Kubernetes' log text

The authenticator, the signer of cluster-info, the cleaner and the command line share these rules.

Sources: k8s.io/cluster-bootstrap/{token,util}, plugin/pkg/auth/authenticator/token/bootstrap,
pkg/controller/bootstrap/util.go (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from kubevouch import wellknown
from kubevouch.api.core_v1.secrets import Secret
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text import gotext
from kubevouch.machinery.text.times import Time, parse_go_rfc3339
from kubevouch.records import token_bounds
from kubevouch.records.token_bounds import Bounds, TokenBoundsError
from kubevouch.records.token_strength import FLOOR_BITS, estimated_bits

SECRET_NAME_PREFIX = "bootstrap-token-"

TOKEN_ID_KEY = "token-id"
TOKEN_SECRET_KEY = "token-secret"
EXPIRATION_KEY = "expiration"
DESCRIPTION_KEY = "description"
EXTRA_GROUPS_KEY = "auth-extra-groups"
USAGE_KEY_PREFIX = "usage-bootstrap-"

SIGNING = "signing"
AUTHENTICATION = "authentication"
USAGES = (SIGNING, AUTHENTICATION)
_SIGNING_KEY = f"{USAGE_KEY_PREFIX}{SIGNING}"
_AUTHENTICATION_KEY = f"{USAGE_KEY_PREFIX}{AUTHENTICATION}"

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 6
_SECRET_LENGTH = 16
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})", re.ASCII)
_TOKEN_ID = re.compile(r"[a-z0-9]{6}", re.ASCII)
_GROUP_FORM = wellknown.BOOTSTRAPPERS_GROUP_PREFIX + r"[a-z0-9:-]{0,255}[a-z0-9]"
_GROUP = re.compile(_GROUP_FORM, re.ASCII)
# As Kubernetes prints it.
_GROUP_PATTERN = rf"\A{_GROUP_FORM}\z"

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class BootstrapTokenError(ValueError):
    """Anything that is wrong with a token or its Secret."""


class TokenSyntaxError(BootstrapTokenError):
    """A text that is no token."""


class TokenSettingsError(BootstrapTokenError):
    """Usages, groups or an expiration that no token may have."""


class WeakTokenError(BootstrapTokenError):
    """A secret that can be guessed; the secret itself is not repeated."""


class TokenRefusedError(BootstrapTokenError):
    """A Secret that does not count for what is asked; ``str()`` is Kubernetes' log text."""


# ------------------------------------------------------------------ the token itself


@dataclass(frozen=True, slots=True)
class Token:
    """``<token-id>.<token-secret>``. The secret half does not show in ``repr``."""

    token_id: str
    token_secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The whole token, secret included."""
        return f"{self.token_id}.{self.token_secret}"

    @property
    def bits(self) -> float:
        """What guessing the secret costs at most, as a power of two."""
        return estimated_bits(self.token_id, self.token_secret)

    @property
    def user(self) -> str:
        """The user as which the token authenticates."""
        return f"{wellknown.BOOTSTRAP_USER_PREFIX}{self.token_id}"

    @property
    def secret_name(self) -> str:
        return secret_name(self.token_id)


def parse_token(text: str) -> Token:
    """Raises :class:`TokenSyntaxError` unless ``text`` is exactly six and sixteen of a-z and 0-9 around a dot."""
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise TokenSyntaxError(
            "a bootstrap token has the form [a-z0-9]{6}.[a-z0-9]{16}, the given text of "
            f"{len(text)} characters does not"
        )
    return Token(match[1], match[2])


def parse_token_id(text: str) -> str:
    """``text``, if it is a token ID. Raises :class:`TokenSyntaxError`."""
    if _TOKEN_ID.fullmatch(text) is None:
        raise TokenSyntaxError(f"a token ID has the form [a-z0-9]{{6}}, got {len(text)} characters that have not")
    return text


def generate_token(choose: Callable[[str], str] = secrets.choice) -> Token:
    """A new random token.

    Args:
        choose: picks one character of a text without bias; the operating system's randomness by default.
    """
    while True:
        letters = [choose(_ALPHABET) for _ in range(_ID_LENGTH + _SECRET_LENGTH)]
        token = Token("".join(letters[:_ID_LENGTH]), "".join(letters[_ID_LENGTH:]))
        # One in many millions has a pattern by chance, and would be refused elsewhere.
        if token.bits >= FLOOR_BITS:
            return token


def verify_strength(token: Token) -> Token:
    """``token``, unless its secret can be guessed. Raises :class:`WeakTokenError`."""
    if token.bits < FLOOR_BITS:
        raise WeakTokenError(
            f"the secret of the token {token.token_id} is worth about {token.bits:.0f} bits, expected "
            f"{FLOOR_BITS:.0f} or more: whoever reads cluster-info can guess it"
        )
    return token


def secret_name(token_id: str) -> str:
    return f"{SECRET_NAME_PREFIX}{token_id}"


def token_id_of_name(name: str) -> str | None:
    """The token ID in the name of a Secret, or None if it is not the name of a bootstrap token."""
    token_id = name.removeprefix(SECRET_NAME_PREFIX)
    return token_id if name.startswith(SECRET_NAME_PREFIX) and _TOKEN_ID.fullmatch(token_id) else None


def token_id_of_user(username: str) -> str:
    """The ID of the token that a user came with; empty if it was none."""
    prefix = wellknown.BOOTSTRAP_USER_PREFIX
    token_id = username.removeprefix(prefix)
    return token_id if username.startswith(prefix) and _TOKEN_ID.fullmatch(token_id) else ""


# ------------------------------------------------------------------ settings


def verify_usages(usages: Iterable[str]) -> tuple[str, ...]:
    """``usages`` without repeats, sorted. Raises :class:`TokenSettingsError`."""
    wanted = sorted(set(usages))
    unknown = [usage for usage in wanted if usage not in USAGES]
    if unknown:
        raise TokenSettingsError(
            f"invalid bootstrap token usage string: {','.join(unknown)}, valid usage options: {','.join(USAGES)}"
        )
    return tuple(wanted)


def verify_group(group: str) -> str:
    """``group``, if a token may carry it. Raises :class:`TokenSettingsError` with Kubernetes' text."""
    if _GROUP.fullmatch(group) is None:
        raise TokenSettingsError(f"bootstrap group {gotext.quote(group)} is invalid (must match {_GROUP_PATTERN})")
    return group


def groups_of(secret: Secret) -> list[str]:
    """The groups that a token gives, sorted: ``system:bootstrappers`` and the extra ones.

    Raises:
        TokenSettingsError: for the first group that no token may give; one bad group spoils all.
    """
    extra = _text(secret.data, EXTRA_GROUPS_KEY)
    return sorted({wellknown.BOOTSTRAPPERS_GROUP, *(verify_group(group) for group in extra.split(",") if extra)})


# ------------------------------------------------------------------ expiration


class Expiration(NamedTuple):
    """``remaining`` is None for a token that never expires, and zero for one that has."""

    expired: bool
    remaining: dt.timedelta | None


_NEVER = Expiration(expired=False, remaining=None)
_PAST = Expiration(expired=True, remaining=dt.timedelta())


def expiration_of(secret: Secret, now: dt.datetime) -> Expiration:
    """Whether a token has expired at ``now``, and what remains.

    No ``expiration``, or an empty one, never expires. One that does not parse as Go's RFC 3339 *has* expired.
    """
    text = _text(secret.data, EXPIRATION_KEY)
    if not text:
        return _NEVER
    try:
        seconds, nanos = parse_go_rfc3339(text)
    except ValueError:
        return _PAST
    remaining = dt.timedelta(seconds=seconds, microseconds=nanos // 1000) - (now - _EPOCH)
    return Expiration(expired=False, remaining=remaining) if remaining > dt.timedelta() else _PAST


# ------------------------------------------------------------------ when a Secret counts


def no_secret_text(token_id: str) -> str:
    """Kubernetes' log text for a bearer token whose Secret does not exist."""
    return f"No secret of name {secret_name(token_id)} to match bootstrap bearer token"


def accept_for_authentication(secret: Secret, token_secret: str, now: dt.datetime) -> list[str]:
    """The groups of the user that a bearer token stands for.

    ``secret`` is the one that the token's ID names, ``token_secret`` what the bearer sent.

    Raises:
        TokenRefusedError: the Secret does not let the bearer in; the text is for the log, the bearer gets a 401.
    """
    place = f"{secret.metadata.namespace}/{secret.metadata.name}"
    about = f"Bootstrap secret {place} matching bearer token "
    if secret.metadata.deletion_timestamp is not None:
        raise TokenRefusedError(f"{about}is deleted and awaiting removal")
    if secret.type != wellknown.BOOTSTRAP_TOKEN_SECRET:
        raise TokenRefusedError(f"{about}has invalid type, expected {wellknown.BOOTSTRAP_TOKEN_SECRET}.")
    if not hmac.compare_digest(secret.data.get(TOKEN_SECRET_KEY, b""), token_secret.encode()):
        raise TokenRefusedError(f"{about}has invalid value for key {TOKEN_SECRET_KEY}.")
    if _text(secret.data, TOKEN_ID_KEY) != secret.metadata.name.removeprefix(SECRET_NAME_PREFIX):
        raise TokenRefusedError(f"{about}has invalid value for key {TOKEN_ID_KEY}.")
    if expiration_of(secret, now).expired:
        raise TokenRefusedError(_expired_text(secret, place))
    if secret.data.get(_AUTHENTICATION_KEY) != b"true":
        raise TokenRefusedError(f"{about}not marked {_AUTHENTICATION_KEY}=true.")
    try:
        return groups_of(secret)
    except TokenSettingsError as err:
        raise TokenRefusedError(f"{about}has invalid value for key {EXTRA_GROUPS_KEY}: {err}.") from err


def lost_since(secret: Secret | None, groups: Sequence[str], now: dt.datetime) -> str:
    """Why a user whom a token once let in with ``groups`` would not get these today, as a clause; empty if he would."""
    if secret is None:
        return "its bootstrap token is gone"
    try:
        still = accept_for_authentication(secret, _text(secret.data, TOKEN_SECRET_KEY), now)
    except TokenRefusedError as err:
        return f"its bootstrap token counts no more: {err}"
    given = (each for each in groups if (each + ":").startswith(wellknown.BOOTSTRAPPERS_GROUP_PREFIX))
    lost = sorted(set(given) - set(still))
    return f"its bootstrap token no longer gives {', '.join(lost)}" if lost else ""


def accept_for_signing(secret: Secret, now: dt.datetime) -> Token:
    """The token with which cluster-info is to be signed. Length and alphabet of its secret half are not looked at.

    Raises:
        TokenRefusedError: cluster-info is not signed for this Secret.
    """
    token_id = token_id_of_name(secret.metadata.name)
    place = f"{secret.metadata.namespace}/{secret.metadata.name}"
    if token_id is None:
        raise TokenRefusedError(f"Invalid secret name, must be of the form {SECRET_NAME_PREFIX}<secret-id>: {place}")
    for key in (TOKEN_ID_KEY, TOKEN_SECRET_KEY):
        if not secret.data.get(key):
            raise TokenRefusedError(f"No key in Secret: {key}: {place}")
        if key == TOKEN_ID_KEY and _text(secret.data, key) != token_id:
            raise TokenRefusedError(f"Token ID doesn't match secret name: {place}")
    if expiration_of(secret, now).expired:
        raise TokenRefusedError(_expired_text(secret, place))
    if secret.data.get(_SIGNING_KEY) != b"true":
        raise TokenRefusedError(f"Not marked {_SIGNING_KEY}=true: {place}")
    return Token(token_id, _text(secret.data, TOKEN_SECRET_KEY))


def _expired_text(secret: Secret, place: str) -> str:
    text = _text(secret.data, EXPIRATION_KEY)
    try:
        parse_go_rfc3339(text)
    except ValueError:
        return f"Unparseable expiration time in {place} Secret. Treating as expired."
    return f"Expired bootstrap token in {place} Secret: {text}"


def _text(values: Mapping[str, bytes], key: str) -> str:
    # What is not UTF-8 matches nothing, so that it may as well be replaced.
    return values.get(key, b"").decode("utf-8", "replace")


def turned_off(secret: Secret) -> Secret:
    """The Secret without usages: nobody comes in with it, and cluster-info is not signed with it."""
    kept = {key: value for key, value in secret.data.items() if not key.startswith(USAGE_KEY_PREFIX)}
    return msgspec.structs.replace(secret, data={**kept, _AUTHENTICATION_KEY: b"false", _SIGNING_KEY: b"false"})


# ------------------------------------------------------------------ Secret and token


class BootstrapToken(msgspec.Struct, frozen=True):
    """A token with its settings, as the command line shows and makes it.

    ``expires`` is None for a token without end.
    """

    token: Token
    description: str = ""
    expires: dt.datetime | None = None
    usages: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    bounds: Bounds = token_bounds.NONE


def to_secret(bootstrap_token: BootstrapToken) -> Secret:
    """The Secret of a token, in ``kube-system``.

    Raises:
        TokenSettingsError: for usages or groups that no token may have.
    """
    token = bootstrap_token.token
    values = {TOKEN_ID_KEY: token.token_id, TOKEN_SECRET_KEY: token.token_secret}
    if bootstrap_token.description:
        values[DESCRIPTION_KEY] = bootstrap_token.description
    if bootstrap_token.expires is not None:
        values[EXPIRATION_KEY] = str(Time.of(bootstrap_token.expires))
    for usage in verify_usages(bootstrap_token.usages):
        values[f"{USAGE_KEY_PREFIX}{usage}"] = "true"
    if bootstrap_token.groups:
        values[EXTRA_GROUPS_KEY] = ",".join(verify_group(group) for group in bootstrap_token.groups)
    return Secret(
        metadata=ObjectMeta(
            name=token.secret_name,
            namespace=wellknown.KUBE_SYSTEM_NAMESPACE,
            annotations=token_bounds.to_annotations(bootstrap_token.bounds),
        ),
        type=wellknown.BOOTSTRAP_TOKEN_SECRET,
        data={key: value.encode() for key, value in values.items()},
    )


def from_secret(secret: Secret) -> BootstrapToken:
    """The token in a Secret.

    Raises:
        BootstrapTokenError: the Secret holds no token; the text names the Secret, never its values.
    """
    name = secret.metadata.name
    for key in (TOKEN_ID_KEY, TOKEN_SECRET_KEY):
        if not secret.data.get(key):
            raise TokenSettingsError(f"Secret {gotext.quote(name)} has no {key}")
    token_id = _text(secret.data, TOKEN_ID_KEY)
    if name != secret_name(token_id):
        raise TokenSettingsError(
            f"Secret {gotext.quote(name)} holds a token ID that makes its name {gotext.quote(secret_name(token_id))}"
        )
    try:
        token = parse_token(f"{token_id}.{_text(secret.data, TOKEN_SECRET_KEY)}")
    except TokenSyntaxError as err:
        raise TokenSyntaxError(f"Secret {gotext.quote(name)}: {err}") from err
    usages = sorted(
        key.removeprefix(USAGE_KEY_PREFIX)
        for key, value in secret.data.items()
        if key.startswith(USAGE_KEY_PREFIX) and value == b"true"
    )
    groups = _text(secret.data, EXTRA_GROUPS_KEY)
    return BootstrapToken(
        token=token,
        description=_text(secret.data, DESCRIPTION_KEY),
        expires=_expires(secret),
        usages=tuple(usages),
        groups=tuple(groups.split(",")) if groups else (),
        bounds=_bounds(secret),
    )


def _bounds(secret: Secret) -> Bounds:
    try:
        return token_bounds.from_annotations(secret.metadata.annotations)
    except TokenBoundsError as err:
        raise TokenSettingsError(f"Secret {gotext.quote(secret.metadata.name)}: {err}") from err


def _expires(secret: Secret) -> dt.datetime | None:
    text = _text(secret.data, EXPIRATION_KEY)
    if not text:
        return None
    try:
        return Time.parse(text).datetime()
    except (ValueError, OverflowError) as err:
        raise TokenSettingsError(
            f"Secret {gotext.quote(secret.metadata.name)} has an expiration that is no RFC 3339 time"
        ) from err
