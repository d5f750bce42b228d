"""OpenSSH's signatures over files."""

from __future__ import annotations

import pytest

import evidence_cases
from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh import sshsig
from kubevouch.pki.ssh.wire import base64_octets

ARMOUR = evidence_cases.named("ev-sshpop-004").text("signature")


def armoured(octets: bytes) -> str:
    import base64

    return f"-----BEGIN SSH SIGNATURE-----\n{base64.b64encode(octets).decode()}\n-----END SSH SIGNATURE-----\n"


def test_it_is_written_as_ssh_keygen_writes_it() -> None:
    assert sshsig.armour(sshsig.parse(ARMOUR)) == ARMOUR


@pytest.mark.parametrize(
    "armour",
    [
        "", "x", "-----BEGIN SSH SIGNATURE-----", ARMOUR.replace("SSH", "PGP"), ARMOUR.replace("END", "BEGIN"),
        ARMOUR.replace("U1NI", "U1NJ", 1), ARMOUR.replace("AAAAAQ", "AAAAAg", 1), ARMOUR.replace("\n", "\n!", 2),
        "text before\n" + ARMOUR,
    ],
)  # fmt: skip
def test_what_is_no_signature(armour: str) -> None:
    with pytest.raises(SSHError) as caught:
        sshsig.parse(armour)
    assert caught.value.step == "structure"


def test_it_is_there_whole_and_alone() -> None:
    octets = base64_octets("".join(ARMOUR.splitlines()[1:-1]))
    assert sshsig.parse(armoured(octets)) == sshsig.parse(ARMOUR)
    for wrong in (*(octets[:cut] for cut in range(len(octets))), octets + b"\0"):
        with pytest.raises(SSHError) as caught:
            sshsig.parse(armoured(wrong))
        assert caught.value.step == "structure"
    with pytest.raises(SSHError, match="expected at most"):
        sshsig.parse(armoured(octets + bytes(20 << 10)))


def test_a_signature_is_for_one_purpose_and_by_a_good_hash() -> None:
    signature = sshsig.Signature(public_key=b"", namespace="file", reserved=b"r", hash_name="sha512", signature=b"")
    assert b"SSHSIG" + b"\0\0\0\x04file" + b"\0\0\0\x01r" in sshsig.signed_octets(signature, b"m", "file")
    with pytest.raises(SSHError) as caught:
        sshsig.signed_octets(signature, b"m", "git")
    assert caught.value.step == "namespace"
    for name in ("sha1", "md5", "SHA512", ""):
        weak = sshsig.Signature(public_key=b"", namespace="file", reserved=b"", hash_name=name, signature=b"")
        with pytest.raises(SSHError) as caught:
            sshsig.signed_octets(weak, b"m", "file")
        assert caught.value.step == "signature-form"
