"""Preflight checks: what speaks against beginning, found before anything is changed (kubeadm 1.36 names them so).

What makes the join itself impossible is an error; what a kubelet or its containers will miss later is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import msgspec

from kubevouch.phases.preflight_machine import FORWARDING, Live, Machine

KUBELET_PORT = 10250
ALL = "all"
PROCESSORS, MEMORY_MB = 2, 1700  # of a control plane, in kubeadm
_MANIFESTS = Path("etc/kubernetes/manifests")
_CONFS = (Path("etc/kubernetes/kubelet.conf"), Path("etc/kubernetes/bootstrap-kubelet.conf"))
_KERNEL = re.compile(r"([0-9]+)\.([0-9]+)", re.ASCII)
_OLDEST_KERNEL = (4, 19)


class Level(Enum):
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
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
    live = machine.live
    return [] if live is None else [*_privileges(live), *_host_name(live, node_name), *_strength(live)]


def before_join(
    machine: Machine, node_name: str, *, control_plane: bool = False, cri_socket: str = ""
) -> list[Finding]:
    """``machine`` was asked about :data:`KUBELET_PORT`."""
    found = [] if control_plane else _empty_folder(machine)
    found += [
        _warning(_named("FileAvailable", path), f"/{path} already exists", "it is replaced, unless it is good")
        for path in _CONFS
        if (machine.root / path).exists()
    ]
    live = machine.live
    if live is None:
        return found
    found += [*_privileges(live), *_host_name(live, node_name), *_free_port(live)]
    if control_plane:
        found += _strength(live)
    return [*found, *_runtime(live, cri_socket), *_kubelet(live), *_system(live)]


def _warning(check: str, message: str, hint: str = "") -> Finding:
    return Finding(check, message, Level.WARNING, hint)


def _named(check: str, path: Path) -> str:
    return f"{check}--{str(path).replace('/', '-')}"


# ------------------------------------------------------------------ what the join needs


def _privileges(live: Live) -> list[Finding]:
    if live.user_id == 0:
        return []
    return [Finding("IsPrivilegedUser", "user is not running as root", hint="use sudo, or --rootfs for another tree")]


def _host_name(live: Live, node_name: str) -> list[Finding]:
    return [] if live.resolves else [_warning("Hostname", f'hostname "{node_name}" could not be reached')]


def _empty_folder(machine: Machine) -> list[Finding]:
    check, folder = _named("DirAvailable", _MANIFESTS), f"/{_MANIFESTS}"
    try:
        empty = not any((machine.root / _MANIFESTS).iterdir())
    except FileNotFoundError:
        empty = True
    except OSError as err:
        return [Finding(check, f"unable to check if {folder} is empty: {(err.strerror or str(err)).lower()}")]
    hint = "this machine is a control plane; kubevouch reset makes it an empty one"
    return [] if empty else [Finding(check, f"{folder} is not empty", hint=hint)]


def _free_port(live: Live) -> list[Finding]:
    if KUBELET_PORT not in live.busy_ports:
        return []
    hint = "a kubelet may be running already; stop it first"
    return [Finding(f"Port-{KUBELET_PORT}", f"Port {KUBELET_PORT} is in use", hint=hint)]


# ------------------------------------------------------------------ what kubelet and containers will need


def _strength(live: Live) -> list[Finding]:
    found = []
    if live.processors < PROCESSORS:
        message = f"the number of available CPUs {live.processors} is less than the required {PROCESSORS}"
        found.append(_warning("NumCPU", message))
    megabytes = live.memory >> 20
    if live.memory and megabytes < MEMORY_MB:
        found.append(_warning("Mem", f"the system RAM ({megabytes} MB) is less than the minimum {MEMORY_MB} MB"))
    return found


def _runtime(live: Live, wanted: str) -> list[Finding]:
    found = []
    if live.runtime_socket is None:
        where = wanted or "the usual places"
        found.append(_warning("CRI", f"container runtime is not running: there is no socket at {where}"))
    found += [_warning(f"FileExisting-{name}", f"{name} not found in system path") for name in live.missing]
    if live.swap:
        message = (
            "swap is supported for cgroup v2 only. The kubelet must be properly configured to use swap. Please refer "
            "to https://kubernetes.io/docs/concepts/architecture/nodes/#swap-memory, or disable swap on the node"
        )
        found.append(_warning("Swap", message, "swapoff -a turns it off"))
    check = f"FileContent-{str(FORWARDING).replace('/', '-')}"
    if live.forwarding is None:
        found.append(_warning(check, f"{FORWARDING} does not exist"))
    elif live.forwarding.strip() != "1":
        found.append(_warning(check, f"{FORWARDING} contents are not set to 1", "sysctl -w net.ipv4.ip_forward=1"))
    return found


def _kubelet(live: Live) -> list[Finding]:
    if live.kubelet_unit is False:
        return [_warning("Service-Kubelet", "kubelet service does not exist", "kubevouch agent works without one")]
    return []


def _system(live: Live) -> list[Finding]:
    check = "SystemVerification"
    if live.system != "Linux":
        return [_warning(check, f"unsupported operating system: {live.system}")]
    found = []
    release = _KERNEL.match(live.kernel)
    if release is not None and (int(release[1]), int(release[2])) < _OLDEST_KERNEL:
        found.append(_warning(check, f"unsupported kernel release: {live.kernel}"))
    if live.cgroups == 0:
        found.append(_warning(check, "missing required cgroups: none are mounted"))
    elif live.cgroups == 1:
        found.append(_warning(check, "cgroups v1 support is deprecated; a kubelet of 1.35 or later does not start"))
    return found
