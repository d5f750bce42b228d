"""How the agent of a node reaches its cluster: with the node's certificate, or with what it was given to begin with."""

from __future__ import annotations

import asyncio
import dataclasses
import random as random_module
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, cast

from msgspec import Struct
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.agent import file_discovery, trust_bundle
from kubevouch.agent.certificate_request import Poster
from kubevouch.agent.certificate_store import StoredPair
from kubevouch.agent.discovery import TokenDiscovery, discover
from kubevouch.agent.interface import AgentError, AttestationUnavailableError, SettingsError
from kubevouch.agent.manager_interface import LoggingObserver
from kubevouch.agent.recovery import RecoveryRequests
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.agent.servers import Servers
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.agent.trust_bundle import Bundle
from kubevouch.api import catalog
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import ClientConfigurationError, ConnectFailed, TLSFailed, TransportError
from kubevouch.client.options import Retry, Timeouts
from kubevouch.client.rest_config import RESTConfig, rest_config
from kubevouch.client.tls import TLSSources
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki import keys, rotation
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.recognizers import RECOVERY_USER_PREFIX
from kubevouch.records import bootstrap_tokens, ca_rotation, cluster_identity, node_recovery
from kubevouch.records.ca_rotation import RenewalOrder
from kubevouch.records.cluster_info import ClusterInfo, ClusterInfoError, kubeconfig_of, parse_kubeconfig, told_by
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.files import read_private, stamp
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline

if TYPE_CHECKING:
    from kubevouch.pki.tpm.resident_key import ResidentKey

log = get_logger("agent.access")

_PROBE_SECONDS = 10.0


class ClusterFiles(Struct, frozen=True):
    """Where it stands which cluster this is.

    Args:
        kubeconfig: the node's; it need not be there yet.
        bootstrap_kubeconfig: what to begin with, and to fall back to once the node's certificate is of no use.
        servers: URLs of API servers beside those that the files and cluster-info name.
        ca_copies: files that are to hold the same CA certificates, such as kubelet's ``ca.crt``.
        discovery: how to find the cluster again when none of the known CA certificates is its own any more; a text is
            the path or https address of a discovery file, which is read then.
    """

    kubeconfig: Path
    bootstrap_kubeconfig: Path | None = None
    servers: tuple[str, ...] = ()
    ca_copies: tuple[Path, ...] = ()
    discovery: TokenDiscovery | str | None = None


Connect = Callable[[RESTConfig, Clock], HTTPSClient]
"""Makes a client of one API server."""


def over_https(config: RESTConfig, clock: Clock) -> HTTPSClient:
    return config.client(
        component="agent", clock=clock, on_warning=lambda text: log.warning("the server warns", warning=text)
    )


class NodeAccess:
    """Implements :class:`kubevouch.agent.manager_interface.Access` over HTTPS."""

    def __init__(
        self,
        files: ClusterFiles,
        node_name: str,
        clock: Clock,
        random: backoff.Random = random_module.random,
        recovery: RecoveryKeys | None = None,
        connect: Connect = over_https,
        *,
        attests: bool = False,
    ) -> None:
        """
        Args:
            recovery: where a recovery key is kept; None keeps none.
            attests: what is posted carries a proof, for which the cluster's own id has to be known.
        """
        self._connect = connect
        self._files = files
        self._node_name = node_name
        self._clock = clock
        self._random = random
        self._servers = Servers()
        self._published: tuple[str, ...] = ()
        self._order: RenewalOrder | None = None
        self._refused: StoredPair | None = None
        self._anchors: tuple[object, TrustAnchors] | None = None
        self._bundle: tuple[object, Bundle] | None = None
        self._recovery = recovery
        self._attests = attests
        self._cluster_id = ""
        self.recovery_allowed: bool | None = None

    # -------------------------------------------------------------- trust

    @property
    def trust_file(self) -> Path:
        """The kubeconfig that says which cluster this is."""
        files = self._files
        if not files.kubeconfig.exists() and files.bootstrap_kubeconfig is not None:
            return files.bootstrap_kubeconfig
        return files.kubeconfig

    def bundle(self) -> Bundle:
        """Read again when a file has changed. Raises :class:`TrustBundleError` and ``OSError``."""
        seen = self._seen()
        if self._bundle is None or self._bundle[0] != seen:
            self._bundle = (seen, trust_bundle.load(self.trust_file))
        return self._bundle[1]

    def _seen(self) -> tuple[object, ...]:
        return (self.trust_file, stamp(self.trust_file), *(stamp(copy) for copy in self._files.ca_copies))

    def anchors(self) -> TrustAnchors:
        """Read again when a file has changed."""
        seen = self._seen()
        if self._anchors is None or self._anchors[0] != seen:
            self._anchors = (seen, TrustAnchors(self.bundle()))
        return self._anchors[1]

    # -------------------------------------------------------------- connections

    @asynccontextmanager
    async def connected(self, pair: StoredPair | None) -> AsyncIterator[Poster]:
        annotations = {trust_bundle.HASH_ANNOTATION: trust_bundle.bundle_hash(self.bundle())}
        if self._recovery is not None and self._recovers(pair):
            async with self._recovering(pair, self._recovery) as requests:
                users = (f"{wellknown.NODE_USER_PREFIX}{self._node_name}", f"{RECOVERY_USER_PREFIX}{self._node_name}")
                yield Poster(requests, users, "the recovery key", annotations)
            return
        config, credential, usernames = self._credential(await self._still_there(pair))
        async with await self._reach(config) as client:
            listed = await self._recovery_keys()
            if listed:
                annotations[node_recovery.KEYS_ANNOTATION] = listed
            yield Poster(SigningRequests(client), usernames, credential, annotations, await self._id())

    @asynccontextmanager
    async def client(self, pair: StoredPair | None) -> AsyncIterator[HTTPSClient]:
        """A client for a moment, for other questions than certificates. Raises as :meth:`connected` does."""
        async with await self._reach(self._credential(await self._still_there(pair))[0]) as client:
            yield client

    async def _id(self) -> str:
        """What proofs are made for; empty if nobody has to know it."""
        if not self._attests:
            return ""
        recorded, authorities = told_by(self._cluster())[0], self.bundle()
        if not recorded and not self._cluster_id:
            try:
                info = await self._cluster_info(authorities)
                published = trust_bundle.parse(info.certificate_authority_data, "cluster-info")
                # While one CA takes over from another, the one that the cluster still names.
                known = {each.contents for each in authorities}
                authorities = tuple(each for each in published if each.contents in known) or authorities
            except (APIStatusError, AgentError) as err:
                log.info("cluster-info does not tell which cluster this is: proofs are made for its CA", error=str(err))
        return cluster_identity.identity(recorded or self._cluster_id, authorities)

    def accepts(self, pair: StoredPair | None) -> bool:
        """Whether the cluster may be asked with ``pair``, as far as is known."""
        return pair is not None and pair is not self._refused and rotation.usable(pair.leaf, now=self._clock.now())

    def refused(self, pair: StoredPair | None) -> None:
        if pair is not None:
            log.warning("the API server does not accept the node's certificate", serial=f"{pair.leaf.serial:x}")
        self._refused = pair

    # -------------------------------------------------------------- recovery

    @property
    def wants_recovery_key(self) -> bool:
        """Whether the cluster allows recovery, and no key is registered yet."""
        return bool(self.recovery_allowed) and self._recovery is not None and not self._recovery.present

    def _recovers(self, pair: StoredPair | None) -> TypeGuard[StoredPair]:
        """Only once the API server has refused what there is besides: this machine's clock may be the one in error."""
        ended = pair is not None and not rotation.usable(pair.leaf, now=self._clock.now())
        return ended and pair is self._refused and self._recovery is not None and self._recovery.present

    @asynccontextmanager
    async def _recovering(self, pair: StoredPair, recovery: RecoveryKeys) -> AsyncIterator[SigningRequests]:
        log.warning("the certificate has ended: the node recovers with its recovery key", key=str(recovery.path))
        try:
            async with AsyncExitStack() as stack:
                config = replace(self._bare(self.bundle()), options=rest_config(self.trust_file).options)
                anonymous = await stack.enter_async_context(await self._reach(config))
                url = self._servers.in_order()[0]

                def with_token(token: str) -> HTTPSClient:
                    return self._client(replace(config, credentials=lambda _clock: FixedCredential.token(token)), url)

                yield RecoveryRequests(anonymous, with_token, stack, self._node_name, pair, recovery)
                recovery.promote()
        except BaseException:
            # Something else may have become possible, such as another bootstrap kubeconfig.
            self._refused = None
            raise

    async def _recovery_keys(self) -> str:
        """What a request says of the recovery keys; a first one is made where the cluster allows it."""
        recovery = self._recovery
        if recovery is None:
            return ""
        try:
            if not recovery.present:
                if self.recovery_allowed is None:
                    await self._cluster_info(self.bundle())
                if self.recovery_allowed:
                    recovery.ensure()
            return recovery.digests()
        except (AgentError, TransportError, APIStatusError, ClientConfigurationError, OSError) as err:
            log.warning("no recovery key is registered", error=str(err))
            return ""

    # -------------------------------------------------------------- credentials

    async def _still_there(self, pair: StoredPair | None) -> StoredPair | None:
        """``pair``, unless its key was in a TPM that does not know it any more: cleared, or another machine's.

        Raises:
            SettingsError: it does not, and nothing else is there to come back with; or there is no TPM.
            AttestationUnavailableError: the TPM does not answer now.
        """
        if pair is None or not keys.is_in_tpm(pair.key):
            return pair
        # Few machines have such keys.
        from kubevouch.attestation import interface
        from kubevouch.attestation.tpm import node_keys

        try:
            await asyncio.to_thread(node_keys.verify_usable, cast("ResidentKey", pair.key))
        except node_keys.TPMKeyLostError as err:
            lost = "the TPM does not know the key of the node's certificate: it was cleared, or is another machine's"
            if self._bootstrap() is None:
                hint = "join again with a token (kubevouch join), or give --bootstrap-kubeconfig"
                raise SettingsError(lost, hint) from err
            log.warning(lost, then="the bootstrap kubeconfig is used")
            return None
        except interface.UnavailableError as err:
            raise AttestationUnavailableError(str(err), retry_after=err.retry_after) from err
        except (interface.AttestationError, KeyMaterialError) as err:
            raise SettingsError(str(err), "kubevouch tpm probe says what is in the way") from err
        return pair

    def _credential(self, pair: StoredPair | None) -> tuple[RESTConfig, str, tuple[str, ...]]:
        """What to connect with, what that is called, and as whom it may have asked before."""
        bootstrap = self._bootstrap()
        node_user = f"{wellknown.NODE_USER_PREFIX}{self._node_name}"
        token_name = token_user(self._files.bootstrap_kubeconfig)
        # Without the token's user nothing is known of who may have asked; the key still has to match.
        known = token_name or bootstrap is None
        usernames = tuple(name for name in (node_user, token_name) if name and known)
        if bootstrap is not None and not self.accepts(pair):
            return bootstrap, f"the credential of {self._files.bootstrap_kubeconfig}", usernames
        if pair is None:
            raise SettingsError(
                f"there is no certificate, and no bootstrap kubeconfig ({self._files.bootstrap_kubeconfig}) to get one",
                "join again with a token (kubevouch join), or give --bootstrap-kubeconfig",
            )
        config = rest_config(self.trust_file)
        content = b"".join(each.pem() for each in pair.chain)
        shown = dataclasses.replace(config.tls, certificate=content, private_key=keys.to_pem(pair.key))
        return replace(config, tls=shown, credentials=_none), "the node's certificate", usernames

    def _bootstrap(self) -> RESTConfig | None:
        path = self._files.bootstrap_kubeconfig
        return rest_config(path) if path is not None and path.exists() else None

    async def _reach(self, config: RESTConfig) -> HTTPSClient:
        """A client of the first API server that answers. Raises :class:`TransportError`."""
        recorded = told_by(self._cluster())[1]
        self._servers.know([config.options.server, *self._files.servers, *self._published, *recorded])
        failure: TransportError | None = None
        for url in self._servers.in_order():
            client = self._client(config, url)
            try:
                await self._probe(client)
            except TransportError as err:
                self._servers.failed(url, self._clock.monotonic())
                # A server that is somebody else's tells more than one that is not there.
                failure = err if failure is None or isinstance(err, TLSFailed) else failure
                await client.close()
                continue
            except BaseException:
                await client.close()
                raise
            self._servers.worked(url)
            return client
        assert failure is not None  # there is at least one
        raise failure

    def _client(self, config: RESTConfig, url: str) -> HTTPSClient:
        own = url == config.options.server.rstrip("/")
        tls = config.tls if own else dataclasses.replace(config.tls, server_name="")
        retry = Retry(attempts=1)
        return self._connect(
            replace(config, options=replace(config.options, server=url, retry=retry), tls=tls),
            self._clock,
        )

    async def _probe(self, client: HTTPSClient) -> None:
        try:
            async with deadline(self._clock, _PROBE_SECONDS):
                answer = await client.raw("GET", "/readyz")
        except TimeoutError as err:
            raise ConnectFailed(
                f"{client.address} did not answer within {_PROBE_SECONDS:g} s", address=client.address
            ) from err
        if answer.status >= 500:
            raise ConnectFailed(f"{client.address} is not ready: HTTP status {answer.status}", address=client.address)

    def renewal_order(self) -> RenewalOrder | None:
        return self._order

    @property
    def ca_changes(self) -> bool:
        """Whether a rotation of the CA is under way: two are trusted, or a renewal is asked for."""
        try:
            return self._order is not None or len(self.bundle()) > 1
        except (AgentError, OSError):
            return False

    # -------------------------------------------------------------- cluster-info

    async def refresh(self) -> None:
        """Look at cluster-info over a verified connection and take over what has changed; failures are only logged."""
        try:
            await self._refresh()
        except (AgentError, TransportError, APIStatusError, ClientConfigurationError, OSError) as err:
            log.warning("cluster-info could not be refreshed", error=str(err))

    async def _refresh(self) -> None:
        trusted = self.bundle()
        try:
            info = await self._cluster_info(trusted)
        except TLSFailed:
            if self._files.discovery is None:
                raise
            await self._discover_again(self._files.discovery)
            return
        published = trust_bundle.parse(info.certificate_authority_data, "cluster-info")
        self._published = (info.server, *info.servers)
        if not trust_bundle.is_rollover(trusted, published):
            return
        both = trust_bundle.joined(trusted, published)
        if trust_bundle.is_rollover(trusted, both):
            self._store(both, "CA certificates were added")
        if trust_bundle.is_rollover(both, published):
            # The old one is given up when it is seen that nobody needs it.
            try:
                await self._cluster_info(published)
            except TransportError as err:
                log.info("the former CA is still needed", error=str(err))
                return
            self._store(published, "CA certificates were given up")

    async def _cluster_info(self, bundle: Bundle) -> ClusterInfo:
        """Without credentials: cluster-info is for everybody, and only the connection has to be right."""
        async with await self._reach(self._bare(bundle)) as client:
            found = await client.get(
                catalog.CONFIG_MAPS, wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
            )
        try:
            info = parse_kubeconfig(kubeconfig_of(found))
        except ClusterInfoError as err:
            raise AgentError(f"cluster-info cannot be used: {err}") from err
        self._verify_same(client.address, info.cluster_id)
        self._cluster_id = info.cluster_id
        self.recovery_allowed = found.metadata.annotations.get(node_recovery.ALLOWED_ANNOTATION) == "true"
        self._order = _order_in(found.metadata.annotations.get(ca_rotation.RENEWAL_ANNOTATION, ""))
        return info

    def _verify_same(self, address: str, cluster_id: str) -> None:
        """Two clusters may have one CA, a copy of the other's: a certificate of one is none of the other's."""
        known = told_by(self._cluster())[0]
        if known and cluster_id and known != cluster_id:
            raise AgentError(f"{address} is the cluster {cluster_id}, this machine is of {known}")

    def _cluster(self) -> Cluster:
        """As the node's kubeconfig has it; without anything if that cannot be read."""
        try:
            config = kubeconfig.load(read_private(self.trust_file))
            return config.clusters[config.contexts[config.current_context].cluster]
        except (OSError, KeyError, kubeconfig.KubeconfigError):
            return Cluster()

    def _bare(self, bundle: Bundle) -> RESTConfig:
        """Without a credential, and without those of the kubeconfig."""
        config = rest_config(self.trust_file)
        tls = TLSSources(ca_bundle=trust_bundle.to_pem(bundle), server_name=config.tls.server_name)
        options = replace(config.options, timeouts=Timeouts.all(_PROBE_SECONDS))
        return replace(config, tls=tls, options=options, credentials=_none)

    async def _discover_again(self, discovery: TokenDiscovery | str) -> None:
        how = "file" if isinstance(discovery, str) else "token"
        log.warning("no known CA certificate is the cluster's own: it is discovered again", by=how)
        observer = LoggingObserver(step="discovery")
        if isinstance(discovery, str):
            settings = await file_discovery.read(discovery, self._clock)
            cluster = await file_discovery.discover(settings, self._clock, observer, self._random)
        else:
            cluster = await discover(discovery, self._clock, observer, self._random)
        self._verify_same(cluster.server, cluster.cluster_id)
        bundle = trust_bundle.parse(cluster.certificate_authority_data, "cluster-info")
        self._store(bundle, f"CA certificates were replaced by {how} discovery")

    def _store(self, bundle: Bundle, what: str) -> None:
        trust_bundle.store(self.trust_file, bundle, self._files.ca_copies)
        log.warning(what, trusted=trust_bundle.bundle_hash(bundle), certificates=len(bundle))


def _order_in(text: str) -> RenewalOrder | None:
    try:
        return ca_rotation.parse(text) if text else None
    except ca_rotation.RenewalOrderError as err:
        log.warning("cluster-info asks for a renewal in words that are not understood", error=str(err))
        return None


def _none(_clock: Clock) -> FixedCredential:
    return FixedCredential()


def token_user(path: Path | None) -> str:
    """The user behind the bootstrap kubeconfig, if it holds a bootstrap token."""
    if path is None or not path.exists():
        return ""
    try:
        config = kubeconfig.load(path.read_bytes())
        user = config.users[config.contexts[config.current_context].user]
        return bootstrap_tokens.parse_token(user.token).user
    except (kubeconfig.KubeconfigError, KeyError, bootstrap_tokens.TokenSyntaxError):
        return ""
