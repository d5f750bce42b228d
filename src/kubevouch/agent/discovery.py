"""Token discovery: from HOST:PORT, a bootstrap token and pins to a cluster that is proven to be the right one.

Source: cmd/kubeadm/app/discovery/token (Kubernetes 1.36). Stricter than kubeadm in three places: settings are checked
before anything is asked, only a server of a pinned CA is believed, and what can never become right ends the wait.
"""

from __future__ import annotations

import datetime as dt
import random as random_module
import ssl
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack

import msgspec

from kubevouch import wellknown
from kubevouch.agent.interface import NoClusterError, NotTrustedError, Observer, SettingsError, Step
from kubevouch.api import catalog
from kubevouch.client.endpoint import Endpoint, EndpointError, endpoint_of_url, parse_endpoint
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import NotKubernetes, TLSFailed, TransportError
from kubevouch.client.options import ClientOptions, Retry, Timeouts
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import human_duration, quote
from kubevouch.pki import jws, pins
from kubevouch.pki.errors import ParseError, PinError, SignatureError
from kubevouch.pki.pins import PinSet
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.bootstrap_tokens import Token, TokenSyntaxError, parse_token
from kubevouch.records.cluster_info import (
    MAX_SERVERS,
    ClusterInfo,
    ClusterInfoError,
    parse_kubeconfig,
    signature_key,
)
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

TIMEOUT_SECONDS = 300.0  # kubeadm's timeouts.discovery
# A token that was just made is signed for within a second or two; kubeadm waits for its whole timeout.
_SIGNATURE_SECONDS = 30.0
_REQUEST_SECONDS = 10.0  # kubeadm's HTTP client
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 5.0
_MAX_BYTES = 4 << 20  # more than any object that etcd stores
# Certificates are backdated by five minutes; a clock that is further off shows.
_SKEW_WORTH_TELLING = dt.timedelta(minutes=5)

_UNPROVEN = "couldn't validate the identity of the API Server"
_NOT_FETCHED = "failed to request the cluster-info ConfigMap"
_NO_PINS = (
    "using token-based discovery without caCertHashes can be unsafe. Set unsafeSkipCAVerification as true in your "
    "kubeadm config file or pass --discovery-token-unsafe-skip-ca-verification flag to continue"
)
_OTHER_CLUSTER = "check the address and the hash; if both are right, something in between answers for the server"


class TokenDiscovery(msgspec.Struct, frozen=True):
    """Where to ask, and what proves the answer.

    Args:
        pins: at least one, unless ``unsafe_skip_ca_verification``; then whoever knows the token may be the cluster.
        timeout: seconds for all of it.
        others: more addresses of the same cluster, tried in turn after ``endpoint``.
    """

    endpoint: Endpoint
    token: Token
    pins: PinSet
    unsafe_skip_ca_verification: bool = False
    timeout: float = TIMEOUT_SECONDS
    others: tuple[Endpoint, ...] = ()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (self.endpoint, *self.others)


class DiscoveredCluster(msgspec.Struct, frozen=True):
    """A cluster that has been proven.

    Args:
        certificate_authority_data: PEM, pinned certificates first.
        tls_server_name, proxy_url: as a discovery file says; empty otherwise.
        cluster_id, servers: as cluster-info says: which cluster it is, and more addresses of it.
    """

    server: str
    certificate_authority_data: bytes
    tls_server_name: str = ""
    proxy_url: str = ""
    cluster_id: str = ""
    servers: tuple[str, ...] = ()


def token_discovery(
    endpoint: str,
    token: str,
    hashes: Iterable[str],
    *,
    unsafe_skip_ca_verification: bool = False,
    timeout: float = TIMEOUT_SECONDS,
) -> TokenDiscovery:
    """The settings from what a person typed.

    Args:
        endpoint: ``HOST:PORT``, or several with commas between them.

    Raises:
        SettingsError: one of them cannot be meant; with kubeadm's text where it has one.
    """
    try:
        first, *others = dict.fromkeys(parse_endpoint(each.strip()) for each in endpoint.split(","))
        if len(others) > MAX_SERVERS:
            raise SettingsError(f"got {len(others) + 1} addresses, expected {MAX_SERVERS + 1} at most")
        found = TokenDiscovery(
            first, parse_token(token), pins.parse(hashes), unsafe_skip_ca_verification, timeout, tuple(others)
        )
    except EndpointError as err:
        raise SettingsError(str(err), "give the API server as HOST:PORT, such as 192.0.2.10:6443") from err
    except TokenSyntaxError as err:
        raise SettingsError(f"the bootstrap token is invalid: {err}", "kubevouch token create makes one") from err
    except PinError as err:
        raise SettingsError(
            f"the CA certificate hash cannot be used: {err}", "kubevouch token create --print-join-command prints it"
        ) from err
    if not found.pins and not unsafe_skip_ca_verification:
        raise SettingsError(_NO_PINS, "kubevouch token create --print-join-command prints the hash")
    return found


# ------------------------------------------------------------------ decisions


def verify_authority(text: str, pinned: PinSet) -> tuple[ClusterInfo, tuple[Certificate, ...]]:
    """Step 3: the cluster in a signed kubeconfig, and those of its CA certificates that are to be trusted.

    Raises:
        NotTrustedError: no cluster, no CA, or none that is pinned; with kubeadm's texts.
    """
    try:
        info = parse_kubeconfig(text)
        bundle = tuple(x509_certificate.parse_bundle(info.certificate_authority_data))
    except ClusterInfoError as err:
        raise _unproven(str(err)) from err
    except ParseError as err:
        raise _unproven(f"cluster CA found in cluster-info ConfigMap is invalid: {err}") from err
    if not pinned:
        return info, bundle
    try:
        return info, pins.verify(pinned, bundle)
    except PinError as err:
        raise _unproven(f"cluster CA found in cluster-info ConfigMap is invalid: {err}", _OTHER_CLUSTER) from err


def verify_equal(first: str, second: str) -> None:
    """Step 5. Raises :class:`NotTrustedError` unless both texts are the same to the byte."""
    if first.encode("utf-8", "surrogatepass") != second.encode("utf-8", "surrogatepass"):
        raise _unproven(
            "the second kubeconfig from the cluster-info ConfigMap (using validated TLS) was different from the first",
            "try again; if it stays so, something in between changes the answer",
        )


def is_definite(err: APIStatusError | TransportError) -> bool:
    """Whether asking again cannot help. A server that starts answers 403 and 404, a balancer without servers 50x."""
    if isinstance(err, APIStatusError):
        return 400 <= err.code < 500 and err.code not in (403, 404, 408, 429)
    if isinstance(err, NotKubernetes):
        return err.status not in (502, 503, 504)
    return isinstance(err, TLSFailed) and not _cut_off(err)


def _cut_off(err: BaseException | None) -> bool:
    """Whether the peer went away in the handshake, as a balancer without servers does."""
    while err is not None:
        if isinstance(err, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return True
        err = err.__cause__
    return False


def _unproven(why: str, hint: str = "") -> NotTrustedError:
    return NotTrustedError(f"{_UNPROVEN}: {why}", hint)


# ------------------------------------------------------------------ the steps


async def discover(
    settings: TokenDiscovery, clock: Clock, observer: Observer, random: backoff.Random = random_module.random
) -> DiscoveredCluster:
    """All steps; ``observer`` is told each one as it is done.

    Raises:
        NoClusterError: the time was over before cluster-info could be checked.
        NotTrustedError: what answered is not proven to be the right cluster.
    """
    return await _Discovery(settings, clock, observer, random).run()


class _Discovery:
    def __init__(self, settings: TokenDiscovery, clock: Clock, observer: Observer, random: backoff.Random) -> None:
        self._settings = settings
        self._clock = clock
        self._observer = observer
        self._random = random
        self._give_up = clock.monotonic() + settings.timeout
        self._skew: dt.timedelta | None = None
        self._unsigned_since: float | None = None
        self._left = list(settings.endpoints)
        """Those that have not been proven to be somebody else's."""
        self._endpoint = settings.endpoint
        """That of the last answer."""

    async def run(self) -> DiscoveredCluster:
        while True:
            try:
                return await self._prove()
            except NotTrustedError as err:
                if len(self._left) == 1:
                    raise
                # What lies about one address keeps nobody from the others, and is believed nowhere.
                self._left.remove(self._endpoint)
                self._observer.warning(f"{self._endpoint.address}: {err}; the next address is tried")

    async def _prove(self) -> DiscoveredCluster:
        settings, observer = self._settings, self._observer
        token = settings.token
        # 1. No credentials, and nothing verified: what comes is only as good as its signature.
        entries = await self._fetch(TLSSources(insecure=True), self._left)
        observer.done(Step.FETCHED, self._endpoint.address)
        # 2. Who signed this knows the token.
        try:
            text = jws.verify_cluster_info(entries, token.token_id, token.token_secret)
        except SignatureError as err:
            raise _unproven(str(err), "check the token; kubevouch token list shows those that are valid") from err
        observer.done(Step.SIGNATURE_CHECKED, f"token ID {token.token_id}")
        # 3. The CA is the one that the operator named.
        info, trusted = verify_authority(text, settings.pins)
        bundle = b"".join(certificate.pem() for certificate in trusted)
        self._warn(info, trusted)
        if not settings.pins:
            return self._found(info, bundle)
        observer.done(Step.CA_PINNED, ", ".join(pins.pin_of(certificate) for certificate in trusted))
        # 4. The server has a key that this CA vouches for. 5. It says the same.
        again = await self._fetch(TLSSources(ca_bundle=bundle), [self._endpoint])
        verify_equal(text, again.get(wellknown.KUBECONFIG_KEY, ""))
        observer.done(Step.FETCHED_AGAIN)
        # While one CA takes over from another, the server that the pinned one vouches for names the other one.
        published = x509_certificate.parse_bundle(info.certificate_authority_data)
        others = [each for each in published if all(each.contents != one.contents for one in trusted)]
        return self._found(info, bundle + b"".join(each.pem() for each in others))

    def _found(self, info: ClusterInfo, bundle: bytes) -> DiscoveredCluster:
        server = self._endpoint.url
        told = (info.server, *info.servers) if info.cluster_id else ()
        known = dict.fromkeys((*(each.url for each in self._left), *told))
        servers = [each for each in known if each != server]
        return DiscoveredCluster(server, bundle, cluster_id=info.cluster_id, servers=tuple(servers[:MAX_SERVERS]))

    def _warn(self, info: ClusterInfo, trusted: tuple[Certificate, ...]) -> None:
        """Told once the token has vouched for the text."""
        settings = self._settings
        if not settings.pins:
            self._observer.warning("the CA is not checked against a hash: whoever knows the token can be the cluster")
        left_out = len(x509_certificate.parse_bundle(info.certificate_authority_data)) - len(trusted)
        if left_out:
            self._observer.warning(
                f"CA certificates of cluster-info that are not pinned: {left_out}; they are believed once a server of "
                "a pinned one names them"
            )
        if not any(_names(info.server, each) for each in settings.endpoints):
            self._observer.warning(
                f"cluster-info names {info.server} as the API server; {self._endpoint.url} is kept, as given"
            )
        if self._skew is not None and abs(self._skew) > _SKEW_WORTH_TELLING:
            self._observer.warning(_clock_words(self._skew))

    async def _fetch(self, tls: TLSSources, endpoints: Sequence[Endpoint]) -> Mapping[str, str]:
        """The entries of cluster-info at the first address that has a signature for our token among them."""
        delays = backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), self._random)
        told: list[str] = []
        async with AsyncExitStack() as stack:
            clients = [(each, await stack.enter_async_context(self._client(each, tls))) for each in endpoints]
            for delay in delays:
                reasons = []
                for self._endpoint, client in clients:
                    entries, why = await self._attempt(client)
                    if entries is not None:
                        return entries
                    reasons.append(why)
                left = self._give_up - self._clock.monotonic()
                if left <= 0:
                    raise NoClusterError(
                        f"{_UNPROVEN}: {'; '.join(reasons)}",
                        f"it was tried for {self._settings.timeout:g} s; check the address, the server and the token",
                    )
                for why in reasons:
                    if why not in told:
                        self._observer.waiting(why)
                told = reasons
                await self._clock.sleep(min(delay, left))
        raise AssertionError  # pragma: no cover - the delays go on for ever

    def _client(self, endpoint: Endpoint, tls: TLSSources) -> HTTPSClient:
        options = ClientOptions(
            server=endpoint.url,
            component="agent",
            protobuf=False,
            timeouts=Timeouts.all(_REQUEST_SECONDS),
            retry=Retry(attempts=1),
            max_body_bytes=_MAX_BYTES,
        )
        return HTTPSClient(options, tls=TLSFiles(tls, self._clock), clock=self._clock)

    async def _attempt(self, client: HTTPSClient) -> tuple[Mapping[str, str] | None, str]:
        """The entries, or why there are none yet."""
        left = max(self._give_up - self._clock.monotonic(), 0.1)
        try:
            async with deadline(self._clock, left):
                found = await client.get(
                    catalog.CONFIG_MAPS, wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
                )
        except TimeoutError:
            return None, f"{_NOT_FETCHED}: {client.address} did not answer in time"
        except (APIStatusError, TransportError) as err:
            if is_definite(err):
                raise self._refused(err) from err
            return None, f"{_NOT_FETCHED}: {err}"
        self._note_date(client)
        token_id = self._settings.token.token_id
        if signature_key(token_id) in found.data:
            return found.data, ""
        # Without a signature nothing can become right if the CA is another cluster's.
        if self._settings.pins and found.data.get(wellknown.KUBECONFIG_KEY):
            verify_authority(found.data[wellknown.KUBECONFIG_KEY], self._settings.pins)
        missing = f"could not find a JWS signature in the cluster-info ConfigMap for token ID {quote(token_id)}"
        now = self._clock.monotonic()
        if self._unsigned_since is None:
            self._unsigned_since = now
        elif now - self._unsigned_since >= _SIGNATURE_SECONDS:
            raise NoClusterError(
                f"{_UNPROVEN}: {missing}",
                "the token is unknown there or has expired; kubevouch token create --print-join-command makes another",
            )
        return None, f"{missing}: the token is unknown there or has expired, or it was made just now"

    def _note_date(self, client: HTTPSClient) -> None:
        if client.server_date is not None:
            self._skew = client.server_date.skew

    def _refused(self, err: APIStatusError | TransportError) -> NotTrustedError:
        hint = getattr(err, "hint", "")
        if isinstance(err, TLSFailed) and self._skew is not None and abs(self._skew) > _SKEW_WORTH_TELLING:
            hint = _clock_words(self._skew)
        return _unproven(f"{_NOT_FETCHED}: {err}", hint)


def _clock_words(skew: dt.timedelta) -> str:
    order = "ahead of" if skew > dt.timedelta() else "behind"
    return f"this machine's clock is {human_duration(abs(skew).total_seconds())} {order} the server's; set it"


def _names(server: str, endpoint: Endpoint) -> bool:
    try:
        return endpoint_of_url(server) == endpoint
    except EndpointError:
        return False
