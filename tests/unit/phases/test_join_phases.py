from __future__ import annotations

import pytest

from kubevouch.phases.join_phases import ALL, CONTROL_PLANE, PREPARE, Phase, PhaseError, named, that_run, without


@pytest.mark.parametrize(
    ("name", "phases"),
    [
        ("preflight", {Phase.PREFLIGHT}),
        ("control-plane-prepare", PREPARE),
        ("control-plane-prepare/all", PREPARE),
        ("control-plane-prepare/certs", {Phase.CERTS}),
        ("control-plane-join", {Phase.MARK_CONTROL_PLANE}),
        ("kubelet-start", {Phase.KUBELET_START}),
    ],
)
def test_names_are_kubeadms(name: str, phases: set[Phase]) -> None:
    assert named(name) == phases
    assert without([name]) == ALL - phases


@pytest.mark.parametrize("name", ["", "certs", "kubelet", "preflight/all", "control-plane-prepare/", "PREFLIGHT"])
def test_what_is_no_phase(name: str) -> None:
    for ask in (named, lambda text: without([text])):
        with pytest.raises(PhaseError, match="invalid phase name") as refusal:
            ask(name)
        assert "control-plane-prepare/download-certs, " in refusal.value.hint


def test_what_runs_a_control_plane_may_be_skipped_and_not_run() -> None:
    assert without(["etcd-join", "wait-control-plane", "control-plane-prepare/control-plane"]) == ALL
    with pytest.raises(PhaseError, match="which is not done here"):
        named("etcd-join")


def test_groups() -> None:
    assert without(["control-plane-prepare", "control-plane-join"]) == ALL - CONTROL_PLANE


def test_only_what_ran_is_told() -> None:
    worker = ["preflight", "kubelet-start", "kubelet-wait-bootstrap"]
    assert that_run(ALL, control_plane=False, already=False) == worker
    assert that_run(ALL, control_plane=True, already=False) == [each.value for each in Phase]
    assert that_run(ALL, control_plane=False, already=True) == []
    assert that_run(ALL, control_plane=True, already=True) == ["control-plane-join/mark-control-plane"]
    assert that_run(named("preflight"), control_plane=False, already=False) == ["preflight"]
