"""Machines that mean well while somebody else does not: how long each waits for its certificate.

They are played in a process of their own, so that what an abuser does with its own processor is not measured.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import statistics
import sys
import time
from collections import Counter

import msgspec

from abuse_client import CSRS, NODE_NAME, Attacker, Line, Target
from kubevouch.attestation import request as blocks
from kubevouch.attestation.callback.evidence import MAX_ANSWER, NAME, answer, path
from kubevouch.attestation.interface import Evidence
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.wellknown import ATTESTED_CLIENT_SIGNER_PREFIX

CHALLENGES = "/apis/kubevouch.io/v1alpha1/attestationchallenges"
CALLED_AT, SILENT, GOOD = 28_890, "127.0.0.3", "127.0.0.9"
"""The port at which machines are called, the address at which nobody ever answers, and from where honest ones ask."""
ATTESTATION = f"""apiVersion: kubevouch.io/v1alpha1
kind: AttestationConfiguration
attestors:
- provider: {NAME}
  settings: {{networks: [127.0.0.0/8], port: {CALLED_AT}, allowUnprivilegedPort: true}}
fallbacks: {{bootstrapToken: true, selfRenewal: true}}
"""
_STOCK = "kubernetes.io/kube-apiserver-client-kubelet"
ATTESTED = f"{ATTESTED_CLIENT_SIGNER_PREFIX}{NAME}"
_SPACING_SECONDS = 0.25
_PATIENCE_SECONDS = 90.0
_POLL_SECONDS = 0.02


def body(name: str, request: bytes, signer: str = _STOCK) -> bytes:
    spec = {
        "request": base64.b64encode(request).decode(),
        "signerName": signer,
        "usages": ["digital signature", "client auth"],
    }
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": spec}).encode()


def request_of(node: str) -> bytes:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    return build_request(key, Subject(common_name=f"system:node:{node}", organizations=("system:nodes",)))


def spki(request: bytes) -> bytes:
    return x509_request.parse_pem(request).public_key.canonical_info


def fingerprint(request: bytes) -> str:
    return hashlib.sha256(spki(request)).hexdigest()


async def challenge(line: Line, key_fingerprint: str, attacker: Attacker | None = None) -> str:
    """The name of a new one; empty if it is refused."""
    spec = {"provider": NAME, "version": "v1", "keyFingerprint": key_fingerprint}
    tree = {"apiVersion": "kubevouch.io/v1alpha1", "kind": "AttestationChallenge",
            "metadata": {"generateName": "attest-"}, "spec": spec}  # fmt: skip
    code, said = await line.ask("POST", CHALLENGES, json.dumps(tree).encode())
    if attacker is not None:
        attacker.tally[f"challenge {code}"] += 1
    return str(json.loads(said)["metadata"]["name"]) if code == 201 else ""


async def nonce_of(line: Line, name: str) -> bytes:
    """Once it is asked; raises :class:`KeyError` if it has gone."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            status = json.loads((await line.ask("GET", f"{CHALLENGES}/{name}"))[1])
            if status.get("kind") == "Status":
                raise KeyError(name)
            if nonce := status.get("status", {}).get("nonce"):
                return base64.b64decode(nonce)
            await asyncio.sleep(_POLL_SECONDS)


def called_at(request: bytes, host: str, challenge_name: str) -> bytes:
    """The request with the proof of callback that somebody at ``host`` answers for."""
    proof = Evidence(provider=NAME, version="v1", data=json.dumps({"host": host}).encode(), challenge=challenge_name)
    return blocks.build(request, [proof])


class Honest:
    """Joins by token, by callback, and a renewal, one after another from an address of their own, each timed."""

    def __init__(self, target: Target, prefix: str) -> None:
        self._prefix = prefix
        self._from = Attacker(target, GOOD)
        self._target = target
        self._answers: dict[str, bytes] = {}
        self._count = 0
        self.waits: dict[str, list[float]] = {"join": [], "join by callback": [], "renewal": []}
        self.failed: Counter[str] = Counter()

    async def go_on(self, seconds: float) -> None:
        """Until ``seconds`` are over, or until who has begun by then has been served."""
        until = time.monotonic() + seconds

        async def again(what: str) -> None:
            while time.monotonic() < until:
                begun = time.monotonic()
                try:
                    async with asyncio.timeout(_PATIENCE_SECONDS):
                        await self._once(what)
                except (TimeoutError, KeyError):
                    self.failed[what] += 1
                self.waits[what].append(time.monotonic() - begun)
                await asyncio.sleep(_SPACING_SECONDS)

        await asyncio.gather(*(again(what) for what in self.waits))

    async def _once(self, what: str) -> None:
        self._count += 1
        name = f"{self._prefix}-{self._count}"
        renews = what == "renewal"
        request = request_of(NODE_NAME if renews else name)
        pair, token = (self._target.node_pair, "") if renews else ("", self._target.token)
        async with self._from.line(token, pair) as line:
            if what == "join by callback":
                await self._join_by_callback(line, name, request)
            else:
                await self._served(line, name, body(name, request))

    async def _join_by_callback(self, line: Line, name: str, request: bytes) -> None:
        asked = await challenge(line, fingerprint(request))
        if not asked:
            raise KeyError(name)
        key = spki(request)
        self._answers[path(key)] = answer(hashlib.sha256(await nonce_of(line, asked) + key).digest())
        # No machine has two names, and its address is what it is known by.
        host = f"127.{'1' if self._prefix == 'calm' else '2'}.{self._count // 250}.{self._count % 250 + 1}"
        async with await asyncio.start_server(self._answer, host, CALLED_AT):
            await self._served(line, name, body(name, called_at(request, host, asked), ATTESTED))

    async def _served(self, line: Line, name: str, posted: bytes) -> None:
        code, said = await line.ask("POST", CSRS, posted)
        if code != 201:
            raise KeyError(said)
        while True:
            found = json.loads((await line.ask("GET", f"{CSRS}/{name}"))[1])["status"]
            if found.get("certificate"):
                return
            if any(each["type"] in ("Denied", "Failed") for each in found.get("conditions", ())):
                raise KeyError(str(found))
            await asyncio.sleep(_POLL_SECONDS)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        says = self._answers.get(asked, b"")[:MAX_ANSWER]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(says), says))
        await writer.drain()
        writer.close()


async def measured(attacker: Attacker, when: str, seconds: float) -> None:
    """Have a process of its own play them for so long; median and worst in ms, and failures, go into the tally."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, when, str(seconds), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate(msgspec.json.encode(attacker.target) + b"\n")
    waits, failed = msgspec.json.decode(told, type=tuple[dict[str, list[float]], dict[str, int]])
    for what, each in waits.items():
        attacker.tally[f"{what}, {when}, median ms"] = round(1000 * statistics.median(each))
        attacker.tally[f"{what}, {when}, worst ms"] = round(1000 * max(each))
        attacker.tally[f"{what}, {when}, without a certificate"] = failed.get(what, 0)


async def _main(when: str, seconds: float, target: Target) -> None:
    honest = Honest(target, when)
    await honest.go_on(seconds)
    sys.stdout.buffer.write(msgspec.json.encode((honest.waits, honest.failed)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], float(sys.argv[2]), msgspec.json.decode(sys.stdin.readline(), type=Target)))
