"""Admission webhooks over TLS, configured by objects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

import aio
from admission_webhook import (
    AdmissionWebhook,
    Tree,
    allow,
    config_map,
    configuration,
    deny,
    patch,
    rule,
    set_data,
)
from admission_world import (
    configure,
    post,
    tree_of,
    with_webhook,
)
from decisions import admission_request, request_pem, rights_of
from kubevouch.admission.dynamic.mutating_webhook import MutatingAdmissionWebhook
from kubevouch.admission.dynamic.webhook_call import WebhookCaller
from kubevouch.admission.dynamic.webhook_source import HookSource
from kubevouch.admission.interface import Operation
from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1.webhooks import MutatingWebhookConfiguration, default_mutating
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.interface import Client
from kubevouch.client.kubeconfig import load
from kubevouch.client.rest_config import resolve
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock
from scripted_server import reply, reply_json, reply_status

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


# ------------------------------------------------------------------ validating


def test_what_a_webhook_is_told(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        await configure(client, configuration("Validating", webhook.entry()))
        assert (await post(client, f"{CONFIG_MAPS}?fieldManager=me", config_map(k="v"))).status == 201
        (review,) = webhook.reviews
        assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        request = review["request"]
        created = request.pop("object")
        assert request.pop("uid")
        assert request == {
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
            "name": "a",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {"username": "kubernetes-super-admin", "groups": ["system:masters", "system:authenticated"]},
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
        }
        assert (created["kind"], created["apiVersion"], created["data"]) == ("ConfigMap", "v1", {"k": "v"})
        assert created["metadata"]["uid"]
        (seen,) = webhook.server.seen
        assert (seen.method, seen.path, seen.query) == ("POST", "/w.example.com", {"timeout": "10s"})
        # A patch is an update; a deletion has no object.
        await post(client, f"{CONFIG_MAPS}/a", {"data": {"k": "w"}}, "PATCH", "merge-patch+json")
        await client.delete(catalog.CONFIG_MAPS, "a", "default")
        changed, deleted = webhook.requests[1:]
        assert (changed["operation"], changed["options"]["kind"]) == ("UPDATE", "UpdateOptions")
        assert (changed["object"]["data"], changed["oldObject"]["data"]) == ({"k": "w"}, {"k": "v"})
        assert (deleted["operation"], deleted["object"]) == ("DELETE", None)
        assert deleted["oldObject"]["data"] == {"k": "w"}
        assert deleted["options"]["kind"] == "DeleteOptions"

    with_webhook(tmp_path, scenario)


@pytest.mark.parametrize(
    ("answer", "code", "reason", "message"),
    [
        (deny("no"), 400, "", 'admission webhook "w.example.com" denied the request: no'),
        (deny(), 400, "", 'admission webhook "w.example.com" denied the request without explanation'),
        (
            deny(reason="NotFound", code=404),
            404,
            "NotFound",
            'admission webhook "w.example.com" denied the request: NotFound',
        ),
        (
            deny("later", code=200, status="Success"),
            400,
            "",
            'admission webhook "w.example.com" denied the request: later',
        ),
    ],
)
def test_denials(tmp_path: Path, answer: Any, code: int, reason: str, message: str) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        webhook.answer = answer
        for kind in ("Validating", "Mutating"):
            await configure(client, configuration(kind, webhook.entry()))
            answered = await post(client, CONFIG_MAPS, config_map())
            status = tree_of(answered)
            assert answered.status == code
            assert (status["status"], status.get("reason", ""), status["code"]) == ("Failure", reason, code)
            assert status["message"] == message
            await client.raw("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations/c")
        # Nobody is asked any more.
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201

    with_webhook(tmp_path, scenario)


def test_warnings_come_through(tmp_path: Path) -> None:
    async def scenario() -> None:
        warnings: list[str] = []
        async with AdmissionWebhook(tmp_path) as webhook, Cluster(https=True) as cluster:
            webhook.answer = lambda _: {"allowed": True, "warnings": ["mind the gap"]}
            await configure(cluster.client(), configuration("Validating", webhook.entry()))
            client = resolve(load(cluster.kubeconfig)).client(component="test", on_warning=warnings.append)
            async with client:
                assert (await post(client, CONFIG_MAPS, config_map())).status == 201
        assert warnings == ["mind the gap"]

    aio.run(scenario())


def test_validating_webhooks_are_asked_at_once(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        both = asyncio.Barrier(2)

        async def meet(request: web.Request) -> web.StreamResponse:
            await both.wait()
            uid = msgspec.json.decode(await request.read())["request"]["uid"]
            response = {"uid": uid, "allowed": request.path == "/a.example.com", "status": {"message": request.path}}
            document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            return await reply_json(document)(request)

        webhook.server.script(meet)
        entries = (webhook.entry("a.example.com"), webhook.entry("b.example.com"))
        await configure(client, configuration("Validating", *entries))
        answered = await post(client, CONFIG_MAPS, config_map())
        assert tree_of(answered)["message"] == 'admission webhook "b.example.com" denied the request: /b.example.com'

    with_webhook(tmp_path, scenario)


# ------------------------------------------------------------------ failures

INTERNAL = 'Internal error occurred: failed calling webhook "w.example.com": '


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
def test_a_webhook_that_does_not_answer(tmp_path: Path, kind: str) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        nowhere = {"url": "https://127.0.0.1:1/x"}
        await configure(client, configuration(kind, webhook.entry(clientConfig=nowhere, timeoutSeconds=3)))
        answered = await post(client, CONFIG_MAPS, config_map())
        assert answered.status == 500
        assert tree_of(answered)["message"] == (
            f'{INTERNAL}failed to call webhook: Post "https://127.0.0.1:1/x?timeout=3s": no connection to '
            "127.0.0.1:1: connection refused"
        )
        assert tree_of(answered)["reason"] == "InternalError"
        open_ = webhook.entry("v.example.com", clientConfig=nowhere, failurePolicy="Ignore")
        path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations/c"
        changed = await post(client, path, {"webhooks": [open_]}, "PATCH", "merge-patch+json")
        assert changed.status == 200
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201

    with_webhook(tmp_path, scenario)


def test_a_webhook_of_another_ca(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        config = {"url": webhook.server.url}
        await configure(client, configuration("Validating", webhook.entry(clientConfig=config)))
        message = tree_of(await post(client, CONFIG_MAPS, config_map()))["message"]
        assert message.startswith(f"{INTERNAL}failed to call webhook: Post ")
        assert "comes from a certificate authority that is not trusted here" in message
        assert not webhook.reviews

    with_webhook(tmp_path, scenario)


def response(**members: Any) -> Tree:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": members}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply_json({}), "received invalid webhook response: webhook response was absent"),
        (reply_status(403, "Forbidden", "go away"), "failed to call webhook: go away"),
        (
            reply_json(response(uid="x", allowed=True)),
            'received invalid webhook response: expected response.uid="UID", got "x"',
        ),
    ],
)
def test_answers_that_are_none(tmp_path: Path, answer: Any, message: str) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        webhook.server.script(answer)
        await configure(client, configuration("Validating", webhook.entry()))
        answered = await post(client, CONFIG_MAPS, config_map())
        uid = msgspec.json.decode(webhook.server.seen[0].body)["request"]["uid"]
        assert tree_of(answered)["message"] == INTERNAL + message.replace("UID", uid)

    with_webhook(tmp_path, scenario)


def test_text_instead_of_json(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        webhook.server.script(reply("hello"))
        await configure(client, configuration("Validating", webhook.entry()))
        message = tree_of(await post(client, CONFIG_MAPS, config_map()))["message"]
        assert message.startswith(f"{INTERNAL}failed to call webhook: ")

    with_webhook(tmp_path, scenario)


# ------------------------------------------------------------------ mutating


def test_patches_one_after_the_other(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        def answer(request: Tree) -> Tree:
            data = request["object"]["data"]
            return (
                set_data("seen", ",".join(sorted(data)))(request)
                if "first" in data
                else set_data("first", "1")(request)
            )

        webhook.answer = answer
        await configure(client, configuration("Mutating", webhook.entry("b.example.com"), name="b"))
        await configure(client, configuration("Mutating", webhook.entry("a.example.com"), name="a"))
        answered = await post(client, CONFIG_MAPS, config_map(k="v"))
        assert tree_of(answered)["data"] == {"first": "1", "k": "v", "seen": "first,k"}
        assert [seen.path for seen in webhook.server.seen] == ["/a.example.com", "/b.example.com"]
        # Before anything is checked: no uid yet.
        assert "uid" not in webhook.requests[0]["object"]["metadata"]

    with_webhook(tmp_path, scenario)


def test_what_a_patch_makes_is_checked(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        webhook.answer = patch({"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}})
        await configure(client, configuration("Mutating", webhook.entry()))
        assert (await post(client, CONFIG_MAPS, config_map())).status == 422
        webhook.answer = patch({"op": "replace", "path": "/data", "value": 7})
        answered = await post(client, CONFIG_MAPS, config_map())
        assert answered.status == 500
        assert "cannot unmarshal number into Go struct field ConfigMap.data" in tree_of(answered)["message"]
        webhook.answer = patch({"op": "remove", "path": "/data/missing"})
        assert (await post(client, CONFIG_MAPS, config_map())).status == 500
        webhook.answer = lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": "bm8="}
        answered = await post(client, CONFIG_MAPS, config_map())
        assert tree_of(answered)["message"].startswith(f"{INTERNAL}received undecodable patch in webhook response: ")

    with_webhook(tmp_path, scenario)


def test_deletions_have_nothing_to_patch(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        await post(client, CONFIG_MAPS, config_map())
        webhook.answer = set_data("k", "v")
        await configure(client, configuration("Mutating", webhook.entry()))
        answered = await client.raw("DELETE", f"{CONFIG_MAPS}/a")
        assert tree_of(answered)["message"] == (
            'Internal error occurred: admission webhook "w.example.com" attempted to modify the object, which is not '
            "supported for this operation"
        )

    with_webhook(tmp_path, scenario)


@pytest.mark.parametrize(("policy", "calls"), [("IfNeeded", ["a", "b", "a"]), ("Never", ["a", "b"])])
def test_reinvocation(tmp_path: Path, policy: str, calls: list[str]) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        webhook.answer = lambda request: (
            set_data("b", "1")(request) if webhook.server.seen[-1].path == "/b.example.com" else allow(request)
        )
        entries = (
            webhook.entry("a.example.com", reinvocationPolicy=policy),
            webhook.entry("b.example.com", reinvocationPolicy=policy),
        )
        await configure(client, configuration("Mutating", *entries))
        assert (await post(client, CONFIG_MAPS, config_map(k="v"))).status == 201
        assert [seen.path[1] for seen in webhook.server.seen] == calls

    with_webhook(tmp_path, scenario)


# ------------------------------------------------------------------ which requests


def test_dry_run_is_for_webhooks_without_side_effects(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        await configure(client, configuration("Validating", webhook.entry(sideEffects="NoneOnDryRun")))
        answered = await post(client, f"{CONFIG_MAPS}?dryRun=All", config_map())
        assert answered.status == 201
        assert webhook.requests[0]["dryRun"] is True
        assert webhook.requests[0]["options"]["dryRun"] == ["All"]

    with_webhook(tmp_path, scenario)


def test_its_own_configuration_is_no_webhooks_business(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        webhook.answer = deny("never")
        everything = rule("*/*", group="*", version="*")
        await configure(client, configuration("Validating", webhook.entry(rules=[everything])))
        await configure(client, configuration("Mutating", webhook.entry(rules=[everything])))
        assert not webhook.reviews
        for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            path = f"/apis/admissionregistration.k8s.io/v1/{plural}/c"
            assert (await client.raw("DELETE", path)).status == 200

    with_webhook(tmp_path, scenario)


def test_selectors_and_conditions(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        await post(client, "/api/v1/namespaces", {"metadata": {"name": "prod", "labels": {"stage": "prod"}}})
        await configure(
            client,
            configuration(
                "Validating",
                webhook.entry("ns.example.com", namespaceSelector={"matchLabels": {"stage": "prod"}}),
                webhook.entry("object.example.com", objectSelector={"matchLabels": {"watched": "yes"}}),
                webhook.entry(
                    "cel.example.com",
                    matchConditions=[
                        {"name": "named", "expression": "object.metadata.name.startsWith('cel-')"},
                        {"name": "human", "expression": "!request.userInfo.username.startsWith('system:')"},
                    ],
                ),
            ),
        )

        async def asked(namespace: str, tree: Tree) -> set[str]:
            tree["metadata"]["namespace"] = namespace
            del webhook.server.seen[:]
            assert (await post(client, f"/api/v1/namespaces/{namespace}/configmaps", tree)).status == 201
            return {seen.path for seen in webhook.server.seen}

        assert await asked("default", config_map()) == set()
        assert await asked("prod", config_map()) == {"/ns.example.com"}
        labelled = config_map("b")
        labelled["metadata"]["labels"] = {"watched": "yes"}
        assert await asked("default", labelled) == {"/object.example.com"}
        assert await asked("default", config_map("cel-1")) == {"/cel.example.com"}

    with_webhook(tmp_path, scenario)


def test_a_condition_that_fails(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        broken = {"name": "broken", "expression": "object.metadata.labels['x'] == 'y'"}
        await configure(client, configuration("Validating", webhook.entry(matchConditions=[broken])))
        answered = await post(client, CONFIG_MAPS, config_map())
        assert answered.status == 403
        assert tree_of(answered)["message"] == (
            "configmaps \"a\" is forbidden: expression 'object.metadata.labels['x'] == 'y'' resulted in error: "
            "no such key: labels"
        )
        assert not webhook.reviews

    with_webhook(tmp_path, scenario)


def csr(version: str) -> Tree:
    spec: Tree = {
        "request": msgspec.to_builtins(request_pem("jane")),
        "signerName": "example.com/x",
        "usages": ["client auth"],
    }
    return {
        "apiVersion": f"certificates.k8s.io/{version}",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"csr-{version}"},
        "spec": spec,
    }


@pytest.mark.parametrize(("policy", "asked"), [("Equivalent", 2), ("Exact", 1)])
def test_match_policy_sees_one_object_in_many_versions(tmp_path: Path, policy: str, asked: int) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        rules = [rule("certificatesigningrequests", "CREATE", group="certificates.k8s.io", version="v1")]
        await configure(client, configuration("Validating", webhook.entry(rules=rules, matchPolicy=policy)))
        for version in ("v1", "v1beta1"):
            path = f"/apis/certificates.k8s.io/{version}/certificatesigningrequests"
            assert (await post(client, path, csr(version))).status == 201
        assert len(webhook.requests) == asked
        for request in webhook.requests:
            assert request["kind"]["version"] == "v1"
            assert request["object"]["apiVersion"] == "certificates.k8s.io/v1"
        assert [request["requestKind"]["version"] for request in webhook.requests] == ["v1", "v1beta1"][:asked]

    with_webhook(tmp_path, scenario, runtime_config="certificates.k8s.io/v1beta1=true")


def test_a_patch_of_an_older_version_is_stored(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        webhook.answer = patch({"op": "add", "path": "/metadata/labels", "value": {"by": "webhook"}})
        rules = [rule("certificatesigningrequests", "CREATE", group="certificates.k8s.io", version="v1beta1")]
        await configure(client, configuration("Mutating", webhook.entry(rules=rules, matchPolicy="Exact")))
        path = "/apis/certificates.k8s.io/v1beta1/certificatesigningrequests"
        assert (await post(client, path, csr("v1beta1"))).status == 201
        assert webhook.requests[0]["object"]["apiVersion"] == "certificates.k8s.io/v1beta1"
        stored = await client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, "csr-v1beta1")
        assert stored.metadata.labels == {"by": "webhook"}

    with_webhook(tmp_path, scenario, runtime_config="certificates.k8s.io/v1beta1=true")


def test_a_namespace_is_in_itself(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        entry = webhook.entry(
            rules=[rule("namespaces", scope="Cluster")], namespaceSelector={"matchLabels": {"stage": "prod"}}
        )
        await configure(client, configuration("Validating", entry))
        for name, labels in (("one", {}), ("two", {"stage": "prod"})):
            await post(client, "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        (request,) = webhook.requests
        assert (request["name"], request["namespace"]) == ("two", "two")

    with_webhook(tmp_path, scenario)


@pytest.mark.parametrize(("kind", "path"), [("Validating", None), ("Mutating", "/mutate")])
def test_a_service_that_is_not_there(tmp_path: Path, kind: str, path: str | None) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        service = {"namespace": "default", "name": "w"} | ({"path": path} if path else {})
        made = await configure(client, configuration(kind, webhook.entry(clientConfig={"service": service})))
        assert tree_of(made)["webhooks"][0]["clientConfig"]["service"] == service | {"port": 443}
        answered = await post(client, CONFIG_MAPS, config_map())
        assert answered.status == 500
        assert tree_of(answered)["message"] == (
            f'{INTERNAL}failed to call webhook: Post "https://w.default.svc:443{path or "/"}?timeout=10s": '
            'service "w" not found'
        )
        open_ = webhook.entry("v.example.com", clientConfig={"service": service}, failurePolicy="Ignore")
        where = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations/c"
        await post(client, where, {"webhooks": [open_]}, "PATCH", "merge-patch+json")
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201

    with_webhook(tmp_path, scenario)


def test_what_is_put_on_record(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AdmissionWebhook(tmp_path) as webhook:

            def answer(request: Tree) -> Tree:
                return {**set_data("b", "1")(request), "auditAnnotations": {"why": "because", "a/b": "no key"}}

            webhook.answer = answer
            nowhere = {"url": "https://127.0.0.1:1/x"}
            entries = (
                webhook.entry("a.example.com"),
                webhook.entry("b.example.com", clientConfig=nowhere, failurePolicy="Ignore"),
            )
            tree = configuration("Mutating", *entries)
            config = default_mutating(json_codec.from_tree(tree, MutatingWebhookConfiguration).value)
            caller = WebhookCaller(FakeClock())
            source = HookSource(caller.forget)
            source.load([config])
            obj = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"k": "v"})
            request = admission_request(Operation.CREATE, catalog.CONFIG_MAPS, obj)
            await MutatingAdmissionWebhook(source, caller, lambda _: None, rights_of(request.user)).admit(request)
            await caller.close()
        place = "mutation.webhook.admission.k8s.io/round_0_index"
        assert request.annotations == {
            "a.example.com/why": "because",
            "patch.webhook.admission.k8s.io/round_0_index_0": (
                '{"configuration":"c","webhook":"a.example.com",'
                '"patch":[{"op":"add","path":"/data/b","value":"1"}],"patchType":"JSONPatch"}'
            ),
            f"{place}_0": '{"configuration":"c","webhook":"a.example.com","mutated":true}',
            f"{place}_1": '{"configuration":"c","webhook":"b.example.com","mutated":false}',
            f"failed-open.{place}_1": "b.example.com",
        }

    aio.run(scenario())
