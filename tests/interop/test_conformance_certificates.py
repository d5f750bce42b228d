"""Kubernetes' own promises for this API, each test named after the end-to-end spec that it plays (Kubernetes 1.36)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from kubernetes import client, config, watch

from interop.clients.interface import Refused
from interop.clients.official import OfficialClient
from interop_world import InteropWorld, condition, interop_world, manifest, unique
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject

CONFIG: Any = config
WATCH: Any = watch
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PATIENCE_SECONDS = 240.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteropWorld]:
    with interop_world(tmp_path_factory.mktemp("conformance")) as world:
        yield world


@pytest.fixture
def api(world: InteropWorld) -> Iterator[Any]:
    """An API client of the administrator."""
    with CONFIG.new_client_from_config(str(world.kubeconfig)) as opened:
        yield opened


def raw(api: Any, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
    """The JSON answer to a request that the library has no method for."""
    headers = {"Accept": "application/json", "Content-Type": content_type}
    url = api.configuration.host + path
    try:
        answer = api.rest_client.request(method, url, headers=headers, body=body)
    except client.ApiException as err:
        raise Refused(err.status, json.loads(err.body or "{}").get("reason", "")) from err
    answer.read()
    if not 200 <= answer.status <= 299:
        raise Refused(answer.status, json.loads(answer.data).get("reason", ""))
    return json.loads(answer.data)


def eventually(done: Callable[[], bool], watched: Callable[..., Any], **where: Any) -> None:
    """Wait by watch until ``done`` holds."""
    for _ in WATCH.Watch().stream(watched, timeout_seconds=int(PATIENCE_SECONDS), **where):
        if done():
            return
    raise AssertionError("it did not happen")


def test_certificates_api_should_support_csr_api_operations(world: InteropWorld, api: Any) -> None:
    """[sig-auth] Certificates API [Privileged:ClusterAdmin] should support CSR API operations [Conformance]."""
    requests = OfficialClient(world.kubeconfig)
    # Discovery, old and new, and OpenAPI.
    assert "certificates.k8s.io" in [group["name"] for group in raw(api, "GET", "/apis")["groups"]]
    assert raw(api, "GET", "/apis/certificates.k8s.io")["preferredVersion"]["version"] == "v1"
    resources = {r["name"]: r["verbs"] for r in raw(api, "GET", "/apis/certificates.k8s.io/v1")["resources"]}
    assert set(resources) >= {
        "certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status",
    }  # fmt: skip
    assert f"{REQUESTS}/{{name}}/approval" in raw(api, "GET", "/openapi/v3/apis/certificates.k8s.io/v1")["paths"]
    # create, get, list, watch
    label = unique("e2e")
    selector = f"special-label={label}"
    labelled = {"special-label": label}
    signer = f"example.com/e2e-{label}"
    name = requests.create({**manifest(unique("x"), labels=labelled, signer=signer)})["metadata"]["name"]
    for _ in range(2):
        generated = manifest("", labels=labelled, signer=signer)
        generated["metadata"] = {"generateName": "e2e-example-csr-", "labels": labelled}
        requests.create(generated)
    names = requests.pages(selector, 500)[0]
    assert len(names) == 3
    found = raw(api, "GET", f"{REQUESTS}?labelSelector={selector}")
    version = found["metadata"]["resourceVersion"]
    # patch, update
    patched = requests.patch(name, {"metadata": {"annotations": {"patched": "true"}}}, "merge")
    assert patched["metadata"]["annotations"]["patched"] == "true"
    patched["metadata"]["annotations"]["updated"] = "true"
    assert requests.replace(patched)["metadata"]["annotations"]["updated"] == "true"
    stream = WATCH.Watch().stream(
        client.CertificatesV1Api(api).list_certificate_signing_request,
        label_selector=selector, resource_version=version, timeout_seconds=20,
    )  # fmt: skip
    seen = [next(stream)["raw_object"]["metadata"]["annotations"] for _ in range(2)]
    stream.close()
    assert seen == [{"patched": "true"}, {"patched": "true", "updated": "true"}]
    # /approval and /status: get, patch, update, with any type of condition
    for subresource, own in (("approval", "ApprovalPatched"), ("status", "StatusPatched")):
        path = f"{REQUESTS}/{name}/{subresource}"
        assert raw(api, "GET", path)["metadata"]["name"] == name
        more = [*raw(api, "GET", path).get("status", {}).get("conditions", []), condition(own)]
        change = {"metadata": {"annotations": {f"patched{subresource}": "true"}}, "status": {"conditions": more}}
        answer = raw(api, "PATCH", path, change, "application/merge-patch+json")
        assert answer["metadata"]["annotations"][f"patched{subresource}"] == "true"
        assert own in [c["type"] for c in answer["status"]["conditions"]]
        answer["status"]["conditions"].append(condition(own.replace("Patched", "Updated")))
        updated = raw(api, "PUT", path, answer)
        assert own.replace("Patched", "Updated") in [c["type"] for c in updated["status"]["conditions"]]
    # A certificate that has nothing to do with the request is the signer's business.
    current = requests.get(name)
    current["status"]["certificate"] = base64.b64encode(world.custom_ca.issue("a stranger").certificate).decode()
    assert requests.replace(current, "status")["status"]["certificate"] == current["status"]["certificate"]
    # delete, deletecollection
    requests.delete(name)
    with pytest.raises(Refused, match="404 NotFound"):
        requests.get(name)
    assert len(requests.pages(selector, 500)[0]) == 2
    requests.delete_all(selector)
    assert requests.pages(selector, 500)[0] == []


def test_certificates_api_should_support_building_a_client_with_a_csr(world: InteropWorld, api: Any) -> None:
    """[sig-auth] Certificates API [Privileged:ClusterAdmin] should support building a client with a CSR."""
    requests = OfficialClient(world.kubeconfig)
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    name, user = unique("e2e-test"), unique("e2e-user")
    wanted = manifest(name, signer="kubernetes.io/kube-apiserver-client")
    wanted["spec"]["request"] = base64.b64encode(
        build_request(key, Subject(common_name=user, organizations=("e2e-group",)))
    ).decode()
    wanted["spec"]["expirationSeconds"] = 3600
    created = requests.create(wanted)
    requests.replace({**created, "status": {"conditions": [condition("Approved")]}}, "approval")
    eventually(
        lambda: bool(requests.get(name)["status"].get("certificate")),
        client.CertificatesV1Api(api).list_certificate_signing_request,
        field_selector=f"metadata.name={name}",
    )
    settings = yaml.safe_load(world.kubeconfig.read_text())
    settings["users"][0]["user"] = {
        "client-certificate-data": requests.get(name)["status"]["certificate"],
        "client-key-data": base64.b64encode(keys.to_pem(key)).decode(),
    }
    with CONFIG.new_client_from_config_dict(settings, persist_config=False) as mine:
        review = client.AuthenticationV1Api(mine).create_self_subject_review(client.V1SelfSubjectReview())
        assert review.status is not None and review.status.user_info is not None
        assert review.status.user_info.username == user
        assert "e2e-group" in (review.status.user_info.groups or [])
        with pytest.raises(client.ApiException, match="Forbidden"):
            client.CertificatesV1Api(mine).list_certificate_signing_request()
    requests.delete(name)


def token_secret(token_id: str, **more: str) -> client.V1Secret:
    entries = {
        "token-id": token_id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true", **more,
    }  # fmt: skip
    named = client.V1ObjectMeta(name=f"bootstrap-token-{token_id}")
    return client.V1Secret(metadata=named, type="bootstrap.kubernetes.io/token", string_data=entries)


def test_bootstrap_signer_should_sign_and_delete_and_resign(api: Any) -> None:
    """[sig-cluster-lifecycle] Bootstrap tokens: should sign the new added bootstrap tokens, resign the tokens when
    clusterInfo ConfigMap updated, delete the signed bootstrap tokens when the tokens are deleted."""
    core = client.CoreV1Api(api)
    token_id = unique("x")[-6:]
    entry = f"jws-kubeconfig-{token_id}"

    def signature() -> str:
        found = core.read_namespaced_config_map("cluster-info", "kube-public")
        return (found.data or {}).get(entry, "")

    where = {"namespace": "kube-public", "field_selector": "metadata.name=cluster-info"}
    core.create_namespaced_secret("kube-system", token_secret(token_id))
    eventually(lambda: bool(signature()), core.list_namespaced_config_map, **where)
    first = signature()
    kubeconfig = (core.read_namespaced_config_map("cluster-info", "kube-public").data or {})["kubeconfig"]
    core.patch_namespaced_config_map("cluster-info", "kube-public", {"data": {"kubeconfig": f"{kubeconfig}\n"}})
    eventually(lambda: signature() not in ("", first), core.list_namespaced_config_map, **where)
    core.patch_namespaced_config_map("cluster-info", "kube-public", {"data": {"kubeconfig": kubeconfig}})
    core.delete_namespaced_secret(f"bootstrap-token-{token_id}", "kube-system")
    eventually(lambda: signature() == "", core.list_namespaced_config_map, **where)


def test_token_cleaner_should_delete_the_token_secret_when_expired_and_no_other(api: Any) -> None:
    """[sig-cluster-lifecycle] Bootstrap tokens: should delete the token secret when the secret expired, should not
    delete the token secret when the secret is not expired."""
    core = client.CoreV1Api(api)
    expired, kept = unique("x")[-6:], unique("x")[-6:]
    core.create_namespaced_secret("kube-system", token_secret(kept, expiration="2999-01-01T00:00:00Z"))
    core.create_namespaced_secret("kube-system", token_secret(expired, expiration="2020-01-01T00:00:00Z"))

    def left() -> set[str | None]:
        return {secret.metadata.name for secret in core.list_namespaced_secret("kube-system").items if secret.metadata}

    eventually(lambda: f"bootstrap-token-{expired}" not in left(), core.list_namespaced_secret, namespace="kube-system")
    assert f"bootstrap-token-{kept}" in left()


def test_service_account_issuer_discovery_should_support_oidc_discovery(api: Any) -> None:
    """[sig-auth] ServiceAccounts ServiceAccountIssuerDiscovery should support OIDC discovery of service account
    issuer [Conformance], and: should create a serviceAccountToken and ensure a successful TokenReview."""
    core = client.CoreV1Api(api)
    name = unique("sa")
    core.create_namespaced_service_account("default", client.V1ServiceAccount(metadata=client.V1ObjectMeta(name=name)))
    spec = client.V1TokenRequestSpec(audiences=["https://kubernetes.default.svc.cluster.local"], expiration_seconds=600)
    request = client.AuthenticationV1TokenRequest(spec=spec)
    issued = core.create_namespaced_service_account_token(name, "default", request)
    token = issued.status.token if issued.status is not None else None
    assert token is not None
    found = raw(api, "GET", "/.well-known/openid-configuration")
    _, payload, _ = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["iss"] == found["issuer"]
    assert claims["sub"] == f"system:serviceaccount:default:{name}"
    header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    assert header["kid"] in [key["kid"] for key in raw(api, "GET", "/openid/v1/jwks")["keys"]]
    review = client.AuthenticationV1Api(api).create_token_review(
        client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
    )
    assert review.status is not None and review.status.authenticated and review.status.user is not None
    assert review.status.user.username == claims["sub"]
    assert time.time() < claims["exp"] <= time.time() + 3607  # noqa: TID251 - a token of the real server


def test_subject_review_should_support_subject_review_api_operations(api: Any) -> None:
    """[sig-auth] SubjectReview should support SubjectReview API operations [Conformance]."""
    authorization = client.AuthorizationV1Api(api)
    attributes = client.V1ResourceAttributes(verb="list", resource="configmaps", namespace="kube-system", version="v1")
    name = unique("e2e")
    user = f"system:serviceaccount:default:{name}"
    groups = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:default"]
    spec = client.V1SubjectAccessReviewSpec(resource_attributes=attributes, user=user, groups=groups)
    review = authorization.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
    assert review.status is not None and review.status.allowed is False
    named = client.V1ObjectMeta(namespace="kube-system")
    local = authorization.create_namespaced_local_subject_access_review(
        "kube-system", client.V1LocalSubjectAccessReview(metadata=named, spec=spec)
    )
    assert local.status is not None and local.status.allowed is False
    mine = authorization.create_self_subject_access_review(
        client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    )
    assert mine.status is not None and mine.status.allowed is True
