"""client/stored.py: what is read, decided about and written back while others write too."""

from __future__ import annotations

import ssl
from typing import Any

import msgspec
import pytest

from asynctest import on_both_loops
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client import stored
from kubevouch.client.https import HTTPSClient
from kubevouch.client.options import ClientOptions
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing.clock import FakeClock
from scripted_server import Handler, ScriptedServer, reply_json, reply_status
from throwaway_ca import ThrowawayCA

GONE = reply_status(404, "NotFound", "no")
CONFLICT = reply_status(409, "Conflict", "somebody else")
EXISTS = reply_status(409, "AlreadyExists", "somebody else")


def there(value: str) -> Handler:
    metadata = {"name": "a", "namespace": "n"}
    return reply_json({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"k": value}})


class Deciding:
    """Appends a letter to what it sees, and keeps that."""

    def __init__(self, *, leave: bool = False) -> None:
        self.seen: list[str] = []
        self._leave = leave

    def __call__(self, found: ConfigMap | None) -> ConfigMap | None:
        self.seen.append("" if found is None else found.data["k"])
        if self._leave:
            return found
        fresh = found or ConfigMap(metadata=ObjectMeta(name="a", namespace="n"))
        return msgspec.structs.replace(fresh, data={"k": f"{self.seen[-1]}x"})


async def changed(ca: ThrowawayCA, serving: ssl.SSLContext, decide: Any, *answers: Handler) -> list[str]:
    """The methods of the requests, in order."""
    async with ScriptedServer(serving) as server:
        clock = FakeClock()
        tls = TLSFiles(TLSSources(ca_bundle=ca.bundle), clock)
        server.script(*answers)
        try:
            async with HTTPSClient(ClientOptions(server.url, protobuf=False), tls=tls, clock=clock) as client:
                await stored.change(client, CONFIG_MAPS, "a", "n", decide)
        finally:
            methods = [seen.method for seen in server.seen]
        return methods


@on_both_loops
async def test_it_is_decided_again_about_what_somebody_else_has_written(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    decide = Deciding()
    answers = (there("1"), CONFLICT, there("2"), GONE, GONE, EXISTS, there("3"), there("3x"))
    methods = await changed(ca, serving, decide, *answers)
    assert methods == ["GET", "PUT", "GET", "PUT", "GET", "POST", "GET", "PUT"]
    assert decide.seen == ["1", "2", "", "3"]


@on_both_loops
async def test_what_stays_as_it_is_is_not_written(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    for first in (there("1"), GONE):
        assert await changed(ca, serving, Deciding(leave=True), first) == ["GET"]


@on_both_loops
async def test_it_gives_up_after_five_conflicts_and_at_once_on_a_refusal(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    decide = Deciding()
    with pytest.raises(APIStatusError, match="somebody else"):
        await changed(ca, serving, decide, *([there("1"), CONFLICT] * 6))
    assert len(decide.seen) == 5
    refused = Deciding()
    with pytest.raises(APIStatusError, match="no"):
        await changed(ca, serving, refused, there("1"), reply_status(403, "Forbidden", "no"))
    assert len(refused.seen) == 1
