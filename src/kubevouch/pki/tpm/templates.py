"""The templates keys of a TPM are made from: TPMT_PUBLIC (part 2, 12.2.4) without a key.

The same template under the same hierarchy always gives the same key, until somebody clears the TPM, so that none of
these has to be stored. Source: TCG, "EK Credential Profile for TPM Family 2.0", version 2.5, annex B (endorsement
keys) and "TCG TPM v2.0 Provisioning Guidance", version 1.0, chapter 7.5.1 (storage root key).
"""

from __future__ import annotations

import msgspec

from kubevouch.pki.tpm.algorithms import AES, CFB, ECC, ECDSA, NULL, P256, P384, P521, RSA, SHA256, SHA384, SHA512
from kubevouch.pki.tpm.public_area import RESIDENT, Attributes, Public

_EK_LOW = RESIDENT | Attributes.ADMIN_WITH_POLICY | Attributes.RESTRICTED | Attributes.DECRYPT
_EK_HIGH = _EK_LOW | Attributes.USER_WITH_AUTH
_KEY = RESIDENT | Attributes.USER_WITH_AUTH | Attributes.NO_DA

# PolicySecret(TPM_RH_ENDORSEMENT), and PolicyOR of that and PolicyAuthorizeNV: annex B.6 of the profile.
_POLICY_A = bytes.fromhex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa")
_POLICY_B = {
    SHA384: bytes.fromhex(
        "b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12"
    ),
    SHA512: bytes.fromhex(
        "b8221ca69e8550a4914de3faa6a18c072cc01208073a928d5d66d59ef79e49a4"
        "29c41a6b269571d57edb25fbdb1838425608b413cd616a5f6db5b6071af99bea"
    ),
}
_AES_128, _AES_256 = (AES, 128, CFB), (AES, 256, CFB)


class EndorsementKey(msgspec.Struct, frozen=True):
    """One kind of endorsement key: the NV index of its certificate, and what it is made from."""

    certificate: int
    template: Public

    @property
    def kind(self) -> str:
        """Such as ``ECC-P256``."""
        return self.template.kind


def _low_rsa() -> Public:
    return Public(
        type=RSA, name_algorithm=SHA256, attributes=_EK_LOW, auth_policy=_POLICY_A, symmetric=_AES_128, bits=2048,
        unique=(bytes(256),),
    )  # fmt: skip


def _low_ecc() -> Public:
    return Public(
        type=ECC, name_algorithm=SHA256, attributes=_EK_LOW, auth_policy=_POLICY_A, symmetric=_AES_128, curve=P256,
        unique=(bytes(32), bytes(32)),
    )  # fmt: skip


def _high_rsa(bits: int) -> Public:
    return Public(
        type=RSA, name_algorithm=SHA384, attributes=_EK_HIGH, auth_policy=_POLICY_B[SHA384], symmetric=_AES_256,
        bits=bits,
    )  # fmt: skip


def _high_ecc(name_algorithm: int, curve: int) -> Public:
    return Public(
        type=ECC, name_algorithm=name_algorithm, attributes=_EK_HIGH, auth_policy=_POLICY_B[name_algorithm],
        symmetric=_AES_256, curve=curve,
    )  # fmt: skip


ENDORSEMENT_KEYS = (
    # The low range: the unique field is full of zeros, and only a policy lets anybody use the key.
    EndorsementKey(0x01C0000A, _low_ecc()),
    EndorsementKey(0x01C00002, _low_rsa()),
    # The high range: an empty password will do.
    EndorsementKey(0x01C00016, _high_ecc(SHA384, P384)),
    EndorsementKey(0x01C0001C, _high_rsa(3072)),
    EndorsementKey(0x01C00018, _high_ecc(SHA512, P521)),
    EndorsementKey(0x01C0001E, _high_rsa(4096)),
)
"""In the order in which they are looked for: finding the primes of an RSA key again takes seconds."""

ATTESTATION_KEY = Public(
    type=ECC, name_algorithm=SHA256, attributes=_KEY | Attributes.RESTRICTED | Attributes.SIGN, scheme=(ECDSA, SHA256),
    curve=P256,
)  # fmt: skip
"""It signs only what the TPM itself has written."""

NODE_KEY = Public(type=ECC, name_algorithm=SHA256, attributes=_KEY | Attributes.SIGN, scheme=(NULL, 0), curve=P256)
"""The key of the node's certificate: it signs whatever TLS wants signed, and cannot decrypt.

Neither key counts failures: who locks a TPM by wrong passwords for something else does not stop the node.
"""

STORAGE_ROOT_KEY = Public(
    type=ECC, name_algorithm=SHA256, attributes=_KEY | Attributes.RESTRICTED | Attributes.DECRYPT, symmetric=_AES_128,
    curve=P256,
)  # fmt: skip
"""What keys of nodes are stored below, where there is no persistent one."""
