"""Every row of kube-apiserver's rules for a signer's answer, in its order."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from cryptography import x509

from kubevouch.api.pod_certificate_requests_v1beta1 import (
    PodCertificateRequestStatus,
    validate_pod_certificate_request_status_update,
)
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.text.times import Time
from pod_requests import HOUR, MINUTE, NOW, certificate, key_of, pem, proof, public_key, request, status

CHAIN = "status.certificateChain: Invalid value: "
SECOND = dt.timedelta(seconds=1)
LEAF = certificate(key_of("P-256"))
TIMES = (
    "status.notBefore: Required value: must be present and consistent with the issued certificate",
    "status.notAfter: Required value: must be present and consistent with the issued certificate",
    "status.beginRefreshAt: Required value: must be present and in the range [notbefore+10min, notafter-10min]",
)


def faults(answer: PodCertificateRequestStatus, longest: int = 86400, **spec: Any) -> list[str]:
    asked = request(max_expiration_seconds=longest, **spec)
    given = msgspec.structs.replace(asked, status=answer)
    return [str(each) for each in validate_pod_certificate_request_status_update(given, asked, NOW)]


def of_chain(chain: str, why: str) -> str:
    return f"{CHAIN}{quote(chain)}: {why}"


@pytest.mark.parametrize(
    "answer",
    [
        status(),
        status(not_before=NOW - 4 * MINUTE - 50 * SECOND),
        status(not_before=NOW + 4 * MINUTE + 50 * SECOND),
        status(lifetime=HOUR),
        status(begin_refresh_at=Time.of(NOW + 10 * MINUTE)),
        status(begin_refresh_at=Time.of(NOW + 24 * HOUR - 10 * MINUTE)),
        # An unrelated certificate, and the leaf once more.
        status(certificate_chain=pem(LEAF) + pem(certificate(key_of("Ed25519")))),
        status(certificate_chain=pem(LEAF) * 2),
        status(certificate_chain=f"prose\n{pem(LEAF)}prose\n"),
        status(certificate_chain=pem(LEAF).replace("-----\n", "-----\nNote: x\n\n", 1)),
        status(certificate_chain=pem(LEAF) + "-----BEGIN CERTIFICATE-----\ncut"),
        status(names=[x509.DNSName("a.example"), x509.RFC822Name("a@example.com")]),
    ],
)
def test_a_good_answer(answer: PodCertificateRequestStatus) -> None:
    assert faults(answer) == []


@pytest.mark.parametrize(
    ("chain", "why"),
    [
        ("", "issued certificate chain must contain at least one certificate"),
        ("x", "issued certificate chain must contain at least one certificate"),
        (pem(LEAF, "X509 CRL"), "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"),
        (pem(b"x"), "leaf certificate does not parse as valid X.509"),
        (pem(LEAF + LEAF), "leaf certificate does not parse as valid X.509"),
        (pem(certificate(key_of("P-384"))), "leaf certificate was not issued to the requested public key"),
        (
            pem(LEAF) + pem(LEAF, "PRIVATE KEY"),
            "issued certificate chain must consist entirely of CERTFICATE PEM blocks",
        ),
        (pem(LEAF) + pem(b"x"), "intermediate certificate does not parse as valid X.509"),
    ],
)
def test_a_chain_that_is_none(chain: str, why: str) -> None:
    assert faults(status(certificate_chain=chain)) == [of_chain(chain, why)]


def test_a_chain_may_have_a_hundred_kibibytes() -> None:
    chain = pem(LEAF)
    room = 102400 - len(chain)
    assert faults(status(certificate_chain="x" * (room - 1) + "\n" + chain)) == []
    assert faults(status(certificate_chain="x" * room + "\n" + chain)) == [
        "status.certificateChain: Too long: may not be more than 102400 bytes"
    ]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (x509.DNSName(""), ['"": leaf certificate should not contain empty DNSName']),
        (x509.DNSName("a..b"), ["\"a..b\": leaf certificate's DNSName should not contain '..'"]),
        (x509.DNSName(".a"), ["\".a\": leaf certificate's DNSName should not start or end with '.'"]),
        (x509.DNSName("a."), ["\"a.\": leaf certificate's DNSName should not start or end with '.'"]),
        (
            x509.DNSName(".."),
            [
                "\"..\": leaf certificate's DNSName should not contain '..'",
                "\"..\": leaf certificate's DNSName should not start or end with '.'",
            ],
        ),
        (x509.RFC822Name("nobody"), ['"nobody": leaf certificate should not contain invalid EmailAddress']),
    ],
)
def test_names_that_nobody_can_have(name: x509.GeneralName, texts: list[str]) -> None:
    assert faults(status(names=[name])) == [f"{CHAIN}{text}" for text in texts]
    # They are told with what comes next, and stop what comes after that.
    wrong = status(key_of("Ed25519"), names=[name])
    assert faults(wrong)[:-1] == [f"{CHAIN}{text}" for text in texts]
    assert faults(wrong)[-1].endswith("leaf certificate was not issued to the requested public key")
    assert len(faults(msgspec.structs.replace(status(names=[name]), not_before=None, not_after=None))) == len(texts) + 2
    assert len(faults(status(names=[name], lifetime=MINUTE))) == len(texts)


def without(*names: str) -> PodCertificateRequestStatus:
    changes: dict[str, Any] = dict.fromkeys(names)
    return msgspec.structs.replace(status(), **changes)


def test_all_missing_times_are_told_at_once() -> None:
    assert faults(without("not_before", "not_after", "begin_refresh_at")) == list(TIMES)
    assert faults(without("not_after")) == [TIMES[1]]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            msgspec.structs.replace(status(), not_before=Time.of(NOW + SECOND)),
            ('status.notBefore: Invalid value: "2026-01-01T12:00:01Z": must be set to the NotBefore time encoded in '
            "the leaf certificate"),
        ),
        (
            status(not_before=NOW - 5 * MINUTE),
            ('status.notBefore: Invalid value: "2026-01-01T11:55:00Z": must be set to within 5 minutes of '
            "kube-apiserver's current time"),
        ),
        (
            status(not_before=NOW + 6 * MINUTE),
            ('status.notBefore: Invalid value: "2026-01-01T12:06:00Z": must be set to within 5 minutes of '
            "kube-apiserver's current time"),
        ),
        (
            msgspec.structs.replace(status(), not_after=Time.of(NOW)),
            ('status.notAfter: Invalid value: "2026-01-01T12:00:00Z": must be set to the NotAfter time encoded in the '
            "leaf certificate"),
        ),
        (status(lifetime=HOUR - SECOND), f"{CHAIN}3599000000000: leaf certificate lifetime must be >= 1 hour"),
        (
            # Beginning earlier eats into what is allowed.
            status(not_before=NOW - MINUTE, lifetime=24 * HOUR + SECOND),
            f"{CHAIN}86401000000000: leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)",
        ),
        (
            status(begin_refresh_at=Time.of(NOW + 10 * MINUTE - SECOND)),
            ('status.beginRefreshAt: Invalid value: "2026-01-01T12:09:59Z": must be at least 10 minutes after '
            "status.notBefore"),
        ),
        (
            status(begin_refresh_at=Time.of(NOW + 24 * HOUR - 10 * MINUTE + SECOND)),
            ('status.beginRefreshAt: Invalid value: "2026-01-02T11:50:01Z": must be at least 10 minutes before '
            "status.notAfter"),
        ),
    ],
)  # fmt: skip
def test_times_that_do_not_fit(answer: PodCertificateRequestStatus, text: str) -> None:
    assert faults(answer) == [text]


def test_the_first_fault_counts() -> None:
    worse = pem(certificate(key_of("P-256"), lifetime=MINUTE)) + pem(b"x")
    answer = status(certificate_chain=worse, not_after=Time.of(NOW + MINUTE))
    assert faults(answer) == [f"{CHAIN}60000000000: leaf certificate lifetime must be >= 1 hour"]


def test_an_old_proof_names_the_key_too() -> None:
    key = key_of("Ed25519")
    ways: dict[str, Any] = {
        "stub_pkcs10_request": None, "pkix_public_key": public_key(key), "proof_of_possession": proof(key)
    }  # fmt: skip
    assert faults(status(key), **ways) == []
    assert faults(status(), **ways)[0].endswith("leaf certificate was not issued to the requested public key")
