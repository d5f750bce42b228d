"""What is said of a cluster before attached controllers start."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import click
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
from kubevouch.cli.controllers import check, controllers
from kubevouch.cli.main import run
from kubevouch.client.discovery import Discovered
from kubevouch.controllers import catalog
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.pki.recognizers import NODE_CLIENT
from kubevouch.policy.other_signers import signed_mark
from kubevouch.standalone.attached import manifests
from kubevouch.standalone.attached.check import Intent, Level, Report, Seen, judge, verify_assumed_off, wanted
from kubevouch.standalone.attached.options import AttachedOptionsError
from kubevouch.testing.cluster import Cluster

NOW = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
_EVERYTHING = Discovered(
    {(each.resource.group, each.resource.version, each.resource.plural): frozenset() for each in OWN_KINDS}
    | {("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies"): frozenset()}
)
_SERVING = wellknown.KUBELET_SERVING_SIGNER
_BOTH = frozenset(("nodeclient", "selfnodeclient"))


def _manager(age: float = 1.0, *, leads_for: float = 3600.0) -> LeaseSpec:
    renewed = MicroTime.of(NOW - dt.timedelta(seconds=age))
    acquired = MicroTime.of(NOW - dt.timedelta(seconds=leads_for))
    return LeaseSpec(holder_identity="cp_1", lease_duration_seconds=15, acquire_time=acquired, renew_time=renewed)


def _csr(
    *,
    issued: bool,
    age: float = 300.0,
    signer: str = _SERVING,
    reason: str = "",
    message: str = "",
    marked: bool = False,
) -> CertificateSigningRequest:
    since = Time.of(NOW - dt.timedelta(seconds=age))
    approved = CertificateSigningRequestCondition(
        type="Approved", status="True", last_update_time=since, reason=reason, message=message
    )
    annotations = {wellknown.SIGNED_ANNOTATION: signed_mark(b"x"), wellknown.APPROVED_ANNOTATION: "u"} if marked else {}
    return CertificateSigningRequest(
        metadata=ObjectMeta(name="csr-1", uid="u", annotations=annotations),
        spec=CertificateSigningRequestSpec(signer_name=signer),
        status=CertificateSigningRequestStatus(conditions=[approved], certificate=b"x" if issued else b""),
    )


def _by_manager(*, age: float = 300.0, marked: bool = False) -> CertificateSigningRequest:
    return _csr(issued=True, age=age, reason="AutoApproved", message=NODE_CLIENT.message, marked=marked)


def _judged(*words: str, assumed: tuple[str, ...] = (), signs: tuple[str, ...] | None = None, **seen: Any) -> Report:
    given = {"now": NOW, "found": _EVERYTHING, **seen}
    names = (KUBERNETES_SIGNERS if "csrsigning" in words else ()) if signs is None else signs
    return judge(Seen(**given), Intent(catalog.select_attached(words), words, names, assumed))


def _levels(report: Report) -> dict[str, Level]:
    """The worst about each."""
    return {each.about: each.level for each in reversed(report.findings)}


def test_what_is_safe_beside_kube_controller_manager_is_good() -> None:
    report = _judged("*", manager=_manager(), granted=_BOTH, requests=(_by_manager(),))
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


def test_what_the_one_who_leads_has_approved_and_signed_is_an_error_that_says_what_to_switch_off() -> None:
    words = ("*", "csrapproving", "csrsigning", "tokencleaner")
    report = _judged(*words, manager=_manager(), granted=_BOTH, requests=(_by_manager(),))
    assert not report.is_good
    assert report.switch_off == ("csrapproving", "tokencleaner", "csrsigning")
    assert report.contested == (_SERVING,)
    levels = _levels(report)
    assert [levels[each] for each in report.switch_off] == [Level.ERROR, Level.WARNING, Level.ERROR]


def test_what_nothing_shows_is_not_known_and_what_was_done_here_or_before_shows_nothing() -> None:
    words = ("*", "csrapproving", "csrsigning")
    for requests in ((), (_by_manager(marked=True),), (_by_manager(age=3602.0),)):
        report = _judged(*words, manager=_manager(), granted=_BOTH, requests=requests)
        assert report.is_good
        assert not report.contested
        assert _levels(report)["csrapproving"] is _levels(report)["csrsigning"] is Level.WARNING
        assert "not known" in next(each.message for each in report.findings if each.about == "csrsigning")


def test_what_somebody_says_is_told_as_said_and_what_was_seen_counts_more() -> None:
    words, assumed = ("*", "csrapproving", "csrsigning", "csrcleaner"), ("csrapproving", "csrsigning", "csrcleaner")
    report = _judged(*words, assumed=assumed, manager=_manager(), granted=_BOTH)
    assert {_levels(report)[each] for each in assumed} == {Level.ASSUMED}
    assert (report.assumed, report.switch_off) == (assumed, ())
    seen = _judged(*words, assumed=assumed, manager=_manager(), granted=_BOTH, requests=(_by_manager(),))
    assert {_levels(seen)[each] for each in ("csrapproving", "csrsigning")} == {Level.ERROR}
    assert all("you say" in each.message for each in seen.findings if each.level is Level.ERROR)


def test_without_its_lease_what_was_signed_lately_counts_unless_somebody_says_that_it_ended() -> None:
    lately, before = (_by_manager(age=60.0),), (_by_manager(age=660.0),)
    for manager in (None, _manager(60.0)):
        assert _judged("csrsigning", manager=manager, requests=lately).contested == (_SERVING,)
        assert not _judged("csrsigning", manager=manager, requests=before).contested
        assert not _judged("csrsigning", assumed=("csrsigning",), manager=manager, requests=lately).contested


def test_a_name_of_ones_own_that_somebody_else_signs_is_an_error() -> None:
    requests = (_csr(issued=True, age=60.0, signer="a.b/c"),)
    report = _judged("*", signs=("a.b/c",), manager=_manager(), requests=requests)
    assert (report.contested, report.is_good, report.switch_off) == (("a.b/c",), False, ())
    assert _judged("*", signs=(), described=("a.b/c",), requests=requests).contested == ("a.b/c",)


def test_only_what_kube_controller_manager_has_can_be_assumed_off() -> None:
    verify_assumed_off(("csrapproving", "csrsigning", "tokencleaner"))
    with pytest.raises(AttachedOptionsError, match="got --assume-off joinstatus"):
        verify_assumed_off(("joinstatus",))


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
    assert "would approve is not known" in found.message and "nobody to approve" not in found.message


def test_what_nobody_signs_is_said() -> None:
    waiting = (_csr(issued=False), _csr(issued=False), _csr(issued=False, age=1.0), _csr(issued=False, signer="a.b/c"))
    report = _judged("joinstatus", manager=_manager(), requests=waiting)
    found = next(each for each in report.findings if each.about == wellknown.KUBELET_SERVING_SIGNER)
    assert (found.level, found.message.split()[0]) == (Level.WARNING, "2")
    signing = _judged("csrsigning", manager=_manager(), requests=waiting)
    assert _levels(signing)[wellknown.KUBELET_SERVING_SIGNER] is Level.OK
    assert signing.is_good


def test_every_flag_of_the_run_is_one_of_the_check() -> None:
    def flags(command: click.Command) -> dict[str, tuple[object, ...]]:
        return {
            each.name or "": (tuple(each.opts), each.default, each.multiple)
            for each in command.params
            if isinstance(each, click.Option)
        }

    run_has, check_has = flags(controllers), flags(check)
    assert {name: check_has.get(name) for name in run_has} == run_has
    assert set(check_has) - set(run_has) == {"output"}


def test_what_is_shipped_takes_no_name_of_kubernetes_by_its_own_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(https=True) as cluster:
        for program in manifests.PROGRAMS:
            code, text = _ran(
                capsys, "--kubeconfig", cluster.kubeconfig, *manifests.arguments(program)[1:], "-o", "json"
            )
            assert (code, json.loads(text)["signs"]) == (0, []), text


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
        assert code == 0
        assert "kube-controller-manager --controllers=*,-csrapproving" in text
        assert "not known" in text
        code, text = _ran(capsys, "--kubeconfig", cluster.kubeconfig, *named, "--assume-off", "csrapproving")
        assert (code, "· csrapproving: assumed" in text) == (0, True)
        weak = tmp_path / "weak.conf"
        weak.write_text(cluster.kubeconfig_for("nobody"))
        code, text = _ran(capsys, "--kubeconfig", weak, "--controllers", "csrsigning", "-o", "json")
        tree = json.loads(text)
        assert code == 2
        assert "update certificatesigningrequests/status.certificates.k8s.io" in tree["missingRights"]
        told = _ran(capsys, "--kubeconfig", weak, "--controllers", "csrapproving", "-o", "json")[1]
        assert "would approve is not known" in told and "nobody to approve" not in told
        code, text = _ran(capsys, "--kubeconfig", weak, "--controllers", "nonsense")
        assert code == 3
