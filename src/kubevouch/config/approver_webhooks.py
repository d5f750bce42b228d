"""ApproverWebhookConfiguration: services that are asked about requests for certificates, in their order.

Paths are read from where the program was started.
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.config import config_file
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Int32, Struct, always, wire
from kubevouch.machinery.field import FieldError

KIND = "ApproverWebhookConfiguration"
API_VERSION = "kubevouch.io/v1alpha1"
WAIT, DENY, IGNORE = POLICIES = ("Wait", "Deny", "Ignore")
MAX_WEBHOOKS = 8
MAX_SIGNERS = 64
MOST_SECONDS = 30


class ApproverWebhook(Struct):
    """One service."""

    name: Annotated[str, wire(1, "What decisions, logs and metrics call it.", required=True)] = always(str)
    kube_config_file: Annotated[
        str, wire(2, "A kubeconfig: its cluster is the service, its user what is shown to it.", required=True)
    ] = always(str)
    signer_names: Annotated[list[str], wire(3, "It is asked about their requests only.", required=True)] = []
    timeout_seconds: Annotated[Int32, wire(4, "How long an answer may take.")] = 5
    failure_policy: Annotated[
        str, wire(5, "Without an answer: Wait for one, Deny the request, or Ignore the service.")
    ] = WAIT


class ApproverWebhookConfiguration(Struct):
    """The file."""

    webhooks: Annotated[list[ApproverWebhook], wire(1, "In the order in which they are asked.")] = []


def decode(text: bytes) -> ApproverWebhookConfiguration:
    """Raises :class:`ConfigFileError`."""
    return config_file.decode(text, KIND, {API_VERSION: ApproverWebhookConfiguration}, _problems)


def _problems(config: ApproverWebhookConfiguration) -> list[FieldError]:
    found = list(config_file.named([each.name for each in config.webhooks], "webhooks", MAX_WEBHOOKS))
    for number, each in enumerate(config.webhooks):
        where = f"webhooks[{number}]"
        if not each.kube_config_file:
            found.append(field.required(f"{where}.kubeConfigFile", ""))
        if not each.signer_names:
            found.append(field.required(f"{where}.signerNames", "it is asked about nothing"))
        if len(each.signer_names) > MAX_SIGNERS:
            found.append(field.too_many(f"{where}.signerNames", len(each.signer_names), MAX_SIGNERS))
        if not 1 <= each.timeout_seconds <= MOST_SECONDS:
            found.append(
                field.invalid(f"{where}.timeoutSeconds", each.timeout_seconds, f"expected 1 to {MOST_SECONDS}")
            )
        if each.failure_policy not in POLICIES:
            found.append(field.not_supported(f"{where}.failurePolicy", each.failure_policy, POLICIES))
    return found
