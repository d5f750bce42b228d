"""What a request may ask of a signer, and what becomes of it: no more than was permitted, and never a standstill."""

from __future__ import annotations

import ipaddress

import pytest

import identity_world as world
import odd_certificates
from asynctest import async_test
from kubevouch.pki.x509 import der, pem
from kubevouch.pki.x509.certificate_extensions import BASIC_CONSTRAINTS, NAME_CONSTRAINTS
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import OID, SubjectAltNames
from signer_world import Signers, new_ca, secret, signer, signers

KEY = world.new_key()
GOOD = Subject(common_name="a.example.com")
TRUE = b"\x01\x01\xff"


def constraints(*inside: bytes) -> bytes:
    return odd_certificates.extension(BASIC_CONSTRAINTS, der.encode(der.SEQUENCE, *inside), critical=True)


def names(**fields: tuple[object, ...]) -> bytes:
    return odd_certificates.extension(OID, SubjectAltNames(**fields).encode())  # type: ignore[arg-type]  # as each says


# What is asked for, and the word in the refusal.
ASKED: dict[str, tuple[tuple[bytes, ...], str]] = {
    "a CA": ((constraints(TRUE),), "CA certificate is asked for"),
    "a CA without end": ((constraints(TRUE, der.encode_integer(1 << 62)),), "CA certificate is asked for"),
    "a path length that no number holds": ((constraints(TRUE, der.encode_integer(1 << 9999)),), "do not parse"),
    "a path length below nothing": ((constraints(TRUE, b"\x02\x01\xff"),), "do not parse"),
    "an extension that nobody knows, critical": (
        (odd_certificates.extension("1.2.3.4", b"\x05\x00", critical=True),), "extension 1.2.3.4 is not permitted"
    ),
    "name constraints": (
        (odd_certificates.extension(NAME_CONSTRAINTS, bytes.fromhex("3000"), critical=True),), "2.5.29.30"
    ),
    "a thousand names": ((names(dns_names=tuple(f"a{n}.example.com" for n in range(1000))),), "1000 subjectAltNames"),
    "a name next to the domain": ((names(dns_names=("evilexample.com",)),), "is not permitted"),
    "a name with the domain in front": ((names(dns_names=("a.example.com.evil",)),), "is not permitted"),
    "a wildcard": ((names(dns_names=("*.example.com",)),), "is not permitted"),
    "a link-local address": ((names(ip_addresses=(ipaddress.ip_address("169.254.169.254"),)),), "is not permitted"),
    "a name with an end of text in it": ((names(dns_names=("a.example.com\0.evil",)),), "is not permitted"),
    "a look-alike": ((names(dns_names=("xn--80ak6aa92e.com",)),), "is not permitted"),
}  # fmt: skip


async def refused(at: Signers, *extensions: bytes, subject: Subject = GOOD) -> str:
    request = pem.encode(pem.CERTIFICATE_REQUEST, odd_certificates.request(KEY, *extensions, name=subject.encode()))
    name = await at.post(request)
    assert await at.chain(name) == []
    return await at.failure(name)


@pytest.mark.parametrize("what", ASKED)
def test_more_than_is_permitted_fails_and_the_next_one_is_served(what: str) -> None:
    @async_test
    async def attempt() -> None:
        extensions, told = ASKED[what]
        async with signers(signer(), secret(new_ca("web CA"))) as at:
            assert told in await refused(at, *extensions)
            assert await at.issued() and (await at.ready()).status == "True"

    attempt()


@async_test
async def test_nobody_becomes_a_part_of_the_cluster_by_a_signer_of_one_s_own() -> None:
    foolish = signer(
        subject={"anything": True, "commonNames": ["**", "system:node:*"], "organizations": ["**", "system:masters"]}
    )
    async with signers(foolish, secret(new_ca("web CA"))) as at:
        for subject, told in [
            (Subject(common_name="a", organizations=("system:masters",)), "system:masters"),
            (Subject(common_name="system:node:a"), "identities of nodes"),
            (Subject(common_name="a", organizations=("system:nodes",)), "is not permitted"),
            (Subject(common_name="system:kube-controller-manager"), "is not permitted"),
        ]:
            assert told in await refused(at, subject=subject)
        assert await at.issued(Subject(common_name="anything else"))
