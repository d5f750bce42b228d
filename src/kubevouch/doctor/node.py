"""Why a node's certificate does not work or is not renewed: its files, and what the API server says to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from kubevouch.agent.own_tpm import know_tpm_of
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.client.endpoint import Endpoint, EndpointError, endpoint_of_url
from kubevouch.client.interface import Client, ClientConfigurationError, TransportError
from kubevouch.client.options import Retry, Timeouts
from kubevouch.client.pager import PAGES, list_all
from kubevouch.client.rest_config import RESTConfig, rest_config
from kubevouch.doctor import kubelets, node_files, reach, rights
from kubevouch.doctor.findings import Code, Finding, Report
from kubevouch.doctor.node_files import NodeFiles, Pair
from kubevouch.doctor.reach import NotReached
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import human_duration
from kubevouch.machinery.text.times import Time
from kubevouch.pki import keys, rotation
from kubevouch.pki.errors import KeyMaterialError, ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.reviews.csr_review import State, state_of
from kubevouch.util.clock import Clock


@dataclass(frozen=True, slots=True)
class NodeVisit:
    """Which machine to look at.

    Args:
        root: before every path.
        certificate_folder: where the pairs are, if not in the kubelet's place.
        offline: do not ask the API server.
        environ: the environment variables under which a kubelet or an agent runs.
        kubelet_port: where this machine's kubelet serves; 0 does not look there, as for a tree that is no machine's.
    """

    root: Path = Path("/")
    certificate_folder: Path | None = None
    offline: bool = False
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    kubelet_port: int = 0


async def examine(visit: NodeVisit, clock: Clock) -> Report:
    """All that is wrong with the node's credential."""
    files = node_files.gather(visit.root, visit.certificate_folder)
    found = list(node_files.judge(files, now=clock.now()))
    facts: list[tuple[str, str]] = []
    pair = node_files.read_pair(files)
    if isinstance(pair, Pair):
        facts += describe(pair.chain[0], now=clock.now())
    if not visit.offline and files.kubelet_conf.content is not None:
        try:
            found += _news(found, await _ask(files, pair if isinstance(pair, Pair) else None, visit, clock))
        except (EndpointError, ClientConfigurationError) as err:
            found += [] if found else [Code.KUBECONFIG_BROKEN.found(f"{files.kubelet_conf.path}: {err}")]
    if visit.kubelet_port and not visit.offline:
        more, learnt = await kubelets.compare(visit.root, clock, port=visit.kubelet_port)
        found += more
        facts += learnt
    return Report(tuple(found), tuple(facts))


def describe(leaf: Certificate, *, now: dt.datetime) -> Iterator[tuple[str, str]]:
    """The certificate in plain words; that it is renewed long before its end is no fault (kubernetes#138763)."""
    yield "certificate", f"{leaf.subject.common_name} until {Time.of(leaf.not_after)}"
    if leaf.not_before <= now <= leaf.not_after:
        age = (now - leaf.not_before) / (leaf.not_after - leaf.not_before)
        earliest = rotation.rotation_deadline(leaf.not_before, leaf.not_after, 0.0)
        left = human_duration((leaf.not_after - now).total_seconds())
        when = f"between {Time.of(earliest)} and {Time.of(node_files.latest_rotation(leaf))}"
        yield "renewal", f"{when}, which is normal; {age:.0%} of its life is over, {left} are left"


# ------------------------------------------------------------------ the API server


def _news(known: list[Finding], more: list[Finding]) -> list[Finding]:
    """A certificate that has ended is refused, too; that is said once."""
    codes = {each.code for each in known}
    told = bool(codes & {Code.CERTIFICATE_EXPIRED, Code.CERTIFICATE_NOT_YET_VALID, Code.CERTIFICATE_OTHER_CA})
    return [each for each in more if not (told and each.code is Code.CERTIFICATE_REFUSED)]


async def _ask(files: NodeFiles, pair: Pair | None, visit: NodeVisit, clock: Clock) -> list[Finding]:
    """Raises EndpointError, ClientConfigurationError."""
    config = rest_config(files.kubelet_conf.path)
    know_tpm_of(config.tls.private_key)
    endpoint = endpoint_of_url(config.options.server)
    options = replace(config.options, timeouts=Timeouts.all(reach.STAGE_SECONDS), retry=Retry(attempts=1))
    client = replace(config, options=options).client(component="doctor", clock=clock)
    found: list[Finding] = []
    async with client:
        try:
            found += await _way(config, endpoint, files, clock)
            found += await _rights(client, pair, files)
        except NotReached as err:
            found.append(err.finding)
        except TransportError as err:
            found += [] if found else [reach.judge_transport(err, endpoint)]
        skew = None if client.server_date is None else client.server_date.skew
    return [*found, *reach.judge_clock(skew), *reach.judge_proxies(visit.environ, endpoint)]


async def _way(config: RESTConfig, endpoint: Endpoint, files: NodeFiles, clock: Clock) -> list[Finding]:
    await reach.addresses_of(endpoint, clock)
    name = config.tls.server_name or endpoint.host
    leaf = await reach.serving_certificate(endpoint, clock, name)
    trusted = node_files.authority_of(files)
    return list(reach.judge_serving(leaf, name, trusted, endpoint, now=clock.now())) if trusted else []


async def _rights(client: Client, pair: Pair | None, files: NodeFiles) -> list[Finding]:
    """Raises TransportError."""
    try:
        found = [each async for each in rights.of_node(client)]
        pending = files.pending_key.content
        requests = (await list_all(client, CERTIFICATE_SIGNING_REQUESTS, options=PAGES)).items if pending else []
    except APIStatusError as err:
        return [judge_refusal(err, pair)]
    return [*found, *judge_requests(requests, files.pending_key.content or b"")]


def judge_refusal(err: APIStatusError, pair: Pair | None) -> Finding:
    """401 and 403 are different illnesses."""
    if err.code == 401:
        who = "the node's credential" if pair is None else f"the certificate of {pair.chain[0].subject.common_name}"
        return Code.CERTIFICATE_REFUSED.found(f"the API server does not accept {who} (401)")
    return Code.NODE_FORBIDDEN.found(f"the API server answers {err.code}: {err}")


def judge_requests(requests: list[CertificateSigningRequest], pending_key: bytes) -> Iterator[Finding]:
    """What became of the request that the key under way belongs to."""
    try:
        wanted = keys.public_key_of(keys.load_pem(pending_key, in_tpm=True)).canonical_info
    except KeyMaterialError:
        return
    for csr in requests:
        try:
            request = x509_request.parse_pem(csr.spec.request or b"")
        except ParseError:
            continue
        state = state_of(csr)
        if request.public_key.canonical_info != wanted or state is State.ISSUED:
            continue
        why = "; ".join(each.message for each in csr.status.conditions if each.message)
        name = csr.metadata.name
        what = {
            State.PENDING: "nobody has decided about it",
            State.APPROVED: "it is approved, and nobody has signed it",
        }.get(state, f"it is {state.value.lower()}: {why or 'no reason is given'}")
        yield Code.REQUEST_PENDING.found(f"the request {name} is this node's: {what}", f"kubevouch csr show {name}")
