"""Tokens of an OpenID Connect issuer, over TLS on both sides, by an AuthenticationConfiguration file."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from joserfc.jwk import ECKey, OctKey
from msgspec.structs import replace

import aio
from identity_provider import IdentityProvider
from kubevouch.authentication.interface import AuthenticationError, UserInfo
from kubevouch.machinery.codec import yamltext
from kubevouch.server.metrics.access import digest
from kubevouch.standalone.access import RELOAD_SECONDS, Access, AccessError
from kubevouch.standalone.access_options import AccessOptions, OIDCOptions
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock
from scripted_server import reply_status

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def config(provider: IdentityProvider, **jwt: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [
            {
                "issuer": {
                    "url": provider.url,
                    "audiences": ["kubevouch"],
                    "certificateAuthority": provider.ca.bundle.decode(),
                },
                "claimMappings": {"username": {"claim": "sub", "prefix": "idp:"}},
                **jwt,
            }
        ],
    }


class World:
    """A cluster that listens, and an issuer that it trusts."""

    def __init__(
        self, cluster: Cluster, provider: IdentityProvider, file: Path, session: aiohttp.ClientSession
    ) -> None:
        self.cluster = cluster
        self.provider = provider
        self.file = file
        self.session = session

    def token(self, **claims: Any) -> str:
        return self.provider.token(self.cluster.clock.now(), **claims)

    async def who(self, token: str) -> dict[str, Any] | int:
        """The user, or the status of the refusal."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        async with self.session.post(
            f"{self.cluster.url}{REVIEW}", json=body, headers={"Authorization": f"Bearer {token}"}
        ) as response:
            if response.status != 201:
                return response.status
            found: dict[str, Any] = (await response.json())["status"]["userInfo"]
            return found

    async def write(self, document: dict[str, Any]) -> None:
        """Replace the file, and let the server look."""
        self.file.write_text(yamltext.dumps(document))
        self.cluster.clock.advance(RELOAD_SECONDS)
        await asyncio.sleep(0.01)


@asynccontextmanager
async def world(folder: Path, anonymous: dict[str, Any] | None = None, **jwt: Any) -> AsyncIterator[World]:
    async with IdentityProvider(folder) as provider:
        file = folder / "authentication.yaml"
        document = config(provider, **jwt)
        if anonymous is not None:
            document["anonymous"] = anonymous
        file.write_text(yamltext.dumps(document))
        async with Cluster(https=True, access=AccessOptions(authentication_config=file)) as cluster:
            tls = ssl.create_default_context(cadata=cluster.pki.ca_certificate.decode())
            connector = aiohttp.TCPConnector(ssl=tls)
            async with aiohttp.ClientSession(connector=connector) as session:
                yield World(cluster, provider, file, session)


def test_claims_become_a_user(tmp_path: Path) -> None:
    mappings = {
        "username": {"expression": "'idp:' + claims.sub"},
        "groups": {"claim": "roles", "prefix": "idp:"},
        "uid": {"claim": "oid"},
        "extra": [{"key": "example.com/team", "valueExpression": "claims.?team.orValue('')"}],
    }

    async def scenario() -> None:
        async with world(tmp_path, claimMappings=mappings) as w:
            assert await w.who(w.token(roles=["dev", "ops"], oid="42", team="blue", jti="t1")) == {
                "username": "idp:jane",
                "uid": "42",
                "groups": ["idp:dev", "idp:ops", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=t1"], "example.com/team": ["blue"]},
            }
            assert await w.who(w.token(oid="42")) == {
                "username": "idp:jane",
                "uid": "42",
                "groups": ["system:authenticated"],
            }
            assert w.provider.paths == ["/.well-known/openid-configuration", "/keys"]

    aio.run(scenario())


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": ["another", 5]},
        {"aud": None},
        {"exp": 5},
        {"exp": None},
        {"exp": "tomorrow"},
        {"nbf": 9_999_999_999},
        {"sub": ""},
        {"sub": 5},
        {"sub": None},
    ],
)
def test_claims_that_do_not_hold(tmp_path: Path, claims: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as w:
            assert await w.who(w.token(**claims)) == 401

    aio.run(scenario())


def test_signatures_that_do_not_hold(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as w:
            good = w.token()
            header, payload, signature = good.split(".")
            stranger = ECKey.generate_key("P-256", {"kid": "first"})
            secret = OctKey.generate_key(256, {"kid": "first"})
            none = "eyJhbGciOiJub25lIn0"
            for token in (
                w.token(key=stranger),
                w.token(algorithm="HS256", key=secret),
                f"{none}.{payload}.",
                f"{none}.{payload}.{signature}",
                f"{header}.{payload}.AAAA",
                f"{header}.{payload[:-2]}.{signature}",
                f"{header}.{payload}",
                "a.b.c",
            ):
                assert await w.who(token) == 401, token
            assert isinstance(await w.who(good), dict)

    aio.run(scenario())


def test_a_new_key_is_found_at_once_and_a_flood_of_unknown_keys_is_not_passed_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as w:
            old = w.token()
            assert isinstance(await w.who(old), dict)
            w.provider.rotate("second")
            assert isinstance(await w.who(w.token()), dict)
            assert await w.who(old) == 401
            stranger = ECKey.generate_key("P-256", {"kid": "stranger"})
            for _ in range(20):
                assert await w.who(w.token(key=stranger)) == 401
            assert w.provider.paths.count("/keys") == 5
            w.cluster.clock.advance(60)
            w.provider.rotate("third")
            assert isinstance(await w.who(w.token()), dict)

    aio.run(scenario())


def test_rules_on_claims_and_users(tmp_path: Path) -> None:
    jwt: dict[str, Any] = {
        "claimValidationRules": [
            {"claim": "hd", "requiredValue": "example.com"},
            {"expression": "claims.exp - claims.iat <= 3600", "message": "lives too long"},
        ],
        "userValidationRules": [{"expression": "!user.username.startsWith('idp:system:')"}],
    }

    async def scenario() -> None:
        async with world(tmp_path, **jwt) as w:
            assert isinstance(await w.who(w.token(hd="example.com")), dict)
            assert await w.who(w.token()) == 401
            assert await w.who(w.token(hd="other.com")) == 401
            assert await w.who(w.token(hd="example.com", iat=0)) == 401
            assert await w.who(w.token(hd="example.com", iat="x")) == 401
            assert await w.who(w.token(hd="example.com", sub="system:admin")) == 401

    aio.run(scenario())


def test_an_issuer_that_is_not_there_lets_nobody_in_and_harms_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as w:
            token = w.token()
            await w.provider.server.__aexit__(None, None, None)
            assert await w.who(token) == 401
            admin = w.cluster.client()
            assert (await admin.raw("GET", "/readyz")).status == 200

    aio.run(scenario())


def test_many_at_once_share_one_look_at_the_issuer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as w:
            token, answer = w.token(), w.provider.server.answers[0]
            w.provider.server.script(reply_status(500, "InternalError", "oops"))
            assert await asyncio.gather(*[w.who(token) for _ in range(10)]) == [401] * 10
            assert len(w.provider.paths) < 5
            w.provider.server.script(answer)
            w.cluster.clock.advance(60)
            found = await asyncio.gather(*[w.who(token) for _ in range(10)])
            assert all(isinstance(each, dict) for each in found)
            assert w.provider.paths.count("/keys") == 1

    aio.run(scenario())


def test_one_issuer_by_flags(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with IdentityProvider(tmp_path) as provider:
            ca = tmp_path / "ca.crt"
            ca.write_bytes(provider.ca.bundle)
            clock = FakeClock()

            async def user_for(options: OIDCOptions, **claims: Any) -> UserInfo:
                access = Access(AccessOptions(oidc=options), (), clock)
                try:
                    found = await access.tokens[0].authenticate_token(provider.token(clock.now(), **claims))
                finally:
                    await access.close()
                assert found is not None
                return found.user

            usual = OIDCOptions(provider.url, "kubevouch", ca, groups_claim="g", groups_prefix="p:")
            with pytest.raises(AuthenticationError, match="failed to verify id token signature"):
                await user_for(usual)  # --oidc-signing-algs is RS256, and the token has ES256
            plain = replace(usual, signing_algorithms=("RS256", "ES256"))
            with pytest.raises(AccessError, match='unsupported signing alg: "HS256"'):
                await user_for(replace(usual, signing_algorithms=("HS256",)))
            assert await user_for(plain, g="a") == UserInfo(f"{provider.url}#jane", groups=("p:a",))
            bare = replace(plain, username_prefix="-", required_claims=(("hd", "x"),))
            assert await user_for(bare, hd="x") == UserInfo("jane")
            with pytest.raises(AuthenticationError, match="required claim hd"):
                await user_for(bare)
            assert await user_for(replace(plain, username_claim="email"), email="a@b") == UserInfo("a@b")

    aio.run(scenario())


def test_anonymous_rules(tmp_path: Path) -> None:
    async def scenario() -> None:
        rules = {"enabled": True, "conditions": [{"path": "/livez"}]}
        async with world(tmp_path, anonymous=rules) as w:
            for path, status in (("/livez", 200), ("/readyz", 401), ("/version", 401), ("/livez/ping", 401)):
                async with w.session.get(f"{w.cluster.url}{path}") as response:
                    assert response.status == status, path

    aio.run(scenario())


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as w:
            token = w.token()
            assert isinstance(await w.who(token), dict)
            changed = config(w.provider, claimMappings={"username": {"claim": "sub", "prefix": "new:"}})
            await w.write(changed)
            found = await w.who(token)
            assert isinstance(found, dict) and found["username"] == "new:jane"
            broken = config(w.provider, claimMappings={"username": {"expression": "claims.("}})
            await w.write(broken)
            found = await w.who(token)
            assert isinstance(found, dict) and found["username"] == "new:jane"
            await w.write({**changed, "jwt": []})
            assert await w.who(token) == 401

    aio.run(scenario())


def distributed(provider: IdentityProvider, **source: Any) -> dict[str, Any]:
    told = {"endpoint": f"{provider.url}/groups", "access_token": "for-groups", **source}
    return {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": told}}


def test_groups_that_are_kept_elsewhere(tmp_path: Path) -> None:
    mappings = {
        "username": {"claim": "sub", "prefix": ""},
        "groups": {"claim": "groups", "prefix": "idp:"},
        "extra": [{"key": "example.com/groups", "valueExpression": "string(size(claims.groups))"}],
    }

    async def scenario() -> None:
        async with world(tmp_path, claimMappings=mappings) as w:
            w.provider.distributed = w.token(groups=["dev", "ops"]).encode()
            token = w.token(**distributed(w.provider))
            for _ in range(3):
                found = await w.who(token)
                assert isinstance(found, dict)
                assert found["groups"] == ["idp:dev", "idp:ops", "system:authenticated"]
                assert found["extra"] == {"example.com/groups": ["2"]}
            assert w.provider.paths.count("/groups") == 1
            w.cluster.clock.advance(11)
            w.provider.distributed = w.token(groups="ops").encode()
            found = await w.who(token)
            assert isinstance(found, dict) and found["groups"] == ["idp:ops", "system:authenticated"]
            found = await w.who(w.token(groups=["own"], **distributed(w.provider)))
            assert isinstance(found, dict) and found["groups"] == ["idp:own", "system:authenticated"]

    aio.run(scenario())


def test_groups_kept_elsewhere_that_do_not_hold(tmp_path: Path) -> None:
    mappings = {"username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "groups", "prefix": ""}}

    async def scenario() -> None:
        async with world(tmp_path, claimMappings=mappings) as w:
            stranger = ECKey.generate_key("P-256", {"kid": "stranger"})
            for answer in (
                b"",
                b"no token",
                b"\xff",
                w.token(roles=["dev"]).encode(),
                w.token(groups=["dev"], aud="another").encode(),
                w.token(groups=["dev"], exp=5).encode(),
                w.token(groups=["dev"], iss="http://127.0.0.1:9").encode(),
                w.token(groups=["dev"], key=stranger).encode(),
            ):
                w.provider.distributed = answer
                assert await w.who(w.token(**distributed(w.provider))) == 401, answer
            w.provider.distributed = w.token(groups=["dev"]).encode()
            for source in ({"access_token": "wrong"}, {"endpoint": "http://127.0.0.1:9/groups"}, {"endpoint": 5}):
                assert await w.who(w.token(**distributed(w.provider, **source))) == 401, source
            assert isinstance(await w.who(w.token(**distributed(w.provider))), dict)

    aio.run(scenario())


def metrics_of(text: str, name: str) -> dict[str, str]:
    """The samples of a family: labels and value."""
    found = (line.removeprefix(name).rpartition(" ") for line in text.splitlines() if line.startswith(f"{name}{{"))
    return {labels: value for labels, _, value in found}


def test_what_is_counted_of_files_and_issuers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as w:

            async def family(name: str) -> dict[str, str]:
                answer = await w.cluster.client().raw("GET", "/metrics")
                return metrics_of(answer.body.decode(), f"apiserver_authentication_{name}")

            [first] = await family("config_controller_last_config_info")
            assert digest(w.file.read_bytes()) in first
            await w.who(w.token())
            await w.who(w.token(exp=5))
            await w.who("another.kind.oftoken")
            issuer = digest(w.provider.url.encode())
            latency = await family("jwt_authenticator_latency_seconds_count")
            assert latency == {
                f'{{jwt_issuer_hash="{issuer}",result="{result}"}}': "1.0" for result in ("success", "failure")
            }
            [fetched] = await family("jwt_authenticator_jwks_fetch_last_timestamp_seconds")
            assert f'jwt_issuer_hash="{issuer}"' in fetched and 'result="success"' in fetched
            [keys] = await family("jwt_authenticator_jwks_fetch_last_key_set_info")
            w.provider.rotate("second")
            await w.who(w.token())
            [others] = await family("jwt_authenticator_jwks_fetch_last_key_set_info")
            assert keys != others

            broken = config(w.provider, claimMappings={"username": {"expression": "claims.("}})
            await w.write(broken)
            assert [first] == list(await family("config_controller_last_config_info"))
            await w.write({**config(w.provider), "jwt": []})
            [second] = await family("config_controller_last_config_info")
            assert second != first
            reloads = await family("config_controller_automatic_reloads_total")
            assert sorted(labels.partition("status=")[2] for labels in reloads) == ['"failure"}', '"success"}']
            assert set(reloads.values()) == {"1.0"}
            times = await family("config_controller_automatic_reload_last_timestamp_seconds")
            assert max(map(float, times.values())) == w.cluster.clock.now().timestamp()
            assert not await family("jwt_authenticator_jwks_fetch_last_key_set_info")
            assert not await family("jwt_authenticator_jwks_fetch_last_timestamp_seconds")

    aio.run(scenario())


def test_tokens_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('s3cret,alice,42,"ops,dev"\n')

    async def scenario() -> None:
        async with Cluster(https=True, access=AccessOptions(token_auth_file=file)) as cluster:
            tls = ssl.create_default_context(cadata=cluster.pki.ca_certificate.decode())
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
                body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
                for token, status in (("s3cret", 201), ("s3cre", 401)):
                    headers = {"Authorization": f"Bearer {token}"}
                    async with session.post(f"{cluster.url}{REVIEW}", json=body, headers=headers) as answer:
                        assert answer.status == status
                        if status == 201:
                            assert (await answer.json())["status"]["userInfo"] == {
                                "username": "alice",
                                "uid": "42",
                                "groups": ["ops", "dev", "system:authenticated"],
                            }

    aio.run(scenario())
    file.write_text("s3cret\n")
    with pytest.raises(AccessError, match="must have at least 3 columns"):
        Access(AccessOptions(token_auth_file=file), (), FakeClock())
    file.write_bytes(b"\xff,a,b\n")
    with pytest.raises(AccessError, match="is not UTF-8"):
        Access(AccessOptions(token_auth_file=file), (), FakeClock())


def test_a_review_that_names_audiences(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as w:
            admin = w.cluster.client()

            async def review(audiences: list[str]) -> dict[str, Any]:
                body = {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenReview",
                    "spec": {"token": w.token(), "audiences": audiences},
                }
                answer = await admin.raw(
                    "POST",
                    "/apis/authentication.k8s.io/v1/tokenreviews",
                    msgspec.json.encode(body),
                    {"Content-Type": "application/json"},
                )
                status: dict[str, Any] = msgspec.json.decode(answer.body)["status"]
                return status

            ours = "https://kubernetes.default.svc.cluster.local"
            assert (await review([]))["user"]["username"] == "idp:jane"
            assert (await review([ours, "x"]))["audiences"] == [ours]
            assert "authenticated" not in await review(["x"])

    aio.run(scenario())


def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "authentication.yaml"
    options = AccessOptions(authentication_config=file)
    with pytest.raises(AccessError, match=r"cannot be read: no such file"):
        Access(options, (), FakeClock(dt.datetime(2026, 1, 1, tzinfo=dt.UTC)))
    file.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true}"
    )
    with pytest.raises(AccessError, match=r"^--anonymous-auth flag cannot be set"):
        Access(AccessOptions(authentication_config=file, anonymous_auth=True), (), FakeClock())
