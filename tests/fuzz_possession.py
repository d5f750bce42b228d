"""Proofs of possession and first use, as a request carries them, for the fuzzers; each has a seed that is accepted."""

from __future__ import annotations

from typing import Any

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from device_certificates import NOW, authority, issue
from kubevouch.attestation import documents
from kubevouch.attestation.callback import evidence as callback
from kubevouch.attestation.callback import verifier as callback_verifier
from kubevouch.attestation.insecure import evidence as insecure
from kubevouch.attestation.join_token import evidence as join_token
from kubevouch.attestation.sshpop import evidence as sshpop
from kubevouch.attestation.sshpop import verifier as sshpop_verifier
from kubevouch.attestation.tofu import evidence as tofu
from kubevouch.attestation.tofu import verifier as tofu_verifier
from kubevouch.attestation.x509pop import evidence as x509pop
from kubevouch.attestation.x509pop import verifier as x509pop_verifier
from kubevouch.pki import keys
from ssh_hosts import certify, make_key, prove

# By the first octet.
_METHODS: tuple[Any, ...] = (x509pop, sshpop, tofu, join_token, insecure, callback)
_NONCE = bytes(32)
_ROOT, _CA, _HOST = authority("root"), make_key(), make_key()
_DEVICE = issue("device", _ROOT)


def parse(data: bytes) -> object:
    """One of them, read and, where nobody has to be asked, verified."""
    method = _METHODS[(data[0] if data else 0) % len(_METHODS)]
    proof = documents.decode(data[1:], method.Proof, method.NAME)
    if method is x509pop:
        return x509pop_verifier.verify_proof(proof, _ROOT.anchors, nonce=_NONCE, now=NOW)
    if method is sshpop:
        return sshpop_verifier.verify_proof(proof, [_CA.public], None, nonce=_NONCE, now=NOW)
    if method is tofu:
        return tofu_verifier.verify_proof(proof, digest=_NONCE, spki=b"")
    if method is callback:
        return callback_verifier.verify_host(proof.host, ())
    return proof


def _signed(message: bytes) -> bytes:
    assert isinstance(_DEVICE.key, ec.EllipticCurvePrivateKey)
    return _DEVICE.key.sign(message, ec.ECDSA(hashes.SHA256()))


_PROOFS = (
    x509pop.Proof(
        certificates=(_DEVICE.der,),
        client_nonce=_NONCE,
        signature=_signed(x509pop.signed_message(_NONCE, _NONCE)),
        signature_form=x509pop.SignatureForm.ECDSA,
    ),
    prove(certify(_HOST, _CA), _HOST, _NONCE),
    tofu.Proof(key=keys.load_public_key(_DEVICE.spki).canonical_info, signature=_signed(tofu.signed_message(_NONCE))),
    join_token.Proof(token_id="abcdefgh", signature=bytes(64)),
    insecure.Proof(proves=insecure.PROVES),
    callback.Proof(host="127.0.0.1"),
)
SEEDS = [bytes([number]) + msgspec.json.encode(proof) for number, proof in enumerate(_PROOFS)]
WORDS = (b'"signature":"', b'"certificates":["', b'"MII', b"AAAA", b'"clientNonce":null,', b"ssh-rsa ", b"::1")
