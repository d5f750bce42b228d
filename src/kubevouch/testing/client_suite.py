"""What every client has to do, as tests: a ``client.interface.Client`` may reach its server by any transport.

Subclass ``ClientSuite`` in a test module under a name that begins with ``Test`` and say how to reach a new cluster::

    class TestLoopbackClient(ClientSuite):
        @asynccontextmanager
        async def opened(self, user: str = "") -> AsyncIterator[Client]:
            async with Cluster() as cluster:
                yield cluster.client(user or None)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, TypeVar, cast

import msgspec
import pytest

from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS, NAMESPACES, NODES, SELF_SUBJECT_REVIEWS
from kubevouch.api.core_v1 import ConfigMap, Namespace, Node
from kubevouch.client.interface import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Client,
    EventType,
    ListOptions,
    WatchEvent,
    WatchOptions,
    WatchStream,
    WriteOptions,
)
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, ObjectMeta, Preconditions
from kubevouch.wellknown import AUTHENTICATED_GROUP

PATIENCE_SECONDS = 30.0
"""How long to wait for an event that has to come."""

NAMESPACE = "default"

T = TypeVar("T")
Scenario = Callable[["ClientSuite", Client], Coroutine[Any, Any, None]]


def client_test(scenario: Scenario) -> Callable[[ClientSuite], None]:
    """Makes a test of a coroutine that takes a client with all rights on a cluster of its own."""

    async def with_client(suite: ClientSuite) -> None:
        async with suite.opened() as client:
            await scenario(suite, client)

    def test(self: ClientSuite) -> None:
        self.run(with_client(self))

    # Not functools.wraps: pytest would look through it and take ``client`` for a fixture.
    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE, **metadata), data=data or {})


async def created(client: Client, *names: str, **metadata: Any) -> list[ConfigMap]:
    return [await client.create(CONFIG_MAPS, config_map(name, {"name": name}, **metadata)) for name in names]


async def refused(call: Awaitable[object], code: int, reason: str) -> APIStatusError:
    """The failure, which has to be this one."""
    with pytest.raises(APIStatusError) as caught:
        await call
    assert (caught.value.code, caught.value.reason) == (code, reason)
    return caught.value


class Events:
    """A running watch of ConfigMaps."""

    def __init__(self, stream: WatchStream[ConfigMap]) -> None:
        self.stream = stream

    async def next(self) -> WatchEvent[ConfigMap]:
        return await asyncio.wait_for(anext(self.stream), PATIENCE_SECONDS)

    async def next_change(self) -> tuple[str, str]:
        """What happened to which object; bookmarks are passed over, they come when they like."""
        while (event := await self.next()).type is EventType.BOOKMARK:
            pass
        assert event.object is not None, event.status
        return event.type.value, event.object.metadata.name


def watching(client: Client, options: WatchOptions, namespace: str = NAMESPACE) -> AbstractAsyncContextManager[Any]:
    return aclosing(cast("Any", client.watch(CONFIG_MAPS, namespace, options)))


class ClientSuite:
    """Subclasses give ``opened``."""

    def opened(self, user: str = "") -> AbstractAsyncContextManager[Client]:
        """A client of a new cluster, with all rights or as ``user``, who is in ``system:authenticated`` only."""
        raise NotImplementedError

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Runs a test; for subclasses that want another loop."""
        asyncio.run(scenario)

    # -------------------------------------------------------------- one object

    @client_test
    async def test_an_object_comes_back_as_it_was_created(self, client: Client) -> None:
        made = await client.create(CONFIG_MAPS, config_map("a", {"k": "v"}, labels={"l": "1"}))
        assert made.data == {"k": "v"} and made.metadata.labels == {"l": "1"}
        assert made.metadata.uid and made.metadata.resource_version and made.metadata.creation_timestamp
        assert await client.get(CONFIG_MAPS, "a", NAMESPACE) == made

    @client_test
    async def test_binary_data_and_text_outside_ascii(self, client: Client) -> None:
        wanted = config_map("a", {"k": "zażółć 😀 <&>"})
        await client.create(CONFIG_MAPS, msgspec.structs.replace(wanted, binary_data={"b": bytes(range(256))}))
        read = await client.get(CONFIG_MAPS, "a", NAMESPACE)
        assert read.data == {"k": "zażółć 😀 <&>"} and read.binary_data == {"b": bytes(range(256))}

    @client_test
    async def test_a_generated_name(self, client: Client) -> None:
        names = {
            (await client.create(CONFIG_MAPS, config_map("", generate_name="new-"))).metadata.name for _ in range(3)
        }
        assert len(names) == 3
        assert all(name.startswith("new-") and len(name) == len("new-") + 5 for name in names)

    @client_test
    async def test_an_update_at_the_version_that_was_read(self, client: Client) -> None:
        (first,) = await created(client, "a")
        second = await client.update(CONFIG_MAPS, msgspec.structs.replace(first, data={"k": "2"}))
        assert second.data == {"k": "2"}
        assert second.metadata.uid == first.metadata.uid
        assert second.metadata.resource_version != first.metadata.resource_version
        error = await refused(client.update(CONFIG_MAPS, first), 409, "Conflict")
        assert str(error) == (
            'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes '
            "to the latest version and try again"
        )
        assert (await client.get(CONFIG_MAPS, "a", NAMESPACE)).data == {"k": "2"}

    @client_test
    async def test_an_update_that_changes_nothing_makes_no_version(self, client: Client) -> None:
        (first,) = await created(client, "a")
        assert await client.update(CONFIG_MAPS, first) == first

    @client_test
    async def test_a_dry_run_stores_nothing(self, client: Client) -> None:
        dry = WriteOptions(dry_run=True)
        assert (await client.create(CONFIG_MAPS, config_map("a", {"k": "v"}), dry)).data == {"k": "v"}
        await refused(client.get(CONFIG_MAPS, "a", NAMESPACE), 404, "NotFound")
        (made,) = await created(client, "a")
        assert (await client.patch(CONFIG_MAPS, "a", {"data": {"k": "p"}}, MERGE_PATCH, NAMESPACE, dry)).data[
            "k"
        ] == "p"
        await client.delete(CONFIG_MAPS, "a", NAMESPACE, DeleteOptions(dry_run=["All"]))
        assert await client.get(CONFIG_MAPS, "a", NAMESPACE) == made

    @client_test
    async def test_the_field_manager_is_noted(self, client: Client) -> None:
        made = await client.create(CONFIG_MAPS, config_map("a", {"k": "v"}), WriteOptions(field_manager="me"))
        assert [entry.manager for entry in made.metadata.managed_fields] == ["me"]

    @client_test
    async def test_a_subresource(self, client: Client) -> None:
        node = await client.create(NODES, Node(metadata=ObjectMeta(name="n")))
        status = msgspec.structs.replace(node.status, phase="Running")
        changed = await client.update(NODES, msgspec.structs.replace(node, status=status), subresource="status")
        assert changed.status.phase == "Running"
        assert (await client.get(NODES, "n", subresource="status")).status.phase == "Running"
        patched = await client.patch(NODES, "n", {"status": {"phase": "Pending"}}, MERGE_PATCH, subresource="status")
        assert patched.status.phase == "Pending"

    @client_test
    async def test_a_review_is_answered(self, client: Client) -> None:
        review = await client.create(SELF_SUBJECT_REVIEWS, SelfSubjectReview())
        assert AUTHENTICATED_GROUP in review.status.user_info.groups

    # -------------------------------------------------------------- patches

    @client_test
    async def test_each_type_of_patch(self, client: Client) -> None:
        await client.create(CONFIG_MAPS, config_map("a", {"x": "1", "y": "2"}))

        async def patched(patch: Any, kind: Any) -> dict[str, str]:
            return (await client.patch(CONFIG_MAPS, "a", patch, kind, NAMESPACE)).data

        assert await patched([{"op": "replace", "path": "/data/x", "value": "3"}], JSON_PATCH) == {"x": "3", "y": "2"}
        assert await patched({"data": {"y": None, "z": "4"}}, MERGE_PATCH) == {"x": "3", "z": "4"}
        assert await patched({"data": {"$patch": "replace", "w": "5"}}, STRATEGIC_MERGE_PATCH) == {"w": "5"}
        assert (await client.get(CONFIG_MAPS, "a", NAMESPACE)).data == {"w": "5"}

    @client_test
    async def test_an_apply_creates_takes_over_and_removes(self, client: Client) -> None:
        def applied(manager: str, data: dict[str, str], *, force: bool = False) -> Awaitable[ConfigMap]:
            head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": NAMESPACE}}
            options = WriteOptions(field_manager=manager)
            return client.patch(CONFIG_MAPS, "a", head | {"data": data}, APPLY_PATCH, NAMESPACE, options, force=force)

        assert (await applied("one", {"x": "1", "y": "1"})).data == {"x": "1", "y": "1"}
        error = await refused(applied("two", {"x": "2"}), 409, "Conflict")
        assert error.status.details is not None
        assert [cause.field for cause in error.status.details.causes] == [".data.x"]
        assert (await applied("two", {"x": "2"}, force=True)).data == {"x": "2", "y": "1"}
        assert (await applied("one", {})).data == {"x": "2"}

    @client_test
    async def test_patches_that_cannot_be(self, client: Client) -> None:
        await refused(client.patch(CONFIG_MAPS, "a", {}, MERGE_PATCH, NAMESPACE), 404, "NotFound")
        await created(client, "a")
        stale = {"metadata": {"resourceVersion": "1"}, "data": {"k": "v"}}
        await refused(client.patch(CONFIG_MAPS, "a", stale, MERGE_PATCH, NAMESPACE), 409, "Conflict")
        wrong = [{"op": "test", "path": "/data/name", "value": "b"}]
        await refused(client.patch(CONFIG_MAPS, "a", wrong, JSON_PATCH, NAMESPACE), 422, "Invalid")

    # -------------------------------------------------------------- lists

    @client_test
    async def test_lists_of_one_namespace_and_of_all(self, client: Client) -> None:
        await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="other")))
        await created(client, "b", "a")
        await client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="c", namespace="other")))
        listed = await client.list(
            CONFIG_MAPS, NAMESPACE, ListOptions(field_selector="metadata.name!=kube-root-ca.crt")
        )
        assert [item.metadata.name for item in listed.items] == ["a", "b"]
        assert listed.resource_version and not listed.continue_token and listed.remaining is None
        everywhere = await client.list(CONFIG_MAPS, options=ListOptions(field_selector="metadata.name=c"))
        assert [(item.metadata.namespace, item.data) for item in everywhere.items] == [("other", {})]

    @client_test
    async def test_selectors(self, client: Client) -> None:
        await created(client, "a", "b", labels={"team": "x"})
        await created(client, "c", labels={"team": "y"})

        async def names(**selectors: str) -> list[str]:
            listed = await client.list(CONFIG_MAPS, NAMESPACE, ListOptions(**selectors))  # type: ignore[arg-type] # only strings
            return [item.metadata.name for item in listed.items]

        assert await names(label_selector="team=x") == ["a", "b"]
        assert await names(label_selector="team in (x, y),team!=x") == ["c"]
        assert await names(label_selector="team", field_selector="metadata.name=b") == ["b"]
        await refused(client.list(CONFIG_MAPS, NAMESPACE, ListOptions(field_selector="data.k=v")), 400, "BadRequest")
        await refused(client.list(CONFIG_MAPS, NAMESPACE, ListOptions(label_selector="a==b==c")), 400, "BadRequest")

    @client_test
    async def test_pages_show_the_state_of_the_first(self, client: Client) -> None:
        await created(client, *(f"{number:02}" for number in range(7)), labels={"l": ""})
        first = await client.list(CONFIG_MAPS, NAMESPACE, ListOptions(limit=3))
        await client.delete(CONFIG_MAPS, "05", NAMESPACE)
        await created(client, "99")
        names, page = [item.metadata.name for item in first.items], first
        while page.continue_token:
            page = await client.list(CONFIG_MAPS, NAMESPACE, ListOptions(limit=3, continue_token=page.continue_token))
            assert page.resource_version == first.resource_version
            names += [item.metadata.name for item in page.items]
        assert [name for name in names if name.isdigit()] == [f"{number:02}" for number in range(7)]
        assert first.remaining == len(names) - 3
        selected = await client.list(CONFIG_MAPS, NAMESPACE, ListOptions(limit=2, label_selector="l"))
        assert selected.continue_token and selected.remaining is None
        bad = ListOptions(limit=3, continue_token="%")
        await refused(client.list(CONFIG_MAPS, NAMESPACE, bad), 400, "BadRequest")

    @client_test
    async def test_a_list_at_a_version(self, client: Client) -> None:
        first, _ = await created(client, "a", "b")
        options = ListOptions(
            resource_version=first.metadata.resource_version,
            resource_version_match="Exact",
            field_selector="metadata.name!=x",
        )
        then = await client.list(CONFIG_MAPS, NAMESPACE, options)
        assert "b" not in {item.metadata.name for item in then.items}
        assert then.resource_version == first.metadata.resource_version

    # -------------------------------------------------------------- watches

    @client_test
    async def test_a_watch_from_a_version_tells_every_change_after_it(self, client: Client) -> None:
        (first,) = await created(client, "a")
        await created(client, "b")
        options = WatchOptions(resource_version=first.metadata.resource_version)
        async with watching(client, options) as stream:
            events = Events(stream)
            assert await events.next_change() == ("ADDED", "b")
            await client.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, MERGE_PATCH, NAMESPACE)
            assert await events.next_change() == ("MODIFIED", "a")
            await client.delete(CONFIG_MAPS, "a", NAMESPACE)
            gone = await events.next()
            assert gone.type is EventType.DELETED and gone.object is not None
            assert gone.object.data == {"name": "a", "k": "v"}
            assert int(gone.object.metadata.resource_version) > int(first.metadata.resource_version)

    @client_test
    async def test_a_streaming_list(self, client: Client) -> None:
        await created(client, "a", "b")
        async with watching(client, WatchOptions(send_initial_events=True)) as stream:
            events = Events(stream)
            seen = []
            while not (event := await events.next()).ends_initial_events:
                assert event.type is EventType.ADDED and event.object is not None
                seen.append(event.object.metadata.name)
            assert {"a", "b"} <= set(seen) and seen == sorted(seen)
            assert event.object is not None and event.object.metadata.resource_version
            await created(client, "c")
            assert await events.next_change() == ("ADDED", "c")

    @client_test
    async def test_a_watch_with_selectors_sees_objects_come_and_go(self, client: Client) -> None:
        listed = await client.list(CONFIG_MAPS, NAMESPACE)
        options = WatchOptions(resource_version=listed.resource_version, label_selector="on=1")
        async with watching(client, options) as stream:
            events = Events(stream)
            await created(client, "quiet")
            await created(client, "a", labels={"on": "1"})
            assert await events.next_change() == ("ADDED", "a")
            await client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"on": "0"}}}, MERGE_PATCH, NAMESPACE)
            assert await events.next_change() == ("DELETED", "a")

    @client_test
    async def test_a_watch_of_all_namespaces(self, client: Client) -> None:
        listed = await client.list(CONFIG_MAPS)
        async with watching(client, WatchOptions(resource_version=listed.resource_version), "") as stream:
            await created(client, "a")
            assert await Events(stream).next_change() == ("ADDED", "a")

    @client_test
    async def test_a_watch_that_cannot_be(self, client: Client) -> None:
        async with watching(client, WatchOptions(label_selector="a==b==c")) as stream:
            await refused(anext(stream), 400, "BadRequest")

    # -------------------------------------------------------------- deletions

    @client_test
    async def test_a_deletion(self, client: Client) -> None:
        (made,) = await created(client, "a")
        uid, other = made.metadata.uid, "11111111-1111-4111-8111-111111111111"
        wrong = DeleteOptions(preconditions=Preconditions(uid=other))
        await refused(client.delete(CONFIG_MAPS, "a", NAMESPACE, wrong), 409, "Conflict")
        await client.delete(CONFIG_MAPS, "a", NAMESPACE, DeleteOptions(preconditions=Preconditions(uid=uid)))
        await refused(client.delete(CONFIG_MAPS, "a", NAMESPACE), 404, "NotFound")

    @client_test
    async def test_an_object_with_a_finalizer_stays_until_it_is_taken_away(self, client: Client) -> None:
        await created(client, "a", finalizers=["example.com/keep"])
        await client.delete(CONFIG_MAPS, "a", NAMESPACE)
        assert (await client.get(CONFIG_MAPS, "a", NAMESPACE)).metadata.deletion_timestamp is not None
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, MERGE_PATCH, NAMESPACE)
        await refused(client.get(CONFIG_MAPS, "a", NAMESPACE), 404, "NotFound")

    @client_test
    async def test_a_collection_is_deleted_as_selected(self, client: Client) -> None:
        await created(client, "a", "b", labels={"team": "x"})
        await created(client, "c", labels={"team": "y"})
        await client.delete_collection(CONFIG_MAPS, NAMESPACE, ListOptions(label_selector="team=x"))
        left = await client.list(CONFIG_MAPS, NAMESPACE, ListOptions(label_selector="team"))
        assert [item.metadata.name for item in left.items] == ["c"]

    @client_test
    async def test_no_more_of_a_collection_is_deleted_than_the_limit(self, client: Client) -> None:
        await created(client, "a", "b", "c", labels={"team": "x"})
        await client.delete_collection(CONFIG_MAPS, NAMESPACE, ListOptions(label_selector="team=x", limit=2))
        left = await client.list(CONFIG_MAPS, NAMESPACE, ListOptions(label_selector="team=x"))
        assert [item.metadata.name for item in left.items] == ["c"]

    # -------------------------------------------------------------- failures

    @client_test
    async def test_kubernetes_failures(self, client: Client) -> None:
        error = await refused(client.get(CONFIG_MAPS, "a", NAMESPACE), 404, "NotFound")
        assert str(error) == 'configmaps "a" not found'
        assert error.status.details is not None
        assert (error.status.details.name, error.status.details.kind) == ("a", "configmaps")
        await created(client, "a")
        error = await refused(client.create(CONFIG_MAPS, config_map("a")), 409, "AlreadyExists")
        assert str(error) == 'configmaps "a" already exists'
        error = await refused(client.create(CONFIG_MAPS, config_map("b", {"/": "v"})), 422, "Invalid")
        assert error.status.details is not None
        assert [cause.field for cause in error.status.details.causes] == ["data[/]"]
        orphan = ConfigMap(metadata=ObjectMeta(name="a", namespace="nowhere"))
        assert (
            str(await refused(client.create(CONFIG_MAPS, orphan), 404, "NotFound")) == 'namespaces "nowhere" not found'
        )
        await refused(client.update(CONFIG_MAPS, config_map("missing")), 404, "NotFound")

    @client_test
    async def test_what_makes_no_path_is_refused_before_it_is_sent(self, client: Client) -> None:
        for name, namespace in (("", NAMESPACE), ("..", NAMESPACE), ("a/b", NAMESPACE), ("a%", NAMESPACE), ("a", "")):
            with pytest.raises(ValueError):
                await client.get(CONFIG_MAPS, name, namespace)
        with pytest.raises(ValueError):
            await client.list(NODES, NAMESPACE)
        with pytest.raises(ValueError):
            await client.delete(CONFIG_MAPS, "", NAMESPACE)

    def test_somebody_without_rights_is_refused(self) -> None:
        async def scenario() -> None:
            async with self.opened("jane") as client:
                error = await refused(client.get(CONFIG_MAPS, "a", NAMESPACE), 403, "Forbidden")
                assert str(error) == (
                    'configmaps "a" is forbidden: User "jane" cannot get resource "configmaps" in API group "" in the '
                    'namespace "default"'
                )
                await refused(client.list(CERTIFICATE_SIGNING_REQUESTS), 403, "Forbidden")
                async with watching(client, WatchOptions()) as stream:
                    await refused(anext(stream), 403, "Forbidden")
                await refused(client.delete_collection(CONFIG_MAPS, NAMESPACE), 403, "Forbidden")
                review = await client.create(SELF_SUBJECT_REVIEWS, SelfSubjectReview())
                assert review.status.user_info.username == "jane"
                answer = await client.raw("GET", "/metrics")
                assert (answer.status, json.loads(answer.body)["reason"]) == (403, "Forbidden")

        self.run(scenario())

    # -------------------------------------------------------------- paths

    @client_test
    async def test_paths_that_are_no_resource(self, client: Client) -> None:
        ready = await client.raw("GET", "/readyz?verbose")
        assert ready.status == 200 and ready.body.endswith(b"readyz check passed\n")
        assert ready.headers["content-type"].startswith("text/plain")
        version = await client.raw("GET", "/version")
        assert json.loads(version.body)["major"] == "1"
        missing = await client.raw("GET", "/nowhere")
        assert missing.status == 404
        groups = await client.raw("GET", "/apis")
        assert json.loads(groups.body)["kind"] == "APIGroupList"

    @client_test
    async def test_a_resource_by_its_path(self, client: Client) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        body = json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}})
        made = await client.raw("POST", path, body.encode(), {"Content-Type": "application/json"})
        assert (made.status, json.loads(made.body)["data"]) == (201, {"k": "v"})
        assert (await client.get(CONFIG_MAPS, "a", NAMESPACE)).data == {"k": "v"}
        listed = json.loads((await client.raw("GET", f"{path}?fieldSelector=metadata.name%3Da")).body)
        assert (listed["kind"], [item["metadata"]["name"] for item in listed["items"]]) == ("ConfigMapList", ["a"])
        bare = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"},"dat":{},"x":1}'
        warned = await client.raw("POST", path, bare, {"Content-Type": "application/json"})
        assert warned.headers["warning"] == '299 - "unknown field \\"dat\\"", 299 - "unknown field \\"x\\""'
        gone = await client.raw("DELETE", f"{path}/a")
        assert (gone.status, json.loads(gone.body)["status"]) == (200, "Success")
        missing = await client.raw("GET", f"{path}/a")
        assert (missing.status, json.loads(missing.body)["message"]) == (404, 'configmaps "a" not found')
