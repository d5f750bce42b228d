from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asynctest import async_test
from decisions import BOB, admission_request, rights_of
from kubevouch.admission.interface import Operation
from kubevouch.admission.own_kind_protection import OVERRIDDEN_ANNOTATION, OwnKindProtection
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, default_definition
from kubevouch.api.catalog import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SECRETS,
    VALIDATING_ADMISSION_POLICIES,
)
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATION_KIND
from kubevouch.api.kubevouch_v1alpha1.guards import GUARDS
from kubevouch.api.kubevouch_v1alpha1.own_kind import definition_of
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.policy import rule
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.wellknown import API_SERVER_USER, DECISION_RELEASES_PREFIX, MASTERS_GROUP

ALL_ON_DEFINITIONS = rights_of(
    BOB, rule("*", "apiextensions.k8s.io", "*"), rule("*", "admissionregistration.k8s.io", "*")
)
MAY_OVERRIDE = rights_of(BOB, rule("override", "kubevouch.io", "definitions"))
OURS: CustomResourceDefinition = default_definition(definition_of(CERTIFICATE_REVOCATION_KIND))
UNSERVED = msgspec.structs.replace(
    OURS,
    spec=msgspec.structs.replace(OURS.spec, versions=[msgspec.structs.replace(OURS.spec.versions[0], served=False)]),
)
OLDER = msgspec.structs.replace(
    OURS, spec=msgspec.structs.replace(OURS.spec, names=msgspec.structs.replace(OURS.spec.names, short_names=[]))
)


def asked(operation: Operation, new: Any, old: Any, user: UserInfo = BOB, **more: Any) -> Any:
    return admission_request(operation, CUSTOM_RESOURCE_DEFINITIONS, new, old, user=user, **more)


@pytest.mark.parametrize(
    ("operation", "new", "old", "allowed"),
    [
        (Operation.DELETE, None, OURS, False),
        (Operation.CREATE, OURS, None, True),
        (Operation.CREATE, UNSERVED, None, False),
        (Operation.UPDATE, UNSERVED, OURS, False),
        (Operation.UPDATE, OURS, UNSERVED, True),
        # Another version of kubevouch has written it: whoever labels it changes nothing of that.
        (Operation.UPDATE, replace_metadata(OLDER, labels={"a": "b"}), OLDER, True),
        (Operation.UPDATE, replace_metadata(OURS, finalizers=["a/b"]), OURS, False),
    ],
)
@async_test
async def test_a_definition_stays_as_it_is(operation: Operation, new: Any, old: Any, allowed: bool) -> None:
    plugin = OwnKindProtection(ALL_ON_DEFINITIONS)
    if allowed:
        await plugin.validate(asked(operation, new, old))
        return
    with pytest.raises(APIStatusError) as caught:
        await plugin.validate(asked(operation, new, old))
    assert caught.value.code == 403


@async_test
async def test_who_may_override_is_warned_and_audited() -> None:
    request = asked(Operation.DELETE, None, OURS)
    await OwnKindProtection(MAY_OVERRIDE).validate(request)
    assert request.annotations.keys() == {OVERRIDDEN_ANNOTATION}
    assert len(request.warnings) == 1


@async_test
async def test_the_server_itself_is_not_asked() -> None:
    server = UserInfo(API_SERVER_USER, groups=(MASTERS_GROUP,))
    await OwnKindProtection(ALL_ON_DEFINITIONS).validate(asked(Operation.DELETE, None, OURS, server))


@async_test
async def test_guards_likewise() -> None:
    guard = next(obj for resource, obj in GUARDS if resource is VALIDATING_ADMISSION_POLICIES)
    request = admission_request(Operation.DELETE, VALIDATING_ADMISSION_POLICIES, None, guard, user=BOB)
    with pytest.raises(APIStatusError):
        await OwnKindProtection(ALL_ON_DEFINITIONS).validate(request)
    other = replace_metadata(guard, name="others.example.com")
    await OwnKindProtection(ALL_ON_DEFINITIONS).validate(
        admission_request(Operation.DELETE, VALIDATING_ADMISSION_POLICIES, None, other, user=BOB)
    )


WRITER = UserInfo("system:serviceaccount:kube-system:decision-protection-controller")


@pytest.mark.parametrize(
    ("name", "namespace", "user", "allowed"),
    [
        (f"{DECISION_RELEASES_PREFIX}0", "kube-system", BOB, False),
        (f"{DECISION_RELEASES_PREFIX}0", "kube-system", WRITER, True),
        (f"{DECISION_RELEASES_PREFIX}0", "default", BOB, True),
        ("kubevouch-nodes-0", "kube-system", BOB, True),
    ],
)
@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.UPDATE, Operation.DELETE])
@async_test
async def test_releases_of_decisions_are_the_controllers(
    operation: Operation, name: str, namespace: str, user: UserInfo, allowed: bool
) -> None:
    there = ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))
    new = None if operation is Operation.DELETE else there
    old = None if operation is Operation.CREATE else there
    request = admission_request(operation, CONFIG_MAPS, new, old, user=user, namespace=namespace)
    plugin = OwnKindProtection(ALL_ON_DEFINITIONS)
    if allowed:
        await plugin.validate(request)
        return
    with pytest.raises(APIStatusError):
        await plugin.validate(request)
    await OwnKindProtection(MAY_OVERRIDE).validate(request)
    assert len(request.warnings) == 1


@pytest.mark.parametrize(
    ("resource", "subresource", "handled"),
    [
        (CUSTOM_RESOURCE_DEFINITIONS, "", True),
        (CUSTOM_RESOURCE_DEFINITIONS, "status", True),
        (VALIDATING_ADMISSION_POLICIES, "", True),
        (VALIDATING_ADMISSION_POLICIES, "status", True),
        (CONFIG_MAPS, "", True),
        (SECRETS, "", False),
        (NAMESPACES, "", True),
        (NAMESPACES, "status", True),
        (NAMESPACES, "finalize", True),
    ],
)
def test_what_it_looks_at(resource: Any, subresource: str, handled: bool) -> None:
    plugin = OwnKindProtection(ALL_ON_DEFINITIONS)
    assert plugin.handles(Operation.UPDATE, resource.group_resource, subresource) is handled
    assert not plugin.handles(Operation.CONNECT, resource.group_resource, subresource)
