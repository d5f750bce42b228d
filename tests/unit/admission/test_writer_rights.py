from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from decisions import BOB, admission_request, rights_of
from kubevouch.admission.interface import Operation
from kubevouch.admission.writer_rights import WriterRights
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    ALLOWED_MACHINES,
    CERTIFICATE_APPROVALS,
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_SIGNERS,
    NODE_IDENTITIES,
)
from kubevouch.api.kubevouch_v1alpha1.writer_guards import WRITER_ANNOTATION
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.policy import rule
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource

RECORD = "bob\nsystem:authenticated"
APPROVE = rule("approve", "certificates.k8s.io", "signers", ["example.com/*"])


def custom(spec: dict[str, Any], record: str = RECORD) -> CustomObject:
    annotations = {WRITER_ANNOTATION: record} if record else {}
    return CustomObject(metadata=ObjectMeta(name="a", annotations=annotations), content={"spec": spec})


def selecting(*names: str, **spec: Any) -> dict[str, Any]:
    return {"effect": "Approve", "mode": "Enforce", "selector": {"signerNames": list(names)}, **spec}


async def refusal(
    resource: Resource[Any],
    new: CustomObject,
    old: CustomObject | None = None,
    *rules: PolicyRule,
    user: UserInfo = BOB,
) -> str:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    request = admission_request(operation, resource, new, old, user=user)
    try:
        await WriterRights(rights_of(user, *rules)).validate(request)
    except APIStatusError as err:
        return f"{err.code}: {err}"
    return ""


@pytest.mark.parametrize(
    ("operation", "resource", "subresource", "handled"),
    [
        (Operation.CREATE, CERTIFICATE_REQUEST_POLICIES, "", True),
        (Operation.UPDATE, CERTIFICATE_SIGNERS, "", True),
        (Operation.UPDATE, ALLOWED_MACHINES, "", True),
        (Operation.UPDATE, NODE_IDENTITIES, "", True),
        (Operation.UPDATE, NODE_IDENTITIES, "status", False),
        (Operation.DELETE, CERTIFICATE_REQUEST_POLICIES, "", False),
        (Operation.CREATE, CERTIFICATE_APPROVALS, "", False),
    ],
)
def test_handles_what_controllers_carry_out(
    operation: Operation, resource: Resource[Any], subresource: str, handled: bool
) -> None:
    plugin = WriterRights(rights_of(BOB))
    assert plugin.handles(operation, resource.group_resource, subresource) is handled


@async_test
async def test_the_first_signer_without_the_right_is_named() -> None:
    found = await refusal(
        CERTIFICATE_REQUEST_POLICIES, custom(selecting("example.com/a", "example.org/b")), None, APPROVE
    )
    assert 'may not approve for signerName "example.org/b"' in found
    found = await refusal(CERTIFICATE_REQUEST_POLICIES, custom(selecting("*")), None, APPROVE)
    assert "may not approve for every signer" in found
    assert not await refusal(CERTIFICATE_REQUEST_POLICIES, custom(selecting("example.com/a")), None, APPROVE)


@pytest.mark.parametrize("spec", [{"effect": "Require"}, {"mode": "Audit"}])
@async_test
async def test_what_approves_nothing_needs_no_right(spec: dict[str, str]) -> None:
    assert not await refusal(CERTIFICATE_REQUEST_POLICIES, custom(selecting("*", **spec), record=""))


@pytest.mark.parametrize("record", ["", "alice\nsystem:authenticated", "bob\nsystem:authenticated\nteam"])
@async_test
async def test_a_record_of_somebody_else_is_refused(record: str) -> None:
    found = await refusal(CERTIFICATE_REQUEST_POLICIES, custom(selecting("example.com/a"), record), None, APPROVE)
    assert "the writer is not recorded" in found


@async_test
async def test_an_update_is_looked_at_where_spec_or_record_changes() -> None:
    stood = custom(selecting("example.org/b"), "alice")
    assert not await refusal(CERTIFICATE_REQUEST_POLICIES, custom(selecting("example.org/b"), "alice"), stood)
    for new in (custom(selecting("example.org/b")), custom(selecting("example.org/c"), "alice")):
        assert "may not approve" in await refusal(CERTIFICATE_REQUEST_POLICIES, new, stood)


@async_test
async def test_a_name_of_two_lines_writes_no_policy() -> None:
    split = UserInfo("bob", groups=("a\nsystem:masters",))
    found = await refusal(
        CERTIFICATE_REQUEST_POLICIES, custom(selecting("example.com/a"), "bob\na\nsystem:masters"), None, APPROVE,
        user=split,
    )  # fmt: skip
    assert "name has a line feed" in found


@async_test
async def test_a_ca_is_named_by_who_may_read_or_use_it() -> None:
    sign = rule("sign", "certificates.k8s.io", "signers", ["example.com/web"])
    named = {"signerName": "example.com/web", "ca": {"name": "production"}}
    assert "right to use" in await refusal(CERTIFICATE_SIGNERS, custom(named), None, sign)
    use = rule("use", "kubevouch.io", "certificateauthorities", ["production"])
    assert not await refusal(CERTIFICATE_SIGNERS, custom(named), None, sign, use)
    assert "may not sign" in await refusal(CERTIFICATE_SIGNERS, custom(named), None, use)
