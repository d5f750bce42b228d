"""File discovery: the cluster is the one in a kubeconfig, from a path, an https address or standard input.

Source: cmd/kubeadm/app/discovery/{file,https} (Kubernetes 1.36). Stricter than kubeadm in one place: a file with
credentials is refused, since whoever is handed it to find the cluster would hold them.
"""

from __future__ import annotations

import random as random_module
import sys
import urllib.parse
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.agent.discovery import TIMEOUT_SECONDS, DiscoveredCluster, is_definite
from kubevouch.agent.interface import NoClusterError, NotTrustedError, Observer, SettingsError, Step
from kubevouch.api import catalog
from kubevouch.client.endpoint import Endpoint, EndpointError, endpoint_of_url
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import TransportError
from kubevouch.client.options import ClientOptions, Retry, Timeouts
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Kubeconfig, KubeconfigError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import ParseError
from kubevouch.pki.pins import PinSet
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records.cluster_info import (
    EXTENSION,
    ClusterInfo,
    ClusterInfoError,
    kubeconfig_of,
    parse_kubeconfig,
    told_by,
)
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

STANDARD_INPUT = "-"
_REQUEST_SECONDS = 10.0
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 5.0
_NO_CLUSTER = "the provided kubeconfig file must have at least one Cluster defined"


class FileDiscovery(msgspec.Struct, frozen=True):
    """The cluster of a discovery file.

    Args:
        certificate_authority_data: PEM; without it the system's roots vouch for the server.
        timeout: seconds for the look at cluster-info.
        tls_server_name: the name in the server's certificate; empty is the endpoint's.
        proxy_url: the proxy through which the server is reached. Nothing but the file names one.
        cluster_id, servers: as the file tells them beside its server: which cluster it is, and more addresses of it.
    """

    endpoint: Endpoint
    certificate_authority_data: bytes
    timeout: float = TIMEOUT_SECONDS
    tls_server_name: str = ""
    proxy_url: str = ""
    cluster_id: str = ""
    servers: tuple[str, ...] = ()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (self.endpoint,)

    @property
    def pins(self) -> PinSet:
        """The keys of its authorities."""
        if not self.certificate_authority_data:
            return PinSet(())
        bundle = x509_certificate.parse_bundle(self.certificate_authority_data)
        return PinSet(tuple(each.public_key.fingerprint() for each in bundle))


def verify_source(text: str) -> str:
    """``-``, an https URL or a path; ``file://`` becomes a path. Raises :class:`SettingsError` with kubeadm's text."""
    if text == STANDARD_INPUT:
        return text
    try:
        parts = urllib.parse.urlsplit(text)
    except ValueError as err:
        raise SettingsError(f"{text}: not a valid HTTPS URL or a file on disk") from err
    if parts.scheme == "file":
        return verify_source(parts.path)
    if parts.scheme and "://" in text:
        if parts.scheme != "https":
            raise SettingsError(f"{text}: if a URL is used, the scheme must be https")
        if not parts.hostname:
            raise SettingsError(f"{text}: not a valid HTTPS URL or a file on disk")
        return text
    if not Path(text).is_file():
        raise SettingsError(f"{text}: not a valid HTTPS URL or a file on disk")
    return text


async def read(source: str, clock: Clock, *, timeout: float = TIMEOUT_SECONDS) -> FileDiscovery:
    """The cluster in the file at ``source``.

    Raises:
        SettingsError: there is no such file, or it cannot be used.
        NoClusterError: the address does not answer with a file.
        NotTrustedError: something answers there that the system's roots do not vouch for.
    """
    source = verify_source(source)
    if source == STANDARD_INPUT:
        return parse(sys.stdin.buffer.read(kubeconfig.MAX_BYTES + 1), Path.cwd(), timeout=timeout)
    if source.startswith("https://"):
        return parse(await _download(source, clock), None, timeout=timeout)
    return _read_file(Path(source), timeout)


def _read_file(path: Path, timeout: float) -> FileDiscovery:
    try:
        return parse(path.read_bytes(), path.absolute().parent, timeout=timeout)
    except OSError as err:
        raise SettingsError(f"the discovery file {path} cannot be read: {err.strerror}") from err


def parse(text: bytes, folder: Path | None, *, timeout: float = TIMEOUT_SECONDS) -> FileDiscovery:
    """The unnamed cluster of a kubeconfig, else that of its current context.

    Args:
        folder: to which its paths are relative; None for a file from elsewhere, which may name none.

    Raises:
        SettingsError: with kubeadm's texts where it has them.
    """
    try:
        config = kubeconfig.load(text)
        if not config.clusters:
            raise SettingsError(_NO_CLUSTER)
        cluster = _cluster_of(config)
        _refuse_credentials(config)
        if cluster.insecure_skip_tls_verify:
            raise SettingsError("the discovery file says insecure-skip-tls-verify, so it proves nothing")
        bundle = _bundle(cluster, folder)
        if bundle:
            x509_certificate.parse_bundle(bundle)
        return FileDiscovery(
            endpoint_of_url(cluster.server),
            bundle,
            timeout,
            cluster.tls_server_name,
            cluster.proxy_url,
            *told_by(cluster),
        )
    except (KubeconfigError, EndpointError, ParseError) as err:
        raise SettingsError(
            f"the discovery file cannot be used: {err}", "give a kubeconfig with server and CA"
        ) from err


def _cluster_of(config: Kubeconfig) -> Cluster:
    context = config.contexts.get(config.current_context)
    cluster = config.clusters.get("") or (None if context is None else config.clusters.get(context.cluster))
    if cluster is None and len(config.clusters) == 1:
        (cluster,) = config.clusters.values()
    if cluster is None:
        raise SettingsError("the discovery file has several clusters and no current context", "name one")
    return cluster


def _refuse_credentials(config: Kubeconfig) -> None:
    for name, user in config.users.items():
        held = user != kubeconfig.User() and repr(user) != "User()"
        if held:
            raise SettingsError(
                f"the discovery file holds credentials of the user {quote(name)}",
                "take its users out, and give --tls-bootstrap-token for the certificate request",
            )


def _bundle(cluster: Cluster, folder: Path | None) -> bytes:
    if cluster.certificate_authority_data or not cluster.certificate_authority:
        return cluster.certificate_authority_data
    if folder is None:
        raise SettingsError("the discovery file names a CA file, which is on another machine", "embed the CA in it")
    try:
        return (folder / cluster.certificate_authority).read_bytes()
    except OSError as err:
        raise SettingsError(f"the CA file of the discovery file cannot be read: {err}") from err


def _client(
    server: str, bundle: bytes | None, clock: Clock, *, tls_server_name: str = "", proxy: str = ""
) -> HTTPSClient:
    options = ClientOptions(
        server=server,
        proxy=proxy,
        component="agent",
        protobuf=False,
        timeouts=Timeouts.all(_REQUEST_SECONDS),
        retry=Retry(attempts=1),
        max_body_bytes=kubeconfig.MAX_BYTES,
    )
    return HTTPSClient(
        options, tls=TLSFiles(TLSSources(ca_bundle=bundle, server_name=tls_server_name), clock), clock=clock
    )


async def _download(url: str, clock: Clock) -> bytes:
    parts = urllib.parse.urlsplit(url)
    path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    async with _client(f"https://{parts.netloc}", None, clock) as client:
        try:
            answer = await client.raw("GET", path, headers={"Accept": "*/*"})
        except TransportError as err:
            refusal = NotTrustedError if is_definite(err) else NoClusterError
            raise refusal(f"the discovery file at {url} cannot be fetched: {err}", getattr(err, "hint", "")) from err
    if answer.status != 200:
        raise NoClusterError(f"the discovery file at {url} cannot be fetched: got status {answer.status}")
    return answer.body


async def discover(
    settings: FileDiscovery, clock: Clock, observer: Observer, random: backoff.Random = random_module.random
) -> DiscoveredCluster:
    """The cluster, once its server has answered over verified TLS. The file's server and CA win over cluster-info's.

    Raises:
        NoClusterError: it did not answer until the time was over, or there is no CA anywhere.
        NotTrustedError: something else answered, or another cluster than the file's.
    """
    info = await _cluster_info(settings, clock, observer, random)
    observer.done(Step.FETCHED, f"{settings.endpoint.url}, over verified TLS")
    if info is not None and not _names(info.server, settings.endpoint):
        observer.warning(f"cluster-info names {info.server} as the API server; {settings.endpoint.url} is kept")
    bundle = settings.certificate_authority_data or (b"" if info is None else info.certificate_authority_data)
    if not bundle:
        raise NoClusterError(
            "neither the discovery file nor cluster-info has a CA", "put certificate-authority-data into the file"
        )
    found = DiscoveredCluster(settings.endpoint.url, bundle, settings.tls_server_name, settings.proxy_url)
    told = "" if info is None else info.cluster_id
    if told and settings.cluster_id and told != settings.cluster_id:
        raise NotTrustedError(
            f"{settings.endpoint.url} is the cluster {told} by its cluster-info, and {settings.cluster_id} by the "
            "discovery file",
            f"take {EXTENSION} out of the file, or give the address of the other cluster",
        )
    servers = settings.servers if info is None else info.servers or settings.servers
    return replace(found, cluster_id=told or settings.cluster_id, servers=servers)


async def _cluster_info(
    settings: FileDiscovery, clock: Clock, observer: Observer, random: backoff.Random
) -> ClusterInfo | None:
    give_up = clock.monotonic() + settings.timeout
    told = ""
    delays = backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), random)
    bundle = settings.certificate_authority_data or None
    async with _client(
        settings.endpoint.url, bundle, clock, tls_server_name=settings.tls_server_name, proxy=settings.proxy_url
    ) as client:
        for delay in delays:
            left = give_up - clock.monotonic()
            try:
                async with deadline(clock, max(left, 0.1)):
                    found = await client.get(
                        catalog.CONFIG_MAPS, wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
                    )
                return parse_kubeconfig(kubeconfig_of(found))
            except ClusterInfoError as err:
                observer.warning(f"cluster-info is passed over: {err}")
                return None
            except TimeoutError:
                why = f"{client.address} did not answer in time"
            except (APIStatusError, TransportError) as err:
                if isinstance(err, APIStatusError) and err.code == 403:
                    observer.warning("cluster-info may not be read here; the discovery file is used as it is")
                    return None
                why = str(err)
                if is_definite(err):
                    raise NotTrustedError(
                        f"couldn't validate the identity of the API Server: {why}", getattr(err, "hint", "")
                    ) from err
            if left <= 0:
                raise NoClusterError(
                    f"Abort reading the cluster-info ConfigMap after timeout of {settings.timeout:g}s: {why}",
                    "check the server in the discovery file",
                )
            if why != told:
                observer.waiting(why)
                told = why
            await clock.sleep(min(delay, left))
    raise AssertionError  # pragma: no cover - the delays go on for ever


def _names(server: str, endpoint: Endpoint) -> bool:
    try:
        return endpoint_of_url(server) == endpoint
    except EndpointError:
        return False
