"""Certificates of SSH hosts, beside ``cryptography``'s reading of them."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import SSHCertificate, SSHCertificateType, load_ssh_public_identity

import evidence_cases
from device_certificates import NOW
from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh import certificate
from kubevouch.pki.ssh.wire import string
from ssh_hosts import SECONDS, certify, make_key

CA, HOST = make_key(), make_key()
GOOD = certify(HOST, CA)
LINES = [GOOD, *(case.text("certificate") for case in evidence_cases.everything() if case.kind == "sshpop")]


def step(line: str, *, host: str = "node-1.example") -> str:
    try:
        certificate.verify_host(certificate.parse(line), [make_key().public, CA.public], host=host, now=NOW)
    except SSHError as err:
        return err.step
    return ""


@pytest.mark.parametrize("line", LINES, ids=map(str, range(len(LINES))))
def test_both_readers_see_the_same(line: str) -> None:
    ours, theirs = certificate.parse(line), load_ssh_public_identity(line.encode())
    assert isinstance(theirs, SSHCertificate)
    theirs.verify_cert_signature()
    ours.authority.verify(ours.signature, ours.signed)
    assert (ours.serial, ours.kind, ours.key_id) == (theirs.serial, theirs.type.value, theirs.key_id.decode())
    assert [each.encode() for each in ours.principals] == theirs.valid_principals
    assert (ours.valid_after, ours.valid_before) == (theirs.valid_after, theirs.valid_before)
    assert [each.encode() for each in ours.critical_options] == list(theirs.critical_options)


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("", GOOD),
        ("", GOOD + " root@node-1"),
        ("", certify(HOST, CA, principals=("other.example", "node-1.example"))),
        ("", certify(HOST, CA, after=SECONDS, before=SECONDS + 1)),
        ("", certify(HOST, CA, after=0, before=(1 << 64) - 1)),
        ("certificate-type", certify(HOST, CA, kind=SSHCertificateType.USER)),
        ("certificate-type", HOST.line),
        ("ca", certify(HOST, make_key())),
        ("ca", certify(HOST, HOST)),
        ("validity", certify(HOST, CA, after=SECONDS - 60, before=SECONDS)),
        ("validity", certify(HOST, CA, after=SECONDS + 1)),
        ("validity", certify(HOST, CA, after=0, before=0)),
        ("principal", certify(HOST, CA, principals=())),
        ("principal", certify(HOST, CA, principals=("*.example",))),
        ("principal", certify(HOST, CA, principals=("NODE-1.example",))),
        ("principal", certify(HOST, CA, principals=("node-1.example.other",))),
        ("critical-options", certify(HOST, CA, options=("force-command",))),
        ("structure", ""),
        ("structure", "ssh-ed25519-cert-v01@openssh.com"),
        ("structure", GOOD.replace(" ", " !", 1)),
        ("structure", GOOD + "\n" + GOOD),
        ("structure", GOOD.replace("ed25519", "rsa", 1)),
        ("size", GOOD + " " + "x" * (16 << 10)),
    ],
    # Certificates are others each time, and a test has one name in all processes of a run.
    ids=lambda value: value if len(value) < 20 and " " not in value else "line",
)
def test_what_is_wrong_has_a_name(expected: str, line: str) -> None:
    assert step(line) == expected


def test_a_ca_of_each_kind() -> None:
    for key in (ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP521R1())):
        read = certificate.parse(certify(HOST, key))
        certificate.verify_host(read, [read.authority], host="node-1.example", now=NOW)


def test_a_ca_with_a_short_key() -> None:
    with pytest.raises(SSHError) as caught:
        certificate.parse(certify(HOST, rsa.generate_private_key(65537, 1024)))
    assert caught.value.step == "key-size"


def body(line: str) -> bytes:
    return base64.b64decode(line.split()[1])


def line_of(octets: bytes) -> str:
    return f"ssh-ed25519-cert-v01@openssh.com {base64.b64encode(octets).decode()}"


def test_no_octet_can_be_changed() -> None:
    octets = body(GOOD)
    for place in range(len(octets)):
        changed = bytearray(octets)
        changed[place] ^= 0x01
        assert step(line_of(bytes(changed))) != "", place


def test_no_octet_can_be_left_out_or_added() -> None:
    octets = body(GOOD)
    for cut in range(0, len(octets), 7):
        assert step(line_of(octets[:cut])) in ("structure", "certificate-type"), cut
    assert step(line_of(octets + b"\0")) == "structure"
    for length in (0xFFFFFFFF, 0x7FFFFFFF, 1 << 20):
        assert step(line_of(length.to_bytes(4) + octets[4:])) == "structure"


def test_a_ca_that_signs_by_sha_1() -> None:
    """OpenSSH has not taken such certificates since 8.2."""
    read = certificate.parse(evidence_cases.named("ev-sshpop-005").text("certificate"))
    forged = string(b"ssh-rsa") + read.signature[-388:]
    with pytest.raises(SSHError) as caught:
        read.authority.verify(forged, read.signed)
    assert caught.value.step == "signature-form"


def test_options_are_there_once_and_in_order() -> None:
    twice = string(b"a") + string(b"") + string(b"a") + string(b"")
    for octets in (twice, string(b"b") + string(b"") + string(b"a") + string(b"")):
        assert string(b"") * 2 in body(GOOD)
        with pytest.raises(SSHError, match="twice or out of order"):
            # Behind the validity: options, extensions, reserved.
            certificate.parse(line_of(body(GOOD).replace(string(b"") * 3, string(octets) + string(b"") * 2, 1)))


def test_more_principals_than_openssh_takes() -> None:
    with pytest.raises(SSHError, match="more than 256 principals"):
        certificate.parse(line_of(body(GOOD).replace(string(string(b"node-1.example")), string(string(b"n") * 257))))
