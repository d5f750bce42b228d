"""The keys that a cloud publishes: kept, and read again when one is not known."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.attestation.interface import RefusedEvidenceError, SettingsError, UnavailableError
from kubevouch.attestation.published_keys import (
    BETWEEN_SECONDS,
    FRESH_SECONDS,
    STALE_SECONDS,
    PublishedKeys,
)
from kubevouch.testing.clock import FakeClock
from token_keys import jwk, key_set, signed

PAYLOAD = b'{"iss":"me"}'


class Issuer:
    """Publishes a set of keys, or is away."""

    def __init__(self) -> None:
        self.kids = ["k"]
        self.away = False
        self.asked = 0

    async def fetch(self, url: str) -> bytes:
        assert url == "https://keys.test/certs"
        self.asked += 1
        await asyncio.sleep(0)
        if self.away:
            raise UnavailableError("away")
        return key_set(*(jwk(kid) for kid in self.kids))


def tokens(kid: str) -> str:
    return signed(PAYLOAD, header={"alg": "RS256", "kid": kid})


def published(issuer: Issuer, clock: FakeClock) -> PublishedKeys:
    return PublishedKeys("https://keys.test/certs", issuer.fetch, clock)


@async_test
async def test_keys_are_fetched_once_for_all_who_ask_and_again_after_an_hour() -> None:
    issuer, clock = Issuer(), FakeClock()
    keys = published(issuer, clock)

    assert await asyncio.gather(*(keys.payload(tokens("k")) for _ in range(8))) == [PAYLOAD] * 8
    assert issuer.asked == 1
    clock.advance(FRESH_SECONDS - 1)
    await keys.payload(tokens("k"))
    assert issuer.asked == 1
    clock.advance(1)
    await keys.payload(tokens("k"))
    assert issuer.asked == 2


@async_test
async def test_a_key_that_was_published_since_is_found() -> None:
    issuer, clock = Issuer(), FakeClock()
    keys = published(issuer, clock)
    await keys.payload(tokens("k"))
    issuer.kids = ["next"]
    clock.advance(BETWEEN_SECONDS)

    assert await keys.payload(tokens("next")) == PAYLOAD
    with pytest.raises(RefusedEvidenceError):
        await keys.payload(tokens("k"))


@async_test
async def test_tokens_with_unknown_keys_cost_one_fetch_in_thirty_seconds_and_nobody_is_refused_by_old_keys() -> None:
    issuer, clock = Issuer(), FakeClock()
    keys = published(issuer, clock)
    with pytest.raises(RefusedEvidenceError) as caught:
        await keys.payload(tokens("unknown"))
    assert caught.value.step == "kid"
    clock.advance(1)

    for _ in range(100):
        with pytest.raises(UnavailableError) as waits:
            await keys.payload(tokens("unknown"))
        assert waits.value.retry_after == BETWEEN_SECONDS - 1
    assert issuer.asked == 1
    assert await keys.payload(tokens("k")) == PAYLOAD
    clock.advance(BETWEEN_SECONDS)
    with pytest.raises(RefusedEvidenceError):
        await keys.payload(tokens("unknown"))
    assert issuer.asked == 2


@async_test
async def test_an_issuer_that_is_away_refuses_nobody_and_its_keys_count_for_a_day() -> None:
    issuer, clock = Issuer(), FakeClock()
    keys = published(issuer, clock)
    issuer.away = True
    with pytest.raises(UnavailableError):
        await keys.payload(tokens("k"))
    issuer.away = False
    clock.advance(BETWEEN_SECONDS)
    await keys.payload(tokens("k"))
    issuer.away = True
    clock.advance(BETWEEN_SECONDS)

    # Whoever shows a key that is not known waits: the next keys may have it.
    with pytest.raises(UnavailableError):
        await keys.payload(tokens("next"))
    clock.advance(STALE_SECONDS - BETWEEN_SECONDS - 1)
    await keys.payload(tokens("k"))
    clock.advance(1)
    with pytest.raises(UnavailableError):
        await keys.payload(tokens("k"))


@async_test
async def test_keys_in_a_file_are_read_again(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "keys.json"
    keys = PublishedKeys(str(path), Issuer().fetch, clock)
    with pytest.raises(UnavailableError):
        await keys.payload(tokens("k"))
    path.write_bytes(key_set(jwk("k")))
    clock.advance(BETWEEN_SECONDS)

    assert await keys.payload(tokens("k")) == PAYLOAD
    path.write_text("{}")
    clock.advance(FRESH_SECONDS)
    assert await keys.payload(tokens("k")) == PAYLOAD


@pytest.mark.parametrize("source", ["", "http://keys.test/certs", "keys.json", "file:///keys.json"])
def test_a_source_that_is_none(source: str) -> None:
    with pytest.raises(SettingsError):
        PublishedKeys(source, Issuer().fetch, FakeClock())
