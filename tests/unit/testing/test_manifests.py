from __future__ import annotations

import pytest

from kubevouch.api import catalog
from kubevouch.api.authorization_v1 import SubjectAccessReview
from kubevouch.api.core_v1 import ConfigMap, Secret
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing.manifests import Kinds, ManifestError, decoded, namespace_for

KINDS = Kinds()


@pytest.mark.parametrize(
    "kind", ["CertificateSigningRequest", "certificatesigningrequests", "csr", "CSR", "csr.certificates.k8s.io"]
)
def test_kinds_are_named_as_for_kubectl(kind: str) -> None:
    assert KINDS.named(kind) is catalog.CERTIFICATE_SIGNING_REQUESTS


def test_a_group_tells_two_resources_of_one_name_apart() -> None:
    assert KINDS.named("events") is catalog.EVENTS
    assert KINDS.named("events.events.k8s.io") is catalog.EVENTS_V1


def test_an_unknown_kind_is_told_what_there_is() -> None:
    with pytest.raises(ManifestError, match=r"got the kind 'Deployment', expected one of: .*ConfigMap, "):
        KINDS.named("Deployment")
    with pytest.raises(ManifestError, match="got a SubjectAccessReview, expected an object of a kind that is stored"):
        KINDS.of(SubjectAccessReview())


def test_a_namespace_is_filled_in_where_there_is_one() -> None:
    assert namespace_for(catalog.CONFIG_MAPS, "") == "default"
    assert namespace_for(catalog.CONFIG_MAPS, "blue") == "blue"
    assert namespace_for(catalog.NODES, "blue") == ""


def test_documents_are_found_however_they_are_given() -> None:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    text = """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a}
        ---
        # nothing
        ---
        {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}
    """
    assert KINDS.trees(tree) == [(catalog.CONFIG_MAPS, tree)]
    assert KINDS.trees(text) == KINDS.trees(text.encode()) == [(catalog.CONFIG_MAPS, tree)] * 2
    ((resource, from_struct),) = KINDS.trees(ConfigMap(metadata=ObjectMeta(name="a")))
    assert (resource, from_struct["kind"], from_struct["metadata"]["name"]) == (catalog.CONFIG_MAPS, "ConfigMap", "a")
    with pytest.raises(ManifestError, match="got 2 documents, expected one; apply_all takes several"):
        KINDS.one_tree(text)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("just text", "got 'just text', expected an object with apiVersion and kind"),
        ({"kind": "ConfigMap"}, "expected an object with apiVersion and kind"),
        ("a: [", "yaml: "),
        ({"apiVersion": "v2", "kind": "ConfigMap"}, "got the kind 'ConfigMap' of 'v2', expected it in v1"),
        ({"apiVersion": "a/b/c", "kind": "ConfigMap"}, "unexpected GroupVersion string: a/b/c"),
        (b"\xff\xfe", "utf-8"),
    ],
)
def test_what_is_no_manifest_is_refused(manifest: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        KINDS.trees(manifest)


def test_a_struct_comes_with_its_defaults_and_no_unknown_fields() -> None:
    assert decoded(catalog.SECRETS, {"apiVersion": "v1", "kind": "Secret"}) == Secret(type="Opaque")
    with pytest.raises(ManifestError, match='strict decoding error: unknown field "datum"'):
        decoded(catalog.SECRETS, {"datum": {}})
    with pytest.raises(ManifestError, match="cannot unmarshal"):
        decoded(catalog.SECRETS, {"type": 5})
