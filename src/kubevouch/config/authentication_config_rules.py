"""Reads and checks an AuthenticationConfiguration, and compiles its expressions.

Source: k8s.io/apiserver/pkg/apis/apiserver/validation/validation.go, pkg/authentication/cel
(Kubernetes 1.36).
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Collection
from functools import cache

import msgspec

from kubevouch.api.authentication_v1 import UserInfo
from kubevouch.cel.environment import BOOL, MAP, Environment, ExpressionError, Program
from kubevouch.config import config_file
from kubevouch.config.authentication_config import (
    KIND,
    MATCH_ANY,
    AuthenticationConfiguration,
    ClaimMappings,
    ClaimValidationRule,
    ExtraMapping,
    Issuer,
    JWTAuthenticator,
    PrefixedClaimOrExpression,
    UserValidationRule,
)
from kubevouch.config.config_file import ConfigFileError
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError, TypedString
from kubevouch.machinery.text import gotext, names
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.x509_certificate import parse_der

MAX_AUTHENTICATORS = 64

CLAIMS = "claims"
USER = "user"

VERSIONS = {f"{config_file.GROUP}/{version}": AuthenticationConfiguration for version in ("v1", "v1beta1")}


class CompiledMappings(msgspec.Struct, frozen=True):
    """The expressions of one issuer, compiled; None or empty where there are none."""

    username: Program | None = None
    groups: Program | None = None
    uid: Program | None = None
    extra: tuple[tuple[str, Program], ...] = ()
    claim_rules: tuple[tuple[ClaimValidationRule, Program], ...] = ()
    user_rules: tuple[tuple[UserValidationRule, Program], ...] = ()


class CompiledAuthenticator(msgspec.Struct, frozen=True):
    """One issuer that passed validation."""

    config: JWTAuthenticator
    mappings: CompiledMappings


class CompiledConfiguration(msgspec.Struct, frozen=True):
    """A file that passed validation."""

    config: AuthenticationConfiguration
    authenticators: tuple[CompiledAuthenticator, ...]


def load(text: bytes, disallowed_issuers: Collection[str] = ()) -> CompiledConfiguration:
    """The configuration in a file.

    Args:
        disallowed_issuers: whose tokens have another authenticator: the server's own issuer.

    Raises:
        ConfigFileError
    """
    config = config_file.decode(text, KIND, VERSIONS)
    compiled, errors = validate(config, disallowed_issuers)
    if errors:
        raise ConfigFileError.of(errors)
    return compiled


def validate(
    config: AuthenticationConfiguration, disallowed_issuers: Collection[str] = ()
) -> tuple[CompiledConfiguration, list[FieldError]]:
    """What is wrong with a configuration, and its compiled form, which counts only if nothing is."""
    if len(config.jwt) > MAX_AUTHENTICATORS:
        return CompiledConfiguration(config, ()), [field.too_many("jwt", len(config.jwt), MAX_AUTHENTICATORS)]
    errors: list[FieldError] = []
    compiled = []
    issuers: set[str] = set()
    discovery_urls: set[str] = set()
    for index, authenticator in enumerate(config.jwt):
        path = f"jwt[{index}]"
        validation = _Validation(path)
        compiled.append(CompiledAuthenticator(authenticator, validation.run(authenticator, disallowed_issuers)))
        errors += validation.errors
        issuer = authenticator.issuer
        errors += _seen(issuers, f"{path}.issuer.url", issuer.url)
        if issuer.discovery_url:
            errors += _seen(discovery_urls, f"{path}.issuer.discoveryURL", issuer.discovery_url)
    anonymous = config.anonymous
    if anonymous is not None and not anonymous.enabled and anonymous.conditions:
        conditions = [{"Path": condition.path} for condition in anonymous.conditions]
        why = "enabled should be set to true when conditions are defined"
        errors.append(field.invalid("anonymous.conditions", conditions, why))
    return CompiledConfiguration(config, tuple(compiled)), errors


def _seen(known: set[str], path: str, value: str) -> list[FieldError]:
    """The error for a repeated value; notes the value."""
    if value in known:
        return [field.duplicate(path, value)]
    known.add(value)
    return []


_BOTH = "claim and expression can't both be set"
_EITHER = "claim or expression is required"
# OpenID Connect lets anybody claim any address until it is verified.
_EMAIL = re.compile(r"\bclaims\s*\.\s*\??\s*email\b")
_EMAIL_VERIFIED = re.compile(r"\bclaims\s*\.\s*\??\s*email_verified\b")
_TEXT = re.compile(r"r?(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')")
_UNVERIFIED_EMAIL = (
    "claims.email_verified must be used in claimMappings.username.expression or "
    "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in "
    "claimMappings.username.expression"
)


class _Validation(msgspec.Struct):
    """One issuer's errors, in Kubernetes' order."""

    path: str
    errors: list[FieldError] = msgspec.field(default_factory=list)

    def run(self, authenticator: JWTAuthenticator, disallowed: Collection[str]) -> CompiledMappings:
        self._issuer(authenticator.issuer, disallowed)
        claim_rules = self._claim_rules(authenticator.claim_validation_rules)
        mappings = self._mappings(authenticator.claim_mappings, [rule.expression for rule, _ in claim_rules])
        user_rules = self._user_rules(authenticator.user_validation_rules)
        return CompiledMappings(*mappings, claim_rules=tuple(claim_rules), user_rules=tuple(user_rules))

    # -------------------------------------------------------------- issuer

    def _issuer(self, issuer: Issuer, disallowed: Collection[str]) -> None:
        path = f"{self.path}.issuer"
        if issuer.url:
            self._url(f"{path}.url", issuer.url, disallowed)
        else:
            self.errors.append(field.required(f"{path}.url"))
        if issuer.discovery_url:
            if issuer.url and issuer.url.rstrip("/") == issuer.discovery_url.rstrip("/"):
                why = "discoveryURL must be different from URL"
                self.errors.append(field.invalid(f"{path}.discoveryURL", issuer.discovery_url, why))
            self._url(f"{path}.discoveryURL", issuer.discovery_url, ())
        self._audiences(issuer, path)
        if issuer.certificate_authority and not _holds_certificate(issuer.certificate_authority.encode()):
            why = "data does not contain any valid RSA or ECDSA certificates"
            self.errors.append(field.invalid(f"{path}.certificateAuthority", "<omitted>", why))
        if issuer.egress_selector_type:
            why = "egress selectors are not supported"
            self.errors.append(field.invalid(f"{path}.egressSelectorType", issuer.egress_selector_type, why))

    def _url(self, path: str, url: str, disallowed: Collection[str]) -> None:
        if url in disallowed:
            why = f"URL must not overlap with disallowed issuers: {gotext.string_slice(sorted(disallowed))}"
            self.errors.append(field.invalid(path, url, why))
        try:
            parts = urllib.parse.urlsplit(url)
        except ValueError as err:
            self.errors.append(field.invalid(path, url, str(err)))
            return
        for wrong, why in (
            (parts.scheme != "https", "URL scheme must be https"),
            ("@" in parts.netloc, "URL must not contain a username or password"),
            (bool(parts.query), "URL must not contain a query"),
            (bool(parts.fragment), "URL must not contain a fragment"),
        ):
            if wrong:
                self.errors.append(field.invalid(path, url, why))

    def _audiences(self, issuer: Issuer, issuer_path: str) -> None:
        path, policy_path = f"{issuer_path}.audiences", f"{issuer_path}.audienceMatchPolicy"
        if not issuer.audiences:
            self.errors.append(field.required(path, f"at least one {path} is required"))
            return
        known: set[str] = set()
        for index, audience in enumerate(issuer.audiences):
            if not audience:
                self.errors.append(field.required(f"{path}[{index}]"))
            self.errors += _seen(known, f"{path}[{index}]", audience)
        policy = TypedString(issuer.audience_match_policy)
        if len(issuer.audiences) > 1 and policy != MATCH_ANY:
            why = "audienceMatchPolicy must be MatchAny for multiple audiences"
            self.errors.append(field.invalid(policy_path, policy, why))
        if len(issuer.audiences) == 1 and policy not in ("", MATCH_ANY):
            why = "audienceMatchPolicy must be empty or MatchAny for single audience"
            self.errors.append(field.invalid(policy_path, policy, why))

    # -------------------------------------------------------------- rules and mappings

    def _claim_rules(self, rules: list[ClaimValidationRule]) -> list[tuple[ClaimValidationRule, Program]]:
        claims: set[str] = set()
        expressions: set[str] = set()
        compiled = []
        for index, rule in enumerate(rules):
            path = f"{self.path}.claimValidationRules[{index}]"
            if rule.claim and rule.expression:
                self.errors.append(field.invalid(path, rule.claim, _BOTH))
            elif rule.claim:
                if rule.message:
                    why = "may not be specified when claim is set"
                    self.errors.append(field.invalid(f"{path}.message", rule.message, why))
                self.errors += _seen(claims, f"{path}.claim", rule.claim)
            elif rule.expression:
                if rule.required_value:
                    why = "may not be specified when expression is set"
                    self.errors.append(field.invalid(f"{path}.requiredValue", rule.required_value, why))
                repeated = _seen(expressions, f"{path}.expression", rule.expression)
                self.errors += repeated
                if repeated:
                    continue
                program = self._compile(f"{path}.expression", rule.expression, boolean=True)
                if program is not None:
                    compiled.append((rule, program))
            else:
                self.errors.append(field.required(path, _EITHER))
        return compiled

    def _mappings(
        self, mappings: ClaimMappings, rules: list[str]
    ) -> tuple[Program | None, Program | None, Program | None, tuple[tuple[str, Program], ...]]:
        path = f"{self.path}.claimMappings"
        username = self._prefixed(f"{path}.username", mappings.username, required=True)
        groups = self._prefixed(f"{path}.groups", mappings.groups, required=False)
        uid = None
        if mappings.uid.claim and mappings.uid.expression:
            self.errors.append(field.invalid(f"{path}.uid", "", _BOTH))
        elif mappings.uid.expression:
            uid = self._compile(f"{path}.uid.expression", mappings.uid.expression)
        extra = self._extra(f"{path}.extra", mappings.extra)
        if username is not None and _uses(_EMAIL, username.source):
            looked_at = [username.source, *rules, *(program.source for _, program in extra)]
            if not any(_uses(_EMAIL_VERIFIED, source) for source in looked_at):
                self.errors.append(field.invalid(f"{path}.username.expression", username.source, _UNVERIFIED_EMAIL))
        return username, groups, uid, tuple(extra)

    def _prefixed(self, path: str, mapping: PrefixedClaimOrExpression, *, required: bool) -> Program | None:
        if mapping.expression and mapping.claim:
            self.errors.append(field.invalid(path, "", _BOTH))
        elif mapping.expression:
            if mapping.prefix is not None:
                why = "may not be specified when expression is set"
                self.errors.append(field.invalid(f"{path}.prefix", mapping.prefix, why))
            return self._compile(f"{path}.expression", mapping.expression)
        elif mapping.claim:
            if mapping.prefix is None:
                why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
                self.errors.append(field.required(f"{path}.prefix", why))
        elif required:
            self.errors.append(field.required(path, _EITHER))
        return None

    def _extra(self, extra_path: str, mappings: list[ExtraMapping]) -> list[tuple[str, Program]]:
        keys: set[str] = set()
        compiled = []
        for index, mapping in enumerate(mappings):
            path = f"{extra_path}[{index}]"
            self.errors += _domain_prefixed_path(f"{path}.key", mapping.key)
            if mapping.key != mapping.key.lower():
                self.errors.append(field.invalid(f"{path}.key", mapping.key, "must be lowercase"))
            domain = mapping.key.partition("/")[0] if "/" in mapping.key else ""
            if any(domain == owned or domain.endswith(f".{owned}") for owned in ("kubernetes.io", "k8s.io")):
                why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
                self.errors.append(field.invalid(f"{path}.key", mapping.key, why))
            repeated = _seen(keys, f"{path}.key", mapping.key)
            self.errors += repeated
            if repeated:
                continue
            if not mapping.value_expression:
                self.errors.append(field.required(f"{path}.valueExpression"))
                continue
            program = self._compile(f"{path}.valueExpression", mapping.value_expression)
            if program is not None:
                compiled.append((mapping.key, program))
        return compiled

    def _user_rules(self, rules: list[UserValidationRule]) -> list[tuple[UserValidationRule, Program]]:
        known: set[str] = set()
        compiled = []
        for index, rule in enumerate(rules):
            path = f"{self.path}.userValidationRules[{index}].expression"
            if not rule.expression:
                self.errors.append(field.required(path))
                continue
            repeated = _seen(known, path, rule.expression)
            self.errors += repeated
            if repeated:
                continue
            program = self._compile(path, rule.expression, boolean=True, variables=USER)
            if program is not None:
                compiled.append((rule, program))
        return compiled

    def _compile(self, path: str, source: str, *, boolean: bool = False, variables: str = CLAIMS) -> Program | None:
        try:
            return _environment(variables).compile(source, (BOOL,) if boolean else ())
        except ExpressionError as err:
            self.errors.append(field.invalid(path, source, str(err)))
            return None


@cache
def _environment(variables: str) -> Environment:
    return Environment({CLAIMS: MAP} if variables == CLAIMS else {USER: UserInfo})


def _uses(pattern: re.Pattern[str], source: str) -> bool:
    return pattern.search(_TEXT.sub("''", source)) is not None


def _holds_certificate(text: bytes) -> bool:
    try:
        found = [parse_der(block.contents) for block in pem.blocks(text) if block.type == pem.CERTIFICATE]
    except PKIError:
        return False
    return bool(found)


def _domain_prefixed_path(path: str, key: str) -> list[FieldError]:
    """``IsDomainPrefixedPath`` (k8s.io/apimachinery/pkg/util/validation)."""
    if not key:
        return [field.required(path)]
    domain, slash, rest = key.partition("/")
    if not (slash and domain and rest):
        return [field.invalid(path, key, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [field.invalid(path, domain, message) for message in names.subdomain(domain)]
    if not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", rest):
        regex = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+"
        errors.append(field.invalid(path, rest, f"Invalid path (regex used for validation is '{regex}')"))
    return errors
