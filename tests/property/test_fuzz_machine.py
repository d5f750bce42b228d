"""Any row of requests against a model of what is stored: versions grow, reads agree, a watch tells the whole story."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fuzz_parsers import CSR
from kubevouch.api import catalog
from kubevouch.client.interface import EventType, WatchEvent, WatchOptions
from kubevouch.testing import Cluster
from property.fuzz_strategies import examples

T = TypeVar("T")
Tree = dict[str, Any]

PATIENCE_SECONDS = 240.0
MAPS = "/api/v1/namespaces/default/configmaps"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}

names = st.sampled_from(["a", "b", "c"])
keys = st.sampled_from(["k", "l", "m"])
values = st.sampled_from(["", "1", "2", "é\u2028"])
contents = st.dictionaries(keys, values, max_size=3)
managers = st.sampled_from(["one", "two"])


class APIMachine(RuleBasedStateMachine):
    """ConfigMaps under the model; certificate requests beside them, of which only decisions are told apart."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stored: dict[str, Tree] = {}
        self.requests: dict[str, set[str]] = {}
        self.version = 0
        self.told: dict[str, Tree] = {}
        self.last_told = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asyncio.wait_for(coroutine, PATIENCE_SECONDS))

    @initialize()
    def start(self) -> None:
        self.cluster = Cluster()
        self.run(self.cluster.__aenter__())
        self.client = self.cluster.client()
        self.open_watch()

    def open_watch(self) -> None:
        version = self.ask("GET", MAPS)[1]["metadata"]["resourceVersion"]
        options = WatchOptions(resource_version=version, timeout_seconds=3600)
        self.watch: AsyncIterator[WatchEvent[Any]] = self.client.watch(catalog.CONFIG_MAPS, "default", options)

    async def next_event(self) -> WatchEvent[Any]:
        return await anext(self.watch)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.run(self.watch.aclose())  # type: ignore[attr-defined]  # a generator
            self.run(self.cluster.__aexit__(None, None, None))
        self.runner.close()

    # -------------------------------------------------------------- requests

    def ask(self, method: str, path: str, body: object = None, media: str = "application/json") -> tuple[int, Tree]:
        """Code and tree of the answer, which is never the server's own fault."""
        data = None if body is None else json.dumps(body).encode()
        reply = self.run(self.client.raw(method, path, data, {"Content-Type": media}))
        tree: Tree = json.loads(reply.body)
        assert reply.status < 500, (method, path, body, tree)
        if reply.status >= 400:
            assert (tree["kind"], tree["code"]) == ("Status", reply.status)
        return reply.status, tree

    def wrote(self, name: str, tree: Tree, data: dict[str, str]) -> None:
        """A write was answered with ``tree``; its data is what the model says."""
        assert tree.get("data", {}) == data
        version, before = int(tree["metadata"]["resourceVersion"]), self.stored.get(name)
        if before is not None and {k: v for k, v in tree.items() if k != "metadata"} == {
            k: v for k, v in before.items() if k != "metadata"
        }:
            # Nothing or only who owns what has changed.
            assert version >= int(before["metadata"]["resourceVersion"])
        else:
            assert version > self.version
        if before is not None:
            assert tree["metadata"]["uid"] == before["metadata"]["uid"]
        self.version = max(self.version, version)
        self.stored[name] = tree

    @rule(name=names, data=contents)
    def create(self, name: str, data: dict[str, str]) -> None:
        code, tree = self.ask("POST", MAPS, {"metadata": {"name": name}, "data": data})
        assert code == (409 if name in self.stored else 201)
        if code == 201:
            self.wrote(name, tree, data)

    @rule(name=names, data=contents, stale=st.booleans())
    def update(self, name: str, data: dict[str, str], stale: bool) -> None:
        known = self.stored.get(name)
        version = known["metadata"]["resourceVersion"] if known else ""
        if stale:
            version = "1"
        code, tree = self.ask(
            "PUT", f"{MAPS}/{name}", {"metadata": {"name": name, "resourceVersion": version}, "data": data}
        )
        if known is None:
            assert code == 404, tree
        else:
            assert code == (409 if stale else 200), tree
        if code < 300:
            self.wrote(name, tree, data)

    @rule(name=names, kind=st.sampled_from(sorted(PATCHES)), key=keys, value=values | st.none())
    def patch(self, name: str, kind: str, key: str, value: str | None) -> None:
        known = self.stored.get(name)
        data = dict(known.get("data", {})) if known else {}
        patch: object = {"data": {key: value}}
        fits = True
        if kind == "json":
            if value is None:
                patch, fits = [{"op": "remove", "path": f"/data/{key}"}], key in data
            else:
                patch, fits = [{"op": "add", "path": f"/data/{key}", "value": value}], bool(data)
        code, tree = self.ask("PATCH", f"{MAPS}/{name}", patch, PATCHES[kind])
        if known is None or not fits:
            assert code == (404 if known is None else 422), tree
            return
        assert code == 200, tree
        if value is None:
            data.pop(key, None)
        else:
            data[key] = value
        self.wrote(name, tree, data)

    @rule(name=names, data=contents, manager=managers, force=st.booleans())
    def apply(self, name: str, data: dict[str, str], manager: str, force: bool) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        query = f"?fieldManager={manager}&force={str(force).lower()}"
        code, tree = self.ask("PATCH", f"{MAPS}/{name}{query}", body, "application/apply-patch+yaml")
        if code == 409:
            assert not force and name in self.stored
            return
        assert code == (200 if name in self.stored else 201), tree
        found = tree.get("data", {})
        assert found.items() >= data.items()
        before = self.stored.get(name, {}).get("data", {})
        assert found.keys() <= before.keys() | data.keys()
        self.wrote(name, tree, found)

    @rule(name=names, conditional=st.booleans())
    def delete(self, name: str, conditional: bool) -> None:
        known = self.stored.get(name)
        body = {"preconditions": {"uid": "another"}} if conditional else None
        code, _ = self.ask("DELETE", f"{MAPS}/{name}", body)
        assert code == (404 if known is None else 409 if conditional else 200)
        if code == 200:
            del self.stored[name]

    @rule()
    def delete_all(self) -> None:
        assert self.ask("DELETE", MAPS)[0] == 200
        self.stored.clear()

    # -------------------------------------------------------------- certificate requests

    @rule(name=names)
    def ask_for_a_certificate(self, name: str) -> None:
        tree = json.loads(CSR)
        tree["metadata"]["name"] = name
        code, answer = self.ask("POST", CSRS, tree)
        assert code == (409 if name in self.requests else 201), answer
        self.requests.setdefault(name, set())

    @rule(
        name=names,
        kind=st.sampled_from(["Approved", "Denied", "Failed"]),
        subresource=st.sampled_from(["approval", "status"]),
    )
    def decide(self, name: str, kind: str, subresource: str) -> None:
        patch = [
            {"type": each, "status": "True", "reason": "Test"}
            for each in sorted(self.requests.get(name, set()) | {kind})
        ]
        code, tree = self.ask(
            "PATCH", f"{CSRS}/{name}/{subresource}", {"status": {"conditions": patch}}, PATCHES["merge"]
        )
        if name not in self.requests:
            assert code == 404
            return
        known = self.requests[name]
        if code == 200:
            found = {each["type"] for each in tree["status"].get("conditions", [])}
            assert known <= found <= known | {kind}
            assert not found >= {"Approved", "Denied"}
            self.requests[name] = found
        else:
            assert code == 422, tree

    # -------------------------------------------------------------- what holds after each

    @rule()
    def lose_the_watch(self) -> None:
        """Whoever comes back late starts again from the list."""
        self.run(self.watch.aclose())  # type: ignore[attr-defined]  # a generator
        self.told = {name: tree["metadata"]["resourceVersion"] for name, tree in self.stored.items()}
        self.open_watch()

    @invariant()
    def the_list_is_what_was_written(self) -> None:
        if not hasattr(self, "cluster"):
            return
        _, listing = self.ask("GET", MAPS)
        found = {each["metadata"]["name"]: each for each in listing["items"]}
        found.pop("kube-root-ca.crt", None)
        assert {name: _shown(tree) for name, tree in found.items()} == {
            name: _shown(tree) for name, tree in self.stored.items()
        }
        assert int(listing["metadata"]["resourceVersion"]) >= self.version

    @invariant()
    def the_watch_ends_where_the_list_is(self) -> None:
        if not hasattr(self, "cluster"):
            return
        expected = {name: tree["metadata"]["resourceVersion"] for name, tree in self.stored.items()}
        while self.told != expected:
            event = self.run(self.next_event())
            assert event.object is not None
            meta = event.object.metadata
            version = int(meta.resource_version)
            assert version > self.last_told
            self.last_told = version
            if event.type is EventType.DELETED:
                assert self.told.pop(meta.name, None) is not None
            else:
                assert (event.type is EventType.MODIFIED) == (meta.name in self.told)
                self.told[meta.name] = meta.resource_version


def _shown(tree: Tree) -> tuple[object, ...]:
    return tree["metadata"]["uid"], tree["metadata"]["resourceVersion"], tree.get("data", {})


TestAnyRowOfRequests = APIMachine.TestCase
TestAnyRowOfRequests.settings = settings(examples(30), stateful_step_count=30)
