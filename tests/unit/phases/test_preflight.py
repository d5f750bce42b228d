from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kubevouch.phases.preflight import (
    Finding,
    Level,
    PreflightError,
    before_init,
    before_join,
    judge,
    verify_ignored,
)
from kubevouch.phases.preflight_machine import Live, Machine

STOP, WARN = Finding("Port-10250", "Port 10250 is in use"), Finding("Swap", "swap is on", Level.WARNING)


def test_errors_stand_in_the_way_and_warnings_do_not() -> None:
    assert judge([WARN], frozenset()) == [WARN]
    with pytest.raises(PreflightError, match="found 1 reason not to begin") as refusal:
        judge([STOP, WARN], frozenset())
    assert refusal.value.findings == (STOP,)
    assert "--ignore-preflight-errors=Port-10250" in refusal.value.hint


@pytest.mark.parametrize("names", [["port-10250"], ["Swap", "PORT-10250 "], ["all"]])
def test_ignored_findings_only_warn(names: list[str]) -> None:
    assert judge([STOP, WARN], verify_ignored(names)) == [STOP, WARN]


def test_all_stands_alone() -> None:
    with pytest.raises(ValueError, match="don't specify individual checks if 'all' is used"):
        verify_ignored(["all", "Swap"])


def _checks(found: list[Finding]) -> dict[str, Level]:
    return {each.check: each.level for each in found}


RUNTIME = Path("/run/containerd/containerd.sock")
WELL = Live(memory=4 << 30, kernel="6.8.0-49-generic", runtime_socket=RUNTIME, kubelet_unit=True)


def test_nothing_is_found_on_a_machine_that_is_well(tmp_path: Path) -> None:
    assert before_join(Machine(tmp_path, WELL), "worker-1") == []
    assert before_join(Machine(tmp_path, WELL), "worker-1", control_plane=True) == []
    assert before_init(Machine(tmp_path, WELL), "worker-1") == []


def test_what_lies_in_a_tree(tmp_path: Path) -> None:
    tree = Machine(tmp_path)
    (tmp_path / "etc/kubernetes/manifests").mkdir(parents=True)
    assert before_join(tree, "worker-1") == []
    (tmp_path / "etc/kubernetes/manifests/etcd.yaml").touch()
    (tmp_path / "etc/kubernetes/kubelet.conf").touch()
    (tmp_path / "etc/kubernetes/bootstrap-kubelet.conf").touch()
    confs = {
        "FileAvailable--etc-kubernetes-kubelet.conf": Level.WARNING,
        "FileAvailable--etc-kubernetes-bootstrap-kubelet.conf": Level.WARNING,
    }
    found = before_join(tree, "worker-1")
    assert _checks(found) == confs | {"DirAvailable--etc-kubernetes-manifests": Level.ERROR}
    assert [each.message for each in found][:2] == [
        "/etc/kubernetes/manifests is not empty",
        "/etc/kubernetes/kubelet.conf already exists",
    ]
    assert _checks(before_join(tree, "worker-1", control_plane=True)) == confs


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        ({"user_id": 1000}, "IsPrivilegedUser", "user is not running as root"),
        ({"busy_ports": frozenset({10250})}, "Port-10250", "Port 10250 is in use"),
    ],
)
def test_what_makes_a_join_impossible(tmp_path: Path, change: dict[str, Any], check: str, message: str) -> None:
    (found,) = before_join(Machine(tmp_path, replace(WELL, **change)), "worker-1")
    assert (found.check, found.message, found.level) == (check, message, Level.ERROR)


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        ({"resolves": False}, "Hostname", 'hostname "worker-1" could not be reached'),
        ({"swap": True}, "Swap", "swap is supported for cgroup v2 only. The kubelet must be properly configured"),
        ({"missing": ("losetup",)}, "FileExisting-losetup", "losetup not found in system path"),
        ({"runtime_socket": None}, "CRI", "container runtime is not running"),
        (
            {"forwarding": "0"}, "FileContent--proc-sys-net-ipv4-ip_forward",
            "/proc/sys/net/ipv4/ip_forward contents are not set to 1",
        ),
        (
            {"forwarding": None}, "FileContent--proc-sys-net-ipv4-ip_forward",
            "/proc/sys/net/ipv4/ip_forward does not exist",
        ),
        ({"kubelet_unit": False}, "Service-Kubelet", "kubelet service does not exist"),
        ({"system": "Darwin"}, "SystemVerification", "unsupported operating system: Darwin"),
        ({"kernel": "4.18.0-553.el8"}, "SystemVerification", "unsupported kernel release: 4.18.0-553.el8"),
        ({"kernel": "3.10.0"}, "SystemVerification", "unsupported kernel release: 3.10.0"),
        ({"cgroups": 1}, "SystemVerification", "cgroups v1"),
        ({"cgroups": 0}, "SystemVerification", "missing required cgroups"),
    ],
)  # fmt: skip
def test_what_kubelet_and_containers_will_miss(
    tmp_path: Path, change: dict[str, Any], check: str, message: str
) -> None:
    (found,) = before_join(Machine(tmp_path, replace(WELL, **change)), "worker-1")
    assert (found.check, found.level) == (check, Level.WARNING)
    assert found.message.startswith(message)


def test_a_control_plane_needs_more(tmp_path: Path) -> None:
    weak = Machine(tmp_path, replace(WELL, processors=1, memory=1 << 30))
    wanted = {
        "NumCPU": "the number of available CPUs 1 is less than the required 2",
        "Mem": "the system RAM (1024 MB) is less than the minimum 1700 MB",
    }
    for found in (before_init(weak, "cp-1"), before_join(weak, "cp-1", control_plane=True)):
        assert {each.check: each.message for each in found} == wanted
    assert before_join(weak, "worker-1") == []
    assert before_init(Machine(tmp_path), "cp-1") == []
