"""What a pool's token says of how it is kept is read strictly, and a follower has all but the token from it."""

from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.api.core_v1 import Secret
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.records import token_bounds, token_pools
from kubevouch.records.bootstrap_tokens import USAGES, BootstrapToken, from_secret, parse_token, to_secret
from kubevouch.records.token_bounds import Bounds
from kubevouch.records.token_pools import Keeping, TokenPoolError

TOKEN = parse_token("p9k2zq.w7e1r5t3y9u8i0oa")
TTL = dt.timedelta(minutes=15)
NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)


def a_secret() -> Secret:
    return to_secret(BootstrapToken(TOKEN, "for web", NOW, USAGES, ("system:bootstrappers:web",), Bounds(uses=3)))


@pytest.mark.parametrize(
    ("name", "keeping", "nodes", "ttl", "why"),
    [
        ("", "renew", "", TTL, "got the pool ''"),
        ("a b", "renew", "", TTL, "got the pool 'a b'"),
        ("web", "renewal", "", TTL, "expected until-nodes, rotate, renew"),
        ("web", "rotate", " ", TTL, "needs to know the nodes of its pool"),
        ("web", "until-nodes", "", TTL, "needs to know the nodes of its pool"),
        ("web", "rotate", "pool in (", TTL, "got the nodes 'pool in ('"),
        ("web", "renew", "", dt.timedelta(seconds=59), "got a life of 0:00:59"),
        ("web", "renew", "", dt.timedelta(days=8), "got a life of 8 days"),
    ],
)
def test_pools_that_no_token_may_be_for(name: str, keeping: str, nodes: str, ttl: dt.timedelta, why: str) -> None:
    with pytest.raises(TokenPoolError) as caught:
        token_pools.parse(name, keeping, nodes, ttl)
    assert why in str(caught.value)


def test_what_is_written_is_read() -> None:
    pool = token_pools.parse("web", "rotate", "pool=web,zone in (a, b)", TTL)
    kept = token_pools.with_pool(a_secret(), pool)
    assert token_pools.pool_of(kept) == pool
    assert pool.selector.matches({"pool": "web", "zone": "a"})
    assert token_pools.without_pool(kept) == a_secret()
    assert token_pools.pool_of(a_secret()) is None


@pytest.mark.parametrize("ttl", ["", "0", "-900", "9e2", "900s", "٩٠٠", "99999999"])
def test_a_life_that_cannot_be_read(ttl: str) -> None:
    kept = token_pools.with_pool(a_secret(), token_pools.parse("web", "renew", "", TTL))
    broken = replace_metadata(kept, annotations={**kept.metadata.annotations, token_pools.TTL_ANNOTATION: ttl})
    with pytest.raises(TokenPoolError):
        token_pools.pool_of(broken)


def test_a_follower_has_the_settings_and_not_the_record() -> None:
    kept = token_pools.with_pool(a_secret(), token_pools.parse("web", "renew", "", TTL))
    seen = replace_metadata(
        kept, annotations={**kept.metadata.annotations, "bootstrap-token.kubevouch.io/used-by": "m1"}, uid="u",
        resource_version="7",
    )  # fmt: skip
    other = parse_token("abcdef.0123456789abcdef")
    found = token_pools.replaced(seen, other, NOW + TTL)
    assert from_secret(found) == BootstrapToken(
        other, "for web", NOW + TTL, tuple(sorted(USAGES)), ("system:bootstrappers:web",), Bounds(uses=3)
    )
    assert token_pools.pool_of(found) == token_pools.TokenPool("web", Keeping.RENEW, "", TTL)
    assert (found.metadata.name, found.metadata.uid, found.metadata.resource_version) == (other.secret_name, "", "")
    assert set(found.metadata.annotations) == {
        token_bounds.USES_ANNOTATION, token_pools.KEEPING_ANNOTATION, token_pools.TTL_ANNOTATION,
    }  # fmt: skip


def test_what_machines_start_with_gets_the_other_token() -> None:
    data = Secret(metadata=ObjectMeta(name="pool-1"), data={"value": b"a abcdef.0123456789abcdef b", "format": b"x"})
    found = token_pools.with_token(data, "value", "abcdef.0123456789abcdef", TOKEN.text)
    assert found.data == {"value": f"a {TOKEN.text} b".encode(), "format": b"x"}
