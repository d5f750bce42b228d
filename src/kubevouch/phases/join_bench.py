"""Machines that join, played against any API server: ``kubevouch bench join``.

Each has a key, a TLS connection, a request and a watch of its own, and waits as an agent does. Nothing of a machine is
kept: its key is gone when its certificate has been held against it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import msgspec

from kubevouch import wellknown
from kubevouch.agent.csr_wait import wait_for_certificate
from kubevouch.agent.interface import AgentError, NotIssuedError, Step
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import Client, ListOptions, TransportError
from kubevouch.client.options import Timeouts
from kubevouch.client.rest_config import RESTConfig
from kubevouch.client.tls import TLSFiles
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import bootstrap_token
from kubevouch.pki import keys
from kubevouch.pki.certificate_chain import verify_certificate_chain
from kubevouch.pki.errors import ParseError
from kubevouch.pki.keys import KeyAlgorithm, public_key_of
from kubevouch.pki.x509 import usages
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records.bootstrap_tokens import AUTHENTICATION, Token, generate_token
from kubevouch.util.clock import Clock, wait_at_most

LABEL = "kubevouch.io/bench"
"""On each request that was made; its value is the run."""

# As often as somebody presses a key who wonders what goes on.
_LOOK_SECONDS = 0.25
_PATIENCE_SECONDS = 10.0
# As kubectl pages.
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played.

    Args:
        run: names the machines: ``RUN-0``, ``RUN-1`` …; a DNS label.
        nodes: how many machines.
        concurrency: how many of them are on their way at once.
        timeout: seconds that one machine waits for its certificate.
    """

    run: str
    nodes: int
    concurrency: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Joined:
    """One machine, in seconds. ``started``: after the first; ``refused`` is empty, or why it has no certificate."""

    name: str
    started: float
    asked: float
    total: float
    refused: str = ""

    @property
    def waited(self) -> float:
        """From the answer to the request until the certificate was read."""
        return self.total - self.asked


@dataclass(frozen=True, slots=True)
class Result:
    """``seconds``: from the first connection to the last certificate. ``looks``: how long each list of nodes took that
    an operator asked for meanwhile, and ``unanswered`` how many were not answered. ``client_cpu``: seconds of this
    process."""

    machines: list[Joined]
    seconds: float
    looks: list[float]
    unanswered: int
    client_cpu: float

    @property
    def joined(self) -> list[Joined]:
        return [each for each in self.machines if not each.refused]

    @property
    def rate(self) -> float:
        """Machines a second."""
        return len(self.joined) / self.seconds if self.seconds else 0.0

    def refusals(self) -> list[tuple[str, int]]:
        """Why machines have no certificate, the most frequent reason first."""
        return Counter(each.refused for each in self.machines if each.refused).most_common()


class _Silent:
    def done(self, step: Step, detail: str = "") -> None:
        pass

    def waiting(self, why: str) -> None:
        pass

    def warning(self, text: str) -> None:
        pass


@dataclass(slots=True)
class _Prepared:
    name: str
    public_key: bytes
    csr: CertificateSigningRequest


@asynccontextmanager
async def lent_token(client: Client, run: str, clock: Clock, ttl: dt.timedelta) -> AsyncIterator[Token]:
    """A bootstrap token for the machines of one run, deleted at its end.

    Raises:
        TokenPhaseError, APIStatusError, TransportError: it cannot be made.
    """
    planned = bootstrap_token.plan(
        generate_token(),
        now=clock.now(),
        ttl=ttl,
        usages=(AUTHENTICATION,),
        description=f"kubevouch bench join {run}",
    )
    await bootstrap_token.create(client, planned)
    try:
        yield planned.token
    finally:
        with suppress(bootstrap_token.TokenPhaseError, APIStatusError, TransportError):
            await bootstrap_token.delete(client, planned.token.token_id)


async def prepare(plan: Plan, made: Callable[[int], None]) -> list[_Prepared]:
    """The keys and requests of all machines, before any clock starts; ``made`` hears how many there are."""
    prepared = []
    for number in range(plan.nodes):
        prepared.append(_prepared(plan.run, f"{plan.run}-{number}"))
        if number % 100 == 0:
            made(number)
            await asyncio.sleep(0)
    return prepared


def _prepared(run: str, name: str) -> _Prepared:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    subject = Subject(common_name=f"{wellknown.NODE_USER_PREFIX}{name}", organizations=(wellknown.NODES_GROUP,))
    spec = CertificateSigningRequestSpec(
        request=build_request(key, subject),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=[usages.DIGITAL_SIGNATURE, usages.CLIENT_AUTH],
    )
    metadata = ObjectMeta(name=name, labels={LABEL: run})
    return _Prepared(name, public_key_of(key).canonical_info, CertificateSigningRequest(metadata=metadata, spec=spec))


async def play(
    config: RESTConfig,
    token: Token,
    plan: Plan,
    prepared: list[_Prepared],
    clock: Clock,
    told: Callable[[int], None],
) -> Result:
    """All machines. One that is refused is in the result and stops nobody.

    Args:
        config: an operator's; machines get its server and CA, and ``token``.
        told: hears how many are done, after each.
    """
    trusted = TLSFiles(replace(config.tls, certificate=b"", private_key=b""), clock)
    options = msgspec.structs.replace(config.options, component="bench", impersonate=None)

    def connect() -> HTTPSClient:
        return HTTPSClient(options, tls=trusted, credentials=FixedCredential.token(token.text), clock=clock)

    todo = iter(prepared)
    done: list[Joined] = []
    looks, over = _Looks(), asyncio.Event()
    cpu, begun = time.process_time(), time.perf_counter()
    ended = begun

    async def one_after_another() -> None:
        nonlocal ended
        for each in todo:
            done.append(await _join(connect, each, plan.timeout, clock, begun))
            ended = time.perf_counter()
            told(len(done))

    async with config.client(component="bench", timeouts=Timeouts.all(_PATIENCE_SECONDS)) as operator:
        looking = asyncio.create_task(looks.go_on(operator, over, clock))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(plan.concurrency, plan.nodes)):
                    group.create_task(one_after_another())
        finally:
            over.set()
            await looking
    return Result(done, ended - begun, looks.seconds, looks.unanswered, time.process_time() - cpu)


@dataclass(slots=True)
class _Looks:
    seconds: list[float] = field(default_factory=list)
    unanswered: int = 0

    async def go_on(self, operator: Client, over: asyncio.Event, clock: Clock) -> None:
        while not over.is_set():
            begun = time.perf_counter()
            try:
                await operator.list(NODES, options=ListOptions(limit=_PAGE))
            except (APIStatusError, TransportError):
                self.unanswered += 1
            else:
                self.seconds.append(time.perf_counter() - begun)
            with suppress(TimeoutError):
                await wait_at_most(clock, over.wait(), _LOOK_SECONDS)


async def _join(
    connect: Callable[[], HTTPSClient], prepared: _Prepared, timeout: float, clock: Clock, zero: float
) -> Joined:
    begun = asked = time.perf_counter()
    refused = ""
    try:
        async with connect() as client:
            requests = SigningRequests(client)
            created = await requests.create(prepared.csr)
            asked = time.perf_counter()
            issued = await wait_for_certificate(requests, created, clock, _Silent(), timeout=timeout)
        _verify(issued.status.certificate, prepared.public_key)
    except APIStatusError as err:
        refused = f"{err.code} {err.reason or ''}: {err.status.message}".replace(prepared.name, "NAME")
    except (TransportError, AgentError) as err:
        refused = str(err).replace(prepared.name, "NAME")
    ended = time.perf_counter()
    return Joined(prepared.name, begun - zero, (asked if asked > begun else ended) - begun, ended - begun, refused)


def _verify(certificate: bytes, public_key: bytes) -> None:
    """Raises NotIssuedError: it is for another key, or none at all."""
    try:
        leaf = verify_certificate_chain(certificate)[0]
    except ParseError as err:
        raise NotIssuedError(f"what was issued is no certificate: {err}", "") from err
    if leaf.public_key.canonical_info != public_key:
        raise NotIssuedError("the certificate is for another key", "")


async def clear(client: Client, run: str) -> None:
    """Delete the requests of a run. Raises APIStatusError, TransportError."""
    await client.delete_collection(CERTIFICATE_SIGNING_REQUESTS, options=ListOptions(label_selector=f"{LABEL}={run}"))
