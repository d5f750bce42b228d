"""Authorities and what they sign; texts for files that do not load are in tests/contract/test_pki_signer.py."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from kubevouch.pki import authority, keys
from kubevouch.pki.authority import BACKDATE, CertificateAuthority, LeafSpec
from kubevouch.pki.errors import AuthorityError
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate

SPEC = LeafSpec(common_name="kube-apiserver", purposes=("server auth",))
SECOND = dt.timedelta(seconds=1)


def load(certificate: bytes, key: bytes) -> CertificateAuthority:
    return CertificateAuthority.load(certificate, key, certificate_file="ca.crt", key_file="ca.key")


def test_a_pair_is_loaded_and_nothing_else(
    ca: CertificateAuthority, ec_key: PrivateKey, rsa_key: PrivateKey, make_certificate: Callable[..., Certificate]
) -> None:
    text, key = ca.certificate.pem(), keys.to_pem(ca.key)
    assert load(text, key).certificate == ca.certificate
    for certificate, other, error in (
        (text, keys.to_pem(ec_key), "tls: private key does not match public key"),
        (text, keys.to_pem(rsa_key), "tls: private key type does not match public key type"),
        (text, b"", 'missing content for serving cert "csr-controller::ca.crt::ca.key"'),
        (key, text, "PEM inputs may have been switched"),
        (text + make_certificate().pem(), key, "expected 1 certificate, found 2"),
    ):
        with pytest.raises(AuthorityError) as caught:
            load(certificate, other)
        assert str(caught.value).startswith("error reading CA cert file ") and str(caught.value).endswith(error)


def test_of_a_bundle_the_one_with_the_key_signs(
    ca: CertificateAuthority, make_certificate: Callable[..., Certificate], other_key: PrivateKey
) -> None:
    bundle = make_certificate().pem() + ca.certificate.pem()
    assert authority.own_certificate(bundle, keys.to_pem(ca.key)) == ca.certificate.pem()
    for key in (keys.to_pem(other_key), b"no key"):
        assert authority.own_certificate(bundle, key) == bundle


def test_a_new_one_is_a_ca_that_signs_for_itself(ca: CertificateAuthority, now: dt.datetime) -> None:
    made = ca.certificate
    assert made.meaning.is_ca and made.subject_name == made.issuer_name
    assert (made.not_before, made.not_after) == (now - BACKDATE, now + authority.AUTHORITY_VALIDITY)
    assert made.meaning.alt_names == SubjectAltNames(dns_names=("kubernetes",))


def test_a_leaf_does_not_outlive_its_authority(ca: CertificateAuthority, ec_key: PrivateKey) -> None:
    end = ca.certificate.not_after
    soon = authority.issue_leaf(ca, SPEC, ec_key, now=end - SECOND)
    assert (soon.not_before, soon.not_after) == (end - SECOND - BACKDATE, end)
    early = authority.issue_leaf(ca, SPEC, ec_key, now=ca.certificate.not_before)
    assert early.not_after == ca.certificate.not_before + authority.LEAF_VALIDITY
    assert not early.meaning.is_ca
    with pytest.raises(AuthorityError, match="the authority has ended at"):
        authority.issue_leaf(ca, SPEC, ec_key, now=end)
    named = LeafSpec(
        common_name="kube-apiserver", purposes=("server auth",), alt_names=SubjectAltNames(dns_names=("ä",))
    )
    with pytest.raises(AuthorityError, match='a name of "kube-apiserver" cannot be written'):
        authority.issue_leaf(ca, named, ec_key, now=ca.certificate.not_before)


def test_a_cross_certificate_lasts_as_long_as_both(
    ca: CertificateAuthority, other_key: PrivateKey, now: dt.datetime
) -> None:
    other = authority.create_authority("next", other_key, now=now, validity=dt.timedelta(days=1)).certificate
    crossed = authority.cross_sign(ca, other, now=now)
    assert crossed.meaning.is_ca
    assert (crossed.subject_name, crossed.issuer_name) == (other.subject_name, ca.certificate.subject_name)
    assert crossed.public_key.canonical_info == other.public_key.canonical_info
    assert (crossed.not_before, crossed.not_after) == (now - BACKDATE, other.not_after)
    assert crossed.meaning.subject_key_id == other.meaning.subject_key_id
    end = ca.certificate.not_after
    longer = authority.create_authority("next", other_key, now=end - SECOND).certificate
    assert authority.cross_sign(ca, longer, now=end - SECOND).not_after == end
    with pytest.raises(AuthorityError, match="the authority has ended at"):
        authority.cross_sign(ca, other, now=end)


def test_a_cross_certificate_lets_nobody_go_farther_than_its_own(now: dt.datetime) -> None:
    first = authority.create_authority("first", ec.derive_private_key(0xF1, ec.SECP256R1()), now=now)
    second = authority.create_authority("second", ec.derive_private_key(0xF2, ec.SECP256R1()), now=now)
    within = Extension("2.5.29.30", True, bytes.fromhex("300ea00c300a8208") + b".example")
    bound = msgspec.structs.replace(
        second.certificate,
        meaning=msgspec.structs.replace(second.certificate.meaning, max_path_length=0, key_usage=frozenset({5, 6})),
        extensions=(*second.certificate.extensions, within),
    )
    cross = authority.cross_sign(first, bound, now=now)
    assert cross.meaning.max_path_length == 0 and cross.meaning.key_usage == {5, 6}
    assert cross.meaning.name_constraints is not None
    assert cross.meaning.name_constraints.permitted.dns_names == (".example",)
    assert authority.cross_sign(first, second.certificate, now=now).meaning.max_path_length is None
