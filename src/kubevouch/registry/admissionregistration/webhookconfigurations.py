"""The two kinds of webhook configurations (pkg/registry/admissionregistration; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from typing import TypeVar

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import webhook_rules, webhooks
from kubevouch.api.admissionregistration_v1.webhooks import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
    WebhookConfiguration,
    webhooks_of,
)
from kubevouch.machinery.field import FieldError
from kubevouch.registry.admissionregistration import CATEGORIES
from kubevouch.registry.generations import CountingStrategy
from kubevouch.registry.interface import Column, Context, Definition, Printer
from kubevouch.registry.printing import AGE, NAME, age

T = TypeVar("T", ValidatingWebhookConfiguration, MutatingWebhookConfiguration)


class WebhookConfigurationStrategy(CountingStrategy[T]):
    """Counts the changes of the webhooks."""

    unconditional_update = False
    validates_elsewhere = True

    def counts(self, new: T, old: T) -> bool:
        return new.webhooks != old.webhooks

    def validate(self, _ctx: Context, obj: T) -> list[FieldError]:
        return webhook_rules.validate_webhook_configuration(obj)

    def validate_update(self, _ctx: Context, new: T, old: T) -> list[FieldError]:
        return webhook_rules.validate_webhook_configuration(new, old)


def _cells(obj: WebhookConfiguration, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, len(webhooks_of(obj)), age(obj.metadata.creation_timestamp, now)]


_PRINTER = Printer((NAME, Column("Webhooks", "integer", description="How many webhooks it has."), AGE), _cells)

VALIDATING = Definition(
    resource=catalog.VALIDATING_WEBHOOK_CONFIGURATIONS,
    defaulter=webhooks.default_validating,
    strategy=WebhookConfigurationStrategy[ValidatingWebhookConfiguration](),
    printer=_PRINTER,
    categories=CATEGORIES,
)
MUTATING = Definition(
    resource=catalog.MUTATING_WEBHOOK_CONFIGURATIONS,
    defaulter=webhooks.default_mutating,
    strategy=WebhookConfigurationStrategy[MutatingWebhookConfiguration](),
    printer=_PRINTER,
    categories=CATEGORIES,
)
