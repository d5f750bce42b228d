"""The one way to a certificate: requester, approval, request and policy go in, a trail in the ledger stays behind.

Exactly once: the ledger has ``intended`` before a key is used, and ``issued``, with the certificate, before anybody
can see it. Who is killed between the two has left a certificate that nobody has; who is killed later finds ``issued``
by the request's uid and hands the same certificate out again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.ledger import entries
from kubevouch.ledger.entries import Entry
from kubevouch.ledger.interface import CLOCKS_DIFFER, Ledger, LedgerOvertaken, ReadableLedger, allowed, signed_before
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.issuance import SigningRules, verify_signable
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.interface import (
    Approval,
    Decision,
    OverlongError,
    Requester,
    Signer,
    UndecidedError,
    Wanted,
    seal,
)
from kubevouch.util.logger import get_logger

log = get_logger("signers.issuance")


async def issue(
    signer: Signer,
    requester: Requester,
    approval: Approval | None,
    wanted: Wanted,
    *,
    now: dt.datetime,
    ledger: Ledger,
    rules: SigningRules | None = None,
) -> Certificate:
    """Have ``signer`` sign what is wanted, if it was approved and the signer's policy allows it.

    A certificate that was issued for this very request before, and has not ended, is given again.

    Args:
        rules: instead of the signer's own.

    Raises:
        PolicyError: the request can never be signed; the text is for the Failed condition.
        UndecidedError: it was not approved.
        SignerError, PKIError: the signer does not sign now.
        LedgerError: the ledger cannot be written; if that was before the signature, the key was not used.
    """
    if approval is None:
        raise UndecidedError(f"certificate signing request {wanted.name} is not approved")
    asked = _entry(requester, approval, wanted, now)
    rules = rules or signer.rules
    try:
        # Before anything is recorded as allowed, and whatever holds the key (docs/adr/0019-rules-twice.md).
        verify_signable(
            wanted.signer_name, wanted.request, wanted.usages, rules, expiration_seconds=wanted.expiration_seconds
        )
    except PolicyError as err:
        failed = msgspec.structs.replace(asked, kind=entries.FAILED, message=str(err))
        if not any(
            each.kind == entries.FAILED and each.message == failed.message for each in await _before(ledger, asked)
        ):
            await ledger.append(failed)
        log.info(
            "certificate refused", csr=wanted.name, uid=wanted.uid, signer=wanted.signer_name,
            requester=requester.username, why=str(err),
        )  # fmt: skip
        raise
    former = await _before(ledger, asked)
    for each in former:
        if each.certificate and each.not_after is not None and each.not_after > now:
            log.info("certificate found in the ledger", csr=wanted.name, uid=wanted.uid, serial=each.serial)
            return x509_certificate.parse_der(each.certificate)
    decision = Decision(requester, approval, wanted, rules, now, seal())
    if not any(each.kind == entries.INTENDED for each in former):
        # Once, however often a signer is asked that does not sign now.
        await ledger.append(asked)
    log.debug("certificate allowed", csr=wanted.name, requester=requester.username)
    try:
        certificate = await signer.sign(decision)
    except OverlongError as err:
        # It is out of our hands and valid: whoever looks for what to revoke finds it here.
        discarded = entries.with_certificate(asked, err.certificate, entries.DISCARDED)
        await ledger.append(msgspec.structs.replace(discarded, message=str(err)))
        log.error("a certificate lasts longer than what was granted, and is not given out", csr=wanted.name,
                  uid=wanted.uid, signer=wanted.signer_name, by=signer.kind, why=str(err))  # fmt: skip
        raise
    try:
        await ledger.append(entries.with_certificate(asked, certificate))
    except LedgerOvertaken as err:
        # Another process has signed it, too, and its certificate counts. This one is valid, and handed out to nobody.
        discarded = entries.with_certificate(asked, certificate, entries.DISCARDED)
        await ledger.append(msgspec.structs.replace(discarded, message=str(err)))
        raise
    log.info(
        "certificate issued",
        csr=wanted.name,
        uid=wanted.uid,
        signer=wanted.signer_name,
        requester=requester.username,
        approval=approval.reason,
        subject=certificate.subject.common_name,
        serial=f"{certificate.serial:x}",
        not_after=certificate.not_after.isoformat(),
    )
    return certificate


async def _before(ledger: Ledger, asked: Entry) -> Sequence[Entry]:
    return await signed_before(ledger, asked.uid, asked.digest, asked.created)


async def sign_recorded(
    signers: Mapping[str, Signer],
    ledger: ReadableLedger,
    uid: str,
    digest: str,
    *,
    now: dt.datetime,
    longest: dt.timedelta,
    kinds: frozenset[str] = frozenset({entries.APPROVED, entries.INTENDED}),
) -> tuple[Signer, Certificate]:
    """Have signed what the ledger says was allowed, whoever asks: all that is signed is taken from its entry.

    Args:
        digest: of what is wanted, ``entries.digest_of``.
        longest: how long ago it may have been allowed.
        kinds: of the entry that allows it.

    Raises:
        UndecidedError: the ledger does not allow it, or another signer's.
        PolicyError, SignerError, PKIError, LedgerError: as :func:`issue`.
    """
    entry = await allowed(ledger, uid, digest)
    if entry is None or entry.kind not in kinds:
        raise UndecidedError(f"the ledger holds no approval of the request with uid {uid}")
    if not now - longest <= entry.at <= now + CLOCKS_DIFFER:
        raise UndecidedError(f"the request with uid {uid} was allowed at {entry.at}, which is too long ago")
    # What an entry says of itself is not believed: these octets are what is signed.
    if entries.digest_of(entry.signer, entry.pkcs10, entry.usages, entry.expiration_seconds) != digest:
        raise UndecidedError(f"the ledger's entry about the request with uid {uid} contradicts itself")
    signer = _signer_of(signers, entry)
    wanted = Wanted(
        entry.request,
        uid,
        entry.signer,
        x509_request.parse_der(entry.pkcs10),
        entry.usages,
        entry.expiration_seconds,
        entry.created,
    )
    requester = Requester(entry.requester, groups=entry.groups, extra=entry.extra)
    approval = Approval(entry.reason, entry.message)
    return signer, await signer.sign(Decision(requester, approval, wanted, signer.rules, now, seal()))


def _signer_of(signers: Mapping[str, Signer], entry: Entry) -> Signer:
    signer = signers.get(entry.signer)
    if signer is None:
        raise UndecidedError(f"nothing is signed here for {entry.signer}")
    return signer


def _entry(requester: Requester, approval: Approval, wanted: Wanted, now: dt.datetime) -> Entry:
    asked = entries.entry_of_request(
        entries.INTENDED,
        now,
        wanted.request,
        name=wanted.name,
        uid=wanted.uid,
        signer=wanted.signer_name,
        requester=requester.username,
        groups=requester.groups,
        extra=requester.extra,
        usages=wanted.usages,
        expiration_seconds=wanted.expiration_seconds,
        created=wanted.created,
    )
    return msgspec.structs.replace(asked, reason=approval.reason, message=approval.message)
