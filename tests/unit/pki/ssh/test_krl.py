"""Key revocation lists, as ssh-keygen writes and judges them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh import certificate, krl
from kubevouch.pki.ssh.wire import string
from ssh_hosts import certify, make_key

_VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "ssh_revocation.json").read_text())
LISTS = {name: (base64.b64decode(each["krl_b64"]), each["revoked"]) for name, each in _VECTORS["lists"].items()}
HOST = certificate.parse(_VECTORS["certificate"])
HEADER = LISTS["nothing"][0]


@pytest.mark.parametrize("name", LISTS)
def test_what_ssh_keygen_calls_revoked_is_revoked(name: str) -> None:
    octets, revoked = LISTS[name]
    found = krl.parse(octets)
    if not revoked:
        found.verify(HOST)
        return
    with pytest.raises(SSHError) as caught:
        found.verify(HOST)
    assert caught.value.step == "revoked"


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_breaks_off_is_no_list(name: str) -> None:
    octets = LISTS[name][0]
    for cut in range(len(octets)):
        # Where a section ends, a shorter list ends as well: nothing but the header is one here.
        if cut == len(HEADER):
            continue
        with pytest.raises(SSHError) as caught:
            krl.parse(octets[:cut])
        assert caught.value.step == "structure"


def test_what_is_not_understood_is_refused() -> None:
    unknown = (
        HEADER + b"\xff" + string(string(b"x") + b"\0" + string(b"")),
        HEADER + b"\x09" + string(b""),
        HEADER + b"\x01" + string(string(b"") + string(b"") + b"\x39" + string(b"")),
        HEADER + b"\x03" + string(string(b"short")),
        HEADER + b"\x01" + string(string(b"") + string(b"") + b"\x20" + string(b"\0" * 7)),
        HEADER.replace(b"\0\0\0\x01", b"\0\0\0\x02", 1),
        b"ssh-ed25519 AAAA",
        b"",
    )
    for octets in unknown:
        with pytest.raises(SSHError) as caught:
            krl.parse(octets)
        assert caught.value.step == "structure"
    with pytest.raises(SSHError, match="expected at most"):
        krl.parse(HEADER + bytes(krl.MAX_BYTES))


def test_the_signatures_of_older_versions_are_passed_over() -> None:
    octets, _ = LISTS["its serial"]
    with pytest.raises(SSHError, match="is revoked"):
        krl.parse(octets + b"\x04" + string(b"key") + string(b"signature")).verify(HOST)


def test_a_certificate_without_a_number_is_revoked_by_none() -> None:
    """A CA that numbers nothing would lose all its hosts with one of them."""
    host, ca = make_key(), make_key()
    numbers = string(b"") + string(b"") + b"\x21" + string(bytes(8) + b"\xff" * 8)
    everything = krl.parse(HEADER + b"\x01" + string(numbers))
    everything.verify(certificate.parse(certify(host, ca, serial=0)))
    with pytest.raises(SSHError):
        everything.verify(certificate.parse(certify(host, ca, serial=1)))
