"""The declarations against the models of the official Python client, which are made from Kubernetes' own OpenAPI.

The client is of 1.37, so what that version added or relaxed is listed here by name.
"""

from __future__ import annotations

import msgspec
import pytest
from kubernetes.client import models

from kubevouch.api.catalog import EMPTY, OLDER, SCHEME
from kubevouch.machinery.schema import ListSchema, MapSchema, StructSchema, TypeSchema, schema_of

# How the client spells the group in the names of its models; the first that exists counts.
PREFIXES = {
    "core_v1": ("CoreV1", "V1"),
    "events_v1": ("EventsV1",),
    "authentication_v1": ("AuthenticationV1", "V1"),
    "rbac_v1": ("RbacV1", "V1"),
    "discovery_v1": ("DiscoveryV1", "V1"),
    "storage_v1": ("StorageV1", "V1"),
    "resource_v1": ("ResourceV1", "V1"),
    "certificates_v1beta1": ("V1beta1",),
    "pod_certificate_requests_v1beta1": ("V1beta1",),
    "admissionregistration_v1": ("AdmissionregistrationV1", "V1"),
    "apiextensions_v1": ("ApiextensionsV1", "V1"),
}
# OpenAPI of a served API does not have these.
WITHOUT_MODEL = {
    "CreateOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "PartialObjectMetadata",
    "APIGroupDiscovery", "APIGroupDiscoveryList", "APIVersionDiscovery", "APIResourceDiscovery",
    "APISubresourceDiscovery",
    # An object without members.
    "CustomResourceSubresourceStatus",
}  # fmt: skip
# The CSR of v1beta1 is served by nobody.
UNSERVED = "kubevouch.api.certificates_v1beta1.CertificateSigningRequest"
# Declared in part, as their modules say.
IN_PART = {
    "PodSpec", "PodStatus", "ResourceSliceSpec", "CSIDriverSpec", "Volume", "ResourceHealth", "VolumeMountStatus",
}  # fmt: skip
ADDED_IN_1_37 = {
    "NodeSpec": {"podPreemptionPolicy"},
    "NodeSystemInfo": {"runningInUserNamespace"},
    "TokenRequestSpec": {"attestations"},
    "ListMeta": {"shardInfo"},
    "PodCertificateProjection": {"user"},
    "ProjectedVolumeSource": {"defaultUser"},
    "ConfigMapVolumeSource": {"defaultUser"},
    "DownwardAPIVolumeSource": {"defaultUser"},
    "SecretVolumeSource": {"defaultUser"},
    "KeyToPath": {"user"},
    "DownwardAPIVolumeFile": {"user"},
    "ServiceAccountTokenProjection": {"user"},
    "ClusterTrustBundleProjection": {"user"},
    "EmptyDirVolumeSource": {"mode"},
    "GRPCAction": {"mode"},
    "HTTPGetAction": {"protocol"},
    "VolumeMount": {"bindMountOptions"},
    "CSINode": {"status"},
    "Device": {"nodeAllocatableResources"},
    "DeviceAttribute": {"bools", "ints", "strings", "versions"},
    "DeviceCounterConsumption": {"compatibilityGroups"},
    "DeviceRequestAllocationResult": {"skipNodeOperations"},
    "DeviceSubRequest": {"derivedAttributes"},
    "ExactDeviceRequest": {"derivedAttributes"},
}
# Which fields a schema calls required has changed with 1.37's declarative validation; the types have not.
REQUIRED_OTHERWISE_IN_1_37 = {
    "EndpointSlice", "ResourceClaim", "ResourceClaimTemplate", "ResourceClaimTemplateSpec", "RoleRef", "TokenRequest",
    "TokenRequestSpec", "TokenRequestStatus", "TokenReviewSpec", "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBindingSpec",
}  # fmt: skip
# FieldsV1, Time and the like have no required members to compare; the kinds' own type is not in the OpenAPI either.
NOT_IN_OPENAPI = {"GroupVersionKind"}


def reachable() -> list[type[msgspec.Struct]]:
    found: set[type[msgspec.Struct]] = set()

    def visit(schema: TypeSchema) -> None:
        if isinstance(schema, ListSchema):
            visit(schema.item)
        elif isinstance(schema, MapSchema):
            visit(schema.value)
        elif isinstance(schema, StructSchema) and schema.type not in found:
            found.add(schema.type)
            for field in schema.fields:
                visit(field.type)

    nothing = {resource.type for resource in (*EMPTY.values(), *OLDER.values())}
    for struct in set(SCHEME.kinds.values()) - nothing:
        visit(schema_of(struct))
    return sorted(found, key=lambda struct: (struct.__module__, struct.__name__))


def model_of(struct: type[msgspec.Struct]) -> type[models.V1Secret] | None:
    module = struct.__module__.removeprefix("kubevouch.api.").split(".")[0]
    for prefix in PREFIXES.get(module, ("V1",)):
        model: type[models.V1Secret] | None = getattr(models, f"{prefix}{struct.__name__}", None)
        if model is not None:
            return model
    return None


STRUCTS = [
    struct
    for struct in reachable()
    if struct.__name__ not in WITHOUT_MODEL | NOT_IN_OPENAPI
    and not f"{struct.__module__}.{struct.__name__}".startswith(UNSERVED)
]


def test_most_structs_are_compared() -> None:
    assert len(STRUCTS) > 90


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: f"{struct.__module__.split('.')[-1]}.{struct.__name__}")
def test_fields_and_which_are_required(struct: type[msgspec.Struct]) -> None:
    model = model_of(struct)
    assert model is not None, struct
    schema = schema_of(struct)
    ours = {field.name for field in schema.fields}
    theirs = set(model.attribute_map.values())
    assert ours - theirs == set()
    if struct.__name__ not in IN_PART:
        assert theirs - ours == ADDED_IN_1_37.get(struct.__name__, set())
    if struct.__name__ not in REQUIRED_OTHERWISE_IN_1_37:
        required = {model.attribute_map[name] for name, field in model.model_fields.items() if field.is_required()}
        assert {field.name for field in schema.fields if field.required} == required & ours
