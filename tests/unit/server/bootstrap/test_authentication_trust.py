"""server/bootstrap/authentication_trust.py: whom this server believes, for those who verify as it does."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from functools import cache

import msgspec
import pytest

from asynctest import async_test
from controller_world import NOW, World, world
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.authentication.request_header import RequestHeaderOptions
from kubevouch.client import stored
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.errors import ParseError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.server.bootstrap import authentication_trust
from kubevouch.server.bootstrap.authentication_trust import AuthenticationTrust

NAME, NAMESPACE = "extension-apiserver-authentication", "kube-system"
HEADERS = RequestHeaderOptions(allowed_names=("front-proxy-client",))
LISTS = {
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-username-headers": '["X-Remote-User"]',
}
DAY = dt.timedelta(days=1)


@cache
def authority(name: str, days: int = 100) -> Certificate:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    return create_authority(name, key, now=NOW, validity=days * DAY).certificate


def pem(*certificates: Certificate) -> str:
    return b"".join(each.pem() for each in certificates).decode()


def test_an_empty_config_map_gets_what_kube_apiserver_writes() -> None:
    trust = AuthenticationTrust((authority("a"),), (authority("p"),), HEADERS)
    assert trust.beside({}, NOW) == {
        "client-ca-file": pem(authority("a")), "requestheader-client-ca-file": pem(authority("p")), **LISTS,
    }  # fmt: skip
    assert AuthenticationTrust((authority("a"),), (), HEADERS).beside({}, NOW) == {
        "client-ca-file": pem(authority("a"))
    }


def test_what_other_servers_believe_stays_until_it_ends() -> None:
    trust = AuthenticationTrust((authority("a"),), (authority("p"),), HEADERS)
    theirs = {
        "client-ca-file": pem(authority("b", 1), authority("a")),
        "requestheader-client-ca-file": pem(authority("q", 2)),
        "requestheader-allowed-names": '["aggregator","front-proxy-client","aggregator"]',
        "somebody-s-own": "goes",
    }
    found = trust.beside(theirs, NOW)
    assert found["client-ca-file"] == pem(authority("b", 1), authority("a"))
    assert found["requestheader-client-ca-file"] == pem(authority("q", 2), authority("p"))
    assert json.loads(found["requestheader-allowed-names"]) == ["aggregator", "front-proxy-client"]
    assert "somebody-s-own" not in found
    # Five minutes of slack, as for a clock that is ahead.
    assert trust.beside(theirs, NOW + DAY + dt.timedelta(minutes=4))["client-ca-file"] == found["client-ca-file"]
    assert trust.beside(theirs, NOW + DAY + dt.timedelta(minutes=6))["client-ca-file"] == pem(authority("a"))
    assert trust.beside(found, NOW) == found


@pytest.mark.parametrize(
    "theirs",
    [{"client-ca-file": "hello"}, {"requestheader-allowed-names": '{"a":1}'}, {"requestheader-uid-headers": "["}],
)
def test_what_cannot_be_read_is_an_error(theirs: dict[str, str]) -> None:
    trust = AuthenticationTrust((authority("a"),), (authority("p"),), HEADERS)
    with pytest.raises((ParseError, ValueError)):
        trust.beside(theirs, NOW)


async def _stored(at: World) -> ConfigMap | None:
    return await stored.find(at.server.client, catalog.CONFIG_MAPS, NAME, NAMESPACE)


async def _back(at: World, wanted: ConfigMap) -> ConfigMap:
    """Once it says the same again; the work is done beside the loop."""
    while True:
        found = await _stored(at)
        if found is not None and found.data == wanted.data:
            return found
        await asyncio.sleep(0)


@async_test
async def test_a_server_writes_it_and_writes_it_again() -> None:
    async with world() as at:
        first = await _stored(at)
        assert first is not None
        mine = x509_certificate.parse_bundle(at.server.pki.ca_certificate)
        assert first.data["client-ca-file"] == pem(*mine)
        assert first.data["requestheader-client-ca-file"] == pem(at.server.pki.front_proxy)
        assert {key: first.data[key] for key in LISTS} == LISTS
        # Deleted, or overwritten: the event is enough, no time has to pass.
        await at.server.client.delete(catalog.CONFIG_MAPS, NAME, NAMESPACE)
        again = await _back(at, first)
        await at.server.client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(again, data={"a": "b"}))
        await _back(at, first)


@async_test
async def test_what_somebody_has_broken_or_filled_up_keeps_no_server_from_starting() -> None:
    async with world() as at:
        client = at.server.client
        found = await _stored(at)
        assert found is not None
        broken = msgspec.structs.replace(found, data={"client-ca-file": "hello"})
        await client.update(catalog.CONFIG_MAPS, broken)
        trust = AuthenticationTrust((authority("a"),), (), HEADERS)
        await authentication_trust.attempt(client, trust, NOW)
        kept = await _stored(at)
        assert kept is not None and kept.data == {"client-ca-file": "hello"}


@async_test
async def test_a_cluster_with_another_ca_is_told_from_ones_own() -> None:
    async with world() as at:
        mine = tuple(x509_certificate.parse_bundle(at.server.pki.ca_certificate))
        assert await authentication_trust.strangers(at.server.client, (authority("a"),), NOW) == mine
        # One that is being replaced is beside the new one.
        assert await authentication_trust.strangers(at.server.client, (authority("a"), *mine), NOW) == ()
        # And whose CA has ended gets another.
        ended = mine[0].not_after + DAY
        assert await authentication_trust.strangers(at.server.client, (authority("a"),), ended) == ()
