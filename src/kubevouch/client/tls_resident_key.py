"""TLS with a private key that stays in a TPM: Python's own OpenSSL, which asks us for each signature.

Python reads keys from files only. OpenSSL's TPM provider, which reads ours, cannot be kept to one key: beside it the
default provider signs with the public half alone, before it the TPM hashes the whole of TLS. So the context is given a
key whose method of signing is ours, by the functions of the OpenSSL that the module ``ssl`` is linked with
(EC_KEY_METHOD_new(3), SSL_CTX_use_PrivateKey(3); docs/adr/0030-talking-to-a-tpm.md).
"""

from __future__ import annotations

import ctypes
import functools
import ssl
import sys
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.resident_key import ResidentKey
from kubevouch.util.logger import get_logger

log = get_logger("client.tls")

_P256 = 415  # NID_X9_62_prime256v1
_HASHES = {each.size: number for number, each in algorithms.HASHES.items() if number in algorithms.STRONG_HASHES}
# int sign(type, digest, length, signature, size, kinv, r, key)
_SIGN = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_ubyte),
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_ubyte),
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "EC_KEY_OpenSSL": (ctypes.c_void_p, ()),
    "EC_KEY_METHOD_new": (ctypes.c_void_p, (ctypes.c_void_p,)),
    "EC_KEY_METHOD_set_sign": (None, (ctypes.c_void_p, _SIGN, ctypes.c_void_p, ctypes.c_void_p)),
    "EC_KEY_new_by_curve_name": (ctypes.c_void_p, (ctypes.c_int,)),
    "EC_KEY_oct2key": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)),
    "EC_KEY_set_method": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p)),
    "EC_KEY_free": (None, (ctypes.c_void_p,)),
    "EVP_PKEY_new": (ctypes.c_void_p, ()),
    "EVP_PKEY_set1_EC_KEY": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p)),
    "ERR_clear_error": (None, ()),
    "SSL_CTX_use_certificate_chain_file": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p)),
    "SSL_CTX_use_PrivateKey": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p)),
}


def use(context: ssl.SSLContext, certificate_path: str, private_key: bytes) -> None:
    """Show the certificates of a PEM file, leaf first, and sign with ``private_key`` for them, a PEM that names it.

    Raises:
        KeyMaterialError: they do not belong together, or this Python has no OpenSSL of its system's.
    """
    library = _library()
    pointer = _context_pointer(context)
    signer = _signer(private_key)
    try:
        if library.SSL_CTX_use_certificate_chain_file(pointer, certificate_path.encode()) != 1:
            raise KeyMaterialError("the certificate cannot be read as PEM")
        if library.SSL_CTX_use_PrivateKey(pointer, signer.pointer) != 1:
            raise KeyMaterialError("the certificate and the key in the TPM do not belong together")
    finally:
        # Python would tell the next who fails what has failed here.
        library.ERR_clear_error()


@functools.lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    import _ssl

    try:
        # The module itself: whatever it is linked with is found through it, and nothing else.
        library = ctypes.CDLL(_ssl.__file__)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as err:
        raise KeyMaterialError(
            f"{ssl.OPENSSL_VERSION} of this Python ({sys.executable}) takes no keys of a TPM: expected OpenSSL 1.1.1 "
            "to 3 as a library of its own, as distributions have it"
        ) from err
    return library


def _context_pointer(context: ssl.SSLContext) -> int:
    """The SSL_CTX: the first member of CPython's PySSLContext, since Python 2.7 (Modules/_ssl.c)."""
    if sys.implementation.name != "cpython":
        raise KeyMaterialError(f"{sys.implementation.name} takes no keys of a TPM for TLS, expected CPython")
    found = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    assert found is not None
    return found


# For good: OpenSSL goes on asking for as long as a connection or a context of the key is there, and nobody tells us
# when the last one is gone. Each renewal is one more, with some hundred bytes.
@functools.cache
def _signer(private_key: bytes) -> _Signer:
    key = keys.load_pem(private_key, in_tpm=True)
    if not isinstance(key, ResidentKey):
        raise KeyMaterialError("expected a key that is in a TPM")
    return _Signer(key)


class _Signer:
    """A key of OpenSSL's that signs by asking the TPM."""

    def __init__(self, key: ResidentKey) -> None:
        library = _library()
        self._key = key
        self._sign = _SIGN(self._signature)
        method = library.EC_KEY_METHOD_new(library.EC_KEY_OpenSSL())
        library.EC_KEY_METHOD_set_sign(method, self._sign, None, None)
        made = library.EC_KEY_new_by_curve_name(_P256)
        point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.pointer = library.EVP_PKEY_new()
        done = (
            library.EC_KEY_oct2key(made, point, len(point), None) == 1
            and library.EC_KEY_set_method(made, method) == 1
            and library.EVP_PKEY_set1_EC_KEY(self.pointer, made) == 1
        )
        library.EC_KEY_free(made)
        if not done:
            raise KeyMaterialError("OpenSSL does not take the key in the TPM")

    def _signature(
        self,
        _type: int,
        digest: ctypes._Pointer[ctypes.c_ubyte],
        length: int,
        signature: ctypes._Pointer[ctypes.c_ubyte],
        size: ctypes._Pointer[ctypes.c_uint],
        *_: object,
    ) -> int:
        try:
            made = self._key.sign_digest(bytes(digest[:length]), _HASHES[length])
        except Exception as err:  # noqa: BLE001 - nothing can be raised through C; the handshake fails
            log.error("a TLS handshake could not be signed in the TPM", error=str(err))
            return 0
        ctypes.memmove(signature, made, len(made))
        size[0] = len(made)
        return 1
