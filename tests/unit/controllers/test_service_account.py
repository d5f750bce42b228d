"""controllers/service_account.py"""

from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import answer, world
from kubevouch.api.catalog import NAMESPACES, SERVICE_ACCOUNTS
from kubevouch.api.core_v1 import Namespace
from kubevouch.controllers import service_account
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Request
from kubevouch.machinery.meta import ObjectMeta


@async_test
async def test_every_namespace_has_a_default_account_even_after_somebody_deleted_it() -> None:
    async with world() as at:
        running = await at.run(service_account.NAME)
        await at.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
        await running.settle()
        first = await at.client.get(SERVICE_ACCOUNTS, "default", "team")
        await at.client.delete(SERVICE_ACCOUNTS, "default", "team")
        await running.settle()
        assert (await at.client.get(SERVICE_ACCOUNTS, "default", "team")).metadata.uid != first.metadata.uid


@async_test
async def test_a_namespace_that_is_going_gets_none() -> None:
    async with world() as at:
        await at.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
        await at.client.delete(NAMESPACES, "team")
        await at.run(service_account.NAME)
        assert "team" not in [account.metadata.namespace for account in at.writes()]


@pytest.mark.parametrize(
    ("code", "cause", "retries"), [(409, "", 0), (404, "", 0), (403, "NamespaceTerminating", 0), (403, "", 1)]
)
@async_test
async def test_which_refusals_are_retried(code: int, cause: str, retries: int) -> None:
    async with world() as at:
        at.failures["POST"] = answer(code, cause)
        running = await at.run(service_account.NAME)
        (controller,) = running.manager.controllers
        assert isinstance(controller, QueueController)
        assert controller.queue.requeues(Request("default")) == retries
