"""root-ca-certificate-publisher-controller: ConfigMap ``kube-root-ca.crt`` in every namespace.

    RootCAError    the file holds no certificate; the text is kube-controller-manager's

Source: pkg/controller/certificates/rootcacertpublisher/publisher.go (Kubernetes 1.36), which reads the bundle once.
Here a changed file is published within a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS, NAMESPACES
from kubevouch.api.core_v1 import ConfigMap, Namespace
from kubevouch.api.core_v1.namespaces import ACTIVE
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import (
    DONE,
    RESYNC_SECONDS,
    Context,
    ReconcileError,
    Request,
    Result,
    is_namespace_terminating,
)
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.util.files import stamp
from kubevouch.util.logger import get_logger

log = get_logger("controllers.root_ca_publisher")

NAME = wellknown.ROOT_CA_PUBLISHER_CONTROLLER

DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class RootCAError(Exception):
    """The file holds no certificate, or cannot be read."""


class RootCAFile:
    """The bundle in ``--root-ca-file``, as it stands there; called for its text."""

    def __init__(self, path: Path | str) -> None:
        """Raises :class:`RootCAError`."""
        self._path = Path(path)
        self._stamp = stamp(path)
        self._text = self._read()

    def __call__(self) -> str:
        """The text now; while the file is no bundle, the last text that was one."""
        seen = stamp(self._path)
        if seen != self._stamp:
            try:
                self._text = self._read()
            except RootCAError as err:
                log.error("the root CA bundle is not taken over", err=str(err))
            else:
                self._stamp = seen
        return self._text

    def _read(self) -> str:
        try:
            text = self._path.read_bytes()
            if not x509_certificate.parse_bundle(text):
                raise ParseError("data does not contain any valid RSA or ECDSA certificates")
            return text.decode()
        except (OSError, ParseError, UnicodeDecodeError) as err:
            raise RootCAError(f"error parsing root-ca-file at {self._path}: {err}") from err


class RootCAPublisher:
    """A request's name is that of a namespace."""

    def __init__(self, client: Client, config_maps: Lister[ConfigMap], root_ca: Callable[[], str]) -> None:
        self._client = client
        self._config_maps = config_maps
        self._root_ca = root_ca

    async def reconcile(self, request: Request) -> Result:
        entries = {wellknown.CA_CERTIFICATE_KEY: self._root_ca()}
        published = self._config_maps.get(wellknown.ROOT_CA_CONFIGMAP, request.name)
        try:
            if published is None:
                await self._create(request.name, entries)
            elif not _is_right(published, entries):
                annotations = published.metadata.annotations | _ANNOTATIONS
                changed = replace_metadata(msgspec.structs.replace(published, data=entries), annotations=annotations)
                await self._client.update(CONFIG_MAPS, changed)
        except APIStatusError as err:
            raise ReconcileError(f'syncing "{request.name}" failed: {err}') from err
        return DONE

    async def _create(self, namespace: str, entries: dict[str, str]) -> None:
        meta = ObjectMeta(name=wellknown.ROOT_CA_CONFIGMAP, namespace=namespace, annotations=_ANNOTATIONS)
        try:
            await self._client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=entries))
        except APIStatusError as err:
            # The namespace is gone, or on its way.
            if err.code != 404 and not is_namespace_terminating(err):
                raise


_ANNOTATIONS = {wellknown.ROOT_CA_DESCRIPTION_ANNOTATION: DESCRIPTION}


def _is_right(published: ConfigMap, entries: dict[str, str]) -> bool:
    """Any description will do, as long as there is one."""
    described = published.metadata.annotations.get(wellknown.ROOT_CA_DESCRIPTION_ANNOTATION)
    return published.data == entries and bool(described)


def _of_new_namespace(namespace: Namespace) -> Iterable[Request]:
    return (Request(namespace.metadata.name),)


def _of_namespace(namespace: Namespace) -> Iterable[Request]:
    return (Request(namespace.metadata.name),) if namespace.status.phase == ACTIVE else ()


def _of_config_map(config_map: ConfigMap) -> Iterable[Request]:
    ours = config_map.metadata.name == wellknown.ROOT_CA_CONFIGMAP
    return (Request(config_map.metadata.namespace),) if ours else ()


def build(context: Context) -> QueueController | None:
    """None when there is no CA to publish."""
    if context.root_ca is None:
        return None
    client = context.connect(NAME)
    namespaces = context.informers.informer(NAMESPACES, client=client)
    config_maps = context.informers.informer(
        CONFIG_MAPS, client=client, field_selector=f"metadata.name={wellknown.ROOT_CA_CONFIGMAP}"
    )
    publisher = RootCAPublisher(client, config_maps.lister, context.root_ca)
    controller = QueueController(NAME, publisher, context.clock)
    controller.watch(namespaces, on_add=_of_new_namespace, on_update=_of_namespace, resync_seconds=RESYNC_SECONDS)
    controller.watch(config_maps, on_update=_of_config_map, on_delete=_of_config_map)
    return controller
