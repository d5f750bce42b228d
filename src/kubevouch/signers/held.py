"""Signing with a CA's key that this process holds or reaches by itself, and stopping for good when that goes wrong."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch.pki import issuance
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.certificate_chain import chain_behind
from kubevouch.pki.errors import IssuedMismatchError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.interface import KEY_IN_FILE, Decision, SigningStopped, UndecidedError
from kubevouch.signers.key_threads import KeyThreads
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import with_key

log = get_logger("signers.held")


class Desk:
    """Where decisions become certificates. One that has once made what was not allowed makes nothing any more.

    Args:
        threads: where the key is used, if it is not in this process; what it signs is then verified.
    """

    def __init__(self, threads: KeyThreads | None = None) -> None:
        self._threads = threads
        self._stopped = ""
        self.kind = KEY_IN_FILE if threads is None else "pkcs11"

    def verify_open(self, decision: Decision) -> None:
        """Raises :class:`UndecidedError` without a decision, :class:`SigningStopped` once it has stopped."""
        if not isinstance(decision, Decision):
            raise UndecidedError(f"got {type(decision).__name__}, expected a decision")
        if self._stopped:
            raise SigningStopped(f"this signer has stopped: {self._stopped}")

    async def issue(self, authority: CertificateAuthority, decision: Decision) -> Certificate:
        """Raises what ``pki.issuance.issue`` does, and :class:`SignerUnavailable`."""
        wanted, rules = decision.wanted, decision.rules
        if self._threads is not None:
            # A token is as good as what it signs: another key under the same name is found here.
            rules = msgspec.structs.replace(rules, verify_signature=True)

        def issue() -> Certificate:
            return issuance.issue(
                authority,
                wanted.request,
                signer_name=wanted.signer_name,
                usages=wanted.usages,
                expiration_seconds=wanted.expiration_seconds,
                now=decision.at,
                rules=rules,
                seed=wanted.uid,
            )

        try:
            if self._threads is not None:
                return await self._threads.run(issue)
            # RSA signs in up to 50 ms, an elliptic curve in less than a thread needs to begin.
            return await with_key(issue) if authority.certificate.public_key.kind is KeyKind.RSA else issue()
        except IssuedMismatchError as err:
            self._stopped = str(err)
            log.critical("signing has stopped: a certificate is not what was allowed", csr=wanted.name, err=str(err))
            raise


class HeldSigner:
    """A ``signers.interface.Signer`` with one CA for its whole life: another CA is another one of these.

    Args:
        pool: certificates from which the chain behind each certificate is built; empty for none.
    """

    def __init__(
        self,
        authority: CertificateAuthority,
        rules: SigningRules,
        pool: Sequence[Certificate] = (),
        threads: KeyThreads | None = None,
        *,
        desk: Desk | None = None,
    ) -> None:
        self.authority = authority
        self._rules = rules
        self._pool = pool
        self._chain: tuple[Certificate, ...] | None = None
        self._desk = desk or Desk(threads)

    def with_rules(self, rules: SigningRules, pool: Sequence[Certificate]) -> HeldSigner:
        """The same key, and whether it has stopped, under other rules."""
        return HeldSigner(self.authority, rules, pool, desk=self._desk)

    @property
    def kind(self) -> str:
        """See ``signers.interface.Signer``."""
        return self._desk.kind

    @property
    def ends(self) -> dt.datetime | None:
        """See ``signers.interface.Signer``."""
        return self.authority.certificate.not_after

    @property
    def rules(self) -> SigningRules:
        return self._rules

    async def sign(self, decision: Decision) -> Certificate:
        """See ``signers.interface.Signer``."""
        self._desk.verify_open(decision)
        return await self._desk.issue(self.authority, decision)

    def chain_of(self, certificate: Certificate) -> Sequence[Certificate]:
        """See ``signers.interface.Signer``. What the CA before this one had issued has another chain."""
        own = self.authority.certificate
        if certificate.issuer_name != own.subject_name or certificate.meaning.authority_key_id != (
            own.meaning.subject_key_id
        ):
            return chain_behind(certificate, self._pool)
        if self._chain is None:
            self._chain = chain_behind(certificate, self._pool)
        return self._chain
