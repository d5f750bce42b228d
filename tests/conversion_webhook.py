"""A conversion webhook on a socket, over TLS, and definitions that name it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from custom_world import GROUP, definition, version
from scripted_server import ScriptedServer
from throwaway_ca import ThrowawayCA, server_context

Tree = dict[str, Any]
Answer = Callable[[Tree], Tree]

ONE: Tree = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"hostPort": {"type": "string"}}}},
}
TWO: Tree = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "host": {"type": "string"},
                "port": {"type": "string"},
                "mode": {"type": "string", "default": "x"},
            },
        }
    },
}


def split(request: Tree) -> Tree:
    """``hostPort`` of v1 is ``host`` and ``port`` of v2."""
    return {
        "result": {"status": "Success"},
        "convertedObjects": [_converted(each, request["desiredAPIVersion"]) for each in request["objects"]],
    }


def _converted(obj: Tree, api_version: str) -> Tree:
    spec = dict(obj["spec"])
    if api_version.endswith("v2"):
        spec["host"], _, spec["port"] = spec.pop("hostPort").partition(":")
    else:
        spec = {"hostPort": f"{spec['host']}:{spec['port']}"}
    return {**obj, "apiVersion": api_version, "spec": spec}


class ConversionWebhook:
    """Answers with what a test's function makes of the request; ``reviews`` are those that came.

    ``held``: answers wait until it is set.
    """

    def __init__(self, folder: Path, answer: Answer = split) -> None:
        self.ca = ThrowawayCA("conversion-webhook")
        self.answer = answer
        self.reviews: list[Tree] = []
        self.held = asyncio.Event()
        self.held.set()
        self._came = asyncio.Event()
        self.server = ScriptedServer(server_context(self.ca.issue(), folder), [self._respond])

    async def __aenter__(self) -> ConversionWebhook:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        self.held.set()
        await self.server.__aexit__(*reason)

    @property
    def requests(self) -> list[Tree]:
        return [review["request"] for review in self.reviews]

    async def asked(self, times: int) -> None:
        """Wait until so many reviews have come."""
        while len(self.reviews) < times:
            self._came.clear()
            await self._came.wait()

    async def _respond(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        self.reviews.append(review)
        self._came.set()
        await self.held.wait()
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    def conversion(self, *versions: str) -> Tree:
        """The conversion of a definition."""
        bundle = base64.b64encode(self.ca.bundle).decode()
        client = {"url": f"{self.server.url}/convert", "caBundle": bundle}
        webhook = {"clientConfig": client, "conversionReviewVersions": list(versions or ("v1",))}
        return {"strategy": "Webhook", "webhook": webhook}

    def definition(self, *versions: str, **changes: Any) -> Tree:
        """Widgets in v1, which is stored, and v2."""
        manifest: Tree = definition(version("v1", ONE), version("v2", TWO, storage=False))
        manifest["spec"] |= {"conversion": self.conversion(*versions), **changes}
        return manifest


def widget(name: str = "w", spec: Tree | None = None, api: str = "v1", **metadata: Any) -> Tree:
    """A manifest."""
    return {
        "apiVersion": f"{GROUP}/{api}",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": {"hostPort": "h:1"} if spec is None else spec,
    }
