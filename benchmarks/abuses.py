"""The abuses, one function each, and a process that plays one of them: ``make attack``.

Each is bounded in time by its target and in number by a constant here, and counts what the server answered.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import secrets
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

import msgspec
import uvloop

from abuse_client import CSRS, HUNG_UP, NODE_NAME, Attacker, Line, Target, csr
from evil_bodies import SHAPES, Shape
from evil_policies import install, many_names
from honest_machines import (
    ATTESTED,
    CALLED_AT,
    SILENT,
    called_at,
    challenge,
    fingerprint,
    measured,
    nonce_of,
    request_of,
)
from honest_machines import body as request_body
from kubevouch.pki.keys import KeyAlgorithm

_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_NODES = "/api/v1/nodes"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_MERGE_PATCH = "application/merge-patch+json"
_TRICKLE_SECONDS = 0.5
_AHEAD_SECONDS = 3.0
_RSA = KeyAlgorithm.RSA_4096


async def _nothing(_: Attacker) -> None: ...


@dataclass(frozen=True)
class Abuse:
    """``who``: the credential it takes. ``prepare`` runs before anything is measured. ``lasts``: how many times as long
    as others it may take. ``attests``: machines are called back to prove what they are. ``ca``: the algorithm of the
    cluster's CA; that of a first start if there is none."""

    key: str
    title: str
    who: str
    play: Callable[[Attacker], Awaitable[None]]
    prepare: Callable[[Attacker], Awaitable[None]] = _nothing
    lasts: float = 1.0
    attests: bool = False
    ca: KeyAlgorithm | None = None


# ------------------------------------------------------------------ without a credential


async def metric_labels(attacker: Attacker) -> None:
    """70,000 refused writes, each to a group and resource of its own; then one scrape."""
    todo = iter(range(70_000))

    async def one(line: Line, _: int) -> None:
        number = next(todo, None)
        if number is None:
            attacker.until = 0.0
            return
        await attacker.ask(line, "POST", f"/apis/group{number}.example/v1/resource{number}", b"{}")

    await attacker.insist(48, "", "", one)
    async with attacker.line(pair=attacker.target.admin_pair) as admin:
        _, text = await attacker.ask(admin, "GET", "/metrics")
        attacker.tally["lines of the scrape"] = text.count(b"\n")


def _heads(connections: int) -> Callable[[Attacker], Awaitable[None]]:
    async def play(attacker: Attacker) -> None:
        value = b"x" * 65_000

        async def one(_: int) -> None:
            line = await attacker.open()
            try:
                await line.send(line.head("GET", "/version"))
                for number in range(126):
                    await line.send(b"X-%d: " % number + value + b"\r\n")
                    attacker.tally["headers of 64 KiB"] += 1
                attacker.tally["heads of 8 MiB held"] += 1
                await line.reader.read(1)
            finally:
                line.close()

        await _for_the_time(attacker, attacker.crowd(connections, one))

    return play


async def slow_clients(attacker: Attacker) -> None:
    """1,500 connections that trickle: a third in the handshake, a third in the head, a third in the body."""

    async def trickle(writer: asyncio.StreamWriter) -> None:
        while not attacker.is_over and not writer.is_closing():
            try:
                writer.write(b"a")
            except RuntimeError as err:  # uvloop's word for a transport that the other side has closed
                raise ConnectionResetError from err
            await writer.drain()
            await asyncio.sleep(_TRICKLE_SECONDS)

    async def one(number: int) -> None:
        if number % 3 == 0:
            _, writer = await attacker.plain()
            attacker.tally["begun"] += 1
            try:
                writer.write(b"\x16\x03\x01\x02\x00\x01")  # a client's first message of 512 bytes begins
                await trickle(writer)
            finally:
                writer.close()
            return
        line = await attacker.open(attacker.target.token if number % 3 == 2 else "")
        attacker.tally["begun"] += 1
        try:
            if number % 3 == 1:
                await line.send(b"GET /version HTTP/1.1\r\nHost: ")
            else:
                head = line.head("POST", CSRS, "Content-Type: application/json", "Content-Length: 3000000")
                await line.send(head + b"\r\n")
            await trickle(line.writer)
        finally:
            line.close()

    await _for_the_time(attacker, attacker.crowd(1500, one))


async def bad_credentials(attacker: Attacker) -> None:
    """Every request with another token."""

    async def one(line: Line, number: int) -> None:
        attacker.tally["tried"] += 1
        tried = f"{attacker.tally['tried']:06d}.{number:016d}"
        await line.send(line.head("GET", CSRS, f"Authorization: Bearer {tried}") + b"\r\n")
        code, _ = await line.answer()
        attacker.tally[str(code)] += 1

    await attacker.insist(64, "", "", one)


async def idle_connections(attacker: Attacker) -> None:
    """10,000 connections that finish the handshake and say nothing, from five addresses."""
    crowd = [Attacker(attacker.target, f"127.0.0.{2 + number}") for number in range(5)]

    async def one(number: int) -> None:
        line = await crowd[number % len(crowd)].open()
        attacker.tally["open"] += 1
        try:
            await line.reader.read(1)
        finally:
            line.close()

    await _for_the_time(attacker, attacker.crowd(10_000, one))


async def chunk_extensions(attacker: Attacker) -> None:
    """Bodies in chunks of one byte, each with an extension of 100 kB."""
    chunk = b"1;" + b"x" * 100_000 + b"\r\n \r\n"

    async def one(line: Line, _: int) -> None:
        await line.send(line.head("POST", CSRS, "Content-Type: application/json", "Transfer-Encoding: chunked"))
        await line.send(b"\r\n")
        for _each in range(200):
            await line.send(chunk)
            attacker.tally["chunks"] += 1
        await line.send(b"0\r\n\r\n")
        code, _body = await line.answer()
        attacker.tally[str(code)] += 1

    await attacker.insist(20, "", "", one)


# ------------------------------------------------------------------ with a bootstrap token


async def many_requests(attacker: Attacker) -> None:
    await _create(attacker, [csr(f"present-{number}", f"present-{number}") for number in range(500)])


async def selectors(attacker: Attacker) -> None:
    """Lists of 500 requests with 8,500 terms."""
    path = f"{CSRS}?labelSelector={'%2C'.join(f'a{number % 10}%21%3Db' for number in range(8500))}"
    short = f"{CSRS}?labelSelector={','.join(['a!=b'] * 8500)}"

    async def one(line: Line, number: int) -> None:
        await attacker.ask(line, "GET", short if number else path)

    await attacker.insist(4, "", attacker.target.token, one)


def _bodies(*shapes: Shape) -> Callable[[Attacker], Awaitable[None]]:
    async def play(attacker: Attacker) -> None:
        target = attacker.target
        todo = itertools.cycle([(shape, shape.body()) for shape in shapes])
        pair, token = (target.node_pair, "") if shapes[0].method == "PATCH" else ("", target.token)

        async def one(line: Line, _: int) -> None:
            shape, body = next(todo)
            path = f"{_NODES}/{NODE_NAME}/status" if shape.method == "PATCH" else CSRS
            await attacker.ask(line, shape.method, path, body, shape.content_type)

        await attacker.insist(20, pair, token, one)

    return play


async def open_requests(attacker: Attacker) -> None:
    """One token opens requests that nobody decides, then an honest machine joins with it, from another address."""
    foreign = "example.com/nobody"
    await _create(attacker, [csr(f"open-{number}", f"open-{number}", foreign) for number in range(5100)])
    async with Attacker(attacker.target, "127.0.0.9").line(attacker.target.token) as line:
        code, _ = await line.ask("POST", CSRS, csr("honest", "honest"))
        attacker.tally[f"honest machine of that token: {code}"] += 1


async def deaf_watchers(attacker: Attacker) -> None:
    """300 watches that nobody reads, while objects of 200 kB are written."""
    target = attacker.target

    async def deaf(_: int) -> None:
        line = await attacker.open(target.token, deaf=True)
        try:
            await line.send(line.head("GET", f"{CSRS}?watch=1") + b"\r\n")
            attacker.tally["watches"] += 1
            await asyncio.sleep(target.seconds)
        finally:
            line.close()

    async def write() -> None:
        note = {"a": "x" * 200_000}
        async with attacker.line(target.token) as line:
            for number in range(1000):
                await attacker.ask(line, "POST", CSRS, csr(f"large-{number}", "large", annotations=note))

    async def both() -> None:
        watchers = asyncio.create_task(attacker.crowd(300, deaf))
        await asyncio.sleep(1)
        await attacker.crowd(1, lambda _: write())
        await watchers

    await _for_the_time(attacker, both())


# ------------------------------------------------------------------ where machines are called back


def _beside_honest_machines(
    abuse: Callable[[Attacker], Coroutine[None, None, None]],
) -> Callable[[Attacker], Awaitable[None]]:
    """Honest machines join and renew, alone for a third of the time, then beside ``abuse``."""

    async def play(attacker: Attacker) -> None:
        seconds = attacker.target.seconds
        await measured(attacker, "calm", seconds / 3)
        attacker.until += seconds
        abusing = asyncio.create_task(abuse(attacker))
        await asyncio.sleep(_AHEAD_SECONDS)
        await measured(attacker, "meanwhile", seconds)
        abusing.cancel()
        await asyncio.wait({abusing})

    return play


def _silent_callbacks(count: int) -> Callable[[Attacker], Coroutine[None, None, None]]:
    async def play(attacker: Attacker) -> None:
        names = iter(range(count))
        silent = await asyncio.start_server(lambda _reader, _writer: None, SILENT, CALLED_AT, backlog=4096)

        async def client(_: int) -> None:
            async with attacker.line(attacker.target.token) as line:
                for number in names:
                    request = request_of(f"thief-{number}")
                    asked = await challenge(line, fingerprint(request), attacker)
                    if asked:
                        await nonce_of(line, asked)
                        evidence = called_at(request, SILENT, asked)
                        sent = request_body(f"thief-{number}", evidence, ATTESTED)
                        await attacker.ask(line, "POST", CSRS, sent)

        async with silent:
            await attacker.crowd(16, client)
            await asyncio.Event().wait()

    return play


async def challenges(attacker: Attacker) -> None:
    """One machine asks for as many challenges as a token may have, and answers none."""
    todo = iter(range(5000))

    async def client(_: int) -> None:
        async with attacker.line(attacker.target.token) as line:
            for _each in todo:
                await challenge(line, secrets.token_hex(32), attacker)

    await attacker.crowd(16, client)


# ------------------------------------------------------------------ with a node's certificate


async def own_node(attacker: Attacker) -> None:
    body = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE_NAME}}).encode()
    async with attacker.line(pair=attacker.target.node_pair) as line:
        code, said = await line.ask("POST", _NODES, body)
        assert code == 201, said


async def node_status(attacker: Attacker) -> None:
    """700 patches of 1.4 MB to its own status."""
    async with attacker.line(pair=attacker.target.node_pair) as line:
        for number in range(700):
            images = [{"names": [f"{number}-{'x' * 1400}"], "sizeBytes": each} for each in range(980)]
            patch = json.dumps({"status": {"images": images}}).encode()
            await attacker.ask(line, "PATCH", f"{_NODES}/{NODE_NAME}/status", patch, _MERGE_PATCH)
            if attacker.is_over:
                return


# ------------------------------------------------------------------ with an administrator's policy


async def expensive_policy(attacker: Attacker) -> None:
    expression = "object.data.all(a, object.data.all(b, object.data[a] != object.data[b] + 'x' || a != b))"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "slow"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
                ]
            },
            "validations": [{"expression": expression} for _ in range(5)],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "slow"},
        "spec": {"policyName": "slow", "validationActions": ["Deny"]},
    }
    async with attacker.line(pair=attacker.target.admin_pair) as line:
        for path, tree in ((_POLICIES, policy), (_BINDINGS, binding)):
            code, said = await line.ask("POST", path, json.dumps(tree).encode())
            assert code == 201, said


async def policies(attacker: Attacker) -> None:
    """Writes that a policy looks at for as long as its budget lets it."""

    async def one(line: Line, number: int) -> None:
        attacker.tally["written"] += 1
        name = f"m{number}-{attacker.tally['written']}"
        tree = {"metadata": {"name": name}, "data": {f"k{each}": str(each) for each in range(400)}}
        await attacker.ask(line, "POST", _CONFIG_MAPS, json.dumps(tree).encode())

    await attacker.insist(4, attacker.target.admin_pair, "", one)


# ------------------------------------------------------------------


async def _create(attacker: Attacker, bodies: list[bytes]) -> None:
    """All of them over 16 connections."""

    async def client(_: int) -> None:
        async with attacker.line(attacker.target.token) as line:
            while bodies and not attacker.is_over:
                await attacker.ask(line, "POST", CSRS, bodies.pop())

    await attacker.crowd(16, client)


async def _for_the_time(attacker: Attacker, work: Awaitable[None]) -> None:
    """Until the attacker's time is up, or the work done."""
    try:
        async with asyncio.timeout(attacker.target.seconds):
            await work
    except TimeoutError:
        pass


_POSTED = [shape for shape in SHAPES.values() if shape.method == "POST"]
_PATCHED = [shape for shape in SHAPES.values() if shape.method == "PATCH"]

ABUSES = {
    abuse.key: abuse
    for abuse in (
        Abuse("metric-labels", "70,000 POSTs to made-up resources, one scrape", "nobody", metric_labels),
        Abuse("heads-60", "60 heads of 8 MiB", "nobody", _heads(60)),
        Abuse("heads-600", "600 heads of 8 MiB", "nobody", _heads(600)),
        Abuse("slow-clients", "1,500 slow handshakes, heads and bodies", "nobody", slow_clients),
        Abuse("bad-credentials", "a flood of bad tokens", "nobody", bad_credentials),
        Abuse("idle-connections", "10,000 idle connections", "nobody", idle_connections),
        Abuse("chunk-extensions", "chunks with 100 kB of extension", "nobody", chunk_extensions),
        Abuse("selectors", "selectors of 8,500 terms", "token", selectors, many_requests),
        Abuse("open-requests", "5,100 requests that nobody decides", "token", open_requests),
        Abuse("deaf-watchers", "300 watches that nobody reads", "token", deaf_watchers),
        *(
            Abuse(
                f"silent-callbacks-{count}",
                f"{count} requests that ask to be called where nobody answers",
                "token",
                _beside_honest_machines(_silent_callbacks(count)),
                own_node,
                3.0,
                attests=True,
            )
            for count in (150, 480)
        ),
        Abuse(
            "challenges",
            "5,000 challenges, by one machine with the fleet's token",
            "token",
            _beside_honest_machines(challenges),
            own_node,
            3.0,
            attests=True,
        ),
        Abuse("bodies", "20 connections with bodies of 3 MiB", "token", _bodies(*_POSTED)),
        Abuse("patches", "20 connections with patches of 3 MiB", "node", _bodies(*_PATCHED), own_node),
        Abuse("node-status", "700 patches of 1.4 MB to its own status", "node", node_status, own_node, 3.0),
        Abuse("policies", "writes under expensive policies", "admin", policies, expensive_policy),
        Abuse(
            "many-names", "19 requests with 700 names under quadratic policies", "token", many_names(700), install(1)
        ),
        Abuse("many-names-rsa", "the same, with a CA of RSA-4096", "token", many_names(700), install(1), ca=_RSA),
        Abuse("dear-policies", "19 requests with 100 names, two seconds each", "token", many_names(100), install(8)),
    )
}

# One shape alone, for a closer look; not played unless it is asked for.
SINGLE = {
    f"body-{key}": Abuse(f"body-{key}", f"20 connections with 3 MiB of {shape.title}", shape.who, _bodies(shape),
                         own_node if shape.method == "PATCH" else _nothing)
    for key, shape in SHAPES.items()
}  # fmt: skip


async def _main(abuse: Abuse, target: Target) -> None:
    await abuse.prepare(Attacker(target))
    print("prepared", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    attacker = Attacker(target)
    try:
        await abuse.play(attacker)
    except HUNG_UP:
        attacker.tally["hung up"] += 1
    print(json.dumps(attacker.tally), flush=True)


if __name__ == "__main__":
    _, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))
    uvloop.run(_main((ABUSES | SINGLE)[sys.argv[1]], msgspec.json.decode(sys.stdin.readline(), type=Target)))
