"""What a bootstrap token is for, how long, how often yet, and who has come with it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.records import token_bounds, token_record
from kubevouch.records.bootstrap_tokens import (
    AUTHENTICATION,
    DESCRIPTION_KEY,
    EXPIRATION_KEY,
    TOKEN_SECRET_KEY,
    USAGE_KEY_PREFIX,
    USAGES,
    BootstrapTokenError,
    expiration_of,
    from_secret,
    groups_of,
    secret_name,
    token_id_of_name,
    token_id_of_user,
)
from kubevouch.records.cluster_info import signature_key
from kubevouch.records.token_bounds import Bounds, TokenBoundsError
from kubevouch.records.token_record import Attempt, Record, State, TokenRecordError
from kubevouch.records.token_strength import estimated_bits
from kubevouch.reviews import csr_review
from kubevouch.util.nearest import meant


class Biography(msgspec.Struct, frozen=True):
    """A token's life so far.

    Args:
        state: ``valid``, ``expired``, ``used up``, ``deleted``, or what is wrong with its Secret.
        signed: whether cluster-info carries its signature.
        uses_left: None for a token whose uses are not counted.
        attempts: the newest first. The Secret keeps them; those of a deleted token are known for as long as csrcleaner
            leaves the requests there.
        bits: what guessing the secret costs at most, as a power of two; None without a secret.
    """

    token_id: str
    state: str
    description: str = ""
    created: str = ""
    expires: str = ""
    usages: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    signed: bool = False
    bounds: Bounds = token_bounds.NONE
    uses_left: int | None = None
    attempts: tuple[Attempt, ...] = ()
    bits: float | None = None

    def tree(self) -> dict[str, Any]:
        """The stable form for scripts."""
        return {
            "tokenID": self.token_id,
            "state": self.state,
            "description": self.description,
            "created": self.created,
            "expires": self.expires,
            "usages": list(self.usages),
            "groups": list(self.groups),
            "signed": self.signed,
            "secretBits": None if self.bits is None else round(self.bits, 1),
            "bounds": {
                "uses": self.bounds.uses,
                "usesLeft": self.uses_left,
                "nodeNames": list(self.bounds.node_names),
                "sourceRanges": list(map(str, self.bounds.source_ranges)),
                "publicKeys": list(self.bounds.public_keys),
            },
            "attempts": [
                {
                    "request": each.request,
                    "subject": each.subject,
                    "state": each.state.value,
                    "time": each.when,
                    "decided": each.decided,
                    "source": each.source,
                    "publicKey": each.key,
                    "serial": each.serial,
                }
                for each in self.attempts
            ],
        }


class UnknownTokenError(Exception):
    """Nothing is known of a token with this ID; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


async def fetch(client: Client, token_id: str, *, now: dt.datetime) -> Biography:
    """Raises :class:`UnknownTokenError` when nothing is known of it; APIStatusError, TransportError."""
    secret = await stored.find(client, catalog.SECRETS, secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
    requests = [
        each for each in (await csr_review.fetch(client)).all if token_id_of_user(each.spec.username) == token_id
    ]
    if secret is None and not requests:
        options = replace(PAGES, field_selector=f"type={wellknown.BOOTSTRAP_TOKEN_SECRET}")
        secrets = (await list_all(client, catalog.SECRETS, wellknown.KUBE_SYSTEM_NAMESPACE, options)).items
        known = filter(None, (token_id_of_name(each.metadata.name) for each in secrets))
        hint = meant(token_id, known, "kubevouch token list shows those that are there")
        raise UnknownTokenError(f'nothing is known of a bootstrap token with the ID "{token_id}"', hint)
    cluster_info = await stored.find(
        client, catalog.CONFIG_MAPS, wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
    )
    signed = cluster_info is not None and signature_key(token_id) in cluster_info.data
    return tell(token_id, secret, requests, signed=signed, now=now)


def tell(
    token_id: str,
    secret: Secret | None,
    requests: Iterable[CertificateSigningRequest],
    *,
    signed: bool,
    now: dt.datetime,
) -> Biography:
    """``requests`` are those that were made with the token."""
    seen = {csr.metadata.uid: token_record.attempt_of(csr) for csr in requests}
    if secret is None:
        attempts = token_record.settle((), seen, limited=True)
        return Biography(token_id, "deleted", signed=signed, attempts=attempts[::-1])
    trouble, groups, bounds = "", list[str](), token_bounds.NONE
    record: Record = ()
    try:
        from_secret(secret)
        groups = groups_of(secret)
        bounds, record = bounds_and_record(secret)
    except (BootstrapTokenError, TokenBoundsError, TokenRecordError) as err:
        trouble = f"of no use: {err}"
    created = secret.metadata.creation_timestamp
    since = None if created is None else created.datetime()
    record = token_record.settle(record, seen, since=since, limited=True)
    return Biography(
        token_id,
        trouble or state_of(secret, bounds, record, now),
        _text(secret, DESCRIPTION_KEY),
        "" if created is None else str(created),
        _text(secret, EXPIRATION_KEY),
        tuple(usage for usage in USAGES if secret.data.get(f"{USAGE_KEY_PREFIX}{usage}") == b"true"),
        tuple(groups),
        signed,
        bounds,
        token_record.uses_left(bounds, record),
        record[::-1],
        estimated_bits(token_id, _text(secret, TOKEN_SECRET_KEY)),
    )


def bounds_and_record(secret: Secret) -> tuple[Bounds, Record]:
    """Raises TokenBoundsError, TokenRecordError."""
    annotations = secret.metadata.annotations
    return token_bounds.from_annotations(annotations), token_record.read(annotations)


def state_of(secret: Secret, bounds: Bounds, record: Record, now: dt.datetime) -> str:
    """In a word or two, what the token is good for now."""
    if expiration_of(secret, now).expired:
        return "expired"
    if bounds.uses is not None and len(token_record.machines(record, State.ISSUED)) >= bounds.uses:
        on = secret.data.get(f"{USAGE_KEY_PREFIX}{AUTHENTICATION}") == b"true"
        return "used up; it still lets its last machine fetch the certificate" if on else "used up"
    return "valid"


def _text(secret: Secret, key: str) -> str:
    return secret.data.get(key, b"").decode("utf-8", "replace")
