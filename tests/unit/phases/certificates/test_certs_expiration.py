from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

from control_plane_world import NOW, control_plane_files
from kubevouch.phases.certificates.certs_expiration import check

ROWS = [
    ("admin.conf", "ca"),
    ("apiserver", "ca"),
    ("apiserver-etcd-client", "etcd-ca"),
    ("apiserver-kubelet-client", "ca"),
    ("controller-manager.conf", "ca"),
    ("etcd-healthcheck-client", "etcd-ca"),
    ("etcd-peer", "etcd-ca"),
    ("etcd-server", "etcd-ca"),
    ("front-proxy-client", "front-proxy-ca"),
    ("scheduler.conf", "ca"),
    ("super-admin.conf", "ca"),
]


def test_every_certificate_has_its_row_in_the_order_of_names(tmp_path: Path) -> None:
    found = check(control_plane_files(tmp_path))
    assert [(each.name, each.signed_by) for each in found.certificates] == ROWS
    assert [each.name for each in found.authorities] == ["ca", "etcd-ca", "front-proxy-ca"]
    assert not any(each.externally_managed for each in (*found.certificates, *found.authorities))
    (leaf,) = {each.not_after for each in found.certificates}
    assert leaf == (NOW + dt.timedelta(days=365)).replace(microsecond=0)
    assert (
        found.certificates[0].residual(leaf) == found.certificates[0].residual(leaf + dt.timedelta(1)) == dt.timedelta()
    )


def test_missing_external_and_no_etcd(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    (tmp_path / "scheduler.conf").unlink()
    (layout.pki / "front-proxy-ca.key").unlink()
    shutil.rmtree(layout.pki / "etcd")
    found = check(layout)
    rows = {each.name: each for each in found.certificates}
    assert rows.keys() == {name for name, signed_by in ROWS if signed_by != "etcd-ca"}
    assert rows["scheduler.conf"].not_after is None
    assert [name for name, each in rows.items() if each.externally_managed] == ["front-proxy-client"]
    assert [(each.name, each.externally_managed) for each in found.authorities] == [
        ("ca", False),
        ("front-proxy-ca", True),
    ]
    (layout.pki / "ca.crt").unlink()
    assert check(layout).authorities[0].not_after is None
