"""Who and may, by flags and configuration files: what stands beside the authenticators and authorizers built in.

Source: pkg/kubeapiserver/options/{authentication,authorization}.go (Kubernetes 1.36).
"""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from kubevouch.authentication import webhook as token_webhook
from kubevouch.authentication.aggregate import aggregate
from kubevouch.authentication.anonymous import AnonymousAuthenticator
from kubevouch.authentication.interface import TokenAuthenticator
from kubevouch.authentication.oidc import ConfiguredIssuers
from kubevouch.authentication.oidc_keys import ALGORITHMS
from kubevouch.authentication.token_file import TokenFileAuthenticator, TokenFileError, parse_token_file
from kubevouch.authentication.webhook import WebhookTokenAuthenticator
from kubevouch.authorization.abac import ABACAuthorizer, PolicyFileError, parse_policy_file
from kubevouch.authorization.always import AlwaysDenyAuthorizer, InsecureAlwaysAllowAuthorizer
from kubevouch.authorization.interface import Decision, ResolvingAuthorizer
from kubevouch.authorization.webhook import WebhookAuthorizer, WebhookSettings
from kubevouch.client import webhook
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.config import authentication_config_rules, authorization_config
from kubevouch.config.authentication_config import (
    AuthenticationConfiguration,
    ClaimMappings,
    ClaimValidationRule,
    Issuer,
    JWTAuthenticator,
    PrefixedClaimOrExpression,
)
from kubevouch.config.authentication_config_rules import CompiledConfiguration
from kubevouch.config.authorization_config import (
    AUTHORIZED_TTL,
    DENY,
    UNAUTHORIZED_TTL,
    AuthorizerConfiguration,
    CompiledAuthorizer,
    WebhookConfiguration,
)
from kubevouch.config.config_file import ConfigFileError
from kubevouch.machinery.text.gotext import parse_duration
from kubevouch.server.metrics.access import AccessMetrics
from kubevouch.standalone.access_options import AccessOptions, OIDCOptions
from kubevouch.util.clock import Clock
from kubevouch.util.files import stamp, warn_of_exposure
from kubevouch.util.logger import get_logger

DEFAULT_MODES = ("Node", "RBAC")
# A webhook that only flags name: kube-apiserver's timeout (--authorization-webhook has no flag for it).
WEBHOOK_SECONDS = 30.0
RELOAD_SECONDS = 1.0
_AUTHENTICATION = "authentication"

log = get_logger("access")


class AccessError(ValueError):
    """A flag or a file cannot be meant; ``str()`` says which and why."""


class Access:
    """The authenticators and authorizers that the options ask for.

    Args:
        api_audiences: what this server calls itself.
        own_issuers: the issuers that a file may not claim; None means ``api_audiences``.

    Raises:
        AccessError
    """

    def __init__(
        self,
        options: AccessOptions,
        api_audiences: Sequence[str],
        clock: Clock,
        *,
        own_issuers: Sequence[str] | None = None,
    ) -> None:
        self._own_issuers = tuple(api_audiences if own_issuers is None else own_issuers)
        self._options = options
        self._audiences = tuple(api_audiences)
        self._clock = clock
        self._closed: list[Callable[[], Awaitable[None]]] = []
        self._recorder: AccessMetrics | None = None
        self._in_use: dict[Path, bytes] = {}
        config = self._authentication_config()
        self.anonymous = _anonymous(options, config)
        self.bootstrap_token_auth = options.bootstrap_token_auth
        self.first_tokens: list[TokenAuthenticator] = []
        self.tokens: list[TokenAuthenticator] = []
        self._issuers: ConfiguredIssuers | None = None
        try:
            if options.token_auth_file is not None:
                self.first_tokens.append(self._token_file(options.token_auth_file))
            if config is not None:
                algorithms = ALGORITHMS if options.oidc is None else options.oidc.signing_algorithms
                self._issuers = ConfiguredIssuers(config, api_audiences, clock, algorithms=algorithms)
                self.tokens.append(self._issuers)
                self._closed.append(self._issuers.close)
            if options.token_webhook_config is not None:
                self.tokens.append(self._token_webhook(options.token_webhook_config))
            self._modes = self._authorization_modes()
            self._webhooks: list[WebhookAuthorizer] = []
            self._policies = self._abac()
        except ClientConfigurationError as err:
            raise AccessError(str(err)) from err

    def authorizers(self, built_in: dict[str, ResolvingAuthorizer]) -> list[ResolvingAuthorizer]:
        """The authorizers in their order.

        Args:
            built_in: those that need no settings, by mode.

        Raises:
            AccessError: a webhook's kubeconfig cannot be used.
        """
        known: dict[str, ResolvingAuthorizer] = {**built_in, "AlwaysDeny": AlwaysDenyAuthorizer()}
        if self._policies is not None:
            known["ABAC"] = self._policies
        chosen: list[ResolvingAuthorizer] = []
        self._webhooks = []
        for mode in self._modes:
            kind = mode.config.type
            if kind == authorization_config.WEBHOOK:
                self._webhooks.append(self._webhook(mode))
                chosen.append(self._webhooks[-1])
            elif kind == "AlwaysAllow":
                log.warning("AlwaysAllow is on: whatever no authorizer before it denies is allowed to everybody")
                chosen.append(InsecureAlwaysAllowAuthorizer())
            else:
                chosen.append(known[kind])
        return chosen

    async def keep(self, apply: Callable[[], None], changed: Callable[[], None] = lambda: None) -> None:
        """Read the files again when they change, for ever. What cannot be used changes nothing.

        Args:
            apply: called when the authorizers have to be asked for again.
            changed: called when a file says something else and counts.
        """
        options = self._options
        watched = {path: stamp(path) for path in (options.authentication_config, options.authorization_config) if path}
        while watched:
            await self._clock.sleep(RELOAD_SECONDS)
            for path, before in watched.items():
                now = stamp(path)
                if now != before:
                    watched[path] = now
                    if await self._reload(path, apply):
                        changed()

    async def _reload(self, path: Path, apply: Callable[[], None]) -> bool:
        """Whether something else counts now."""
        former = self._in_use[path]
        kind = _kind(self._options, path)
        failed = True
        try:
            if _read(path) == former:
                return False
            if kind == _AUTHENTICATION:
                await self._reload_authentication()
            else:
                await self._reload_authorization(apply)
            failed = False
            log.info("a configuration file was read again", path=str(path))
        except (AccessError, ClientConfigurationError) as err:
            self._in_use[path] = former
            log.error("a configuration file cannot be used, the former one stays", path=str(path), err=str(err))
        if self._recorder is not None:
            self._recorder.config_reloaded(kind, self._clock.now(), failed=failed)
            self._recorder.config_in_use(kind, self._in_use[path])
        return not failed

    def record_into(self, recorder: AccessMetrics) -> None:
        """Count files and issuers from now on."""
        self._recorder = recorder
        for path, content in self._in_use.items():
            recorder.config_in_use(_kind(self._options, path), content)
        if self._issuers is not None:
            self._issuers.record_into(recorder)

    def _config_file(self, path: Path) -> bytes:
        content = self._in_use[path] = _read(path)
        return content

    async def close(self) -> None:
        for close in self._closed:
            await close()
        for authorizer in self._webhooks:
            await authorizer.close()

    # -------------------------------------------------------------- authentication

    def _authentication_config(self) -> CompiledConfiguration | None:
        path, oidc = self._options.authentication_config, self._options.oidc
        if oidc is not None:
            if path is not None:
                raise AccessError("authentication-config file and oidc-* flags are mutually exclusive")
            return self._oidc_config(oidc)
        if path is None:
            return None
        try:
            return authentication_config_rules.load(self._config_file(path), self._own_issuers)
        except ConfigFileError as err:
            raise AccessError(f"--authentication-config {path}: {err}") from err

    def _oidc_config(self, oidc: OIDCOptions) -> CompiledConfiguration:
        for algorithm in oidc.signing_algorithms:
            if algorithm not in ALGORITHMS:
                raise AccessError(f'--oidc-*: oidc: unsupported signing alg: "{algorithm}"')
        config = AuthenticationConfiguration(jwt=[_issuer_of_flags(oidc)])
        compiled, errors = authentication_config_rules.validate(config, self._own_issuers)
        if errors:
            raise AccessError(f"--oidc-*: {aggregate(errors)}")
        return compiled

    async def _reload_authentication(self) -> None:
        config = self._authentication_config()
        assert config is not None and self._issuers is not None  # watched only with a file
        # As in Kubernetes, who may come without a credential is settled at the start.
        await self._issuers.replace(config)

    def _token_file(self, path: Path) -> TokenFileAuthenticator:
        try:
            tokens = parse_token_file(str(path), _read(path).decode())
            warn_of_exposure(path)
        except UnicodeDecodeError as err:
            raise AccessError(f"token file '{path}' is not UTF-8") from err
        except TokenFileError as err:
            raise AccessError(str(err)) from err
        log.warning("tokens of a file never expire", path=str(path), count=len(tokens))
        return TokenFileAuthenticator(tokens, self._audiences)

    def _token_webhook(self, path: Path) -> WebhookTokenAuthenticator:
        options = self._options
        if options.token_webhook_version not in token_webhook.VERSIONS:
            raise AccessError(
                f"got --authentication-token-webhook-version {options.token_webhook_version!r}, expected v1 or v1beta1"
            )
        asked = webhook.from_kubeconfig(path, self._clock, component="token-webhook", seconds=WEBHOOK_SECONDS)
        authenticator = WebhookTokenAuthenticator(
            asked,
            options.token_webhook_version,
            self._audiences,
            options.token_webhook_ttl.total_seconds(),
            self._clock,
        )
        self._closed.append(authenticator.close)
        return authenticator

    # -------------------------------------------------------------- authorization

    def _authorization_modes(self) -> tuple[CompiledAuthorizer, ...]:
        options = self._options
        path = options.authorization_config
        if path is None:
            return self._modes_of_flags(options.authorization_modes or DEFAULT_MODES)
        if options.authorization_modes or options.authorization_webhook_config is not None:
            raise AccessError(
                "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* "
                "flags are defined"
            )
        try:
            modes = authorization_config.load(self._config_file(path), _complaint)
        except ConfigFileError as err:
            raise AccessError(f"--authorization-config {path}: {err}") from err
        self._check_policy_file({mode.config.type for mode in modes})
        return modes

    def _modes_of_flags(self, modes: Sequence[str]) -> tuple[CompiledAuthorizer, ...]:
        options = self._options
        for mode in modes:
            if mode not in authorization_config.TYPES:
                raise AccessError(f'authorization-mode "{mode}" is not a valid mode')
            if modes.count(mode) > 1:
                raise AccessError(f'authorization-mode "{mode}" has mode specified more than once')
        self._check_policy_file(set(modes))
        kubeconfig = options.authorization_webhook_config
        if authorization_config.WEBHOOK in modes and kubeconfig is None:
            raise AccessError("authorization-mode Webhook's authorization config file not passed")
        if authorization_config.WEBHOOK not in modes and kubeconfig is not None:
            raise AccessError("cannot specify --authorization-webhook-config-file without mode Webhook")
        return tuple(CompiledAuthorizer(AuthorizerConfiguration(type=mode, name=mode.lower())) for mode in modes)

    def _check_policy_file(self, modes: set[str]) -> None:
        path = self._options.authorization_policy_file
        if "ABAC" in modes and path is None:
            raise AccessError("authorization-mode ABAC's authorization policy file not passed")
        if "ABAC" not in modes and path is not None:
            raise AccessError("cannot specify --authorization-policy-file without mode ABAC")

    def _abac(self) -> ABACAuthorizer | None:
        path = self._options.authorization_policy_file
        if path is None:
            return None
        try:
            return ABACAuthorizer(parse_policy_file(str(path), _read(path)))
        except PolicyFileError as err:
            raise AccessError(str(err)) from err

    def _webhook(self, mode: CompiledAuthorizer) -> WebhookAuthorizer:
        options, config = self._options, mode.config.webhook
        if config is None:
            path = options.authorization_webhook_config
            assert path is not None  # checked with the flags
            settings = WebhookSettings(
                mode.config.name,
                options.authorization_webhook_version,
                options.authorization_webhook_authorized_ttl.total_seconds(),
                options.authorization_webhook_unauthorized_ttl.total_seconds(),
            )
            seconds = WEBHOOK_SECONDS
        else:
            path = Path(config.connection_info.kube_config_file or "")
            settings = _settings(mode, config)
            seconds = parse_duration(config.timeout).total_seconds()
        try:
            asked = webhook.from_kubeconfig(path, self._clock, component="authorization-webhook", seconds=seconds)
        except ClientConfigurationError as err:
            raise AccessError(str(err)) from err
        return WebhookAuthorizer(asked, settings, self._clock)

    async def _reload_authorization(self, apply: Callable[[], None]) -> None:
        modes, former, webhooks = self._authorization_modes(), self._modes, self._webhooks
        self._modes = modes
        try:
            apply()
        except AccessError:
            self._modes, self._webhooks = former, webhooks
            raise
        for authorizer in webhooks:
            await authorizer.close()


def _kind(options: AccessOptions, path: Path) -> str:
    return _AUTHENTICATION if path == options.authentication_config else "authorization"


def _issuer_of_flags(oidc: OIDCOptions) -> JWTAuthenticator:
    prefix = oidc.username_prefix
    if not prefix and oidc.username_claim != "email":
        prefix = f"{oidc.issuer_url}#"
    groups = PrefixedClaimOrExpression()
    if oidc.groups_claim:
        groups = PrefixedClaimOrExpression(claim=oidc.groups_claim, prefix=oidc.groups_prefix)
    return JWTAuthenticator(
        issuer=Issuer(
            url=oidc.issuer_url,
            audiences=[oidc.client_id],
            certificate_authority=_read(oidc.ca_file).decode("utf-8", "replace") if oidc.ca_file else "",
        ),
        claim_mappings=ClaimMappings(
            username=PrefixedClaimOrExpression(claim=oidc.username_claim, prefix="" if prefix == "-" else prefix),
            groups=groups,
        ),
        claim_validation_rules=[
            ClaimValidationRule(claim=claim, required_value=value) for claim, value in oidc.required_claims
        ],
    )


def _anonymous(options: AccessOptions, config: CompiledConfiguration | None) -> AnonymousAuthenticator | None:
    rules = config.config.anonymous if config is not None else None
    if rules is None:
        return None if options.anonymous_auth is False else AnonymousAuthenticator()
    if options.anonymous_auth is not None:
        raise AccessError(
            "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration "
            "file"
        )
    if not rules.enabled:
        return None
    return AnonymousAuthenticator([each.path for each in rules.conditions] if rules.conditions else None)


def _settings(mode: CompiledAuthorizer, config: WebhookConfiguration) -> WebhookSettings:
    def seconds(text: str, default: str, kept: bool | None) -> float:
        return 0.0 if kept is False else parse_duration(text or default).total_seconds()

    return WebhookSettings(
        mode.config.name,
        config.subject_access_review_version,
        seconds(config.authorized_ttl, AUTHORIZED_TTL, config.cache_authorized_requests),
        seconds(config.unauthorized_ttl, UNAUTHORIZED_TTL, config.cache_unauthorized_requests),
        Decision.DENY if config.failure_policy == DENY else Decision.NO_OPINION,
        mode.conditions,
    )


def _complaint(path: str) -> str:
    try:
        regular = stat.S_ISREG(Path(path).stat().st_mode)
    except OSError as err:
        return f"error loading file: stat {path}: {(err.strerror or str(err)).lower()}"
    return "" if regular else "must be a regular file"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as err:
        raise AccessError(f"{path} cannot be read: {(err.strerror or str(err)).lower()}") from err
