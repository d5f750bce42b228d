from __future__ import annotations

from typing import Any

import pytest

from kubevouch.standalone.attached import agent_manifests, manifests
from kubevouch.standalone.attached.installation import resource_of
from kubevouch.standalone.attached.manifest_parts import (
    COMPONENT,
    LABELS,
    PARTS,
    ManifestSettingsError,
    Settings,
    chosen,
    documents,
    trees,
    version_of,
)

EVERYTHING = Settings(signers=("kubernetes.io/kubelet-serving", "example.com/plain"))


def named(found: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def test_the_same_settings_give_the_same_text() -> None:
    assert documents(trees(("all",), Settings())) == documents(trees((), Settings()))
    other = Settings(signers=("example.com/plain", "kubernetes.io/kubelet-serving"))
    assert documents(trees(("all",), EVERYTHING)) == documents(trees(("all",), other))


def test_parts_that_are_for_who_names_them_are_not_in_all() -> None:
    assert chosen(()) == chosen(("all",)) == ("crds", "guards", "controllers", "revocation")
    assert chosen(("agent", "crds")) == ("crds", "agent")
    assert chosen(("agent", "all")) == ("crds", "guards", "controllers", "revocation", "agent")


def test_every_object_is_of_a_kind_that_is_installed_and_bears_its_labels() -> None:
    for part in PARTS:
        for each in trees((part,), EVERYTHING):
            resource = resource_of(each)
            assert resource.namespaced == ("namespace" in each["metadata"]), each["metadata"]
            assert LABELS.items() | {(COMPONENT, part)} <= each["metadata"]["labels"].items()
            name = each["metadata"]["name"]
            assert name.startswith("kubevouch") or name.endswith(".kubevouch.io")


def test_without_signers_nothing_signs_and_no_secret_is_asked_for() -> None:
    found = trees(("controllers",), Settings())
    assert list(named(found, "Deployment")) == ["kubevouch-controllers"]
    assert "secretName" not in documents(found)
    rules = [rule for each in found for rule in each.get("rules", ()) if "signers" in rule["resources"]]
    assert [(each["verbs"], each["resourceNames"]) for each in rules] == [
        (["approve"], ["kubernetes.io/kubelet-serving"])
    ]


def test_the_signer_gets_the_pair_for_the_listed_signer_of_kubernetes_alone() -> None:
    found = trees(("controllers",), Settings(signers=EVERYTHING.signers, ca_secret="the-ca"))
    spec = named(found, "Deployment")["kubevouch-signer"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    pairs = [each for each in container["args"] if each.startswith("--cluster-signing")]
    assert pairs == [
        "--cluster-signing-kubelet-serving-cert-file=/etc/kubevouch/signing/tls.crt",
        "--cluster-signing-kubelet-serving-key-file=/etc/kubevouch/signing/tls.key",
    ]
    assert [each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each] == ["the-ca"]
    own = trees(("controllers",), Settings(signers=("example.com/plain",)))
    assert "secretName" not in documents(own)
    roles = {name: each["rules"] for name, each in named(found, "ClusterRole").items()}
    names = {
        name.removeprefix("kubevouch:"): (rule["verbs"], rule["resourceNames"])
        for name, rules in roles.items() for rule in rules if "signers" in rule["resources"]
    }  # fmt: skip
    assert names == {
        "certificatesigningrequest-approving-controller": (
            ["approve"], ["example.com/plain", "kubernetes.io/kubelet-serving"],
        ),
        "certificatesigningrequest-signing-controller": (
            ["sign"], ["example.com/plain", "kubernetes.io/kubelet-serving"],
        ),
        # Of Kubernetes' names they have none.
        "certificate-signers-controller": (["attest"], ["example.com/plain"]),
        "podcertificaterequest-signing-controller": (["sign"], ["example.com/plain"]),
    }  # fmt: skip


def test_another_namespace_is_everywhere() -> None:
    text = documents(trees(("all", "attestation"), Settings(namespace="certificates", signers=EVERYTHING.signers)))
    assert manifests.NAMESPACE not in text
    assert "system:serviceaccount:certificates:kubevouch-controllers" in text


@pytest.mark.parametrize(("version", "mutating", "validating"), [(None, 1, 1), (36, 1, 1), (35, 0, 1), (29, 0, 0)])
def test_an_older_version_gets_no_guards_that_it_does_not_serve(
    version: int | None, mutating: int, validating: int
) -> None:
    found = trees(("guards",), Settings(kube_version=version))
    assert bool(named(found, "MutatingAdmissionPolicy")) == mutating
    assert bool(named(found, "ValidatingAdmissionPolicyBinding")) == validating


def test_pods_have_what_the_restricted_profile_asks_for() -> None:
    found = trees(("controllers",), EVERYTHING)
    spaces = named(found, "Namespace")
    assert spaces[manifests.NAMESPACE]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for name, each in named(found, "Deployment").items():
        spec = each["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
        assert {"livenessProbe", "readinessProbe"} <= container.keys()
        selected = each["spec"]["selector"]["matchLabels"]
        assert named(found, "PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"] == selected
        assert named(found, "NetworkPolicy")[name]["spec"]["podSelector"]["matchLabels"] == selected


def test_the_network_lets_out_what_was_named() -> None:
    policy = named(trees(("controllers",), Settings(api_server_ports=(16443,))), "NetworkPolicy")
    egress = policy["kubevouch-controllers"]["spec"]["egress"]
    assert [[port["port"] for port in each["ports"]] for each in egress] == [[16443], [53, 53]]


def test_the_agent_is_apart_and_on_labelled_nodes_only() -> None:
    found = trees(("agent",), Settings())
    assert set(named(found, "Namespace")) == {agent_manifests.NAMESPACE} != {manifests.NAMESPACE}
    spec = named(found, "DaemonSet")["kubevouch-agent"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"]["kubevouch.io/agent"] == "true"
    assert spec["automountServiceAccountToken"] is False
    assert sorted(each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each) == [
        "/etc/kubernetes", "/var/lib/kubelet/pki",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"signers": ("*",)}, "got --signers '*', expected the name of a signer"),
        ({"signers": ("kubernetes.io/*",)}, "got --signers 'kubernetes.io/*', expected the name of a signer"),
        ({"signers": ("Example.com/x",)}, "got --signers 'Example.com/x', expected the name of a signer"),
        ({"signers": ("example.com/",)}, "got --signers 'example.com/', expected the name of a signer"),
        ({"signers": ("example/x",)}, "got --signers 'example/x', expected the name of a signer"),
        ({"signers": ("example.com/x\n",)}, "got --signers 'example.com/x\\n', expected the name of a signer"),
        (
            {"signers": ("kubernetes.io/kube-apiserver-serving",)},
            "expected one of Kubernetes' signers or one of a domain",
        ),
        ({"approve": ("example.com",)}, "got --approve 'example.com', expected the name of a signer"),
        ({"namespace": "kube-system"}, "got --namespace 'kube-system', expected a namespace for these programs alone"),
        ({"namespace": "a/b"}, "got --namespace 'a/b'"),
        ({"image": "x y"}, "got --image 'x y', expected the name of an image"),
        ({"ca_secret": "A"}, "got --ca-secret 'A', expected the name of a Secret"),
        ({"api_server_ports": (0,)}, "got no --api-server-port from 1 to 65535"),
    ],
)
def test_what_cannot_be_meant(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestSettingsError) as raised:
        Settings(**settings)
    assert message in str(raised.value)
    assert raised.value.hint


@pytest.mark.parametrize(("text", "minor"), [("1.33", 33), ("v1.36.2", 36)])
def test_versions(text: str, minor: int) -> None:
    assert version_of(text) == minor


@pytest.mark.parametrize("text", ["", "2.0", "1.x", "1.33\n", "latest", "1.33.1+k3s1 "])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ManifestSettingsError, match="expected Kubernetes' version"):
        version_of(text)
