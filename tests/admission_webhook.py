"""An admission webhook on a socket, over TLS, and the configurations that name it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from scripted_server import ScriptedServer
from throwaway_ca import ThrowawayCA, server_context

Tree = dict[str, Any]
Answer = Callable[[Tree], Tree]


class AdmissionWebhook:
    """Answers reviews with what a test's function makes of the request; ``reviews`` are those that came."""

    def __init__(self, folder: Path, answer: Answer | None = None) -> None:
        self.ca = ThrowawayCA("admission-webhook")
        self.answer: Answer = answer or allow
        self.reviews: list[Tree] = []
        self.server = ScriptedServer(server_context(self.ca.issue(), folder), [self._respond])

    async def __aenter__(self) -> AdmissionWebhook:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        await self.server.__aexit__(*reason)

    @property
    def requests(self) -> list[Tree]:
        return [review["request"] for review in self.reviews]

    async def _respond(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        self.reviews.append(review)
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    def entry(self, name: str = "w.example.com", **changes: Any) -> Tree:
        """A webhook of a configuration, about config maps in every namespace unless ``changes`` say otherwise."""
        return {
            "name": name,
            "clientConfig": {"url": f"{self.server.url}/{name}", "caBundle": base64.b64encode(self.ca.bundle).decode()},
            "rules": [rule()],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **changes,
        }


def rule(resource: str = "configmaps", *operations: str, group: str = "", version: str = "v1", **changes: Any) -> Tree:
    return {
        "operations": list(operations or ("*",)),
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
        **changes,
    }


def configuration(kind: str, *webhooks: Tree, name: str = "c") -> Tree:
    """``kind`` is Validating or Mutating."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def config_map(name: str = "a", **data: str) -> Tree:
    """With some data even if none is given: what is empty is absent, which expressions do not forgive."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"k": "v"}}


# ------------------------------------------------------------------ answers


def allow(_request: Tree) -> Tree:
    return {"allowed": True}


def deny(message: str = "", **status: Any) -> Answer:
    return lambda _request: {"allowed": False, "status": {"message": message, **status}}


def patch(*operations: Tree) -> Answer:
    encoded = base64.b64encode(msgspec.json.encode(operations)).decode()
    return lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def set_data(key: str, value: str) -> Answer:
    return patch({"op": "add", "path": f"/data/{key}", "value": value})
