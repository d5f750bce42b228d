"""doctor/signers.py: what is wrong with a signer is found, with the command that helps."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from asynctest import async_test
from controller_world import NOW
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import CertificateSigner, SignerAuthority
from kubevouch.api.meta_v1 import Condition
from kubevouch.doctor.findings import Code
from kubevouch.doctor.signers import examine, judge
from kubevouch.machinery.text.times import Time
from signer_world import new_ca, secret, signer, signers


def with_status(*conditions: tuple[str, str], days: int = 365) -> CertificateSigner:
    obj = signer()
    authority = SignerAuthority(fingerprint="f", subject="CA", not_after=Time.of(NOW + dt.timedelta(days=days)))
    listed = [Condition(type=kind, status=status, message="why") for kind, status in conditions]
    status = msgspec.structs.replace(obj.status, conditions=listed, authorities=[authority])
    return msgspec.structs.replace(obj, status=status)


@pytest.mark.parametrize(
    ("obj", "codes"),
    [
        (with_status(("Ready", "True")), []),
        (with_status(("Ready", "False")), [Code.SIGNER_NOT_READY]),
        (with_status(), [Code.SIGNER_NOT_READY]),
        (with_status(("Ready", "False"), ("Stopped", "True")), [Code.SIGNER_STOPPED]),
        (with_status(("Ready", "True"), days=29), [Code.SIGNER_CA_ENDS]),
    ],
)
def test_each_finding(obj: CertificateSigner, codes: list[Code]) -> None:
    found = list(judge([obj], now=NOW))
    assert [each.code for each in found] == codes
    assert all(each.fix.endswith(" web") and "example.com/web" in each.cause for each in found)


@async_test
async def test_it_is_read_from_the_cluster() -> None:
    async with signers(signer(), secret(new_ca("web CA")), signer("lost", signerName="example.com/lost")) as at:
        assert await examine(at.at.client, now=NOW) == []
        await at.make(signer("bad", signerName="example.com/bad", ca={"secretName": "none"}))
        await at.settle()
        (found,) = await examine(at.at.client, now=NOW)
        assert found.code is Code.SIGNER_NOT_READY and "there is no secret none" in found.cause
