"""The server's TLS context: it asks for a client certificate and verifies nothing in the handshake.

kube-apiserver does the same, so that an expired or foreign certificate ends as a clean 401 or as the business of the
next authenticator. Python's ``ssl`` offers no such mode: ``CERT_OPTIONAL`` drops the connection when OpenSSL's own
verification fails. The context's verify callback is therefore replaced by one that lets every chain through, and
``authentication.x509`` verifies before anything reads the certificate. :func:`server_context` proves in memory that
the replacement took effect, and refuses to start otherwise.
"""

from __future__ import annotations

import ctypes
import ssl
import sys
from pathlib import Path
from typing import Any

import msgspec

from kubevouch.pki.client_certificate import MAX_PRESENTED

_SSL_VERIFY_PEER = 1
# <openssl/ssl.h>: what SSL_CTX_ctrl sets.
_SESSION_CACHE_MODE = 44
_SESSION_CACHE_OFF = 0
_MAX_CERT_LIST = 51
# Of a client's chain, as it is sent: several times MAX_PRESENTED usual ones. OpenSSL would take 100 KiB from anybody.
MAX_CHAIN_BYTES = 32 * 1024
_VERIFY_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


def _accept(_preverified: int, _store_context: int) -> int:
    return 1


# Kept for the life of the process: OpenSSL holds a bare pointer to it.
_accept_any_chain = _VERIFY_CALLBACK(_accept)


# In Go's order, and so kube-apiserver's: the cheapest first. OpenSSL's own begins with AES-256.
_SUITES = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
# RFC 8446 section 5.1: what one record holds, and so what OpenSSL hands out at once.
_MAX_RECORD = 1 << 14


class _RecordReader(ssl.SSLObject):
    """Makes room for one record. uvloop asks for 256 KiB each time, which the system would give and take back."""

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - ssl's name
        return super().read(len if len < _MAX_RECORD else _MAX_RECORD, buffer)


class TLSUnavailableError(Exception):
    """This Python's ssl module cannot be told to ask for client certificates without verifying them."""


class ServingFiles(msgspec.Struct, frozen=True):
    """The server's certificate chain and key, as PEM files."""

    certificate: Path
    key: Path


# Go's names and OpenSSL's, of the suites that Go takes for secure. Those of TLS 1.3 are always on, in both.
_CIPHERS = {
    f"TLS_ECDHE_{kind}_WITH_{go}": f"ECDHE-{kind}-{openssl}"
    for kind in ("ECDSA", "RSA")
    for go, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"), ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"), ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"), ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}  # fmt: skip
_TLS_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


class TLSOptionsError(ValueError):
    """A version or a cipher suite that is not served."""


class TLSOptions(msgspec.Struct, frozen=True):
    """``--tls-min-version`` and ``--tls-cipher-suites``, in Go's names.

    Raises:
        TLSOptionsError
    """

    min_version: str = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.min_version in ("VersionTLS10", "VersionTLS11"):
            raise TLSOptionsError(f"got tls-min-version {self.min_version}, expected VersionTLS12 or VersionTLS13")
        if self.min_version not in _VERSIONS:
            raise TLSOptionsError(f'unknown tls version "{self.min_version}"')
        for name in self.cipher_suites:
            if name not in _CIPHERS and name not in _TLS_1_3:
                raise TLSOptionsError(f"Cipher suite {name} not supported or doesn't exist")

    def apply(self, context: ssl.SSLContext) -> None:
        context.minimum_version = _VERSIONS[self.min_version]
        chosen = [_CIPHERS[name] for name in self.cipher_suites if name in _CIPHERS]
        if chosen:
            context.set_ciphers(":".join(chosen))
        elif self.cipher_suites:
            context.minimum_version = ssl.TLSVersion.TLSv1_3


def why_unusable(files: ServingFiles, err: Exception) -> str:
    """What is wrong with which of the files, of which :func:`server_context` raised ``err``.

    OpenSSL and Python name neither, and keep their own places in the text.
    """
    for path, label, expected in (
        (files.certificate, b"CERTIFICATE", "a PEM file with a certificate"),
        (files.key, b"PRIVATE KEY", "a PEM file with its key"),
    ):
        try:
            text = path.read_bytes()
        except OSError as fault:
            return f"{path} cannot be read: {(fault.strerror or str(fault)).lower()}"
        if b"%s-----" % label not in text:
            return f"got {path}, expected {expected}"
    reason = err.reason if isinstance(err, ssl.SSLError) else ""
    if reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
        return f"got {files.key}, expected the key of the certificate in {files.certificate}"
    return f"{files.certificate} and {files.key}: {(reason or str(err)).lower().replace('_', ' ')}"


_USUAL = TLSOptions()


def server_context(files: ServingFiles, options: TLSOptions = _USUAL) -> ssl.SSLContext:
    """A context that asks for client certificates and accepts any.

    Raises:
        TLSUnavailableError: the verify callback could not be replaced.
        ssl.SSLError, OSError: the files are no certificate and key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _RecordReader
    options.apply(context)
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would carry the leaf but not the chain that the authenticator verifies.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_OPTIONAL
    library, pointer = _native(context)
    library.SSL_CTX_set_verify(pointer, _SSL_VERIFY_PEER, _accept_any_chain)
    # Without tickets TLS 1.2 still resumes by id, from 20,000 sessions that OpenSSL would hold with their certificates.
    library.SSL_CTX_ctrl(pointer, _SESSION_CACHE_MODE, _SESSION_CACHE_OFF, None)
    library.SSL_CTX_ctrl(pointer, _MAX_CERT_LIST, MAX_CHAIN_BYTES, None)
    if library.SSL_CTX_set_ciphersuites(pointer, _SUITES) != 1:
        raise TLSUnavailableError("OpenSSL does not know the cipher suites of TLS 1.3")
    return context


def _native(context: ssl.SSLContext) -> tuple[ctypes.CDLL, int]:
    """The library and its own pointer to the context, which follows the object header in CPython."""
    if sys.implementation.name != "cpython":
        raise TLSUnavailableError(f"needs CPython, this is {sys.implementation.name}")
    library = _openssl()
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    library.SSL_CTX_get_verify_mode.argtypes = [ctypes.c_void_p]
    library.SSL_CTX_get_verify_mode.restype = ctypes.c_int
    # CERT_OPTIONAL was set through Python: reading it back shows that the pointer is the context.
    if not pointer or library.SSL_CTX_get_verify_mode(pointer) != _SSL_VERIFY_PEER:
        raise TLSUnavailableError("the layout of this Python's ssl module is unknown")
    library.SSL_CTX_set_verify.argtypes = [ctypes.c_void_p, ctypes.c_int, _VERIFY_CALLBACK]
    library.SSL_CTX_set_verify.restype = None
    library.SSL_CTX_ctrl.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]
    library.SSL_CTX_ctrl.restype = ctypes.c_long
    library.SSL_CTX_set_ciphersuites.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.SSL_CTX_set_ciphersuites.restype = ctypes.c_int
    return library, pointer


def _openssl() -> ctypes.CDLL:
    """The very libssl that the ssl module is linked with."""
    import _ssl

    for candidate in (getattr(_ssl, "__file__", None), None):
        library = ctypes.CDLL(candidate)
        if hasattr(library, "SSL_CTX_set_verify") and hasattr(library, "SSL_CTX_get_verify_mode"):
            return library
    raise TLSUnavailableError("libssl does not export SSL_CTX_set_verify")


def peer_chain(ssl_object: ssl.SSLObject | None) -> tuple[bytes, ...]:
    """The client's certificates as DER, leaf first, **unverified**; empty when it sent none."""
    if ssl_object is None:
        return ()
    leaf = ssl_object.getpeercert(binary_form=True)
    if leaf is None:
        return ()
    # CPython has the intermediates since 3.10, public since 3.13.
    inner = getattr(ssl_object, "_sslobj", None)
    read_chain = getattr(ssl_object, "get_unverified_chain", None)
    if read_chain is not None:
        return tuple(read_chain()[:MAX_PRESENTED])
    if inner is not None and hasattr(inner, "get_unverified_chain"):
        chain = inner.get_unverified_chain() or ()
        return tuple(certificate.public_bytes(2) for certificate in chain[:MAX_PRESENTED])
    return (leaf,)
