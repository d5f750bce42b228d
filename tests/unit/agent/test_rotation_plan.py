from __future__ import annotations

import datetime as dt

import pytest
from msgspec.structs import replace

from kubevouch.agent.rotation_plan import (
    CHECK_SECONDS,
    ClockWatch,
    Plan,
    Reason,
    Retries,
    Situation,
    jump_words,
    moved,
    ordered_renewal,
    plan,
    schedule,
)
from kubevouch.pki import authority, keys, rotation
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.records.ca_rotation import RenewalOrder, due_at, fingerprint

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY = 86400.0
CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
SPEC = authority.LeafSpec(
    common_name="system:node:worker-1",
    organizations=("system:nodes",),
    purposes=("client auth",),
    validity=dt.timedelta(days=10) - authority.BACKDATE,
)
LEAF = authority.issue_leaf(CA, SPEC, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
BEGIN = LEAF.not_before
TIMES = schedule(LEAF, now=NOW, monotonic=100.0, draws=(0.5, 0.5))
GOOD = Situation(LEAF, TIMES, rotation.node_client("worker-1"), NOW, 100.0)


def _after(days: float, **changes: object) -> Situation:
    passed = dt.timedelta(days=days)
    return replace(GOOD, now=NOW + passed, monotonic=100.0 + passed.total_seconds(), **changes)


def test_the_deadline_counts_from_the_start_of_the_certificate() -> None:
    assert TIMES.rotate_at == BEGIN + (LEAF.not_after - BEGIN) * 0.8
    assert plan(_after(7.9)) == Plan(None, CHECK_SECONDS)
    assert plan(_after(8.0)).ask is Reason.DEADLINE
    almost = replace(GOOD, now=TIMES.rotate_at - dt.timedelta(seconds=7), monotonic=TIMES.rotate_monotonic - 7)
    assert plan(almost) == Plan(None, 7.0)


@pytest.mark.parametrize(
    ("situation", "why"),
    [
        (replace(GOOD, forced=True), Reason.FORCED),
        (replace(GOOD, current=None, schedule=None), Reason.MISSING),
        (_after(10.1), Reason.EXPIRED),
        (replace(GOOD, wanted=rotation.node_client("worker-2")), Reason.OTHER_NAMES),
        (replace(GOOD, trusted=False), Reason.UNTRUSTED),
        (replace(GOOD, fitting_key=False), Reason.OTHER_KEY),
        (replace(GOOD, accepted=False), Reason.REFUSED),
        (replace(GOOD, proven=False), Reason.OTHER_PROOF),
        (replace(GOOD, renew_at=NOW), Reason.OTHER_CA),
        # The wall clock was set back while time went on.
        (replace(_after(8.1), now=NOW), Reason.DEADLINE),
        (replace(_after(10.1), now=NOW), Reason.EXPIRED),
        # The monotonic clock does not count the sleep of a machine.
        (replace(_after(8.1), monotonic=100.0), Reason.DEADLINE),
    ],
)
def test_reasons_to_ask(situation: Situation, why: Reason) -> None:
    assert plan(situation).ask is why


def test_without_a_template_nothing_is_asked_for() -> None:
    assert plan(replace(GOOD, wanted=None, forced=True)).ask is None
    assert plan(replace(GOOD, wanted=None, current=None, schedule=None)).ask is None


@pytest.mark.parametrize("forced", [True, False])
@pytest.mark.parametrize("years", [1, 50])
def test_a_clock_before_the_certificate_or_the_ca_means_wait(years: int, forced: bool) -> None:
    early = replace(GOOD, now=NOW - dt.timedelta(days=365 * years), forced=forced)
    assert plan(early).ask is None
    assert "the clock to be set" in plan(early).waits_for and str(BEGIN.year) in plan(early).waits_for
    bare = replace(early, current=None, schedule=None, trust_begins=CA.certificate.not_before)
    assert plan(bare).ask is None
    assert "CA begins" in plan(bare).waits_for


def test_a_failed_attempt_waits_for_its_turn_unless_somebody_asks() -> None:
    failed = replace(_after(8.1), retry_at=100.0 + 8.1 * DAY + 5)
    assert plan(failed).ask is None
    assert plan(failed).seconds == pytest.approx(5)
    assert plan(replace(failed, forced=True)).ask is Reason.FORCED


def test_a_missed_deadline_is_spread_and_a_life_that_ends_is_not_wasted() -> None:
    late = NOW + dt.timedelta(days=9)
    spread = [schedule(LEAF, now=late, monotonic=0.0, draws=(0.0, n / 10)).rotate_at - late for n in range(10)]
    assert spread[0] == dt.timedelta() and max(spread) == dt.timedelta(seconds=270)
    close = LEAF.not_after - dt.timedelta(seconds=100)
    assert schedule(LEAF, now=close, monotonic=0.0, draws=(0.0, 0.9)).rotate_at - close < dt.timedelta(seconds=10)
    gone = LEAF.not_after + dt.timedelta(seconds=1)
    assert schedule(LEAF, now=gone, monotonic=0.0, draws=(0.0, 0.9)).rotate_at < gone


def test_jumps_are_noticed_and_slewing_is_not() -> None:
    watch = ClockWatch(NOW, 0.0)
    minute = dt.timedelta(minutes=1)
    assert watch.jump(NOW + minute, 59.5) == dt.timedelta()
    assert watch.jump(NOW + minute * 61, 119.5) == dt.timedelta(minutes=59)
    assert watch.jump(NOW, 119.5) == -minute * 61
    assert jump_words(-minute * 90).endswith("backwards") and jump_words(minute * 90).endswith("forwards")


def test_only_a_jump_forwards_moves_the_monotonic_deadlines() -> None:
    assert moved(TIMES, dt.timedelta(seconds=-5)) == TIMES
    later = moved(TIMES, dt.timedelta(seconds=5))
    assert (later.rotate_monotonic, later.expires_monotonic) == (
        TIMES.rotate_monotonic - 5,
        TIMES.expires_monotonic - 5,
    )


def test_retries_are_drawn_from_growing_delays() -> None:
    retries = Retries(lambda: 1.0)
    calm, none = dt.timedelta(days=1), dt.timedelta()
    assert [retries.delay(spent=False, left=calm) for _ in range(9)] == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    retries.reset()
    assert [retries.delay(spent=False, left=none) for _ in range(6)] == [2, 4, 8, 16, 32, 32]
    assert [retries.delay(spent=True, left=calm) for _ in range(8)] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert Retries(lambda: 0.0).delay(spent=True, left=calm) == 30
    assert Retries(lambda: 0.0).delay(spent=False, left=calm) == 0


OTHER_CA = authority.create_authority("other", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)


def _order(ca: authority.CertificateAuthority, begins: dt.datetime, window_seconds: int = 3600) -> RenewalOrder:
    wanted = fingerprint(ca.certificate.fingerprint())
    return RenewalOrder(authority=wanted, begins=begins, window_seconds=window_seconds)


def test_an_order_to_renew_has_its_moment() -> None:
    both = (CA.certificate, OTHER_CA.certificate)
    order = _order(OTHER_CA, NOW + dt.timedelta(hours=5))
    assert ordered_renewal(LEAF, order, both, "worker-1") == due_at(order, "worker-1")
    # It comes from that CA already, or that CA is not known here yet.
    assert ordered_renewal(LEAF, _order(CA, NOW), both, "worker-1") is None
    assert ordered_renewal(LEAF, order, both[:1], "worker-1") is None
    assert plan(replace(GOOD, renew_at=NOW + dt.timedelta(seconds=1))).ask is None


def test_an_order_that_cannot_be_met_makes_no_storm() -> None:
    order = _order(OTHER_CA, NOW - dt.timedelta(days=1), 0)
    due = ordered_renewal(LEAF, order, (OTHER_CA.certificate,), "worker-1")
    assert due == LEAF.not_before + dt.timedelta(hours=1)
