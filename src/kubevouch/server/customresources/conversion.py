"""Conversion by webhooks: objects come in the version that is asked for, or nobody gets them.

Source: apiextensions-apiserver pkg/apiserver/conversion (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from kubevouch.api.admissionregistration_v1.webhooks import HTTPS_PORT
from kubevouch.api.apiextensions_v1.definitions import WEBHOOK
from kubevouch.client.failures import in_words_of_go
from kubevouch.client.interface import ClientConfigurationError, TransportError
from kubevouch.client.webhook import Webhook, WebhookError, at_url, service_url
from kubevouch.machinery import errors
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.text.gotext import quote
from kubevouch.registry.apiextensions.conversion import RelabellingConversion
from kubevouch.registry.apiextensions.custom_resources import ServedKind, ServedKindVersion
from kubevouch.registry.interface import Conversion
from kubevouch.server.customresources.conversion_review import (
    ConversionFailed,
    converted,
    gvk_of,
    review,
    review_version,
)
from kubevouch.util.clock import Clock
from kubevouch.util.worker import compute, elsewhere

SECONDS = 30
COMPONENT = "kube-apiserver-conversion"
# A call's objects, and bytes of its answer. Kubernetes sends a whole list at once.
MAX_OBJECTS, MAX_ANSWER = 500, 32 << 20
# Of one definition. Each may take a connection, whose handshake the loop waits for.
CALLS_AT_ONCE = 64
# From so many objects on the work is done beside the loop; the size of a single one is known to its request.
_MANY = 8


class Converters:
    """The webhooks of all definitions, whose connections are kept while a definition is served as it is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_definition: dict[str, tuple[ServedKind, WebhookConverter]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def conversion(self, owner: ServedKind, version: ServedKindVersion) -> Conversion[CustomObject]:
        """The conversion to one version of a kind."""
        if owner.kind.conversion.get("strategy") != WEBHOOK:
            return RelabellingConversion(owner, version)
        known = self._by_definition.get(owner.kind.definition)
        if known is not None and known[0] is owner:
            return WebhookConversion(owner, version, known[1])
        self.forget(owner.kind.definition)
        converter = WebhookConverter(owner.kind.conversion.get("webhook") or {}, self._clock)
        self._by_definition[owner.kind.definition] = owner, converter
        return WebhookConversion(owner, version, converter)

    def forget(self, definition: str) -> None:
        """It has gone, or is served anew: calls under way end first."""
        known = self._by_definition.pop(definition, None)
        if known is not None:
            task = asyncio.create_task(known[1].close(), name="conversion-webhook-close")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for name in list(self._by_definition):
            self.forget(name)
        if self._closing:
            await asyncio.wait(self._closing)


class WebhookConverter:
    """One definition's webhook.

    Args:
        webhook: what the definition says of it, as a tree.
    """

    def __init__(self, webhook: Any, clock: Clock) -> None:
        self._config = webhook.get("clientConfig") or {}
        self._versions: list[str] = webhook.get("conversionReviewVersions") or []
        self._clock = clock
        self._webhook: Webhook | None = None
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()

    async def convert(self, objects: Sequence[CustomObject], api_version: str) -> list[CustomObject]:
        """``objects``, none of which is in ``api_version``, in it.

        Raises:
            ConversionFailed
        """
        made: list[CustomObject] = []
        for some in _slices(objects):
            made += await self._convert(some, api_version)
        return made

    async def _convert(self, objects: Sequence[CustomObject], api_version: str) -> list[CustomObject]:
        version, uid = review_version(self._versions), str(uuid.uuid4())
        beside = elsewhere if len(objects) >= _MANY else compute
        asked = await beside(partial(review, objects, api_version, uid, version))
        self._users += 1
        self._unused.clear()
        try:
            async with self._calls:
                answer = await self._ask(asked)
        except ConversionFailed as err:
            raise ConversionFailed(f"conversion webhook for {gvk_of(objects[0])} failed: {err}") from err
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()
        return await beside(partial(converted, answer, objects, api_version, uid, version))

    async def _ask(self, asked: bytes) -> bytes:
        service = self._config.get("service")
        if service is not None:
            # No Service can be created here: the answer is kube-apiserver's for one that is not there.
            name, port = service.get("name") or "", service.get("port") or HTTPS_PORT
            at = service_url(service.get("namespace") or "", name, port, service.get("path") or "")
            raise ConversionFailed(f'Post "{at}?timeout={SECONDS}s": service {quote(name)} not found')
        url = self._config.get("url") or ""
        try:
            if self._webhook is None:
                bundle = base64.b64decode(self._config.get("caBundle") or "")
                self._webhook = at_url(
                    url, bundle, self._clock, component=COMPONENT, seconds=SECONDS, max_answer=MAX_ANSWER
                )
            return await self._webhook.ask_bytes(asked, (("timeout", f"{SECONDS}s"),), attempts=1)
        except ClientConfigurationError as err:
            raise ConversionFailed(str(err)) from err
        except WebhookError as err:
            if isinstance(err.__cause__, TransportError):
                raise ConversionFailed(f'Post "{url}?timeout={SECONDS}s": {in_words_of_go(err.__cause__)}') from err
            raise ConversionFailed(str(err)) from err

    async def close(self) -> None:
        """Once nobody waits for an answer."""
        await self._unused.wait()
        if self._webhook is not None:
            await self._webhook.close()


def _slices(objects: Sequence[CustomObject]) -> Iterator[Sequence[CustomObject]]:
    return (objects[start : start + MAX_OBJECTS] for start in range(0, len(objects), MAX_OBJECTS))


class WebhookConversion:
    """A ``registry.interface.Conversion`` that asks; what comes back is cleaned by the version's schema."""

    def __init__(self, owner: ServedKind, version: ServedKindVersion, converter: WebhookConverter) -> None:
        self._owner = owner
        self._version = version
        self._converter = converter

    def serves(self, obj: CustomObject) -> bool:
        return obj.api_version == self._version.api_version

    def at_once(self, obj: CustomObject) -> CustomObject:
        return obj

    async def to_served(self, objs: Sequence[CustomObject]) -> list[CustomObject]:
        return await self._to(self._version, objs)

    async def to_stored(self, obj: CustomObject) -> CustomObject:
        (stored,) = await self._to(self._owner.stored, [obj])
        return stored

    async def _to(self, version: ServedKindVersion, objs: Sequence[CustomObject]) -> list[CustomObject]:
        others = [obj for obj in objs if obj.api_version != version.api_version]
        if not others:
            return list(objs)
        try:
            found = iter(await self._converter.convert(others, version.api_version))
        except ConversionFailed as err:
            raise errors.untyped(str(err)) from err
        beside = elsewhere if len(others) >= _MANY else compute
        made = await beside(partial(_cleaned, list(found), version))
        each = iter(made)
        return [obj if obj.api_version == version.api_version else next(each) for obj in objs]


def _cleaned(objs: list[CustomObject], version: ServedKindVersion) -> list[CustomObject]:
    made = []
    for obj in objs:
        tree = {**msgspec.to_builtins(obj.content), "kind": obj.kind, "apiVersion": obj.api_version, "metadata": {}}
        version.compiled.clean(tree, stored=True)
        content = {key: value for key, value in tree.items() if key not in ("kind", "apiVersion", "metadata")}
        made.append(msgspec.structs.replace(obj, content=content))
    return made
