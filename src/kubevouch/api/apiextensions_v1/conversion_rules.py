"""What is wrong with how the versions of a kind become one another.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch.api.admissionregistration_v1.webhooks import REVIEW_VERSIONS
from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.apiextensions_v1.definitions import (
    STRATEGIES,
    WEBHOOK,
    CustomResourceConversion,
    CustomResourceDefinition,
    WebhookClientConfig,
)
from kubevouch.api.webhook_clients import ca_bundle_fault, review_version_errors, service_errors, url_errors
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError


def choice_errors(path: str, value: str, choices: Iterable[str]) -> list[FieldError]:
    """One of ``choices`` has to be there."""
    if not value:
        return [field.required(path)]
    return [] if value in choices else [field.not_supported(path, value, choices)]


def conversion_errors(
    conversion: CustomResourceConversion | None, old: CustomResourceDefinition | None
) -> list[FieldError]:
    """What is wrong with a conversion; ``old`` is what its definition takes the place of."""
    if conversion is None:
        return []
    path = "spec.conversion"
    config, reviews = f"{path}.webhookClientConfig", f"{path}.conversionReviewVersions"
    webhook = conversion.webhook
    client = None if webhook is None else webhook.client_config
    versions = [] if webhook is None else webhook.conversion_review_versions
    errors = choice_errors(f"{path}.strategy", conversion.strategy, STRATEGIES)
    if conversion.strategy != WEBHOOK:
        why = "should not be set when strategy is not set to Webhook"
        if client is not None:
            errors.append(field.forbidden(config, why))
        if versions:
            errors.append(field.forbidden(reviews, why))
        return errors
    if client is None:
        errors.append(field.required(config, "required when strategy is set to Webhook"))
    else:
        errors += _client_errors(client, old, config)
    return errors + review_version_errors(versions, reviews, "", has_known=_had_known_reviews(old))


def _client_errors(client: WebhookClientConfig, old: CustomResourceDefinition | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    service = client.service
    if (client.url is None) == (service is None):
        errors.append(field.required(path, "exactly one of url or service is required"))
    elif service is not None:
        # Kubernetes confuses the two: what is said of the name is meant for the namespace.
        errors += service_errors(service.name, service.namespace, service.path, service.port, f"{path}.service")
    else:
        errors += url_errors(client.url or "", f"{path}.url")
    if client.ca_bundle and not _may_have_invalid_ca(old):
        fault = ca_bundle_fault(client.ca_bundle)
        if fault:
            errors.append(field.invalid(f"{path}.caBundle", client.ca_bundle, fault))
    return errors


def _client_of(definition: CustomResourceDefinition) -> WebhookClientConfig | None:
    conversion = definition.spec.conversion
    webhook = None if conversion is None else conversion.webhook
    return None if webhook is None else webhook.client_config


def _may_have_invalid_ca(old: CustomResourceDefinition | None) -> bool:
    """Until it is established, and where the one before was no better."""
    if old is None or not is_true(old, ESTABLISHED):
        return True
    client = _client_of(old)
    return client is not None and bool(client.ca_bundle) and bool(ca_bundle_fault(client.ca_bundle))


def _had_known_reviews(old: CustomResourceDefinition | None) -> bool:
    conversion = None if old is None else old.spec.conversion
    webhook = None if conversion is None else conversion.webhook
    versions = [] if webhook is None else webhook.conversion_review_versions
    return not versions or bool(set(versions) & set(REVIEW_VERSIONS))
