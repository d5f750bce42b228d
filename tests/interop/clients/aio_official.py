"""kubernetes-asyncio; whoever watches with it resumes by himself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes_asyncio import client, config, watch

from interop.clients.interface import APPLY, CONTENT_TYPES, Hear, Manifest, PatchKind, Refused

_GONE = 410


class AsyncioClient:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = str(kubeconfig)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[client.ApiClient]:
        settings = client.Configuration()
        await config.load_kube_config(self._kubeconfig, client_configuration=settings)
        async with client.ApiClient(settings) as opened:
            yield opened

    def _run(self, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        async def scenario() -> Any:
            async with self._open() as opened:
                try:
                    answer = await ask(client.CertificatesV1Api(opened))
                except client.ApiException as err:
                    raise Refused(err.status, json.loads(err.body or b"{}")["reason"]) from err
                return opened.sanitize_for_serialization(answer)

        return asyncio.run(scenario())

    def create(self, manifest: Manifest) -> Manifest:
        tree: Manifest = self._run(lambda api: api.create_certificate_signing_request(manifest))
        return tree

    def get(self, name: str) -> Manifest:
        tree: Manifest = self._run(lambda api: api.read_certificate_signing_request(name))
        return tree

    def pages(self, selector: str, limit: int) -> list[list[str]]:
        pages, token = [], ""
        while True:
            more = {"_continue": token} if token else {}
            found = self._run(
                lambda api: api.list_certificate_signing_request(label_selector=selector, limit=limit, **more)  # noqa: B023 - runs at once
            )
            pages.append([item["metadata"]["name"] for item in found["items"]])
            token = found["metadata"].get("continue", "")
            if not token:
                return pages

    def replace(self, manifest: Manifest, subresource: str = "") -> Manifest:
        call = f"replace_certificate_signing_request{'_' if subresource else ''}{subresource}"
        tree: Manifest = self._run(lambda api: getattr(api, call)(manifest["metadata"]["name"], manifest))
        return tree

    def patch(self, name: str, patch: Any, kind: PatchKind) -> Manifest:
        tree: Manifest = self._run(
            lambda api: api.patch_certificate_signing_request(name, patch, _content_type=CONTENT_TYPES[kind])
        )
        return tree

    def apply(self, manifest: Manifest, manager: str, *, force: bool = False) -> Manifest:
        name = manifest["metadata"]["name"]
        tree: Manifest = self._run(
            lambda api: api.patch_certificate_signing_request(
                name, manifest, field_manager=manager, force=force, _content_type=APPLY
            )
        )
        return tree

    def delete(self, name: str) -> None:
        self._run(lambda api: api.delete_certificate_signing_request(name))

    def delete_all(self, selector: str) -> None:
        self._run(lambda api: api.delete_collection_certificate_signing_request(label_selector=selector))

    def watch(self, selector: str, hear: Hear) -> None:
        asyncio.run(self._watch(selector, hear))

    async def _watch(self, selector: str, hear: Hear) -> None:
        async with self._open() as opened:
            list_requests = client.CertificatesV1Api(opened).list_certificate_signing_request
            version = ""
            while True:
                stream = watch.Watch()
                try:
                    if not version:
                        found = await list_requests(label_selector=selector)
                        version = found.metadata.resource_version
                        for item in found.items:
                            if hear(item.metadata.name):
                                return
                    async with stream.stream(
                        list_requests, label_selector=selector, resource_version=version
                    ) as events:
                        async for event in events:
                            version = event["object"].metadata.resource_version
                            if hear(event["object"].metadata.name):
                                return
                except client.ApiException as err:
                    if err.status != _GONE:
                        raise
                    version = ""
                except aiohttp.ClientError:
                    # The server is away for a moment.
                    await asyncio.sleep(0.1)
                finally:
                    stream.stop()
