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
from dataclasses import dataclass
from pathlib import Path

from kubevouch.pki.client_certificate import MAX_PRESENTED

_SSL_VERIFY_PEER = 1
_VERIFY_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


def _accept(_preverified: int, _store_context: int) -> int:
    return 1


# Kept for the life of the process: OpenSSL holds a bare pointer to it.
_accept_any_chain = _VERIFY_CALLBACK(_accept)


class TLSUnavailableError(Exception):
    """This Python's ssl module cannot be told to ask for client certificates without verifying them."""


@dataclass(frozen=True, slots=True)
class ServingFiles:
    """The server's certificate chain and key, as PEM files."""

    certificate: Path
    key: Path


def server_context(files: ServingFiles) -> ssl.SSLContext:
    """A TLS 1.2+ context that asks for client certificates and accepts any.

    Raises:
        TLSUnavailableError: the verify callback could not be replaced.
        ssl.SSLError, OSError: the files are no certificate and key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would carry the leaf but not the chain that the authenticator verifies.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_OPTIONAL
    _replace_verify_callback(context)
    return context


def _replace_verify_callback(context: ssl.SSLContext) -> None:
    """``SSL_CTX_set_verify`` on the context's own pointer, which follows the object header in CPython."""
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
    library.SSL_CTX_set_verify(pointer, _SSL_VERIFY_PEER, _accept_any_chain)


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
