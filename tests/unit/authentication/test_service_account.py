"""Service account tokens: what is signed is accepted, and only while everything it names is there."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from kubevouch.api.core_v1 import Node, Secret, ServiceAccount
from kubevouch.authentication.interface import Authentication, AuthenticationError
from kubevouch.authentication.service_account import (
    BoundObject,
    Issuer,
    ServiceAccountAuthenticator,
    SigningKeys,
    UnusableKeyError,
)
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.testing.clock import FakeClock

URL = "https://kubernetes.default.svc.cluster.local"
KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER = Issuer(URL, SigningKeys(KEY))
ACCOUNT = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default", uid="u-1"))
HOUR = dt.timedelta(hours=1)


class World:
    """What is stored, as the authenticator reads it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.accounts: dict[tuple[str, str], Object] = {("default", "robot"): ACCOUNT}
        self.secrets: dict[tuple[str, str], Object] = {
            ("default", "s"): Secret(metadata=ObjectMeta(name="s", namespace="default", uid="u-2"))
        }
        self.nodes: dict[tuple[str, str], Object] = {("", "n"): Node(metadata=ObjectMeta(name="n", uid="u-3"))}
        self.authenticator = ServiceAccountAuthenticator(
            ISSUER,
            lambda *key: self.accounts.get(key),
            lambda *key: self.secrets.get(key),
            lambda *key: self.nodes.get(key),
            self.clock,
        )

    def token(
        self, *, issuer: Issuer = ISSUER, audiences: tuple[str, ...] = (URL,), bound: BoundObject | None = None
    ) -> str:
        now = self.clock.now()
        return issuer.issue(ACCOUNT, audiences, now=now, until=now + HOUR, bound=bound)

    def read(self, token: str, audiences: tuple[str, ...] = ()) -> Authentication | None:
        return asyncio.run(self.authenticator.authenticate_token(token, audiences))


@pytest.fixture
def world() -> World:
    return World()


def claims_of(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return claims


def test_a_token_stands_for_its_account(world: World) -> None:
    token = world.token()
    found = world.read(token)
    assert found is not None
    assert found.user.name == "system:serviceaccount:default:robot"
    assert found.user.uid == "u-1"
    assert found.user.groups == ("system:serviceaccounts", "system:serviceaccounts:default")
    assert found.user.extra == {"authentication.kubernetes.io/credential-id": (f"JTI={claims_of(token)['jti']}",)}


def test_the_claims_are_kubernetes(world: World) -> None:
    claims = claims_of(world.token(bound=BoundObject("Node", "n", "u-3")))
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["nbf"] == claims["iat"]
    assert claims["kubernetes.io"] == {
        "namespace": "default",
        "node": {"name": "n", "uid": "u-3"},
        "serviceaccount": {"name": "robot", "uid": "u-1"},
    }


def test_a_token_of_another_issuer_is_left_to_others(world: World) -> None:
    other = Issuer("https://elsewhere", SigningKeys(ec.generate_private_key(ec.SECP256R1())))
    assert world.read(world.token(issuer=other)) is None


@pytest.mark.parametrize("text", ["", "abcdef.0123456789abcdef", "a.b.c", "a.b", "é.é.é", "." * 20_000])
def test_what_is_no_json_web_token_is_left_to_others(world: World, text: str) -> None:
    assert world.read(text) is None


def test_our_issuer_with_another_key_is_refused(world: World) -> None:
    forged = Issuer(URL, SigningKeys(ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(AuthenticationError, match="invalid signature"):
        world.read(world.token(issuer=forged))


def test_the_header_does_not_choose_the_algorithm(world: World) -> None:
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    _, payload, _ = world.token().split(".")
    with pytest.raises(AuthenticationError, match="invalid signature"):
        world.read(f"{header}.{payload}.")


def test_a_changed_claim_is_refused(world: World) -> None:
    head, payload, signature = world.token().split(".")
    claims = claims_of(f".{payload}.")
    claims["sub"] = "system:serviceaccount:kube-system:admin"
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    with pytest.raises(AuthenticationError, match="invalid signature"):
        world.read(f"{head}.{changed}.{signature}")


def test_the_minute_of_leeway_at_the_end(world: World) -> None:
    token = world.token()
    world.clock.set(world.clock.now() + HOUR + dt.timedelta(seconds=60))
    assert world.read(token) is not None
    world.clock.set(world.clock.now() + dt.timedelta(seconds=2))
    with pytest.raises(AuthenticationError, match="expired"):
        world.read(token)


def test_a_token_from_the_future_is_refused(world: World) -> None:
    token = world.token()
    world.clock.set(world.clock.now() - dt.timedelta(seconds=62))
    with pytest.raises(AuthenticationError, match="not valid yet"):
        world.read(token)


def test_audiences(world: World) -> None:
    token = world.token(audiences=("vault", "other"))
    with pytest.raises(AuthenticationError, match="audiences"):
        world.read(token)
    found = world.read(token, ("vault", "db"))
    assert found is not None
    assert found.audiences == ("vault",)


def test_the_account_is_gone(world: World) -> None:
    token = world.token()
    world.accounts.clear()
    with pytest.raises(AuthenticationError, match="service account robot is gone"):
        world.read(token)


def test_an_account_of_the_same_name_is_another(world: World) -> None:
    token = world.token()
    world.accounts["default", "robot"] = ServiceAccount(
        metadata=ObjectMeta(name="robot", namespace="default", uid="u-9")
    )
    with pytest.raises(AuthenticationError, match="another one"):
        world.read(token)


@pytest.mark.parametrize(
    ("bound", "stored"), [(BoundObject("Secret", "s", "u-2"), "secrets"), (BoundObject("Node", "n", "u-3"), "nodes")]
)
def test_a_token_ends_with_what_it_is_bound_to(world: World, bound: BoundObject, stored: str) -> None:
    token = world.token(bound=bound)
    assert world.read(token) is not None
    getattr(world, stored).clear()
    with pytest.raises(AuthenticationError, match="is gone"):
        world.read(token)


def test_rsa_keys_sign_too(world: World) -> None:
    keys = SigningKeys(rsa.generate_private_key(65537, 2048))
    assert keys.algorithm == "RS256"
    entry = Issuer(URL, keys).key_set()["keys"][0]
    assert entry["kty"] == "RSA"
    assert "d" not in entry
    assert keys.verified(world.token(issuer=Issuer(URL, keys)))


def test_other_keys_are_refused() -> None:
    with pytest.raises(UnusableKeyError, match="RSA or ECDSA"):
        SigningKeys(ed25519.Ed25519PrivateKey.generate())


@pytest.mark.parametrize("payload", [b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"iss":"\xff"}'])
def test_claims_that_no_reader_takes_are_left_to_others(world: World, payload: bytes) -> None:
    """Too deep for a stack, or not UTF-8: nobody's credential, and no error of the server."""
    assert world.read(f"a.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.b") is None
