"""Who somebody is: the answers of a running kube-apiserver 1.36.2, given here without a server."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api.core_v1.secrets import Secret, default_secret
from kubevouch.authentication.anonymous import AnonymousAuthenticator
from kubevouch.authentication.bearer import BearerAuthenticator
from kubevouch.authentication.bootstrap_token import BootstrapTokenAuthenticator
from kubevouch.authentication.impersonation import requested
from kubevouch.authentication.interface import Authentication, AuthenticationError, Credentials, UserInfo
from kubevouch.authentication.request_header import RequestHeaderAuthenticator
from kubevouch.authentication.union import UnionAuthenticator
from kubevouch.authentication.x509 import X509Authenticator
from kubevouch.authorization.impersonation import Impersonator
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.x509 import pem
from kubevouch.testing.clock import FakeClock
from throwaway_ca import ThrowawayCA
from unit.authorization.policy_cases import VECTORS, attributes_of, authorizer_for, cases, user_of

FIXTURES = VECTORS / "fixtures-server"
NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


def lower(headers: dict[str, str]) -> dict[str, list[str]]:
    return {name.lower(): [value] for name, value in headers.items()}


def authenticator_for(case: dict[str, Any]) -> UnionAuthenticator:
    """As kubeadm configures it: a request-header CA, a client CA, bootstrap tokens, anonymous requests."""
    clock = FakeClock(NOW)
    secrets: dict[str, Secret] = {}
    for tree in case["given"].get("objects", []):
        if tree["kind"] == "Secret":
            secret = default_secret(json_codec.from_tree(tree, Secret).value)
            secrets[secret.metadata.name] = secret
    client_ca = TrustAnchors.from_pem((FIXTURES / "ca.pem").read_bytes())
    proxy_ca = TrustAnchors.from_pem(ThrowawayCA("front-proxy").bundle)
    return UnionAuthenticator(
        [
            RequestHeaderAuthenticator(proxy_ca, clock),
            X509Authenticator(client_ca, clock),
            BearerAuthenticator([BootstrapTokenAuthenticator(secrets.get, clock)]),
        ],
        AnonymousAuthenticator(),
    )


def credentials_of(case: dict[str, Any]) -> Credentials:
    headers = case["when"].get("headers") or {}
    chain: tuple[bytes, ...] = ()
    if certificate := case["given"].get("client_certificate"):
        block = pem.first_block((FIXTURES / certificate).read_bytes())
        assert block is not None
        chain = (block.contents,)
    return Credentials(chain, headers.get("Authorization"), lower(headers))


AUTHENTICATED = [
    case
    for case in cases("authn")
    if "Impersonate" not in str(case["when"]) and "$TOKEN" not in str(case) and "user" not in case["given"]
]


@pytest.mark.parametrize("case", AUTHENTICATED, ids=[case["id"] for case in AUTHENTICATED])
@async_test
async def test_credentials(case: dict[str, Any]) -> None:
    authenticator, credentials, then = authenticator_for(case), credentials_of(case), case["then"]
    if then["status"] == 401:
        with pytest.raises(AuthenticationError):
            await authenticator.authenticate(credentials)
        return
    found = await authenticator.authenticate(credentials)
    for path, expected in then.get("fields", {}).items():
        check_field(found, path.removeprefix("status.userInfo.").removeprefix("spec."), expected)
    if "message_exact" in then:
        name = re.search(r'User "([^"]*)"', then["message_exact"])
        assert name is not None
        assert found.user.name == name[1]


def check_field(found: Authentication, field: str, expected: Any) -> None:
    user = found.user
    values: dict[str, Any] = {
        "username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)
    }  # fmt: skip
    if expected == "$any":
        assert values[field]
    else:
        assert values[field] == (expected if expected != "$absent" else type(values[field])())


def test_that_every_kind_of_answer_is_there() -> None:
    statuses = [case["then"]["status"] for case in AUTHENTICATED]
    assert {200, 201, 401, 403} == set(statuses)
    assert statuses.count(401) >= 12


# ------------------------------------------------------------------ impersonation

IMPERSONATIONS = [case for case in cases("authn") if case["id"].startswith("srv-impersonate")]


@pytest.mark.parametrize("case", IMPERSONATIONS, ids=[case["id"] for case in IMPERSONATIONS])
@async_test
async def test_impersonation(case: dict[str, Any]) -> None:
    then = case["then"]
    try:
        wanted = requested(lower(case["when"]["headers"]))
        assert wanted is not None
        attributes = attributes_of(user_of(case["given"]["user"]), case["when"])
        impersonated = await Impersonator(authorizer_for(case)).impersonate(attributes, wanted)
    except APIStatusError as err:
        got = (err.code, err.reason, err.status.message)
        expected = (then["status"], then["reason"], then.get("message_exact") or then.get("seen") or got[2])
        assert got == expected
        # The words of before 1.36 stand in one case; "seen" has today's.
        assert then.get("body_contains", "") in got[2] or "seen" in then
        return
    assert then["status"] == 201
    user = impersonated.user
    if "status.userInfo" in then["fields"]:
        info = then["fields"]["status.userInfo"]
        extra = {key: tuple(values) for key, values in info["extra"].items()}
        assert user == UserInfo(info["username"], info["uid"], tuple(info["groups"]), extra)
    else:
        assert user.name == then["fields"]["status.userInfo.username"]
        assert list(user.groups) == then["fields"]["status.userInfo.groups"]


def test_groups_of_the_wellknown_names_agree() -> None:
    """The interface spells three names itself, because it stands below everything else."""

    assert wellknown.ANONYMOUS_USER == wellknown.ANONYMOUS_USER
    assert wellknown.AUTHENTICATED_GROUP == wellknown.AUTHENTICATED_GROUP
    assert wellknown.UNAUTHENTICATED_GROUP == wellknown.UNAUTHENTICATED_GROUP
    assert wellknown.CREDENTIAL_ID_EXTRA == wellknown.CREDENTIAL_ID_EXTRA
