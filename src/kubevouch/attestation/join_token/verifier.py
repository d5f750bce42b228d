"""The server's side of join-token: whether the machine has a token that was made for it and that nobody has used."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.attestation import settings
from kubevouch.attestation.answering import Answering
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Sources,
    Strength,
    UnavailableError,
)
from kubevouch.attestation.join_token.evidence import NAME, VERSIONS, Proof
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.stored import find
from kubevouch.machinery.errors import APIStatusError, loggable
from kubevouch.records import join_tokens
from kubevouch.records.join_tokens import JoinTokenError, JoinTokenRefusedError, Record
from kubevouch.util.logger import get_logger

log = get_logger("attestation.join_token")

_SIGNATURE_BYTES = 64
# Somebody else has written: what he wrote decides.
_AGAIN_SECONDS = 1.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """There are none."""


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> JoinTokenVerifier:
    """Raises :class:`SettingsError`."""
    settings.read(settings_, Settings, NAME)
    if sources.client is None:
        raise SettingsError(f"settings of {NAME}: its tokens are Secrets of the cluster, and there is no cluster here")
    return JoinTokenVerifier(sources.client)


class JoinTokenVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = False

    def __init__(self, client: Client) -> None:
        self._client = client

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        """Steps: ``structure``, ``token``, ``used``, ``expired``.

        The use is stored before it counts, for this key only. Who is stopped in between comes again with the same key.
        """
        proof = self.shown(evidence, Proof, "the proof of join-token")
        try:
            record = await self._use(proof, binding, now)
            join_tokens.verify_in_time(record)
        except JoinTokenRefusedError as err:
            log.warning("a join token is refused", token_id=proof.token_id[:8], why=str(err))
            raise RefusedEvidenceError(err.step, str(err)) from err
        return Attested(
            provider=NAME,
            version=evidence.version,
            # The operator's word is about this machine: another token for it says nothing else.
            identity=record.machine,
            strength=Strength.TOKEN,
            node_name=record.machine,
            claims=(
                Claim(name=f"{NAME}.id", value=record.token_id, source=NAME, strength=Strength.TOKEN),
                Claim(name=f"{NAME}.machine", value=record.machine, source=NAME, strength=Strength.TOKEN),
            ),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """None: a token knows no addresses."""
        return {}

    async def _use(self, proof: Proof, binding: Binding, now: dt.datetime) -> Record:
        """The token, which is used up by this key from now on.

        Raises:
            JoinTokenRefusedError, UnavailableError
        """
        if len(proof.signature) != _SIGNATURE_BYTES:
            raise join_tokens.unknown()
        try:
            name = join_tokens.secret_name(proof.token_id)
            secret = await find(self._client, SECRETS, name, wellknown.JOIN_TOKENS_NAMESPACE)
            if secret is None:
                raise join_tokens.unknown()
            record = join_tokens.from_secret(secret)
            message = join_tokens.signed_message(binding.cluster_id, binding.digest)
            join_tokens.verify_signature(record, proof.signature, message)
            used = join_tokens.use(record, hashlib.sha256(binding.spki).hexdigest(), now)
            if used != record:
                data = join_tokens.to_secret(used).data
                await self._client.update(SECRETS, msgspec.structs.replace(secret, data=data))
            return used
        except JoinTokenRefusedError:
            raise
        except JoinTokenError as err:
            log.warning("a join token cannot be read", err=str(err))
            raise join_tokens.unknown() from err
        except APIStatusError as err:
            # Of two that come at once the second finds another version, and looks again.
            raise UnavailableError(f"the join token cannot be used now: {loggable(err)}", _AGAIN_SECONDS) from err
        except TransportError as err:
            raise UnavailableError(f"the join tokens cannot be read: {loggable(err)}") from err
