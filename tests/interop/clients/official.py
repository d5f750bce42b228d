"""The official Python client; its informer watches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import client, config, informer

from interop.clients.interface import APPLY, CONTENT_TYPES, Hear, Manifest, PatchKind, Refused

_UNTYPED: Any = config
_INFORMERS: Any = informer


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except client.ApiException as err:
        raise Refused(err.status, json.loads(err.body or "{}")["reason"]) from err


class OfficialClient:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = str(kubeconfig)

    @contextmanager
    def _api(self) -> Iterator[Any]:  # its models say None wherever the server could leave something out
        with _UNTYPED.new_client_from_config(self._kubeconfig) as api, _refusals():
            yield client.CertificatesV1Api(api)

    def create(self, manifest: Manifest) -> Manifest:
        with self._api() as api:
            return _tree(api.create_certificate_signing_request(_model(manifest)))

    def get(self, name: str) -> Manifest:
        with self._api() as api:
            return _tree(api.read_certificate_signing_request(name))

    def pages(self, selector: str, limit: int) -> list[list[str]]:
        pages, token = [], None
        with self._api() as api:
            while token != "":
                found = api.list_certificate_signing_request(label_selector=selector, limit=limit, _continue=token)
                pages.append([item.metadata.name for item in found.items])
                token = found.metadata._continue or ""
        return pages

    def replace(self, manifest: Manifest, subresource: str = "") -> Manifest:
        with self._api() as api:
            name = f"replace_certificate_signing_request{'_' if subresource else ''}{subresource}"
            return _tree(getattr(api, name)(manifest["metadata"]["name"], _model(manifest)))

    def patch(self, name: str, patch: Any, kind: PatchKind) -> Manifest:
        with self._api() as api:
            return _tree(api.patch_certificate_signing_request(name, patch, _content_type=CONTENT_TYPES[kind]))

    def apply(self, manifest: Manifest, manager: str, *, force: bool = False) -> Manifest:
        with self._api() as api:
            return _tree(
                api.patch_certificate_signing_request(
                    manifest["metadata"]["name"], manifest, field_manager=manager, force=force, _content_type=APPLY
                )
            )

    def delete(self, name: str) -> None:
        with self._api() as api:
            api.delete_certificate_signing_request(name)

    def delete_all(self, selector: str) -> None:
        with self._api() as api:
            api.delete_collection_certificate_signing_request(label_selector=selector)

    def watch(self, selector: str, hear: Hear) -> None:
        ended = threading.Event()

        def seen(obj: Any) -> None:
            if hear(obj.metadata.name):
                ended.set()

        with self._api() as api:
            watching = _INFORMERS.SharedInformer(api.list_certificate_signing_request, label_selector=selector)
            watching.add_event_handler("ADDED", seen)
            watching.start()
            ended.wait()
            watching.stop()


def _model(manifest: Manifest) -> Any:
    return client.V1CertificateSigningRequest.from_dict(manifest)


def _tree(model: Any) -> Manifest:
    api: Any = client.ApiClient()
    tree: Manifest = api.sanitize_for_serialization(model)
    return tree
