"""client/cache/reflector.py: which requests it makes, when, and what it hands on. Times are a fake clock's."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aio import until
from asynctest import async_test
from cache_world import (
    RESOURCE,
    World,
    bookmark,
    config_map,
    error_event,
    event,
    listing,
    names,
    world,
)
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.reflector import ClientError, Reflector
from scripted_server import Handler, cut_off, reply, reply_status, stream
from throwaway_ca import ThrowawayCA

A, B, C = (config_map(name, version) for version, name in enumerate("abc", 1))

WATCH = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "300"}
INITIAL = WATCH | {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
FIRST_LIST = {"limit": "500", "resourceVersion": "0"}


class Recorder:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def replace(self, items: Sequence[ConfigMap]) -> None:
        self.seen.append(names(items))

    def put(self, obj: ConfigMap) -> None:
        self.seen.append(f"+{obj.metadata.name}")

    def remove(self, obj: ConfigMap) -> None:
        self.seen.append(f"-{obj.metadata.name}")


class Running:
    def __init__(self, at: World, sink: Recorder, reflector: Reflector[ConfigMap], errors: list[ClientError]) -> None:
        self.at = at
        self.sink = sink
        self.reflector = reflector
        self.errors = errors


@asynccontextmanager
async def running(
    ca: ThrowawayCA,
    serving: ssl.SSLContext,
    *answers: Handler | str,
    streaming_lists: bool = False,
    jitter: float = 0.0,
) -> AsyncIterator[Running]:
    """A reflector at work. The answer ``"hold"`` is a watch that stays open and says nothing."""
    async with world(ca, serving) as at:
        at.server.script(*(at.open_watch() if isinstance(answer, str) else answer for answer in answers))
        sink, errors = Recorder(), list[ClientError]()
        reflector = Reflector(
            at.client, RESOURCE, sink, clock=at.clock, random=lambda: jitter, streaming_lists=streaming_lists,
            on_error=errors.append,
        )  # fmt: skip
        task = asyncio.create_task(reflector.run())
        try:
            yield Running(at, sink, reflector, errors)
        finally:
            task.cancel()
            await asyncio.wait({task})


@async_test
async def test_list_from_the_cache_then_watch_from_its_version(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    live = stream([event("MODIFIED", config_map("a", 8)), event("ADDED", C), bookmark(12), event("DELETED", C)])
    async with running(ca, serving, listing(7, A, B), live, "hold") as it:
        await it.at.until_stalled()
        assert it.sink.seen == [["a", "b"], "+a", "+c", "-c"]
        assert it.at.queries == [
            FIRST_LIST,
            WATCH | {"resourceVersion": "7"},
            WATCH | {"resourceVersion": "3"},  # C's; a closed stream goes on without a list, at once
        ]
        assert it.at.clock.slept == [] and it.errors == []


@async_test
async def test_a_bookmark_moves_the_version(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with running(ca, serving, listing(7, A), stream([bookmark(12)]), "hold") as it:
        await it.at.until_stalled()
        assert it.at.queries[-1]["resourceVersion"] == "12" == it.reflector.resource_version
        assert it.sink.seen == [["a"]]


@async_test
async def test_the_watch_s_timeout_is_drawn_between_five_and_ten_minutes(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with running(ca, serving, listing(7), "hold", jitter=0.999) as it:
        await it.at.until_stalled()
        assert it.at.queries[-1]["timeoutSeconds"] == "599"


# ------------------------------------------------------------------ 410


@async_test
async def test_410_in_a_watch_lists_again_at_the_last_version_in_one_piece(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    gone = stream([event("ADDED", config_map("b", 9)), error_event(410, "Expired")])
    async with running(ca, serving, listing(7, A), gone, listing(20, C), "hold") as it:
        await it.at.backed_off(0.8)
        await it.at.until_stalled()
        assert it.sink.seen == [["a"], "+b", ["c"]]
        assert it.at.queries[2:] == [{"resourceVersion": "9"}, WATCH | {"resourceVersion": "20"}]
        assert it.errors == [], "nothing out of the ordinary"


@pytest.mark.parametrize(
    "refusal",
    [
        reply_status(410, "Expired", "too old"),
        reply_status(504, "Timeout", "Too large", details={"causes": [{"reason": "ResourceVersionTooLarge"}]}),
    ],
)
def test_a_list_whose_version_is_refused_asks_for_the_newest_state(
    ca: ThrowawayCA, serving: ssl.SSLContext, refusal: Handler
) -> None:
    @async_test
    async def scenario() -> None:
        gone = stream([error_event(410, "Gone")])
        async with running(ca, serving, listing(7, A), gone, refusal, listing(20, C), "hold") as it:
            await it.at.backed_off(0.8)
            await it.at.until_stalled()
            assert it.at.queries[2:] == [
                {"resourceVersion": "7"}, {"limit": "500"}, WATCH | {"resourceVersion": "20"},
            ]  # fmt: skip
            assert it.sink.seen == [["a"], ["c"]]

    scenario()


@async_test
async def test_a_server_that_pages_a_cached_list_is_asked_in_pages_for_good(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    gone = stream([error_event(410, "Gone")])
    pages = listing(7, A, continue_token="t"), listing(7, B)
    async with running(ca, serving, *pages, gone, listing(20, C), "hold") as it:
        await it.at.backed_off(0.8)
        await it.at.until_stalled()
        assert it.sink.seen == [["a", "b"], ["c"]]
        assert it.at.queries[3] == {"limit": "500", "resourceVersion": "7"}


# ------------------------------------------------------------------ trouble


@async_test
async def test_429_when_opening_a_watch_waits_on_the_same_version(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    busy = reply(b"Too many requests", 429, "text/plain")
    async with running(ca, serving, listing(7, A), busy, busy, "hold") as it:
        await it.at.backed_off(0.8)
        await it.at.backed_off(1.6)
        await it.at.until_stalled()
        assert it.at.queries[1:] == [WATCH | {"resourceVersion": "7"}] * 3
        assert it.sink.seen == [["a"]]


@async_test
async def test_429_inside_a_watch_waits_on_the_same_version(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    busy = stream([event("ADDED", config_map("b", 9)), error_event(429, "TooManyRequests")])
    async with running(ca, serving, listing(7, A), busy, "hold") as it:
        await it.at.backed_off(0.8)
        await it.at.until_stalled()
        assert it.at.queries[2:] == [WATCH | {"resourceVersion": "9"}]


@async_test
async def test_a_lost_connection_waits_on_the_same_version(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async def drop(request: Any) -> Any:
        await cut_off(request)

    # Dropped connections are tried twice by aiohttp, because reads may be.
    async with running(ca, serving, listing(7, A), drop, drop, "hold") as it:
        await it.at.backed_off(0.8)
        await it.at.until_stalled()
        assert it.at.queries[-1] == WATCH | {"resourceVersion": "7"}
        assert it.sink.seen == [["a"]]
        assert len(it.errors) == 1


@async_test
async def test_a_watch_that_breaks_off_after_events_goes_on_at_once(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    broken = stream([event("ADDED", config_map("b", 9))], then=cut_off)
    async with running(ca, serving, listing(7, A), broken, "hold") as it:
        await it.at.until_stalled()
        assert it.at.queries[-1] == WATCH | {"resourceVersion": "9"}
        assert it.at.clock.slept == []


@pytest.mark.parametrize(
    "answer",
    [
        reply_status(403, "Forbidden", "no"),
        reply_status(500, "InternalError", "boom"),
        stream([error_event(500, "InternalError")]),
        reply(b"<html>", content_type="text/html"),
        stream([b"garbage"]),
    ],
)
def test_any_other_failure_of_a_watch_is_reported_and_lists_again(
    ca: ThrowawayCA, serving: ssl.SSLContext, answer: Handler
) -> None:
    @async_test
    async def scenario() -> None:
        async with running(ca, serving, listing(7, A), answer, listing(8, A, B), "hold") as it:
            await it.at.backed_off(0.8)
            await it.at.until_stalled()
            assert len(it.errors) == 1
            assert it.at.queries[2:] == [{"resourceVersion": "7"}, WATCH | {"resourceVersion": "8"}]

    scenario()


@async_test
async def test_a_watch_of_less_than_a_second_without_events_counts_as_a_failure(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with running(ca, serving, listing(7, A), stream([]), listing(8, A), "hold") as it:
        await it.at.backed_off(0.8)
        await it.at.until_stalled()
        assert it.at.queries[2:] == [{"resourceVersion": "7"}, WATCH | {"resourceVersion": "8"}]


@async_test
async def test_a_longer_one_is_simply_opened_again(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    opened, go_on = asyncio.Event(), asyncio.Event()

    async def hold(_request: Any) -> None:
        opened.set()
        await go_on.wait()

    async with running(ca, serving, listing(7, A), stream([], then=hold), "hold") as it:
        await opened.wait()
        it.at.clock.advance(1)
        go_on.set()
        await it.at.until_stalled()
        assert it.at.queries[1:] == [WATCH | {"resourceVersion": "7"}] * 2


@async_test
async def test_failing_lists_back_off_with_jitter_to_the_cap_and_calm_down(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    broken = reply_status(500, "InternalError", "boom")
    async with running(ca, serving, broken, jitter=0.5) as it:
        for seconds in (1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0, 45.0):  # 30 s and half of it
            await it.at.backed_off(seconds)
        await until(lambda: len(it.errors) == 9)
        await it.at.clock.until_asleep()
        it.at.clock.slept.clear()
        it.at.clock.advance(200)
        await it.at.backed_off(1.2)
        assert it.sink.seen == []


# ------------------------------------------------------------------ streaming lists


@async_test
async def test_a_streaming_list_fills_the_copy_and_goes_on_in_the_same_stream(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    frames = [event("ADDED", A), event("ADDED", B), event("MODIFIED", config_map("a", 3)), event("DELETED", B)]
    answer = stream([*frames, bookmark(9, end=True), event("ADDED", config_map("c", 10))])
    async with running(ca, serving, answer, "hold", streaming_lists=True) as it:
        await it.at.until_stalled()
        assert it.sink.seen == [["a"], "+c"]
        assert it.at.queries == [INITIAL, WATCH | {"resourceVersion": "10"}]


@pytest.mark.parametrize(
    "answer",
    [
        reply_status(422, "Invalid", "sendInitialEvents is forbidden"),
        reply_status(400, "BadRequest", "no"),
        stream([error_event(500, "InternalError")]),
        reply(b"<html>", content_type="text/html"),
    ],
)
def test_a_refused_streaming_list_falls_back_to_an_ordinary_one(
    ca: ThrowawayCA, serving: ssl.SSLContext, answer: Handler
) -> None:
    @async_test
    async def scenario() -> None:
        async with running(ca, serving, answer, listing(7, A), "hold", streaming_lists=True) as it:
            await it.at.until_stalled()
            assert it.at.queries == [INITIAL, FIRST_LIST, WATCH | {"resourceVersion": "7"}]
            assert it.sink.seen == [["a"]]

    scenario()


@async_test
async def test_a_streaming_list_that_is_put_off_is_tried_again(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    busy = reply(b"", 429, "text/plain")
    cut = stream([event("ADDED", A)])
    good = stream([event("ADDED", B), bookmark(9, end=True), bookmark(10)])
    async with running(ca, serving, busy, cut, good, "hold", streaming_lists=True) as it:
        await it.at.backed_off(0.8)
        await it.at.backed_off(1.6)
        await it.at.until_stalled()
        assert it.sink.seen == [["b"]], "nothing of a list that was not complete"
        assert it.at.queries[:3] == [INITIAL] * 3


@async_test
async def test_after_410_a_streaming_list_starts_from_nothing(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    good = stream([event("ADDED", A), bookmark(9, end=True), error_event(410, "Expired")])
    refused = stream([error_event(410, "Expired")])
    again = stream([event("ADDED", B), bookmark(20, end=True), bookmark(21)])
    async with running(ca, serving, good, refused, again, "hold", streaming_lists=True) as it:
        await it.at.backed_off(0.8)
        await it.at.backed_off(1.6)
        await it.at.until_stalled()
        assert it.at.queries == [
            INITIAL, INITIAL | {"resourceVersion": "9"}, INITIAL, WATCH | {"resourceVersion": "21"},
        ]  # fmt: skip
        assert it.sink.seen == [["a"], ["b"]]


@async_test
async def test_a_server_that_never_ends_the_initial_events_is_found_out(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with running(ca, serving, "hold", listing(7, A), "hold", streaming_lists=True) as it:
        it.at.server.answers[0] = it.at.open_watch(event("ADDED", A))
        await it.at.until_stalled()
        await until(lambda: 10.0 in it.at.clock.slept)
        it.at.clock.advance(10)
        await it.at.until_stalled()
        assert it.at.queries == [INITIAL, FIRST_LIST, WATCH | {"resourceVersion": "7"}]
        assert it.sink.seen == [["a"]]
