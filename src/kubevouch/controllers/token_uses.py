"""token-uses-controller: keeps the record of who came with a bootstrap token, gives uses back, and ends used-up tokens.

Not a controller of Kubernetes; docs/adr/0009-bounds-of-bootstrap-tokens.md.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.bootstrap_secrets import TOKEN_INDEX, is_token, requests_by_token, token_informer
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import (
    DONE,
    RESYNC_SECONDS,
    Context,
    IgnorableError,
    Request,
    Result,
    request_of,
)
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.records import token_bounds, token_record
from kubevouch.records.bootstrap_tokens import secret_name, token_id_of_name, token_id_of_user, turned_off
from kubevouch.records.token_bounds import TokenBoundsError
from kubevouch.records.token_record import MAX_OTHERS, Attempt, Record, State, TokenRecordError
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.token_uses")

NAME = wellknown.TOKEN_USES_CONTROLLER

GRACE = dt.timedelta(minutes=5)
"""How long a used-up token still lets its last machine in: it has to fetch the certificate, and may be restarted."""

# A fleet joins with one token: its record is not written for each machine.
UNLIMITED_INTERVAL_SECONDS = 5.0


class TokenUses:
    """Brings a token's record in line with the requests that there are."""

    def __init__(
        self, client: Client, secrets: Lister[Secret], csrs: Lister[CertificateSigningRequest], clock: Clock
    ) -> None:
        self._client = client
        self._secrets = secrets
        self._csrs = csrs
        self._clock = clock
        self._looked: dict[str, float] = {}

    async def reconcile(self, request: Request) -> Result:
        secret = self._secrets.get(request.name, request.namespace)
        token_id = token_id_of_name(request.name)
        if secret is None or token_id is None or not is_token(secret):
            self._looked.pop(request.name, None)
            return DONE
        annotations = secret.metadata.annotations
        try:
            uses = token_bounds.from_annotations(annotations).uses
            early = self._too_early(request.name) if uses is None else 0.0
            if early:
                return Result(early)
            record = token_record.read(annotations)
        except (TokenBoundsError, TokenRecordError) as err:
            log.error("bootstrap token cannot be looked after", secret=request.name, err=str(err))
            return DONE
        now, created = self._clock.now(), secret.metadata.creation_timestamp
        seen, missing = self._seen(token_id, record, limited=uses is not None)
        gone = [each.uid for each in missing if await self._is_gone(each)]
        since = None if created is None else created.datetime()
        settled = token_record.settle(record, seen, gone, now=now, since=since, limited=uses is not None)
        changed = secret
        if settled != record:
            changed = replace_metadata(secret, annotations=token_record.written(annotations, settled))
        left = _seconds_left(settled, uses, now)
        if left is not None and left <= 0:
            changed, left = turned_off(changed), None
        if changed != secret:
            await self._write(changed)
        return Result(left)

    def _too_early(self, name: str) -> float:
        now = self._clock.monotonic()
        left = self._looked.get(name, float("-inf")) + UNLIMITED_INTERVAL_SECONDS - now
        if left > 0:
            return left
        self._looked[name] = now
        return 0.0

    def _seen(self, token_id: str, record: Record, *, limited: bool) -> tuple[dict[str, Attempt], list[Attempt]]:
        """The requests that are there, by UID, and what the record has besides that may still change."""
        known = {each.uid: each for each in record}
        there = {csr.metadata.uid: csr for csr in self._csrs.by_index(TOKEN_INDEX, token_id)}
        fresh = [csr for uid, csr in there.items() if uid not in known]
        # No more of them than are kept: what a stolen token posts must not cost more than that.
        newest = heapq.nlargest(MAX_OTHERS, fresh, key=_created)
        issued = [csr for csr in fresh if csr.status.certificate] if limited else []
        seen = {csr.metadata.uid: token_record.attempt_of(csr) for csr in (*newest, *issued)}
        for uid, attempt in known.items():
            csr = there.get(uid)
            if csr is not None:
                state = token_record.state_of(csr)
                # Only a certificate that is new to the record has to be read.
                told = attempt.state is state or (attempt.state is State.RESERVED and not csr.status.certificate)
                seen[uid] = msgspec.structs.replace(attempt, state=state) if told else token_record.attempt_of(csr)
        undecided = (State.PENDING, State.RESERVED)
        return seen, [each for each in record if each.uid not in there and each.state in undecided]

    async def _is_gone(self, attempt: Attempt) -> bool:
        """Asked of the server: a use must not be given back because a cache is behind."""
        try:
            csr = await self._client.get(CERTIFICATE_SIGNING_REQUESTS, attempt.request)
        except APIStatusError as err:
            if err.code == 404:
                return True
            raise
        return csr.metadata.uid != attempt.uid

    async def _write(self, secret: Secret) -> None:
        try:
            await self._client.update(SECRETS, secret)
        except APIStatusError as err:
            if err.code in (404, 409):
                # Gone, or newer by now: either way an event comes, and this is a second try for when it was missed.
                raise IgnorableError(f"error updating Secret: {err}") from err
            raise


def _created(csr: CertificateSigningRequest) -> tuple[int, str]:
    """Orders as a record does, or what one forgets the other would bring back."""
    moment = csr.metadata.creation_timestamp
    return (0 if moment is None else moment.seconds, csr.metadata.name)


def _seconds_left(record: Record, uses: int | None, now: dt.datetime) -> float | None:
    """Until a used-up token ends; None for one that is not used up."""
    if uses is None or len(token_record.machines(record, State.ISSUED)) < uses:
        return None
    last = token_record.last_issued(record)
    return 0.0 if last is None else (last + GRACE - now).total_seconds()


def _of_secret(secret: Secret) -> Iterable[Request]:
    return (request_of(secret),) if is_token(secret) else ()


def _of_request(csr: CertificateSigningRequest) -> Iterable[Request]:
    token_id = token_id_of_user(csr.spec.username)
    return (Request(secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE),) if token_id else ()


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    secrets = token_informer(context, client)
    csrs = requests_by_token(context, client)
    controller = QueueController(NAME, TokenUses(client, secrets.lister, csrs.lister, context.clock), context.clock)
    controller.watch(secrets, on_add=_of_secret, on_update=_of_secret, resync_seconds=RESYNC_SECONDS)
    controller.watch(csrs, on_add=_of_request, on_update=_of_request, on_delete=_of_request)
    return controller
