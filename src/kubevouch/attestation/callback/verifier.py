"""The server's side of callback: it dials the address that a machine says it is at, and has it answer for its key.

Which address that may be, inventory and cloud say, and ``policy.node_attestation`` compares. What is dialled is bounded
here: one port, one path, the networks that an operator has named.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import re2

from kubevouch.attestation import documents, serving_names, settings
from kubevouch.attestation.answering import Answering, require
from kubevouch.attestation.callback.evidence import MAX_ANSWER, NAME, PORT, VERSIONS, Proof, answer, path
from kubevouch.attestation.http import Answer, Web
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Sources,
    Strength,
    UnavailableError,
)
from kubevouch.machinery.text import names

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PRIVILEGED = 1024
_MOST_ADDRESSES = 4
_MOST_SECONDS = 30
_LONGEST_NAME = 253
_LOOKED_UP_AT_ONCE = 2
"""Names: the C library's resolver holds a thread, of which others need some, as long as a name server is silent."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    networks: ranges of addresses that are called.
    names: regular expressions (RE2) of DNS names that are called, each for the whole name; none by default.
    port: at which machines answer.
    allow_unprivileged_port: take a port at which a process of any user can answer for the machine.
    timeout_seconds: for one answer.
    """

    networks: tuple[str, ...]
    names: tuple[str, ...] = ()
    port: int = PORT
    allow_unprivileged_port: bool = False
    timeout_seconds: int = 5


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> CallbackVerifier:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    if not 1 <= read.port <= 65_535 or not 1 <= read.timeout_seconds <= _MOST_SECONDS or not read.networks:
        raise SettingsError(
            f"settings of {NAME}: expected a port of 1 to 65535, timeoutSeconds of 1 to {_MOST_SECONDS}, and networks"
        )
    if read.port >= _PRIVILEGED and not read.allow_unprivileged_port:
        raise SettingsError(
            f"settings of {NAME}: got port {read.port}, expected one below {_PRIVILEGED}",
            hint="any user's process, and any pod of the host's network, can listen above; allowUnprivilegedPort "
            "takes it nevertheless",
        )
    try:
        networks = tuple(ipaddress.ip_network(each) for each in read.networks)
        patterns = tuple(_pattern(each) for each in read.names)
    except (ValueError, re2.error) as err:
        raise SettingsError(f"settings of {NAME}: {err}") from err
    return CallbackVerifier(networks, patterns, read.port, Web(seconds=float(read.timeout_seconds)))


def _pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(text, options)


class CallbackVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(self, networks: Sequence[Network], patterns: Sequence[Any], port: int, web: Web) -> None:
        self._networks = networks
        self._patterns = patterns
        self._port = port
        self._web = web
        self._lookups = asyncio.Semaphore(_LOOKED_UP_AT_ONCE)

    def destination(self, evidence: Evidence) -> str:
        """The machine itself: who names one that is silent waits for that one alone."""
        try:
            return documents.decode(evidence.data, Proof, "the proof of callback").host[:_LONGEST_NAME] or NAME
        except RefusedEvidenceError:
            return NAME

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        """Steps: ``structure``, ``nonce``, ``host``, ``network``, ``answer``. Who does not answer is asked again."""
        proof = self.shown(evidence, Proof, "the proof of callback")
        require(challenge)
        address = verify_host(proof.host, self._patterns)
        called = (address,) if address is not None else await self._resolved(proof.host)
        for each in called:
            verify_network(each, self._networks)
        await self._call(called, binding)
        return Attested(
            provider=NAME,
            version=evidence.version,
            identity=proof.host if address is None else str(address),
            strength=Strength.TOKEN,
            renewable=True,
            addresses=() if address is None else (str(address),),
            dns_names=() if address is not None else (proof.host,),
            claims=(Claim(name=f"{NAME}.host", value=proof.host, source=NAME, strength=Strength.TOKEN),),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """The address, or the name, at which the machine has answered."""
        return serving_names.among(attested, names)

    def machine_name(self, attested: Attested) -> str:
        return ""

    async def _resolved(self, host: str) -> tuple[IPAddress, ...]:
        async with self._lookups:
            return await _resolved(host)

    async def _call(self, addresses: Sequence[IPAddress], binding: Binding) -> None:
        """That one of them answers for the key; of a name that has two addresses, one may be away."""
        away: UnavailableError | None = None
        for each in addresses:
            host = f"[{each}]" if each.version == 6 else str(each)
            try:
                got = await self._web.send("GET", f"http://{host}:{self._port}{path(binding.spki)}", limit=MAX_ANSWER)
            except UnavailableError as err:
                away = err
                continue
            verify_answer(got, answer(binding.digest), host)
            return
        raise away or UnavailableError("the machine's name has no address")


def verify_host(host: str, patterns: Sequence[Any]) -> IPAddress | None:
    """The address that ``host`` is; None for a DNS name that may be called.

    Raises:
        RefusedEvidenceError: ``host``: neither an address nor a name that one of ``patterns`` is for, whole.
    """
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    # A search would take x.blue.test.evil.test for a name below blue.test.
    if names.subdomain(host) or not any(each.fullmatch(host) for each in patterns):
        raise RefusedEvidenceError("host", f"{host[:128]!r} is no address and no name that is called")
    return None


def verify_network(address: IPAddress, networks: Sequence[Network]) -> None:
    """Raises :class:`RefusedEvidenceError`: ``network``. An IPv4 address inside an IPv6 one is none of the first's."""
    if not any(address in each for each in networks if each.version == address.version):
        raise RefusedEvidenceError("network", f"{address} is in none of the networks that are called")


def verify_answer(got: Answer, expected: bytes, host: str) -> None:
    """Raises :class:`RefusedEvidenceError`: ``answer``: who is there has not asked for this certificate."""
    if got.status != 200 or not hmac.compare_digest(got.body, expected):
        raise RefusedEvidenceError("answer", f"{host} answered {got.status}, and not for the key of this request")


async def _resolved(host: str) -> tuple[IPAddress, ...]:
    """Looked up once, so that what is judged is what is called. Raises :class:`UnavailableError`."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as err:
        raise UnavailableError(f"{host} cannot be looked up: {err.strerror or err}") from err
    addresses = {ipaddress.ip_address(each[4][0]) for each in found}
    return tuple(sorted(addresses, key=lambda each: (each.version, int(each))))[:_MOST_ADDRESSES]
