"""S20: requests without a credential, or with a bad one, in any number, keep no honest machine out."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from pathlib import Path

import aiohttp

from asynctest import async_test
from join_requests import KEY
from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.controllers import start_controllers
from served_world import Served, served
from wire import CSRS

CLIENTS = 300
JOINS = 3
# By count, because seconds are the machine's: what the server answers to garbage while one machine joins.
GARBAGE_A_JOIN = 1000
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"


def garbage(at: Served, number: int) -> tuple[str, str, dict[str, str]]:
    """Method, path and headers of a request that proves nothing."""
    token_id = at.token.partition(".")[0]
    kinds: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("GET", CSRS, {"Authorization": f"Bearer {token_id}.{number:016}"}),
        ("GET", CSRS, {"Authorization": f"Bearer {number:06}.{number:016}"}),
        ("POST", CSRS, {"Authorization": f"Bearer {'x' * 2000}{number}"}),
        ("POST", f"/apis/group{number}/v1/things", {}),
        ("GET", f"/api/v1/namespaces/default/secrets/{number}", {}),
        ("GET", CLUSTER_INFO, {}),
    )
    return kinds[number % len(kinds)]


def csr(number: int) -> bytes:
    subject = Subject(common_name=f"system:node:honest-{number}", organizations=("system:nodes",))
    spec = CertificateSigningRequestSpec(
        request=build_request(KEY, subject),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    return json_codec.encode(CertificateSigningRequest(metadata=ObjectMeta(name=f"honest-{number}"), spec=spec))


async def joined(session: aiohttp.ClientSession, number: int) -> None:
    """From the request to its certificate, as a machine does it."""
    headers = {"Content-Type": "application/json"}
    async with session.post(CSRS, data=csr(number), headers=headers) as answer:
        assert answer.status == 201, await answer.text()
    watch = f"{CSRS}?watch=1&fieldSelector=metadata.name%3Dhonest-{number}"
    async with session.get(watch) as answer:
        assert answer.status == 200
        async for line in answer.content:
            if json.loads(line)["object"].get("status", {}).get("certificate"):
                return
    raise AssertionError("the watch ended without a certificate")


@async_test
async def test_machines_join_behind_garbage_that_does_not_end(tmp_path: Path) -> None:
    codes: Counter[int] = Counter()
    numbers = itertools.count()
    async with served(tmp_path) as at, at.session() as bad, at.session(at.token) as good:
        await own_kinds.ensure(at.server.client)
        controllers = start_controllers(at.server, ("csrapproving", "csrsigning"))

        async def flood() -> None:
            while True:
                method, path, headers = garbage(at, next(numbers))
                async with bad.request(method, path, headers=headers) as answer:
                    codes[answer.status] += 1

        floods = [asyncio.create_task(flood()) for _ in range(CLIENTS)]
        try:
            while codes.total() < GARBAGE_A_JOIN:  # the flood is under way, and its budgets are spent
                await asyncio.wait(floods, timeout=0.01)
            for number in range(JOINS):
                begun = codes.total()
                await joined(good, number)
                assert codes.total() - begun < GARBAGE_A_JOIN
        finally:
            for task in floods:
                task.cancel()
            await asyncio.wait(floods)
            await controllers.close()
    assert set(codes) <= {200, 401, 403, 404, 429}
    assert codes[401] and codes[403] and codes[429]
