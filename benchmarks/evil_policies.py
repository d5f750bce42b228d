"""Requests whose names a valid policy compares with each other, and honest work beside them."""

from __future__ import annotations

import asyncio
import base64
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from abuse_client import CSRS, Attacker, Line
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

_POLICIES = "/apis/kubevouch.io/v1alpha1/certificaterequestpolicies"
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
# Ready: with a hundred names they cost some 50 ms.
_QUADRATIC = "x509.dnsNames.all(a, x509.dnsNames.all(b, a.size() >= 0 && b.size() >= 0))"
_POLICY_COUNT = 4
_REQUESTS = 19
_CALM_SECONDS = 10.0
_BREAK_SECONDS = 0.1
_PATIENCE_SECONDS = 30.0
_HONEST_ADDRESS = "127.0.0.9"
_LARGE_CONFIG_MAP_BYTES = 20_000
"""Which is worked on beside the event loop."""


Play = Callable[[Attacker], Awaitable[None]]


def install(expressions: int) -> Play:
    """Four such policies, with so many expressions each."""

    async def prepare(attacker: Attacker) -> None:
        async with attacker.line(pair=attacker.target.admin_pair) as line:
            for number in range(_POLICY_COUNT):
                tree = {
                    "apiVersion": "kubevouch.io/v1alpha1",
                    "kind": "CertificateRequestPolicy",
                    "metadata": {"name": f"quadratic-{number}"},
                    "spec": {
                        "effect": "Approve",
                        "selector": {"signerNames": ["*"]},
                        "usages": ["server auth"],
                        "validations": [{"expression": _QUADRATIC}] * expressions,
                    },
                }
                code, said = await line.ask("POST", _POLICIES, json.dumps(tree).encode())
                assert code == 201, said

    return prepare


def many_names(names: int) -> Play:
    """19 requests with so many names each, while an administrator writes ConfigMaps and machines join by that token."""

    async def play(attacker: Attacker) -> None:
        await _honest_work(attacker, "calm ", time.monotonic() + _CALM_SECONDS)
        attacker.until = time.monotonic() + attacker.target.seconds

        async def post(_: int) -> None:
            async with attacker.line(attacker.target.token) as line:
                with suppress(TimeoutError):
                    async with asyncio.timeout(attacker.target.seconds):
                        for number in range(_REQUESTS):
                            await attacker.ask(line, "POST", CSRS, _evil(number, names))

        await asyncio.gather(attacker.crowd(1, post), _honest_work(attacker, "", attacker.until))

    return play


async def _honest_work(attacker: Attacker, prefix: str, until: float) -> None:
    """One ConfigMap and one join after another, from another address, and how long each took."""
    honest = Attacker(attacker.target, _HONEST_ADDRESS)

    async def insist(what: str, line: Line, one: Callable[[Line, str], Awaitable[None]]) -> None:
        took: list[float] = []
        while time.monotonic() < until:
            begun = time.perf_counter()
            try:
                async with asyncio.timeout(until + _PATIENCE_SECONDS - time.monotonic()):
                    await one(line, f"{what}-{len(took)}".replace(" ", "-").lower())
            except TimeoutError:
                attacker.tally[f"{what}: without an end"] += 1
            took.append(time.perf_counter() - begun)
            await asyncio.sleep(_BREAK_SECONDS)
        attacker.tally[f"{what}: count"] = len(took)
        attacker.tally[f"{what}: median ms"] = round(1000 * statistics.median(took))
        attacker.tally[f"{what}: longest ms"] = round(1000 * max(took))

    async with _lines(honest) as (admin, machine):
        await asyncio.gather(insist(f"{prefix}ConfigMap", admin, _config_map), insist(f"{prefix}join", machine, _join))


@asynccontextmanager
async def _lines(honest: Attacker) -> AsyncIterator[tuple[Line, Line]]:
    async with honest.line(pair=honest.target.admin_pair) as admin, honest.line(honest.target.token) as machine:
        yield admin, machine


async def _config_map(line: Line, name: str) -> None:
    tree = {"metadata": {"name": name}, "data": {"a": "x" * _LARGE_CONFIG_MAP_BYTES}}
    code, said = await line.ask("POST", _CONFIG_MAPS, json.dumps(tree).encode())
    assert code == 201, said


async def _join(line: Line, name: str) -> None:
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    request = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject)
    code, said = await line.ask(
        "POST", CSRS, _csr(name, "kubernetes.io/kube-apiserver-client-kubelet", request, "client auth")
    )
    assert code == 201, said
    while True:
        _, said = await line.ask("GET", f"{CSRS}/{name}")
        if b'"certificate":"' in said:
            return
        await asyncio.sleep(0.02)


def _evil(number: int, count: int) -> bytes:
    names = tuple(f"host-{each}.r{number}.example.com" for each in range(count))
    request = build_request(
        keys.generate(KeyAlgorithm.ECDSA_P256), Subject(common_name=names[0]), SubjectAltNames(dns_names=names)
    )
    return _csr(f"evil-{number}", "example.com/hosts", request, "server auth")


def _csr(name: str, signer: str, request: bytes, usage: str) -> bytes:
    tree = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": signer,
            "usages": ["digital signature", usage],
        },
    }
    return json.dumps(tree, separators=(",", ":")).encode()
