"""What clients do all the while: write, read and watch objects, join, use up tokens, decide about requests, revoke."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from kubevouch import wellknown
from kubevouch.phases.bootstrap_token import plan
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.records.bootstrap_tokens import generate_token, to_secret
from kubevouch.records.token_bounds import Bounds
from kubevouch.util.clock import SystemClock
from torture.history import BROKEN, Answered, Bound, Revoked
from torture.recorder import VALUE, Client, Recorder, fingerprint, trusting
from torture.systems import System

NAMESPACE = "torture"
MAPS = f"configmaps/{NAMESPACE}/"
REQUESTS = "certificatesigningrequests/"
_VISITORS = "torture:visitors"
_REVOCATIONS = "/apis/kubevouch.io/v1alpha1/certificaterevocations"
_POLL_SECONDS = 0.05
_PAUSE_SECONDS = 0.1
_TRIES = 400
_AWAY_WRITES = 120
"""More than the events that the systems under test remember."""
_LATE_SECONDS = 2.5
"""So long a revoked client goes on asking."""


@dataclass(frozen=True)
class Mix:
    """How many clients do what; ``names``: of objects that they all write."""

    writers: int = 4
    readers: int = 2
    listers: int = 2
    watchers: int = 3
    joiners: int = 1
    spenders: int = 1
    deciders: int = 1
    revokers: int = 1
    names: int = 12


@dataclass
class Work:
    """Clients at work until :meth:`stop`. Each has a generator of its own, so that what it does depends on the seed."""

    recorder: Recorder
    system: System
    seed: int
    mix: Mix = field(default_factory=Mix)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _clients: list[Client] = field(default_factory=list)
    _stopping: bool = False
    _watching: list[asyncio.Task[None]] = field(default_factory=list)

    async def prepare(self) -> None:
        """A namespace, and rights for those whose certificates will be revoked."""
        admin = self._client("prepare")
        role = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        group = {"kind": "Group", "name": _VISITORS, "apiGroup": "rbac.authorization.k8s.io"}
        ref = {"kind": "ClusterRole", "name": _VISITORS, "apiGroup": "rbac.authorization.k8s.io"}
        for path, tree in (
            ("/api/v1/namespaces", _named(NAMESPACE)),
            (f"{rbac}/clusterroles", _named(_VISITORS) | {"rules": [role]}),
            (f"{rbac}/clusterrolebindings", _named(_VISITORS) | {"subjects": [group], "roleRef": ref}),
        ):
            code, found = await admin.call("POST", path, tree)
            assert code == 201, found

    def start(self) -> None:
        mix = self.mix
        kinds: list[tuple[str, int, Callable[[Client, random.Random], Awaitable[None]]]] = [
            ("writer", mix.writers, self._write), ("reader", mix.readers, self._read),
            ("lister", mix.listers, self._list),
            ("joiner", mix.joiners, self._join), ("spender", mix.spenders, self._spend),
            ("decider", mix.deciders, self._decide), ("revoker", mix.revokers, self._revoke),
        ]  # fmt: skip
        for kind, count, turn in kinds:
            for number in range(count):
                name = f"{kind}-{number}"
                chance = random.Random(f"{self.seed} {name}")
                self._tasks.append(asyncio.create_task(self._repeat(self._client(name), chance, turn), name=name))
        for number in range(mix.watchers):
            name = f"watcher-{number}"
            chance = random.Random(f"{self.seed} {name}")
            prefix = REQUESTS if number == 1 else MAPS
            follow = self._follow(self._client(name), chance, prefix, stays=number == 0)
            self._watching.append(asyncio.create_task(follow, name=name))

    async def finish(self) -> None:
        """All but the watchers end what they are about."""
        self._stopping = True
        for task in self._tasks:
            await task

    async def close(self) -> None:
        """The watchers, too; whatever goes on is broken off."""
        for task in (*self._tasks, *self._watching):
            task.cancel()
        ended = await asyncio.gather(*self._tasks, *self._watching, return_exceptions=True)
        for client in self._clients:
            await client.close()
        for each in ended:
            if isinstance(each, Exception):
                raise each

    def _client(self, name: str) -> Client:
        """Every request goes to any of the servers: what one of them has said, all of them have to know."""
        roaming = self.system.roaming(random.Random(f"{self.seed} {name} roams"))
        client = self.system.administrator(self.recorder, name, roaming)
        self._clients.append(client)
        return client

    def _stranger(
        self, name: str, chance: random.Random, *, token: str = "", pair: str | None = None, identity: str = ""
    ) -> Client:
        """Without the administrator's certificate."""
        roaming = self.system.roaming(random.Random(chance.random()))
        client = Client(self.recorder, name, roaming, trusting(self.system.ca, pair), identity, token)
        self._clients.append(client)
        return client

    async def _repeat(
        self, client: Client, chance: random.Random, turn: Callable[[Client, random.Random], Awaitable[None]]
    ) -> None:
        while not self._stopping:
            await turn(client, chance)

    # -------------------------------------------------------------- objects

    async def _write(self, client: Client, chance: random.Random) -> None:
        name = f"m{chance.randrange(self.mix.names)}"
        key, value = MAPS + name, f"{client.name} {self.recorder.op()}"
        tree = _named(name) | {"data": {VALUE: value}}
        kind = chance.choices(("create", "cas", "stale", "patch", "delete", "delete at"), (6, 8, 2, 4, 2, 2))[0]
        if kind == "create":
            answer = await client.create(key, tree, value)
        elif kind == "patch":
            answer = await client.patch(key, {"data": {VALUE: value}}, value)
        elif kind == "delete":
            answer = await client.delete(key)
        else:
            answer = await client.get(key)
            if answer.code == 200:
                version = answer.revision
                if kind == "stale":
                    other = f"{value} before"
                    await client.patch(key, {"data": {VALUE: other}}, other)
                tree["metadata"]["resourceVersion"] = str(version)
                if kind == "delete at":
                    answer = await client.delete(key, version)
                else:
                    answer = await client.update(key, tree, value, version)
        await _pause(answer, chance)

    async def _read(self, client: Client, chance: random.Random) -> None:
        await _pause(await client.get(f"{MAPS}m{chance.randrange(self.mix.names)}"), chance)
        await asyncio.sleep(0.01)

    async def _list(self, client: Client, chance: random.Random) -> None:
        kind = chance.randrange(5)
        if kind == 0:
            answer = await client.list_(MAPS, limit=chance.randint(1, 5))
        elif kind == 1:
            answer = await client.list_(MAPS, at="0")
        elif kind == 2 and self.mix.joiners:
            answer = await client.list_(REQUESTS)
        else:
            answer = await client.list_(MAPS)
        await _pause(answer, chance)
        await asyncio.sleep(0.05)

    async def _follow(self, client: Client, chance: random.Random, prefix: str, *, stays: bool) -> None:
        """As a reflector: a list, a watch from there, and from where it came to when it ends; anew after 410.

        Who does not stay hangs up now and then, and goes on from some revisions before where he was, at once or when
        much has been written.
        """
        known: list[int] = []
        while True:
            if known:
                after: int | None = known[-1] if stays else chance.choice(known[-10:])
                if not stays and chance.random() < 0.1:
                    with contextlib.suppress(AssertionError):  # the end may come before
                        await self.recorder.writes(_AWAY_WRITES)
            elif chance.random() < 0.5:
                after = None
            else:
                answer = await client.list_(prefix)
                if answer.code != 200:
                    await _pause(answer, chance)
                    continue
                after = answer.revision
            code, reached = await client.watch(
                prefix, after, most=0 if stays or self._stopping else chance.randint(1, 60)
            )
            known = [*known, reached] if code in (200, BROKEN) and reached else []
            if code != 200:
                await asyncio.sleep(chance.random() * _PAUSE_SECONDS)

    # -------------------------------------------------------------- machines

    async def _join(self, client: Client, chance: random.Random) -> None:
        token = await self._token(client, None)
        if token is None:
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        machine = self._stranger(client.name, chance, token=token)
        for _ in range(5):
            if not self._stopping:
                await self._ask(machine, f"n{self.recorder.op()}")
        await machine.close()

    async def _spend(self, client: Client, chance: random.Random) -> None:
        """Machines that come at once with a token for fewer."""
        uses = chance.randint(1, 2)
        token = await self._token(client, uses)
        if token is None:
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        machines = [self._stranger(f"{client.name}-{each}", chance, token=token) for each in range(uses + 2)]
        nodes = [f"n{self.recorder.op()}" for _ in machines]
        await asyncio.gather(*(self._ask(*each, tries=20) for each in zip(machines, nodes, strict=True)))
        for machine in machines:
            await machine.close()

    async def _token(self, client: Client, uses: int | None) -> str | None:
        token = generate_token()
        secret = to_secret(plan(token, now=SystemClock().now(), bounds=Bounds(uses=uses)))
        tree = _named(token.secret_name) | {
            "type": secret.type, "stringData": {name: each.decode() for name, each in secret.data.items()},
        }  # fmt: skip
        tree["metadata"]["annotations"] = dict(secret.metadata.annotations)
        if uses is not None:
            self.recorder.add(Bound(self.recorder.now, f"system:bootstrap:{token.token_id}", uses))
        code, _ = await client.call("POST", "/api/v1/namespaces/kube-system/secrets", tree)
        return token.text if code == 201 else None

    async def _ask(self, machine: Client, node: str, *, tries: int = _TRIES) -> None:
        """A node's request, and a look at it now and then until it is decided."""
        subject = Subject(common_name=f"system:node:{node}", organizations=("system:nodes",))
        tree = _request(node, wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER, subject)[1]
        for _ in range(20):
            if (await machine.create(REQUESTS + node, tree)).code in (201, 409):
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        await self._decided(machine, node, tries)

    async def _decided(self, client: Client, name: str, tries: int = _TRIES) -> Answered | None:
        for _ in range(tries):
            answer = await client.get(REQUESTS + name)
            shown = answer.items[0].request if answer.items else None
            if shown is not None and (shown.certificate or shown.denied):
                return answer
            await asyncio.sleep(_POLL_SECONDS)
            if self._stopping:
                return None
        return None

    # -------------------------------------------------------------- people

    async def _decide(self, client: Client, chance: random.Random) -> None:
        """Requests that nothing decides by itself: approved, denied, both at once, or left."""
        name = f"d{self.recorder.op()}"
        tree = _request(name, wellknown.KUBE_APISERVER_CLIENT_SIGNER, Subject(common_name=name))[1]
        answer = await client.create(REQUESTS + name, tree)
        if answer.code != 201:
            await _pause(answer, chance)
            return
        what = chance.choice((["Approved"], ["Denied"], ["Approved", "Denied"], []))
        await asyncio.gather(*(client.patch(REQUESTS + name, _decision(each), subresource="approval") for each in what))
        for _ in range(3):
            await asyncio.sleep(_POLL_SECONDS)
            await client.get(REQUESTS + name)

    async def _revoke(self, client: Client, chance: random.Random) -> None:
        """A visitor gets a certificate, uses it, and goes on when it is revoked."""
        name = f"v{self.recorder.op()}"
        subject = Subject(common_name=name, organizations=(_VISITORS,))
        key, tree = _request(name, wellknown.KUBE_APISERVER_CLIENT_SIGNER, subject)
        if (await client.create(REQUESTS + name, tree)).code != 201:
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        await client.patch(REQUESTS + name, _decision("Approved"), subresource="approval")
        answer = await self._decided(client, name)
        if answer is None:
            return
        code, found = await client.call("GET", f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}")
        if code != 200 or not found["status"].get("certificate"):
            return
        identity = fingerprint(found["status"]["certificate"])
        pair = self.system.folder / f"{name}.pem"
        pair.write_bytes(base64.b64decode(found["status"]["certificate"]) + keys.to_pem(key))
        visitor = self._stranger(f"visitor {name}", chance, identity=identity, pair=str(pair))
        watching = asyncio.create_task(self._visit(visitor))
        try:
            for _ in range(3):
                await visitor.list_(MAPS)
            target = {"reason": "keyCompromise", "revoked": {"certificates": [identity]}}
            revocation = {
                "apiVersion": "kubevouch.io/v1alpha1",
                "kind": "CertificateRevocation",
                "metadata": {"name": name},
            }
            code, found = await client.call("POST", _REVOCATIONS, revocation | {"spec": target})
            if code == 201:
                self.recorder.add(Revoked(self.recorder.now, identity))
                until = self.recorder.now + _LATE_SECONDS
                while self.recorder.now < until:
                    await visitor.list_(MAPS, at=chance.choice(("", "0")))
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            await visitor.close()

    @staticmethod
    async def _visit(visitor: Client) -> None:
        while True:
            await visitor.watch(MAPS, None)
            await asyncio.sleep(_PAUSE_SECONDS)


def _named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def _request(name: str, signer: str, subject: Subject) -> tuple[PrivateKey, dict[str, Any]]:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    spec = {
        "request": base64.b64encode(build_request(key, subject)).decode(), "signerName": signer,
        "usages": ["digital signature", "client auth"],
    }  # fmt: skip
    return key, {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"} | _named(name) | {
        "spec": spec
    }


def _decision(kind: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": "True", "reason": "ByHand", "message": ""}]}}


async def _pause(answer: Answered, chance: random.Random) -> None:
    """Of who was not answered."""
    if answer.code == BROKEN or answer.code >= 429:
        await asyncio.sleep(chance.random() * _PAUSE_SECONDS)
