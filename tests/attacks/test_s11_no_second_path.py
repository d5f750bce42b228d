"""S11: an older version of an API decides nothing differently (CVE-2021-27098): one chain, whatever the version."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from asynctest import async_test
from contract import route_matrix
from contract.route_matrix import Route
from join_requests import KEY
from kubevouch.api import catalog
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.testing import Cluster

# Every version that there is, not only what is on.
EVERYTHING = "api/all=true"
VERSIONS = ("v1", "v1beta1")
CLIENT, KUBELET = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
MASTER = Subject(common_name="root", organizations=("system:masters",))
NODE = Subject(common_name="system:node:worker-1", organizations=("system:nodes",))
PLAIN = Subject(common_name="jane")
BOOTSTRAPPER = ("system:bootstrap:abcdef", ("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"))
# kubeadm's default, and somebody without any right.
NOBODY = ("nobody", ())
# May write decisions and certificates, but for no signer.
CLERK = ("clerk", ())
JSON = {"content-type": "application/json"}


def served_twice() -> dict[str, set[str]]:
    """Kinds with more than one version or group, and where they are."""
    found = defaultdict(set)
    for resource in (*catalog.STORED, *catalog.VIEWS):
        found[resource.plural].add(resource.api_version)
    return {plural: versions for plural, versions in found.items() if len(versions) > 1}


def test_what_is_served_twice_is_known() -> None:
    assert set(served_twice()) == {"certificatesigningrequests", "events", "podcertificaterequests"}


@async_test
async def test_every_credential_gets_the_same_answer_in_every_version() -> None:
    async with Cluster(https=True, runtime_config=EVERYTHING) as cluster:
        twice = served_twice()
        routes = [
            route for route in await route_matrix.all_routes(cluster)
            if any(f"/{plural}" in route.path for plural in twice)
        ]  # fmt: skip
        shown = await route_matrix.credentials(cluster)
        for who, credential in shown.items():
            if who in route_matrix.REFUSED or credential.revoked is not None:
                continue
            answers: dict[str, dict[str, int]] = defaultdict(dict)
            async with route_matrix.session(cluster, credential) as client:
                for route in routes:
                    answers[_without_version(route)][route.path] = await route_matrix.ask(client, route)
            different = {route: codes for route, codes in answers.items() if len(set(codes.values())) > 1}
            assert different == {}, who


def _without_version(route: Route) -> str:
    words = route.path.split("/")
    rest = words[4:] if words[1] == "apis" else words[3:]
    return f"{route.verb} {'/'.join(rest)}"


# ------------------------------------------------------------------ what must not be, in each version


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(runtime_config=EVERYTHING, controllers=("*",)) as running:
        rule = {
            "apiGroups": ["certificates.k8s.io"], "verbs": ["get", "update"],
            "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
        }  # fmt: skip
        rbac, name = "rbac.authorization.k8s.io", {"name": "clerk"}
        role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": name, "rules": [rule]}
        binding = {
            "apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": name,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "clerk"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "clerk"}],
        }  # fmt: skip
        running.create(role)
        running.create(binding)
        yield running


def manifest(version: str, name: str, subject: Subject, signer: str, **spec: Any) -> dict[str, Any]:
    request = base64.b64encode(build_request(KEY, subject)).decode()
    return {
        "apiVersion": f"certificates.k8s.io/{version}",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"request": request, "signerName": signer, "usages": ["client auth"], **spec},
    }


def path(version: str, *more: str) -> str:
    return "/".join([f"/apis/certificates.k8s.io/{version}/certificatesigningrequests", *more])


def told(cluster: Cluster, who: Any, method: str, url: str, tree: Any) -> tuple[int, str]:
    """Code and message."""
    user, groups = who or (None, ())
    answer = cluster.run(cluster.client(user, groups).raw(method, url, body=json.dumps(tree).encode(), headers=JSON))
    return answer.status, json.loads(answer.body).get("message", "") if answer.status >= 400 else ""


@pytest.mark.parametrize(
    ("who", "subject", "signer", "spec"),
    [
        (None, MASTER, CLIENT, {}),
        (NOBODY, PLAIN, CLIENT, {}),
        (BOOTSTRAPPER, MASTER, CLIENT, {}),
        (None, PLAIN, CLIENT, {"expirationSeconds": 1}),
        (None, PLAIN, CLIENT, {"request": base64.b64encode(b"nothing").decode()}),
        (None, PLAIN, "no signer", {}),
    ],
)
def test_what_one_version_refuses_all_refuse(
    cluster: Cluster, who: Any, subject: Subject, signer: str, spec: dict[str, Any]
) -> None:
    answers = {
        told(cluster, who, "POST", path(version), manifest(version, "refused", subject, signer, **spec))
        for version in VERSIONS
    }
    assert len(answers) == 1
    assert answers.pop()[0] in (403, 422)


@pytest.mark.parametrize("made_in", VERSIONS)
@pytest.mark.parametrize("decided_in", VERSIONS)
def test_no_version_lets_somebody_decide_or_sign_who_may_not(cluster: Cluster, made_in: str, decided_in: str) -> None:
    name = f"undecided-{made_in}-{decided_in}"
    assert told(cluster, None, "POST", path(made_in), manifest(made_in, name, PLAIN, CLIENT)) == (201, "")
    stored = json.loads(cluster.run(cluster.client().raw("GET", path(decided_in, name))).body)
    approved = {"type": "Approved", "status": "True", "reason": "Mine"}
    mine = base64.b64encode(cluster.pki.authority.certificate.pem()).decode()
    for who in (NOBODY, BOOTSTRAPPER, CLERK):
        shown = {**stored, "status": {"conditions": [approved]}}
        assert told(cluster, who, "PUT", path(decided_in, name, "approval"), shown)[0] == 403
        shown = {**stored, "status": {"certificate": mine}}
        assert told(cluster, who, "PUT", path(decided_in, name, "status"), shown)[0] == 403
    # Nor does a decision come through where decisions are not made, not even an administrator's.
    for subresource in ((), ("status",)):
        told(
            cluster, None, "PUT", path(decided_in, name, *subresource), {**stored, "status": {"conditions": [approved]}}
        )
        found = cluster.get(catalog.CERTIFICATE_SIGNING_REQUESTS, name)
        assert (found.status.conditions, found.status.certificate) == ([], b"")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("signer", "subject", "usages"),
    [
        (KUBELET, MASTER, ["digital signature", "client auth"]),
        (
            KUBELET,
            Subject(common_name="system:node:a", organizations=("system:nodes", "system:masters")),
            ["client auth"],
        ),
        (KUBELET, NODE, ["client auth", "server auth"]),
        (SERVING, NODE, ["digital signature", "client auth"]),
    ],
)
def test_the_signer_judges_every_version_alike(
    cluster: Cluster, version: str, signer: str, subject: Subject, usages: list[str]
) -> None:
    """Even once an administrator has approved."""
    name = f"judged-{version}-{abs(hash((signer, subject.organizations, *usages)))}"
    tree = manifest(version, name, subject, signer, usages=usages)
    assert told(cluster, None, "POST", path(version), tree) == (201, "")
    stored = json.loads(cluster.run(cluster.client().raw("GET", path(version, name))).body)
    stored["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "ByHand"}]}
    assert told(cluster, None, "PUT", path(version, name, "approval"), stored)[0] == 200
    cluster.settle()
    found = cluster.get(catalog.CERTIFICATE_SIGNING_REQUESTS, name)
    assert found.status.certificate == b""
    assert [each.type for each in found.status.conditions] == ["Approved", "Failed"]
