"""A signer whose CA certificate and key are files, taken in again when they change.

Source: pkg/controller/certificates/signer/ca_provider.go, k8s.io/apiserver/pkg/server/dynamiccertificates (Kubernetes
1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import authority as authority_module
from kubevouch.pki import issuance
from kubevouch.pki.authority import CertificateAuthority, own_certificate
from kubevouch.pki.errors import AuthorityError, IssuedMismatchError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.interface import Decision, SigningStopped, UndecidedError
from kubevouch.util.files import Stamp, read_private, stamp, warn_of_exposure
from kubevouch.util.worker import elsewhere

log = structlog.get_logger("signers.file")


class FileSigner:
    """Signs with the pair in two files.

    A pair that does not fit together, or a file that cannot be read, is not taken over: the files are being written.
    A pair that fits while there is more than one certificate is taken over, and fails each signing, as in Kubernetes.
    """

    def __init__(
        self,
        certificate_file: Path | str,
        key_file: Path | str,
        rules: SigningRules | None = None,
        *,
        bundle: bool = False,
    ) -> None:
        """``bundle``: of several certificates the one that belongs to the key signs, unlike in Kubernetes, and a key
        that others could have put there or read does not.

        Raises :class:`AuthorityError` with kube-controller-manager's text when the files make no authority.
        """
        self._bundle = bundle
        self._certificate_file = str(certificate_file)
        self._key_file = str(key_file)
        self._rules = rules or SigningRules()
        self._stopped = ""
        self._unusable: AuthorityError | None = None
        self._stamps = self._look()
        try:
            self._authority = self._load(*self._read())
        except OSError as err:
            raise AuthorityError(
                f"error reading CA cert file {quote(self._certificate_file)}: {_go_text(err)}"
            ) from err

    @property
    def rules(self) -> SigningRules:
        return self._rules

    @property
    def authority(self) -> CertificateAuthority:
        """What signs now. Raises :class:`AuthorityError` while the files hold a bundle."""
        self._follow()
        return self._usable()

    def _usable(self) -> CertificateAuthority:
        if self._unusable is not None:
            raise AuthorityError(str(self._unusable))
        return self._authority

    async def sign(self, decision: Decision) -> Certificate:
        """See ``signers.interface.Signer``."""
        if not isinstance(decision, Decision):
            raise UndecidedError(f"got {type(decision).__name__}, expected a decision")
        if self._stopped:
            raise SigningStopped(f"this signer has stopped: {self._stopped}")
        wanted = decision.wanted
        if self._look() != self._stamps:
            await elsewhere(self._follow)
        authority = self._usable()

        def issue() -> Certificate:
            return issuance.issue(
                authority,
                wanted.request,
                signer_name=wanted.signer_name,
                usages=wanted.usages,
                expiration_seconds=wanted.expiration_seconds,
                now=decision.at,
                rules=decision.rules,
            )

        try:
            # RSA signs in up to 50 ms, an elliptic curve in less than a thread needs to begin.
            return await elsewhere(issue) if authority.certificate.public_key.kind is KeyKind.RSA else issue()
        except IssuedMismatchError as err:
            self._stopped = str(err)
            log.critical("signing has stopped: a certificate is not what was allowed", csr=wanted.name, err=str(err))
            raise

    def chain_of(self, certificate: Certificate) -> Sequence[Certificate]:  # noqa: ARG002 - kube-controller-manager's
        """None: the file holds one certificate."""
        return ()

    # -------------------------------------------------------------- files

    def _follow(self) -> None:
        """Two stats a signature are cheaper than a watch that may break unseen."""
        stamps = self._look()
        if stamps == self._stamps:
            return
        try:
            certificate, key = self._read()
            authority_module.load_key_pair(certificate, key)
        except (AuthorityError, OSError) as err:
            # The stamps stay as they are, so that the next signature looks again.
            log.error("the signing pair is not taken over", certificate_file=self._certificate_file, err=str(err))
            return
        self._stamps = stamps
        try:
            self._authority = self._load(certificate, key)
        except AuthorityError as err:
            self._unusable = err
            return
        self._unusable = None
        log.info("Loaded a new cert/key pair", certificate_file=self._certificate_file)

    def _look(self) -> tuple[Stamp | None, Stamp | None]:
        return stamp(self._certificate_file), stamp(self._key_file)

    def _read(self) -> tuple[bytes, bytes]:
        if not self._certificate_file or not self._key_file:
            return b"", b""
        key_file = Path(self._key_file)
        certificate = Path(self._certificate_file).read_bytes()
        if self._bundle:
            key = read_private(key_file)
            return own_certificate(certificate, key), key
        warn_of_exposure(key_file)
        return certificate, key_file.read_bytes()

    def _load(self, certificate: bytes, key: bytes) -> CertificateAuthority:
        return CertificateAuthority.load(
            certificate, key, certificate_file=self._certificate_file, key_file=self._key_file
        )


def _go_text(err: OSError) -> str:
    """As Go's ``os.ReadFile`` says it."""
    return f"open {err.filename}: {(err.strerror or str(err)).lower()}"
