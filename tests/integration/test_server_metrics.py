"""What the server counts and logs of requests that come over a socket."""

from __future__ import annotations

import re
from pathlib import Path

from asynctest import async_test
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.server.options import ServerOptions
from kubevouch.testing.logs import capture_logs
from served_world import Served, served

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"


async def _metrics(at: Served) -> dict[str, float]:
    body = (await at.admin.raw("GET", "/metrics")).body.decode()
    pairs = (line.rpartition(" ") for line in body.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


@async_test
async def test_bytes_events_and_store_calls_are_counted(tmp_path: Path) -> None:
    async with served(tmp_path) as at, at.session() as session:
        async with session.get(CLUSTER_INFO) as answer:
            size = len(await answer.read())
        before = await _metrics(at)
        labels = 'component="apiserver",group="",resource="configmaps",scope="resource",subresource="",verb="GET"'
        assert before[f'apiserver_response_sizes_sum{{{labels},version="v1"}}'] == size
        path = "/apis/certificates.k8s.io/v1/certificatesigningrequests?watch=1&allowWatchBookmarks=1"
        async with session.get(
            f"{path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            headers={"Authorization": f"Bearer {at.token}"},
        ) as stream:
            frame = await stream.content.readline()
            after = await _metrics(at)
        which = '{group="certificates.k8s.io",resource="certificatesigningrequests",version="v1"}'
        assert after[f"apiserver_watch_events_total{which}"] == 1
        assert after[f"apiserver_watch_events_sizes_sum{which}"] == len(frame)
        created = 'etcd_requests_total{group="",operation="create",resource="configmaps"}'
        seconds = 'etcd_request_duration_seconds_count{group="",operation="create",resource="configmaps"}'
        await at.admin.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="one", namespace="default")))
        last = await _metrics(at)
        assert last[created] == last[seconds] == after[created] + 1
        stored = len((await at.admin.list(CONFIG_MAPS)).items)
        assert last['apiserver_resource_objects{group="",resource="configmaps"}'] == stored
        assert last['apiserver_storage_objects{resource="configmaps"}'] == stored
        assert 'apiserver_storage_objects{resource="roles.rbac.authorization.k8s.io"}' in last


@async_test
async def test_a_line_for_each_request_when_asked(tmp_path: Path) -> None:
    async with served(tmp_path, options=ServerOptions(logs_requests=True)) as at, at.session() as session:
        with capture_logs() as logs:
            async with session.get(f"{CLUSTER_INFO}?pretty=1", headers={"User-Agent": "kubectl/v1"}):
                pass
            async with session.get("/api/v1/nodes", headers={"Audit-Id": "mine"}):
                pass
            await at.admin.list(CONFIG_MAPS)
        first, second = [line for line in logs if line["event"] == "HTTP"]
        assert (first["verb"], first["URI"], first["resp"]) == ("GET", f"{CLUSTER_INFO}?pretty=1", 200)
        assert (first["userAgent"], first["srcIP"], first["logger"]) == ("kubectl/v1", "127.0.0.1", "httplog")
        assert re.fullmatch(r"[0-9.]+(µs|ms|s)", first["latency"])
        assert (second["verb"], second["resp"], second["audit-ID"]) == ("LIST", 403, "mine")


@async_test
async def test_flags_share_out_the_seats(tmp_path: Path) -> None:
    async with served(tmp_path, options=ServerOptions(80, 20)) as at:
        seats = {
            name: value for name, value in (await _metrics(at)).items() if "flowcontrol_nominal_limit_seats" in name
        }
        assert sum(seats.values()) <= 110
        assert seats['apiserver_flowcontrol_nominal_limit_seats{priority_level="join"}'] == 25
