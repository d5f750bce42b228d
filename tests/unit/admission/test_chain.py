from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asynctest import async_test
from decisions import admission_request
from kubevouch.admission.chain import AdmissionChain
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.api.catalog import CONFIG_MAPS, NODES
from kubevouch.api.core_v1.configmaps import ConfigMap
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import GroupResource


class Plugin:
    """Of both kinds: writes its name into the object, or looks whether that is there; or refuses."""

    def __init__(self, name: str, operation: Operation = Operation.CREATE, *, refuses: bool = False) -> None:
        self.name = name
        self.operation = operation
        self.refuses = refuses
        self.questions = 0

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        self.questions += 1
        return operation is self.operation and resource == CONFIG_MAPS.group_resource and not subresource

    async def admit(self, request: Request) -> Any:
        await self.validate(request)
        seen = request.obj.data.get("seen", "")
        return msgspec.structs.replace(request.obj, data={"seen": seen + self.name})

    async def validate(self, request: Request) -> None:
        if self.refuses:
            raise refused(request, self.name)


def creation(**changes: Any) -> Request:
    obj = ConfigMap(metadata=ObjectMeta(name="menu", namespace="default"))
    return admission_request(Operation.CREATE, CONFIG_MAPS, obj, **changes)


@async_test
async def test_each_plugin_gets_what_the_one_before_made() -> None:
    chain = AdmissionChain([Plugin("a"), Plugin("x", Operation.UPDATE), Plugin("b")])
    request = creation()
    admitted = await chain.admit(request)
    assert admitted.data == {"seen": "ab"}
    assert request.obj is admitted


@pytest.mark.parametrize("phase", ["admit", "validate"])
@async_test
async def test_first_refusal_ends_it(phase: str) -> None:
    plugins = [Plugin("first", refuses=True), Plugin("second", refuses=True)]
    chain = AdmissionChain(plugins, plugins)
    with pytest.raises(APIStatusError, match="first"):
        await getattr(chain, phase)(creation())


@async_test
async def test_phases_do_not_mix() -> None:
    chain = AdmissionChain(mutating=[Plugin("a", refuses=True)], validating=[])
    await chain.validate(creation())
    chain = AdmissionChain(mutating=[], validating=[Plugin("a", refuses=True)])
    request = creation()
    assert await chain.admit(request) is request.obj


@async_test
async def test_choice_is_made_once_for_each_combination() -> None:
    plugin = Plugin("a")
    chain = AdmissionChain([plugin], [plugin])
    for _ in range(3):
        await chain.admit(creation())
        await chain.validate(creation())
    assert plugin.questions == 2
    assert (await chain.admit(creation(subresource="status"))).data == {}
    other = await chain.admit(admission_request(Operation.CREATE, NODES, ConfigMap(metadata=ObjectMeta(name="n"))))
    assert other.data == {}
    assert plugin.questions == 4


@async_test
async def test_plugins_are_taken_over() -> None:
    chain = AdmissionChain()
    assert (await chain.admit(creation())).data == {}
    await chain.validate(creation())
    chain.use(AdmissionChain([Plugin("a")], [Plugin("b", refuses=True)]))
    assert (await chain.admit(creation())).data == {"seen": "a"}
    with pytest.raises(APIStatusError):
        await chain.validate(creation())


class Reinvoking(Plugin):
    """Asks for a second round, again and again."""

    async def admit(self, request: Request) -> Any:
        request.reinvocation.wanted = True
        return await super().admit(request)


@async_test
async def test_a_second_round_for_all_when_one_asks_for_it() -> None:
    request = creation()
    admitted = await AdmissionChain([Plugin("a"), Reinvoking("b")]).admit(request)
    assert admitted.data == {"seen": "abab"}
    assert request.reinvocation.again
