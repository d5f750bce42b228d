"""RSA keys of TPMs that are known to be weak: CVE-2017-15361 ("ROCA").

TPMs by Infineon made primes p = k·M + (65537^a mod M), M the product of small primes, until their firmware was replaced
in 2017. Who has the modulus can find them for some thousand hours of processor time, and then needs no TPM. Source:
Nemec et al., "The Return of Coppersmith's Attack", 2017, section 5.1: of such a modulus every remainder by those small
primes is a power of 65537. By those below another one is so once in 2^27.
"""

from __future__ import annotations

from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.public_area import Public

_GENERATOR = 65537
# Those that are in M whatever the size of the key.
_PRIMES = (
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109,
    113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
)  # fmt: skip


def _powers(prime: int) -> frozenset[int]:
    """The remainders by ``prime`` that powers of 65537 have."""
    found, power = set(), 1
    while power not in found:
        found.add(power)
        power = power * _GENERATOR % prime
    return frozenset(found)


_REMAINDERS = tuple((prime, _powers(prime)) for prime in _PRIMES)


def is_known_weak(key: Public) -> bool:
    """Whether it is an RSA key of that form."""
    if key.type != algorithms.RSA:
        return False
    modulus = int.from_bytes(key.unique[0], "big")
    return all(modulus % prime in remainders for prime, remainders in _REMAINDERS)
