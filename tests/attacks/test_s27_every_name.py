"""S27: each name is judged by itself, and what was issued is compared with what was allowed (Boulder, 2020 and 2022).

One bad name among good ones, wherever it stands, is refused. The comparison behind the signature, which stops the
signer, is in tests/unit/pki/test_issuance.py.
"""

from __future__ import annotations

import datetime as dt
from ipaddress import ip_address

import msgspec
import pytest

from kubevouch.pki import issuance, keys, x509_request
from kubevouch.pki.authority import create_authority
from kubevouch.pki.control_plane import AUTHORITIES, CA
from kubevouch.pki.errors import ParseError, PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.profile import Profile
from kubevouch.pki.request_builder import build_request
from kubevouch.pki.subject import Subject
from kubevouch.pki.subject_alt_names import SubjectAltNames

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
AUTHORITY = create_authority(AUTHORITIES[CA], KEY, now=NOW)
NODE = Subject(common_name="system:node:worker-1", organizations=("system:nodes",))
SERVING, USAGES = "kubernetes.io/kubelet-serving", ["digital signature", "server auth"]
GOOD = tuple(f"name-{number}.example.com" for number in range(6))
# What no kubelet is reached by; each as it can stand in a request.
BAD = ("", ".", "a..b", "a b", "a\nb", "a\0b", "-a", "a_b", "a.", "x" * 64, "*", "*.*.a", "a/../b", "a%2eb")


def issued(names: SubjectAltNames) -> SubjectAltNames:
    request = x509_request.parse_pem(build_request(KEY, NODE, names))
    certificate = issuance.issue(
        AUTHORITY, request, signer_name=SERVING, usages=USAGES, expiration_seconds=None, now=NOW,
        rules=SigningRules(profile=Profile.STRICT),
    )  # fmt: skip
    return certificate.meaning.alt_names


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("at", range(len(GOOD) + 1))
def test_one_bad_name_among_good_ones(bad: str, at: int) -> None:
    names = SubjectAltNames(dns_names=(*GOOD[:at], bad, *GOOD[at:]), ip_addresses=(ip_address("192.0.2.1"),))
    with pytest.raises((PolicyError, ParseError)):
        issued(names)


@pytest.mark.parametrize("kind", ["email_addresses", "uris"])
def test_one_name_of_another_kind_beside_good_ones(kind: str) -> None:
    bad = {"email_addresses": "a@example.com", "uris": "https://example.com/"}[kind]
    names = msgspec.structs.replace(SubjectAltNames(dns_names=GOOD), **{kind: (bad,)})
    with pytest.raises(PolicyError):
        issued(names)


def test_good_names_are_all_issued_and_no_other() -> None:
    names = SubjectAltNames(dns_names=GOOD, ip_addresses=(ip_address("192.0.2.1"), ip_address("2001:db8::1")))
    assert issued(names) == names
