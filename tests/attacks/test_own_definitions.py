"""Who may write CustomResourceDefinitions, as any installer of operators may: our own kinds are not theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS, VALIDATING_ADMISSION_POLICIES
from kubevouch.api.kubevouch_v1alpha1 import GROUP
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS, OWN_KINDS
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.phases import deleted_nodes
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster

INSTALLER = "system:serviceaccount:operators:installer"
NAMES = [kind.definition_name for kind in OWN_KINDS]
REVOCATIONS = str(CERTIFICATE_REVOCATIONS.group_resource)
CRD = "CustomResourceDefinition"


def grant(cluster: Cluster, name: str, user: str, *rules: dict[str, list[str]]) -> None:
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    cluster.apply({**kind, "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    cluster.apply({**kind, "kind": "ClusterRoleBinding", **binding})


def rule(group: str, resource: str, *verbs: str) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.run(own_kinds.ensure(running.server.client))
        everything = (rule("apiextensions.k8s.io", f"customresourcedefinitions{sub}", "*") for sub in ("", "/status"))
        grant(running, "installer", INSTALLER, *everything, rule("admissionregistration.k8s.io", "*", "*"))
        yield running


def refusal(call: Any, *args: Any, **more: Any) -> APIStatusError:
    with pytest.raises(APIStatusError) as caught:
        call(*args, **more)
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_no_definition_of_ours_is_deleted(cluster: Cluster, name: str) -> None:
    err = refusal(cluster.as_user(INSTALLER).delete, CRD, name)
    assert (err.code, str(err.reason)) == (403, "Forbidden")
    assert "needs the verb override on definitions.kubevouch.io" in str(err)
    assert cluster.get(CRD, name).metadata.deletion_timestamp is None


def test_nor_with_all_others_at_once(cluster: Cluster) -> None:
    client = cluster.client(INSTALLER)
    with pytest.raises(APIStatusError, match="override"):
        cluster.run(client.delete_collection(CUSTOM_RESOURCE_DEFINITIONS))
    assert {each.metadata.name for each in cluster.list(CRD)} == set(NAMES)


def changed_spec(tree: dict[str, Any], how: str) -> None:
    version = tree["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    if how == "not served":
        version["served"] = False
    elif how == "another storage version":
        tree["spec"]["versions"] = [{**version, "storage": False}, {**version, "name": "v2", "storage": True}]
    elif how == "fields pruned":
        del schema["properties"]["spec"]["properties"]["revoked"]
        schema["properties"]["spec"]["required"] = ["reason"]
    elif how == "rules removed":
        del schema["properties"]["spec"]["properties"]["revoked"]["x-kubernetes-validations"]
    elif how == "status no subresource":
        del version["subresources"]
    elif how == "converted by somebody":
        config = {"url": "https://127.0.0.1:1/"}
        tree["spec"]["conversion"] = {
            "strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
        }  # fmt: skip


CHANGES = ("not served", "another storage version", "fields pruned", "rules removed", "status no subresource",
           "converted by somebody")  # fmt: skip


@pytest.mark.parametrize("how", CHANGES)
def test_none_is_changed_into_something_weaker(cluster: Cluster, how: str) -> None:
    codec = CUSTOM_RESOURCE_DEFINITIONS.codec
    tree = codec.to_tree(cluster.get(CRD, REVOCATIONS))
    changed_spec(tree, how)
    err = refusal(cluster.as_user(INSTALLER).update, codec.from_tree(tree).value)
    assert err.code == 403, err
    assert "its spec has to be the one of this version" in str(err)


def test_its_status_finalizers_and_owners_are_not_theirs(cluster: Cluster) -> None:
    installer, found = cluster.as_user(INSTALLER), cluster.get(CRD, REVOCATIONS)
    codec = CUSTOM_RESOURCE_DEFINITIONS.codec
    tree = codec.to_tree(found)
    tree["status"]["conditions"] = []
    assert refusal(installer.update, codec.from_tree(tree).value, subresource="status").code == 403
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1"}
    for metadata in ({"ownerReferences": [owner]}, {"finalizers": ["a/b"]}):
        tree = codec.to_tree(found)
        tree["metadata"].update(metadata)
        for subresource in ("", "status"):
            assert refusal(installer.update, codec.from_tree(tree).value, subresource=subresource).code == 403
    # What harms nothing stays theirs: tools label what they find.
    labelled = replace_metadata(found, labels={"app": "x"})
    assert installer.update(labelled).metadata.labels == {"app": "x"}


def test_nobody_moves_into_the_group(cluster: Cluster) -> None:
    tree = CUSTOM_RESOURCE_DEFINITIONS.codec.to_tree(cluster.get(CRD, REVOCATIONS))
    names = {**tree["spec"]["names"], "plural": "others", "singular": "other", "shortNames": []}
    stranger = {**tree, "metadata": {"name": f"others.{GROUP}"}, "spec": {**tree["spec"], "names": names}, "status": {}}
    err = refusal(cluster.as_user(INSTALLER).create, CUSTOM_RESOURCE_DEFINITIONS.codec.from_tree(stranger).value)
    assert err.code == 403
    assert f"the group {GROUP} belongs to" in str(err)


def test_the_policies_that_guard_them_are_not_theirs(cluster: Cluster) -> None:
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert refusal(cluster.as_user(INSTALLER).delete, kind, "revocations.kubevouch.io").code == 403
    found = cluster.get("ValidatingAdmissionPolicy", "revocations.kubevouch.io")
    tree = VALIDATING_ADMISSION_POLICIES.codec.to_tree(found)
    tree["spec"]["validations"] = [{"expression": "true"}]
    assert (
        refusal(cluster.as_user(INSTALLER).update, VALIDATING_ADMISSION_POLICIES.codec.from_tree(tree).value).code
        == 403
    )
    tree = VALIDATING_ADMISSION_POLICIES.codec.to_tree(found)
    tree["metadata"]["finalizers"] = ["a/b"]
    changed = VALIDATING_ADMISSION_POLICIES.codec.from_tree(tree).value
    assert refusal(cluster.as_user(INSTALLER).update, changed, subresource="status").code == 403


def test_the_right_to_override_is_one_of_its_own_and_loud(cluster: Cluster) -> None:
    """``*`` on definitions is not it; ``override`` is, and so is what administrators have."""
    grant(cluster, "breaker", INSTALLER, rule(GROUP, "definitions", "override"))
    client = cluster.client(INSTALLER)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{REVOCATIONS}"
    answer = cluster.run(client.raw("DELETE", path))
    assert answer.status == 200, answer.body
    (warning,) = [value for name, value in answer.headers.items() if name.lower() == "warning"]
    assert "deleting it deletes all its objects" in warning
    assert f"{INSTALLER} may override" in warning


def test_the_name_of_the_server_is_not_the_right(cluster: Cluster) -> None:
    """Whoever may impersonate users and a group of installers calls themselves ``system:apiserver``."""
    named = "system:apiserver"
    everything = (rule("apiextensions.k8s.io", f"customresourcedefinitions{sub}", "*") for sub in ("", "/status"))
    grant(cluster, "named", named, *everything)
    assert refusal(cluster.as_user(named).delete, CRD, REVOCATIONS).code == 403
    tree = CUSTOM_RESOURCE_DEFINITIONS.codec.to_tree(cluster.get(CRD, REVOCATIONS))
    changed_spec(tree, "not served")
    assert refusal(cluster.as_user(named).update, CUSTOM_RESOURCE_DEFINITIONS.codec.from_tree(tree).value).code == 403


def test_who_labels_namespaces_does_not_let_deleted_nodes_in(cluster: Cluster) -> None:
    """The decision is an annotation of kube-system, which counts from the next start on."""
    everything = (rule("", f"namespaces{sub}", "*") for sub in ("", "/status", "/finalize"))
    grant(cluster, "labels", INSTALLER, *everything)
    locked = replace_metadata(cluster.get("Namespace", "kube-system"), annotations={deleted_nodes.ANNOTATION: "true"})
    locked, installer = cluster.update(locked), cluster.as_user(INSTALLER)
    for said in ({}, {deleted_nodes.ANNOTATION: "false"}, {deleted_nodes.ANNOTATION: ""}):
        opened = replace_metadata(locked, annotations=said)
        for subresource in ("", "status", "finalize"):
            err = refusal(installer.update, opened, subresource=subresource)
            assert err.code == 403, (said, subresource)
            assert "certificates of deleted nodes would count again" in str(err)
    locked = installer.update(replace_metadata(locked, labels={**locked.metadata.labels, "team": "a"}))
    assert cluster.update(replace_metadata(locked, annotations={})).metadata.annotations == {}


def test_others_definitions_stay_their_own(cluster: Cluster, tmp_path: Path) -> None:
    tree = CUSTOM_RESOURCE_DEFINITIONS.codec.to_tree(cluster.get(CRD, REVOCATIONS))
    tree["spec"]["group"] = "example.com"
    own = {**tree, "metadata": {"name": "certificaterevocations.example.com"}, "status": {}}
    installer = cluster.as_user(INSTALLER)
    installer.create(CUSTOM_RESOURCE_DEFINITIONS.codec.from_tree(own).value)
    installer.delete(CRD, "certificaterevocations.example.com")
