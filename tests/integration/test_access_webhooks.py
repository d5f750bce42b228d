"""Token reviews and access reviews asked of webhooks, over TLS, by kubeconfig files and configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

import aio
from kubevouch.api import catalog
from kubevouch.authentication.interface import AuthenticationError, UserInfo
from kubevouch.authorization.always import AlwaysDenyAuthorizer
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.config.kubeconfig import Cluster as ClusterEntry
from kubevouch.config.kubeconfig import Context, Kubeconfig, User, dump
from kubevouch.machinery.codec import yamltext
from kubevouch.machinery.errors import APIStatusError
from kubevouch.standalone.access import RELOAD_SECONDS, Access, AccessError
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock
from scripted_server import ScriptedServer, reply, reply_json, reply_status
from throwaway_ca import ThrowawayCA, server_context

AUDIENCE = "https://api"
Scenario = Callable[[ScriptedServer, Path], Awaitable[None]]


def with_webhook(folder: Path, scenario: Scenario) -> None:
    """Runs ``scenario`` with a server that insists on our client certificate, and its kubeconfig."""

    async def run() -> None:
        ca = ThrowawayCA()
        tls = server_context(ca.issue(), folder, client_ca=ca.bundle, required=True)
        async with ScriptedServer(tls) as server:
            pair = ca.issue("api-server")
            file = folder / "webhook.conf"
            entry = ClusterEntry(server=f"{server.url}/review", certificate_authority_data=ca.bundle)
            user = User(client_certificate_data=pair.certificate, client_key_data=pair.key)
            config = Kubeconfig(
                clusters={"w": entry},
                users={"w": user},
                contexts={"w": Context(cluster="w", user="w")},
                current_context="w",
            )
            file.write_text(dump(config))
            await scenario(server, file)

    aio.run(run())


def review(kind: str, version: str = "v1", **status: Any) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    group = "authentication" if kind == "TokenReview" else "authorization"
    return reply_json({"apiVersion": f"{group}.k8s.io/{version}", "kind": kind, "status": status})


# ------------------------------------------------------------------ tokens


def test_a_token_is_reviewed_once(tmp_path: Path) -> None:
    async def scenario(server: ScriptedServer, file: Path) -> None:
        clock = FakeClock()
        access = Access(AccessOptions(token_webhook_config=file), (AUDIENCE,), clock)
        (tokens,) = access.tokens
        user = {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}}
        server.script(review("TokenReview", authenticated=True, user=user))
        both = await asyncio.gather(tokens.authenticate_token("t"), tokens.authenticate_token("t"))
        for found in both:
            assert found is not None
            assert found.user == UserInfo("jane", "7", ("dev",), {"k": ("v",)})
            assert found.method == "webhook" and found.audiences == ()
        (seen,) = server.seen
        assert (seen.method, seen.path) == ("POST", "/review")
        assert msgspec.json.decode(seen.body) == {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": "t", "audiences": [AUDIENCE]},
        }
        clock.advance(121)
        await tokens.authenticate_token("t")
        assert len(server.seen) == 2
        await access.close()

    with_webhook(tmp_path, scenario)


def test_what_a_token_webhook_may_answer(tmp_path: Path) -> None:
    async def scenario(server: ScriptedServer, file: Path) -> None:
        options = AccessOptions(token_webhook_config=file, token_webhook_version="v1beta1")
        access = Access(options, (AUDIENCE,), FakeClock())
        (tokens,) = access.tokens
        server.script(review("TokenReview", authenticated=False))
        assert await tokens.authenticate_token("unknown") is None
        server.script(review("TokenReview", authenticated=False, error="expired"))
        with pytest.raises(AuthenticationError, match=r"^expired$"):
            await tokens.authenticate_token("expired")
        server.script(review("TokenReview", "v1beta1", authenticated=True, user={"username": "a"}, audiences=["x"]))
        assert await tokens.authenticate_token("for another") is None
        found = await tokens.authenticate_token("named", ["x", "y"])
        assert found is not None and found.audiences == ("x",)
        assert msgspec.json.decode(server.seen[-1].body)["apiVersion"] == "authentication.k8s.io/v1beta1"
        for number, answer in enumerate(
            (
                reply("no json"),
                reply("[1]"),
                reply_json({"status": {"authenticated": "yes"}}),
                reply_json({"apiVersion": "v2", "status": {"authenticated": True}}),
                reply_status(403, "Forbidden", "go away"),
                reply("", 302, headers={"Location": "/elsewhere"}),
            )
        ):
            server.script(answer)
            with pytest.raises(AuthenticationError, match=r"^webhook: "):
                await tokens.authenticate_token(f"bad {number}")
        # A failure to ask is not remembered.
        server.script(review("TokenReview", authenticated=True, user={"username": "a"}))
        assert await tokens.authenticate_token("bad 0") is not None
        await access.close()

    with_webhook(tmp_path, scenario)


# ------------------------------------------------------------------ access


def config(file: Path, failure_policy: str = "NoOpinion", conditions: tuple[str, ...] = ()) -> str:
    webhook = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": failure_policy,
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(file)},
        "matchConditions": [{"expression": expression} for expression in conditions],
    }
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [{"type": "Webhook", "name": "w", "webhook": webhook}, {"type": "RBAC", "name": "rbac"}],
    }
    return yamltext.dumps(document)


def test_the_webhook_decides_before_rbac(tmp_path: Path) -> None:
    async def scenario(server: ScriptedServer, file: Path) -> None:
        settings = tmp_path / "authorization.yaml"
        settings.write_text(config(file, conditions=("request.user == 'jane'",)))
        async with Cluster(access=AccessOptions(authorization_config=settings)) as cluster:
            jane = cluster.client("jane", ["dev"])
            path = "/api/v1/namespaces/default/configmaps"
            server.script(review("SubjectAccessReview", allowed=True))
            assert (await jane.raw("GET", f"{path}?labelSelector=a%3Db")).status == 200
            assert msgspec.json.decode(server.seen[0].body) == {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "metadata": {},
                "spec": {
                    "resourceAttributes": {
                        "namespace": "default",
                        "verb": "list",
                        "version": "v1",
                        "resource": "configmaps",
                        "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
                    },
                    "user": "jane",
                    "groups": ["dev", "system:authenticated"],
                },
            }
            server.script(review("SubjectAccessReview", denied=True, reason="not today"))
            refused = await jane.raw("GET", "/api/v1/namespaces/default/secrets")
            assert refused.status == 403
            assert msgspec.json.decode(refused.body)["message"] == (
                'secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace '
                '"default": not today'
            )
            # RBAC allows it; a denial stops before. Others are not asked about at all.
            assert (await jane.raw("GET", "/version")).status == 403
            asked = len(server.seen)
            assert (await cluster.client("joe").raw("GET", "/version")).status == 200
            assert (await cluster.client().raw("GET", path)).status == 200
            assert len(server.seen) == asked
            # What is allowed holds for five minutes, what is not for thirty seconds.
            server.script(review("SubjectAccessReview", allowed=True))
            assert (await jane.raw("GET", "/version")).status == 403
            cluster.clock.advance(31)
            assert (await jane.raw("GET", "/version")).status == 200
            # The file changes: no webhook any more.
            settings.write_text(config(file, conditions=("request.user == 'nobody'",)))
            cluster.clock.advance(RELOAD_SECONDS)
            await asyncio.sleep(0.01)
            assert (await jane.raw("GET", path)).status == 403

    with_webhook(tmp_path, scenario)


ASKED = Attributes(UserInfo("jane"), "get", resource="pods", api_version="v1", name="p")


@pytest.mark.parametrize(
    ("policy", "decision"), [("NoOpinion", Decision.NO_OPINION), ("Deny", Decision.DENY)], ids=["no opinion", "deny"]
)
def test_the_failure_policy(tmp_path: Path, policy: str, decision: Decision) -> None:
    async def scenario(server: ScriptedServer, file: Path) -> None:
        settings = tmp_path / "authorization.yaml"
        settings.write_text(config(file, policy))
        access = Access(AccessOptions(authorization_config=settings), (), FakeClock())
        authorizer = access.authorizers({"RBAC": AlwaysDenyAuthorizer()})[0]
        for answer in (reply("no json"), reply_json({"status": {"allowed": "yes"}}), reply_status(401, "x", "y")):
            server.script(answer)
            verdict = await authorizer.authorize(ASKED)
            assert verdict.decision is decision and verdict.error
        server.script(review("SubjectAccessReview", allowed=True, denied=True))
        assert (await authorizer.authorize(ASKED)).decision is Decision.DENY
        await access.close()

    with_webhook(tmp_path, scenario)


@pytest.mark.parametrize("policy", ["NoOpinion", "Deny"])
def test_a_webhook_that_cannot_be_asked_is_an_internal_error(tmp_path: Path, policy: str) -> None:
    async def scenario(server: ScriptedServer, file: Path) -> None:
        settings = tmp_path / "authorization.yaml"
        settings.write_text(config(file, policy))
        server.script(reply("no json"))
        async with Cluster(access=AccessOptions(authorization_config=settings)) as cluster:
            jane = cluster.client("jane")
            refused = await jane.raw("GET", "/api/v1/secrets")
            assert refused.status == 500
            assert refused.body.startswith(b'Internal Server Error: "/api/v1/secrets": 127.0.0.1:')
            # RBAC may still allow, unless the webhook's failure denies.
            assert (await jane.raw("GET", "/version")).status == (200 if policy == "NoOpinion" else 500)

    with_webhook(tmp_path, scenario)


@pytest.mark.parametrize(
    ("conditions", "policy", "decision", "asked"),
    [
        (("has(request.resourceAttributes)", "request.user == 'jane'"), "Deny", Decision.ALLOW, True),
        (("request.user == 'joe'", "request.uid == 'x'"), "Deny", Decision.NO_OPINION, False),
        (("request.uid == 'x'",), "Deny", Decision.DENY, False),
        (("request.uid == 'x'",), "NoOpinion", Decision.NO_OPINION, False),
    ],
)
def test_match_conditions(
    tmp_path: Path, conditions: tuple[str, ...], policy: str, decision: Decision, asked: bool
) -> None:
    async def scenario(server: ScriptedServer, file: Path) -> None:
        settings = tmp_path / "authorization.yaml"
        settings.write_text(config(file, policy, conditions))
        access = Access(AccessOptions(authorization_config=settings), (), FakeClock())
        authorizer = access.authorizers({"RBAC": AlwaysDenyAuthorizer()})[0]
        server.script(review("SubjectAccessReview", allowed=True))
        assert (await authorizer.authorize(ASKED)).decision is decision
        assert bool(server.seen) is asked
        await access.close()

    with_webhook(tmp_path, scenario)


def test_a_webhook_that_is_overloaded_is_asked_again(tmp_path: Path) -> None:
    async def scenario(server: ScriptedServer, file: Path) -> None:
        clock = FakeClock()
        options = AccessOptions(
            authorization_modes=("Webhook",), authorization_webhook_config=file, authorization_webhook_version="v1beta1"
        )
        access = Access(options, (), clock)
        (authorizer,) = access.authorizers({})
        server.script(reply_status(500, "InternalError", "oops"), review("SubjectAccessReview", allowed=True))
        attributes = Attributes(UserInfo("jane", groups=("dev",)), "get", path="/version")
        waiting = asyncio.create_task(authorizer.authorize(attributes))
        while len(server.seen) < 2:
            await asyncio.sleep(0)
            clock.advance(0.1)
        assert (await waiting).decision is Decision.ALLOW
        spec = msgspec.json.decode(server.seen[1].body)["spec"]
        assert spec == {
            "nonResourceAttributes": {"path": "/version", "verb": "get"},
            "user": "jane",
            "group": ["dev"],
        }
        await access.close()

    with_webhook(tmp_path, scenario)


# ------------------------------------------------------------------ modes and flags


def test_abac_and_the_modes(tmp_path: Path) -> None:
    policy = tmp_path / "policy.jsonl"
    spec = {"user": "jane", "apiGroup": "", "resource": "configmaps", "namespace": "*", "readonly": True}
    line = {"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec}
    policy.write_bytes(msgspec.json.encode(line))

    async def scenario() -> None:
        options = AccessOptions(authorization_modes=("ABAC",), authorization_policy_file=policy)
        async with Cluster(access=options) as cluster:
            jane = cluster.client("jane")
            assert (await jane.raw("GET", "/api/v1/configmaps")).status == 200
            assert (await jane.raw("GET", "/api/v1/secrets")).status == 403
            # Without RBAC, its bindings count for nothing.
            assert (await jane.raw("GET", "/version")).status == 403
        async with Cluster(access=AccessOptions(authorization_modes=("AlwaysDeny",))) as cluster:
            with pytest.raises(APIStatusError) as caught:
                await cluster.client("jane").list(catalog.SECRETS)
            assert "Everything is forbidden." in str(caught.value)
        async with Cluster(access=AccessOptions(authorization_modes=("AlwaysAllow",))) as cluster:
            assert (await cluster.client("jane").raw("GET", "/api/v1/secrets")).status == 200

    aio.run(scenario())


BOTH = (
    "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* "
    "flags are defined"
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (AccessOptions(authorization_modes=("Rbac",)), 'authorization-mode "Rbac" is not a valid mode'),
        (
            AccessOptions(authorization_modes=("RBAC", "RBAC")),
            'authorization-mode "RBAC" has mode specified more than once',
        ),
        (
            AccessOptions(authorization_modes=("ABAC",)),
            "authorization-mode ABAC's authorization policy file not passed",
        ),
        (
            AccessOptions(authorization_modes=("Webhook",)),
            "authorization-mode Webhook's authorization config file not passed",
        ),
        (
            AccessOptions(authorization_policy_file=Path("x")),
            "cannot specify --authorization-policy-file without mode ABAC",
        ),
        (
            AccessOptions(authorization_config=Path("x"), authorization_modes=("RBAC",)),
            BOTH,
        ),
        (
            AccessOptions(token_webhook_config=Path("/nowhere")),
            "the kubeconfig /nowhere cannot be read: No such file or directory",
        ),
    ],
)
def test_flags_that_cannot_be_meant(options: AccessOptions, message: str) -> None:
    with pytest.raises(AccessError) as caught:
        Access(options, (), FakeClock())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("/nowhere", "error loading file: stat /nowhere: no such file or directory"),
        ("/", "must be a regular file"),
    ],
)
def test_a_kubeconfig_that_is_none(tmp_path: Path, file: str, why: str) -> None:
    settings = tmp_path / "authorization.yaml"
    settings.write_text(config(Path(file)))
    with pytest.raises(AccessError) as caught:
        Access(AccessOptions(authorization_config=settings), (), FakeClock())
    path = "authorizers[0].connectionInfo.kubeConfigFile"
    assert str(caught.value) == f'--authorization-config {settings}: {path}: Invalid value: "{file}": {why}'
