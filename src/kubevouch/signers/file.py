"""A signer whose CA certificate is a file, taken in again when it changes, and its key a file or in a token.

Source: pkg/controller/certificates/signer/ca_provider.go, k8s.io/apiserver/pkg/server/dynamiccertificates (Kubernetes
1.36).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import AuthorityError, NotSingleError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers import pkcs11, pkcs11_uri
from kubevouch.signers.held import Desk
from kubevouch.signers.interface import Decision
from kubevouch.signers.key_threads import KeyThreads
from kubevouch.signers.keys import FileSource, KeyOptions, KeySource, TokenSource
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.files import Stamp, stamp
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import with_key

log = get_logger("signers.file")


class FileSigner:
    """Signs with the certificate in a file and the key in another one, or in a token.

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
        keys: KeyOptions = KeyOptions(),  # noqa: B008 - frozen
        clock: Clock | None = None,
    ) -> None:
        """``key_file``: or the ``pkcs11:`` URI of a key; ``keys``: what opens it. A token that is not there may come.

        ``bundle``: of several certificates the one that belongs to the key signs, unlike in Kubernetes, and a key
        that others could have put there or read does not.

        Raises :class:`AuthorityError` with kube-controller-manager's text when the files make no authority.
        """
        self._bundle = bundle
        self._certificate_file = str(certificate_file)
        self._rules = rules or SigningRules()
        self._unusable: AuthorityError | None = None
        clock = clock or SystemClock()
        threads: KeyThreads | None = None
        self._source: KeySource
        if pkcs11_uri.is_uri(str(key_file)):
            self._source = TokenSource(str(key_file), keys, clock)
            threads = KeyThreads(pkcs11.MAX_SESSIONS, clock)
        else:
            self._source = FileSource(str(key_file), keys, bundle=bundle)
        self._desk = Desk(threads)
        self._stamps = self._look()
        try:
            self._authority = self._load()
            self._source.try_out()
        except OSError as err:
            raise AuthorityError(
                f"error reading CA cert file {quote(self._certificate_file)}: {_go_text(err)}"
            ) from err

    @property
    def kind(self) -> str:
        """See ``signers.interface.Signer``."""
        return self._desk.kind

    @property
    def ends(self) -> dt.datetime | None:
        """See ``signers.interface.Signer``."""
        return self._authority.certificate.not_after

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
        self._desk.verify_open(decision)
        if self._look() != self._stamps:
            # An RSA key takes half a second to read.
            await with_key(self._follow)
        return await self._desk.issue(self._usable(), decision)

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
            loaded = self._load()
        except NotSingleError as err:
            self._unusable = err
        except (AuthorityError, OSError) as err:
            # The stamps stay as they are, so that the next signature looks again.
            log.error("the signing pair is not taken over", certificate_file=self._certificate_file, err=str(err))
            return
        else:
            self._authority, self._unusable = loaded, None
            log.info("Loaded a new cert/key pair", certificate_file=self._certificate_file)
        self._stamps = stamps

    def _look(self) -> tuple[Stamp | None, ...]:
        return stamp(self._certificate_file), *self._source.stamp()

    def _load(self) -> CertificateAuthority:
        certificate = Path(self._certificate_file).read_bytes() if self._certificate_file else b""
        return self._source.authority(certificate, self._certificate_file)


def _go_text(err: OSError) -> str:
    """As Go's ``os.ReadFile`` says it."""
    return f"open {err.filename}: {(err.strerror or str(err)).lower()}"
