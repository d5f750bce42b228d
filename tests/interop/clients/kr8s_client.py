"""kr8s on its asynchronous side; whoever watches with it resumes by himself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import kr8s
import kr8s.asyncio
from kr8s.asyncio.objects import new_class

from interop.clients.interface import APPLY, CONTENT_TYPES, GROUP, PLURAL, VERSION, Hear, Manifest, PatchKind, Refused

_GROUP_VERSION = f"{GROUP}/{VERSION}"
CertificateSigningRequest = new_class("CertificateSigningRequest", _GROUP_VERSION, namespaced=False, plural=PLURAL)


class Kr8sClient:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = str(kubeconfig)

    def _run(self, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        async def scenario() -> Any:
            api = await kr8s.asyncio.api(kubeconfig=self._kubeconfig)
            try:
                return await ask(api)
            except kr8s.NotFoundError as err:
                raise Refused(404, "NotFound") from err
            except kr8s.ServerError as err:
                status: Any = err.status
                raise Refused(status["code"], status["reason"]) from err
            finally:
                if api._session is not None:
                    await api._session.aclose()

        return asyncio.run(scenario())

    def _call(self, method: str, url: str, **more: Any) -> Any:
        async def ask(api: Any) -> Any:
            async with api.call_api(method, version=_GROUP_VERSION, url=url, **more) as response:
                return response.json()

        return self._run(ask)

    def create(self, manifest: Manifest) -> Manifest:
        async def ask(api: Any) -> Manifest:
            obj = CertificateSigningRequest(manifest, api=api)
            await obj.create()
            tree: Manifest = obj.to_dict()
            return tree

        tree: Manifest = self._run(ask)
        return tree

    def get(self, name: str) -> Manifest:
        async def ask(api: Any) -> Manifest:
            obj = CertificateSigningRequest({"metadata": {"name": name}}, api=api)
            await obj.refresh()
            tree: Manifest = obj.to_dict()
            return tree

        tree: Manifest = self._run(ask)
        return tree

    def pages(self, selector: str, limit: int) -> list[list[str]]:
        """kr8s pages by itself, a hundred at a time, and does not show where they end."""

        async def ask(api: Any) -> list[list[str]]:
            return [[o.name async for o in api.get(CertificateSigningRequest, label_selector=selector)]]

        names: list[list[str]] = self._run(ask)
        return names

    def replace(self, manifest: Manifest, subresource: str = "") -> Manifest:
        path = f"{PLURAL}/{manifest['metadata']['name']}{'/' if subresource else ''}{subresource}"
        tree: Manifest = self._call("PUT", path, content=json.dumps(manifest))
        return tree

    def patch(self, name: str, patch: Any, kind: PatchKind) -> Manifest:
        async def ask(api: Any) -> Manifest:
            obj = CertificateSigningRequest({"metadata": {"name": name}}, api=api)
            await obj.patch(patch, type=kind)
            tree: Manifest = obj.to_dict()
            return tree

        if kind == "strategic":  # kr8s itself knows the other two
            return self._patch(name, patch, CONTENT_TYPES[kind])
        tree: Manifest = self._run(ask)
        return tree

    def _patch(self, name: str, patch: Any, content_type: str, **params: Any) -> Manifest:
        headers = {"Content-Type": content_type}
        tree: Manifest = self._call(
            "PATCH", f"{PLURAL}/{name}", content=json.dumps(patch), headers=headers, params=params
        )
        return tree

    def apply(self, manifest: Manifest, manager: str, *, force: bool = False) -> Manifest:
        return self._patch(manifest["metadata"]["name"], manifest, APPLY, fieldManager=manager, force=force)

    def delete(self, name: str) -> None:
        self._run(lambda api: CertificateSigningRequest({"metadata": {"name": name}}, api=api).delete())

    def delete_all(self, selector: str) -> None:
        self._call("DELETE", PLURAL, params={"labelSelector": selector})

    def watch(self, selector: str, hear: Hear) -> None:
        async def ask(api: Any) -> None:
            while True:
                try:
                    async with aclosing(api.async_watch(CertificateSigningRequest, label_selector=selector)) as events:
                        async for _, obj in events:
                            if hear(obj.name):
                                return
                except (httpx.TransportError, kr8s.APITimeoutError):
                    # Without a version it starts with what is there.
                    await asyncio.sleep(0.1)

        self._run(ask)
