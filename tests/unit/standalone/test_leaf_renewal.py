"""standalone/leaf_renewal.py: what the running process shows does not end while it runs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from asynctest import async_test
from controller_world import NOW
from kubevouch.phases.certificates.certs import ControlPlanePKI, ensure_control_plane, pair_at
from kubevouch.pki import control_plane, keys
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.standalone.leaf_renewal import RENEWED, RETRY_SECONDS, LeafRenewal
from kubevouch.testing.clock import FakeClock

NAMES = ControlPlaneNames(node_name="cp", advertise_address="127.0.0.1", extra=("cluster.example", "192.0.2.7"))
DAY = dt.timedelta(days=1)


def leaves(pki: ControlPlanePKI) -> dict[str, Certificate]:
    folder = pki.folder
    return {
        each.name: x509_certificate.parse_bundle(pair_at(folder, each.base_name).certificate.read_bytes())[0]
        for each in RENEWED
    }


async def look(renewal: LeafRenewal) -> None:
    for credential in RENEWED:
        await renewal.look(credential)


@async_test
async def test_each_is_renewed_in_its_last_third_with_its_names_and_kind_of_key(tmp_path: Path) -> None:
    pki = ensure_control_plane(tmp_path / "pki", NAMES, now=NOW, algorithm=KeyAlgorithm.ECDSA_P384)
    clock, first = FakeClock(NOW), leaves(pki)
    renewal = LeafRenewal(pki, clock)
    for days in (0, 240):
        clock.set(NOW + days * DAY)
        await look(renewal)
        assert leaves(pki) == first
    clock.set(NOW + 250 * DAY)
    await look(renewal)
    second = leaves(pki)
    for name, leaf in second.items():
        before = first[name]
        assert leaf.not_after > before.not_after
        assert leaf.meaning.alt_names == before.meaning.alt_names
        assert leaf.subject == before.subject
        assert leaf.public_key.name == before.public_key.name
        key = keys.load_pem(pair_at(pki.folder, name).key.read_bytes())
        assert keys.public_key_of(key).canonical_info == leaf.public_key.canonical_info
    assert "cluster.example" in second["apiserver"].meaning.alt_names.dns_names
    await look(renewal)
    assert leaves(pki) == second


@async_test
async def test_what_cannot_be_renewed_is_tried_again_later(tmp_path: Path) -> None:
    pki = ensure_control_plane(tmp_path / "pki", NAMES, now=NOW)
    clock, first = FakeClock(NOW + 300 * DAY), leaves(pki)
    renewal = LeafRenewal(pki, clock)
    hidden = pki.folder / "elsewhere"
    (pki.folder / "ca.key").rename(hidden)
    pair = pair_at(pki.folder, control_plane.FRONT_PROXY_CLIENT.base_name)
    content = pair.certificate.read_bytes()
    pair.certificate.write_bytes(b"-----BEGIN")
    await look(renewal)
    hidden.rename(pki.folder / "ca.key")
    pair.certificate.write_bytes(content)
    await look(renewal)
    assert leaves(pki) == first
    clock.advance(RETRY_SECONDS)
    await look(renewal)
    assert all(leaf.not_after > first[name].not_after for name, leaf in leaves(pki).items())


@async_test
async def test_what_is_not_there_stays_so(tmp_path: Path) -> None:
    pki = ensure_control_plane(tmp_path / "pki", NAMES, now=NOW)
    pair = pair_at(pki.folder, control_plane.FRONT_PROXY_CLIENT.base_name)
    pair.certificate.unlink()
    await look(LeafRenewal(pki, FakeClock(NOW + 300 * DAY)))
    assert not pair.certificate.exists()
