"""The bootstrap-token phase: tokens are made, listed and deleted through the API, as ``kubeadm token`` does (1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.pager import PAGES, list_all
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.text.gotext import human_duration, quote
from kubevouch.records import token_bounds, token_record
from kubevouch.records.bootstrap_tokens import (
    AUTHENTICATION,
    SIGNING,
    BootstrapToken,
    BootstrapTokenError,
    Token,
    TokenSyntaxError,
    from_secret,
    generate_token,
    parse_token,
    parse_token_id,
    secret_name,
    to_secret,
    verify_group,
    verify_usages,
)
from kubevouch.records.token_bounds import Bounds
from kubevouch.records.token_record import TokenRecordError
from kubevouch.util.nearest import meant

DEFAULT_TTL = dt.timedelta(hours=24)
DEFAULT_USAGES = (SIGNING, AUTHENTICATION)
DEFAULT_GROUPS = (wellknown.DEFAULT_NODE_TOKEN_GROUP,)
# A token that is about to end is no use to who has yet to copy it to a machine.
_WORTH_GIVING = dt.timedelta(minutes=10)
# A day that has just begun is a day.
_ROUNDED_UP = 30
_MADE_BY_UP = "made by kubevouch up"
_TOKEN_PATTERN = r'"\\A([a-z0-9]{6})\\.([a-z0-9]{16})\\z"'
_TOKEN_ID_PATTERN = r'"\\A([a-z0-9]{6})\\z"'


class TokenPhaseError(Exception):
    """A token cannot be made or deleted; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def plan(
    token: Token,
    *,
    now: dt.datetime,
    ttl: dt.timedelta = DEFAULT_TTL,
    usages: Sequence[str] = DEFAULT_USAGES,
    groups: Sequence[str] | None = None,
    description: str = "",
    bounds: Bounds = token_bounds.NONE,
) -> BootstrapToken:
    """A token with its settings.

    Args:
        ttl: zero is without end.
        groups: None gives kubeadm's group to a token that authenticates and none to another. kubeadm itself refuses
            the latter until the groups are taken away by hand.
        bounds: what it may be used for; kept by kubevouch's server and controllers only.

    Raises:
        TokenPhaseError: settings that no token may have; with kubeadm's texts.
    """
    if ttl < dt.timedelta():
        raise TokenPhaseError(f"invalid ttl {ttl.total_seconds():g}s", "give 0 for a token without end")
    try:
        wanted = verify_usages(usages)
        if groups is None:
            groups = DEFAULT_GROUPS if AUTHENTICATION in wanted else ()
        if groups and AUTHENTICATION not in wanted:
            raise TokenPhaseError(f'token groups cannot be specified unless --usages includes "{AUTHENTICATION}"')
        if bounds and AUTHENTICATION not in wanted:
            raise TokenPhaseError(
                f"bounds of a token are about who comes in with it, got usages without {AUTHENTICATION}"
            )
        extra = tuple(verify_group(group) for group in groups)
    except BootstrapTokenError as err:
        raise TokenPhaseError(str(err)) from err
    return BootstrapToken(token, description, now + ttl if ttl else None, wanted, extra, bounds)


def plan_separate(
    discovery: Token,
    authentication: Token,
    *,
    now: dt.datetime,
    ttl: dt.timedelta = DEFAULT_TTL,
    groups: Sequence[str] | None = None,
    description: str = "",
    bounds: Bounds = token_bounds.NONE,
) -> tuple[BootstrapToken, BootstrapToken]:
    """A token that cluster-info is signed with and one that lets machines in.

    The signature is public, and lets anyone try secrets without asking the server: here one finds nothing by it but a
    token that is good for nothing else.

    Raises:
        TokenPhaseError: as :func:`plan`.
    """
    return (
        plan(discovery, now=now, ttl=ttl, usages=(SIGNING,), description=description),
        plan(
            authentication,
            now=now,
            ttl=ttl,
            usages=(AUTHENTICATION,),
            groups=groups,
            description=description,
            bounds=bounds,
        ),
    )


async def create(client: Client, bootstrap_token: BootstrapToken) -> None:
    """Store a token.

    Raises:
        TokenPhaseError: there is one with its ID; with kubeadm's text.
        APIStatusError, TransportError
    """
    try:
        await client.create(catalog.SECRETS, to_secret(bootstrap_token))
    except APIStatusError as err:
        if err.reason != Reason.ALREADY_EXISTS:
            raise
        token_id = bootstrap_token.token.token_id
        raise TokenPhaseError(
            f"a token with id {quote(token_id)} already exists", f"kubevouch token delete {token_id} removes it"
        ) from err


async def create_all(client: Client, tokens: Sequence[BootstrapToken]) -> None:
    """Store all of ``tokens``, or none.

    Raises:
        TokenPhaseError, APIStatusError, TransportError
    """
    for number, each in enumerate(tokens):
        try:
            await create(client, each)
        except BaseException:
            for made in tokens[:number]:
                with suppress(TokenPhaseError, TransportError):
                    await delete(client, made.token.token_id)
            raise


async def list_tokens(client: Client) -> tuple[list[BootstrapToken], list[str]]:
    """The tokens in the order of their IDs, and a sentence for each Secret that holds none.

    Raises:
        APIStatusError, TransportError
    """
    found, problems, _ = await list_with_uses(client)
    return found, problems


async def list_with_uses(client: Client) -> tuple[list[BootstrapToken], list[str], dict[str, int]]:
    """As :func:`list_tokens`, and by ID how many uses are left, where they are counted.

    Raises:
        APIStatusError, TransportError
    """
    options = replace(PAGES, field_selector=f"type={wellknown.BOOTSTRAP_TOKEN_SECRET}")
    found: list[BootstrapToken] = []
    problems: list[str] = []
    left: dict[str, int] = {}
    for secret in (await list_all(client, catalog.SECRETS, wellknown.KUBE_SYSTEM_NAMESPACE, options)).items:
        try:
            known = from_secret(secret)
            uses = token_record.uses_left(known.bounds, token_record.read(secret.metadata.annotations))
        except (BootstrapTokenError, TokenRecordError) as err:
            problems.append(str(err))
            continue
        found.append(known)
        if uses is not None:
            left[known.token.token_id] = uses
    return found, problems, left


def token_id_of(text: str) -> str:
    """The ID in an ID or a whole token. Raises :class:`TokenPhaseError` with kubeadm's text."""
    try:
        return parse_token(text).token_id
    except TokenSyntaxError:
        pass
    try:
        return parse_token_id(text)
    except TokenSyntaxError as err:
        raise TokenPhaseError(f"given token didn't match pattern {_TOKEN_PATTERN} or {_TOKEN_ID_PATTERN}") from err


async def delete(client: Client, token_id: str) -> None:
    """Raises :class:`TokenPhaseError` with kubeadm's text, and ``TransportError``."""
    try:
        await client.delete(catalog.SECRETS, secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
    except APIStatusError as err:
        hint = await _known(client, token_id) if err.code == 404 else ""
        raise TokenPhaseError(f"failed to delete bootstrap token {quote(token_id)}: {err}", hint) from err


async def _known(client: Client, token_id: str) -> str:
    """What to do about an ID that no token has."""
    known: list[BootstrapToken] = []
    with suppress(APIStatusError, TransportError):  # it is another right than the one to delete
        known, _ = await list_tokens(client)
    return meant(token_id, (each.token.token_id for each in known), "kubevouch token list shows those that are there")


def power(
    groups: Sequence[str], expires: dt.datetime | None, now: dt.datetime, bounds: Bounds = token_bounds.NONE
) -> str:
    """What whoever has a token can do, in one line: it is more than a password for one machine."""
    end = "for ever"
    if expires is not None:
        end = f"for {human_duration(max((expires - now).total_seconds(), 0) + _ROUNDED_UP)}"
    able = "can become " + (" or ".join(bounds.node_names) or "any node whose name is free")
    if bounds.uses is not None:
        able += f", {bounds.uses} of them at most"
    if bounds.source_ranges:
        able += f", from {' or '.join(map(str, bounds.source_ranges))}"
    if bounds.public_keys:
        able += ", with a key that it is for"
    if not set(DEFAULT_GROUPS) <= set(groups):
        able = f"has the rights of {', '.join(groups) or wellknown.BOOTSTRAPPERS_GROUP}"
    return f"whoever has the token {able}, {end}"


class TokenPair(NamedTuple):
    """With what machines join: a token that cluster-info is signed with, and one that lets them in, until it ends."""

    discovery: Token
    authentication: Token
    expires: dt.datetime | None


async def ensure(client: Client, ttl: dt.timedelta, *, now: dt.datetime) -> TokenPair:
    """Separate tokens with which machines can join: those made here before that hold for a while, else new ones.

    Raises:
        APIStatusError, TransportError
    """
    # As it is stored: in whole seconds.
    now = now.replace(microsecond=0)
    found = await _made_by_up(client, now, min(_WORTH_GIVING, ttl or _WORTH_GIVING))
    fresh = plan_separate(generate_token(), generate_token(), now=now, ttl=ttl, description=_MADE_BY_UP)
    await create_all(client, [each for each in fresh if each.usages[0] not in found])
    signing, authentication = (found.get(each.usages[0], each) for each in fresh)
    return TokenPair(signing.token, authentication.token, authentication.expires)


async def find(client: Client, *, now: dt.datetime) -> TokenPair | None:
    """What :func:`ensure` has made, as long as both are there and have not ended. Raises what the client raises."""
    found = await _made_by_up(client, now, dt.timedelta())
    if len(found) < len(DEFAULT_USAGES):
        return None
    return TokenPair(found[SIGNING].token, found[AUTHENTICATION].token, found[AUTHENTICATION].expires)


async def _made_by_up(client: Client, now: dt.datetime, lasting: dt.timedelta) -> dict[str, BootstrapToken]:
    """Those that hold for ``lasting``, by what they are for.

    Tokens that a person has made for something are not handed on: whoever reads the server's output gets these.
    """
    found: dict[str, BootstrapToken] = {}
    for known in (await list_tokens(client))[0]:
        holds = known.expires is None or known.expires - now >= lasting
        sole = known.usages[0] if len(known.usages) == 1 else ""
        grants = sole == SIGNING or set(DEFAULT_GROUPS) <= set(known.groups)
        if holds and sole and grants and not known.bounds and known.description == _MADE_BY_UP:
            found.setdefault(sole, known)
    return found
