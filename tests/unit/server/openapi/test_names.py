"""server/openapi/names.py: Kubernetes' names for schemas, tags and operations."""

from __future__ import annotations

import pytest

from kubevouch.api import authentication_v1, catalog, certificates_v1, core_v1, meta_v1, rbac_v1
from kubevouch.api.core_v1 import references
from kubevouch.machinery.declaration import Struct
from kubevouch.machinery.meta import DeleteOptions, Object, ObjectMeta
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind, Resource, Scheme
from kubevouch.server.openapi import names
from kubevouch.server.openapi.names import SchemaNames


class Gadget(Object):
    """A kind of somebody else's group."""


class GadgetSpec(Struct):
    """A struct beside it."""


GADGETS = Resource("tools.example.com", "v1alpha1", "Gadget", "gadgets", Gadget, namespaced=False)


@pytest.mark.parametrize(
    ("struct", "name"),
    [
        (certificates_v1.CertificateSigningRequest, "io.k8s.api.certificates.v1.CertificateSigningRequest"),
        (certificates_v1.CertificateSigningRequestSpec, "io.k8s.api.certificates.v1.CertificateSigningRequestSpec"),
        (rbac_v1.PolicyRule, "io.k8s.api.rbac.v1.PolicyRule"),
        (core_v1.Secret, "io.k8s.api.core.v1.Secret"),
        (references.ObjectReference, "io.k8s.api.core.v1.ObjectReference"),
        (authentication_v1.TokenRequest, "io.k8s.api.authentication.v1.TokenRequest"),
        (ObjectMeta, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        (DeleteOptions, "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        (meta_v1.Condition, "io.k8s.apimachinery.pkg.apis.meta.v1.Condition"),
    ],
)
def test_schemas_of_kubernetes_have_its_names(struct: type[Struct], name: str) -> None:
    assert SchemaNames(catalog.SCHEME).of(struct) == name


def test_schemas_of_other_groups_are_named_like_custom_resources() -> None:
    found = SchemaNames(Scheme.of([GADGETS]))
    assert found.of(Gadget) == "com.example.tools.v1alpha1.Gadget"
    assert found.of(GadgetSpec) == "com.example.tools.v1alpha1.GadgetSpec"
    assert found.of_list(GADGETS) == "com.example.tools.v1alpha1.GadgetList"


def test_a_struct_of_no_group_goes_by_its_module() -> None:
    assert SchemaNames(Scheme()).of(GadgetSpec) == f"{__name__}.GadgetSpec"


@pytest.mark.parametrize(
    ("gvk", "name"),
    [
        (GroupVersionKind("certificates.k8s.io", "v1", "X"), "certificates_v1"),
        (GroupVersionKind("", "v1", "X"), "core_v1"),
        (GroupVersionKind("rbac.authorization.k8s.io", "v1", "X"), "rbacAuthorization_v1"),
        (GroupVersionKind("my-tools.example.com", "v1beta1", "X"), "myToolsExampleCom_v1beta1"),
    ],
)
def test_tags(gvk: GroupVersionKind, name: str) -> None:
    assert names.tag(gvk.group, gvk.version) == name


def test_operation_ids() -> None:
    core, certificates = GroupVersion("", "v1"), GroupVersion("certificates.k8s.io", "v1beta1")
    found = [
        names.operation_id("get", core, "ConfigMap", namespaced=True),
        names.operation_id("list", core, "ConfigMap", everywhere=True),
        names.operation_id("deletecollection", core, "ConfigMap", namespaced=True),
        names.operation_id("watch", core, "ConfigMap", namespaced=True, collection=True),
        names.operation_id("watch", core, "ConfigMap", everywhere=True, collection=True),
        names.operation_id("create", core, "ServiceAccount", namespaced=True, subresource="token"),
        names.operation_id("update", certificates, "CertificateSigningRequest", subresource="approval"),
        names.operation_id("patch", GroupVersion("rbac.authorization.k8s.io", "v1"), "ClusterRole"),
    ]
    assert found == [
        "readCoreV1NamespacedConfigMap",
        "listCoreV1ConfigMapForAllNamespaces",
        "deleteCoreV1CollectionNamespacedConfigMap",
        "watchCoreV1NamespacedConfigMapList",
        "watchCoreV1ConfigMapListForAllNamespaces",
        "createCoreV1NamespacedServiceAccountToken",
        "replaceCertificatesV1beta1CertificateSigningRequestApproval",
        "patchRbacAuthorizationV1ClusterRole",
    ]
