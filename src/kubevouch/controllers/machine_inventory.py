"""machine-inventory-controller: keeps at hand which machines the operator expects, whatever wrote them down.

AllowedMachine objects come first, then the sources of an InventoryConfiguration in their order. A document that cannot
be read or is wrong leaves what the last good one said; until there was one, nobody knows who is missing.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Protocol

from kubevouch.api.kubevouch_v1alpha1.catalog import ALLOWED_MACHINES
from kubevouch.client.cache.indexer import object_key
from kubevouch.client.credentials import CredentialSource, FixedCredential, TokenFile
from kubevouch.client.interface import ClientConfigurationError, TransportError
from kubevouch.client.options import ClientOptions, Timeouts
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.client.transport import HTTPRequest, HTTPSTransport
from kubevouch.config.inventory_config import ObjectSource, Source, URLSource
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context, Request, Result
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.scheme import GroupVersion, Resource
from kubevouch.policy import inventory
from kubevouch.policy.inventory import InventoryError, Machine
from kubevouch.structural import paths
from kubevouch.structural.paths import Budget
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import elsewhere
from kubevouch.wellknown import MACHINE_INVENTORY_CONTROLLER

log = get_logger("controllers.machine_inventory")

NAME = MACHINE_INVENTORY_CONTROLLER
_MAX_NAMES = 64
_RETRY_SECONDS = 30.0


# ------------------------------------------------------------------ objects


def converter(source: Source, objects: ObjectSource) -> Callable[[CustomObject], Machine | None]:
    """What makes a machine of an object, by the paths that the operator gave."""
    node_name, addresses, dns_names = (
        paths.parse(path) if path else None for path in (objects.node_name, objects.addresses, objects.dns_names)
    )

    def found(path: paths.Path | None, tree: dict[str, object]) -> list[str]:
        values = [] if path is None else path.some(tree, Budget(), _MAX_NAMES)
        return [value for value in values if isinstance(value, str) and value]

    def convert(obj: CustomObject) -> Machine | None:
        meta = obj.metadata
        tree = {**obj.content, "metadata": {"name": meta.name, "namespace": meta.namespace, "labels": meta.labels,
                                            "annotations": meta.annotations}}  # fmt: skip
        names = found(node_name, tree)
        if not names:
            return None
        return Machine(
            node_name=names[0],
            addresses=tuple(each for each in found(addresses, tree) if _is_address(each)),
            dns_names=tuple(each for each in found(dns_names, tree) if not _is_address(each)),
            source=f"{source.name}/{object_key(obj)}",
        )

    return convert


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------ documents


class Document(Protocol):
    """Where a document is read."""

    async def read(self) -> bytes:
        """Raises OSError, TransportError, ClientConfigurationError, InventoryError: not to be had."""
        ...


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> bytes:
        def bounded() -> bytes:
            with self._path.open("rb") as file:
                return file.read(inventory.MAX_BYTES + 1)

        return await elsewhere(bounded)


class _URL:
    """Raises :class:`ClientConfigurationError` for files that cannot be used."""

    def __init__(self, source: URLSource, clock: Clock) -> None:
        parts = urllib.parse.urlsplit(source.url)
        sources = TLSSources(
            ca_bundle=Path(source.certificate_authority) if source.certificate_authority else None,
            certificate=Path(source.client_certificate) if source.client_certificate else b"",
            private_key=Path(source.client_key) if source.client_key else b"",
        )
        credentials: CredentialSource = FixedCredential()
        if source.token_file:
            credentials = TokenFile(Path(source.token_file), clock)
        seconds = float(source.timeout_seconds)
        options = ClientOptions(
            server=f"{parts.scheme}://{parts.netloc}", component="inventory", timeouts=Timeouts.all(seconds),
            max_body_bytes=inventory.MAX_BYTES,
        )  # fmt: skip
        self._url = source.url
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self._request = HTTPRequest("GET", path, seconds, (), {"Accept": "application/yaml, application/json"})
        self._connect = partial(
            HTTPSTransport, options, tls=TLSFiles(sources, clock), credentials=credentials, clock=clock
        )

    async def read(self) -> bytes:
        # A connection for each time: it is read every few seconds at most.
        transport = self._connect()
        try:
            answer = await transport.send(self._request)
        finally:
            await transport.close()
        if answer.status != 200:
            raise InventoryError(f"got status {answer.status} from {self._url}, expected 200")
        return answer.body


class DocumentReader:
    """Reads each document as often as its source says."""

    def __init__(self) -> None:
        self._documents: dict[str, tuple[Document, float, Callable[[Iterable[Machine]], None]]] = {}
        self._read: set[str] = set()

    def add(
        self, name: str, document: Document, seconds: float, replace: Callable[[Iterable[Machine]], None]
    ) -> Request:
        """The request by which it is read."""
        self._documents[name] = document, seconds, replace
        return Request(name)

    async def reconcile(self, request: Request) -> Result:
        document, seconds, replace = self._documents[request.name]
        try:
            text = await document.read()
            machines = await elsewhere(lambda: inventory.read(text, f"inventory/{request.name}"))
        except (OSError, TransportError, ClientConfigurationError, InventoryError) as err:
            why = f"{err.strerror}: {err.filename}" if isinstance(err, OSError) else str(err)
            if request.name in self._read:
                log.error("an inventory cannot be read; what it said before still counts", source=request.name, err=why)
            else:
                log.error(
                    "an inventory cannot be read; nothing is decided until it was read once",
                    source=request.name,
                    err=why,
                )
            return Result(min(seconds, _RETRY_SECONDS))
        self._read.add(request.name)
        replace(machines)
        return Result(seconds)


def build(context: Context) -> QueueController:
    """Raises :class:`ClientConfigurationError` for files of a source that cannot be used."""
    client, found = context.connect(NAME), context.inventory
    machines = context.informers.informer(ALLOWED_MACHINES, client=client)
    found.add_objects(machines, lambda obj: inventory.machine_of(obj, f"allowedmachine/{obj.metadata.name}"))
    reader = DocumentReader()
    controller = QueueController(NAME, reader, context.clock)
    for source in context.inventory_sources:
        if source.objects is not None:
            objects = source.objects
            version = GroupVersion.parse(objects.api_version)
            resource = Resource(
                version.group, version.version, objects.kind, objects.resource, CustomObject,
                namespaced=objects.namespaced,
            )  # fmt: skip
            found.add_objects(context.informers.informer(resource, client=client), converter(source, objects))
        else:
            document = _File(Path(source.file.path)) if source.file else _URL(source.url or URLSource(), context.clock)
            controller.queue.add(
                reader.add(source.name, document, float(source.interval_seconds), found.add_documents())
            )
    return controller
