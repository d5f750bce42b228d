"""What a chain reports of its plug-ins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from asynctest import async_test
from decisions import admission_request
from kubevouch.admission.chain import AdmissionChain
from kubevouch.admission.interface import Operation, Reinvocation, Request
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.testing.clock import FakeClock


@dataclass
class Seen:
    """Tells the time, and keeps what it is told."""

    clock: FakeClock
    told: list[tuple[object, ...]] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def step(self, step: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self.told.append((step, operation, round(seconds, 3), rejected))

    def plugin(self, name: str, step: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self.told.append((name, step, operation, round(seconds, 3), rejected))

    def webhook(self, name: str, kind: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None: ...

    def webhook_rejected(self, name: str, kind: str, operation: str, error: str, code: int) -> None: ...

    def webhook_failed_open(self, name: str, kind: str) -> None: ...

    def policy(self, policy: str, binding: str, error: str, action: str, seconds: float) -> None: ...

    def mutation(self, policy: str, binding: str, error: str, seconds: float) -> None: ...


class Slow:
    """Takes so many seconds, and may refuse or ask to be run again."""

    def __init__(self, name: str, clock: FakeClock, seconds: float, *, refuses: bool = False) -> None:
        self.name = name
        self._clock, self._seconds, self._refuses = clock, seconds, refuses

    def handles(self, *_about: object) -> bool:
        return True

    async def admit(self, request: Request) -> Any:
        await self.validate(request)
        return request.obj

    async def validate(self, request: Request) -> None:
        self._clock.advance(self._seconds)
        if self._refuses:
            raise errors.forbidden(request.resource, request.name, "no")


def chain(*plugins: Slow, clock: FakeClock) -> tuple[AdmissionChain, Seen]:
    made, seen = AdmissionChain(plugins, plugins), Seen(clock)
    made.report_to(seen)
    return made, seen


@async_test
async def test_each_plug_in_and_the_step() -> None:
    clock = FakeClock()
    made, seen = chain(Slow("a", clock, 1), Slow("b", clock, 2), clock=clock)
    request = admission_request(Operation.CREATE, CONFIG_MAPS, ConfigMap())
    await made.admit(request)
    await made.validate(request)
    for step, told in (("admit", seen.told[:3]), ("validate", seen.told[3:])):
        assert told == [("a", step, "CREATE", 1, False), ("b", step, "CREATE", 2, False), (step, "CREATE", 3, False)]


@async_test
async def test_a_refusal_ends_the_step() -> None:
    clock = FakeClock()
    made, seen = chain(Slow("a", clock, 1), Slow("b", clock, 2, refuses=True), Slow("c", clock, 4), clock=clock)
    request = admission_request(Operation.DELETE, CONFIG_MAPS, None, ConfigMap())
    for step, run in (("admit", made.admit), ("validate", made.validate)):
        seen.told.clear()
        with pytest.raises(APIStatusError):
            await run(request)
        assert seen.told == [
            ("a", step, "DELETE", 1, False), ("b", step, "DELETE", 2, True), (step, "DELETE", 3, True),
        ]  # fmt: skip


@async_test
async def test_a_second_round_is_of_the_same_step() -> None:
    clock = FakeClock()
    made, seen = chain(Slow("a", clock, 1), clock=clock)
    request = admission_request(Operation.CREATE, CONFIG_MAPS, ConfigMap())
    request.reinvocation = Reinvocation(wanted=True)
    await made.admit(request)
    plugin = ("a", "admit", "CREATE", 1, False)
    assert seen.told == [plugin, plugin, ("admit", "CREATE", 2, False)]
