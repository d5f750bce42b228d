"""``reset``: removes what ``init`` and ``join`` have written (kubeadm 1.36, phase cleanup-node).

Programs are not stopped and nothing is unmounted. Links are removed, never followed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.util.files import sync_folder

_CONFS = (
    "admin.conf", "super-admin.conf", "kubelet.conf", "bootstrap-kubelet.conf", "controller-manager.conf",
    "scheduler.conf",
)  # fmt: skip
_FOLDERS = (Path("etc/kubernetes/manifests"), Path("var/lib/kubelet/pki"))
_FILES = (Path("var/lib/kubelet/config.yaml"), Path("var/lib/kubelet/kubeadm-flags.env"))
_TEMPORARY = Path("etc/kubernetes/tmp")


def find(layout: Layout, root: Path, *, temporary: bool = False) -> list[Path]:
    """What there is to remove: files, and whatever is in the folders that are emptied.

    Args:
        layout: where certificates and kubeconfigs lie, below ``root``.
        temporary: also kubeadm's backups in ``/etc/kubernetes/tmp``.

    Raises:
        OSError
    """
    found = [path for folder in (layout.pki, *(root / each for each in _FOLDERS)) for path in _inside(folder)]
    if temporary:
        found += _inside(root / _TEMPORARY)
    files = [layout.kubeconfigs / name for name in (*_CONFS, *(f"{name}.csr" for name in _CONFS))]
    files += [root / each for each in _FILES]
    return found + [path for path in files if path.is_symlink() or path.exists()]


def _inside(folder: Path) -> list[Path]:
    if folder.is_symlink():
        return [folder]
    return sorted(folder.iterdir()) if folder.is_dir() else []


def remove(paths: list[Path]) -> None:
    """Raises ``OSError``; run it again when the reason is gone."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        sync_folder(folder)
