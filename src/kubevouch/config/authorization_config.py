"""apiserver.config.k8s.io AuthorizationConfiguration: which authorizers are asked, in which order.

Source: k8s.io/apiserver/pkg/apis/apiserver/{v1/types.go,v1/defaults.go,validation/validation.go} (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import cache
from typing import Annotated

import msgspec

from kubevouch.api.authorization_v1 import SubjectAccessReviewSpec
from kubevouch.cel.environment import BOOL, Environment, ExpressionError, Program
from kubevouch.config import config_file
from kubevouch.config.config_file import ConfigFileError
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Struct, always, named, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import gotext, names

KIND = "AuthorizationConfiguration"
WEBHOOK = "Webhook"
TYPES = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", WEBHOOK)
KUBECONFIG_FILE, IN_CLUSTER = "KubeConfigFile", "InClusterConfig"
NO_OPINION, DENY = "NoOpinion", "Deny"
MAX_CONDITIONS = 64
MAX_TIMEOUT = dt.timedelta(seconds=30)
AUTHORIZED_TTL, UNAUTHORIZED_TTL = "5m0s", "30s"


class WebhookMatchCondition(Struct):
    """When a webhook is asked."""

    expression: Annotated[str, wire(1, "CEL over request, a SubjectAccessReview's spec.")] = ""


class WebhookConnectionInfo(Struct):
    """How a webhook is reached."""

    type: Annotated[str, wire(1, "KubeConfigFile.")] = ""
    kube_config_file: Annotated[str | None, wire(2, "The kubeconfig.")] = None


class WebhookConfiguration(Struct):
    """How a webhook is asked."""

    authorized_ttl: Annotated[str, wire(1, "How long to remember what is allowed.")] = named("authorizedTTL")
    unauthorized_ttl: Annotated[str, wire(2, "How long to remember what is not.")] = named("unauthorizedTTL")
    timeout: Annotated[str, wire(3, "How long one attempt may take.")] = ""
    subject_access_review_version: Annotated[str, wire(4, "v1 or v1beta1.")] = ""
    match_condition_subject_access_review_version: Annotated[str, wire(5, "v1.")] = ""
    failure_policy: Annotated[str, wire(6, "NoOpinion or Deny.")] = ""
    connection_info: Annotated[WebhookConnectionInfo, wire(7, "How it is reached.")] = always(WebhookConnectionInfo)
    match_conditions: Annotated[list[WebhookMatchCondition], wire(8, "When it is asked.")] = []
    cache_authorized_requests: Annotated[bool | None, wire(9, "False remembers nothing that is allowed.")] = None
    cache_unauthorized_requests: Annotated[bool | None, wire(10, "False remembers nothing that is not.")] = None


class AuthorizerConfiguration(Struct):
    """One authorizer."""

    type: Annotated[str, wire(1, "Its mode.")] = ""
    name: Annotated[str, wire(2, "Its name in logs and metrics.")] = ""
    webhook: Annotated[WebhookConfiguration | None, wire(3, "For type Webhook.")] = None


class AuthorizationConfiguration(Struct):
    """The file."""

    authorizers: Annotated[list[AuthorizerConfiguration], wire(1, "In their order.")] = []


VERSIONS = {f"{config_file.GROUP}/{version}": AuthorizationConfiguration for version in ("v1", "v1beta1")}


@cache
def _environment() -> Environment:
    return Environment({"request": SubjectAccessReviewSpec})


class CompiledAuthorizer(msgspec.Struct, frozen=True):
    """One authorizer that passed validation."""

    config: AuthorizerConfiguration
    conditions: tuple[Program, ...] = ()


FileLook = Callable[[str], str]
"""What is wrong with a file that a configuration names, or an empty text."""


def load(text: bytes, look: FileLook) -> tuple[CompiledAuthorizer, ...]:
    """The authorizers that a file names.

    Raises:
        ConfigFileError
    """
    compiled, errors = validate(config_file.decode(text, KIND, VERSIONS), look)
    if errors:
        raise ConfigFileError.of(errors)
    return compiled


def validate(
    config: AuthorizationConfiguration, look: FileLook
) -> tuple[tuple[CompiledAuthorizer, ...], list[FieldError]]:
    """What is wrong with a configuration, and its compiled form, which counts only if nothing is."""
    errors: list[FieldError] = []
    compiled = []
    if not config.authorizers:
        errors.append(field.required("authorizers", "at least one authorization mode must be defined"))
    types: set[str] = set()
    known: set[str] = set()
    for index, authorizer in enumerate(config.authorizers):
        path = f"authorizers[{index}]"
        if not authorizer.type:
            errors.append(field.required(f"{path}.type"))
            continue
        if authorizer.type not in TYPES:
            errors.append(field.not_supported(f"{path}.type", authorizer.type, TYPES))
            continue
        if authorizer.type in types and authorizer.type != WEBHOOK:
            errors.append(field.duplicate(f"{path}.type", authorizer.type))
            continue
        types.add(authorizer.type)
        errors += _name_errors(f"{path}.name", authorizer.name, known)
        known.add(authorizer.name)
        conditions: tuple[Program, ...] = ()
        if authorizer.type != WEBHOOK:
            if authorizer.webhook is not None:
                why = "may only be specified when type=Webhook"
                errors.append(field.invalid(f"{path}.webhook", "non-null", why))
        elif authorizer.webhook is None:
            errors.append(field.required(f"{path}.webhook", "required when type=Webhook"))
            continue
        else:
            # Kubernetes leaves ".webhook" out of these paths.
            errors += _webhook_errors(path, authorizer.webhook, look)
            conditions, wrong = _conditions(path, authorizer.webhook.match_conditions)
            errors += wrong
        compiled.append(CompiledAuthorizer(authorizer, conditions))
    return tuple(compiled), errors


def _name_errors(path: str, name: str, known: set[str]) -> list[FieldError]:
    if not name:
        return [field.required(path)]
    if name in known:
        return [field.duplicate(path, name)]
    messages = names.subdomain(name)
    return [field.invalid(path, name, f"authorizer name is invalid: {', '.join(messages)}")] if messages else []


def _webhook_errors(path: str, webhook: WebhookConfiguration, look: FileLook) -> list[FieldError]:
    errors = _duration_errors(f"{path}.timeout", webhook.timeout, "must be > 0s and <= 30s", MAX_TIMEOUT)
    errors += _duration_errors(f"{path}.authorizedTTL", webhook.authorized_ttl or AUTHORIZED_TTL, "must be > 0s")
    errors += _duration_errors(f"{path}.unauthorizedTTL", webhook.unauthorized_ttl or UNAUTHORIZED_TTL, "must be > 0s")
    errors += _choice_errors(
        f"{path}.subjectAccessReviewVersion", webhook.subject_access_review_version, ("v1", "v1beta1")
    )
    version = webhook.match_condition_subject_access_review_version
    if version:
        errors += _choice_errors(f"{path}.matchConditionSubjectAccessReviewVersion", version, ("v1",))
    elif webhook.match_conditions:
        why = "required if match conditions are specified"
        errors.append(field.required(f"{path}.matchConditionSubjectAccessReviewVersion", why))
    errors += _choice_errors(f"{path}.failurePolicy", webhook.failure_policy, (NO_OPINION, DENY))
    return errors + _connection_errors(f"{path}.connectionInfo", webhook.connection_info, look)


def _duration_errors(path: str, text: str, why: str, limit: dt.timedelta | None = None) -> list[FieldError]:
    try:
        value = gotext.parse_duration(text) if text else dt.timedelta()
    except ValueError as err:
        return [field.invalid(path, text, str(err))]
    if not value:
        return [field.required(path)]
    if value < dt.timedelta() or (limit is not None and value > limit):
        return [field.invalid(path, gotext.format_duration(value), why)]
    return []


def _choice_errors(path: str, value: str, choices: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [field.required(path)]
    return [] if value in choices else [field.not_supported(path, value, choices)]


def _connection_errors(path: str, connection: WebhookConnectionInfo, look: FileLook) -> list[FieldError]:
    file = connection.kube_config_file
    file_path = f"{path}.kubeConfigFile"
    if connection.type != KUBECONFIG_FILE:
        if connection.type == IN_CLUSTER:
            return [field.forbidden(f"{path}.type", "an API server cannot ask itself")]
        return _choice_errors(f"{path}.type", connection.type, (IN_CLUSTER, KUBECONFIG_FILE))
    if not file:
        return [field.required(file_path)]
    if not file.startswith("/"):
        return [field.invalid(file_path, file, "must be an absolute path")]
    why = look(file)
    return [field.invalid(file_path, file, why)] if why else []


def _conditions(path: str, conditions: list[WebhookMatchCondition]) -> tuple[tuple[Program, ...], list[FieldError]]:
    if len(conditions) > MAX_CONDITIONS:
        return (), [field.too_many(f"{path}.matchConditions", len(conditions), MAX_CONDITIONS)]
    errors: list[FieldError] = []
    programs: dict[str, Program] = {}
    for index, condition in enumerate(conditions):
        where, source = f"{path}.matchConditions[{index}].expression", condition.expression
        if not source.strip():
            errors.append(field.required(where))
        elif source in programs:
            errors.append(field.duplicate(where, source))
        else:
            try:
                programs[source] = _environment().compile(source, (BOOL,))
            except ExpressionError as err:
                errors.append(field.invalid(where, source, str(err)))
    return tuple(programs.values()), errors
