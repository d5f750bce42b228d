"""client/https.py: typed calls against a real HTTPS server that answers from a script."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import pytest

from asynctest import on_both_loops
from kubevouch.api.core_v1 import ConfigMap, Namespace
from kubevouch.client import codec
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import (
    APPLY_PATCH,
    DEFAULT_WATCH,
    JSON_PATCH,
    Client,
    ConnectFailed,
    EventType,
    InvalidName,
    ListOptions,
    NotKubernetes,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)
from kubevouch.client.options import ClientOptions
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, ListMeta, ObjectMeta, Preconditions
from kubevouch.machinery.scheme import Resource
from kubevouch.testing.clock import FakeClock
from scripted_server import ScriptedServer, cut_off, reply, reply_json, reply_status, stream
from throwaway_ca import ThrowawayCA

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap, namespaced=True)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", Namespace, namespaced=False)
CUSTOM = Resource("policy.kubevouch.io", "v1alpha1", "ConfigMap", "widgets", ConfigMap, namespaced=True)

DOCUMENT = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "a", "namespace": "n", "resourceVersion": "7"},
    "data": {"k": "v"},
}
OBJECT = ConfigMap(metadata=ObjectMeta(name="a", namespace="n", resource_version="7"), data={"k": "v"})


def sealed(obj: ConfigMap) -> bytes:
    return bytes(codec.encode(CONFIG_MAPS, obj, as_protobuf=True)[1])


def client(server: ScriptedServer, ca: ThrowawayCA, clock: FakeClock | None = None, **options: Any) -> HTTPSClient:
    clock = clock or FakeClock()
    tls = TLSFiles(TLSSources(ca_bundle=ca.bundle), clock)
    return HTTPSClient(ClientOptions(server.url, **options), tls=tls, clock=clock, random=lambda: 0.0)


async def collected(api: Client, options: WatchOptions = DEFAULT_WATCH) -> list[WatchEvent[ConfigMap]]:
    return [event async for event in api.watch(CONFIG_MAPS, "n", options)]


# ------------------------------------------------------------------ objects


@on_both_loops
async def test_get_gives_the_same_object_from_either_encoding(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_json(DOCUMENT), reply(sealed(OBJECT), content_type=codec.PROTOBUF))
        assert await api.get(CONFIG_MAPS, "a", "n") == OBJECT
        assert await api.get(CONFIG_MAPS, "a", "n") == OBJECT
        first = server.seen[0]
        assert (first.method, first.path) == ("GET", "/api/v1/namespaces/n/configmaps/a")
        assert first.headers["Accept"] == "application/vnd.kubernetes.protobuf,application/json"
        assert first.headers["Accept-Encoding"] == "gzip"
        assert first.headers["User-Agent"].startswith("kubevouch/0")
        assert "(client; " in first.headers["User-Agent"]
        assert "Authorization" not in first.headers and "Cookie" not in first.headers


@on_both_loops
async def test_json_only(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca, protobuf=False) as api:
        server.script(reply_json(DOCUMENT, 201))
        assert await api.create(CONFIG_MAPS, OBJECT) == OBJECT
        request = server.seen[0]
        assert (request.headers["Accept"], request.headers["Content-Type"]) == (codec.JSON, codec.JSON)
        assert json.loads(request.body) == DOCUMENT


@on_both_loops
async def test_writes_send_protobuf_and_their_options(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply(sealed(OBJECT), content_type=codec.PROTOBUF))
        options = WriteOptions(dry_run=True, field_manager="me", field_validation="Strict")
        await api.create(CONFIG_MAPS, OBJECT, options)
        await api.update(CONFIG_MAPS, OBJECT, subresource="status")
        create, update = server.seen
        assert (create.method, create.path) == ("POST", "/api/v1/namespaces/n/configmaps")
        assert create.query == {"dryRun": "All", "fieldManager": "me", "fieldValidation": "Strict"}
        assert create.headers["Content-Type"] == codec.PROTOBUF
        assert codec.decode(CONFIG_MAPS, create.body, codec.PROTOBUF) == OBJECT
        assert (update.method, update.path) == ("PUT", "/api/v1/namespaces/n/configmaps/a/status")


@on_both_loops
async def test_custom_resources_are_sent_as_json(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_json({**DOCUMENT, "apiVersion": "policy.kubevouch.io/v1alpha1"}))
        await api.create(CUSTOM, OBJECT)
        assert server.seen[0].path == "/apis/policy.kubevouch.io/v1alpha1/namespaces/n/widgets"
        assert server.seen[0].headers["Content-Type"] == codec.JSON
        assert json.loads(server.seen[0].body)["apiVersion"] == "policy.kubevouch.io/v1alpha1"


@on_both_loops
async def test_a_server_that_does_not_read_protobuf_gets_json_from_then_on(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_status(415, "UnsupportedMediaType", "no"), reply_json(DOCUMENT))
        await api.create(CONFIG_MAPS, OBJECT)
        await api.update(CONFIG_MAPS, OBJECT)
        assert [seen.headers["Content-Type"] for seen in server.seen] == [codec.PROTOBUF, codec.JSON, codec.JSON]


@on_both_loops
async def test_patch(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_json(DOCUMENT))
        operations = [{"op": "add", "path": "/data/x", "value": "<"}]
        assert await api.patch(CONFIG_MAPS, "a", operations, JSON_PATCH, "n") == OBJECT
        await api.patch(CONFIG_MAPS, "a", DOCUMENT, APPLY_PATCH, "n", WriteOptions(field_manager="m"), force=True)
        json_patch, apply = server.seen
        assert json_patch.headers["Content-Type"] == "application/json-patch+json"
        assert json.loads(json_patch.body) == operations
        assert apply.headers["Content-Type"] == "application/apply-patch+yaml"
        assert apply.query == {"fieldManager": "m", "force": "true"}


@on_both_loops
async def test_delete_sends_preconditions(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))
        await api.delete(CONFIG_MAPS, "a", "n", DeleteOptions(preconditions=Preconditions(uid="u")))
        await api.delete(CONFIG_MAPS, "a", "n")
        await api.delete_collection(CONFIG_MAPS, "n", ListOptions(label_selector="a=b,c!=d"))
        one, plain, many = server.seen
        assert json.loads(one.body) == {
            "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"},
        }  # fmt: skip
        assert plain.body == b"" and "Content-Type" not in plain.headers
        assert (many.method, many.path) == ("DELETE", "/api/v1/namespaces/n/configmaps")
        assert many.query == {"labelSelector": "a=b,c!=d"}


@on_both_loops
async def test_names_are_escaped_and_those_that_change_the_path_refused(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        name = "system:node?x=ä b#c"
        server.script(reply_json({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}))
        await api.get(NAMESPACES, name)
        assert server.seen[0].raw_path == "/api/v1/namespaces/system:node%3Fx=%C3%A4%20b%23c"
        for name in ("", ".", "..", "a/b", "a%2fb"):
            with pytest.raises(InvalidName, match="cannot stand in a path"):
                await api.get(NAMESPACES, name)
        with pytest.raises(ValueError, match="need a namespace"):
            await api.get(CONFIG_MAPS, "a")
        with pytest.raises(ValueError, match="no namespaces"):
            await api.list(NAMESPACES, "n")
        assert len(server.seen) == 1


@pytest.mark.parametrize(("name", "namespace"), [("b", "n"), ("", "n"), ("../a", "n"), ("a", "m"), ("a", "")])
def test_another_object_than_the_one_of_the_path_is_no_answer(
    ca: ThrowawayCA, serving: ssl.SSLContext, name: str, namespace: str
) -> None:
    other = {**DOCUMENT, "metadata": {"name": name, "namespace": namespace}}
    answers = (
        reply_json(other),
        reply(sealed(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))), content_type=codec.PROTOBUF),
    )

    @on_both_loops
    async def scenario() -> None:
        async with ScriptedServer(serving) as server, client(server, ca) as api:
            for answer in answers:
                server.script(answer)
                for ask in (
                    api.get(CONFIG_MAPS, "a", "n"),
                    api.create(CONFIG_MAPS, OBJECT),
                    api.update(CONFIG_MAPS, OBJECT),
                    api.patch(CONFIG_MAPS, "a", {}, APPLY_PATCH, "n"),
                ):
                    with pytest.raises(NotKubernetes, match="expected 'n/a'"):
                        await ask

    scenario()


@on_both_loops
async def test_a_server_chooses_the_name_of_what_has_none(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_json(DOCUMENT))
        made = await api.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(generate_name="a", namespace="n")))
        assert made == OBJECT


@on_both_loops
async def test_a_large_body_is_sent_whole(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_json(DOCUMENT))
        await api.update(CONFIG_MAPS, ConfigMap(metadata=OBJECT.metadata, data={"k": "x" * 2_000_000}))
        assert len(server.seen[0].body) > 2_000_000


@on_both_loops
async def test_a_path_in_the_server_s_url_precedes_every_request(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server:
        clock = FakeClock()
        tls = TLSFiles(TLSSources(ca_bundle=ca.bundle), clock)
        async with HTTPSClient(ClientOptions(f"{server.url}/k8s/clusters/c-1/"), tls=tls, clock=clock) as api:
            server.script(reply(b"ok", content_type="text/plain"))
            answer = await api.raw("GET", "/readyz?verbose")
            assert (answer.status, answer.body) == (200, b"ok")
            assert server.seen[0].raw_path == "/k8s/clusters/c-1/readyz?verbose"


@on_both_loops
async def test_raw_does_not_raise_for_a_status(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply(b"[-]etcd failed", 500, "text/plain", {"X-Thing": "1"}))
        answer = await api.raw("POST", "/x", b"body", {"Content-Type": "text/plain"})
        assert (answer.status, answer.headers["x-thing"]) == (500, "1")
        assert server.seen[0].body == b"body"


# ------------------------------------------------------------------ lists


def listing(**metadata: Any) -> dict[str, Any]:
    item = {name: DOCUMENT[name] for name in ("metadata", "data")}
    return {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": [item]}


@on_both_loops
async def test_list(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    metadata = {"resourceVersion": "9", "continue": "next", "remainingItemCount": 3}
    raw = protobuf.codec_for(ListMeta).encode(ListMeta(resource_version="9", continue_="next", remaining_item_count=3))
    item = protobuf.codec_for(ConfigMap).encode(OBJECT)
    parts = protobuf.length_delimited(1, raw) + protobuf.length_delimited(2, item)
    as_protobuf = bytes(protobuf.seal("v1", "ConfigMapList", parts))
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_json(listing(**metadata)), reply(as_protobuf, content_type=codec.PROTOBUF))
        options = ListOptions(
            label_selector="a in (b)", field_selector="metadata.name=x", limit=5, continue_token="t",
            resource_version="0", resource_version_match="NotOlderThan",
        )  # fmt: skip
        for namespace in ("", "n"):
            page = await api.list(CONFIG_MAPS, namespace, options)
            assert page.items == [OBJECT]
            assert (page.resource_version, page.continue_token, page.remaining) == ("9", "next", 3)
        everywhere, one = server.seen
        assert (everywhere.path, one.path) == ("/api/v1/configmaps", "/api/v1/namespaces/n/configmaps")
        assert everywhere.query == {
            "labelSelector": "a in (b)", "fieldSelector": "metadata.name=x", "limit": "5", "continue": "t",
            "resourceVersion": "0", "resourceVersionMatch": "NotOlderThan",
        }  # fmt: skip


@on_both_loops
async def test_a_list_without_items_and_a_compressed_one(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    import gzip

    packed = gzip.compress(json.dumps(listing(resourceVersion="3")).encode())
    empty = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "2"}, "items": None}
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_json(empty), reply(packed, headers={"Content-Encoding": "gzip"}))
        assert (await api.list(CONFIG_MAPS)).items == []
        assert (await api.list(CONFIG_MAPS)).items == [OBJECT]


@on_both_loops
async def test_compression_can_be_left_out(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca, compression=False) as api:
        server.script(reply_json(listing()))
        await api.list(CONFIG_MAPS)
        assert server.seen[0].headers["Accept-Encoding"] == "identity"


@on_both_loops
async def test_an_answer_over_the_bound_is_not_read(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    import gzip

    bomb = gzip.compress(b" " * 10_000_000)
    async with ScriptedServer(serving) as server, client(server, ca, max_body_bytes=100_000) as api:
        server.script(reply(bomb, headers={"Content-Encoding": "gzip"}))
        with pytest.raises(NotKubernetes, match="more than 100000 bytes"):
            await api.list(CONFIG_MAPS)


# ------------------------------------------------------------------ watches


def frame(kind: str, document: Any) -> bytes:
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


@on_both_loops
async def test_watch_in_both_encodings_wherever_it_is_cut(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    as_json = frame("ADDED", DOCUMENT) + frame("DELETED", DOCUMENT)
    as_protobuf = protobuf.watch_frame("ADDED", sealed(OBJECT)) + protobuf.watch_frame("DELETED", sealed(OBJECT))
    expected = [WatchEvent(EventType.ADDED, OBJECT), WatchEvent(EventType.DELETED, OBJECT)]
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        for body, content_type in ((as_json, codec.JSON), (as_protobuf, f"{codec.PROTOBUF};stream=watch")):
            server.script(stream([body[at : at + 7] for at in range(0, len(body), 7)], content_type))
            assert await collected(api) == expected


@on_both_loops
async def test_watch_asks_for_bookmarks_and_initial_events(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    end = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    bookmark = {"kind": "ConfigMap", "apiVersion": "v1", **end}
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(stream([frame("BOOKMARK", bookmark)]))
        (event,) = await collected(api, WatchOptions(send_initial_events=True, timeout_seconds=300))
        assert event.ends_initial_events
        assert event.object is not None and event.object.metadata.resource_version == "9"
        await collected(api, WatchOptions(resource_version="4", field_selector="metadata.name=a"))
        initial, later = server.seen
        assert initial.query == {
            "watch": "true", "allowWatchBookmarks": "true", "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan", "timeoutSeconds": "300",
        }  # fmt: skip
        assert later.query == {
            "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "4", "fieldSelector": "metadata.name=a",
        }  # fmt: skip


@on_both_loops
async def test_an_error_event_is_an_event(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(stream([frame("ERROR", status)]))
        (event,) = await collected(api)
        assert event.type is EventType.ERROR and event.object is None
        assert event.status is not None and (event.status.code, event.status.reason) == (410, "Expired")


@on_both_loops
async def test_a_watch_that_is_refused_raises(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(reply_status(403, "Forbidden", "no"))
        with pytest.raises(APIStatusError, match="no"):
            await collected(api)


@pytest.mark.parametrize(
    ("chunks", "content_type", "error", "text"),
    [
        ([b'{"type":"ADDED","obj'], codec.JSON, ConnectFailed, "inside an event"),
        ([b"<html>"], codec.JSON, NotKubernetes, "no JSON object"),
        ([b"<html>"], "text/html", NotKubernetes, "text/html"),
        ([b"\xff\xff\xff\xff"], codec.PROTOBUF, NotKubernetes, "at most"),
        ([b'{"type":"CHANGED","object":{}}'], codec.JSON, NotKubernetes, "CHANGED"),
        ([b'{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1"}}'], codec.JSON, NotKubernetes, "Secret of v1"),
        ([b'{"kind":"ConfigMapList"}'], codec.JSON, NotKubernetes, "cannot be read"),
    ],
)
def test_a_watch_that_is_none(
    ca: ThrowawayCA,
    serving: ssl.SSLContext,
    chunks: list[bytes],
    content_type: str,
    error: type[Exception],
    text: str,
) -> None:
    @on_both_loops
    async def scenario() -> None:
        async with ScriptedServer(serving) as server, client(server, ca) as api:
            server.script(stream(chunks, content_type))
            with pytest.raises(error, match=text):
                await collected(api)

    scenario()


@on_both_loops
async def test_a_connection_that_breaks_ends_a_watch_with_connect_failed(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(stream([frame("ADDED", DOCUMENT)], then=cut_off))
        events = []
        with pytest.raises(ConnectFailed, match="broke off"):  # noqa: PT012
            async for event in api.watch(CONFIG_MAPS):
                events.append(event)  # noqa: PERF401
        assert len(events) == 1


@on_both_loops
async def test_closing_the_iterator_closes_the_connection(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    gone = asyncio.Event()

    async def until_gone(request: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with ScriptedServer(serving) as server, client(server, ca) as api:
        server.script(stream([frame("ADDED", DOCUMENT)], then=until_gone))
        events = api.watch(CONFIG_MAPS)
        assert (await anext(events)).type is EventType.ADDED
        await events.aclose()
        await gone.wait()


@on_both_loops
async def test_a_silent_watch_ends_some_time_after_its_timeout(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    clock = FakeClock()

    async def forever(_request: Any) -> None:
        await asyncio.Event().wait()

    async with ScriptedServer(serving) as server, client(server, ca, clock) as api:
        server.script(stream([frame("ADDED", DOCUMENT)], then=forever))
        events = api.watch(CONFIG_MAPS, options=WatchOptions(timeout_seconds=300))
        await anext(events)
        following = asyncio.ensure_future(anext(events, None))
        await clock.until_asleep()
        await clock.run(329)
        assert not following.done()
        await clock.run(2)
        assert await following is None


@on_both_loops
async def test_closing_the_client_ends_watches_and_leaves_no_socket(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async def forever(_request: Any) -> None:
        await asyncio.Event().wait()

    async with ScriptedServer(serving) as server:
        api = client(server, ca)
        server.script(stream([frame("ADDED", DOCUMENT)], then=forever))
        events = api.watch(CONFIG_MAPS)
        await anext(events)
        await api.close()
        assert await anext(events, None) is None
        await api.close()
        with pytest.raises(ConnectFailed, match="is closed"):
            await api.get(CONFIG_MAPS, "a", "n")
