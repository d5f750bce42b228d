"""kubeadm's approving bindings are taken away, written down, kept away, and put back only if they were taken."""

from __future__ import annotations

import pytest
from msgspec import structs

from kubevouch import wellknown
from kubevouch.api.rbac_v1 import ClusterRoleBinding, Subject
from kubevouch.authorization.kubeadm_policy import kubeadm_policy
from kubevouch.config.attestation_config import BOOTSTRAP, RENEWAL
from kubevouch.policy.approval_bindings import EVERY, NAMES, ROLES, Plan, plan, written
from node_cases import CASES

OURS = {each.metadata.name: each for each in kubeadm_policy().cluster_role_bindings}
FIRST = OURS["kubeadm:node-autoapprove-bootstrap"]
NEXT = OURS["kubeadm:node-autoapprove-certificate-rotation"]
NOTHING = frozenset[str]()


def record(*bindings: ClusterRoleBinding) -> dict[str, str]:
    return {BOOTSTRAP if each is FIRST else RENEWAL: written(each) for each in bindings}


def test_what_kubeadm_makes_is_taken_away_once_it_is_written_down() -> None:
    found = plan(EVERY, {}, OURS.values())
    assert found == Plan(record=record(FIRST, NEXT), remove=(FIRST, NEXT))
    # Stopped after the record and before the deletion, or kubeadm has made them anew.
    assert plan(EVERY, record(FIRST, NEXT), OURS.values()) == Plan(remove=(FIRST, NEXT))
    assert plan(EVERY, record(FIRST, NEXT), ()) == Plan()


def test_each_is_taken_away_by_itself() -> None:
    assert plan(frozenset((BOOTSTRAP,)), {}, OURS.values()).remove == (FIRST,)
    assert plan(frozenset((RENEWAL,)), {}, OURS.values()).remove == (NEXT,)
    turned = plan(frozenset((RENEWAL,)), record(FIRST, NEXT), ())
    assert (turned.restore, turned.forget) == ((FIRST,), (BOOTSTRAP,))


def test_only_what_was_taken_away_here_is_put_back() -> None:
    assert plan(NOTHING, {}, ()) == Plan()
    assert plan(NOTHING, record(FIRST), ()) == Plan(restore=(FIRST,), forget=(BOOTSTRAP,))
    # Somebody has made it meanwhile: that one stays.
    assert plan(NOTHING, record(FIRST), (FIRST,)) == Plan(forget=(BOOTSTRAP,))


def test_bindings_of_these_names_that_approve_nothing_are_left_alone() -> None:
    view = structs.replace(FIRST, role_ref=structs.replace(FIRST.role_ref, name="view"))
    assert plan(EVERY, {}, (view,)) == Plan()


def test_others_that_approve_likewise_are_told_of() -> None:
    own = structs.replace(FIRST, metadata=structs.replace(FIRST.metadata, name="auto-approve"))
    assert plan(EVERY, {}, (own, FIRST)).others == ("auto-approve",)
    assert plan(NOTHING, {}, (own,)).others == ()


WIDER = structs.replace(
    FIRST, subjects=[Subject(kind="Group", api_group=FIRST.role_ref.api_group, name=wellknown.AUTHENTICATED_GROUP)]
)


def test_what_was_taken_first_is_what_is_put_back() -> None:
    assert plan(EVERY, record(FIRST), (WIDER,)) == Plan(remove=(WIDER,))
    assert plan(EVERY, {BOOTSTRAP: "{"}, (FIRST,)).record == record(FIRST)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        written(NEXT),
        written(WIDER),
        written(structs.replace(FIRST, subjects=[*FIRST.subjects, *WIDER.subjects])),
        written(structs.replace(FIRST, subjects=[*FIRST.subjects, Subject(kind="User", name="eve")])),
        written(structs.replace(FIRST, subjects=[])),
        written(structs.replace(FIRST, role_ref=structs.replace(FIRST.role_ref, name="cluster-admin"))),
    ],
)
def test_a_record_that_was_tampered_with_gives_nobody_a_right(text: str) -> None:
    assert plan(NOTHING, {BOOTSTRAP: text}, ()) == Plan(kept=(BOOTSTRAP,))


def test_a_record_of_another_binding_gives_nobody_a_right() -> None:
    admin = structs.replace(FIRST, metadata=structs.replace(FIRST.metadata, name="admins"))
    assert plan(NOTHING, {"admins": written(admin)}, ()).restore == ()


def test_the_names_and_roles_are_those_that_kubeadm_makes() -> None:
    assert {what: OURS[name].role_ref.name for what, name in NAMES.items()} == ROLES


def test_the_case_of_the_facts() -> None:
    then = next(case["then"] for case in CASES if case["id"] == "capi-011")
    wanted = [name.removeprefix("ClusterRoleBinding/") for name in (*then["deleted"], *then["also_recommended"])]
    assert [each.metadata.name for each in plan(EVERY, {}, OURS.values()).remove] == wanted
