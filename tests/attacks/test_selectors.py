"""Selectors: one request with thousands of terms held everybody up for half a minute."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.interface import Client
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text import selectors
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.registry.reader import SCAN_SLICE
from served_world import Served, served

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
THOUSANDS = {
    "labelSelector": [
        ",".join(f"k{number}" for number in range(8500)),
        f"k in ({','.join(f'v{number}' for number in range(8500))})",
        f"k={'v' * 50_000}",
    ],
    "fieldSelector": [",".join(["metadata.name!=v"] * 2000), f"metadata.name={'v' * 50_000}"],
}
# As many keys as one may have, none of which makes an object drop out early.
MOST = ",".join(f"!k{number}" for number in range(selectors.MAX_TERMS))


@asynccontextmanager
async def over_https(at: Served, folder: Path) -> AsyncIterator[Client]:
    path = folder / "super.conf"
    path.write_text(at.kubeconfig(SUPER_ADMIN))
    client = client_from_kubeconfig(path, component="test")
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.parametrize("parameter", THOUSANDS)
@pytest.mark.parametrize(("method", "more"), [("GET", ""), ("GET", "&watch=1"), ("DELETE", "")])
@async_test
async def test_thousands_of_terms_are_refused_in_few_words(
    tmp_path: Path, method: str, more: str, parameter: str
) -> None:
    async with served(tmp_path) as at, over_https(at, tmp_path) as client:
        await client.raw("GET", "/version")  # so long a line is read only on a connection that has authenticated
        for text in THOUSANDS[parameter]:
            answer = await client.raw(method, f"{CONFIG_MAPS}?{parameter}={quote(text, safe='!=,()')}{more}")
            assert answer.status == 400
            assert json.loads(answer.body)["reason"] == "BadRequest"
            assert len(answer.body) < 1000


@pytest.mark.parametrize("part", ["fieldSelector", "labelSelector"])
@pytest.mark.parametrize("requirements", [1001, 1])
@async_test
async def test_an_access_review_has_no_more_terms_than_a_request(tmp_path: Path, part: str, requirements: int) -> None:
    values = ["v"] * (1001 // requirements)
    selector = {"requirements": [{"key": "k", "operator": "In", "values": values}] * requirements}
    review: dict[str, Any] = {"spec": {"resourceAttributes": {"verb": "list", "resource": "nodes", part: selector}}}
    async with served(tmp_path) as at, at.session(at.token) as session:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        async with session.post(path, json=review) as answer:
            assert answer.status == 422
            assert "Too many" in (await answer.json())["message"]


@async_test
async def test_the_dearest_selector_lets_others_have_their_turn(tmp_path: Path) -> None:
    objects = 300
    async with served(tmp_path) as at:
        for number in range(objects):
            meta = ObjectMeta(name=f"c{number}", namespace="default", labels={f"other{n}": "v" for n in range(20)})
            await at.admin.create(catalog.CONFIG_MAPS, ConfigMap(metadata=meta))
        turns, done = 0, False

        async def count() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        answer = await at.admin.raw("GET", f"{CONFIG_MAPS}?labelSelector={quote(MOST)}")
        done = True
        await counting
    assert len(json.loads(answer.body)["items"]) == objects
    assert turns >= objects * (selectors.MAX_TERMS // 16) // SCAN_SLICE
