"""When which CA of a signer signs, and which are published. Pure: what is known and the time go in, a plan comes out.

The order is the one rule: a CA is published before it signs, for as long as the signer's overlap says, and stays
published until nothing that it has issued is valid any more.

    RolloverError    one more CA than a signer may have at a time
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch.api.kubevouch_v1alpha1.certificate_signers import MAX_AUTHORITIES, SignerAuthority
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.interface import SignerError


class RolloverError(SignerError):
    """One more CA than a signer may have at a time: who issued what is left would be forgotten."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done.

    Args:
        authorities: for the status, once what is to be published is.
        signs: the fingerprint of the one that signs; empty while none does.
        wake_after: seconds until the next one may sign, or a former one need not be published.
    """

    authorities: tuple[SignerAuthority, ...]
    signs: str
    wake_after: float | None = None


def fingerprint_of(certificate: Certificate) -> str:
    return certificate.fingerprint().hex()


def known(recorded: Sequence[SignerAuthority], now: dt.datetime, longest: dt.timedelta) -> list[SignerAuthority]:
    """Of what a status has recorded, what still matters: what has ended, or issued nothing that is left, does not."""
    return [each for each in recorded if not _is_over(each, now, longest)]


def _is_over(each: SignerAuthority, now: dt.datetime, longest: dt.timedelta) -> bool:
    if each.not_after is not None and each.not_after.datetime() <= now:
        return True
    # What it has issued last may live the longest; a certificate begins before it is issued, never after.
    return each.retired_at is not None and each.retired_at.datetime() + longest <= now


def published(
    recorded: Sequence[SignerAuthority], current: SignerAuthority, former: SignerAuthority | None
) -> tuple[SignerAuthority, ...]:
    """All that have to be published for things to go on; candidates that were withdrawn before they signed are not.

    ``current`` and ``former`` are as they are found; what is recorded of them counts where there is something.

    Raises:
        RolloverError: these are too many.
    """
    found = {each.fingerprint: each for each in (current, former) if each is not None}
    kept = [each for each in recorded if each.signs_since is not None or each.fingerprint in found]
    # Anchors are taken as they are found now: a root may have been added.
    kept = [
        msgspec.structs.replace(each, certificate=found[each.fingerprint].certificate)
        if each.fingerprint in found
        else each
        for each in kept
    ]
    seen = {each.fingerprint for each in kept}
    kept += [each for name, each in found.items() if name not in seen]
    if len(kept) > MAX_AUTHORITIES:
        raise RolloverError(
            f"{len(kept)} CAs have issued certificates that are still valid, {MAX_AUTHORITIES} at most are kept: put "
            "the last one back, or wait"
        )
    return tuple(kept)


def plan(
    listed: Sequence[SignerAuthority],
    current: str,
    available: frozenset[str],
    *,
    now: dt.datetime,
    overlap: dt.timedelta,
    longest: dt.timedelta,
) -> Plan:
    """Who signs, now that everything ``listed`` is published.

    Args:
        listed: what :func:`published` gave.
        current: the fingerprint of the CA that is to sign.
        available: fingerprints of the CAs whose keys are there.
        overlap: between being published and signing, unless no other CA has signed.
        longest: the longest life of a certificate.
    """
    stamp = Time.of(now)
    listed = [
        each if each.published_at is not None else msgspec.structs.replace(each, published_at=stamp) for each in listed
    ]
    (wanted,) = (each for each in listed if each.fingerprint == current)
    others = [each for each in listed if each.fingerprint != current and each.signs_since is not None]
    assert wanted.published_at is not None
    due = wanted.published_at.datetime() + overlap
    is_due = wanted.signs_since is not None or not others or due <= now
    waits = [] if is_due else [(due - now).total_seconds()]
    if is_due:
        listed = [_signing(each, current, stamp) for each in listed]
        signs = current
    else:
        # The last one that signed goes on, if its key is still there.
        signing = [each for each in others if each.retired_at is None]
        signs = next((each.fingerprint for each in reversed(signing) if each.fingerprint in available), "")
    for each in listed:
        ends = [each.not_after.datetime()] if each.not_after is not None else []
        if each.retired_at is not None:
            ends.append(each.retired_at.datetime() + longest)
        waits += [(min(ends) - now).total_seconds()] if ends else []
    return Plan(authorities=tuple(listed), signs=signs, wake_after=max(min(waits), 1.0) if waits else None)


def _signing(each: SignerAuthority, current: str, stamp: Time) -> SignerAuthority:
    if each.fingerprint == current:
        return msgspec.structs.replace(each, signs_since=each.signs_since or stamp, retired_at=None)
    if each.signs_since is not None and each.retired_at is None:
        return msgspec.structs.replace(each, retired_at=stamp)
    return each
