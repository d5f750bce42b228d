"""server/metrics/ledger.py: what the records of issued certificates say of themselves."""

from __future__ import annotations

import datetime as dt

from asynctest import async_test
from controller_world import NOW, world
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records.certificate_ledger import LAYOUT, IssuedCertificate, encode, totals_annotation
from kubevouch.server.metrics import ledger

SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"


def entry(name: str, hours: int) -> IssuedCertificate:
    end = NOW + dt.timedelta(hours=hours)
    return IssuedCertificate(common_name=name, signer_name=SIGNER, serial="1", not_before=NOW, not_after=end)


@async_test
async def test_the_soonest_end_of_all_maps_by_signer_and_kind() -> None:
    async with world() as at:
        shards = ([entry("system:node:a", 9), entry("alice", 3)], [entry("system:node:b", 5)])
        for name, entries in zip(LAYOUT.names, shards, strict=False):
            data = encode({each.key: each for each in entries})
            metadata = ObjectMeta(name=name, namespace="kube-system", annotations=totals_annotation(data))
            await at.client.create(CONFIG_MAPS, ConfigMap(metadata=metadata, data=data))
        families = {each.name: each for each in ledger.collect(at.server.api.caches["configmaps"])}
        told = {
            (sample.labels["signer"], sample.labels["kind"]): sample.value
            for sample in families["kubevouch_certificate_soonest_end_seconds"].samples
        }
        assert told == {
            (SIGNER, "node"): (NOW + dt.timedelta(hours=5)).timestamp(),
            (SIGNER, "other"): (NOW + dt.timedelta(hours=3)).timestamp(),
        }
