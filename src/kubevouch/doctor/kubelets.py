"""What kubelets serve with: whoever asks for logs or metrics fails on it, and says only that TLS did."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import re
import ssl
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import INTERNAL_IP, READY
from kubevouch.client.endpoint import Endpoint
from kubevouch.doctor import reach
from kubevouch.doctor.findings import Code, Finding
from kubevouch.doctor.reach import NotReached
from kubevouch.machinery.codec import yamltext
from kubevouch.machinery.text.times import Time
from kubevouch.phases.join import KUBELET_CONFIG, KUBELET_FLAGS
from kubevouch.phases.join_wait import SERVING
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import ClientCertificateError, ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.usages import EXTENDED_KEY_USAGES, SERVER_AUTH
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.reviews.csr_review import State, state_of
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

KUBELET_PORT = 10250
PILE = 5
"""So many undecided requests of one requester for one signer are a pile."""
_AT_ONCE = 50
_DIAL_SECONDS = 3.0
_SHOWN = 3
_RESTART = "systemctl restart kubelet"
_FLAG = re.compile(r"--(address|port)[= ]([0-9A-Fa-f.:]+)", re.ASCII)


# ------------------------------------------------------------------ from the cluster's side


async def visit(nodes: Iterable[Node], anchors: Sequence[Certificate], clock: Clock) -> list[Finding]:
    """Dial the kubelet of each node that is Ready. ``anchors`` is the cluster's CA."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(node: Node) -> list[Finding]:
        endpoint = endpoint_of(node)
        if endpoint is None:
            return [Code.NODE_WITHOUT_ADDRESS.found(f"the Node {node.metadata.name} has no IP address")]
        if not is_ready(node):
            return []
        async with turns:
            return await _dial(node.metadata.name, endpoint, anchors, clock)

    return _together([each for found in await asyncio.gather(*map(one, nodes)) for each in found])


def _together(found: list[Finding]) -> list[Finding]:
    """From where no kubelet can be reached, that is said once."""
    lost = [each for each in found if each.code is Code.KUBELET_NOT_REACHED]
    if len(lost) <= _SHOWN:
        return found
    rest = [each for each in found if each.code is not Code.KUBELET_NOT_REACHED]
    return [*rest, Code.KUBELET_NOT_REACHED.found(f"{len(lost)} kubelets, of which one: {lost[0].cause}", lost[0].fix)]


def endpoint_of(node: Node) -> Endpoint | None:
    """The address at which an API server would call the kubelet; an internal one first."""
    found = [each for each in node.status.addresses if _is_address(each.address)]
    found.sort(key=lambda each: each.type != INTERNAL_IP)
    port = node.status.daemon_endpoints.kubelet_endpoint.port or KUBELET_PORT
    return Endpoint(found[0].address, port) if found else None


def is_ready(node: Node) -> bool:
    return any(each.type == READY and each.status == "True" for each in node.status.conditions)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


async def _dial(name: str, endpoint: Endpoint, anchors: Sequence[Certificate], clock: Clock) -> list[Finding]:
    try:
        async with deadline(clock, _DIAL_SECONDS):
            leaf = await reach.serving_certificate(endpoint, clock)
    except NotReached as err:
        return [judge_failure(name, endpoint, err)]
    except TimeoutError:
        why = f"{endpoint.address} did not answer within {_DIAL_SECONDS:g} s"
        return [
            Code.KUBELET_NOT_REACHED.found(f"the kubelet of {name}, which is Ready: {why}", reach.let_through(endpoint))
        ]
    return list(judge_served(name, leaf, endpoint, anchors, now=clock.now()))


def judge_failure(name: str, endpoint: Endpoint, err: NotReached) -> Finding:
    """A kubelet without a certificate breaks the handshake off by itself."""
    cause = err.__cause__
    if isinstance(cause, ssl.SSLError) and "INTERNAL_ERROR" in (cause.reason or ""):
        return Code.KUBELET_WITHOUT_CERTIFICATE.found(
            f"the kubelet of {name} at {endpoint.address} breaks off TLS with an internal error: it has no certificate"
        )
    # A firewall that drops says nothing; a port that is refused is that of a kubelet which does not listen.
    fix = reach.let_through(endpoint) if err.finding.code is Code.NO_ANSWER else f"on {name}: {_RESTART}"
    return Code.KUBELET_NOT_REACHED.found(f"the kubelet of {name}, which is Ready: {err.finding.cause}", fix)


def judge_served(
    name: str, leaf: Certificate, endpoint: Endpoint, anchors: Sequence[Certificate], *, now: dt.datetime
) -> Iterator[Finding]:
    who = f"the kubelet of {name} at {endpoint.address}"
    if not leaf.not_before <= now <= leaf.not_after:
        yield Code.KUBELET_CERTIFICATE_DATES.found(
            f"{who} serves with a certificate from {Time.of(leaf.not_before)} to {Time.of(leaf.not_after)}"
        )
    if anchors:
        try:
            when = min(max(now, leaf.not_before), leaf.not_after)
            verify_chain(leaf, (), TrustAnchors(anchors), now=when, usage=EXTENDED_KEY_USAGES[SERVER_AUTH])
        except ClientCertificateError as err:
            yield Code.KUBELET_SELF_SIGNED.found(f"{who} serves with a certificate of its own making: {err}")
            return
    if not reach.covers(leaf, endpoint.host):
        names = [*leaf.meaning.alt_names.dns_names, *map(str, leaf.meaning.alt_names.ip_addresses)]
        yield Code.KUBELET_NAME_MISSING.found(f"{who} has a certificate for {', '.join(names) or 'no name'}")


def judge_pile(requests: Iterable[CertificateSigningRequest]) -> Iterator[Finding]:
    """Requests of one requester that nobody decides about (kubernetes/kubernetes#132947)."""
    waiting = Counter(
        (csr.spec.username, csr.spec.signer_name)
        for csr in requests
        if state_of(csr) in (State.PENDING, State.APPROVED)
    )
    for (user, signer), count in waiting.most_common():
        if count >= PILE:
            yield Code.REQUESTS_PILE_UP.found(f"{count} requests of {user} for {signer} have no certificate")


# ------------------------------------------------------------------ on the node


def listening_endpoint(root: Path, port: int = KUBELET_PORT) -> Endpoint:
    """Where this machine's kubelet serves: as its flags say, else its configuration file, else everywhere."""
    said: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        tree, _ = yamltext.loads((root / KUBELET_CONFIG).read_bytes())
        if isinstance(tree, dict):
            said = {name: str(tree[name]) for name in ("address", "port") if tree.get(name)}
    with contextlib.suppress(OSError):
        said |= dict(_FLAG.findall((root / KUBELET_FLAGS).read_text("utf-8", "replace")))
    try:
        address = ipaddress.ip_address(said.get("address", "0.0.0.0"))  # noqa: S104 - kubelet's default
        port = int(said.get("port", port))
    except ValueError:
        return Endpoint("127.0.0.1", port)
    if address.is_unspecified:
        return Endpoint("::1" if address.version == 6 else "127.0.0.1", port)
    return Endpoint(str(address), port)


async def compare(root: Path, clock: Clock, *, port: int = KUBELET_PORT) -> tuple[list[Finding], list[tuple[str, str]]]:
    """What this machine's kubelet serves, beside what it has on disk. Findings, and facts.

    Args:
        port: where it serves unless its files say otherwise.
    """
    endpoint = listening_endpoint(root, port)
    kept = _kept(root)
    facts = [] if kept is None else [("serving certificate", f"on disk until {Time.of(kept.not_after)}")]
    try:
        served = await reach.serving_certificate(endpoint, clock)
    except NotReached as err:
        if err.finding.code in (Code.PORT_REFUSED, Code.NO_ANSWER):
            return [], [*facts, ("kubelet", f"nothing serves on {endpoint.address}")]
        return [judge_failure("this machine", endpoint, err)], facts
    facts.append(("kubelet", f"serves with a certificate until {Time.of(served.not_after)}"))
    if kept is not None and kept.contents != served.contents:
        return [
            Code.KUBELET_SERVES_FORMER.found(
                f"{endpoint.address} serves with the certificate {served.serial:x} until {Time.of(served.not_after)}, "
                f"and {root / SERVING} has {kept.serial:x}",
                _RESTART,
            )
        ], facts
    return [], facts


def _kept(root: Path) -> Certificate | None:
    try:
        return x509_certificate.parse_bundle((root / SERVING).read_bytes())[0]
    except (OSError, ParseError):
        return None
