"""Where certificates may be fetched."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.attestation.azure.intermediates import FOLDERS, verify_folder, verify_place
from kubevouch.attestation.interface import RefusedEvidenceError
from node_cases import CASES

FETCHES = [case for case in CASES if case["when"] == "fetch intermediate"]


@pytest.mark.parametrize("case", FETCHES, ids=[case["id"] for case in FETCHES])
def test_the_cases_of_other_attestation_systems(case: dict[str, Any]) -> None:
    assert not case["then"]["ok"]
    with pytest.raises(RefusedEvidenceError) as caught:
        verify_place(case["given"]["aia_url"], FOLDERS)
    assert caught.value.step == "chain"


@pytest.mark.parametrize(
    "url",
    [
        "http://www.microsoft.com/pkiops/certs/Microsoft%20Azure%20RSA%20TLS%20Issuing%20CA%2003%20-%20xsign.crt",
        "https://www.microsoft.com/pkiops/certs/a.crt",
        "http://cacerts.digicert.com/DigiCertGlobalRootG2.crt",
    ],
)
def test_places_that_are_right(url: str) -> None:
    assert verify_place(url, [verify_folder(each) for each in FOLDERS]) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://www.microsoft.com/pkiops/certs/",
        "http://www.microsoft.com/pkiops/certs/../../x",
        "http://www.microsoft.com/pkiops/certs/a/b.crt",
        "http://www.microsoft.com/pkiops/certs/..",
        "http://www.microsoft.com/pkiops/certs/%2e%2e/x",
        "http://www.microsoft.com/pkiops/certs/a.crt?x=http://evil.test",
        "http://www.microsoft.com/pkiops/certs/a.crt#x",
        "http://www.microsoft.com/pkiops/certs/a.crt\r\nHost: evil.test",
        "http://www.microsoft.com/pkiops/certs/a\n",
        "http://www.microsoft.com@evil.test/pkiops/certs/a.crt",
        "http://www.microsoft.com:80/pkiops/certs/a.crt",
        "http://www.microsoft.com.evil.test/pkiops/certs/a.crt",
        "HTTP://www.microsoft.com/pkiops/certs/a.crt",
        "file:///etc/passwd",
        "http://127.0.0.1/pkiops/certs/a.crt",
        "http://[::1]/pkiops/certs/a.crt",
        "http://cacerts.digicert.com/" + "a" * 300,
    ],
)
def test_places_that_are_not(url: str) -> None:
    with pytest.raises(RefusedEvidenceError):
        verify_place(url, FOLDERS)
