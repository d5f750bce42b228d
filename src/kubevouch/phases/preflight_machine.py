"""What the preflight checks ask of a machine, gathered before anything is judged."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

# Where kubeadm looks, too (1.36).
RUNTIME_SOCKETS = (
    Path("/var/run/containerd/containerd.sock"), Path("/var/run/crio/crio.sock"), Path("/var/run/cri-dockerd.sock"),
)  # fmt: skip
COMMANDS = ("losetup", "mount", "cp")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_UNITS = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system",
          "lib/systemd/system")  # fmt: skip


class Live(msgspec.Struct, frozen=True):
    """The running machine.

    Args:
        memory: bytes, 0 if unknown.
        missing: of :data:`COMMANDS`, those that are not in the search path.
        busy_ports: of those that were asked about.
        resolves: whether the node's name has an address.
        cgroups: 2, 1, or 0 where none are mounted.
        forwarding: what :data:`FORWARDING` holds; None if it is not there.
        runtime_socket: of the container runtime; None if there is none.
        kubelet_unit: whether systemd has a unit for the kubelet; None without systemd.
    """

    user_id: int = 0
    processors: int = 2
    memory: int = 0
    swap: bool = False
    missing: tuple[str, ...] = ()
    busy_ports: frozenset[int] = frozenset()
    resolves: bool = True
    system: str = "Linux"
    kernel: str = ""
    cgroups: int = 2
    forwarding: str | None = "1"
    runtime_socket: Path | None = None
    kubelet_unit: bool | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """``live`` is None for a tree at ``root`` that will be a machine's."""

    root: Path
    live: Live | None = None

    @classmethod
    def here(
        cls, rootfs: Path | None, node_name: str = "", *, ports: Iterable[int] = (), cri_socket: str = ""
    ) -> Machine:
        """This machine, or the tree ``rootfs``.

        Args:
            ports: those to try.
            cri_socket: ``unix:///…`` or a path; empty looks in the usual places.
        """
        if rootfs is not None:
            return cls(rootfs)
        live = Live(
            user_id=os.geteuid(),
            processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
            memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            swap=len(_lines(Path("/proc/swaps"))) > 1,
            missing=tuple(each for each in COMMANDS if shutil.which(each) is None),
            busy_ports=frozenset(port for port in ports if _is_busy(port)),
            resolves=not node_name or _resolves(node_name),
            system=platform.system(),
            kernel=platform.release(),
            cgroups=_cgroups(),
            forwarding=next(iter(_lines(FORWARDING)), None),
            runtime_socket=_runtime(cri_socket),
            kubelet_unit=_kubelet_unit(),
        )
        return cls(Path("/"), live)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _is_busy(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False


def _cgroups() -> int:
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return 2
    return 1 if Path("/sys/fs/cgroup/memory").is_dir() else 0


def _runtime(text: str) -> Path | None:
    wanted = (Path(text.removeprefix("unix://")),) if text else RUNTIME_SOCKETS
    return next((path for path in wanted if path.is_socket()), None)


def _kubelet_unit() -> bool | None:
    if not Path("/run/systemd/system").is_dir():
        return None
    return any((Path("/") / folder / "kubelet.service").exists() for folder in _UNITS)
