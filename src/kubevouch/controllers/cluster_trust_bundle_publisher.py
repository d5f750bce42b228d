"""kube-apiserver-serving-clustertrustbundle-publisher-controller: the ClusterTrustBundle of each serving signer.

Source: pkg/controller/certificates/clustertrustbundlepublisher/publisher.go (Kubernetes 1.36), which knows one signer
and reads its anchors once. Here a changed file is published within a minute. Other bundles of these signers go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CLUSTER_TRUST_BUNDLES
from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, RESYNC_SECONDS, Context, ReconcileError, Request, Result
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta

NAME = wellknown.CLUSTER_TRUST_BUNDLE_PUBLISHER_CONTROLLER

_HASH_BYTES = 12


def bundle_name(signer_name: str, trust_bundle: str) -> str:
    """``kubernetes.io:kube-apiserver-serving:<24 hexadecimal digits>``: the anchors decide the name."""
    digest = hashlib.sha256(trust_bundle.encode()).digest()[:_HASH_BYTES].hex()
    return f"{signer_name.replace('/', ':')}:{digest}"


class ClusterTrustBundlePublisher:
    """A request's name is that of a signer."""

    def __init__(
        self, client: Client, bundles: Lister[ClusterTrustBundle], anchors: Mapping[str, Callable[[], str]]
    ) -> None:
        self._client = client
        self._bundles = bundles
        self._anchors = anchors

    async def reconcile(self, request: Request) -> Result:
        """What is right is put in place before what is not goes. One deletion that fails does not keep the others."""
        signer_name, text = request.name, self._anchors[request.name]()
        name = bundle_name(signer_name, text)
        published = self._bundles.get(name)
        if published is None:
            spec = ClusterTrustBundleSpec(signer_name=signer_name, trust_bundle=text)
            wanted = ClusterTrustBundle(metadata=ObjectMeta(name=name), spec=spec)
            await self._client.create(CLUSTER_TRUST_BUNDLES, wanted)
        elif published.spec.trust_bundle != text:
            spec = msgspec.structs.replace(published.spec, trust_bundle=text)
            await self._client.update(CLUSTER_TRUST_BUNDLES, msgspec.structs.replace(published, spec=spec))
        failures = []
        for other in self._bundles.list():
            if other.spec.signer_name == signer_name and other.metadata.name != name:
                try:
                    await self._client.delete(CLUSTER_TRUST_BUNDLES, other.metadata.name)
                except APIStatusError as err:
                    if err.code != 404:
                        failures.append(str(err))
        if failures:
            raise ReconcileError(f"removing other bundles of {signer_name} failed: {'; '.join(failures)}")
        return DONE


def build(context: Context) -> QueueController | None:
    """None when there is nothing to publish."""
    anchors = context.trust_bundles
    if not anchors:
        return None
    client = context.connect(NAME)
    bundles = context.informers.informer(CLUSTER_TRUST_BUNDLES, client=client)
    controller = QueueController(NAME, ClusterTrustBundlePublisher(client, bundles.lister, anchors), context.clock)

    def of_bundle(bundle: ClusterTrustBundle) -> Iterable[Request]:
        signer_name = bundle.spec.signer_name
        return (Request(signer_name),) if signer_name in anchors else ()

    controller.watch(bundles, on_add=of_bundle, on_update=of_bundle, on_delete=of_bundle, resync_seconds=RESYNC_SECONDS)
    for signer_name in anchors:
        controller.queue.add(Request(signer_name))
    return controller
