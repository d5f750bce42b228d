"""What a bootstrap token is for, how long, and who has come with it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kubevouch.api import catalog, wellknown
from kubevouch.api.bootstrap_tokens import (
    DESCRIPTION_KEY,
    EXPIRATION_KEY,
    USAGE_KEY_PREFIX,
    USAGES,
    BootstrapTokenError,
    expiration_of,
    from_secret,
    groups_of,
    secret_name,
)
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.cluster_info import signature_key
from kubevouch.api.core_v1 import Secret
from kubevouch.client.interface import Client
from kubevouch.phases import csr_review, stored
from kubevouch.phases.bootstrap_token import TokenPhaseError
from kubevouch.phases.csr_review import state_of
from kubevouch.phases.join_status import token_id_of
from kubevouch.pki import x509_request
from kubevouch.pki.errors import ParseError


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that was made with a token. ``subject`` is whom it asks for; empty if it cannot be read."""

    request: str
    subject: str
    state: str
    when: str


@dataclass(frozen=True, slots=True)
class Biography:
    """A token's life so far.

    Args:
        state: ``valid``, ``expired``, ``deleted``, or what is wrong with its Secret.
        signed: whether cluster-info carries its signature.
        attempts: the newest first, as long as csrcleaner leaves the requests there (an hour after they are issued).
    """

    token_id: str
    state: str
    description: str = ""
    created: str = ""
    expires: str = ""
    usages: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    signed: bool = False
    attempts: tuple[Attempt, ...] = ()

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
            "attempts": [
                {"request": each.request, "subject": each.subject, "state": each.state, "time": each.when}
                for each in self.attempts
            ],
        }


async def fetch(client: Client, token_id: str, *, now: dt.datetime) -> Biography:
    """Raises :class:`TokenPhaseError` when nothing is known of it; APIStatusError, TransportError."""
    secret = await stored.find(client, catalog.SECRETS, secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
    requests = [each for each in (await csr_review.fetch(client)).all if token_id_of(each.spec.username) == token_id]
    if secret is None and not requests:
        raise TokenPhaseError(
            f'nothing is known of a bootstrap token with the ID "{token_id}"',
            "kubevouch token list shows those that are there",
        )
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
    newest = sorted(requests, key=lambda csr: str(csr.metadata.creation_timestamp), reverse=True)
    attempts = tuple(map(_attempt, newest))
    if secret is None:
        return Biography(token_id, "deleted", signed=signed, attempts=attempts)
    state = "expired" if expiration_of(secret, now).expired else "valid"
    groups: list[str] = []
    try:
        from_secret(secret)
        groups = groups_of(secret)
    except BootstrapTokenError as err:
        state = f"of no use: {err}"
    created = secret.metadata.creation_timestamp
    return Biography(
        token_id,
        state,
        _text(secret, DESCRIPTION_KEY),
        "" if created is None else str(created),
        _text(secret, EXPIRATION_KEY),
        tuple(usage for usage in USAGES if secret.data.get(f"{USAGE_KEY_PREFIX}{usage}") == b"true"),
        tuple(groups),
        signed,
        attempts,
    )


def _attempt(csr: CertificateSigningRequest) -> Attempt:
    try:
        subject = x509_request.parse_pem(csr.spec.request or b"").subject.common_name
    except ParseError:
        subject = ""
    return Attempt(csr.metadata.name, subject, state_of(csr).value, str(csr.metadata.creation_timestamp or ""))


def _text(secret: Secret, key: str) -> str:
    return secret.data.get(key, b"").decode("utf-8", "replace")
