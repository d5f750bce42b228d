"""pki/lint.py: each rule, broken once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.lint import lint
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate

GOOD: dict[str, Any] = {"usages": ("digital signature", "server auth"), "with_subject_key_id": True}
CA: dict[str, Any] = {"usages": ("cert sign",), "with_subject_key_id": True, "is_ca": True, "max_path_length": 0}


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("fields", [GOOD, CA])
def test_nothing_is_found_in_good_ones(
    ca: CertificateAuthority, make_certificate: Callable[..., Certificate], fields: dict[str, Any], profile: Profile
) -> None:
    assert lint(make_certificate(**fields), ca.certificate, profile) == ()


BOTH: list[tuple[dict[str, Any], str]] = [
    (GOOD | {"serial": 1 << 160}, "serial number of 161 bits"),
    (GOOD | {"not_before": dt.datetime(2031, 3, 2, tzinfo=dt.UTC)}, "before it begins"),
    (GOOD | {"not_after": dt.datetime(2099, 1, 1, tzinfo=dt.UTC)}, "after who signs it"),
    (GOOD | {"extra": (Extension("1.2.3", True, b"\x05\x00"),)}, "1.2.3 is critical"),
    (GOOD | {"is_ca": None}, "does not say whether it is a CA"),
    (CA | {"usages": ("digital signature",)}, "a CA that may not sign certificates"),
    (CA | {"with_subject_key_id": False}, "a CA without a subjectKeyIdentifier"),
]
STRICT: list[tuple[dict[str, Any], str]] = [
    (GOOD | {"serial": 0}, "serial number of 0 bits"),
    (GOOD | {"serial": 1 << 127}, "serial number of 128 bits"),
    (GOOD | {"usages": ("cert sign",)}, "may sign certificates and is no CA"),
    (GOOD | {"with_subject_key_id": False}, "no subjectKeyIdentifier"),
    (GOOD | {"subject": Subject()}, "no critical subjectAltName"),
]


@pytest.mark.parametrize(("fields", "why"), [*BOTH, *STRICT], ids=[why for _, why in (*BOTH, *STRICT)])
def test_each_rule(
    ca: CertificateAuthority, make_certificate: Callable[..., Certificate], fields: dict[str, Any], why: str
) -> None:
    assert why in "; ".join(lint(make_certificate(**fields), ca.certificate, Profile.STRICT))
    only_strict = (fields, why) in STRICT
    assert bool(lint(make_certificate(**fields), ca.certificate, Profile.COMPATIBLE)) is not only_strict


def test_what_does_not_fit_its_issuer(ca: CertificateAuthority, make_certificate: Callable[..., Certificate]) -> None:
    def under(certificate: Certificate, issuer: Certificate = ca.certificate, **meaning: Any) -> str:
        changed = msgspec.structs.replace(issuer.meaning, **meaning)
        return "; ".join(lint(certificate, msgspec.structs.replace(issuer, meaning=changed), Profile.STRICT))

    leaf = make_certificate(**GOOD)
    assert "authorityKeyIdentifier is not" in under(leaf, subject_key_id=b"other")
    assert "issuer is not the name" in under(leaf, msgspec.structs.replace(ca.certificate, subject_name=b"\x30\x00"))
    stranger = msgspec.structs.replace(leaf, meaning=msgspec.structs.replace(leaf.meaning, authority_key_id=b""))
    assert "no authorityKeyIdentifier" in under(stranger)
    nameless = msgspec.structs.replace(ca.certificate, subject_name=b"\x30\x00")
    assert "who signs has no name" in under(msgspec.structs.replace(leaf, issuer_name=b"\x30\x00"), nameless)
    below = make_certificate(**CA | {"max_path_length": 1})
    assert "path length is 1, that of who signs it is 1" in under(below, max_path_length=1)
    assert under(below, max_path_length=2) == ""
    assert "is not limited" in under(make_certificate(**CA | {"max_path_length": None}), max_path_length=2)


def test_what_no_builder_of_ours_makes(ca: CertificateAuthority, make_certificate: Callable[..., Certificate]) -> None:
    def found(**changes: Any) -> str:
        return "; ".join(lint(msgspec.structs.replace(leaf, **changes), ca.certificate, Profile.STRICT))

    leaf = make_certificate(**GOOD, alt_names=SubjectAltNames(dns_names=("a",)))
    assert "version 1" in found(version=1)
    assert "more than once" in found(extensions=(*leaf.extensions, leaf.extensions[0]))
    meaning = leaf.meaning
    assert "path length and is no CA" in found(meaning=msgspec.structs.replace(meaning, max_path_length=0))
    empty = msgspec.structs.replace(meaning, alt_names=SubjectAltNames())
    assert "subjectAltName is empty" in found(meaning=empty)
