"""What a revocation reaches, out of the ledger, by each way to name it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from asynctest import async_test
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import IssuedNumbers, IssuedPeriod, RevocationTargets
from kubevouch.ledger.entries import DENIED, ISSUED, Entry
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.text.times import Time
from kubevouch.revocation.known import KnownCertificates, fingerprint_of
from kubevouch.revocation.reach import numbers_of, reached

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def entry(serial: str, at: dt.datetime = NOW, node: str = "a", **fields: Any) -> Entry:
    subject = f"system:node:{node}" if node else "alice"
    given: dict[str, Any] = {
        "kind": ISSUED, "at": at, "serial": serial, "issuer_key": "aa", "node": node, "subject": subject,
        "requester": subject, "key": f"key-{serial}", "not_after": NOW + 90 * DAY, "certificate": serial.encode(),
    }  # fmt: skip
    return Entry(**(given | fields))


def joined(serial: str, token: str, at: dt.datetime = NOW, node: str = "a") -> Entry:
    return entry(serial, at, node, requester=f"system:bootstrap:{token}", token=token)


LEDGER = (
    joined("1", "abcdef", NOW - 9 * DAY),
    entry("2", NOW - 8 * DAY),
    joined("3", "uvwxyz", NOW - 7 * DAY),
    entry("4", NOW - 6 * DAY),
    entry("5", NOW - 5 * DAY, "b", requester="admin"),
    entry("6", NOW - 4 * DAY, "", issuer_key="bb", names=("system:node:a",)),
    entry("7", NOW - 3 * DAY, "", kind=DENIED),
    entry("8", NOW - 99 * DAY, not_after=NOW - DAY),
    joined("9", "abcdef", NOW - 2 * DAY, "c"),
    entry("a", NOW, "c", requester="kubevouch:recovery:c"),
    entry("1", NOW, "", issuer_key="bb"),
)


@pytest.mark.parametrize(
    ("targets", "serials"),
    [
        ({"serials": [IssuedNumbers(issuer="aa", numbers=["1", "77"])]}, ["1"]),
        ({"serials": [IssuedNumbers(issuer="bb", numbers=["2"])]}, []),
        ({"certificates": [fingerprint_of(LEDGER[1])]}, ["2"]),
        ({"keys": ["key-6"]}, ["6"]),
        ({"nodes": ["a"]}, ["1", "2", "3", "4"]),
        # Not what bears the name beside another one.
        ({"users": ["system:node:a"]}, ["1", "2", "3", "4"]),
        ({"users": ["alice"]}, ["6", "1"]),
        ({"users": ["Alice", "system:node:A"]}, []),
        ({"requesters": ["admin"]}, ["5"]),
        # What a machine has renewed is the token's that let it in last.
        ({"tokens": ["abcdef"]}, ["1", "2", "9", "a"]),
        ({"tokens": ["uvwxyz"]}, ["3", "4"]),
        ({"periods": [IssuedPeriod(since=Time.of(NOW - 5 * DAY), until=Time.of(NOW - 4 * DAY))]}, ["5", "6"]),
        ({"periods": [IssuedPeriod(issuer="bb", since=Time.of(NOW - 9 * DAY), until=Time.of(NOW))]}, ["6", "1"]),
        ({"nodes": ["b"], "keys": ["key-5"]}, ["5"]),
    ],
)
@async_test
async def test_each_way_to_name_certificates(targets: dict[str, Any], serials: list[str]) -> None:
    ledger = MemoryLedger()
    await ledger.append(*LEDGER)
    found = await reached(KnownCertificates.of(ledger), RevocationTargets(**targets), NOW, now=NOW)
    assert [each.entry.serial for each in found] == serials


@async_test
async def test_names_reach_back_only() -> None:
    ledger = MemoryLedger()
    await ledger.append(*LEDGER)
    found = await reached(KnownCertificates.of(ledger), RevocationTargets(nodes=["a"]), NOW - 7 * DAY, now=NOW)
    assert [each.entry.serial for each in found] == ["1", "2", "3"]


@async_test
@pytest.mark.parametrize(
    "targets",
    [
        {"nodes": ["a"]},
        {"periods": [IssuedPeriod(since=Time.of(NOW - 99 * DAY), until=Time.parse("9999-12-31T23:59:59Z"))]},
    ],
)
async def test_until_the_last_second_that_can_be_written(targets: dict[str, Any]) -> None:
    ledger = MemoryLedger()
    await ledger.append(entry("1"))
    last = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
    found = await reached(KnownCertificates.of(ledger), RevocationTargets(**targets), last, now=NOW)
    assert [each.entry.serial for each in found] == ["1"]


@async_test
async def test_what_a_first_certificate_let_in_counts_once_that_has_ended() -> None:
    ledger = MemoryLedger()
    await ledger.append(
        entry("1", NOW - 9 * DAY, requester="system:bootstrap:abcdef", token="abcdef", not_after=NOW - DAY),
        entry("2", NOW - 5 * DAY),
    )
    found = await reached(KnownCertificates.of(ledger), RevocationTargets(tokens=["abcdef"]), NOW, now=NOW)
    assert [each.entry.serial for each in found] == ["2"]


@async_test
async def test_more_than_a_page() -> None:
    ledger = MemoryLedger()
    await ledger.append(*(entry(f"{number:x}") for number in range(2500)))
    assert len(await reached(KnownCertificates.of(ledger), RevocationTargets(nodes=["a"]), NOW, now=NOW)) == 2500


def test_numbers_by_issuer() -> None:
    found = numbers_of([LEDGER[0], LEDGER[-1], LEDGER[1], entry("f", issuer_key="")])
    assert found == [IssuedNumbers(issuer="aa", numbers=["1", "2"]), IssuedNumbers(issuer="bb", numbers=["1"])]
