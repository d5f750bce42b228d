from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kubevouch.phases import preflight
from kubevouch.phases.preflight import Finding, Level, Machine, PreflightError, before_join, judge, verify_ignored

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


def test_a_tree_is_not_judged_by_the_machine_it_lies_on(tmp_path: Path) -> None:
    tree = Machine(tmp_path, is_live=False, user_id=1000, host_name="x")
    assert before_join(tree, "no-such-host.invalid") == []
    (tmp_path / "etc/kubernetes/manifests").mkdir(parents=True)
    assert before_join(tree, "worker-1") == []
    (tmp_path / "etc/kubernetes/manifests/etcd.yaml").touch()
    assert _checks(before_join(tree, "worker-1")) == {"DirAvailable--etc-kubernetes-manifests": Level.ERROR}
    assert before_join(tree, "worker-1", control_plane=True) == []


def test_who_may_not_write_and_a_port_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = Machine(tmp_path, is_live=True, user_id=1000, host_name="x")
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(preflight, "KUBELET_PORT", port)
        found = _checks(before_join(live, "localhost"))
    assert found["IsPrivilegedUser"] is found[f"Port-{port}"] is Level.ERROR
    assert "Hostname" not in found
    root = Machine(tmp_path, is_live=True, user_id=0, host_name="x")
    assert "IsPrivilegedUser" not in _checks(preflight.before_init(root, "localhost"))
    assert _checks(preflight.before_init(root, "no-such-host.invalid")) == {"Hostname": Level.WARNING}
