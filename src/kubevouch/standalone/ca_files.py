"""The files of ``pki/`` that a running server takes in again: whose clients it believes, and what it serves with.

The signers and the publishers of the CA look at their files by themselves.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from kubevouch.phases.certificates.certs import CertsError, ControlPlanePKI, pair_at, read_bundle, verify_apart
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.control_plane import CA
from kubevouch.pki.errors import PKIError
from kubevouch.server.edge import sni
from kubevouch.server.edge.tls import ServingFiles, TLSOptionsError, server_context
from kubevouch.server.options import ServerOptions
from kubevouch.util.clock import Clock
from kubevouch.util.files import Stamp, stamp
from kubevouch.util.logger import get_logger

log = get_logger("standalone.ca_files")

LOOK_SECONDS = 2.0


class CAFiles:
    """What cannot be used is not taken in, and looked at again: it may be in the middle of being written."""

    def __init__(
        self,
        pki: ControlPlanePKI,
        clock: Clock,
        trust: Callable[[TrustAnchors], None],
        options: ServerOptions | None = None,
    ) -> None:
        self._options = options or ServerOptions()
        self._pki = pki
        self._files = self._options.serving or ServingFiles(pki.apiserver.certificate, pki.apiserver.key)
        self._named: dict[str, ssl.SSLContext] = {}
        self._clock = clock
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._bundle = self._bundle_stamp()
        self._serving = self._serving_stamps()
        self._told: dict[str, str] = {}
        """What was told last of each file that cannot be used: once is enough, however long it lasts."""

    def serve_with(self) -> ssl.SSLContext:
        """The server's TLS context, whose certificate is replaced in place.

        Raises:
            TLSOptionsError: a pair that was named cannot be used.
            TLSUnavailableError, ssl.SSLError, OSError: as :func:`server_context` does.
        """
        self._serving = self._serving_stamps()
        self._context = server_context(self._files, self._options.tls)
        self._named = sni.table(self._options.named, self._options.tls)
        if self._options.named:
            sni.refuse_odd_names_quietly()
            self._context.sni_callback = self._choose
        return self._context

    def _choose(self, connection: ssl.SSLObject, name: str | None, _own: ssl.SSLContext) -> None:
        context = sni.choose(name or "", self._named)
        if context is not None:
            connection.context = context

    async def keep(self) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        seen = self._bundle_stamp()
        if seen != self._bundle:
            try:
                anchors = TrustAnchors.from_pem(read_bundle(self._pki.folder))
                verify_apart(self._pki.folder, anchors.certificates, [self._pki.front_proxy])
                self._trust(anchors)
            except (CertsError, PKIError) as err:
                self._tell("the client CA bundle is not taken over", err)
            else:
                self._told.clear()
                self._bundle = seen
                log.info("the client CA bundle was read again")
        stamps = self._serving_stamps()
        if self._context is not None and stamps != self._serving:
            try:
                # On contexts of their own first: half a pair would leave the one in use without any.
                sni.usable(self._files, self._options.tls)
                named = sni.table(self._options.named, self._options.tls)
                self._context.load_cert_chain(self._files.certificate, self._files.key)
            except (TLSOptionsError, ssl.SSLError, OSError) as err:
                self._tell("the serving certificate is not taken over", err)
            else:
                self._told.clear()
                self._serving, self._named = stamps, named
                log.info("the serving certificate was read again")

    def _tell(self, what: str, err: Exception) -> None:
        if self._told.get(what) != str(err):
            self._told[what] = str(err)
            log.error(what, err=str(err))

    def _bundle_stamp(self) -> Stamp | None:
        return stamp(pair_at(self._pki.folder, CA).certificate)

    def _serving_stamps(self) -> tuple[Stamp | None, ...]:
        pairs = (self._files, *(each.files for each in self._options.named))
        return tuple(stamp(path) for pair in pairs for path in (pair.certificate, pair.key))
