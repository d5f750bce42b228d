from __future__ import annotations

import datetime as dt
from pathlib import Path

from kubevouch.config import kubeconfig
from kubevouch.phases.certificates.certs import load_authority, pair_at
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.pki.x509 import x509_certificate
from kubevouch.testing.cluster_pki import ClusterPKI

PAST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
FUTURE = dt.datetime(2035, 1, 1, tzinfo=dt.UTC)


def test_everything_holds_from_the_earlier_to_well_after_the_later_moment(tmp_path: Path) -> None:
    for machine, cluster in ((PAST, FUTURE), (FUTURE, PAST)):
        folder = tmp_path / str(machine.year)
        made = ClusterPKI(folder, machine, cluster)
        (user,) = kubeconfig.load(made.kubeconfig("https://x", SUPER_ADMIN)).users.values()
        pairs = made.control_plane
        for pem in (user.client_certificate_data, pairs.apiserver.certificate.read_bytes(), pairs.ca_certificate):
            (certificate,) = x509_certificate.parse_bundle(pem)
            assert certificate.not_before < PAST
            assert certificate.not_after > FUTURE + dt.timedelta(days=9 * 365)


def test_the_folder_is_laid_out_as_kubeadm_does_it_and_keys_are_private(tmp_path: Path) -> None:
    made = ClusterPKI(tmp_path / "pki", PAST, PAST).control_plane
    assert sorted(path.name for path in made.folder.iterdir()) == [
        "apiserver.crt", "apiserver.key", "ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key",
        "sa.key", "sa.pub",
    ]  # fmt: skip
    assert load_authority(pair_at(made.folder, "ca")).certificate.contents == made.authority.certificate.contents
    assert {path.stat().st_mode & 0o777 for path in made.folder.glob("*.key")} == {0o600}
