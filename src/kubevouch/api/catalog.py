"""What exists: a handle for each resource, and the scheme of all kinds.

Clients name resources by these handles, the server registers them, and :data:`SCHEME` tells which struct stands for
the kind of a document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubevouch.api import (
    apidiscovery_v2,
    authentication_v1,
    authorization_v1,
    certificates_v1,
    certificates_v1beta1,
    coordination_v1,
    core_v1,
    discovery_v1,
    events_v1,
    meta_v1,
    node_v1,
    pod_certificate_requests_v1,
    pod_certificate_requests_v1beta1,
    rbac_v1,
    resource_v1,
    storage_v1,
)
from kubevouch.api.admissionregistration_v1 import GROUP as ADMISSION_REGISTRATION
from kubevouch.api.admissionregistration_v1 import mutating_policies, policies, policy_defaults, webhooks
from kubevouch.api.apiextensions_v1 import GROUP as API_EXTENSIONS
from kubevouch.api.apiextensions_v1 import definitions, stored_definitions
from kubevouch.api.empty_kinds import EMPTY_KINDS, EmptyKind, resource_of
from kubevouch.machinery import meta
from kubevouch.machinery.scheme import Defaulter, GroupVersion, GroupVersionKind, Resource, Scheme

# ------------------------------------------------------------------ stored resources

CERTIFICATE_SIGNING_REQUESTS = Resource(
    certificates_v1.GROUP, "v1", "CertificateSigningRequest", "certificatesigningrequests",
    certificates_v1.CertificateSigningRequest, namespaced=False, short_names=("csr",),
)  # fmt: skip
CERTIFICATE_SIGNING_REQUESTS_V1BETA1 = Resource(
    certificates_v1.GROUP, "v1beta1", "CertificateSigningRequest", "certificatesigningrequests",
    certificates_v1beta1.CertificateSigningRequest, namespaced=False, short_names=("csr",),
)  # fmt: skip
CLUSTER_TRUST_BUNDLES = Resource(
    certificates_v1.GROUP, "v1beta1", "ClusterTrustBundle", "clustertrustbundles",
    certificates_v1beta1.ClusterTrustBundle, namespaced=False,
)  # fmt: skip
POD_CERTIFICATE_REQUESTS = Resource(
    certificates_v1.GROUP, "v1beta1", "PodCertificateRequest", "podcertificaterequests",
    pod_certificate_requests_v1beta1.PodCertificateRequest, namespaced=True,
)  # fmt: skip
POD_CERTIFICATE_REQUESTS_V1 = Resource(
    certificates_v1.GROUP, "v1", "PodCertificateRequest", "podcertificaterequests",
    pod_certificate_requests_v1.PodCertificateRequest, namespaced=True,
)  # fmt: skip

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", core_v1.ConfigMap, namespaced=True, short_names=("cm",))
ENDPOINTS = Resource(
    "", "v1", "Endpoints", "endpoints", core_v1.Endpoints, namespaced=True, short_names=("ep",),
    storage_prefix="services/endpoints",
)  # fmt: skip
ENDPOINT_SLICES = Resource(
    discovery_v1.GROUP, "v1", "EndpointSlice", "endpointslices", discovery_v1.EndpointSlice, namespaced=True
)
EVENTS = Resource("", "v1", "Event", "events", core_v1.Event, namespaced=True, short_names=("ev",))
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", core_v1.Namespace, namespaced=False, short_names=("ns",))
NODES = Resource(
    "", "v1", "Node", "nodes", core_v1.Node, namespaced=False, short_names=("no",), storage_prefix="minions"
)
PODS = Resource("", "v1", "Pod", "pods", core_v1.Pod, namespaced=True, short_names=("po",))
LIMIT_RANGES = Resource(
    "", "v1", "LimitRange", "limitranges", core_v1.LimitRange, namespaced=True, short_names=("limits",)
)
RESOURCE_QUOTAS = Resource(
    "", "v1", "ResourceQuota", "resourcequotas", core_v1.ResourceQuota, namespaced=True, short_names=("quota",)
)
SECRETS = Resource("", "v1", "Secret", "secrets", core_v1.Secret, namespaced=True)
SERVICES = Resource(
    "", "v1", "Service", "services", core_v1.Service, namespaced=True, short_names=("svc",),
    storage_prefix="services/specs",
)  # fmt: skip
SERVICE_ACCOUNTS = Resource(
    "", "v1", "ServiceAccount", "serviceaccounts", core_v1.ServiceAccount, namespaced=True, short_names=("sa",)
)

# The newer view of EVENTS: one store.
EVENTS_V1 = Resource(events_v1.GROUP, "v1", "Event", "events", events_v1.Event, namespaced=True, short_names=("ev",))
LEASES = Resource(coordination_v1.GROUP, "v1", "Lease", "leases", coordination_v1.Lease, namespaced=True)

CLUSTER_ROLE_BINDINGS = Resource(
    rbac_v1.GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", rbac_v1.ClusterRoleBinding, namespaced=False
)
CLUSTER_ROLES = Resource(rbac_v1.GROUP, "v1", "ClusterRole", "clusterroles", rbac_v1.ClusterRole, namespaced=False)
ROLE_BINDINGS = Resource(rbac_v1.GROUP, "v1", "RoleBinding", "rolebindings", rbac_v1.RoleBinding, namespaced=True)
ROLES = Resource(rbac_v1.GROUP, "v1", "Role", "roles", rbac_v1.Role, namespaced=True)

CUSTOM_RESOURCE_DEFINITIONS = Resource(
    API_EXTENSIONS, "v1", "CustomResourceDefinition", "customresourcedefinitions",
    definitions.CustomResourceDefinition, namespaced=False, short_names=("crd", "crds"),
    codec=stored_definitions.DefinitionCodec(),
    storage_prefix=f"{API_EXTENSIONS}/customresourcedefinitions", storage_version="v1beta1",
)  # fmt: skip

CSI_DRIVERS = Resource(storage_v1.GROUP, "v1", "CSIDriver", "csidrivers", storage_v1.CSIDriver, namespaced=False)
CSI_NODES = Resource(storage_v1.GROUP, "v1", "CSINode", "csinodes", storage_v1.CSINode, namespaced=False)
DEVICE_CLASSES = Resource(
    resource_v1.GROUP, "v1", "DeviceClass", "deviceclasses", resource_v1.DeviceClass, namespaced=False
)
RESOURCE_CLAIMS = Resource(
    resource_v1.GROUP, "v1", "ResourceClaim", "resourceclaims", resource_v1.ResourceClaim, namespaced=True
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    resource_v1.GROUP, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", resource_v1.ResourceClaimTemplate,
    namespaced=True,
)  # fmt: skip
RESOURCE_SLICES = Resource(
    resource_v1.GROUP, "v1", "ResourceSlice", "resourceslices", resource_v1.ResourceSlice, namespaced=False
)
RUNTIME_CLASSES = Resource(
    node_v1.GROUP, "v1", "RuntimeClass", "runtimeclasses", node_v1.RuntimeClass, namespaced=False
)

VALIDATING_WEBHOOK_CONFIGURATIONS = Resource(
    ADMISSION_REGISTRATION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations",
    webhooks.ValidatingWebhookConfiguration, namespaced=False,
)  # fmt: skip
MUTATING_WEBHOOK_CONFIGURATIONS = Resource(
    ADMISSION_REGISTRATION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
    webhooks.MutatingWebhookConfiguration, namespaced=False,
)  # fmt: skip
MUTATING_ADMISSION_POLICIES = Resource(
    ADMISSION_REGISTRATION, "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies",
    mutating_policies.MutatingAdmissionPolicy, namespaced=False, storage_version="v1beta1",
)  # fmt: skip
MUTATING_ADMISSION_POLICY_BINDINGS = Resource(
    ADMISSION_REGISTRATION, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings",
    mutating_policies.MutatingAdmissionPolicyBinding, namespaced=False, storage_version="v1beta1",
)  # fmt: skip
VALIDATING_ADMISSION_POLICIES = Resource(
    ADMISSION_REGISTRATION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies",
    policies.ValidatingAdmissionPolicy, namespaced=False,
)  # fmt: skip
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    ADMISSION_REGISTRATION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings",
    policies.ValidatingAdmissionPolicyBinding, namespaced=False,
)  # fmt: skip

# ------------------------------------------------------------------ made up when they are read

COMPONENT_STATUSES = Resource(
    "", "v1", "ComponentStatus", "componentstatuses", core_v1.ComponentStatus, namespaced=False, short_names=("cs",)
)

# ------------------------------------------------------------------ reviews: created, answered, never stored

TOKEN_REVIEWS = Resource(
    authentication_v1.GROUP, "v1", "TokenReview", "tokenreviews", authentication_v1.TokenReview, namespaced=False
)
SELF_SUBJECT_REVIEWS = Resource(
    authentication_v1.GROUP, "v1", "SelfSubjectReview", "selfsubjectreviews", authentication_v1.SelfSubjectReview,
    namespaced=False,
)  # fmt: skip
SUBJECT_ACCESS_REVIEWS = Resource(
    authorization_v1.GROUP, "v1", "SubjectAccessReview", "subjectaccessreviews",
    authorization_v1.SubjectAccessReview, namespaced=False,
)  # fmt: skip
LOCAL_SUBJECT_ACCESS_REVIEWS = Resource(
    authorization_v1.GROUP, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews",
    authorization_v1.LocalSubjectAccessReview, namespaced=True,
)  # fmt: skip
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    authorization_v1.GROUP, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
    authorization_v1.SelfSubjectAccessReview, namespaced=False,
)  # fmt: skip
SELF_SUBJECT_RULES_REVIEWS = Resource(
    authorization_v1.GROUP, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews",
    authorization_v1.SelfSubjectRulesReview, namespaced=False,
)  # fmt: skip

STORED: tuple[Resource[Any], ...] = (
    CERTIFICATE_SIGNING_REQUESTS, CLUSTER_TRUST_BUNDLES, CONFIG_MAPS, EVENTS, NAMESPACES, NODES, PODS, SECRETS,
    SERVICES, SERVICE_ACCOUNTS, LEASES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, CSI_DRIVERS,
    CSI_NODES, RESOURCE_SLICES, RUNTIME_CLASSES, VALIDATING_WEBHOOK_CONFIGURATIONS, MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS, MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS, CUSTOM_RESOURCE_DEFINITIONS, ENDPOINTS,
    ENDPOINT_SLICES, LIMIT_RANGES, RESOURCE_QUOTAS, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES,
    POD_CERTIFICATE_REQUESTS,
)  # fmt: skip
"""The kinds that the store keeps, each in its storage version."""

VIEWS: tuple[Resource[Any], ...] = (EVENTS_V1, CERTIFICATE_SIGNING_REQUESTS_V1BETA1, POD_CERTIFICATE_REQUESTS_V1)
"""Other versions of stored kinds."""

EMPTY: dict[EmptyKind, Resource[Any]] = {kind: resource_of(kind) for kind in EMPTY_KINDS}
OLDER = {kind: resource_of(kind._replace(group_version=kind.older)) for kind in EMPTY_KINDS if kind.older}
"""What is served and never there."""

REVIEWS: tuple[Resource[Any], ...] = (
    TOKEN_REVIEWS, SELF_SUBJECT_REVIEWS, SUBJECT_ACCESS_REVIEWS, LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_RULES_REVIEWS,
)  # fmt: skip
"""Questions that are asked by creating them."""

TOKEN_REQUEST = GroupVersionKind(authentication_v1.GROUP, "v1", "TokenRequest")
"""What ``serviceaccounts/token`` takes and returns."""

_DEFAULTERS: dict[Resource[Any], Defaulter] = {
    CERTIFICATE_SIGNING_REQUESTS_V1BETA1: certificates_v1beta1.default_certificate_signing_request,
    CLUSTER_ROLE_BINDINGS: rbac_v1.default_binding,
    CSI_DRIVERS: storage_v1.default_csi_driver,
    CUSTOM_RESOURCE_DEFINITIONS: definitions.default_definition,
    LIMIT_RANGES: core_v1.default_limit_range,
    NAMESPACES: core_v1.default_namespace,
    NODES: core_v1.default_node,
    POD_CERTIFICATE_REQUESTS: pod_certificate_requests_v1.default_pod_certificate_request,
    POD_CERTIFICATE_REQUESTS_V1: pod_certificate_requests_v1.default_pod_certificate_request,
    RESOURCE_CLAIMS: resource_v1.default_claim,
    RESOURCE_CLAIM_TEMPLATES: resource_v1.default_template,
    ROLE_BINDINGS: rbac_v1.default_binding,
    SECRETS: core_v1.default_secret,
    SERVICES: core_v1.default_service,
    VALIDATING_WEBHOOK_CONFIGURATIONS: webhooks.default_validating,
    MUTATING_WEBHOOK_CONFIGURATIONS: webhooks.default_mutating,
    MUTATING_ADMISSION_POLICIES: policy_defaults.default_policy,
    MUTATING_ADMISSION_POLICY_BINDINGS: policy_defaults.default_binding,
    VALIDATING_ADMISSION_POLICIES: policy_defaults.default_policy,
    VALIDATING_ADMISSION_POLICY_BINDINGS: policy_defaults.default_binding,
}


def _scheme() -> Scheme:
    scheme = Scheme()
    for resource in (*STORED, *VIEWS, *EMPTY.values(), *OLDER.values(), COMPONENT_STATUSES, *REVIEWS):
        scheme.add(resource, _DEFAULTERS.get(resource))
    scheme.add_kind(TOKEN_REQUEST, authentication_v1.TokenRequest, authentication_v1.default_token_request)
    unstored: dict[GroupVersion, tuple[type[Any], ...]] = {
        GroupVersion(apidiscovery_v2.GROUP, "v2"): (
            apidiscovery_v2.APIGroupDiscovery,
            apidiscovery_v2.APIGroupDiscoveryList,
        ),
        GroupVersion("", "v1"): (
            meta.Status,
            meta.APIGroup,
            meta.APIGroupList,
            meta.APIResourceList,
            meta.APIVersions,
        ),
        GroupVersion(meta_v1.GROUP, "v1"): (meta.PartialObjectMetadata,),
    }
    for (group, version), structs in unstored.items():
        for struct in structs:
            scheme.add_kind(GroupVersionKind(group, version, struct.__name__), struct)
    # Clients send the options in the version of the resource that they are about.
    versions = {GroupVersion(gvk.group, gvk.version) for gvk in scheme.kinds}
    for group, version in sorted(versions):
        for options in (
            meta.DeleteOptions, meta_v1.CreateOptions, meta_v1.GetOptions, meta_v1.ListOptions, meta_v1.PatchOptions,
            meta_v1.UpdateOptions,
        ):  # fmt: skip
            scheme.add_kind(GroupVersionKind(group, version, options.__name__), options)
    return scheme


# Versions that have the same fields, in which older kube-apiservers have stored objects, or newer ones will.
_ALSO_STORED: dict[str, tuple[Resource[Any], ...]] = {
    "v1alpha1": (
        CLUSTER_TRUST_BUNDLES, POD_CERTIFICATE_REQUESTS, VALIDATING_ADMISSION_POLICIES,
        VALIDATING_ADMISSION_POLICY_BINDINGS, MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS,
    ),
    "v1beta1": (
        CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, LEASES, CSI_DRIVERS, CSI_NODES, RUNTIME_CLASSES,
        VALIDATING_WEBHOOK_CONFIGURATIONS, MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_ADMISSION_POLICIES,
        VALIDATING_ADMISSION_POLICY_BINDINGS, MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS,
    ),
    "v1beta2": (DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES),
    "v1": (CLUSTER_TRUST_BUNDLES,),
}  # fmt: skip
_CONVERTED: dict[Resource[Any], tuple[Resource[Any], Callable[[Any], Any]]] = {
    CERTIFICATE_SIGNING_REQUESTS: (
        CERTIFICATE_SIGNING_REQUESTS_V1BETA1,
        lambda csr: certificates_v1beta1.to_v1(certificates_v1beta1.default_certificate_signing_request(csr)),
    ),
    EVENTS: (EVENTS_V1, events_v1.to_core),
    POD_CERTIFICATE_REQUESTS: (POD_CERTIFICATE_REQUESTS_V1, pod_certificate_requests_v1.to_v1beta1),
}


def _know_stored_versions() -> None:
    """Whoever wrote a store, Kubernetes reads it (facts: k8s.io/api, every version that is registered)."""
    for version, resources in _ALSO_STORED.items():
        for resource in resources:
            resource.codec.also_read(str(GroupVersion(resource.group, version)))
    for resource, (other, convert) in _CONVERTED.items():
        resource.codec.also_read(other.api_version, other.codec, convert)


_know_stored_versions()
SCHEME = _scheme()
"""All kinds with their defaults. A document's kind is looked up here; do not add to it."""
