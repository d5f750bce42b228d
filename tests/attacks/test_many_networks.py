"""Somebody with a /48, or a /32: 65,536 networks of the size of a source, or as many /48s. Others still get in."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterator

import pytest

import identity_world as world
from asynctest import async_test
from decisions import admission_request
from kubevouch.admission.certificate_request_budget import (
    DEFAULT_BUDGET,
    REFUSED_BUDGET,
    SOURCE_BUDGET,
    CertificateRequestBudget,
    OpenRequests,
)
from kubevouch.admission.interface import Operation
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.authentication.interface import Credentials
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.server.filters.flow_control import FAILURES_BURST, NETWORK_FAILURES, FlowControl
from kubevouch.server.flow_control.connections import MAX_CONNECTIONS, ConnectionLimits
from kubevouch.server.flow_control.handshakes import HandshakeSlots
from kubevouch.server.query import Query
from kubevouch.server.request import Request, Result
from kubevouch.server.request_info import parse
from kubevouch.testing.clock import FakeClock
from kubevouch.util.addresses import source_prefix
from kubevouch.util.network_shares import NetworkShares
from kubevouch.util.timers import Timers

HONEST = "2001:db8:ffff::1"
"""Elsewhere, at another provider."""
TOKEN = "abcdef"
DENIED = CertificateSigningRequestCondition(type="Denied", status="True")
NETWORKS = {
    "a /56": "2a00:0:0:100::",
    "a /48": "2a00:0:1::",
    "a /32": "2a00::",
    "a /24": "198.51.100.0",
    "a /16": "198.51.0.0",
}


class Requests:
    """Of machines with one token: refused, or stored and counted."""

    def __init__(self) -> None:
        self.open = OpenRequests()
        self._plugin = CertificateRequestBudget(self.open)
        self._pems = [world.node_request(f"worker-{number}") for number in range(50)]
        self.count = 0

    async def send(self, source: str, *, denied: bool = False) -> int:
        """200, or the code of the refusal."""
        self.count += 1
        spec = CertificateSigningRequestSpec(
            request=self._pems[self.count % 50], signer_name=world.NODE_CLIENT, username=f"system:bootstrap:{TOKEN}"
        )
        metadata = ObjectMeta(name=f"csr-{self.count}", annotations={SOURCE_ADDRESS_ANNOTATION: source})
        obj = CertificateSigningRequest(metadata=metadata, spec=spec)
        asked = admission_request(
            Operation.CREATE, catalog.CERTIFICATE_SIGNING_REQUESTS, obj, user=world.token_user(TOKEN)
        )
        try:
            await self._plugin.validate(asked)
        except APIStatusError as err:
            return err.code
        status = CertificateSigningRequestStatus(conditions=[DENIED] if denied else [])
        self.open.changed(metadata.name, CertificateSigningRequest(metadata=metadata, spec=spec, status=status))
        return 200


def sources(network: str, count: int) -> Iterator[str]:
    """Addresses that count apart, as far as the network has any; then from its beginning."""
    name = next(name for name, first in NETWORKS.items() if first == network)
    length = int(name.removeprefix("a /"))
    first = ipaddress.ip_address(network)
    bits = 32 - length if first.version == 4 else 64 - length
    step = 1 if first.version == 4 else 1 << 64
    # The bits of a number, the lowest first, from the widest network to the narrowest: so they spread.
    for number in range(count):
        spread = int(f"{number % (1 << bits):0{bits}b}"[::-1], 2)
        yield str(first + spread * step)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_no_network_takes_all_connections(network: str) -> None:
    limits = ConnectionLimits(MAX_CONNECTIONS)
    for source in sources(network, MAX_CONNECTIONS):
        limits.admit(source_prefix(source))
    assert limits.open <= MAX_CONNECTIONS - MAX_CONNECTIONS // 10
    honest = [limits.admit(source_prefix(f"2001:db8:{number:x}::1")) for number in range(MAX_CONNECTIONS // 10)]
    assert all(honest)
    # Nobody's place is counted for ever.
    for number in range(MAX_CONNECTIONS // 10):
        limits.release(source_prefix(f"2001:db8:{number:x}::1"))
    assert limits.admit(source_prefix(HONEST))


def test_a_fleet_in_one_network_keeps_nine_tenths_of_the_connections() -> None:
    limits = ConnectionLimits(1000)
    admitted = sum(limits.admit(f"10.0.{number >> 8}.{number & 255}") for number in range(1000))
    assert admitted == 900


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@async_test
async def test_no_network_takes_a_token_s_budget(network: str) -> None:
    requests = Requests()
    codes = Counter([await requests.send(each) for each in sources(network, DEFAULT_BUDGET)])
    assert 0 < codes[200] <= DEFAULT_BUDGET - DEFAULT_BUDGET // 10
    assert {await requests.send(HONEST) for _ in range(SOURCE_BUDGET)} == {200}
    assert await requests.send(HONEST) == 429


@async_test
async def test_no_network_takes_what_a_token_may_have_refused() -> None:
    requests = Requests()
    codes = Counter([await requests.send(each, denied=True) for each in sources(NETWORKS["a /48"], REFUSED_BUDGET)])
    assert codes == {200: REFUSED_BUDGET - REFUSED_BUDGET // 10, 429: REFUSED_BUDGET // 10}
    assert await requests.send(HONEST) == 200
    for number in range(1, requests.count + 1):
        requests.open.changed(f"csr-{number}", None)
    assert not len(requests.open.networks) and not len(requests.open.refused_networks)


async def _refuse(_request: Request) -> Result:
    raise errors.unauthorized()


@pytest.mark.parametrize("network", ["a /56", "a /48", "a /32"])
@async_test
async def test_bad_credentials_are_counted_by_network(network: str) -> None:
    clock = FakeClock()
    timers = Timers(clock)
    flow = FlowControl(clock, timers)

    async def shown(source: str) -> int:
        credentials = Credentials(source=source, authorization="Bearer x.y")
        bad = Request("GET", "/api", Query(), {}, clock.now(), credentials, info=parse("GET", "/api", Query()))
        with pytest.raises(APIStatusError) as caught:
            await flow.credentials(bad, _refuse)
        return caught.value.code

    bursts = [burst for burst, _ in NETWORK_FAILURES]
    most = bursts[["a /56", "a /48", "a /32"].index(network)]
    codes = Counter([await shown(each) for each in sources(NETWORKS[network], most + 200)])
    assert codes == {401: most, 429: 200}
    assert await shown(HONEST) == 401
    # One address alone uses up nothing of its neighbours'.
    flow.forgive()
    for _ in range(bursts[0] + 100):
        await shown("2a00::1")
    assert await shown("2a00:0:0:1::1") == 401
    assert max(bursts) < 65_536 * FAILURES_BURST
    await timers.close()


@async_test
async def test_handshakes_take_turns_by_network_too() -> None:
    slots = HandshakeSlots(1, seconds=3600)
    done: list[str] = []

    async def shake(address: str) -> None:
        async with slots.slot(source_prefix(address)):
            done.append(address)

    held = slots.slot("")
    await held.__aenter__()
    thieves = [asyncio.create_task(shake(each)) for each in sources(NETWORKS["a /32"], 2000)]
    honest = [asyncio.create_task(shake(f"2001:db8:1:{number:x}::1")) for number in range(100)]
    await asyncio.sleep(0)
    await held.__aexit__()
    await asyncio.gather(*thieves, *honest)
    # By sources alone the first of them comes behind all 2,000; each fourth turn goes round the two /32s.
    places = [at for at, address in enumerate(done) if address.startswith("2001:db8")]
    assert places[0] < 10 and places[-1] < 1000
    assert not slots._queues and not any(slots._rings)


def test_what_is_given_back_is_forgotten() -> None:
    shares = NetworkShares()
    for source in ("192.0.2.1", source_prefix(HONEST), "", "socket"):
        shares.take(source, "a")
        shares.take(source)
    for source in ("192.0.2.1", source_prefix(HONEST), "", "socket"):
        shares.give_back(source, "a")
        shares.give_back(source)
    assert not len(shares)
