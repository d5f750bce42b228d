"""Tokens of the issuers that an AuthenticationConfiguration names.

Source: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc/oidc.go, pkg/authentication/authenticator/
audience_agnostic.go (Kubernetes 1.36); github.com/coreos/go-oidc/v3 verify.go; RFC 7519.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubevouch.authentication.aggregate import aggregate
from kubevouch.authentication.interface import Authentication, AuthenticationError, UserInfo
from kubevouch.authentication.issuer_http import IssuerHTTP
from kubevouch.authentication.jwt_claims import Claims, user_of
from kubevouch.authentication.oidc_distributed import DistributedClaims
from kubevouch.authentication.oidc_keys import ALGORITHMS, IssuerKeys
from kubevouch.authentication.oidc_recorder import IssuerRecorder, Unrecorded
from kubevouch.authentication.oidc_token import TokenVerifier, unverified_issuer
from kubevouch.cel.environment import TURN, Turn, TurnOver
from kubevouch.config.authentication_config_rules import CompiledAuthenticator, CompiledConfiguration
from kubevouch.util.clock import Clock
from kubevouch.util.worker import elsewhere

METHOD = "oidc"


class OIDCAuthenticator:
    """One issuer.

    Args:
        api_audiences: what this server calls itself; a review that names other audiences is told nothing.
        algorithms: of the signatures that count.

    Raises:
        ClientConfigurationError: the issuer's CA bundle cannot be used.
    """

    def __init__(
        self,
        compiled: CompiledAuthenticator,
        api_audiences: Sequence[str],
        clock: Clock,
        *,
        algorithms: Sequence[str] = ALGORITHMS,
        recorder: IssuerRecorder | None = None,
    ) -> None:
        self._compiled = compiled
        self._issuer = issuer = compiled.config.issuer
        self._api_audiences = tuple(api_audiences)
        self._clock = clock
        self.recorder: IssuerRecorder = recorder or Unrecorded()
        self._http = IssuerHTTP(issuer.certificate_authority, clock)
        keys = IssuerKeys(
            issuer,
            self._http,
            clock,
            algorithms=algorithms,
            on_fetch=lambda keys: self.recorder.keys_fetched(issuer.url, keys, clock.now()),
        )
        self._verifier = TokenVerifier(keys, issuer.url, issuer.audiences, clock)
        groups = compiled.config.claim_mappings.groups.claim
        self._distributed = DistributedClaims(groups, issuer, self._http, clock) if groups else None

    @property
    def url(self) -> str:
        """The issuer's."""
        return self._issuer.url

    async def close(self) -> None:
        await self._http.close()

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        """1. the issuer  2. what the token says of itself  3. claims kept elsewhere  4. mappings and rules"""
        if unverified_issuer(bearer_token) != self._issuer.url:
            return None
        accepted = tuple(one for one in audiences if one in self._api_audiences)
        if audiences and not accepted:
            return None
        begun, failed = self._clock.monotonic(), True
        try:
            claims = await self._verifier.verified(bearer_token)
            if self._distributed is not None:
                claims = await self._distributed.expanded(bearer_token, claims)
            authentication = Authentication(await self._user_of(claims), METHOD, audiences=accepted)
            failed = False
            return authentication
        finally:
            self.recorder.authenticated(self.url, self._clock.monotonic() - begun, failed=failed)

    async def _user_of(self, claims: Claims) -> UserInfo:
        try:
            return user_of(self._compiled, claims, Turn(TURN))
        except TurnOver:
            return await elsewhere(lambda: user_of(self._compiled, claims))


class ConfiguredIssuers:
    """The issuers of the newest configuration that could be used.

    Raises:
        ClientConfigurationError: an issuer's CA bundle cannot be used.
    """

    def __init__(
        self,
        config: CompiledConfiguration,
        api_audiences: Sequence[str],
        clock: Clock,
        *,
        algorithms: Sequence[str] = ALGORITHMS,
    ) -> None:
        self._api_audiences = tuple(api_audiences)
        self._clock = clock
        self._algorithms = tuple(algorithms)
        self._recorder: IssuerRecorder = Unrecorded()
        self._authenticators = self._build(config)

    def record_into(self, recorder: IssuerRecorder) -> None:
        """Count from now on."""
        self._recorder = recorder
        for authenticator in self._authenticators:
            authenticator.recorder = recorder

    async def replace(self, config: CompiledConfiguration) -> None:
        """Go on with another configuration; if it cannot be used, with the former one. Raises as the constructor."""
        former, self._authenticators = self._authenticators, self._build(config)
        for authenticator in former:
            await authenticator.close()
        for gone in {each.url for each in former} - {each.url for each in self._authenticators}:
            self._recorder.forget(gone)

    async def close(self) -> None:
        for authenticator in self._authenticators:
            await authenticator.close()

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        errors = []
        for authenticator in self._authenticators:
            try:
                authentication = await authenticator.authenticate_token(bearer_token, audiences)
            except AuthenticationError as err:
                errors.append(str(err))
                continue
            if authentication is not None:
                return authentication
        if errors:
            raise AuthenticationError(aggregate(errors))
        return None

    def _build(self, config: CompiledConfiguration) -> list[OIDCAuthenticator]:
        return [
            OIDCAuthenticator(
                one, self._api_audiences, self._clock, algorithms=self._algorithms, recorder=self._recorder
            )
            for one in config.authenticators
        ]
