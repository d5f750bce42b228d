"""doctor/ledger.py, server/metrics/ledger.py: a ledger that is filled is seen before it is full."""

from __future__ import annotations

import pytest

from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.doctor.findings import Code
from kubevouch.doctor.ledger import examine, judge
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records.certificate_ledger import LAYOUT, TOKEN_BUDGET, TOTALS_ANNOTATION
from kubevouch.records.config_map_overflow import MAX_BYTES
from kubevouch.testing.cluster import Cluster


def config_map(name: str, totals: str = "{}", length: int = 0) -> ConfigMap:
    meta = ObjectMeta(name=name, namespace="kube-system", annotations={TOTALS_ANNOTATION: totals})
    return ConfigMap(metadata=meta, data={"k": "x" * length})


@pytest.mark.parametrize(("number", "codes"), [(50, []), (52, [Code.LEDGER_FULL])])
def test_the_whole_is_nearly_full(number: int, codes: list[Code]) -> None:
    maps = {name: config_map(name, length=MAX_BYTES - 17) for name in LAYOUT.names[:number]}
    assert [each.code for each in judge(maps)] == codes


def test_the_part_of_a_token_is() -> None:
    half = f'{{"tokens":{{"abcdef":{TOKEN_BUDGET // 5 * 2 + 1},"fedcba":{TOKEN_BUDGET // 5}}}}}'
    maps = {name: config_map(name, half) for name in LAYOUT.names[:2]}
    (found,) = judge(maps)
    assert (found.code, found.fix) == (Code.LEDGER_TOKEN_FULL, "kubevouch token delete abcdef")
    assert found.cause == "the machines that the token abcdef has let in have 12 MiB of the 16 that one token may have"


def test_both_are_read_from_the_cluster() -> None:
    with Cluster() as cluster:
        client = cluster.server.client
        assert cluster.run(examine(client)) == []
        full = f'{{"bytes":7,"tokens":{{"abcdef":{TOKEN_BUDGET}}}}}'
        # Somebody has deleted the further ones before it.
        for name in (LAYOUT.names[3], LAYOUT.further[-1]):
            cluster.run(client.create(CONFIG_MAPS, config_map(name, full)))
        (found,) = cluster.run(examine(client))
        assert found.code is Code.LEDGER_TOKEN_FULL and "have 32 MiB" in found.cause
        text = cluster.run(client.raw("GET", "/metrics")).body.decode()
    assert 'kubevouch_certificate_ledger_bytes{kind="all"} 14.0' in text
    assert 'kubevouch_certificate_ledger_bytes{kind="token"} 3.3554432e+07' in text
