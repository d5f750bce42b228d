"""lightkube, whose watch resumes by itself when told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import lightkube
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.certificates_v1 import CertificateSigningRequest
from lightkube.types import PatchType, on_error_retry

from interop.clients.interface import Hear, Manifest, PatchKind, Refused

_PATCHES = {"json": PatchType.JSON, "merge": PatchType.MERGE, "strategic": PatchType.STRATEGIC}
_SUBRESOURCES = {
    "": CertificateSigningRequest,
    "approval": CertificateSigningRequest.Approval,
    "status": CertificateSigningRequest.Status,
}


class LightkubeClient:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    @contextmanager
    def _client(self) -> Iterator[Any]:  # the overloads know one kind of resource at a time
        with lightkube.Client(KubeConfig.from_file(self._kubeconfig), trust_env=False) as client:
            try:
                yield client
            except lightkube.ApiError as err:
                raise Refused(err.status.code or 0, err.status.reason or "") from err

    def create(self, manifest: Manifest) -> Manifest:
        with self._client() as client:
            return _tree(client.create(CertificateSigningRequest.from_dict(manifest)))

    def get(self, name: str) -> Manifest:
        with self._client() as client:
            return _tree(client.get(CertificateSigningRequest, name))

    def pages(self, selector: str, limit: int) -> list[list[str]]:
        """lightkube asks for pages of the given size and hands out one run of items."""
        key, _, value = selector.partition("=")
        with self._client() as client:
            found = client.list(CertificateSigningRequest, labels={key: value}, chunk_size=limit)
            return [[item.metadata.name for item in found]]

    def replace(self, manifest: Manifest, subresource: str = "") -> Manifest:
        with self._client() as client:
            return _tree(client.replace(_SUBRESOURCES[subresource].from_dict(manifest)))

    def patch(self, name: str, patch: Any, kind: PatchKind) -> Manifest:
        with self._client() as client:
            return _tree(client.patch(CertificateSigningRequest, name, patch, patch_type=_PATCHES[kind]))

    def apply(self, manifest: Manifest, manager: str, *, force: bool = False) -> Manifest:
        with self._client() as client:
            obj = CertificateSigningRequest.from_dict(manifest)
            return _tree(client.apply(obj, field_manager=manager, force=force))

    def delete(self, name: str) -> None:
        with self._client() as client:
            client.delete(CertificateSigningRequest, name)

    def delete_all(self, selector: str) -> None:
        """lightkube's deletecollection takes no selector and would delete everybody's."""
        for page in self.pages(selector, 100):
            for name in page:
                self.delete(name)

    def watch(self, selector: str, hear: Hear) -> None:
        ended = threading.Event()
        key, _, value = selector.partition("=")
        with self._client() as client:
            while True:
                try:
                    for _, obj in client.watch(CertificateSigningRequest, labels={key: value}, on_error=on_error_retry):
                        if hear(obj.metadata.name):
                            return
                except httpx2.TransportError:
                    # Its error handler is not asked about a server that does not answer at all.
                    ended.wait(0.1)


def _tree(model: Any) -> Manifest:
    tree: Manifest = model.to_dict()
    return tree
