"""OCSP answers: kept as long as they are true, and signed for whoever brings a nonce."""

from __future__ import annotations

import datetime as dt

from cryptography import x509
from cryptography.x509 import ocsp as theirs

from kubevouch.pki.x509 import der, ocsp
from kubevouch.revocation.publication import NONCES_AT_ONCE, OCSP_LIFE, Document, Publication
from kubevouch.revocation.revocations import Revocations, authority_id
from unit.pki.x509.test_ocsp import CA, LEAF, NOW, OTHER, asked
from unit.revocation.test_revocations import revocation, serials

ISSUER = authority_id(CA.certificate)
GOOD, REVOKED = theirs.OCSPCertStatus.GOOD, theirs.OCSPCertStatus.REVOKED


def published(revocations: Revocations) -> Publication:
    found = Publication(revocations)
    found.publish({ISSUER: CA}, {})
    return found


def answer(publication: Publication, octets: bytes, now: dt.datetime = NOW, issuer: bytes = ISSUER) -> Document:
    found = publication.answer(issuer, octets, now)
    return found if isinstance(found, Document) else publication.keep(found, found.sign())


def status(document: Document) -> theirs.OCSPCertStatus:
    return theirs.load_der_ocsp_response(document.body).certificate_status


def test_an_answer_is_kept_until_something_is_revoked() -> None:
    revocations = Revocations.none()
    publication = published(revocations)
    first = answer(publication, asked())
    assert status(first) is GOOD and first.until == NOW + OCSP_LIFE / 2
    assert answer(publication, asked(), NOW + OCSP_LIFE / 3).body == first.body
    revocations.changed("r1", revocation("r1", serials=serials(LEAF.serial, by=CA)))
    assert status(answer(publication, asked())) is REVOKED
    revocations.changed("r1", None)
    assert status(answer(publication, asked())) is GOOD


def test_an_answer_about_several_is_not_kept() -> None:
    publication = published(Revocations.none())
    (one,) = ocsp.parse_request(asked()).certificates
    listed = der.encode(der.SEQUENCE, one.contents) * 2
    several = der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, listed)))
    for _ in range(2):
        answer(publication, several)
    assert publication.answers["kept"] == 0


def test_what_was_revoked_while_it_was_signed_is_not_kept_as_good() -> None:
    revocations = Revocations.none()
    publication = published(revocations)
    unsigned = publication.answer(ISSUER, asked(), NOW)
    assert not isinstance(unsigned, Document)
    revocations.changed("r1", revocation("r1", serials=serials(LEAF.serial, by=CA)))
    publication.keep(unsigned, unsigned.sign())
    assert status(answer(publication, asked())) is REVOKED


def test_it_is_signed_anew_in_time_and_when_the_clock_was_set_back() -> None:
    publication = published(Revocations.none())
    first = answer(publication, asked()).body
    for moment in (NOW + OCSP_LIFE / 2, NOW - dt.timedelta(days=1)):
        again = answer(publication, asked(), moment).body
        assert again != first and theirs.load_der_ocsp_response(again).this_update_utc == moment


def test_nonces_are_answered_as_long_as_there_is_an_allowance() -> None:
    publication = published(Revocations.none())
    with_nonce = 0
    for number in range(int(NONCES_AT_ONCE) + 20):
        nonce = number.to_bytes(32)
        response = theirs.load_der_ocsp_response(answer(publication, asked(nonce=nonce)).body)
        try:
            with_nonce += response.extensions.get_extension_for_class(x509.OCSPNonce).value.nonce == nonce
        except x509.ExtensionNotFound:
            assert number >= NONCES_AT_ONCE
    assert with_nonce == NONCES_AT_ONCE


def test_another_authority_and_what_is_no_request() -> None:
    publication = published(Revocations.none())
    assert answer(publication, asked(by=OTHER.certificate)).body == ocsp.UNAUTHORIZED_RESPONSE
    assert answer(publication, asked(), issuer=b"other").body == ocsp.UNAUTHORIZED_RESPONSE
    assert answer(publication, b"x").body == ocsp.MALFORMED_RESPONSE
