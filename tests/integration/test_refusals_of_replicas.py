"""What one API server has acknowledged counts at the others at once: none refuses by what it knew before."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

from asynctest import async_test
from kubevouch.phases import bootstrap_token
from kubevouch.records.bootstrap_tokens import Token
from kubevouch.storage.watchcache.freshness import AGE_SECONDS
from kubevouch.testing.clock import FakeClock, settle
from replicas_world import answer, replicas

_TOKEN = Token("abcdef", "0123456789abcdef")


@async_test
async def test_a_token_counts_at_a_server_that_has_not_heard_of_it(tmp_path: Path) -> None:
    clock = FakeClock()
    async with replicas(2, tmp_path, clock) as (here, there):
        await settle()
        await clock.run(AGE_SECONDS)
        assert await answer(there, "/version", token=_TOKEN.text) == 401
        there.link.hears.clear()
        await bootstrap_token.create(here.client, bootstrap_token.plan(_TOKEN, now=clock.now(), ttl=dt.timedelta()))
        asked = asyncio.ensure_future(answer(there, "/version", token=_TOKEN.text))
        await settle()
        there.link.hears.set()
        assert await asked == 200
