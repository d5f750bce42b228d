"""A standalone server over a memory store, objects put into it by any means, and clients that answer on cue."""

from __future__ import annotations

import atexit
import datetime as dt
import functools
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from kubevouch.api import catalog
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.client.resolver import Resolver
from kubevouch.controllers.interface import ApproverService
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Status, StatusCause, StatusDetails, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.phases.certificates.certs import ControlPlanePKI, ensure_control_plane
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.server.bootstrap import own_kinds
from kubevouch.server.runtime_config import RuntimeConfig
from kubevouch.signers.catalog import SigningOptions
from kubevouch.standalone.attestation import AttestationFile
from kubevouch.standalone.cluster_api import ManagementCluster
from kubevouch.standalone.controllers import RunningControllers, controller_user, start_controllers
from kubevouch.standalone.server import StandaloneServer
from kubevouch.storage.memory import MemoryStore, Snapshot
from kubevouch.testing.clock import FakeClock
from kubevouch.util.uuids import random_uuid

VECTORS = Path(__file__).parent / "vectors"
FIXTURES = VECTORS / "fixtures-controllers"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)

Case = dict[str, Any]


def cases(area: str) -> list[Case]:
    lines = (VECTORS / "controllers.jsonl").read_text().splitlines()
    found = [case for case in map(json.loads, lines) if case["area"] == area]
    assert found, f"no case of area {area}"
    return found


def ids(chosen: Sequence[Case]) -> list[str]:
    return [case["id"] for case in chosen]


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


@functools.cache
def _pki() -> ControlPlanePKI:
    parent = Path(tempfile.mkdtemp(prefix="kubevouch-test-"))
    atexit.register(shutil.rmtree, parent)
    folder = parent / "pki"
    names = ControlPlaneNames(node_name="cp", advertise_address="127.0.0.1")
    return ensure_control_plane(folder, names, now=NOW)


# By runtime configuration.
_started: dict[str, Snapshot] = {}


class Cue:
    """A client between a controller and the server: writes down what is asked, and fails where it is told to."""

    def __init__(self, client: Client, calls: list[tuple[str, Any]], failures: dict[str, APIStatusError]) -> None:
        self._client = client
        self._calls = calls
        self._failures = failures
        self.reviews: Any = None

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._client, verb)

    async def create(self, resource: Resource[Any], obj: Any, *args: Any, **kwargs: Any) -> Any:
        if resource is catalog.SUBJECT_ACCESS_REVIEWS and self.reviews is not None:
            self._calls.append(("SAR", obj))
            return self.reviews(obj)
        return await self._pass("POST", obj, self._client.create(resource, obj, *args, **kwargs))

    async def update(self, resource: Resource[Any], obj: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._pass("PUT", obj, self._client.update(resource, obj, *args, **kwargs))

    async def delete(self, resource: Resource[Any], name: str, namespace: str = "", options: Any = None) -> None:
        await self._pass("DELETE", (name, options), self._client.delete(resource, name, namespace, options))

    async def _pass(self, method: str, what: Any, call: Any) -> Any:
        self._calls.append((method, what))
        if method in self._failures:
            call.close()
            raise self._failures[method]
        return await call


class World:
    """One cluster at a time of the test's choosing."""

    def __init__(self, server: StandaloneServer, store: MemoryStore, clock: FakeClock) -> None:
        self.server = server
        self.client = server.client
        self.clock = clock
        self.calls: list[tuple[str, Any]] = []
        self.failures: dict[str, APIStatusError] = {}
        self.reviews: Any = None
        self.ledger = MemoryLedger()
        self._store = store
        self._running: list[RunningControllers] = []

    def writes(self, method: str = "") -> list[Any]:
        """What controllers wrote; SubjectAccessReviews apart."""
        return [what for how, what in self.calls if how == method or (not method and how != "SAR")]

    async def put(self, resource: Resource[Any], obj: Any) -> None:
        """Into the store, past validation: what an older or a foreign server may have left there."""
        meta = obj.metadata
        identified = obj if meta.uid else replace_metadata(obj, uid=random_uuid())
        resource_store = self.server.api.stores.get(resource.plural)
        if resource_store is None:  # a kind of a CustomResourceDefinition
            named = msgspec.structs.replace(identified, kind=resource.kind, api_version=resource.api_version)
            await self._store.create(
                f"/registry/{resource.group}/{resource.plural}/{meta.name}", json_codec.encode(named)
            )
            return
        key = resource_store.definition.key_prefix + (f"{meta.namespace}/" if meta.namespace else "") + meta.name
        await self._store.create(key, resource_store._value(identified))

    def start(
        self,
        *names: str,
        signing: SigningOptions | None = None,
        serving: ServingRules | None = None,
        services: Sequence[ApproverService] = (),
        resolver: Resolver | None = None,
        attesting: AttestationFile | None = None,
        wrap: Callable[[Client], Client] = lambda client: client,
        management: ManagementCluster | None = None,
    ) -> RunningControllers:
        def connect(name: str) -> Client:
            cue: Any = Cue(self.server.api.loopback(controller_user(name), name), self.calls, self.failures)
            cue.reviews = self.reviews
            return wrap(cue)

        running = start_controllers(
            self.server,
            names,
            signing=signing,
            serving=serving,
            approver_services=services,
            connect=connect,
            ledger=self.ledger,
            resolver=resolver,
            attesting=attesting,
            management=management,
        )
        self._running.append(running)
        return running

    async def run(
        self,
        *names: str,
        signing: SigningOptions | None = None,
        serving: ServingRules | None = None,
        services: Sequence[ApproverService] = (),
        resolver: Resolver | None = None,
        management: ManagementCluster | None = None,
    ) -> RunningControllers:
        """Start controllers and let them do all that there is to do."""
        running = self.start(
            *names, signing=signing, serving=serving, services=services, resolver=resolver, management=management
        )
        await running.settle()
        return running

    @property
    def running(self) -> RunningControllers:
        """What was started last."""
        return self._running[-1]

    async def settle(self) -> None:
        """Let what was started last do all that there is to do."""
        await self.running.settle()

    async def settle_all(self) -> None:
        """As :meth:`settle`, of all that were started: each may have to try again in its time."""
        for seconds in (5, 5, 5, 5, 0, 0, 0):
            for running in self._running:
                await running.settle()
            await self.clock.run(seconds)

    @property
    def latest(self) -> RunningControllers:
        return self._running[-1]

    async def stop(self, running: RunningControllers) -> None:
        self._running.remove(running)
        await running.close()

    def as_user(self, name: str, *groups: str, **more: Any) -> Client:
        return self.server.api.loopback(UserInfo(name, groups=(*groups, "system:authenticated"), **more), "test")

    async def close(self) -> None:
        for running in self._running:
            await running.close()


@asynccontextmanager
async def world(
    now: dt.datetime = NOW,
    runtime_config: str = "",
    recovery: RecoveryPolicy | None = None,
    disabled_admission: Sequence[str] = (),
) -> AsyncIterator[World]:
    clock = FakeClock(now)
    store = MemoryStore(clock=clock, snapshot=_started.get(runtime_config))
    config = RuntimeConfig.parse(runtime_config)
    server = StandaloneServer(
        store, clock, _pki(), Endpoint("127.0.0.1", 6443), runtime_config=config, recovery=recovery,
        disabled_admission=disabled_admission,
    )  # fmt: skip
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await stack.enter_async_context(server)
        await own_kinds.ensure(server.client)
        if runtime_config not in _started and recovery is None:
            _started[runtime_config] = store.snapshot()
        at = World(server, store, clock)
        stack.push_async_callback(at.close)
        yield at


def answer(code: int, cause: str = "") -> APIStatusError:
    """A failure as an API server reports it."""
    reason = {403: "Forbidden", 404: "NotFound", 409: "Conflict"}.get(code, "InternalError")
    details = StatusDetails(causes=[StatusCause(reason=cause)]) if cause else None
    return APIStatusError(Status(status="Failure", code=code, reason=reason, message=f"answer {code}", details=details))


def decoded(resource: Resource[Any], tree: dict[str, Any]) -> Any:
    """An object from a tree of builtins, as it would stand in JSON."""
    return json_codec.decode(json.dumps(tree).encode(), resource.type)
