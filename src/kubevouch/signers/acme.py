"""A CA that speaks ACME (RFC 8555), such as step-ca, Boulder or a public one.

It validates names, so it issues certificates for names and for nobody: the subject of a request is its own affair, and
whoever asks must not put another name there than those that are to be validated (section 7.4). An order goes on where
it was when its request is looked at again, as long as this process runs.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubevouch.config.signing_config import ACMESettings
from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.signers.interface import Decision, SignerError, SignerUnavailable
from kubevouch.signers.key_threads import KeyThreads
from kubevouch.signers.remote import AT_ONCE
from kubevouch.signers.webhook import MOST_WAIT_SECONDS, THROTTLED_SECONDS
from kubevouch.util.clock import Clock
from kubevouch.util.files import PUBLIC, read_private, write_atomically, write_new
from kubevouch.util.logger import get_logger

log = get_logger("signers.acme")

MAX_ORDERS = 1000
"""Orders that are remembered; a request whose order was forgotten makes another one."""
_MAX_SECRET = 1 << 16
_POLL_SECONDS = 2.0
_HTTP_SECONDS = 10

_NOT_NOW = {"rateLimited", "serverInternal", "badNonce", "orderNotReady"}


@dataclass
class _Order:
    resource: Any
    answered: set[str] = field(default_factory=set)


class ACMEIssuer:
    """See ``signers.remote.Issuer``."""

    kind = "acme"
    own_subject = True
    # notAfter of an order (RFC 8555 section 7.1.3) is refused by most CAs, and the library has no way to say it.
    own_lifetimes = True

    def __init__(self, settings: ACMESettings, folder: Path, clock: Clock, seconds: float) -> None:
        """Raises :class:`SignerError`: acme is not installed, or the account's key cannot be used."""
        try:
            import acme.client
        except ImportError:
            raise SignerError("CAs that speak ACME need acme: pip install 'kubevouch[acme]'") from None
        del acme
        self._settings = settings
        self._folder = folder
        self._clock = clock
        # Ends before who waits for it gives up, so that no thread is left behind.
        self._seconds = dt.timedelta(seconds=seconds * 0.8)
        self._threads = KeyThreads(AT_ONCE, clock, seconds)
        self._orders: dict[str, _Order] = {}
        self._account = ""
        self._key = self._account_key()

    async def obtain(self, decision: Decision) -> bytes:
        """See ``signers.remote.Issuer``."""
        wanted = decision.wanted
        request = pem.encode(pem.CERTIFICATE_REQUEST, wanted.request.contents)
        return await self._threads.run(lambda: self._advance(wanted.uid, request))

    def _advance(self, uid: str, request: bytes) -> bytes:
        import acme.errors
        import acme.messages
        import requests

        waits: list[str] = []
        deadline = (self._clock.now() + self._seconds).astimezone().replace(tzinfo=None)
        try:
            with self._client(waits) as client:
                order = self._orders.get(uid)
                if order is None:
                    while len(self._orders) >= MAX_ORDERS:
                        del self._orders[next(iter(self._orders))]
                    order = self._orders[uid] = _Order(client.new_order(request))
                with self._answered(client, order):
                    resource = client.poll_authorizations(order.resource, deadline)
                resource = client.finalize_order(resource, deadline)
        except acme.errors.TimeoutError:
            raise SignerUnavailable("the acme CA has not decided yet", _POLL_SECONDS) from None
        except requests.RequestException as err:
            raise SignerUnavailable(f"the acme CA cannot be reached: {err}") from err
        except acme.messages.Error as err:
            self._orders.pop(uid, None)
            if err.code in _NOT_NOW:
                raise SignerUnavailable(f"the acme CA says {err.code}: {err.detail}", _wait(waits)) from err
            raise SignerError(f"the acme CA has refused: {err}") from err
        except acme.errors.Error as err:
            self._orders.pop(uid, None)
            raise SignerError(f"the acme CA has refused: {_words(err)}") from err
        self._orders.pop(uid, None)
        return str(resource.fullchain_pem).encode()

    # ------------------------------------------------------------ account

    def _account_key(self) -> Any:
        path = self._folder / self._settings.account_key_file
        try:
            if not path.exists():
                write_new(path, keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256)))
            return keys.load_pem(read_private(path, _MAX_SECRET))
        except (OSError, KeyMaterialError) as err:
            raise SignerError(f"the key of the acme account in {path} cannot be used: {err}") from err

    @contextmanager
    def _client(self, waits: list[str]) -> Iterator[Any]:
        """One for a request: connections and nonces of requests are not for several threads.

        Args:
            waits: takes what the CA says of when to come again.
        """
        from acme import client, errors, messages
        from josepy import jwa, jwk

        public = keys.public_key_of(self._key)
        key: Any = jwk.JWKRSA(key=self._key) if public.kind is KeyKind.RSA else jwk.JWKEC(key=self._key)
        algorithm = jwa.RS256 if public.kind is KeyKind.RSA else jwa.ES384 if public.bits == 384 else jwa.ES256
        network: Any = client.ClientNetwork(key, alg=algorithm, user_agent="kubevouch", timeout=_HTTP_SECONDS)
        if self._settings.ca_file:
            network.verify_ssl = str(self._folder / self._settings.ca_file)
        network.session.hooks["response"].append(
            lambda response, **_: waits.extend(filter(None, [response.headers.get("Retry-After")]))
        )
        with network.session:
            directory = client.ClientV2.get_directory(self._settings.directory, network)
            found = client.ClientV2(directory, network)
            if not self._account:
                try:
                    self._account = found.new_account(self._registration(key, directory)).uri
                except errors.ConflictError as err:
                    self._account = err.location
            network.account = messages.RegistrationResource(uri=self._account, body=messages.Registration())
            yield found

    def _registration(self, key: Any, directory: Any) -> Any:
        from acme import messages

        settings = self._settings
        binding = None
        if settings.eab_key_id:
            try:
                secret = read_private(self._folder / settings.eab_hmac_key_file, _MAX_SECRET).decode("ascii").strip()
                base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
            except (OSError, ValueError, binascii.Error) as err:
                why = str(err) if isinstance(err, OSError) else "it is not base64url"
                raise SignerError(f"the key of the external account cannot be used: {why}") from None
            binding = messages.ExternalAccountBinding.from_data(
                account_public_key=key.public_key(), kid=settings.eab_key_id, hmac_key=secret, directory=directory
            )
        return messages.NewRegistration.from_data(
            terms_of_service_agreed=settings.terms_of_service_agreed,
            contact=tuple(settings.contact),
            external_account_binding=binding,
        )

    # ------------------------------------------------------------ challenges

    @contextmanager
    def _answered(self, client: Any, order: _Order) -> Iterator[None]:
        """Inside, the CA finds the answers to what it asks."""
        from acme import challenges, messages

        written: list[Path] = []
        try:
            for authorization in order.resource.authorizations:
                if authorization.body.status != messages.STATUS_PENDING:
                    continue
                name = authorization.body.identifier.value
                offered = authorization.body.challenges
                challenge = next((each for each in offered if isinstance(each.chall, challenges.HTTP01)), None)
                if challenge is None or not self._settings.challenge_folder:
                    raise SignerError(
                        f"the acme CA wants {name} to be validated, expected that it knows the name to be ours, or "
                        "http-01 and a challengeFolder"
                    )
                response, content = challenge.chall.response_and_validation(client.net.key)
                # Encoded here again, and so without any slash, whatever the CA has sent.
                path = self._folder / self._settings.challenge_folder / challenge.chall.encode("token")
                write_atomically(path, content.encode(), mode=PUBLIC)
                written.append(path)
                if authorization.uri not in order.answered:
                    client.answer_challenge(challenge, response)
                    order.answered.add(authorization.uri)
            yield
        except OSError as err:
            # Those of the network are errors of their own.
            if type(err).__module__ != "builtins":
                raise
            raise SignerUnavailable(f"the answer to a challenge cannot be written: {err}") from err
        finally:
            for path in written:
                path.unlink(missing_ok=True)


def _wait(waits: list[str]) -> float:
    """Of the last Retry-After; a date is answered with patience instead of arithmetic (RFC 9110 section 10.2.3)."""
    last = waits[-1] if waits else ""
    if last.isascii() and last.isdigit() and len(last) < 10:
        return min(max(float(last), 1.0), MOST_WAIT_SECONDS)
    return THROTTLED_SECONDS


def _words(err: Exception) -> str:
    failed = getattr(err, "failed_authzrs", ())
    problems = [str(each.error) for authorization in failed for each in authorization.body.challenges if each.error]
    return "; ".join(problems) or str(err)
