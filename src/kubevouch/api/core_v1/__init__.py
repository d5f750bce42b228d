"""core/v1, one file a kind.

The ``validate_*`` functions check what is particular to a kind. The metadata that all kinds share is checked by
``machinery.object_meta``, which the registry calls with the kind's rule for names.
"""

from kubevouch.api.core_v1.components import ComponentCondition, ComponentStatus
from kubevouch.api.core_v1.configmaps import ConfigMap, validate_config_map, validate_config_map_update
from kubevouch.api.core_v1.containers import Container
from kubevouch.api.core_v1.endpoints import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from kubevouch.api.core_v1.events import Event, EventSeries, EventSource, validate_event, validate_event_update
from kubevouch.api.core_v1.namespaces import (
    Namespace,
    NamespaceCondition,
    NamespaceSpec,
    NamespaceStatus,
    default_namespace,
    validate_namespace,
    validate_namespace_finalize_update,
    validate_namespace_status_update,
    validate_namespace_update,
)
from kubevouch.api.core_v1.node_rules import default_node, validate_node, validate_node_update
from kubevouch.api.core_v1.nodes import (
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from kubevouch.api.core_v1.pod_status import PodCondition, PodStatus
from kubevouch.api.core_v1.pods import Pod, PodSpec
from kubevouch.api.core_v1.quotas import (
    LimitRange,
    ResourceQuota,
    default_limit_range,
    validate_limit_range,
    validate_quota,
)
from kubevouch.api.core_v1.references import LocalObjectReference, ObjectReference
from kubevouch.api.core_v1.scheduling import Toleration
from kubevouch.api.core_v1.secrets import Secret, default_secret, validate_secret, validate_secret_update
from kubevouch.api.core_v1.serviceaccounts import (
    ServiceAccount,
    validate_service_account,
    validate_service_account_update,
)
from kubevouch.api.core_v1.services import Service, ServicePort, ServiceSpec, ServiceStatus, default_service

__all__ = [
    "ComponentCondition",
    "ComponentStatus",
    "ConfigMap",
    "Container",
    "DaemonEndpoint",
    "EndpointAddress",
    "EndpointPort",
    "EndpointSubset",
    "Endpoints",
    "Event",
    "EventSeries",
    "EventSource",
    "LimitRange",
    "LocalObjectReference",
    "Namespace",
    "NamespaceCondition",
    "NamespaceSpec",
    "NamespaceStatus",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeDaemonEndpoints",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "ObjectReference",
    "Pod",
    "PodCondition",
    "PodSpec",
    "PodStatus",
    "ResourceQuota",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "Taint",
    "Toleration",
    "default_limit_range",
    "default_namespace",
    "default_node",
    "default_secret",
    "default_service",
    "validate_config_map",
    "validate_config_map_update",
    "validate_event",
    "validate_event_update",
    "validate_limit_range",
    "validate_namespace",
    "validate_namespace_finalize_update",
    "validate_namespace_status_update",
    "validate_namespace_update",
    "validate_node",
    "validate_node_update",
    "validate_quota",
    "validate_secret",
    "validate_secret_update",
    "validate_service_account",
    "validate_service_account_update",
]
