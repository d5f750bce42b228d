"""SSH's public keys and signatures."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh import wire
from kubevouch.pki.ssh.public_key import parse_blob, parse_line
from kubevouch.pki.ssh.wire import string

ED25519 = ed25519.Ed25519PrivateKey.generate()
P256 = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)


def line(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def step(key: str, signature: bytes, message: bytes = b"m") -> str:
    try:
        parse_line(key).verify(signature, message)
    except SSHError as err:
        return err.step
    return ""


def ecdsa(key: ec.EllipticCurvePrivateKey, digest: hashes.HashAlgorithm, message: bytes = b"m") -> bytes:
    both = utils.decode_dss_signature(key.sign(message, ec.ECDSA(digest)))
    return b"".join(string(wire.unsigned(each)) for each in both)


def named(algorithm: str, octets: bytes) -> bytes:
    return string(algorithm.encode()) + string(octets)


def pkcs1(digest: hashes.HashAlgorithm) -> bytes:
    return RSA.sign(b"m", padding.PKCS1v15(), digest)


PSS = RSA.sign(b"m", padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())


@pytest.mark.parametrize(
    ("expected", "key", "signature"),
    [
        ("", ED25519, named("ssh-ed25519", ED25519.sign(b"m"))),
        ("", P256, named("ecdsa-sha2-nistp256", ecdsa(P256, hashes.SHA256()))),
        ("", RSA, named("rsa-sha2-256", pkcs1(hashes.SHA256()))),
        ("", RSA, named("rsa-sha2-512", pkcs1(hashes.SHA512()))),
        ("signature", ED25519, named("ssh-ed25519", ED25519.sign(b"n"))),
        ("signature", ED25519, named("ssh-ed25519", ED25519.sign(b"m")[:-1])),
        ("signature", P256, named("ecdsa-sha2-nistp256", ecdsa(P256, hashes.SHA512()))),
        ("signature", P256, named("ecdsa-sha2-nistp256", string(b"") * 2)),
        ("signature", RSA, named("rsa-sha2-256", pkcs1(hashes.SHA512()))),
        ("signature", RSA, named("rsa-sha2-256", PSS)),
        ("signature-form", RSA, named("ssh-rsa", pkcs1(hashes.SHA1()))),
        ("signature-form", RSA, named("rsa-sha2-256-cert-v01@openssh.com", pkcs1(hashes.SHA256()))),
        ("signature-form", RSA, named("ssh-ed25519", pkcs1(hashes.SHA256()))),
        ("signature-form", P256, named("ecdsa-sha2-nistp384", ecdsa(P256, hashes.SHA384()))),
        ("signature-form", ED25519, named("", ED25519.sign(b"m"))),
        ("structure", P256, named("ecdsa-sha2-nistp256", P256.sign(b"m", ec.ECDSA(hashes.SHA256())))),
        ("structure", P256, named("ecdsa-sha2-nistp256", ecdsa(P256, hashes.SHA256()) + b"\0")),
        ("structure", ED25519, named("ssh-ed25519", ED25519.sign(b"m")) + b"\0"),
        ("structure", ED25519, b""),
        ("structure", ED25519, b"\xff\xff\xff\xff"),
    ],
    # Keys and signatures are others each time, and a test has one name in all processes of a run.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_signatures(
    expected: str,
    key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    signature: bytes,
) -> None:
    assert step(line(key), signature) == expected


def test_the_blob_is_what_was_read() -> None:
    for key in (ED25519, P256, RSA):
        assert parse_line(line(key)).blob == base64.b64decode(line(key).split()[1])


@pytest.mark.parametrize(
    ("expected", "blob"),
    [
        ("key-type", named("ssh-dss", b"") + string(b"") * 3),
        ("key-type", named("sk-ssh-ed25519@openssh.com", bytes(32)) + string(b"ssh:")),
        ("key-type", named("ecdsa-sha2-nistp192", b"")),
        ("key-type", named("ssh-ed25519-cert-v01@openssh.com", b"")),
        ("structure", named("ssh-ed25519", bytes(31))),
        ("structure", named("ssh-ed25519", bytes(32)) + b"\0"),
        ("structure", string(b"ecdsa-sha2-nistp256") + string(b"nistp384") + string(b"\x04" + bytes(64))),
        ("structure", string(b"ecdsa-sha2-nistp256") + string(b"nistp256") + string(b"\x04" + bytes(64))),
        ("structure", string(b"ecdsa-sha2-nistp256") + string(b"nistp256") + string(b"\x02" + bytes(32))),
        ("key-size", string(b"ssh-rsa") + string(b"\x01\x00\x01") + string(b"\0" + b"\xff" * 128)),
        ("key-size", string(b"ssh-rsa") + string(b"\x01\x00\x01") + string(b"\0" + b"\xff" * 2048)),
        ("structure", string(b"ssh-rsa") + string(b"\x7f" * 9) + string(b"\0" + b"\xff" * 256)),
        ("structure", string(b"ssh-rsa") + string(b"\x02") + string(b"\0" + b"\xff" * 256)),
        ("structure", string(b"ssh-rsa") + string(b"\x01\x00\x01") + string(b"\xff" * 256)),
        ("structure", string(b"ssh-rsa") + string(b"\x00\x01\x00\x01") + string(b"\0" + b"\xff" * 256)),
    ],
)
def test_keys_that_are_none(expected: str, blob: bytes) -> None:
    with pytest.raises(SSHError) as caught:
        parse_blob(blob)
    assert caught.value.step == expected
