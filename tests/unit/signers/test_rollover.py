"""signers/rollover.py: in which order CAs are published, sign, retire and are forgotten."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from kubevouch.api.kubevouch_v1alpha1.certificate_signers import MAX_AUTHORITIES, SignerAuthority
from kubevouch.machinery.text.times import Time
from kubevouch.signers import rollover
from kubevouch.signers.rollover import Plan, RolloverError

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)


def at(after: dt.timedelta) -> Time:
    return Time.of(NOW + after)


def ca(name: str, **times: Time) -> SignerAuthority:
    fields = {"not_after": at(100 * DAY), **times}
    return msgspec.structs.replace(SignerAuthority(fingerprint=name, certificate=f"<{name}>"), **fields)


def planned(listed: tuple[SignerAuthority, ...], current: str, *available: str, after: dt.timedelta = HOUR * 0) -> Plan:
    return rollover.plan(
        listed, current, frozenset(available or (current,)), now=NOW + after, overlap=HOUR, longest=DAY
    )


def test_the_first_one_signs_as_soon_as_it_is_published() -> None:
    listed = rollover.published((), ca("a"), None)
    assert [each.fingerprint for each in listed] == ["a"]
    plan = planned(listed, "a")
    assert plan.signs == "a" and plan.wake_after == 100 * DAY.total_seconds()
    assert (plan.authorities[0].published_at, plan.authorities[0].signs_since) == (at(0 * HOUR), at(0 * HOUR))


def test_the_next_one_waits_then_takes_over_once_and_the_former_one_goes_last() -> None:
    first = planned(rollover.published((), ca("a"), None), "a").authorities
    listed = rollover.published(first, ca("b"), None)
    waiting = planned(listed, "b", "a", "b", after=HOUR)
    assert waiting.signs == "a" and waiting.wake_after == HOUR.total_seconds()
    assert planned(waiting.authorities, "b", "a", "b", after=2 * HOUR - dt.timedelta(seconds=1)).signs == "a"
    done = planned(waiting.authorities, "b", "a", "b", after=2 * HOUR)
    assert done.signs == "b" and done.wake_after == DAY.total_seconds()
    a, b = done.authorities
    assert (a.retired_at, b.signs_since, b.retired_at) == (at(2 * HOUR), at(2 * HOUR), None)
    # A later look changes nothing.
    assert planned(done.authorities, "b", "b", after=3 * HOUR).authorities == done.authorities
    assert rollover.known(done.authorities, NOW + 2 * HOUR + DAY - dt.timedelta(seconds=1), DAY) == [a, b]
    assert rollover.known(done.authorities, NOW + 2 * HOUR + DAY, DAY) == [b]


def test_without_a_former_key_nobody_signs_in_between() -> None:
    first = planned(rollover.published((), ca("a"), None), "a").authorities
    waiting = planned(rollover.published(first, ca("b"), None), "b", "b", after=HOUR)
    assert waiting.signs == "" and waiting.authorities[0].retired_at is None


def test_one_that_was_withdrawn_before_it_signed_is_not_kept_and_going_back_needs_no_wait() -> None:
    first = planned(rollover.published((), ca("a"), None), "a").authorities
    waiting = planned(rollover.published(first, ca("b"), None), "b", "a", "b")
    assert [each.fingerprint for each in rollover.published(waiting.authorities, ca("a"), None)] == ["a"]
    done = planned(waiting.authorities, "b", "a", "b", after=HOUR)
    back = planned(rollover.published(done.authorities, ca("a"), ca("b")), "a", "a", "b", after=HOUR)
    assert back.signs == "a"
    a, b = back.authorities
    assert a.retired_at is None and b.retired_at == at(HOUR)


def test_a_ca_that_has_ended_is_forgotten_and_a_new_root_above_one_is_taken_over() -> None:
    ended = ca("a", not_after=at(HOUR), signs_since=at(0 * HOUR))
    assert rollover.known((ended,), NOW + HOUR, DAY) == []
    assert rollover.known((ended,), NOW, DAY) == [ended]
    changed = msgspec.structs.replace(ca("a"), certificate="<another root>")
    (listed,) = rollover.published((ended,), changed, None)
    assert listed.certificate == "<another root>" and listed.signs_since == at(0 * HOUR)


def test_more_than_can_be_kept_is_refused_before_anything_is_forgotten() -> None:
    used = tuple(ca(str(n), signs_since=at(0 * HOUR), retired_at=at(HOUR)) for n in range(MAX_AUTHORITIES))
    with pytest.raises(RolloverError, match="8 at most"):
        rollover.published(used, ca("new"), None)
    assert len(rollover.published(used, ca("3"), None)) == MAX_AUTHORITIES
