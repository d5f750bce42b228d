"""`kubevouch up --workers 2`: one port, one store, and any worker may die."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubevouch.pki.x509 import x509_certificate
from processes import PATIENCE_SECONDS, Up
from wire import Wire

MAPS = "/api/v1/namespaces/default/configmaps"
WORKERS = 2
MAPS_MADE = 6
WRITES = 25


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("workers")
    audit = folder / "policy.yaml"
    audit.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    arguments = ("--workers", str(WORKERS), "--audit-policy-file", str(audit), "--audit-log-path", "./audit.log")
    with Up(folder, arguments) as running:
        yield running


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def workers(up: Up) -> list[int]:
    (fork_server,) = children(up.pid)
    return children(fork_server)


def wire(up: Up) -> Wire:
    return Wire.of_kubeconfig(up.folder / "cluster/admin.conf", up.folder)


def metric(up: Up, name: str, *labels: str) -> float:
    text = wire(up).request("GET", "/metrics").body.decode()
    found = [line for line in text.split("\n") if line.startswith(name) and all(each in line for each in labels)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def test_a_write_over_any_connection_is_seen_over_every_other(up: Up) -> None:
    at = wire(up)
    for number in range(MAPS_MADE):
        name = f"map-{number}"
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"turn": str(number)}}
        assert at.json("POST", MAPS, tree).code == 201
        # Another connection, and so perhaps another process; as of now, and in the list.
        assert at.request("GET", f"{MAPS}/{name}").code == 200
        found = json.loads(at.request("GET", MAPS).body)
        assert name in {each["metadata"]["name"] for each in found["items"]}


def test_a_machine_joins(up: Up) -> None:
    joined = up.join()
    assert joined.code == 0, joined.stderr


def test_one_scrape_has_what_all_have_counted(up: Up) -> None:
    assert metric(up, "kubevouch_workers ") == WORKERS
    at = wire(up)
    before = metric(up, "apiserver_request_total{", 'resource="endpoints"', 'verb="GET"')
    for _ in range(10):
        assert at.request("GET", "/api/v1/namespaces/default/endpoints/kubernetes").code == 200
    after = metric(up, "apiserver_request_total{", 'resource="endpoints"', 'verb="GET"')
    assert after - before == 10
    found = json.loads(at.request("GET", "/api/v1/componentstatuses/controller-manager").body)
    assert found["conditions"][0]["message"] == "ok"
    # What the owner has signed.
    (authority,) = x509_certificate.parse_bundle((up.folder / "cluster/pki/ca.crt").read_bytes())
    crl = at.request("GET", f"/pki/crl/{authority.meaning.subject_key_id.hex()}/full.crl")
    assert (crl.code, crl.headers["Content-Type"]) == (200, "application/pkix-crl")


def test_all_write_one_audit_log(up: Up) -> None:
    events = [json.loads(line) for line in (up.folder / "audit.log").read_text().splitlines()]
    read = {each["requestURI"] for each in events if each["verb"] == "get"}
    assert {f"{MAPS}/map-{number}" for number in range(MAPS_MADE)} <= read


def test_a_worker_that_is_killed_takes_no_write_along(up: Up) -> None:
    at = wire(up)
    before, counted = workers(up), metric(up, "apiserver_request_total{")
    with at.kept_open() as kept:
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
        assert kept.json("POST", MAPS, tree).code == 201
        for pid in before:
            os.kill(pid, signal.SIGKILL)
    now = before
    while len(now) != WORKERS or set(now) & set(before) or metric(up, "kubevouch_workers ") != WORKERS:
        now = workers(up)
    assert at.request("GET", f"{MAPS}/kept").code == 200
    assert metric(up, "kubevouch_worker_restarts_total ") == WORKERS
    assert metric(up, "apiserver_request_total{") > counted


def test_workers_killed_in_the_middle_of_writes_lose_and_halve_nothing(up: Up) -> None:
    """What was acknowledged is there, in its newest form; what was not is there whole, or not at all."""
    acknowledged: dict[str, int] = {}
    enough = threading.Event()

    def write(writer: int) -> None:
        for turn in range(WRITES):
            name = f"torn-{writer}-{turn}"
            with contextlib.suppress(OSError, http.client.HTTPException), at.kept_open() as kept:
                for version in range(2):
                    method, path = ("POST", MAPS) if not version else ("PUT", f"{MAPS}/{name}")
                    if kept.json(method, path, torn(name, version)).code not in (200, 201):
                        break
                    acknowledged[name] = version
            if len(acknowledged) >= WRITES:
                enough.set()

    at = wire(up)
    writers = [threading.Thread(target=write, args=(each,)) for each in range(4)]
    for each in writers:
        each.start()
    assert enough.wait(PATIENCE_SECONDS)
    for pid in workers(up):
        os.kill(pid, signal.SIGKILL)
    for each in writers:
        each.join()
    while len(workers(up)) != WORKERS or metric(up, "kubevouch_workers ") != WORKERS:
        pass
    listed = json.loads(at.request("GET", MAPS).body)["items"]
    there = {each["metadata"]["name"]: each["data"] for each in listed if each["metadata"]["name"].startswith("torn-")}
    assert acknowledged.keys() <= there.keys()
    for name, found in there.items():
        least = acknowledged.get(name, 0)
        assert found in [torn(name, version)["data"] for version in range(least, 2)], name
    # Nothing that a dead worker held keeps others from writing.
    assert at.json("POST", MAPS, torn("torn-after", 0)).code == 201


def torn(name: str, version: int) -> dict[str, Any]:
    """A ConfigMap whose parts say together which version it is."""
    data = dict.fromkeys(("a", "b", "c"), f"{version}" * 4000)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_workers_end_with_their_owner_and_nothing_is_lost(up: Up) -> None:
    (fork_server,) = children(up.pid)
    left = [os.pidfd_open(pid) for pid in (fork_server, *workers(up))]
    up.end(signal.SIGKILL)
    for each in left:
        assert select.select([each], [], [], PATIENCE_SECONDS)[0]
        os.close(each)
    up.start()
    assert wire(up).request("GET", f"{MAPS}/kept").code == 200
    assert up.end() == 0
