"""What is wrong with webhook configurations."""

from __future__ import annotations

import urllib.parse

from kubevouch.api.admissionregistration_v1.matching import FAILURE_POLICIES, MATCH_POLICIES
from kubevouch.api.admissionregistration_v1.matching_rules import (
    choice_errors,
    validate_match_conditions,
    validate_rule,
)
from kubevouch.api.admissionregistration_v1.webhooks import (
    HTTPS_PORT,
    MAX_TIMEOUT_SECONDS,
    REINVOCATION_POLICIES,
    REVIEW_VERSIONS,
    WITHOUT_SIDE_EFFECTS,
    MutatingWebhook,
    ServiceReference,
    WebhookClientConfig,
    WebhookConfiguration,
    WebhookDefinition,
    webhooks_of,
)
from kubevouch.api.meta_v1 import validate_label_selector
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names

_URL_FORM = "; desired format: https://host[/path]"


def validate_webhook_configuration(
    config: WebhookConfiguration, old: WebhookConfiguration | None = None
) -> list[FieldError]:
    """What is wrong with a configuration, metadata apart; conditions that were there before are not looked at again."""
    webhooks = webhooks_of(config)
    known_conditions = None if old is None else [webhook.match_conditions for webhook in webhooks_of(old)]
    look = [webhook.match_conditions for webhook in webhooks] != known_conditions
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, webhook in enumerate(webhooks):
        path = f"webhooks[{index}]"
        errors += _webhook_errors(webhook, path)
        if look:
            errors += validate_match_conditions(webhook.match_conditions, f"{path}.matchConditions")
        errors += _review_version_errors(webhook.admission_review_versions or [], f"{path}.admissionReviewVersions")
        if webhook.name and webhook.name in seen:
            errors.append(field.duplicate(f"{path}.name", webhook.name))
        seen.add(webhook.name)
    return errors


def _webhook_errors(webhook: WebhookDefinition, path: str) -> list[FieldError]:
    errors = _name_errors(webhook.name, f"{path}.name")
    for index, rule in enumerate(webhook.rules):
        errors += validate_rule(rule, f"{path}.rules[{index}]")
    errors += choice_errors(f"{path}.failurePolicy", webhook.failure_policy, FAILURE_POLICIES)
    errors += choice_errors(f"{path}.matchPolicy", webhook.match_policy, MATCH_POLICIES)
    if webhook.side_effects is None:
        errors.append(field.required(f"{path}.sideEffects", f"must specify one of {', '.join(WITHOUT_SIDE_EFFECTS)}"))
    errors += choice_errors(f"{path}.sideEffects", webhook.side_effects, WITHOUT_SIDE_EFFECTS)
    seconds = webhook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= MAX_TIMEOUT_SECONDS:
        why = f"the timeout value must be between 1 and {MAX_TIMEOUT_SECONDS} seconds"
        errors.append(field.invalid(f"{path}.timeoutSeconds", seconds, why))
    if webhook.namespace_selector is not None:
        errors += validate_label_selector(webhook.namespace_selector, f"{path}.namespaceSelector")
    if webhook.object_selector is not None:
        errors += validate_label_selector(webhook.object_selector, f"{path}.objectSelector")
    if isinstance(webhook, MutatingWebhook):
        errors += choice_errors(f"{path}.reinvocationPolicy", webhook.reinvocation_policy, REINVOCATION_POLICIES)
    return errors + _client_config_errors(webhook.client_config, f"{path}.clientConfig")


def _name_errors(name: str, path: str) -> list[FieldError]:
    if not name:
        return [field.required(path)]
    wrong = names.subdomain(name)
    if wrong:
        return [field.invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        return [field.invalid(path, name, why)]
    return []


def _client_config_errors(config: WebhookClientConfig, path: str) -> list[FieldError]:
    if (config.url is None) == (config.service is None):
        return [field.required(path, "exactly one of url or service is required")]
    if config.service is not None:
        return _service_errors(config.service, f"{path}.service")
    return _url_errors(config.url or "", f"{path}.url")


def _service_errors(service: ServiceReference, path: str) -> list[FieldError]:
    """Source: k8s.io/apiserver/pkg/util/webhook/validation.go."""
    errors: list[FieldError] = []
    if not service.name:
        errors.append(field.required(f"{path}.name", "service name is required"))
    if not service.namespace:
        errors.append(field.required(f"{path}.namespace", "service namespace is required"))
    port = HTTPS_PORT if service.port is None else service.port
    if not 1 <= port <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(field.invalid(f"{path}.port", port, why))
    return errors + _path_errors(service.path or "", f"{path}.path")


def _path_errors(text: str, path: str) -> list[FieldError]:
    if text in ("", "/"):
        return []
    if text == "//":
        return [field.invalid(path, text, "segment[0] may not be empty")]
    whys = [] if text.startswith("/") else ["must start with a '/'"]
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            whys.append(f"segment[{index}] may not be empty")
        else:
            whys += [f"segment[{index}]: {why}" for why in names.subdomain(segment)]
    return [field.invalid(path, text, why) for why in whys]


def _url_errors(url: str, path: str) -> list[FieldError]:
    """Source: k8s.io/apiserver/pkg/util/webhook/validation.go."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as err:
        return [field.required(path, f"url must be a valid URL: {err}{_URL_FORM}")]
    del port  # asked for because only then it is looked at
    user, at, host = parts.netloc.rpartition("@")
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(field.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not host:
        errors.append(field.invalid(path, host, f"host must be specified{_URL_FORM}"))
    if at:
        errors.append(field.invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(field.invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(field.invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _review_version_errors(versions: list[str], path: str) -> list[FieldError]:
    known = ", ".join(REVIEW_VERSIONS)
    if not versions:
        return [field.required(path, f"must specify one of {known}")]
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        where = f"{path}[{index}]"
        if version in versions[:index]:
            errors.append(field.invalid(where, version, "duplicate version"))
            continue
        errors += [field.invalid(where, version, why) for why in names.dns_1035_label(version)]
    if not set(versions) & set(REVIEW_VERSIONS):
        errors.append(field.invalid(path, versions, f"must include at least one of {known}"))
    return errors
