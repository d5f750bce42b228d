"""The life of a token, as a real cluster remembers it."""

from __future__ import annotations

import datetime as dt

import pytest

from asynctest import async_test
from join_requests import GROUPS, ask
from kubevouch.phases import bootstrap_token
from kubevouch.reviews import token_biography
from kubevouch.testing.cluster import Cluster


@async_test
async def test_the_biography_of_a_token() -> None:
    async with Cluster(controllers=("*",)) as cluster:
        token_id, other = (await cluster.token_async())[:6], (await cluster.token_async())[:6]
        await ask(cluster, token_id)
        cluster.clock.advance(5)
        await ask(cluster, token_id, name="csr-2", node="worker-2")
        client = cluster.client()
        found = await token_biography.fetch(client, token_id, now=cluster.clock.now())
        assert (found.state, found.signed) == ("valid", True)
        assert found.usages == ("signing", "authentication")
        assert found.groups == tuple(GROUPS)
        assert [(each.request, each.subject, each.state) for each in found.attempts] == [
            ("csr-2", "system:node:worker-2", "Issued"), ("csr-1", "system:node:worker-1", "Issued"),
        ]  # fmt: skip
        assert (await token_biography.fetch(client, other, now=cluster.clock.now())).attempts == ()
        later = cluster.clock.now() + dt.timedelta(hours=25)
        assert (await token_biography.fetch(client, token_id, now=later)).state == "expired"
        await bootstrap_token.delete(client, token_id)
        await cluster.settle_async()
        found = await token_biography.fetch(client, token_id, now=cluster.clock.now())
        assert (found.state, found.signed, len(found.attempts)) == ("deleted", False, 2)
        with pytest.raises(token_biography.UnknownTokenError, match="nothing is known"):
            await token_biography.fetch(client, "000000", now=cluster.clock.now())
