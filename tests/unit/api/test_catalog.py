from __future__ import annotations

import subprocess
import sys

import pytest

from kubevouch.api import catalog
from kubevouch.api.catalog import SCHEME, STORED
from kubevouch.machinery.meta import DeleteOptions, Object
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.scheme import GroupVersionKind, Resource

HANDLES = {name: value for name, value in vars(catalog).items() if isinstance(value, Resource)}


def test_every_handle_is_in_one_of_the_tables() -> None:
    assert set(HANDLES.values()) == {*STORED, *catalog.VIEWS, catalog.COMPONENT_STATUSES, *catalog.REVIEWS}
    assert len(HANDLES) == 44


@pytest.mark.parametrize("name", sorted(HANDLES))
def test_a_handle_names_its_struct(name: str) -> None:
    resource = HANDLES[name]
    assert resource.type.__name__ == resource.kind
    assert issubclass(resource.type, Object)
    assert resource.plural == resource.plural.lower()
    assert resource.plural.startswith(resource.singular[:-1])
    assert SCHEME.kinds[resource.gvk] is resource.type
    assert SCHEME.resources[resource.gvk] is resource


@pytest.mark.parametrize(
    ("resource", "storage_version_hash"),
    [
        # k8s.io/api/discovery of Kubernetes 1.36.
        (catalog.CERTIFICATE_SIGNING_REQUESTS, "95fRKMXA+00="),
        (catalog.CONFIG_MAPS, "qFsyl6wFWjQ="),
        (catalog.EVENTS, "r2yiGXH7wu8="),
        (catalog.NAMESPACES, "Q3oi5N2YM8M="),
        (catalog.NODES, "XwShjMxG9Fs="),
        (catalog.SECRETS, "S6u1pOWzb84="),
        (catalog.SERVICE_ACCOUNTS, "pbx9ZvyFpBE="),
        (catalog.LEASES, "gqkMMb/YqFM="),
        (catalog.CLUSTER_ROLES, "bYE5ZWDrJ44="),
        (catalog.CLUSTER_ROLE_BINDINGS, "48tpQ8gZHFc="),
        (catalog.ROLES, "7FuwZcIIItM="),
        (catalog.ROLE_BINDINGS, "eGsCzGH6b1g="),
    ],
)
def test_storage_version_hashes(resource: Resource[Object], storage_version_hash: str) -> None:
    assert resource.storage_version_hash == storage_version_hash


def test_where_kubernetes_keeps_things_under_other_names() -> None:
    assert {resource.plural: resource.storage_prefix for resource in STORED if resource.storage_prefix} == {
        "customresourcedefinitions": "apiextensions.k8s.io/customresourcedefinitions",
        "endpoints": "services/endpoints",
        "nodes": "minions",
        "services": "services/specs",
    }


def test_short_names() -> None:
    assert {resource.plural: resource.short_names for resource in STORED if resource.short_names} == {
        "certificatesigningrequests": ("csr",),
        "configmaps": ("cm",),
        "customresourcedefinitions": ("crd", "crds"),
        "endpoints": ("ep",),
        "events": ("ev",),
        "limitranges": ("limits",),
        "namespaces": ("ns",),
        "nodes": ("no",),
        "pods": ("po",),
        "resourcequotas": ("quota",),
        "services": ("svc",),
        "serviceaccounts": ("sa",),
    }


def test_paths() -> None:
    assert catalog.SECRETS.path("kube-system", "x") == "/api/v1/namespaces/kube-system/secrets/x"
    assert catalog.CERTIFICATE_SIGNING_REQUESTS.path("", "x", "approval") == (
        "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval"
    )


def test_the_scheme_knows_what_is_not_stored() -> None:
    for group, version, kind in (
        ("", "v1", "Status"),
        ("authentication.k8s.io", "v1", "TokenRequest"),
        ("meta.k8s.io", "v1", "PartialObjectMetadata"),
        ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"),
    ):
        assert GroupVersionKind(group, version, kind) in SCHEME.kinds


def test_delete_options_come_in_the_version_of_what_is_deleted() -> None:
    for resource in STORED:
        assert SCHEME.kinds[GroupVersionKind(resource.group, resource.version, "DeleteOptions")] is DeleteOptions


def test_every_kind_has_a_schema_with_descriptions() -> None:
    for struct in set(SCHEME.kinds.values()):
        assert struct.__doc__
        for field in schema_of(struct).fields:
            # kind and apiVersion are described where they are declared once for all.
            assert field.doc or field.name in ("kind", "apiVersion"), (struct, field.name)


def test_naming_kinds_imports_no_parsers() -> None:
    """The credential plug-in has 150 ms to start."""
    probe = (
        "import sys, kubevouch.api.catalog, kubevouch.records.bootstrap_tokens, kubevouch.records.cluster_info\n"
        "print([name for name in ('cryptography', 'google.protobuf', 'asyncio', 'aiohttp') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
