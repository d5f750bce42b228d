"""Joins with CertificateRequestPolicies beside joins without, in turns on one server, by its processor time.

benchmarks/policies.py [--joins 400] [--rounds 3] [--records]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import joins
from cluster import Cluster, running

_POLICIES = "/apis/kubevouch.io/v1alpha1/certificaterequestpolicies"
_AT_ONCE = 64
_OTHERS = 20
_WANTED = 0.8


def _policy(name: str, **spec: Any) -> bytes:
    kind = {"apiVersion": "kubevouch.io/v1alpha1", "kind": "CertificateRequestPolicy"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": {"effect": "Require", **spec}}).encode()


def policies(*, records: bool) -> dict[str, bytes]:
    """A requirement of every join, and policies of signers that no join is about.

    ``records``: with rules about what was issued before, each of which asks the ledger.
    """
    kubelets = ["kubernetes.io/kube-apiserver-client-kubelet"]
    found = {
        "nodes": _policy(
            "nodes",
            selector={"signerNames": kubelets},
            subject={"commonName": {"patterns": ["system:node:*"]}, "organizations": {"patterns": ["system:nodes"]}},
            usages=["digital signature", "key encipherment", "client auth"],
            keys=[{"algorithm": "ECDSA", "minBits": 256}],
            **({"freshKey": True, "certificatesPerNode": 4} if records else {}),
            validations=[{"expression": "x509.dnsNames.size() == 0 && requester.groups.size() > 0"}],
        )
    }
    for number in range(_OTHERS):
        name = f"other-{number}"
        found[name] = _policy(name, selector={"signerNames": [f"example.com/{name}"]})
    return found


async def _rates(
    cluster: Cluster, count: int, rounds: int, bodies: dict[str, bytes]
) -> tuple[list[float], list[float]]:
    admin = await cluster.connect_as_admin()
    await joins.storm(cluster, count // 4, _AT_ONCE, "warm")
    without, with_policies = [], []
    for number in range(rounds):
        storm = await joins.storm(cluster, count, _AT_ONCE, f"without-{number}")
        without.append(count / storm.cpu)
        for body in bodies.values():
            await admin.request("POST", _POLICIES, body)
        await cluster.quiet()
        storm = await joins.storm(cluster, count, _AT_ONCE, f"with-{number}")
        with_policies.append(count / storm.cpu)
        for name in bodies:
            await admin.request("DELETE", f"{_POLICIES}/{name}")
        await cluster.quiet()
    admin.close()
    return without, with_policies


async def measure(count: int, rounds: int, bodies: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="kubevouch-bench-") as folder:
        async with running(Path(folder) / "cluster") as cluster:
            without, with_policies = await _rates(cluster, count, rounds, bodies)
    one, other = statistics.median(without), statistics.median(with_policies)
    what = "joins for each second of the server's processor time"
    print(f"{what}: {one:.0f} without, {other:.0f} with {len(bodies)} policies")
    print(f"ratio {other / one:.2f}, wanted {_WANTED} or more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--joins", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", action="store_true", help="with rules about what was issued before")
    options = parser.parse_args()
    asyncio.run(measure(options.joins, options.rounds, policies(records=options.records)))


if __name__ == "__main__":
    main()
