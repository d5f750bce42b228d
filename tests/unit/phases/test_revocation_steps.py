"""What remains to be done by people, as commands that they copy."""

from __future__ import annotations

import json
import shlex
from typing import Any

from asynctest import async_test
from kubevouch.api.catalog import CLUSTER_ROLE_BINDINGS, PODS, ROLE_BINDINGS
from kubevouch.client.interface import ListOptions
from kubevouch.ledger.entries import ISSUED, Entry
from kubevouch.machinery.scheme import Resource
from kubevouch.phases import revocation_steps
from kubevouch.phases.revocation_steps import Surroundings, named_by, steps, surroundings
from kubevouch.testing import Cluster
from kubevouch.util.clock import SystemClock
from unit.phases.test_revocation import revoked


def made(resource: Resource[Any], **tree: Any) -> Any:
    return resource.codec.from_tree(tree).value


def binding(name: str, *subjects: tuple[str, str], namespace: str = "", role: str = "view") -> Any:
    resource = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
    group = "rbac.authorization.k8s.io"
    listed = [{"kind": kind, "name": subject, "apiGroup": group} for kind, subject in subjects]
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return made(
        resource, metadata=meta, subjects=listed, roleRef={"apiGroup": group, "kind": "ClusterRole", "name": role}
    )


POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "team"},
    "spec": {
        "nodeName": "n1", "serviceAccountName": "runner", "imagePullSecrets": [{"name": "registry"}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "files"}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "texts"}}]}},
            {"name": "r", "configMap": {"name": "kube-root-ca.crt"}},
            {"name": "c", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "driver"}}},
            {"name": "d", "configMap": {"name": "settings"}},
        ],
        "initContainers": [{"name": "i", "image": "x", "envFrom": [{"secretRef": {"name": "init"}}]}],
        "containers": [
            {
                "name": "c", "image": "x", "envFrom": [{"configMapRef": {"name": "environment"}}],
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "k"}}},
                ],
            }
        ],
        "ephemeralContainers": [{"name": "e", "image": "x", "envFrom": [{"secretRef": {"name": "debug"}}]}],
    },
}  # fmt: skip


def test_a_binding_of_the_user_alone_goes_and_another_loses_its_subjects() -> None:
    alice, bob, team = ("User", "alice"), ("User", "bob"), ("Group", "team")
    bindings = (
        binding("hers", alice, namespace="ns"), binding("shared", alice, bob, alice), binding("other", bob, team),
        binding("-dash", alice), binding("two words; rm -rf ~", alice),
    )  # fmt: skip
    first, second = steps(["alice"], [], ["team", "nobody"], Surroundings(bindings))
    assert first.step == "take the rights away from alice"
    typed = [shlex.split(each) for each in first.commands]
    assert typed[0] == ["kubectl", "-n", "ns", "delete", "rolebinding/hers"]
    assert typed[1][:5] == ["kubectl", "patch", "clusterrolebinding/shared", "--type=json", "-p"]
    patch = json.loads(typed[1][5])
    # From the last one on, each tested first: a subject that has moved meanwhile is left alone.
    assert [(each["op"], each["path"]) for each in patch] == [
        ("test", "/subjects/2"), ("remove", "/subjects/2"), ("test", "/subjects/0"), ("remove", "/subjects/0"),
    ]  # fmt: skip
    assert patch[0]["value"] == {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
    assert typed[2] == ["kubectl", "delete", "clusterrolebinding/-dash"]
    assert typed[3] == ["kubectl", "delete", "clusterrolebinding/two words; rm -rf ~"]
    assert second.step == "look at the bindings of team" and not second.commands
    assert steps(["eve"], [], [], Surroundings(bindings)) == []


def test_what_a_terminal_would_not_show_as_it_is_is_no_command() -> None:
    found = Surroundings((binding("a\x1b[2Jb", ("User", "alice")),))
    (only,) = steps(["alice"], [], [], found)
    assert (
        only.commands[0].startswith("# a name has characters that cannot be shown") and "\x1b" not in only.commands[0]
    )


def test_a_nodes_pods_are_read_before_they_go_and_the_node_goes_last() -> None:
    approver = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
    found = Surroundings((binding("renews", ("Group", "system:nodes"), role=approver),), (made(PODS, **POD),))
    plan = steps(["system:node:n1"], ["n1"], [], found)
    assert [each.step.split()[0] for each in plan] == ["keep", "look", "write", "delete", "rotate", "delete"]
    assert "renews" in plan[1].step
    secrets = ["debug", "driver", "files", "init", "key", "part", "registry"]
    assert list(plan[2].commands) == [
        *(f"kubectl -n team get secret/{name}" for name in secrets),
        *(f"kubectl -n team get configmap/{name}" for name in ("environment", "one", "settings", "texts")),
        "kubectl -n team get serviceaccount/runner",
    ]
    assert plan[3].commands == (
        "kubectl delete pods --all-namespaces --field-selector=spec.nodeName=n1 --grace-period=0 --force",
    )
    assert plan[5].commands == ("kubectl delete node/n1",)


def test_names_come_from_what_is_named_and_from_what_is_reached() -> None:
    entry = Entry(kind=ISSUED, at=SystemClock().now(), subject="system:node:n2", node="n2")
    users, nodes, groups = named_by([revoked("r", users=["alice"], nodes=["n1"])], [entry])
    assert set(users) == {"alice", "system:node:n1", "system:node:n2"}
    assert (set(nodes), groups) == ({"n1", "n2"}, ())


@async_test
async def test_what_may_not_be_read_is_said() -> None:
    async with Cluster() as cluster:
        nobody = cluster.client("nobody", ())
        found = await surroundings(nobody, ["alice"], ["n1"])
        assert not found.bindings and not found.pods
        assert [each.split()[0] for each in found.unread] == ["clusterrolebindings", "rolebindings", "pods"]
        told = steps(["alice"], ["n1"], [], found)[-3:]
        assert all(each.step == "look at what could not be read" and "forbidden" in each.why for each in told)
        admin = await surroundings(cluster.client(), ["alice"], ["n1"])
        assert admin.bindings and not [each for each in admin.unread if "binding" in each]


@async_test
async def test_lists_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(revocation_steps, "MAX_READ", 1)
    monkeypatch.setattr(revocation_steps, "MAX_NODES", 1)
    monkeypatch.setattr(revocation_steps, "PAGES", ListOptions(limit=1))
    async with Cluster() as cluster:
        found = await surroundings(cluster.client(), ["alice"], ["n1", "n2"])
        assert len([each for each in found.bindings if not each.metadata.namespace]) == 1
        assert "only the first 1 clusterrolebindings were looked at" in found.unread
        assert any("1 more nodes were not looked at" in each for each in found.unread)
