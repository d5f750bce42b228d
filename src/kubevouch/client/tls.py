"""The one builder of TLS contexts for clients, whatever the endpoint came from: flag, kubeconfig, cluster-info.

Several sources with a context each is how CVE-2020-15136 came about (etcd authenticated some endpoints and not others).
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubevouch.client.interface import ClientConfigurationError
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("client.tls")

MAX_PEM_BYTES = 1024 * 1024  # five times the trust bundle of a Linux distribution
_IN_TPM = b"-----BEGIN TSS2 PRIVATE KEY-----"
CHECK_SECONDS = 10.0  # how often the kubelet compares its pair with the one on its connections


@dataclass(frozen=True, slots=True)
class ClientTLS:
    """What connections trust and show.

    Args:
        ca_bundle: PEM of the trust anchors; None trusts those of the machine.
        certificate: PEM of the client certificate, leaf first; empty shows none.
        private_key: PEM of its key.
        server_name: the name to ask for and to verify, where it is not the host of the URL.
        insecure: verifies nothing. Never set but by an explicit word of the operator.
    """

    ca_bundle: bytes | None = None
    certificate: bytes = b""
    private_key: bytes = field(default=b"", repr=False)
    server_name: str = ""
    insecure: bool = False


def client_context(tls: ClientTLS) -> ssl.SSLContext:
    """The context for ``tls``: TLS 1.2 or later, names checked against SANs only.

    Raises:
        ClientConfigurationError: the PEM is no certificate, or the certificate and the key are no pair.
    """
    if tls.insecure:
        if tls.ca_bundle is not None:
            raise ClientConfigurationError(
                "a CA bundle and insecure-skip-tls-verify are both given",
                hint="leave out insecure-skip-tls-verify to verify the server with the bundle",
            )
        context = insecure_context_that_verifies_nothing()
    else:
        context = _bare_context()
        _trust(context, tls.ca_bundle)
    if tls.certificate or tls.private_key:
        _show(context, tls.certificate, tls.private_key)
    return context


def check_pair(certificate: bytes, private_key: bytes) -> None:
    """Raises :class:`ClientConfigurationError` unless the two are PEM and belong together."""
    _show(_bare_context(), certificate, private_key)


def insecure_context_that_verifies_nothing() -> ssl.SSLContext:
    """For the first fetch of discovery, whose answer is verified by other means, and for operators who insist.

    This is the only place in the program where the verification of a server is switched off.
    """
    log.warning("the server's certificate is not verified")
    context = _bare_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _bare_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False  # Go has not looked at the common name since 1.15
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate in the bundle is an anchor, as in Go
    context.set_alpn_protocols(["http/1.1"])
    return context


def _trust(context: ssl.SSLContext, bundle: bytes | None) -> None:
    if bundle is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    loaded = 0
    for certificate in _certificates(bundle, "the CA bundle"):
        try:
            context.load_verify_locations(cadata=certificate)
            loaded += 1
        except (ssl.SSLError, ValueError):  # the latter for an empty one
            continue  # Go's AppendCertsFromPEM passes over what it cannot parse, too
    if not loaded:
        raise ClientConfigurationError(
            "the CA bundle holds no certificate", hint="give PEM that begins with -----BEGIN CERTIFICATE-----"
        )


def _certificates(text: bytes, what: str) -> Iterator[bytes]:
    try:
        for block in pem.blocks(text, limit=MAX_PEM_BYTES):
            if block.type == pem.CERTIFICATE:
                yield block.contents
    except ParseError as err:
        raise ClientConfigurationError(f"{what} cannot be read: {err}") from err


def _show(context: ssl.SSLContext, certificate: bytes, private_key: bytes) -> None:
    if not certificate or not private_key:
        given, missing = ("certificate", "key") if certificate else ("key", "certificate")
        raise ClientConfigurationError(f"a client {given} is given without its {missing}")
    if not any(_certificates(certificate, "the client certificate")):
        raise ClientConfigurationError("the client certificate is not PEM", hint="expected -----BEGIN CERTIFICATE-----")
    if len(private_key) > MAX_PEM_BYTES:
        raise ClientConfigurationError(f"the client key has {len(private_key)} bytes, at most {MAX_PEM_BYTES} are read")
    if _IN_TPM in private_key:
        _show_resident(context, certificate, private_key)
        return
    try:
        with _as_file(certificate) as certificate_path, _as_file(private_key) as key_path:
            context.load_cert_chain(certificate_path, key_path, password=_no_password)
    except ssl.SSLError as err:
        if err.reason == "KEY_VALUES_MISMATCH":
            raise ClientConfigurationError("the client certificate and the client key do not belong together") from err
        raise ClientConfigurationError("the client certificate or its key cannot be read as PEM") from err


def _show_resident(context: ssl.SSLContext, certificate: bytes, private_key: bytes) -> None:
    # Few machines have one, and the credential plug-in counts what it loads.
    from kubevouch.client import tls_resident_key
    from kubevouch.pki.errors import KeyMaterialError

    try:
        with _as_file(certificate) as path:
            tls_resident_key.use(context, path, private_key)
    except KeyMaterialError as err:
        raise ClientConfigurationError(f"the client key in the TPM cannot be used: {err}") from err


def _no_password() -> str:
    # Without this, OpenSSL asks on the terminal.
    raise ClientConfigurationError("the client key is encrypted", hint="give a key without a passphrase")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path that holds ``content`` for as long as the block runs: OpenSSL reads pairs from files only.

    In memory where the system can, so that a key that came without a file never gets one.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("client-pair", os.MFD_CLOEXEC)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:  # pragma: no cover - not on Linux
        with tempfile.NamedTemporaryFile(prefix="client-pair-") as temporary:  # made with mode 0600
            temporary.write(content)
            temporary.flush()
            yield temporary.name


Source = bytes | Path
"""PEM itself, or the file to read it from again and again."""


@dataclass(frozen=True, slots=True)
class TLSSources:
    """Where :class:`ClientTLS` comes from. Empty bytes are as good as nothing."""

    ca_bundle: Source | None = None
    certificate: Source = b""
    private_key: Source = field(default=b"", repr=False)
    server_name: str = ""
    insecure: bool = False


class TLSFiles:
    """The newest usable :class:`ClientTLS` of some sources. Files are compared by content, not by time stamps."""

    def __init__(self, sources: TLSSources, clock: Clock) -> None:
        """Raises :class:`ClientConfigurationError` when the sources cannot be used as they are now."""
        self._sources = sources
        self._clock = clock
        self._watched = any(
            isinstance(source, Path) for source in (sources.ca_bundle, sources.certificate, sources.private_key)
        )
        self._tls = _read(sources)
        self._context = client_context(self._tls)
        self._checked = clock.monotonic()

    def current(self) -> ClientTLS:
        """What to connect with. Reads the files again when the last look is ten seconds old."""
        if self._watched and self._clock.monotonic() - self._checked >= CHECK_SECONDS:
            self.reload()
        return self._tls

    def context_of(self, tls: ClientTLS) -> ssl.SSLContext | None:
        """What was made when ``tls`` was checked, for any number of connections; None if it was not checked here."""
        return self._context if tls == self._tls else None

    def reload(self) -> None:
        """Read the files now. A half-written pair is left for the next look and the old one kept."""
        self._checked = self._clock.monotonic()
        try:
            fresh = _read(self._sources)
            if fresh == self._tls:
                return
            context = client_context(fresh)
        except ClientConfigurationError as err:
            log.warning("the certificate files cannot be used, the former ones stay", error=str(err))
            return
        self._tls, self._context = fresh, context
        log.info("the certificate files have changed")


def _read(sources: TLSSources) -> ClientTLS:
    bundle = None if sources.ca_bundle is None else _content(sources.ca_bundle, "CA bundle")
    return ClientTLS(
        ca_bundle=bundle,
        certificate=_content(sources.certificate, "client certificate"),
        private_key=_content(sources.private_key, "client key"),
        server_name=sources.server_name,
        insecure=sources.insecure,
    )


def _content(source: Source, what: str) -> bytes:
    if isinstance(source, bytes):
        return source
    return read_bounded(source, what, MAX_PEM_BYTES)


def read_bounded(path: Path, what: str, limit: int) -> bytes:
    """The content of a file that must be there, must not be empty and must not be long.

    Raises:
        ClientConfigurationError: it cannot be read, or is empty or longer than ``limit``.
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as err:
        raise ClientConfigurationError(f"the {what} {path} cannot be read: {err.strerror}") from err
    if not content.strip():
        raise ClientConfigurationError(f"the {what} {path} is empty")
    if len(content) > limit:
        raise ClientConfigurationError(f"the {what} {path} is longer than {limit} bytes")
    return content
