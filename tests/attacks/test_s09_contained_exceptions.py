"""S9: an exception in one item's evaluation (GHSA-gx3x-vq4p-mhhv) ends neither a worker nor another item.

Raised by whatever evaluates: every controller, an authenticator, an authorizer, admission plug-ins of both kinds. For a
handler, a watch and an answer see tests/integration/test_contained_exceptions.py.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from join_requests import ask
from kubevouch.admission.chain import AdmissionChain
from kubevouch.admission.interface import Operation
from kubevouch.admission.interface import Request as AdmissionRequest
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Namespace
from kubevouch.authentication.interface import Authentication, Credentials
from kubevouch.authentication.union import UnionAuthenticator
from kubevouch.authorization.interface import Attributes, Decision, Verdict
from kubevouch.authorization.union import UnionAuthorizer
from kubevouch.controllers.catalog import CONTROLLERS
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Reconciler, Request, Result
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.logs import capture_logs
from wire import Reply, Wire

MAPS = "/api/v1/namespaces/default/configmaps"
DETAIL = "the secret is 42"
# What this scenario gives something to do, of those that take requests from a queue.
BUSY = {
    "certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller",
    "certificate-ledger-controller", "bootstrap-signer-controller", "join-status-controller",
    "root-ca-certificate-publisher-controller", "namespace-controller", "serviceaccount-controller",
    "clusterrole-aggregation-controller",
}  # fmt: skip


class Surprise(Exception):
    pass


class Stumbling:
    """Raises the first time that it is asked about an object."""

    def __init__(self, name: str, reconciler: Reconciler, stumbled: set[tuple[str, Request]]) -> None:
        self._name = name
        self._reconciler = reconciler
        self._stumbled = stumbled

    async def reconcile(self, request: Request) -> Result:
        if (self._name, request) not in self._stumbled:
            self._stumbled.add((self._name, request))
            raise Surprise(DETAIL)
        return await self._reconciler.reconcile(request)


def test_every_controller_gets_over_an_exception_in_every_object(monkeypatch: pytest.MonkeyPatch) -> None:
    stumbled: set[tuple[str, Request]] = set()
    plain = QueueController.__init__

    def build(self: QueueController, name: str, reconciler: Reconciler, *rest: Any, **more: Any) -> None:
        plain(self, name, Stumbling(name, reconciler, stumbled), *rest, **more)

    monkeypatch.setattr(QueueController, "__init__", build)

    @async_test
    async def scenario() -> None:
        async with Cluster(controllers=("*",)) as cluster:
            client = cluster.client()
            token = await cluster.token_async()
            for name in ("blue", "red"):
                await client.create(catalog.NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))
            await client.delete(catalog.NAMESPACES, "red")
            await ask(cluster, token.partition(".")[0])
            for _ in range(100):
                if await is_done(cluster):
                    return
                await cluster.clock.run(1.0)
                await cluster.settle_async()
            raise AssertionError("something was not done again")

    with capture_logs() as logs:
        scenario()
    names = {name for name, _ in stumbled}
    assert names >= BUSY, f"not asked: {BUSY - names}"
    assert names <= {entry.name for entry in CONTROLLERS}
    crashed = [entry for entry in logs if entry["event"] == "reconcile crashed"]
    assert len(crashed) == len(stumbled)


async def is_done(cluster: Cluster) -> bool:
    """Everything that the controllers are there for."""
    client = cluster.client()
    try:
        await client.get(catalog.SERVICE_ACCOUNTS, "default", "blue")
        await client.get(catalog.CONFIG_MAPS, "kube-root-ca.crt", "blue")
    except APIStatusError:
        return False
    csr = await client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, "csr-1")
    namespaces = {each.metadata.name for each in (await client.list(catalog.NAMESPACES)).items}
    return bool(csr.status.certificate) and "red" not in namespaces


# ------------------------------------------------------------------ what every request passes


class SurprisingAuthenticator:
    async def authenticate(self, credentials: Credentials) -> Authentication | None:
        if "x-boom" in credentials.headers:
            raise Surprise(DETAIL)
        return None


class SurprisingAuthorizer:
    async def authorize(self, attributes: Attributes) -> Verdict:
        if attributes.name == "boom-authorized":
            raise Surprise(DETAIL)
        return Verdict(Decision.NO_OPINION)


class SurprisingPlugin:
    name = "Surprising"

    def handles(self, operation: Operation, *_: object) -> bool:
        return operation is Operation.CREATE

    async def admit(self, request: AdmissionRequest) -> Any:
        if request.name == "boom-admitted":
            raise Surprise(DETAIL)
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        if request.name == "boom-validated":
            raise Surprise(DETAIL)


def test_whatever_a_request_passes_may_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authenticate, choose, use = UnionAuthenticator.__init__, UnionAuthorizer.replace, AdmissionChain.use

    def with_authenticator(self: UnionAuthenticator, authenticators: Any, *rest: Any) -> None:
        authenticate(self, [SurprisingAuthenticator(), *authenticators], *rest)

    def with_authorizer(self: UnionAuthorizer, authorizers: Any, resolvers: Any) -> None:
        choose(self, [SurprisingAuthorizer(), *authorizers], resolvers)

    def with_plugin(self: AdmissionChain, other: AdmissionChain) -> None:
        plugin = SurprisingPlugin()
        use(self, AdmissionChain([*other._mutating, plugin], [*other._validating, plugin]))

    monkeypatch.setattr(UnionAuthenticator, "__init__", with_authenticator)
    monkeypatch.setattr(UnionAuthorizer, "replace", with_authorizer)
    monkeypatch.setattr(AdmissionChain, "use", with_plugin)

    with capture_logs() as logs, Cluster(https=True) as cluster:
        wire = Wire.of_kubeconfig(Path(cluster.kubeconfig), tmp_path)

        def create(name: str, **headers: str) -> Reply:
            tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            return wire.request("POST", MAPS, json.dumps(tree).encode(), **headers)

        asked: list[tuple[str, dict[str, str]]] = []
        for number in range(5):
            asked += [(f"a{number}", {}), (f"b{number}", {"X_Boom": "1"})]
        asked += [("boom-admitted", {}), ("boom-validated", {})]
        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(lambda each: create(each[0], **each[1]), asked))
        authorized = wire.request("GET", f"{MAPS}/boom-authorized")
        assert [reply.code for reply in replies] == [201, 500] * 5 + [500, 500]
        assert wire.request("GET", "/readyz").code == 200
        stored = json.loads(wire.request("GET", MAPS).body)["items"]
    failed = [reply for reply in [*replies, authorized] if reply.code == 500]
    assert len(failed) == 8
    for reply in failed:
        assert reply.told[:2] == (500, "InternalError")
        assert "42" not in reply.body.decode()
    assert sorted(each["metadata"]["name"] for each in stored if each["metadata"]["name"].startswith(("a", "b"))) == [
        f"a{number}" for number in range(5)
    ]
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["request failed"] * len(failed)
