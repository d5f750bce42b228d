"""ledger/cluster.py: over a server that answers late, twice, wrongly or not at all, one chain and nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import ledger_world as made
from asynctest import async_test
from controller_world import NOW, World, answer, world
from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS, NAMESPACES
from kubevouch.api.core_v1 import ConfigMap, Namespace
from kubevouch.client.interface import Client, ConnectFailed, ListOptions, NotLeading
from kubevouch.ledger import cluster, segments
from kubevouch.ledger.cluster import ClusterLedger, load
from kubevouch.ledger.entries import INTENDED, ISSUED, Entry, EntryTooLarge, Query
from kubevouch.ledger.interface import LedgerDamaged, LedgerError, LedgerOvertaken, LedgerUnavailable, signed_before
from kubevouch.ledger.segments import ENTRIES
from kubevouch.machinery.meta import ObjectMeta

NAMESPACE = wellknown.LEDGER_NAMESPACE
HEAD = wellknown.LEDGER_HEAD_CONFIGMAP
Call = Callable[[], Awaitable[Any]]


class Faulty:
    """A client whose next writes and reads go as a test says: ``faults`` has one for each, in their order."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.faults: list[Callable[[Call], Awaitable[Any]]] = []
        self.reads: list[Exception] = []
        self.writes = 0

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._client, verb)

    async def get(self, *arguments: Any, **more: Any) -> Any:
        if self.reads:
            raise self.reads.pop(0)
        return await self._client.get(*arguments, **more)

    async def create(self, *arguments: Any, **more: Any) -> Any:
        return await self._write(lambda: self._client.create(*arguments, **more))

    async def update(self, *arguments: Any, **more: Any) -> Any:
        return await self._write(lambda: self._client.update(*arguments, **more))

    async def _write(self, call: Call) -> Any:
        self.writes += 1
        return await (self.faults.pop(0)(call) if self.faults else call())


async def carried_out_unheard(call: Call) -> Any:
    await call()
    raise ConnectFailed("connection reset")


async def carried_out_and_timed_out(call: Call) -> Any:
    await call()
    raise answer(504)


async def lost(_call: Call) -> Any:
    raise ConnectFailed("connection reset")


async def refused(_call: Call) -> Any:
    raise answer(403)


async def busy(_call: Call) -> Any:
    raise answer(429)


async def not_sent(_call: Call) -> Any:
    raise NotLeading("another process leads")


@asynccontextmanager
async def prepared() -> AsyncIterator[World]:
    async with world() as at:
        await at.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        yield at


@asynccontextmanager
async def opened(at: World, client: Any = None) -> AsyncIterator[ClusterLedger]:
    ledger = await ClusterLedger.open(client or at.client, at.clock)
    try:
        yield ledger
    finally:
        await ledger.close()


async def outcome(at: World, appending: Awaitable[Any]) -> Any:
    """Of an append, while time passes."""
    task = asyncio.ensure_future(appending)
    while not task.done():
        await asyncio.sleep(0)
        at.clock.advance(0.01)
    try:
        return task.result()
    except LedgerError as err:
        return err


async def stored(at: World) -> list[Entry]:
    loaded = await load(at.client)
    return [each.entry for each in await loaded.entries.find(Query(limit=100_000))]


async def segment(at: World, number: int = 0) -> ConfigMap:
    return await at.client.get(CONFIG_MAPS, segments.name_of(number), NAMESPACE)


@async_test
async def test_two_writers_and_a_successor_make_one_chain() -> None:
    async with prepared() as at:
        async with opened(at) as one, opened(at) as other:

            async def some(ledger: ClusterLedger, first: int) -> list[int]:
                return [await ledger.append(made.entry(number)) for number in range(first, first + 200)]

            numbers = await asyncio.gather(some(one, 0), some(other, 300))
            assert sorted(numbers[0] + numbers[1]) == list(range(400))
            found = [await each.find(Query(limit=1000)) for each in (one, other)]
            assert found[0] == found[1]
            assert {each.sequence: each.entry for each in found[0]} == {
                **dict(zip(numbers[0], map(made.entry, range(200)), strict=True)),
                **dict(zip(numbers[1], map(made.entry, range(300, 500)), strict=True)),
            }
            assert one.origin == other.origin
        async with opened(at) as after:
            assert await after.find(Query(limit=1000)) == found[0]
            assert await after.append(made.entry(900)) == 400
        listed = await at.client.list(CONFIG_MAPS, NAMESPACE, ListOptions())
        full = [each.immutable for each in listed.items if each.metadata.name.startswith(segments.PREFIX)]
        assert full == [True] * (len(full) - 1) + [None]
        assert len(full) > 2


@async_test
async def test_what_comes_together_shares_a_write() -> None:
    async with prepared() as at:
        client = Faulty(at.client)
        async with opened(at, client) as ledger:
            assert await asyncio.gather(*(ledger.append(made.entry(n), made.entry(n + 50)) for n in range(20))) == list(
                range(1, 41, 2)
            )
            assert client.writes == 1
            assert (ledger.statistics.commits, ledger.statistics.appended) == (1, 40)
            assert ledger.lag == 0.0


@pytest.mark.parametrize("fault", [carried_out_unheard, carried_out_and_timed_out])
@pytest.mark.parametrize("number", [0, 1, 70])
def test_a_write_that_was_carried_out_unheard_is_not_repeated(fault: Any, number: int) -> None:
    @async_test
    async def scenario() -> None:
        async with prepared() as at:
            client = Faulty(at.client)
            async with opened(at, client) as ledger:
                for before in range(number):
                    await ledger.append(made.entry(before))
                client.faults = [fault]
                assert await outcome(at, ledger.append(made.entry(number))) == number
                assert await ledger.append(made.entry(number + 1)) == number + 1
            assert await stored(at) == [made.entry(each) for each in range(number + 2)]

    scenario()


@async_test
async def test_a_write_that_arrives_late_counts_once() -> None:
    async with prepared() as at:
        client = Faulty(at.client)
        async with opened(at, client) as ledger:
            await ledger.append(made.entry(0))
            late: list[Call] = []

            async def under_way(call: Call) -> Any:
                late.append(call)
                raise ConnectFailed("timed out")

            async def overtaken(call: Call) -> Any:
                await late.pop()()
                return await call()

            client.faults = [under_way, overtaken]
            assert await outcome(at, ledger.append(made.entry(1))) == 1
        assert await stored(at) == [made.entry(0), made.entry(1)]


@async_test
async def test_a_read_that_fails_after_an_unheard_write_is_tried_again() -> None:
    async with prepared() as at:
        client = Faulty(at.client)
        async with opened(at, client) as ledger:
            await ledger.append(made.entry(0))
            client.faults = [carried_out_unheard]
            client.reads = [ConnectFailed("connection reset"), answer(500)]
            assert await outcome(at, ledger.append(made.entry(1))) == 1
        assert await stored(at) == [made.entry(0), made.entry(1)]


@async_test
async def test_what_is_lost_or_turned_away_is_sent_again_and_then_told() -> None:
    async with prepared() as at:
        client = Faulty(at.client)
        async with opened(at, client) as ledger:
            client.faults = [lost, busy]
            assert await outcome(at, ledger.append(made.entry(0))) == 0
            for fault, times in ((lost, 9), (refused, 1), (not_sent, 1)):
                client.faults = [fault] * times
                failed = await outcome(at, ledger.append(made.entry(1)))
                assert isinstance(failed, LedgerUnavailable), failed
                client.faults = []
            assert ledger.statistics.failed_commits == 3
            assert await outcome(at, ledger.append(made.entry(1))) == 1
        assert await stored(at) == [made.entry(0), made.entry(1)]


@async_test
async def test_without_its_namespace_it_says_what_to_do() -> None:
    async with world() as at, opened(at) as ledger:
        failed = await outcome(at, ledger.append(made.entry(0)))
        assert "kubectl create namespace kubevouch-ledger" in str(failed)


@async_test
async def test_a_question_sees_what_another_has_written_before_it() -> None:
    async with prepared() as at, opened(at) as one, opened(at) as other:
        for number in range(90):
            await one.append(made.entry(number))
            assert [each.entry for each in await other.find(Query(uid=made.entry(number).uid))][-1] == made.entry(
                number
            )
        client_reads = [await each.find(Query(limit=1000)) for each in (one, other)]
        assert client_reads[0] == client_reads[1]


@async_test
async def test_of_two_that_found_nothing_one_may_sign() -> None:
    async with prepared() as at, opened(at) as one, opened(at) as other:
        intended, issued = made.entry(1), made.entry(2)
        assert (intended.kind, issued.kind) == (INTENDED, ISSUED)
        for ledger in (one, other):
            assert not await signed_before(ledger, intended.uid, intended.digest)
        outcomes = await asyncio.gather(*(outcome(at, each.append(intended)) for each in (one, other)))
        assert sorted(map(type, outcomes), key=str) == sorted((int, LedgerOvertaken), key=str)
        # Whoever is killed behind it has left this, and is followed; of the certificates one is handed out.
        issued = msgspec.structs.replace(issued, at=NOW, not_after=NOW.replace(year=2027))
        outcomes = await asyncio.gather(*(outcome(at, each.append(issued)) for each in (one, other)))
        assert sorted(map(type, outcomes), key=str) == sorted((int, LedgerOvertaken), key=str)
        later = msgspec.structs.replace(issued, at=NOW.replace(year=2028), not_after=NOW.replace(year=2029))
        assert await outcome(at, other.append(later)) == 2
        both = await asyncio.gather(
            outcome(at, one.append(made.entry(4))), outcome(at, one.append(made.entry(4))), return_exceptions=True
        )
        assert sorted(map(type, both), key=str) == sorted((int, LedgerOvertaken), key=str)
        assert [each.kind for each in await stored(at)] == [INTENDED, ISSUED, ISSUED, INTENDED]


async def _delete(at: World, number: int) -> None:
    await at.client.delete(CONFIG_MAPS, segments.name_of(number), NAMESPACE)


async def _change(at: World, number: int) -> None:
    old = await segment(at, number)
    await _delete(at, number)
    data = {**old.data, ENTRIES: old.data[ENTRIES].replace("csr-", "csr-x", 1)}
    await at.client.create(
        CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=old.metadata.name, namespace=NAMESPACE), data=data,
                               immutable=old.immutable),
    )  # fmt: skip


async def _cut(at: World, number: int) -> None:
    old = await segment(at, number)
    lines = old.data[ENTRIES].splitlines(keepends=True)
    await at.client.update(CONFIG_MAPS, msgspec.structs.replace(old, data={**old.data, ENTRIES: "".join(lines[:-3])}))


@pytest.mark.parametrize(
    ("meddle", "number", "words"),
    [
        (_delete, 0, "no segment-00000000"), (_delete, 1, "no segment-00000001"), (_delete, 2, "at least the 200"),
        (_change, 0, "segment-00000001 that says"), (_change, 2, "whose head was noted"), (_cut, 2, "at least the 200"),
    ],
)  # fmt: skip
def test_what_was_meddled_with_is_found_at_the_next_start(meddle: Any, number: int, words: str) -> None:
    @async_test
    async def scenario() -> None:
        async with prepared() as at:
            async with opened(at) as ledger:
                for each in range(200):
                    await ledger.append(made.entry(each))
            assert (await segment(at, 2)).immutable is None
            await meddle(at, number)
            with pytest.raises(LedgerDamaged, match=words):
                await ClusterLedger.open(at.client, at.clock)

    scenario()


@pytest.mark.parametrize("meddle", [_delete, _change, _cut])
def test_what_is_meddled_with_while_it_is_open_is_found_by_the_next_question(meddle: Any) -> None:
    @async_test
    async def scenario() -> None:
        async with prepared() as at, opened(at) as ledger:
            for each in range(10):
                await ledger.append(made.entry(each))
            assert ledger.fault is None
            await meddle(at, 0)
            assert isinstance(await outcome(at, ledger.append(made.entry(10))), LedgerDamaged)
            assert isinstance(await outcome(at, ledger.find(Query())), LedgerDamaged)
            assert ledger.fault is not None

    scenario()


@async_test
async def test_all_of_it_gone_is_no_beginning() -> None:
    async with prepared() as at:
        async with opened(at) as ledger:
            await ledger.append(made.entry(0))
        await _delete(at, 0)
        with pytest.raises(LedgerDamaged, match="0 entries of no ledger"):
            await load(at.client)
        await at.client.delete(CONFIG_MAPS, HEAD, wellknown.KUBE_PUBLIC_NAMESPACE)
        async with opened(at) as another:
            assert await another.append(made.entry(5)) == 0
            assert another.origin != ledger.origin


@async_test
async def test_the_head_is_noted_while_it_grows() -> None:
    async with prepared() as at, opened(at) as ledger:

        async def noted() -> str:
            found = await at.client.get(CONFIG_MAPS, HEAD, wellknown.KUBE_PUBLIC_NAMESPACE)
            return found.data.get("size", "")

        meta = ObjectMeta(name=HEAD, namespace=wellknown.KUBE_PUBLIC_NAMESPACE)
        await at.client.create(CONFIG_MAPS, ConfigMap(metadata=meta))
        for number in range(3):
            await ledger.append(made.entry(number))
        assert not await noted()
        while await noted() != "3":
            at.clock.advance(cluster.NOTE_SECONDS)
            await asyncio.sleep(0)
        async with opened(at) as other:
            await other.append(made.entry(9))
        assert await noted() == "4"


@async_test
async def test_a_ledger_that_is_full_or_closed_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with prepared() as at:
        async with opened(at) as ledger:
            with pytest.raises(EntryTooLarge):
                await ledger.append(*(msgspec.structs.replace(made.entry(1), pkcs10=b"x" * 90_000) for _ in range(9)))
            for each in range(70):
                await ledger.append(made.entry(each))
            monkeypatch.setattr(segments, "MOST_SEGMENTS", 1)
            full = [await outcome(at, ledger.append(made.entry(each))) for each in range(70, 130)]
            assert "all it may have" in str(full[-1])
            assert len(await ledger.find(Query(limit=1000))) >= 70
        for call in (ledger.append(made.entry(99)), ledger.find(Query())):
            with pytest.raises(LedgerUnavailable, match="closed"):
                await call


@async_test
async def test_who_waits_when_it_is_closed_is_told() -> None:
    async with prepared() as at:
        client = Faulty(at.client)
        ledger = await ClusterLedger.open(client, at.clock)

        reached = asyncio.Event()

        async def stands_still(_call: Call) -> Any:
            reached.set()
            await asyncio.Event().wait()

        client.faults = [stands_still]
        first = asyncio.ensure_future(ledger.append(made.entry(0)))
        await reached.wait()
        waiting = [
            first,
            asyncio.ensure_future(ledger.append(made.entry(1))),
            asyncio.ensure_future(ledger.find(Query())),
        ]
        await asyncio.sleep(0)
        assert ledger.lag >= 0.0
        await ledger.close()
        assert all(
            isinstance(each, LedgerUnavailable) for each in await asyncio.gather(*waiting, return_exceptions=True)
        )


@async_test
async def test_the_overtaken_one_says_so() -> None:
    async with prepared() as at, opened(at) as one, opened(at) as other:
        await one.append(made.entry(1))
        assert isinstance(await outcome(at, other.append(made.entry(1))), LedgerOvertaken)
