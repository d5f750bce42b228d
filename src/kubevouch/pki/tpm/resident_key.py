"""A private key that is in a TPM: what is stored of it opens in that TPM only.

Its form is that of OpenSSL's TPM 2.0 provider, so that everything that uses the provider can use the file: draft
"ASN.1 Specification for TPM 2.0 Key Files" (hansenpartnership, version 1.1), PEM label ``TSS2 PRIVATE KEY``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature

from kubevouch.pki.errors import DERError, KeyMaterialError, StructureError
from kubevouch.pki.tpm import algorithms, public_area
from kubevouch.pki.tpm.marshalling import sized, unsized
from kubevouch.pki.tpm.public_area import Attributes, Public
from kubevouch.pki.x509 import der

_LOADABLE = der.encode_object_identifier("2.23.133.10.1.3")
_MAX_PRIVATE_BYTES = 1024
_EMPTY_AUTH = 0xA0
_YES = frozenset({der.encode(der.BOOLEAN, b"\xff"), der.encode(der.BOOLEAN, b"\x01")})
# Hierarchies whose primary key is made anew each time, and persistent handles (part 2, 7.4).
_OWNER, _ENDORSEMENT = 0x40000001, 0x4000000B
_PERSISTENT = range(0x81000000, 0x82000000)

Sign = Callable[["ResidentKey", bytes, int], tuple[int, int]]
"""r and s over a digest; the number is the TPM's of its hash."""


class ResidentKey(ec.EllipticCurvePrivateKey):
    """A key on P-256 that signs where it is.

    Args:
        parent: what it is stored below: a persistent handle, or the hierarchy whose storage root key is made anew.
        public, private: as the TPM has given them; ``private`` is encrypted by it.
        signer: asks the TPM; None for a key that was read from a file, which then asks :data:`default_signer`.
    """

    def __init__(self, parent: int, public: Public, private: bytes, signer: Sign | None = None) -> None:
        self.parent = parent
        self.public = public
        self.private = private
        self._signer = signer
        key = public.key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or public.curve != algorithms.P256:
            raise KeyMaterialError(f"got a {public.kind} key in a TPM, expected one on P-256")
        if not public.has(Attributes.SIGN) or public.attributes & Attributes.RESTRICTED:
            raise KeyMaterialError("got a key in a TPM that does not sign what one likes, as TLS does")
        self._public_key = key

    @property
    def curve(self) -> ec.EllipticCurve:
        return self._public_key.curve

    @property
    def key_size(self) -> int:
        return self._public_key.key_size

    def public_key(self) -> ec.EllipticCurvePublicKey:
        return self._public_key

    def sign(self, data: bytes, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:  # type: ignore[override]  # takes fewer kinds of buffers
        """An ECDSA signature in DER.

        Raises:
            KeyMaterialError: nothing says which TPM the key is in, or the hash is none that TPMs have.
        """
        if not isinstance(signature_algorithm, ec.ECDSA):
            raise KeyMaterialError("a key in a TPM signs by ECDSA only")
        algorithm = signature_algorithm.algorithm
        number = None if isinstance(algorithm, Prehashed) else algorithms.BANKS.get(algorithm.name)
        if number is None or number not in algorithms.STRONG_HASHES:
            raise KeyMaterialError("a key in a TPM signs over SHA-256, SHA-384 and SHA-512 only")
        return self.sign_digest(algorithms.HASHES[number].digest(data), number)

    def sign_digest(self, digest: bytes, algorithm: int) -> bytes:
        """As :meth:`sign`, of what has been hashed by the ``algorithm`` of that number in TPMs."""
        signer = self._signer or default_signer
        if signer is None:
            raise KeyMaterialError("the private key is in a TPM, and nobody has said in which")
        return encode_dss_signature(*signer(self, digest, algorithm))

    def exchange(self, *_: object) -> NoReturn:
        """It signs only. Raises :class:`KeyMaterialError`."""
        _stays()

    def private_numbers(self) -> NoReturn:
        """Nobody knows them. Raises :class:`KeyMaterialError`."""
        _stays()

    def private_bytes(self, *_: object, **__: object) -> NoReturn:
        """Nobody knows them: :meth:`to_der` is what can be stored. Raises :class:`KeyMaterialError`."""
        _stays()

    def to_der(self) -> bytes:
        """A TPMKey."""
        return der.encode(
            der.SEQUENCE,
            _LOADABLE,
            der.encode(_EMPTY_AUTH, der.encode(der.BOOLEAN, b"\xff")),
            der.encode_integer(self.parent),
            der.encode(der.OCTET_STRING, self.public.encode()),
            der.encode(der.OCTET_STRING, sized(self.private)),
        )

    def __copy__(self) -> ResidentKey:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> ResidentKey:
        return self


default_signer: Sign | None = None
"""The TPM of keys that come from files; :func:`use` sets it, once the machine's own TPM is known."""


def use(signer: Sign) -> None:
    """Let keys that are read from files sign: a file does not say which TPM it is for."""
    global default_signer
    default_signer = signer


def parse(contents: bytes) -> ResidentKey:
    """The key in a TPMKey.

    Raises:
        KeyMaterialError: something else, or a key that wants a password or a policy.
    """
    try:
        position, end = der.expect(contents, 0, len(contents), der.SEQUENCE)
        if end != len(contents) or contents[position : position + len(_LOADABLE)] != _LOADABLE:
            raise KeyMaterialError("got a TPM key of another kind, expected a loadable one (2.23.133.10.1.3)")
        position += len(_LOADABLE)
        tag, start, stop = der.element(contents, position, end)
        if tag == _EMPTY_AUTH:
            if contents[start:stop] not in _YES:  # OpenSSL's provider writes 01 where DER has FF
                raise KeyMaterialError("got a TPM key with a password, expected one without")
            tag, start, stop = der.element(contents, stop, end)
        if tag != der.INTEGER:
            raise KeyMaterialError("got a TPM key with a policy, expected one without")
        parent = der.int64(contents[start:stop])
        start, stop = der.expect(contents, stop, end, der.OCTET_STRING)
        public = public_area.parse(contents[start:stop])
        start, stop = der.expect(contents, stop, end, der.OCTET_STRING)
        private = unsized(contents[start:stop], "TPM2B_PRIVATE", _MAX_PRIVATE_BYTES)
    except (DERError, StructureError) as err:
        raise KeyMaterialError(f"got a TPM key that cannot be read: {err}") from err
    # OpenSSL's provider before 1.2 wrote zero for the owner.
    parent = parent or _OWNER
    if parent not in {_OWNER, _ENDORSEMENT} and parent not in _PERSISTENT:
        raise KeyMaterialError(f"got a TPM key below {parent:#x}, expected a hierarchy or a persistent key")
    return ResidentKey(parent, public, private)


def _stays() -> NoReturn:
    raise KeyMaterialError("the private key is in a TPM and cannot leave it")
