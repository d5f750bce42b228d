"""CustomResourceDefinitions as clients write them, and what a server answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from custom_world import GROUP, ask
from kubevouch.client.interface import Client

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE_PATCH = "application/merge-patch+json"
NAME = f"widgets.{GROUP}"


async def create(client: Client, manifest: Any) -> Any:
    """The definition as it is answered. Fails if it was refused."""
    answer = await ask(client, "POST", PATH, manifest)
    assert answer.status == 201, answer.body
    return json.loads(answer.body)


async def read(client: Client, name: str = NAME) -> Any:
    """The definition, None if it is not there."""
    answer = await ask(client, "GET", f"{PATH}/{name}")
    return None if answer.status == 404 else json.loads(answer.body)


async def until(client: Client, holds: Callable[[Any], object], name: str = NAME) -> Any:
    """The definition once ``holds``, which gets None when it has gone."""
    while True:
        found = await read(client, name)
        if holds(found):
            return found
        await asyncio.sleep(0)


def conditions(definition: Any) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of each, in their order."""
    return {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in definition["status"]["conditions"] or ()
    }  # fmt: skip


def is_settled(definition: Any) -> bool:
    """Whether it was judged."""
    return "Established" in conditions(definition)


async def change(client: Client, patch: Any, name: str = NAME, subresource: str = "") -> Any:
    """Status and tree of what a merge patch is answered with."""
    path = f"{PATH}/{name}/{subresource}".removesuffix("/")
    answer = await ask(client, "PATCH", path, patch, MERGE_PATCH)
    return answer.status, json.loads(answer.body)
