"""What a signer may say that it issued for a pod.

The server asks before it stores an answer, the signer before it gives one.

Source: pkg/apis/certificates/validation (Kubernetes 1.36); the texts are those of kube-apiserver 1.36.2.
"""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text.times import Time
from kubevouch.pki import pod_keys
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem, x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.structural.mail_address import is_mail_address

MAX_CHAIN_BYTES = 100 << 10
MIN_LIFETIME = dt.timedelta(hours=1)
CLOCK_TOLERANCE = dt.timedelta(minutes=5)
"""How far ``notBefore`` may lie from the server's time, before and after; that far no more."""
REFRESH_MARGIN = dt.timedelta(minutes=10)
"""Between ``beginRefreshAt`` and either end of the certificate, at least."""

_CHAIN = "status.certificateChain"
_NOT_BEFORE, _NOT_AFTER, _REFRESH = "status.notBefore", "status.notAfter", "status.beginRefreshAt"


class Issued(msgspec.Struct, frozen=True, kw_only=True):
    """What a signer says that it issued: the chain in PEM, the leaf first, and the times beside it."""

    chain: str
    not_before: Time | None
    not_after: Time | None
    begin_refresh_at: Time | None


def issued_errors(
    issued: Issued, source: pod_keys.PodKeySource, max_expiration_seconds: int, now: dt.datetime
) -> list[FieldError]:
    """What is wrong with it as an answer to a request for this key; nothing about who signed it.

    Mostly the first fault counts. Of names all faults are told, with those of the key and of missing times.
    """
    # 1. The leaf.
    if len(issued.chain.encode(errors="surrogatepass")) > MAX_CHAIN_BYTES:
        return [field.too_long(_CHAIN, MAX_CHAIN_BYTES)]
    try:
        blocks = list(pem.blocks(issued.chain.encode(errors="surrogatepass"), limit=MAX_CHAIN_BYTES))
    except ParseError as err:
        return [_of_chain(issued, str(err))]
    if not blocks:
        return [_of_chain(issued, "issued certificate chain must contain at least one certificate")]
    if blocks[0].type != pem.CERTIFICATE:
        return [_of_chain(issued, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks")]
    try:
        leaf = x509_certificate.parse_der(blocks[0].contents)
    except ParseError:
        return [_of_chain(issued, "leaf certificate does not parse as valid X.509")]
    # 2. Its names, its key, and whether the times are there.
    errors = _name_errors(leaf)
    if not pod_keys.is_for(leaf, source):
        return [*errors, _of_chain(issued, "leaf certificate was not issued to the requested public key")]
    errors += _missing_times(issued)
    # 3. The times, and the rest of the chain.
    return errors or _time_errors(issued, leaf, max_expiration_seconds, now) or _chain_errors(issued, blocks[1:])


def _of_chain(issued: Issued, why: str) -> FieldError:
    return field.invalid(_CHAIN, issued.chain, why)


def _name_errors(leaf: Certificate) -> list[FieldError]:
    errors = []
    for name in leaf.meaning.alt_names.dns_names:
        if not name:
            errors.append(field.invalid(_CHAIN, name, "leaf certificate should not contain empty DNSName"))
        if ".." in name:
            errors.append(field.invalid(_CHAIN, name, "leaf certificate's DNSName should not contain '..'"))
        if name.startswith(".") or name.endswith("."):
            why = "leaf certificate's DNSName should not start or end with '.'"
            errors.append(field.invalid(_CHAIN, name, why))
    errors += (
        field.invalid(_CHAIN, address, "leaf certificate should not contain invalid EmailAddress")
        for address in leaf.meaning.alt_names.email_addresses
        if not is_mail_address(address)
    )
    return errors


def _missing_times(issued: Issued) -> list[FieldError]:
    consistent = "must be present and consistent with the issued certificate"
    refresh = "must be present and in the range [notbefore+10min, notafter-10min]"
    wanted = (
        (_NOT_BEFORE, issued.not_before, consistent),
        (_NOT_AFTER, issued.not_after, consistent),
        (_REFRESH, issued.begin_refresh_at, refresh),
    )
    return [field.required(path, why) for path, moment, why in wanted if moment is None]


def _time_errors(issued: Issued, leaf: Certificate, longest: int, now: dt.datetime) -> list[FieldError]:
    assert issued.not_before is not None  # looked at before
    assert issued.not_after is not None
    assert issued.begin_refresh_at is not None
    begin, end = Time.of(leaf.not_before).seconds, Time.of(leaf.not_after).seconds
    if issued.not_before.seconds != begin:
        why = "must be set to the NotBefore time encoded in the leaf certificate"
        return [_of_time(_NOT_BEFORE, issued.not_before, why)]
    if not abs(now.timestamp() - begin) < CLOCK_TOLERANCE.total_seconds():
        why = "must be set to within 5 minutes of kube-apiserver's current time"
        return [_of_time(_NOT_BEFORE, issued.not_before, why)]
    if issued.not_after.seconds != end:
        why = "must be set to the NotAfter time encoded in the leaf certificate"
        return [_of_time(_NOT_AFTER, issued.not_after, why)]
    if end - begin < MIN_LIFETIME.total_seconds():
        return [field.invalid(_CHAIN, (end - begin) * 10**9, "leaf certificate lifetime must be >= 1 hour")]
    if end - begin > longest:
        why = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})"
        return [field.invalid(_CHAIN, (end - begin) * 10**9, why)]
    margin = REFRESH_MARGIN.total_seconds()
    if issued.begin_refresh_at.seconds < begin + margin:
        return [_of_time(_REFRESH, issued.begin_refresh_at, "must be at least 10 minutes after status.notBefore")]
    if issued.begin_refresh_at.seconds > end - margin:
        return [_of_time(_REFRESH, issued.begin_refresh_at, "must be at least 10 minutes before status.notAfter")]
    return []


def _of_time(path: str, moment: Time, why: str) -> FieldError:
    return field.invalid(path, str(moment), why)


def _chain_errors(issued: Issued, blocks: list[pem.Block]) -> list[FieldError]:
    for block in blocks:
        if block.type != pem.CERTIFICATE:
            # Kubernetes spells it so.
            return [_of_chain(issued, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")]
        try:
            x509_certificate.parse_der(block.contents)
        except ParseError:
            return [_of_chain(issued, "intermediate certificate does not parse as valid X.509")]
    return []
