"""Preflight checks: what speaks against beginning, found before anything is changed (kubeadm 1.36 names them so)."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

KUBELET_PORT = 10250
ALL = "all"


class Level(Enum):
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has found. ``check`` is the name that ``--ignore-preflight-errors`` takes."""

    check: str
    message: str
    level: Level = Level.ERROR
    hint: str = ""


class PreflightError(Exception):
    """At least one finding stands in the way; nothing was changed."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        names = ",".join(each.check for each in self.findings)
        count = len(self.findings)
        super().__init__(f"preflight has found {count} reason{'s' * (count != 1)} not to begin")
        self.hint = f"--ignore-preflight-errors={names} goes on nevertheless"


@dataclass(frozen=True, slots=True)
class Machine:
    """What the checks ask of a machine.

    Args:
        root: before every path.
        is_live: whether this is the running machine, or a tree that will be one's root.
    """

    root: Path
    is_live: bool
    user_id: int
    host_name: str

    @classmethod
    def here(cls, rootfs: Path | None) -> Machine:
        return cls(Path("/") if rootfs is None else rootfs, rootfs is None, os.geteuid(), socket.gethostname())


def verify_ignored(names: Iterable[str]) -> frozenset[str]:
    """The checks to ignore, in lower case. Raises ``ValueError`` with kubeadm's text."""
    found = frozenset(name.strip().lower() for name in names if name.strip())
    if ALL in found and len(found) > 1:
        raise ValueError("don't specify individual checks if 'all' is used")
    return found


def judge(findings: Iterable[Finding], ignored: frozenset[str]) -> list[Finding]:
    """The findings that only warn, ignored ones among them.

    Raises:
        PreflightError: the others.
    """
    listed = list(findings)
    in_the_way = [
        each
        for each in listed
        if each.level is Level.ERROR and ALL not in ignored and each.check.lower() not in ignored
    ]
    if in_the_way:
        raise PreflightError(in_the_way)
    return listed


def before_init(machine: Machine, node_name: str) -> list[Finding]:
    return [*_privileges(machine), *_host_name(machine, node_name)]


def before_join(machine: Machine, node_name: str, *, control_plane: bool = False) -> list[Finding]:
    found = [*_privileges(machine), *_host_name(machine, node_name)]
    if not control_plane:
        found += _empty_folder(machine, Path("etc/kubernetes/manifests"))
    return found + _free_port(machine, KUBELET_PORT) + _swap(machine)


def _privileges(machine: Machine) -> list[Finding]:
    if not machine.is_live or machine.user_id == 0:
        return []
    return [Finding("IsPrivilegedUser", "user is not running as root", hint="use sudo, or --rootfs for another tree")]


def _host_name(machine: Machine, node_name: str) -> list[Finding]:
    if not machine.is_live:
        return []
    try:
        socket.getaddrinfo(node_name, None)
    except OSError:
        message = f'hostname "{node_name}" could not be reached'
        return [Finding("Hostname", message, Level.WARNING)]
    return []


def _empty_folder(machine: Machine, folder: Path) -> list[Finding]:
    path = machine.root / folder
    try:
        empty = not any(path.iterdir())
    except FileNotFoundError:
        empty = True
    except OSError as err:
        return [Finding(_named("DirAvailable", folder), f"/{folder} cannot be read: {err.strerror}")]
    hint = "this machine is a control plane; kubevouch reset makes it an empty one"
    return [] if empty else [Finding(_named("DirAvailable", folder), f"/{folder} is not empty", hint=hint)]


def _named(check: str, path: Path) -> str:
    return f"{check}--{str(path).replace('/', '-')}"


def _free_port(machine: Machine, port: int) -> list[Finding]:
    if not machine.is_live:
        return []
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            hint = "a kubelet may be running already; stop it first"
            return [Finding(f"Port-{port}", f"Port {port} is in use", hint=hint)]
    return []


def _swap(machine: Machine) -> list[Finding]:
    if not machine.is_live:
        return []
    try:
        devices = Path("/proc/swaps").read_text().splitlines()[1:]
    except OSError:
        return []
    message = "swap is supported for cgroup v2 only; the kubelet must be told with failSwapOn: false"
    return [Finding("Swap", message, Level.WARNING, "swapoff -a turns it off")] if devices else []
