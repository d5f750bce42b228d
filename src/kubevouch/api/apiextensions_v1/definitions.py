"""CustomResourceDefinition."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch.api.admissionregistration_v1.webhooks import HTTPS_PORT
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.machinery.declaration import Int32, Int64, Struct, always, named, null, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time

CLUSTER, NAMESPACED = "Cluster", "Namespaced"
SCOPES = (CLUSTER, NAMESPACED)
NONE, WEBHOOK = "None", "Webhook"
STRATEGIES = (NONE, WEBHOOK)


class CustomResourceDefinitionNames(Struct):
    """What a kind is called."""

    plural: Annotated[str, wire(1, "Its name in paths.", required=True)] = always(str)
    singular: Annotated[str, wire(2, "One of them.")] = ""
    short_names: Annotated[list[str], wire(3, "Shorter names for it.", list_type="atomic")] = []
    kind: Annotated[str, wire(4, "The kind.", required=True)] = always(str)
    list_kind: Annotated[str, wire(5, "The kind of a list of them.")] = ""
    categories: Annotated[list[str], wire(6, "Groups of resources that it belongs to.", list_type="atomic")] = []


class CustomResourceValidation(Struct):
    """What objects of a version look like."""

    open_api_v3_schema: Annotated[JSONSchemaProps | None, wire(1, "Their schema.")] = named("openAPIV3Schema", None)


class CustomResourceSubresourceStatus(Struct):
    """Objects have a status of their own."""


class CustomResourceSubresourceScale(Struct):
    """Objects can be scaled; where the numbers are."""

    spec_replicas_path: Annotated[str, wire(1, "Of the number that is wanted.", required=True)] = always(str)
    status_replicas_path: Annotated[str, wire(2, "Of the number that there is.", required=True)] = always(str)
    label_selector_path: Annotated[str | None, wire(3, "Of the selector, as text.")] = None


class CustomResourceSubresources(Struct):
    """The subresources of a version."""

    status: Annotated[CustomResourceSubresourceStatus | None, wire(1, "Status, where there is one.")] = None
    scale: Annotated[CustomResourceSubresourceScale | None, wire(2, "Scale, where there is one.")] = None


class CustomResourceColumnDefinition(Struct):
    """A column of a table."""

    name: Annotated[str, wire(1, "Its head.", required=True)] = always(str)
    type: Annotated[str, wire(2, "The type of its cells.", required=True)] = always(str)
    format: Annotated[str, wire(3, "A modifier of the type.")] = ""
    description: Annotated[str, wire(4, "What it shows.")] = ""
    priority: Annotated[Int32, wire(5, "Above 0 it shows in wide tables only.")] = 0
    json_path: Annotated[str, wire(6, "Where the value is.", required=True)] = always(str)


class SelectableField(Struct):
    """A field that field selectors know."""

    json_path: Annotated[str, wire(1, "Where it is.", required=True)] = always(str)


class CustomResourceDefinitionVersion(Struct):
    """One version of a kind."""

    name: Annotated[str, wire(1, "The version, such as v1.", required=True)] = always(str)
    served: Annotated[bool, wire(2, "Whether it is served.", required=True)] = always(bool)
    storage: Annotated[bool, wire(3, "Whether objects are stored in it.", required=True)] = always(bool)
    deprecated: Annotated[bool, wire(7, "Whoever uses it is warned.")] = False
    deprecation_warning: Annotated[str | None, wire(8, "What the warning says.")] = None
    schema: Annotated[CustomResourceValidation | None, wire(4, "What its objects look like.")] = None
    subresources: Annotated[CustomResourceSubresources | None, wire(5, "Its subresources.")] = None
    additional_printer_columns: Annotated[
        list[CustomResourceColumnDefinition], wire(6, "The columns of its tables.", list_type="atomic")
    ] = []
    selectable_fields: Annotated[list[SelectableField], wire(9, "What field selectors know.", list_type="atomic")] = []


class ServiceReference(Struct):
    """A service of the cluster."""

    namespace: Annotated[str, wire(1, "Its namespace.", required=True)] = always(str)
    name: Annotated[str, wire(2, "Its name.", required=True)] = always(str)
    path: Annotated[str | None, wire(3, "The path of requests.")] = None
    port: Annotated[Int32 | None, wire(4, "Its port; 443 unless said.")] = None


class WebhookClientConfig(Struct):
    """Where a webhook is and how to know it."""

    url: Annotated[str | None, wire(3, "Where it listens: https://host:port/path.")] = None
    service: Annotated[ServiceReference | None, wire(1, "A service in the cluster.")] = None
    ca_bundle: Annotated[bytes, wire(2, "PEM of the CAs of its certificate; empty is this machine's.")] = b""


class WebhookConversion(Struct):
    """Who converts, and in which versions of ConversionReview it is asked."""

    client_config: Annotated[WebhookClientConfig | None, wire(2, "Where the webhook is.")] = None
    conversion_review_versions: Annotated[
        list[str], wire(3, "In order of preference.", required=True, list_type="atomic")
    ] = always(list)


class CustomResourceConversion(Struct):
    """How objects get from one version to another."""

    strategy: Annotated[str, wire(1, "None or Webhook.", required=True, enum=STRATEGIES)] = always(str)
    webhook: Annotated[WebhookConversion | None, wire(2, "For Webhook.")] = None


class CustomResourceDefinitionSpec(Struct):
    """The kind that is defined."""

    group: Annotated[str, wire(1, "Its API group.", required=True)] = always(str)
    names: Annotated[CustomResourceDefinitionNames, wire(3, "What it is called.", required=True)] = always(
        CustomResourceDefinitionNames
    )
    scope: Annotated[str, wire(4, "Cluster or Namespaced.", required=True)] = always(str)
    versions: Annotated[
        list[CustomResourceDefinitionVersion], wire(7, "Its versions.", required=True, list_type="atomic")
    ] = always(list)
    conversion: Annotated[CustomResourceConversion | None, wire(9, "How versions become one another.")] = None
    preserve_unknown_fields: Annotated[bool, wire(10, "Of old definitions; cannot be true in new ones.")] = False


class CustomResourceDefinitionCondition(Struct):
    """What can be said of a definition."""

    type: Annotated[str, wire(1, "What about.", required=True)] = always(str)
    status: Annotated[str, wire(2, "True, False or Unknown.", required=True)] = always(str)
    last_transition_time: Annotated[Time | None, wire(3, "When the status changed last.")] = null()
    reason: Annotated[str, wire(4, "A word for machines.")] = ""
    message: Annotated[str, wire(5, "A sentence for people.")] = ""
    observed_generation: Annotated[Int64, wire(6, "The generation that this is about.")] = 0


class CustomResourceDefinitionStatus(Struct):
    """What became of a definition."""

    # Null before the controllers have been there.
    conditions: Annotated[
        list[CustomResourceDefinitionCondition] | None,
        wire(1, "What can be said of it.", list_type="map", map_keys=("type",)),
    ] = null()
    accepted_names: Annotated[CustomResourceDefinitionNames, wire(2, "The names that it serves.")] = always(
        CustomResourceDefinitionNames
    )
    stored_versions: Annotated[
        list[str] | None, wire(3, "Versions in which objects may be stored.", list_type="atomic")
    ] = null()
    observed_generation: Annotated[Int64, wire(4, "The generation that the controllers have seen.")] = 0


class CustomResourceDefinition(Object):
    """A kind that is added to those an API server has."""

    spec: Annotated[CustomResourceDefinitionSpec, wire(2, "The kind that is defined.", required=True)] = always(
        CustomResourceDefinitionSpec
    )
    status: Annotated[CustomResourceDefinitionStatus, wire(3, "What became of it.")] = always(
        CustomResourceDefinitionStatus
    )


# ------------------------------------------------------------------ defaults


def default_definition(definition: CustomResourceDefinition) -> CustomResourceDefinition:
    """With the names that follow from the kind, a strategy of conversion, and versions that are stored."""
    spec, status = definition.spec, definition.status
    names, conversion = spec.names, spec.conversion
    if not names.singular or (not names.list_kind and names.kind):
        list_kind = names.list_kind or (f"{names.kind}List" if names.kind else "")
        names = msgspec.structs.replace(names, singular=names.singular or names.kind.lower(), list_kind=list_kind)
    conversion = CustomResourceConversion(strategy=NONE) if conversion is None else _default_conversion(conversion)
    if not status.stored_versions and (stored := stored_version(spec)) is not None:
        status = msgspec.structs.replace(status, stored_versions=[stored])
    spec = msgspec.structs.replace(spec, names=names, conversion=conversion)
    return msgspec.structs.replace(definition, spec=spec, status=status)


def stored_version(spec: CustomResourceDefinitionSpec) -> str | None:
    """The name of the first version that is marked as the one that objects are stored in."""
    return next((version.name for version in spec.versions if version.storage), None)


def _default_conversion(conversion: CustomResourceConversion) -> CustomResourceConversion:
    webhook = conversion.webhook
    config = None if webhook is None else webhook.client_config
    if webhook is None or config is None or config.service is None or config.service.port is not None:
        return conversion
    service = msgspec.structs.replace(config.service, port=HTTPS_PORT)
    config = msgspec.structs.replace(config, service=service)
    return msgspec.structs.replace(conversion, webhook=msgspec.structs.replace(webhook, client_config=config))
