from __future__ import annotations

from kubevouch.testing.clock import FakeClock
from kubevouch.util.expiring_cache import ExpiringCache


def test_entries_end_with_their_time() -> None:
    clock = FakeClock()
    cache: ExpiringCache[str, int] = ExpiringCache(10, clock)
    cache.put("a", 1, 10)
    cache.put("b", 2, 20)
    cache.put("never", 3, 0)
    clock.advance(9.9)
    assert (cache.get("a"), cache.get("b"), cache.get("never")) == (1, 2, None)
    clock.advance(0.1)
    assert (cache.get("a"), cache.get("b")) == (None, 2)
    assert len(cache) == 1


def test_the_least_recently_used_goes_first() -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(2, FakeClock())
    cache.put("a", 1, 10)
    cache.put("b", 2, 10)
    assert cache.get("a") == 1
    cache.put("c", 3, 10)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
