"""controllers/csr_cleaner.py: every state and its time (the table of cleaner.go's own tests among them)."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from asynctest import async_test
from controller_world import NOW, fixture
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubevouch.controllers.csr_cleaner import SLICE, CSRCleaner, why_clean
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.testing.clock import FakeClock

VALID, EXPIRED, GARBAGE = (fixture(f"issued-{kind}.crt") for kind in ("valid", "expired", "garbage"))


def _ago(hours: float) -> Time:
    return Time.of(NOW - dt.timedelta(hours=hours))


def _csr(certificate: bytes = b"", created: float = 0.0, **decided: float) -> CertificateSigningRequest:
    conditions = [
        CertificateSigningRequestCondition(type=kind, status="True", last_update_time=_ago(hours))
        for kind, hours in decided.items()
    ]
    return CertificateSigningRequest(
        metadata=ObjectMeta(name="c", creation_timestamp=_ago(created)),
        status=CertificateSigningRequestStatus(conditions=conditions, certificate=certificate),
    )


@pytest.mark.parametrize(
    "csr",
    [
        _csr(VALID, Approved=5 / 6),
        _csr(VALID, Approved=1),
        _csr(Approved=5 / 6),
        _csr(Approved=5),
        _csr(Approved=24),
        _csr(Denied=5 / 6),
        _csr(Failed=5 / 6, Approved=2),
        _csr(created=5),
        _csr(created=24),
        _csr(GARBAGE, Approved=0.5),
        _csr(EXPIRED, created=2, Custom=2),
        _csr(created=99, Custom=99),
    ],
)
def test_what_stays(csr: CertificateSigningRequest) -> None:
    assert why_clean(csr, NOW) == ""


@pytest.mark.parametrize(
    ("csr", "why"),
    [
        (_csr(VALID, Approved=2), "approvedExpiration duration old and approved"),
        (_csr(GARBAGE, Approved=2), "approvedExpiration duration old and approved"),
        (_csr(Denied=2), "deniedExpiration duration old and denied"),
        (_csr(Failed=2), "deniedExpiration duration old and failed"),
        (_csr(Approved=2, Failed=2), "deniedExpiration duration old and failed"),
        (_csr(created=25), "pendingExpiration duration old and unhandled"),
        (_csr(VALID, created=25), "pendingExpiration duration old and unhandled"),
        (_csr(EXPIRED, Approved=0), "the associated certificate is expired"),
        (_csr(Approved=25), "approved but unissued for more than pendingExpiration"),
        (_csr(Approved=25, Failed=0.01), "approved but unissued for more than pendingExpiration"),
    ],
)
def test_what_goes(csr: CertificateSigningRequest, why: str) -> None:
    assert why in why_clean(csr, NOW)


def test_a_time_that_is_not_set_is_never_old() -> None:
    denied = CertificateSigningRequestCondition(type="Denied", status="True")
    csr = CertificateSigningRequest(status=CertificateSigningRequestStatus(conditions=[denied]))
    assert why_clean(csr, NOW) == ""
    assert why_clean(CertificateSigningRequest(), NOW) == ""


class _Many:
    """An informer that has been filled, and its lister."""

    def __init__(self, csrs: list[CertificateSigningRequest]) -> None:
        self._csrs = csrs
        self.lister: Any = self

    def list(self) -> list[CertificateSigningRequest]:
        return self._csrs


@async_test
async def test_others_have_their_turn_during_a_long_pass() -> None:
    informer: Any = _Many([_csr(VALID, Approved=0.5)] * (10 * SLICE))
    client: Any = None  # nothing is deleted
    cleaning = asyncio.create_task(CSRCleaner(client, informer, FakeClock()).clean())
    turns = 0
    while not cleaning.done():
        turns += 1
        await asyncio.sleep(0)
    await cleaning
    assert turns >= 10
