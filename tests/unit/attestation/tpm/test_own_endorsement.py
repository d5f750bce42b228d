from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kubevouch.attestation.interface import SettingsError
from kubevouch.attestation.tpm import own_endorsement
from kubevouch.attestation.tpm.device import TPMCommandError
from kubevouch.attestation.tpm.own_endorsement import Endorsement
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import commands, templates
from kubevouch.pki.tpm.templates import EndorsementKey
from software_tpm import Manufacturer, SoftwareTPM, software_tpm


def _kind(name: str) -> EndorsementKey:
    return next(each for each in templates.ENDORSEMENT_KEYS if each.kind == name)


def _find(tpm: SoftwareTPM, wanted: str = "", given: bytes = b"") -> Endorsement:
    with tpm.device().opened() as connection:
        return own_endorsement.find(connection, wanted=wanted, given=given)


@pytest.mark.parametrize("kind", ["ECC-P256", "RSA-2048", "ECC-P384"])
def test_the_key_that_has_a_certificate_is_found(tmp_path: Path, manufacturer: Manufacturer, kind: str) -> None:
    with software_tpm(tmp_path, manufacturer, (kind,)) as tpm:
        found = _find(tpm)
        assert (found.public.kind, found.problems) == (kind, ())
        assert list(found.chain) == [manufacturer.intermediate.public_bytes(Encoding.DER)]
        assert b"".join(found.public.unique) in found.certificate
        assert _find(tpm).public == found.public


def test_it_is_the_same_each_time_whatever_is_kept_in_the_tpm(tmp_path: Path, manufacturer: Manufacturer) -> None:
    with software_tpm(tmp_path, manufacturer, ("RSA-2048", "ECC-P384")) as tpm:
        before = _find(tpm)
        tpm.keep(_kind("ECC-P384").template, 0x81010016)
        assert _find(tpm).public == before.public
        tpm.keep(_kind("RSA-2048").template, 0x81010001)
        kept = _find(tpm)
        assert (kept.public, kept.certificate) == (before.public, before.certificate)
        assert kept.handle == 0x81010001
        assert before.handle >= commands.FIRST_TRANSIENT
        assert _find(tpm, "ECC-P384").handle == 0x81010016


def test_without_a_certificate_it_is_the_usual_key(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        found = _find(tpm)
        assert (found.public.kind, found.certificate, found.problems) == ("ECC-P256", b"", ())
        assert _find(tpm, "RSA-2048").public.kind == "RSA-2048"


@pytest.mark.parametrize("wrap", ["old header", "zeros", "ones"])
def test_a_certificate_goes_out_as_it_lies_there(tmp_path: Path, manufacturer: Manufacturer, wrap: str) -> None:
    with software_tpm(tmp_path) as tpm:
        kind = _kind("ECC-P256")
        certificate = manufacturer.certificate(tpm.public_key(kind)).public_bytes(Encoding.DER)
        stored = {
            "old header": b"\x10\x01\x00" + len(certificate).to_bytes(2, "big") + certificate,
            "zeros": certificate + bytes(300),
            "ones": certificate + b"\xff" * 300,
        }[wrap]
        tpm.define(kind.certificate, stored)
        found = _find(tpm)
        assert (found.certificate, found.problems) == (stored, ())


def test_a_chain_beside_the_certificate_goes_with_it(tmp_path: Path, manufacturer: Manufacturer) -> None:
    chain = [each.public_bytes(Encoding.DER) for each in (manufacturer.intermediate, manufacturer.root)]
    with software_tpm(tmp_path, manufacturer) as tpm:
        tpm.define(0x01C001FF, b"no certificate")
        joined = b"".join(chain)
        tpm.define(0x01C00100, joined[:600])
        tpm.define(0x01C00101, joined[600:] + bytes(100))
        assert list(_find(tpm).chain) == chain


def test_a_certificate_of_another_tpm_is_told_and_passed_over(tmp_path: Path, manufacturer: Manufacturer) -> None:
    with software_tpm(tmp_path / "a", manufacturer) as other, software_tpm(tmp_path / "b", manufacturer) as tpm:
        tpm.define(0x01C00002, _find(other).certificate)
        tpm.define(0x01C0000A, _find(other).certificate)
        found = _find(tpm)
        assert found.certificate == b""
        assert found.problems == (
            "the certificate at 0x01c0000a is for a key that this TPM does not have",
            "the certificate at 0x01c00002 is for a key that this TPM does not have",
        )


def test_an_index_that_cannot_be_read_is_told_and_passed_over(tmp_path: Path, manufacturer: Manufacturer) -> None:
    with software_tpm(tmp_path, manufacturer, ("RSA-2048",)) as tpm:
        tpm.define(0x01C0000A, bytes(10), written=False)
        found = _find(tpm)
        assert found.public.kind == "RSA-2048"
        assert [each.partition(":")[0] for each in found.problems] == ["the certificate at 0x01c0000a cannot be read"]
        with tpm.device().opened() as connection, pytest.raises(TPMCommandError, match="nv uninitialized"):
            own_endorsement.read_index(connection, 0x01C0000A)


def test_an_index_that_only_the_owner_reads_is_read_by_the_owner(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        tpm.define(0x01C0000A, b"x" * 1500, readers=commands.NV_OWNER_READ)
        with tpm.device().opened() as connection:
            assert own_endorsement.read_index(connection, 0x01C0000A) == b"x" * 1500


def test_an_index_longer_than_any_certificate_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manufacturer: Manufacturer
) -> None:
    monkeypatch.setattr(own_endorsement, "MAX_INDEX_BYTES", 100)
    with software_tpm(tmp_path, manufacturer) as tpm, tpm.device().opened() as connection:
        with pytest.raises(StructureError, match="expected at most 100"):
            own_endorsement.read_index(connection, 0x01C0000A)
        assert "expected at most 100" in own_endorsement.find(connection).problems[0]


def test_a_certificate_that_is_kept_elsewhere_can_be_given(tmp_path: Path, manufacturer: Manufacturer) -> None:
    with software_tpm(tmp_path / "a") as tpm, software_tpm(tmp_path / "b") as other:
        given = manufacturer.certificate(tpm.public_key(_kind("RSA-2048"))).public_bytes(Encoding.DER)
        found = _find(tpm, given=given)
        assert (found.public.kind, found.certificate) == ("RSA-2048", given)
        with pytest.raises(SettingsError, match="that this TPM does not have"):
            _find(other, given=given)


def test_a_kind_that_there_is_not_is_refused(tpm: SoftwareTPM) -> None:
    with pytest.raises(SettingsError, match=r"got the endorsement key 'DSA', expected one of ECC-P256, RSA-2048"):
        _find(tpm, "DSA")
    # This TPM makes no RSA keys of that size.
    with pytest.raises(SettingsError, match="has no endorsement key of kind RSA-4096"):
        _find(tpm, "RSA-4096")


def test_a_password_on_the_endorsement_hierarchy_is_told(tmp_path: Path, manufacturer: Manufacturer) -> None:
    with software_tpm(tmp_path, manufacturer) as tpm:
        tpm.set_password(commands.ENDORSEMENT, b"secret")
        with pytest.raises(TPMCommandError, match="a password is set for what has to be used, expected none"):
            _find(tpm)
