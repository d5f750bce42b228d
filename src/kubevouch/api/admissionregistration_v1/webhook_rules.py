"""What is wrong with webhook configurations."""

from __future__ import annotations

from kubevouch.api.admissionregistration_v1.matching import FAILURE_POLICIES, MATCH_POLICIES
from kubevouch.api.admissionregistration_v1.matching_rules import (
    choice_errors,
    validate_match_conditions,
    validate_rule,
)
from kubevouch.api.admissionregistration_v1.webhooks import (
    MAX_TIMEOUT_SECONDS,
    REINVOCATION_POLICIES,
    REVIEW_VERSIONS,
    WITHOUT_SIDE_EFFECTS,
    MutatingWebhook,
    WebhookClientConfig,
    WebhookConfiguration,
    WebhookDefinition,
    webhooks_of,
)
from kubevouch.api.meta_v1 import validate_label_selector
from kubevouch.api.webhook_clients import review_version_errors, service_errors, url_errors
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names

_KNOWN = ", ".join(REVIEW_VERSIONS)


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
        errors += review_version_errors(
            webhook.admission_review_versions or [], f"{path}.admissionReviewVersions", f"must specify one of {_KNOWN}"
        )
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
        service, where = config.service, f"{path}.service"
        return service_errors(service.namespace, service.name, service.path, service.port, where)
    return url_errors(config.url or "", f"{path}.url")
