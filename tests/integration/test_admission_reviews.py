"""What is answered and not stored passes admission too: reviews and token requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aio
from admission_webhook import AdmissionWebhook, Tree, configuration, deny, patch, rule
from admission_world import (
    binding,
    configure,
    install,
    policy,
    post,
    tree_of,
    with_webhook,
)
from kubevouch.client.interface import Client
from kubevouch.testing import Cluster

TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
ASKED = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
# Resource, kind, group, where it is posted, spec.
REVIEWS = [
    ("subjectaccessreviews", "SubjectAccessReview", AUTHORIZATION, "", ASKED | {"user": "u"}),
    ("localsubjectaccessreviews", "LocalSubjectAccessReview", AUTHORIZATION, "default", ASKED | {"user": "u"}),
    ("selfsubjectaccessreviews", "SelfSubjectAccessReview", AUTHORIZATION, "", ASKED),
    ("selfsubjectrulesreviews", "SelfSubjectRulesReview", AUTHORIZATION, "", {"namespace": "default"}),
    ("tokenreviews", "TokenReview", AUTHENTICATION, "", {"token": "t"}),
    ("selfsubjectreviews", "SelfSubjectReview", AUTHENTICATION, "", None),
]


def review(kind: str, group: str, spec: Any) -> Tree:
    tree: Tree = {"apiVersion": f"{group}/v1", "kind": kind}
    if kind.startswith("Local"):
        tree["metadata"] = {"namespace": "default"}
    for attributes in (spec or {}).values():
        if kind.startswith("Local") and isinstance(attributes, dict):
            spec = spec | {"resourceAttributes": attributes | {"namespace": "default"}}
    return tree if spec is None else tree | {"spec": spec}


@pytest.mark.parametrize(("resource", "kind", "group", "namespace", "spec"), REVIEWS)
def test_webhooks_see_every_review(
    tmp_path: Path, resource: str, kind: str, group: str, namespace: str, spec: Any
) -> None:
    path = f"/apis/{group}/v1/{f'namespaces/{namespace}/' if namespace else ''}{resource}"

    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        entry = webhook.entry(rules=[rule(resource, "CREATE", group=group)])
        await configure(client, configuration("Mutating", entry))
        await configure(client, configuration("Validating", entry))
        answered = await post(client, path, review(kind, group, spec))
        assert (answered.status, tree_of(answered)["kind"]) == (201, kind)
        first, second = webhook.requests
        for request in (first, second):
            assert (request["operation"], request["kind"]["kind"]) == ("CREATE", kind)
            assert request["resource"] == {"group": group, "version": "v1", "resource": resource}
            assert request["object"]["apiVersion"] == f"{group}/v1"
            assert request.get("namespace", "") == namespace
            assert request["options"]["kind"] == "CreateOptions"
        webhook.answer = deny("no")
        refused = tree_of(await post(client, path, review(kind, group, spec)))
        assert refused["message"] == 'admission webhook "w.example.com" denied the request: no'

    with_webhook(tmp_path, scenario)


def test_the_answer_is_to_what_a_webhook_made_of_the_question(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        resource, kind, group, _, spec = REVIEWS[0]
        webhook.answer = patch({"op": "add", "path": "/spec/groups", "value": ["system:masters"]})
        await configure(client, configuration("Mutating", webhook.entry(rules=[rule(resource, group=group)])))
        answered = tree_of(await post(client, f"/apis/{group}/v1/{resource}", review(kind, group, spec)))
        assert (answered["spec"]["groups"], answered["status"]["allowed"]) == (["system:masters"], True)

    with_webhook(tmp_path, scenario)


def test_an_invalid_review_is_no_validating_webhooks_business(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        resource, kind, group, *_ = REVIEWS[0]
        await configure(client, configuration("Validating", webhook.entry(rules=[rule(resource, group=group)])))
        answered = await post(client, f"/apis/{group}/v1/{resource}", review(kind, group, {"user": "u"}))
        assert (answered.status, webhook.reviews) == (422, [])

    with_webhook(tmp_path, scenario)


def token_request(**spec: Any) -> Tree:
    return {"apiVersion": f"{AUTHENTICATION}/v1", "kind": "TokenRequest", "spec": spec}


async def _with_account(client: Client) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await post(client, "/api/v1/namespaces/default/serviceaccounts", account)


def test_webhooks_see_token_requests(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        await _with_account(client)
        webhook.answer = patch({"op": "replace", "path": "/spec/expirationSeconds", "value": 1200})
        entry = webhook.entry(rules=[rule("serviceaccounts/token", "CREATE")])
        await configure(client, configuration("Mutating", entry))
        answered = tree_of(await post(client, TOKEN, token_request(audiences=["a"], expirationSeconds=900)))
        assert answered["spec"]["expirationSeconds"] == 1200
        assert answered["status"]["token"]
        (request,) = webhook.requests
        assert request["kind"] == {"group": AUTHENTICATION, "version": "v1", "kind": "TokenRequest"}
        assert request["resource"] == {"group": "", "version": "v1", "resource": "serviceaccounts"}
        assert (request["subResource"], request["name"]) == ("token", "default")
        assert (request["object"]["kind"], request["object"]["apiVersion"]) == (
            "TokenRequest", f"{AUTHENTICATION}/v1",
        )  # fmt: skip
        webhook.answer = lambda _: {"allowed": True}
        await configure(client, configuration("Validating", entry))
        await post(client, TOKEN, token_request())
        # By then it has its defaults and its names, but no token yet.
        final = webhook.requests[-1]["object"]
        assert (final["metadata"]["namespace"], bool(final["spec"]["audiences"])) == ("default", True)
        assert final["status"]["token"] == ""

    with_webhook(tmp_path, scenario)


def test_policies_judge_token_requests_and_no_reviews() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            client = cluster.client()
            await _with_account(client)
            rules = [rule("serviceaccounts/token", "CREATE"), rule("subjectaccessreviews", group=AUTHORIZATION)]
            short = {"expression": "object.spec.expirationSeconds <= 900", "message": "too long"}
            await install(client, policy(short, rules=rules), binding())
            assert (await post(client, TOKEN, token_request(expirationSeconds=900))).status == 201
            refused = await post(client, TOKEN, token_request(expirationSeconds=1000))
            assert (refused.status, "denied request: too long" in tree_of(refused)["message"]) == (422, True)
            resource, kind, group, _, spec = REVIEWS[0]
            answered = await post(client, f"/apis/{group}/v1/{resource}", review(kind, group, spec))
            assert answered.status == 201

    aio.run(scenario())


def test_a_namespace_on_its_way_out_gives_no_tokens() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            client = cluster.client()
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone", "finalizers": ["x.io/y"]}}
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "a", "finalizers": ["x.io/y"]},
            }
            assert (await post(client, "/api/v1/namespaces", space)).status == 201
            accounts = "/api/v1/namespaces/gone/serviceaccounts"
            assert (await post(client, accounts, account)).status == 201
            await client.raw("DELETE", "/api/v1/namespaces/gone")
            refused = tree_of(await post(client, f"{accounts}/a/token", token_request()))
            assert refused["message"] == (
                'serviceaccounts "a" is forbidden: unable to create new content in namespace gone because it is being '
                "terminated"
            )

    aio.run(scenario())
