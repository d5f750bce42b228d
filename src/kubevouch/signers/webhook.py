"""Programs that sign over HTTPS, each with its own form of question and answer.

Each is described as Kubernetes describes webhooks: a kubeconfig whose cluster is the service and whose user is this
program, with a client certificate or a token. It is read anew for each request, so that a renewed one counts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Protocol

import msgspec

from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.webhook import WebhookError, from_kubeconfig
from kubevouch.ledger import entries
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.policy import lifetime
from kubevouch.pki.x509 import pem
from kubevouch.signers.interface import Decision, SignerError, SignerUnavailable
from kubevouch.util.clock import Clock
from kubevouch.util.files import read_private

THROTTLED_SECONDS = 30.0
"""Until who said "too many" is asked again. No name of ours is in a hurry that would make it worse."""
AWAY_SECONDS = 5.0
MOST_WAIT_SECONDS = 3600.0
_COMPONENT = "signer"


class Dialect(Protocol):
    """How one of them is asked."""

    kind: str
    own_lifetimes: bool
    """As ``signers.remote.Issuer`` has it."""

    def question(self, decision: Decision) -> bytes:
        """A JSON document."""
        ...

    def answer(self, body: bytes, decision: Decision) -> bytes:
        """The certificates in PEM.

        Raises:
            SignerUnavailable, PolicyError, SignerError: as ``signers.remote.Issuer`` has it.
            msgspec.MsgspecError: it is no answer.
        """
        ...


class HTTPSIssuer:
    """See ``signers.remote.Issuer``."""

    own_subject = False

    def __init__(self, dialect: Dialect, kubeconfig: Path, clock: Clock, seconds: float) -> None:
        self._dialect = dialect
        self._kubeconfig = kubeconfig
        self._clock = clock
        self._seconds = seconds

    @property
    def kind(self) -> str:
        return self._dialect.kind

    @property
    def own_lifetimes(self) -> bool:
        return self._dialect.own_lifetimes

    async def obtain(self, decision: Decision) -> bytes:
        """See ``signers.remote.Issuer``."""
        try:
            peer = from_kubeconfig(self._kubeconfig, self._clock, component=_COMPONENT, seconds=self._seconds)
        except ClientConfigurationError as err:
            raise SignerUnavailable(f"the {self.kind} cannot be asked: {err}") from err
        try:
            body = await peer.ask_bytes(self._dialect.question(decision), attempts=1)
            return self._dialect.answer(body, decision)
        except WebhookError as err:
            if err.code == 429:
                wait = _bounded(err.retry_after)
                raise SignerUnavailable(f"the {self.kind} wants to be asked less often: {err}", wait) from err
            if err.code >= 500:
                wait = _bounded(err.retry_after or AWAY_SECONDS)
                raise SignerUnavailable(f"the {self.kind} cannot be reached: {err}", wait) from err
            raise SignerError(f"the {self.kind} has refused: {err}") from err
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
            raise SignerError(f"the {self.kind} answered with something else than a certificate: {err}") from err
        finally:
            await peer.close()


class _Review(msgspec.Struct, frozen=True):
    uid: str
    certificate: str = ""
    refused: str = ""
    retry_after_seconds: float = msgspec.field(default=0, name="retryAfterSeconds")


class SigningWebhook:
    """Our own form: the ledger's entry of the request goes in, so that the service sees all that was decided."""

    kind = "webhook"
    own_lifetimes = False

    def question(self, decision: Decision) -> bytes:
        wanted, requester = decision.wanted, decision.requester
        entry = entries.entry_of_request(
            entries.INTENDED,
            decision.at,
            wanted.request,
            name=wanted.name,
            uid=wanted.uid,
            signer=wanted.signer_name,
            requester=requester.username,
            groups=requester.groups,
            extra=requester.extra,
            usages=wanted.usages,
            expiration_seconds=wanted.expiration_seconds,
            created=wanted.created,
        )
        entry = msgspec.structs.replace(entry, reason=decision.approval.reason, message=decision.approval.message)
        review = {"apiVersion": "signing.kubevouch.io/v1alpha1", "kind": "SigningReview", "request": entry}
        return msgspec.json.encode(review)

    def answer(self, body: bytes, decision: Decision) -> bytes:
        review = msgspec.json.decode(body, type=_Review)
        if review.uid != decision.wanted.uid:
            raise SignerError(f"the webhook answered for {review.uid}, asked was {decision.wanted.uid}")
        if review.refused:
            raise PolicyError(review.refused)
        if not review.certificate:
            raise SignerUnavailable("the webhook has not decided yet", _bounded(review.retry_after_seconds))
        return review.certificate.encode()


class _CFSSLResult(msgspec.Struct, frozen=True):
    certificate: str = ""


class _CFSSLProblem(msgspec.Struct, frozen=True):
    message: str = ""


class _CFSSLAnswer(msgspec.Struct, frozen=True):
    success: bool
    result: _CFSSLResult | None = None
    errors: list[_CFSSLProblem] = []


class CFSSL:
    """``cfssl serve``: its endpoints ``sign`` and ``authsign`` (github.com/cloudflare/cfssl doc/api)."""

    kind = "cfssl"
    # Its API has no field for it; the profile says how long.
    own_lifetimes = True

    def __init__(self, profile: str = "", auth_key_file: Path | None = None) -> None:
        self._profile = profile
        self._auth_key_file = auth_key_file

    def question(self, decision: Decision) -> bytes:
        body = {"certificate_request": _request_pem(decision)}
        if self._profile:
            body["profile"] = self._profile
        request = msgspec.json.encode(body)
        if self._auth_key_file is None:
            return request
        try:
            key = bytes.fromhex(read_private(self._auth_key_file, _MAX_KEY).decode("ascii").strip())
        except (OSError, ValueError) as err:
            # ValueError's text may quote the key.
            why = str(err) if isinstance(err, OSError) else "it is not of hexadecimal digits"
            raise SignerUnavailable(f"the key for cfssl in {self._auth_key_file} cannot be used: {why}") from None
        token = hmac.new(key, request, hashlib.sha256).digest()
        return msgspec.json.encode({"token": _base64(token), "request": _base64(request)})

    def answer(self, body: bytes, decision: Decision) -> bytes:
        del decision
        answer = msgspec.json.decode(body, type=_CFSSLAnswer)
        if not answer.success or answer.result is None:
            raise SignerError(f"cfssl has refused: {'; '.join(each.message for each in answer.errors)}")
        return answer.result.certificate.encode()


class _VaultData(msgspec.Struct, frozen=True):
    certificate: str
    ca_chain: list[str] = []


class _VaultAnswer(msgspec.Struct, frozen=True):
    data: _VaultData


class Vault:
    """``sign/ROLE`` of the PKI engine of Vault and OpenBao."""

    kind = "vault"
    own_lifetimes = False

    def question(self, decision: Decision) -> bytes:
        ttl = lifetime(decision.wanted.expiration_seconds, decision.rules.signing_duration)
        body = {"csr": _request_pem(decision), "format": "pem", "ttl": f"{int(ttl.total_seconds())}s"}
        return msgspec.json.encode(body)

    def answer(self, body: bytes, decision: Decision) -> bytes:
        del decision
        found = msgspec.json.decode(body, type=_VaultAnswer).data
        return "\n".join([found.certificate, *found.ca_chain]).encode()


_MAX_KEY = 4096


def _bounded(seconds: float) -> float:
    return min(max(seconds or THROTTLED_SECONDS, 1.0), MOST_WAIT_SECONDS)


def _request_pem(decision: Decision) -> str:
    return pem.encode(pem.CERTIFICATE_REQUEST, decision.wanted.request.contents).decode()


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()
