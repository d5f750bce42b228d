"""CertificateSigningRequests as an agent needs them: one at a time, by name, from servers old and new."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from kubevouch.api import catalog, certificates_v1beta1
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.client.interface import Client, ListOptions, WatchEvent, WatchOptions
from kubevouch.machinery.errors import APIStatusError

Found = tuple[CertificateSigningRequest | None, str]
"""The request, None if there is none, and the resource version of the answer."""


class SigningRequests:
    """In certificates.k8s.io/v1, or in v1beta1 once a server has said that it has no v1 (before Kubernetes 1.19)."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._old = False

    @property
    def client(self) -> Client:
        """Who asks, for what belongs to a request."""
        return self._client

    @property
    def version(self) -> str:
        return "v1beta1" if self._old else "v1"

    async def create(self, csr: CertificateSigningRequest) -> CertificateSigningRequest:
        if not self._old:
            try:
                return await self._client.create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr)
            except APIStatusError as err:
                if err.code != 404:
                    raise
            self._old = True
        created = await self._client.create(
            catalog.CERTIFICATE_SIGNING_REQUESTS_V1BETA1, certificates_v1beta1.from_v1(csr)
        )
        return certificates_v1beta1.to_v1(created)

    async def get(self, name: str) -> CertificateSigningRequest:
        if not self._old:
            return await self._client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, name)
        return certificates_v1beta1.to_v1(await self._client.get(catalog.CERTIFICATE_SIGNING_REQUESTS_V1BETA1, name))

    async def find(self, name: str) -> Found:
        """By a list, whose version a watch can go on from."""
        options = ListOptions(field_selector=_named(name))
        if not self._old:
            new = await self._client.list(catalog.CERTIFICATE_SIGNING_REQUESTS, options=options)
            return (new.items[0] if new.items else None), new.resource_version
        old = await self._client.list(catalog.CERTIFICATE_SIGNING_REQUESTS_V1BETA1, options=options)
        return (certificates_v1beta1.to_v1(old.items[0]) if old.items else None), old.resource_version

    async def watch(
        self, name: str, resource_version: str, timeout_seconds: int
    ) -> AsyncGenerator[WatchEvent[CertificateSigningRequest], None]:
        options = WatchOptions(
            field_selector=_named(name), resource_version=resource_version, timeout_seconds=timeout_seconds
        )
        if not self._old:
            async with aclosing(self._client.watch(catalog.CERTIFICATE_SIGNING_REQUESTS, options=options)) as new:
                async for event in new:
                    yield event
            return
        async with aclosing(self._client.watch(catalog.CERTIFICATE_SIGNING_REQUESTS_V1BETA1, options=options)) as old:
            async for change in old:
                obj = None if change.object is None else certificates_v1beta1.to_v1(change.object)
                yield WatchEvent(change.type, obj, change.status)


def _named(name: str) -> str:
    return f"metadata.name={name}"
