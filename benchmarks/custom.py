"""Custom objects beside ConfigMaps that say the same: server CPU of creates, gets, lists and watched patches.

Both kinds take turns on one server, so that whatever else the machine does is felt by both. docs/benchmarks.md says
what was seen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

import report
from cluster import Cluster, running
from http1 import Connection

CLIENTS = 16
_GROUP = "bench.example.com"
_MERGE_PATCH = "application/merge-patch+json"
_TEXT = {"type": "string", "maxLength": 253, "description": "What it is, in a sentence, and what follows without it."}
_NUMBER = {"type": "integer", "format": "int32", "minimum": 0, "description": "How much of it there may be."}
_FLAG = {"type": "boolean", "description": "Whether it is to be so."}
_RULES = (
    "self.secretName.size() > 0",
    "!has(self.commonName) || self.commonName.size() <= 64",
    "has(self.dnsNames) || has(self.commonName)",
    "!has(self.isCA) || !self.isCA || has(self.commonName)",
    "self.issuerRef.name != ''",
    "!has(self.dnsNames) || self.dnsNames.all(name, name.size() < 254)",
    "!has(self.privateKey) || !has(self.privateKey.size) || self.privateKey.size in [256, 384, 521, 2048, 4096]",
    "!has(self.duration) || self.duration.endsWith('h')",
    "self.secretName.matches('^[a-z0-9.-]+$')",
    "!has(self.usages) || self.usages.exists(usage, usage == 'server auth')",
)


def _texts(**more: Any) -> Any:
    return {"type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 100, "items": _TEXT, **more}


def _object(properties: dict[str, Any], **more: Any) -> Any:
    return {"type": "object", "description": _TEXT["description"], "properties": properties, **more}


def _schema(rules: tuple[str, ...]) -> Any:
    """Some 500 lines, of the shape of a certificate's schema."""
    reference = _object({"group": _TEXT, "kind": _TEXT, "name": _TEXT}, required=["name"])
    secret = _object({"key": _TEXT, "name": _TEXT}, required=["name"])
    store = _object(
        {
            "create": _FLAG,
            "alias": _TEXT,
            "passwordSecretRef": secret,
            "profile": {"type": "string", "enum": ["A", "B"]},
        },
        required=["create"],
    )
    names = _object({key: _texts() for key in ("dnsDomains", "emailAddresses", "ipRanges", "uriDomains")})
    spec = _object(
        {
            **dict.fromkeys(("commonName", "duration", "literalSubject", "renewBefore", "secretName"), _TEXT),
            **{key: _texts() for key in ("dnsNames", "emailAddresses", "ipAddresses", "uris", "usages")},
            **dict.fromkeys(("encodeUsagesInRequest", "isCA"), _FLAG),
            **dict.fromkeys(("renewBeforePercentage", "revisionHistoryLimit"), _NUMBER),
            "issuerRef": reference,
            "keystores": _object({"jks": store, "pkcs12": store}),
            "nameConstraints": _object({"critical": _FLAG, "excluded": names, "permitted": names}),
            "otherNames": _texts(items=_object({"oid": _TEXT, "utf8Value": _TEXT})),
            "privateKey": _object({"algorithm": {"type": "string", "enum": ["RSA", "ECDSA"]}, "size": _NUMBER}),
            "secretTemplate": _object({"labels": {"type": "object", "additionalProperties": _TEXT}}),
            "subject": _object({key: _texts() for key in ("countries", "localities", "organizations", "provinces")}),
        },
        required=["issuerRef", "secretName"],
    )
    if rules:
        spec["x-kubernetes-validations"] = [{"rule": rule, "message": "it does not hold"} for rule in rules]
    condition = _object(dict.fromkeys(("message", "reason", "status", "type"), _TEXT), required=["type"])
    lists = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    conditions = {"type": "array", "items": condition, **lists}
    times = {key: {"type": "string", "format": "date-time"} for key in ("notAfter", "notBefore", "renewalTime")}
    return _object({"spec": spec, "status": _object({"conditions": conditions, "revision": _NUMBER, **times})})


def _definition(plural: str, kind: str, rules: tuple[str, ...] = ()) -> Any:
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version | {"schema": {"openAPIV3Schema": _schema(rules)}}],
        },
    }


def _certificate(kind: str, name: str) -> Any:
    spec = {
        "secretName": f"{name}-tls", "duration": "2160h", "renewBefore": "360h", "isCA": False,
        "dnsNames": [f"{name}.example.com", "www.example.com"], "commonName": f"{name}.example.com",
        "usages": ["server auth", "client auth"], "privateKey": {"algorithm": "ECDSA", "size": 256},
        "issuerRef": {"name": "ca", "kind": "ClusterIssuer", "group": _GROUP}, "subject": {"organizations": ["a"]},
    }  # fmt: skip
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _config_map(name: str) -> Any:
    spec = _certificate("", name)["spec"]
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in spec.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": values}


class _Kind:
    """Objects of one kind, and what requests for them cost."""

    def __init__(self, cluster: Cluster, watchers: int, path: str, make: Callable[[str], Any], field: str) -> None:
        self._cluster = cluster
        self._watchers = watchers
        self._path = path
        self._make = make
        self._field = field

    async def _cost(self, count: int, ask: Callable[[Connection, int], Awaitable[object]]) -> float:
        """Milliseconds of the server's CPU for a request; ``count`` of them over kept connections."""
        connections = [await self._cluster.connect_as_admin() for _ in range(min(CLIENTS, count))]
        numbers = iter(range(count))

        async def client(connection: Connection) -> None:
            for number in numbers:
                await ask(connection, number)

        before = self._cluster.scheduled_seconds()
        await asyncio.gather(*map(client, connections))
        spent = self._cluster.scheduled_seconds() - before
        for connection in connections:
            connection.close()
        return 1000 * spent / count

    async def create(self, count: int) -> float:
        async def ask(connection: Connection, number: int) -> None:
            await connection.request("POST", self._path, json.dumps(self._make(f"o{number}")).encode())

        return await self._cost(count, ask)

    async def get(self, count: int) -> float:
        return await self._cost(count, lambda connection, number: connection.request("GET", f"{self._path}/o{number}"))

    async def list(self) -> float:
        return await self._cost(20, lambda connection, _: connection.request("GET", self._path))

    async def watch(self, count: int) -> float:
        """Of a patch of an object and the events about it."""
        watchers = [await self._cluster.connect_as_admin() for _ in range(self._watchers)]

        async def hear(connection: Connection) -> None:
            heard = 0
            async for piece in connection.watch(f"{self._path}?watch=true&fieldSelector=metadata.name%3Do1"):
                heard += piece.count(b'"MODIFIED"')
                if heard >= count:
                    return

        hearing = [asyncio.create_task(hear(connection)) for connection in watchers]

        async def ask(connection: Connection, number: int) -> None:
            body = json.dumps({self._field: {"duration": f"{number + 1}h"}}).encode()
            await connection.request("PATCH", f"{self._path}/o1", body, body_type=_MERGE_PATCH)

        cost = await self._cost(count, ask)
        await asyncio.gather(*hearing)
        for connection in watchers:
            connection.close()
        return cost

    async def clear(self) -> None:
        connection = await self._cluster.connect_as_admin()
        await connection.request("DELETE", self._path)
        connection.close()


async def measure(count: int, runs: int, watchers: int) -> dict[str, list[float]]:
    """Milliseconds of CPU by row and kind, one for each run."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="kubevouch-bench-") as folder:
        async with running(Path(folder) / "custom") as cluster:
            admin = await cluster.connect_as_admin()
            for definition in (_definition("plains", "Plain"), _definition("ruleds", "Ruled", _RULES)):
                path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                await admin.request("POST", path, json.dumps(definition).encode())
                name = definition["metadata"]["name"]
                while b'"InitialNamesAccepted"' not in await admin.request("GET", f"{path}/{name}"):
                    pass
            admin.close()
            objects = f"/apis/{_GROUP}/v1/namespaces/default"

            def custom(plural: str, kind: str) -> _Kind:
                return _Kind(cluster, watchers, f"{objects}/{plural}", lambda name: _certificate(kind, name), "spec")

            kinds = {
                "ConfigMap": _Kind(cluster, watchers, "/api/v1/namespaces/default/configmaps", _config_map, "data"),
                "custom": custom("plains", "Plain"),
                "with ten rules": custom("ruleds", "Ruled"),
            }
            for run in range(runs + 1):
                for title, kind in kinds.items():
                    costs = {
                        "create": await kind.create(count),
                        "get": await kind.get(count),
                        f"list of {count:,}": await kind.list(),
                        f"patch with {watchers} watchers": await kind.watch(count // 5),
                    }
                    await kind.clear()
                    for row, cost in costs.items() if run else ():  # the first run warms up
                        found.setdefault(f"{row}, {title}", []).append(cost)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="objects of each kind")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--watchers", type=int, default=50)
    options = parser.parse_args()
    found = uvloop.run(measure(options.count, options.runs, options.watchers))
    print(f"{report.machine()}; server CPU in ms: median, lowest, highest; share: of a ConfigMap's, by runs\n")
    for title, costs in found.items():
        row = title.partition(",")[0]
        plain = next(each for key, each in found.items() if key.startswith(row) and key.endswith("ConfigMap"))
        share = statistics.median(before / cost for before, cost in zip(plain, costs, strict=True))
        low, middle, high = min(costs), statistics.median(costs), max(costs)
        print(f"{title:<45} {middle:8.3f} {low:8.3f} {high:8.3f}   share {share:.2f}")


if __name__ == "__main__":
    main()
