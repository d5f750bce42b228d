"""What is said of a cluster before attached controllers start."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from kubevouch import wellknown
from kubevouch.api import catalog as resources
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.rbac_v1 import PolicyRule, Role
from kubevouch.authorization.policy import Policy
from kubevouch.cli.main import run
from kubevouch.client.discovery import Discovered
from kubevouch.controllers import catalog
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.standalone.attached.check import Level, Report, Seen, judge, wanted
from kubevouch.testing.cluster import Cluster

NOW = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
_EVERYTHING = Discovered(
    {(each.resource.group, each.resource.version, each.resource.plural): frozenset() for each in OWN_KINDS}
    | {("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies"): frozenset()}
)
_BOTH = frozenset(("nodeclient", "selfnodeclient"))


def _manager(age: float = 1.0) -> LeaseSpec:
    renewed = MicroTime.of(NOW - dt.timedelta(seconds=age))
    return LeaseSpec(holder_identity="cp_1", lease_duration_seconds=15, renew_time=renewed)


def _csr(
    *, issued: bool, age: float = 300.0, signer: str = wellknown.KUBELET_SERVING_SIGNER
) -> CertificateSigningRequest:
    since = Time.of(NOW - dt.timedelta(seconds=age))
    approved = CertificateSigningRequestCondition(type="Approved", status="True", last_update_time=since)
    return CertificateSigningRequest(
        metadata=ObjectMeta(name="csr-1"),
        spec=CertificateSigningRequestSpec(signer_name=signer),
        status=CertificateSigningRequestStatus(conditions=[approved], certificate=b"x" if issued else b""),
    )


def _judged(*words: str, **seen: Any) -> Report:
    given = {"now": NOW, "found": _EVERYTHING, **seen}
    return judge(Seen(**given), catalog.select_attached(words), words)


def _levels(report: Report) -> dict[str, Level]:
    return {each.about: each.level for each in report.findings}


def test_what_is_safe_beside_kube_controller_manager_is_good() -> None:
    report = _judged("*", manager=_manager(), granted=_BOTH, requests=(_csr(issued=True),))
    assert report.is_good
    assert not report.switch_off
    assert _levels(report) == {"kube-controller-manager": Level.OK, "guards": Level.OK}


def test_what_rests_on_guards_that_are_not_there_is_said_to_be_off() -> None:
    report = _judged("*", manager=_manager(), unguarded=("no MutatingAdmissionPolicy writers.kubevouch.io",))
    (found,) = [each for each in report.findings if each.about == "guards"]
    assert (found.level, found.hint) == (
        Level.WARNING, "kubectl apply -f deploy/crds/guards.yaml: this API server serves MutatingAdmissionPolicy v1",
    )  # fmt: skip
    older = Discovered({key: verbs for key, verbs in _EVERYTHING.verbs.items() if "kubevouch.io" in key[0]})
    (found,) = [each for each in _judged("*", found=older).findings if each.about == "guards"]
    assert found.level is Level.WARNING and "policies approve nothing" in found.message
    assert not [each for each in _judged("*", unguarded=None).findings if each.about == "guards"]


def test_two_approvers_and_two_signers_are_an_error_that_says_what_to_switch_off() -> None:
    words = ("*", "csrapproving", "csrsigning", "tokencleaner")
    report = _judged(*words, manager=_manager(), granted=_BOTH, requests=(_csr(issued=True),))
    assert not report.is_good
    assert report.switch_off == ("csrapproving", "csrsigning", "tokencleaner")


def test_a_manager_that_is_silent_or_not_there_only_warns() -> None:
    for manager in (None, _manager(60.0)):
        report = _judged("csrapproving", "csrcleaner", manager=manager, granted=_BOTH)
        assert report.is_good
        assert _levels(report)["csrapproving"] is Level.WARNING


def test_an_approver_that_finds_nobody_who_may_is_in_nobodys_way() -> None:
    report = _judged("csrapproving", manager=_manager())
    assert report.is_good


def test_whom_it_approves_is_not_known_to_who_may_not_look() -> None:
    report = _judged("csrapproving", manager=_manager(), granted=None, unreadable=("ClusterRoleBindings: no",))
    found = next(each for each in report.findings if each.about == "csrapproving")
    assert found.level is Level.WARNING
    assert "whom it approves is not known" in found.message and "nobody to approve" not in found.message


def test_what_nobody_signs_is_said() -> None:
    waiting = (_csr(issued=False), _csr(issued=False), _csr(issued=False, age=1.0), _csr(issued=False, signer="a.b/c"))
    report = _judged("joinstatus", manager=_manager(), requests=waiting)
    found = next(each for each in report.findings if each.about == wellknown.KUBELET_SERVING_SIGNER)
    assert (found.level, found.message.split()[0]) == (Level.WARNING, "2")
    signing = _judged("csrsigning", manager=_manager(), requests=waiting)
    assert _levels(signing)[wellknown.KUBELET_SERVING_SIGNER] is Level.OK
    assert signing.is_good


def test_rights_that_are_missing_are_an_error_and_kinds_a_warning() -> None:
    report = _judged("*", found=Discovered(), lacking=("get nodes",))
    assert not report.is_good
    assert report.lacking == ("get nodes",)
    assert len(report.missing_kinds) == len(OWN_KINDS)
    assert _levels(report)["kinds"] is Level.WARNING


def test_a_manager_that_nobody_could_look_at_is_not_said_to_be_away() -> None:
    report = _judged("*", unreadable=("the Lease of kube-controller-manager: no",))
    assert _levels(report)["kube-controller-manager"] is Level.WARNING


def test_of_names_the_first_stands_for_all_unless_they_are_signers() -> None:
    rules = [
        PolicyRule(verbs=["get"], api_groups=[""], resources=["configmaps"], resource_names=["a", "b"]),
        PolicyRule(
            verbs=["sign"], api_groups=["certificates.k8s.io"], resources=["signers"], resource_names=["x/y", "x/z"]
        ),
    ]
    role = Role(metadata=ObjectMeta(name="r", namespace="n"), rules=rules)
    assert [(each.verb, each.name, each.namespace) for each in wanted(Policy(roles=(role,)))] == [
        ("get", "a", "n"), ("sign", "x/y", "n"), ("sign", "x/z", "n"),
    ]  # fmt: skip


def _ran(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = run(["controllers", "check", *map(str, arguments)])
    return code, capsys.readouterr().out


def test_the_command_says_it_of_a_cluster_with_a_manager_and_of_somebody_without_rights(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Cluster(https=True) as cluster:
        named = ("--controllers", "*,csrapproving,csrsigning")
        assert _ran(capsys, "--kubeconfig", cluster.kubeconfig, *named)[0] == 0
        now = MicroTime.of(cluster.clock.now())
        spec = LeaseSpec(holder_identity="cp_1", lease_duration_seconds=15, renew_time=now)
        meta = ObjectMeta(name="kube-controller-manager", namespace="kube-system")
        cluster.run(cluster.client().create(resources.LEASES, Lease(metadata=meta, spec=spec)))
        code, text = _ran(capsys, "--kubeconfig", cluster.kubeconfig, *named)
        assert code == 2
        assert "kube-controller-manager --controllers=*,-csrapproving" in text
        weak = tmp_path / "weak.conf"
        weak.write_text(cluster.kubeconfig_for("nobody"))
        code, text = _ran(capsys, "--kubeconfig", weak, "--controllers", "csrsigning", "-o", "json")
        tree = json.loads(text)
        assert code == 2
        assert "update certificatesigningrequests/status.certificates.k8s.io" in tree["missingRights"]
        told = _ran(capsys, "--kubeconfig", weak, "--controllers", "csrapproving", "-o", "json")[1]
        assert "whom it approves is not known" in told and "nobody to approve" not in told
        code, text = _ran(capsys, "--kubeconfig", weak, "--controllers", "nonsense")
        assert code == 3
