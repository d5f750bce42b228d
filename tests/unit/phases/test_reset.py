from __future__ import annotations

from pathlib import Path

from control_plane_world import control_plane_files
from kubevouch.phases import reset
from kubevouch.phases.certificates.control_plane_files import Layout


def _tree(root: Path) -> Layout:
    layout = Layout().below(root)
    made = control_plane_files(root / "etc/kubernetes")
    assert made == layout
    for name in (
        "etc/kubernetes/manifests/etcd.yaml",
        "etc/kubernetes/tmp/backup",
        "etc/kubernetes/admin.conf.csr",
        "var/lib/kubelet/config.yaml",
        "var/lib/kubelet/kubeadm-flags.env",
        "var/lib/kubelet/pki/kubelet-client-2031-01-01-00-00-00.pem",
        "etc/cni/net.d/10-x.conf",
        "var/lib/kubelet/pods/x",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (root / "var/lib/kubelet/pki/kubelet-client-current.pem").symlink_to("nowhere.pem")
    return layout


def _files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or path.is_file()}


def test_what_was_written_goes_and_the_rest_stays(tmp_path: Path) -> None:
    layout = _tree(tmp_path)
    reset.remove(reset.find(layout, tmp_path))
    assert _files(tmp_path) == {"etc/kubernetes/tmp/backup", "etc/cni/net.d/10-x.conf", "var/lib/kubelet/pods/x"}
    assert reset.find(layout, tmp_path) == []
    reset.remove(reset.find(layout, tmp_path, temporary=True))
    assert "etc/kubernetes/tmp/backup" not in _files(tmp_path)


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere"
    kept.mkdir()
    (kept / "ca.key").touch()
    root = tmp_path / "root"
    (root / "etc/kubernetes/pki").mkdir(parents=True)
    (root / "etc/kubernetes/pki/etcd").symlink_to(kept)
    (root / "var/lib/kubelet").mkdir(parents=True)
    (root / "var/lib/kubelet/pki").symlink_to(kept)
    reset.remove(reset.find(Layout().below(root), root))
    assert (kept / "ca.key").exists()
    assert _files(root) == set()
