"""Lists as ``cryptography`` reads them, and as openssl believes them."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from kubevouch.pki import authority, keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import crl_builder, pem
from kubevouch.pki.x509.crl_builder import REASON_CODES, CRLTemplate, RevokedSerial

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def ca(algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256) -> CertificateAuthority:
    return authority.create_authority("kubernetes", keys.generate(algorithm), now=NOW - DAY)


def signed(of: CertificateAuthority, **fields: Any) -> bytes:
    given: dict[str, Any] = {"number": 7, "this_update": NOW, "next_update": NOW + DAY}
    template = CRLTemplate(**(given | fields))
    own = of.certificate
    return of.signed(
        lambda identifier: crl_builder.to_be_signed(
            template, issuer_name=own.subject_name, issuer_key_id=own.meaning.subject_key_id, identifier=identifier
        )
    )


def test_every_reason_is_read_as_it_is_written() -> None:
    revoked = [RevokedSerial(1 << 8 * code, NOW - DAY, reason) for reason, code in REASON_CODES.items()]
    of = ca()
    found = x509.load_der_x509_crl(signed(of, revoked=revoked))
    assert found.is_signature_valid(x509.load_der_x509_certificate(of.certificate.contents).public_key())  # type: ignore[arg-type]
    for each in revoked:
        line = found.get_revoked_certificate_by_serial_number(each.serial)
        assert line is not None and line.revocation_date_utc == NOW - DAY
        if each.reason == "unspecified":
            assert len(line.extensions) == 0
        else:
            assert line.extensions.get_extension_for_class(x509.CRLReason).value.reason.value == each.reason
    assert found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 7
    assert found.issuer.rfc4514_string() == "CN=kubernetes"
    assert (found.last_update_utc, found.next_update_utc) == (NOW, NOW + DAY)


def test_an_empty_list_has_no_lines() -> None:
    assert len(x509.load_der_x509_crl(signed(ca()))) == 0


def test_a_delta_and_a_part_say_so_critically() -> None:
    url = "https://127.0.0.1/pki/crl/aa/example.com:s.crl"
    delta = x509.load_der_x509_crl(signed(ca(), base=3))
    found = delta.extensions.get_extension_for_class(x509.DeltaCRLIndicator)
    assert found.critical and found.value.crl_number == 3
    part = x509.load_der_x509_crl(signed(ca(), point=url))
    point = part.extensions.get_extension_for_class(x509.IssuingDistributionPoint)
    assert point.critical and point.value.full_name == [x509.UniformResourceIdentifier(url)]
    fresh = x509.load_der_x509_crl(signed(ca(), freshest=url))
    (named,) = fresh.extensions.get_extension_for_class(x509.FreshestCRL).value
    assert named.full_name == [x509.UniformResourceIdentifier(url)]


@pytest.mark.parametrize("algorithm", [KeyAlgorithm.ECDSA_P256, KeyAlgorithm.RSA_2048])
def test_openssl_believes_it(tmp_path: Path, algorithm: KeyAlgorithm) -> None:
    from kubevouch.controllers.crl_publisher import crl_certificate

    of = ca(algorithm)
    (tmp_path / "ca.pem").write_bytes(pem.encode(pem.CERTIFICATE, crl_certificate(of)))
    spec = authority.LeafSpec(common_name="alice", purposes=("client auth",))
    leaf = authority.issue_leaf(of, spec, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    (tmp_path / "leaf.pem").write_bytes(leaf.pem())

    def verified(*lists: bytes, more: tuple[str, ...] = ()) -> str:
        at = str(int(NOW.timestamp()))
        (tmp_path / "lists.pem").write_bytes(b"".join(pem.encode("X509 CRL", each) for each in lists))
        command = [
            "openssl",
            "verify",
            "-CAfile",
            "ca.pem",
            "-CRLfile",
            "lists.pem",
            "-crl_check",
            "-attime",
            at,
            *more,
            "leaf.pem",
        ]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return ended.stdout + ended.stderr

    line = RevokedSerial(leaf.serial, NOW, "certificateHold")
    assert "leaf.pem: OK" in verified(signed(of))
    assert "certificate revoked" in verified(signed(of, revoked=[line]))
    assert "leaf.pem: OK" in verified(signed(of, revoked=[RevokedSerial(leaf.serial + 1, NOW)]))
    assert "CRL has expired" in verified(signed(of, this_update=NOW - 2 * DAY, next_update=NOW - DAY))
    # A delta revokes, and lifts what was on hold.
    deltas = ("-extended_crl", "-use_deltas")
    full, held = signed(of, freshest="https://x/d"), signed(of, revoked=[line], freshest="https://x/d")
    assert "certificate revoked" in verified(full, signed(of, number=8, base=7, revoked=[line]), more=deltas)
    lifted = RevokedSerial(leaf.serial, NOW, "removeFromCRL")
    assert "leaf.pem: OK" in verified(held, signed(of, number=8, base=7, revoked=[lifted]), more=deltas)
    assert "unable to get certificate CRL" in verified(signed(ca(algorithm)))
