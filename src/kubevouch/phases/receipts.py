"""Receipts out of a ledger, and what one says to somebody who has none.

ReceiptError          see :mod:`kubevouch.ledger.receipts`
NoCertificateError    the file that a receipt is to be held against is none
AuditError            nothing can be shown; ``hint`` says what to do
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from kubevouch.ledger import keys, opening, reading, receipts, schema
from kubevouch.ledger.checkpoints import VerifierKey
from kubevouch.ledger.entries import APPROVED, INTENDED, ISSUED, Recorded
from kubevouch.ledger.receipts import Receipt, ReceiptError
from kubevouch.phases.issued import story
from kubevouch.phases.ledger_audit import AuditError
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.util import files


class NoCertificateError(ValueError):
    """The file that a receipt is to be held against is none."""


def make(path: Path, serial: str) -> str:
    """The receipt of a certificate, signed with the key beside the ledger at ``path``.

    Raises:
        AuditError, LedgerError, OSError
    """
    found = story(path, serial)
    issued = next((each for each in found if each.entry.kind == ISSUED and each.entry.serial == serial), None)
    if issued is None:
        raise AuditError(
            f"no certificate with the serial number {serial} is in {path}",
            "kubevouch issued list --name finds one by a name in it",
        )
    decision = _decision(found, issued)
    with closing(opening.connect_to_read(path)) as connection:
        origin = reading.meta(connection, schema.ORIGIN, path)
    try:
        key = keys.read_key(path)
    except FileNotFoundError as err:
        raise AuditError(f"there is no {keys.key_of(path)}", "a receipt is made where the ledger is written") from err
    return receipts.make(decision, issued, key, origin)


def _decision(found: list[Recorded], issued: Recorded) -> Recorded:
    """What an approver has decided; of a person's word only the signer has written down something."""
    before = [each for each in found if each.entry.uid == issued.entry.uid and each.sequence < issued.sequence]
    for kind in (APPROVED, INTENDED):
        of_kind = [each for each in before if each.entry.kind == kind]
        if of_kind:
            return of_kind[-1]
    raise AuditError(f"nothing in the ledger says why {issued.entry.serial} was issued", "kubevouch audit verify")


def verify(path: Path, key: VerifierKey, certificate: Path | None) -> Receipt:
    """What the receipt in a file says, if ``key`` has signed it and it is about ``certificate``.

    Raises:
        ReceiptError, NoCertificateError, OSError
    """
    try:
        receipt = receipts.verified(files.read_regular(path, receipts.MAX_BYTES).decode(), key)
    except UnicodeDecodeError as err:
        raise ReceiptError(f"got {path}, which is no text") from err
    if certificate is not None:
        try:
            leaf = x509_certificate.parse_bundle(certificate.read_bytes())[0]
        except ParseError as err:
            raise NoCertificateError(f"got {certificate}, which holds no certificate in PEM: {err}") from err
        digest = leaf.fingerprint().hex()
        if digest != receipt.certificate:
            raise ReceiptError(f"it is about a certificate of SHA-256 {receipt.certificate}, {certificate} is {digest}")
    return receipt
