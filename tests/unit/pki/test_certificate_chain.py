from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from kubevouch.pki import authority, keys
from kubevouch.pki.authority import CertificateAuthority, LeafSpec
from kubevouch.pki.certificate_chain import MAX_CHAIN, chain_behind, verify_certificate_chain
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.x509_certificate import Certificate


def test_one_block_or_many_with_text_between(make_certificate: Callable[..., Certificate]) -> None:
    one, two = make_certificate(serial=1), make_certificate(serial=2)
    joined = pem.encode(pem.CERTIFICATE, one.contents + two.contents)
    text = b"before\n" + one.pem() + b"between\n" + joined + b"behind"
    assert verify_certificate_chain(text) == [one, one, two]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "must contain at least one CERTIFICATE PEM block"),
        (pem.encode('a"\xff', b""), 'only CERTIFICATE PEM blocks are allowed, found "a\\"ÿ"'),
        (b"-----BEGIN \xff-----\n-----END \xff-----\n", 'only CERTIFICATE PEM blocks are allowed, found "\\xff"'),
        (pem.encode(pem.CERTIFICATE, b"", {"a": "b"}), "no PEM block headers are permitted"),
        (pem.encode(pem.CERTIFICATE, b"x"), "x509: malformed certificate"),
        (pem.encode(pem.CERTIFICATE, b""), "found CERTIFICATE PEM block containing 0 certificates"),
    ],
)
def test_refusals(text: bytes, message: str) -> None:
    with pytest.raises(ParseError) as refusal:
        verify_certificate_chain(text)
    assert str(refusal.value) == message


NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def root(name: str) -> CertificateAuthority:
    return authority.create_authority(name, keys.generate(keys.KeyAlgorithm.ECDSA_P256), now=NOW)


def below(name: str, *parents: CertificateAuthority) -> tuple[CertificateAuthority, list[Certificate]]:
    """An intermediate that each of ``parents`` has signed."""
    own = root(name)
    signed = [authority.cross_sign(each, own.certificate, now=NOW) for each in parents]
    return CertificateAuthority(signed[0], own.key), signed


def leaf_of(issuer: CertificateAuthority) -> Certificate:
    spec = LeafSpec(common_name="leaf", purposes=("server auth",))
    return authority.issue_leaf(issuer, spec, keys.generate(keys.KeyAlgorithm.ECDSA_P256), now=NOW)


def test_each_certificate_follows_one_that_it_certifies_and_anchors_are_left_out() -> None:
    top = root("root")
    upper, (upper_certificate,) = below("upper", top)
    lower, (lower_certificate,) = below("lower", upper)
    leaf = leaf_of(lower)
    pool = [
        top.certificate,
        upper_certificate,
        leaf,
        lower_certificate,
        root("stranger").certificate,
        upper_certificate,
    ]
    assert chain_behind(leaf, pool) == (lower_certificate, upper_certificate)
    assert chain_behind(leaf, reversed(pool)) == (lower_certificate, upper_certificate)


def test_a_cross_signed_authority_leads_to_each_of_those_who_signed_it() -> None:
    former, later = root("former"), root("later")
    issuing, signed = below("issuing", former, later)
    assert chain_behind(leaf_of(issuing), [*signed, former.certificate]) == tuple(signed)
    # A root that the former one has signed as well: whoever trusts either verifies the leaf.
    cross = authority.cross_sign(former, later.certificate, now=NOW)
    assert chain_behind(leaf_of(later), [later.certificate, cross, former.certificate]) == (cross,)


def test_what_is_nearer_to_the_leaf_comes_first_on_every_way() -> None:
    top, other = root("top"), root("other")
    upper, (upper_certificate,) = below("upper", top)
    left, (left_certificate,) = below("left", upper)
    right, (right_certificate,) = below("right", other)
    issuing, (by_left, by_right) = below("issuing", left, right)
    pool = [upper_certificate, right_certificate, left_certificate, by_left, by_right]
    assert chain_behind(leaf_of(issuing), pool) == (
        by_left, by_right, left_certificate, right_certificate, upper_certificate
    )  # fmt: skip


def test_a_next_root_of_the_same_name_is_no_anchor_when_the_former_one_has_signed_it() -> None:
    former, later = root("root"), root("root")
    cross = authority.cross_sign(former, later.certificate, now=NOW)
    assert chain_behind(leaf_of(later), [later.certificate, cross, former.certificate]) == (cross,)


def test_an_authority_of_the_same_name_and_another_key_is_not_in_the_way() -> None:
    top = root("root")
    issuing, (certificate,) = below("issuing", top)
    _, (other,) = below("issuing", top)
    assert chain_behind(leaf_of(issuing), [other, certificate]) == (certificate,)


def test_a_chain_has_an_end() -> None:
    issuer, pool = root("0"), []
    for number in range(1, MAX_CHAIN + 3):
        issuer, (certificate,) = below(str(number), issuer)
        pool.append(certificate)
    assert chain_behind(leaf_of(issuer), pool) == tuple(pool[::-1][:MAX_CHAIN])
