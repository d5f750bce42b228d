"""ValidatingWebhookConfiguration and MutatingWebhookConfiguration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from kubevouch.api.admissionregistration_v1.matching import (
    EQUIVALENT,
    FAIL,
    FAILURE_POLICIES,
    MATCH_POLICIES,
    MatchCondition,
    RuleWithOperations,
    default_rule,
    or_else,
)
from kubevouch.machinery.declaration import Int32, Struct, always, null, wire
from kubevouch.machinery.meta import LabelSelector, Object

NONE, NONE_ON_DRY_RUN = "None", "NoneOnDryRun"
WITHOUT_SIDE_EFFECTS = (NONE, NONE_ON_DRY_RUN)
IF_NEEDED, NEVER = "IfNeeded", "Never"
REINVOCATION_POLICIES = (IF_NEEDED, NEVER)
REVIEW_VERSIONS = ("v1", "v1beta1")
DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 10, 30
HTTPS_PORT = 443


class ServiceReference(Struct):
    """A service of the cluster."""

    namespace: Annotated[str, wire(1, "Its namespace.", required=True)] = always(str)
    name: Annotated[str, wire(2, "Its name.", required=True)] = always(str)
    path: Annotated[str | None, wire(3, "The path of requests.")] = None
    port: Annotated[Int32 | None, wire(4, "Its port.")] = None


class WebhookClientConfig(Struct):
    """Where a webhook is and how to know it."""

    url: Annotated[str | None, wire(3, "Where it listens: https://host:port/path.")] = None
    service: Annotated[ServiceReference | None, wire(1, "A service in the cluster.")] = None
    ca_bundle: Annotated[bytes, wire(2, "PEM of the CAs of its certificate; empty is this machine's.")] = b""


class ValidatingWebhook(Struct):
    """A webhook that accepts or refuses, and the requests it is asked about."""

    name: Annotated[str, wire(1, "A domain name of three labels or more.", required=True)] = always(str)
    client_config: Annotated[WebhookClientConfig, wire(2, "Where it is.", required=True)] = always(WebhookClientConfig)
    rules: Annotated[list[RuleWithOperations], wire(3, "One must match.", list_type="atomic")] = []
    failure_policy: Annotated[
        str | None, wire(4, "What to do when it cannot be asked: Fail or Ignore.", enum=FAILURE_POLICIES)
    ] = None
    match_policy: Annotated[
        str | None, wire(9, "Exact, or Equivalent: whatever the version of the request.", enum=MATCH_POLICIES)
    ] = None
    namespace_selector: Annotated[
        LabelSelector | None, wire(5, "Labels of the object's namespace, or of the object if it is one.")
    ] = None
    object_selector: Annotated[LabelSelector | None, wire(10, "Labels of the object, before or after.")] = None
    side_effects: Annotated[
        str | None, wire(6, "None or NoneOnDryRun.", required=True, enum=("None", "NoneOnDryRun", "Some", "Unknown"))
    ] = null()
    timeout_seconds: Annotated[Int32 | None, wire(7, "How long a call may take, 1 to 30.")] = None
    admission_review_versions: Annotated[
        list[str] | None,
        wire(8, "Versions it understands, best first: v1, v1beta1.", required=True, list_type="atomic"),
    ] = null()
    match_conditions: Annotated[
        list[MatchCondition],
        wire(11, "All must hold.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []


class MutatingWebhook(Struct):
    """A webhook that may change the object, and the requests it is asked about."""

    name: Annotated[str, wire(1, "A domain name of three labels or more.", required=True)] = always(str)
    client_config: Annotated[WebhookClientConfig, wire(2, "Where it is.", required=True)] = always(WebhookClientConfig)
    rules: Annotated[list[RuleWithOperations], wire(3, "One must match.", list_type="atomic")] = []
    failure_policy: Annotated[
        str | None, wire(4, "What to do when it cannot be asked: Fail or Ignore.", enum=FAILURE_POLICIES)
    ] = None
    match_policy: Annotated[
        str | None, wire(9, "Exact, or Equivalent: whatever the version of the request.", enum=MATCH_POLICIES)
    ] = None
    namespace_selector: Annotated[
        LabelSelector | None, wire(5, "Labels of the object's namespace, or of the object if it is one.")
    ] = None
    object_selector: Annotated[LabelSelector | None, wire(11, "Labels of the object, before or after.")] = None
    side_effects: Annotated[
        str | None, wire(6, "None or NoneOnDryRun.", required=True, enum=("None", "NoneOnDryRun", "Some", "Unknown"))
    ] = null()
    timeout_seconds: Annotated[Int32 | None, wire(7, "How long a call may take, 1 to 30.")] = None
    admission_review_versions: Annotated[
        list[str] | None,
        wire(8, "Versions it understands, best first: v1, v1beta1.", required=True, list_type="atomic"),
    ] = null()
    reinvocation_policy: Annotated[
        str | None,
        wire(10, "Never, or IfNeeded: ask again when others changed the object after it.", enum=REINVOCATION_POLICIES),
    ] = None
    match_conditions: Annotated[
        list[MatchCondition],
        wire(12, "All must hold.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []


WebhookDefinition = ValidatingWebhook | MutatingWebhook


class ValidatingWebhookConfiguration(Object):
    """Webhooks that accept or refuse."""

    webhooks: Annotated[
        list[ValidatingWebhook],
        wire(
            2,
            "The webhooks.",
            list_type="map",
            map_keys=("name",),
            patch_merge_key="name",
            proto_name="Webhooks",
        ),
    ] = []


class MutatingWebhookConfiguration(Object):
    """Webhooks that may change objects."""

    webhooks: Annotated[
        list[MutatingWebhook],
        wire(
            2,
            "The webhooks.",
            list_type="map",
            map_keys=("name",),
            patch_merge_key="name",
            proto_name="Webhooks",
        ),
    ] = []


WebhookConfiguration = ValidatingWebhookConfiguration | MutatingWebhookConfiguration


def webhooks_of(config: WebhookConfiguration) -> Sequence[WebhookDefinition]:
    """The webhooks of either kind of configuration."""
    return config.webhooks


# ------------------------------------------------------------------ defaults


def default_validating(config: ValidatingWebhookConfiguration) -> ValidatingWebhookConfiguration:
    return msgspec.structs.replace(config, webhooks=[_default_validating(webhook) for webhook in config.webhooks])


def default_mutating(config: MutatingWebhookConfiguration) -> MutatingWebhookConfiguration:
    return msgspec.structs.replace(config, webhooks=[_default_mutating(webhook) for webhook in config.webhooks])


def _default_validating(webhook: ValidatingWebhook) -> ValidatingWebhook:
    return msgspec.structs.replace(
        webhook,
        client_config=_default_client_config(webhook.client_config),
        rules=[default_rule(rule) for rule in webhook.rules],
        failure_policy=or_else(webhook.failure_policy, FAIL),
        match_policy=or_else(webhook.match_policy, EQUIVALENT),
        namespace_selector=or_else(webhook.namespace_selector, LabelSelector()),
        object_selector=or_else(webhook.object_selector, LabelSelector()),
        timeout_seconds=or_else(webhook.timeout_seconds, DEFAULT_TIMEOUT_SECONDS),
    )


def _default_mutating(webhook: MutatingWebhook) -> MutatingWebhook:
    return msgspec.structs.replace(
        webhook,
        client_config=_default_client_config(webhook.client_config),
        rules=[default_rule(rule) for rule in webhook.rules],
        failure_policy=or_else(webhook.failure_policy, FAIL),
        match_policy=or_else(webhook.match_policy, EQUIVALENT),
        namespace_selector=or_else(webhook.namespace_selector, LabelSelector()),
        object_selector=or_else(webhook.object_selector, LabelSelector()),
        timeout_seconds=or_else(webhook.timeout_seconds, DEFAULT_TIMEOUT_SECONDS),
        reinvocation_policy=or_else(webhook.reinvocation_policy, NEVER),
    )


def _default_client_config(config: WebhookClientConfig) -> WebhookClientConfig:
    service = config.service
    if service is None or service.port is not None:
        return config
    return msgspec.structs.replace(config, service=msgspec.structs.replace(service, port=HTTPS_PORT))
