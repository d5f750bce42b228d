"""Service account tokens: what is signed is accepted, and only while everything it names is there."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import uuid
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc import jws
from joserfc.jwk import RSAKey

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
RSA_KEY = rsa.generate_private_key(65537, 2048)
FORGED = Issuer(URL, SigningKeys(ec.generate_private_key(ec.SECP256R1())))
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
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert str(uuid.UUID(claims["jti"])) == claims["jti"]
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
    with pytest.raises(AuthenticationError, match="invalid signature"):
        world.read(world.token(issuer=FORGED))


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


def test_one_good_signature_is_not_anothers(world: World) -> None:
    """What is remembered of one token says nothing of the next."""
    good = world.token()
    for _ in range(2):
        assert world.read(good) is not None
    head, payload, _ = good.split(".")
    for forged in (f"{head}.{payload}.", f"{head}.{payload}.AAAA", world.token(issuer=FORGED)):
        with pytest.raises(AuthenticationError, match="invalid signature"):
            world.read(forged)
    other = ISSUER.keys.sign(claims_of(good) | {"jti": "other"})
    found = world.read(other)
    assert found is not None
    assert found.user.extra == {"authentication.kubernetes.io/credential-id": ("JTI=other",)}


@pytest.mark.parametrize(
    "private",
    [
        None,
        {},
        {"namespace": "default"},
        {"serviceaccount": {"name": "robot", "uid": "u-1"}},
        {"namespace": "", "serviceaccount": {"name": "robot", "uid": "u-1"}},
    ],
)
def test_a_token_without_the_claims_of_an_account_is_nobodys(world: World, private: dict[str, Any] | None) -> None:
    world.accounts["", "robot"] = ACCOUNT
    token = ISSUER.keys.sign(claims_of(world.token()) | {"kubernetes.io": private})
    with pytest.raises(AuthenticationError, match=r"^token lacks the claims of a service account$"):
        world.read(token)


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_either_time_keeps_a_token_from_being_used_early(world: World, claim: str) -> None:
    claims = claims_of(world.token())
    early = ISSUER.keys.sign(claims | {claim: claims[claim] + 60})
    assert world.read(early) is not None
    too_early = ISSUER.keys.sign(claims | {claim: claims[claim] + 61})
    with pytest.raises(AuthenticationError, match="not valid yet"):
        world.read(too_early)


def test_an_audience_may_be_a_text(world: World) -> None:
    claims = claims_of(world.token())
    assert world.read(ISSUER.keys.sign(claims | {"aud": URL})) is not None
    with pytest.raises(AuthenticationError, match="audiences"):
        world.read(ISSUER.keys.sign(claims | {"aud": f"{URL}/other"}))


def test_a_token_of_a_pod_says_on_which_node_it_runs(world: World) -> None:
    claims = claims_of(world.token(bound=BoundObject("Node", "n", "u-3")))
    found = world.read(ISSUER.keys.sign(claims))
    assert found is not None
    assert found.method == "service-account-token"
    assert found.audiences == ()
    assert found.user.extra == {
        "authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",),
        "authentication.kubernetes.io/node-name": ("n",),
        "authentication.kubernetes.io/node-uid": ("u-3",),
    }
    del claims["jti"]
    nameless = world.read(ISSUER.keys.sign(claims))
    assert nameless is not None
    assert "authentication.kubernetes.io/credential-id" not in nameless.user.extra


def test_of_a_secret_and_a_node_only_the_secret_has_to_be_there(world: World) -> None:
    """As in Kubernetes: the node of a token bound to something else only says where it was made."""
    claims = claims_of(world.token(bound=BoundObject("Secret", "s", "u-2")))
    claims["kubernetes.io"]["node"] = {"name": "gone", "uid": "u-9"}
    assert world.read(ISSUER.keys.sign(claims)) is not None
    claims["kubernetes.io"]["secret"]["uid"] = "u-9"
    with pytest.raises(AuthenticationError, match=r"^secret s is another one than the token was made for$"):
        world.read(ISSUER.keys.sign(claims))


def test_what_relying_parties_are_told() -> None:
    document = Issuer(URL, ISSUER.keys, accepted_keys=(SigningKeys(RSA_KEY),)).discovery("https://api/keys")
    assert document == {
        "issuer": URL,
        "jwks_uri": "https://api/keys",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256", "RS256"],
    }
    assert Issuer(URL, ISSUER.keys, keys_url="https://keys").discovery("https://api/keys")["jwks_uri"] == "https://keys"


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
    keys = SigningKeys(RSA_KEY)
    assert keys.algorithm == "RS256"
    entry = Issuer(URL, keys).key_set()["keys"][0]
    assert entry["kty"] == "RSA"
    assert "d" not in entry
    assert keys.verified(world.token(issuer=Issuer(URL, keys)))


@pytest.mark.parametrize(
    ("curve", "algorithm"), [(ec.SECP256R1(), "ES256"), (ec.SECP384R1(), "ES384"), (ec.SECP521R1(), "ES512")]
)
def test_every_curve_has_its_algorithm(curve: ec.EllipticCurve, algorithm: str) -> None:
    keys = SigningKeys(ec.generate_private_key(curve))
    assert claims_of(f".{base64.urlsafe_b64encode(keys.verified(keys.sign({'a': 'b'}))).decode()}.") == {"a": "b"}
    entry = keys.entry()
    assert (entry["use"], entry["alg"], entry["kid"], entry["kty"]) == ("sig", algorithm, keys.key_id, "EC")
    assert len(keys.key_id) == 43  # the digest without padding


def test_a_good_signature_by_another_algorithm_than_the_keys_is_refused() -> None:
    token = jws.serialize_compact({"alg": "RS512"}, b"{}", RSAKey.import_key(RSA_KEY), algorithms=["RS512"])
    with pytest.raises(AuthenticationError, match="invalid signature"):
        SigningKeys(RSA_KEY).verified(token)


def test_former_keys_are_accepted_still(world: World) -> None:
    former = [SigningKeys(ec.generate_private_key(ec.SECP256R1())) for _ in range(2)]
    issuer = Issuer(URL, ISSUER.keys, accepted_keys=tuple(former))
    for keys in (ISSUER.keys, *former):
        assert issuer.verified(world.token(issuer=Issuer(URL, keys)))
    with pytest.raises(AuthenticationError, match="invalid signature"):
        issuer.verified(world.token(issuer=FORGED))


def test_other_keys_are_refused() -> None:
    with pytest.raises(UnusableKeyError, match="RSA or ECDSA"):
        SigningKeys(ed25519.Ed25519PrivateKey.generate())


@pytest.mark.parametrize("payload", [b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"iss":"\xff"}'])
def test_claims_that_no_reader_takes_are_left_to_others(world: World, payload: bytes) -> None:
    """Too deep for a stack, or not UTF-8: nobody's credential, and no error of the server."""
    assert world.read(f"a.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.b") is None
