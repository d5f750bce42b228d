"""Who, may they, should it: the chain of a standalone server, built over its caches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.admission.attestation_challenge_budget import OpenChallenges
from kubevouch.admission.catalog import Dependencies, default_chain
from kubevouch.admission.certificate_request_budget import OpenRequests
from kubevouch.admission.dynamic.configured import ConfiguredAdmission
from kubevouch.admission.resource_quota import ObjectsIn, QuotasOf
from kubevouch.api.catalog import POD_CERTIFICATE_REQUESTS, RESOURCE_QUOTAS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Namespace, Node, ResourceQuota, Secret
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.api.pod_certificate_requests_v1beta1 import PodCertificateRequest
from kubevouch.authentication.bearer import BearerAuthenticator
from kubevouch.authentication.bootstrap_token import BootstrapTokenAuthenticator
from kubevouch.authentication.interface import Authenticator, TokenAuthenticator
from kubevouch.authentication.node_recovery import NodeRecovery
from kubevouch.authentication.request_header import RequestHeaderAuthenticator, RequestHeaderOptions
from kubevouch.authentication.service_account import Issuer, ServiceAccountAuthenticator
from kubevouch.authentication.union import UnionAuthenticator
from kubevouch.authentication.x509 import X509Authenticator
from kubevouch.authorization.bootstrap_policy import node_rules
from kubevouch.authorization.custom_kinds import CustomKindCollectorAuthorizer
from kubevouch.authorization.interface import ResolvingAuthorizer
from kubevouch.authorization.node import NodeAuthorizer, NoPods
from kubevouch.authorization.privileged_group import PrivilegedGroupAuthorizer
from kubevouch.authorization.rbac import RBACAuthorizer, RBACCaches, RBACPolicy, follow, reload
from kubevouch.authorization.rbac_escalation import EscalationGuard
from kubevouch.authorization.union import UnionAuthorizer
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.machinery.scheme import GroupResource
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import Record, RecoveryPolicy, RecoveryRecordError
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.apiserver import Caches, Security
from kubevouch.server.bootstrap.authentication_trust import AuthenticationTrust
from kubevouch.server.metrics.access import AccessMetrics
from kubevouch.standalone import revocation
from kubevouch.standalone.access import Access
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.standalone.admission import configured_admission
from kubevouch.storage.watchcache.cacher import Tap
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.util.clock import Clock

# The front proxy that kubeadm's certificates are made for.
FRONT_PROXY_HEADERS = RequestHeaderOptions(allowed_names=("front-proxy-client",))


class Trust(msgspec.Struct, frozen=True):
    """Whose certificates and tokens count, and those of nodes that have ended. The front proxy's CA may not be the
    client CA."""

    client_anchors: TrustAnchors
    front_proxy_anchors: TrustAnchors | None = None
    issuer: Issuer | None = None
    recovery: RecoveryPolicy | None = None


class StandaloneSecurity:
    """Authorizers first, for they need no caches; the rest once the caches exist."""

    def __init__(
        self,
        trust: Trust,
        clock: Clock,
        access: Access | None = None,
        disabled_admission: Collection[str] = (),
        gated: Collection[str] = (),
    ) -> None:
        """``gated``: the kinds behind a gate that are served. Raises :class:`AccessError` when a webhook's kubeconfig
        cannot be used."""
        self._disabled_admission = tuple(disabled_admission)
        self._trust = trust
        self._clock = clock
        self.revocations = Revocations()
        self._clients = X509Authenticator(trust.client_anchors, clock, self.revocations.why)
        self._access = access or Access(AccessOptions(), (), clock)
        self.policy = RBACPolicy()
        self._graph = NoPods()
        self._built_in: dict[str, ResolvingAuthorizer] = {
            "Node": NodeAuthorizer(node_rules(*gated), self._graph),
            "RBAC": RBACAuthorizer(self.policy),
        }
        self.authorizer = UnionAuthorizer([])
        self._configured: ConfiguredAdmission | None = None
        self._recovery: NodeRecovery | None = None
        self._anchors = trust.client_anchors
        self._anchors_changed: Callable[[], None] = lambda: None
        self._changed: list[Callable[[], None]] = []
        self._choose_authorizers()
        self.guard = EscalationGuard(self.policy, self.authorizer)

    def _choose_authorizers(self) -> None:
        chosen = self._access.authorizers(self._built_in)
        self.authorizer.replace([PrivilegedGroupAuthorizer(), CustomKindCollectorAuthorizer(), *chosen], chosen)

    def replace_client_anchors(self, anchors: TrustAnchors) -> None:
        """Believe the clients of another CA bundle from the next request on."""
        self._clients.replace_anchors(anchors)
        self._anchors = anchors
        if self._recovery is not None:
            self._recovery.replace_anchors(anchors)
        self._anchors_changed()
        self._tell_changed()

    def _tell_changed(self) -> None:
        for changed in self._changed:
            changed()

    def on_client_anchors(self, changed: Callable[[], None]) -> None:
        """``changed`` is called when the clients of another CA bundle are believed."""
        self._anchors_changed = changed

    def authentication_trust(self) -> AuthenticationTrust:
        """Whom the chain believes now."""
        proxies = self._trust.front_proxy_anchors
        return AuthenticationTrust(
            self._anchors.certificates, () if proxies is None else proxies.certificates, FRONT_PROXY_HEADERS
        )

    def record_into(self, recorder: AccessMetrics) -> None:
        """Count what becomes of configuration files and issuers."""
        self._access.record_into(recorder)

    async def keep(self) -> None:
        """Follow the configuration files, for ever."""
        await self._access.keep(self._choose_authorizers, self._tell_changed)

    async def close(self) -> None:
        await self._access.close()
        if self._configured is not None:
            await self._configured.close()

    def build(self, caches: Caches, refresh: Callable[[], Awaitable[object]]) -> Security:
        """The chain over the server's caches; ``refresh`` waits until they hold every acknowledged write."""
        rbac_caches = RBACCaches(
            caches["roles"], caches["clusterroles"], caches["rolebindings"], caches["clusterrolebindings"]
        )
        follow(self.policy, rbac_caches)
        for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
            caches[plural].on_load(lambda: reload(self.policy, rbac_caches))
        revocation.follow(caches, self.revocations)
        request_named = _namespaced_getter(caches, POD_CERTIFICATE_REQUESTS.plural)

        def node_of(namespace: str, name: str) -> str:
            found: PodCertificateRequest | None = request_named(namespace, name)
            return "" if found is None else found.spec.node_name

        self._graph.node_of = node_of
        kinds: list[TokenAuthenticator] = []
        if self._access.bootstrap_token_auth:
            kinds.append(BootstrapTokenAuthenticator(_secret_getter(caches), self._clock))
        if self._trust.issuer is not None:
            kinds.insert(0, _service_accounts(self._trust.issuer, caches, self._clock, self.revocations))
        if self._trust.recovery is not None:
            self._recovery = _node_recovery(self._trust.recovery, caches, self._anchors, self._clock, self.revocations)
            kinds.append(self._recovery)
        tokens = BearerAuthenticator([*self._access.first_tokens, *kinds, *self._access.tokens])
        authenticators: list[Authenticator] = [self._clients, tokens]
        if self._trust.front_proxy_anchors is not None:
            proxy = RequestHeaderAuthenticator(
                self._trust.front_proxy_anchors, self._clock, FRONT_PROXY_HEADERS, self.revocations.why
            )
            authenticators.insert(0, proxy)
        self._configured = configured_admission(caches, self._clock, _namespace_getter(caches), self.authorizer)
        dependencies = Dependencies(
            authorizer=self.authorizer,
            namespace_named=_namespace_getter(caches),
            refresh=refresh,
            clock=self._clock,
            node_named=_node_getter(caches),
            pod_named=_namespaced_getter(caches, "pods"),
            account_named=_namespaced_getter(caches, "serviceaccounts"),
            configured=self._configured,
            open_requests=_open_requests(caches),
            open_challenges=_open_challenges(caches),
            quotas=_quotas(caches),
        )
        return Security(
            authenticator=UnionAuthenticator(authenticators, self._access.anonymous),
            tokens=tokens,
            authorizer=self.authorizer,
            resolver=self.authorizer,
            admission=default_chain(dependencies, self._disabled_admission),
            recovery=self._recovery,
            revocations=self.revocations,
            on_change=self._changed.append,
        )


def _getter(caches: Caches, plural: str, folder: str) -> Callable[[str], Any]:
    cache = caches[plural]

    def get(name: str) -> Any:
        stored = cache.get(f"{cache.prefix}{folder}{name}")
        return None if stored is None else stored.obj

    return get


def _node_recovery(
    policy: RecoveryPolicy, caches: Caches, anchors: TrustAnchors, clock: Clock, revocations: Revocations
) -> NodeRecovery:
    folder = f"{node_recovery.NAMESPACE}/"
    secret_named, stored = _getter(caches, "secrets", folder), _getter(caches, "configmaps", folder)

    def secret() -> bytes:
        found: Secret | None = secret_named(node_recovery.SECRET)
        return b"" if found is None else found.data.get(node_recovery.SECRET_KEY, b"")

    def record_of(node_name: str) -> Record | None:
        found = stored(node_recovery.record_name(node_name))
        try:
            return None if found is None else node_recovery.record_of(found)
        except RecoveryRecordError:
            # Nobody recovers with what cannot be read.
            return None

    def locked() -> int:
        values = (each.obj for each in caches["configmaps"].values())
        return sum(
            node_recovery.LOCKED_LABEL in each.metadata.labels for each in values if node_recovery.is_record(each)
        )

    return NodeRecovery(policy, anchors, clock, secret, record_of, locked, revocations)


def _namespaced_getter(caches: Caches, plural: str) -> Callable[[str, str], Any]:
    """By namespace, which may be empty, and name."""
    cache = caches[plural]

    def get(namespace: str, name: str) -> Any:
        stored = cache.get(f"{cache.prefix}{namespace}/{name}" if namespace else f"{cache.prefix}{name}")
        return None if stored is None else stored.obj

    return get


def _service_accounts(
    issuer: Issuer, caches: Caches, clock: Clock, revocations: Revocations
) -> ServiceAccountAuthenticator:
    accounts, secrets, nodes = (_namespaced_getter(caches, each) for each in ("serviceaccounts", "secrets", "nodes"))
    return ServiceAccountAuthenticator(issuer, accounts, secrets, nodes, clock, revocations.node)


def _quotas(caches: Caches) -> tuple[QuotasOf, ObjectsIn]:
    quotas = caches[RESOURCE_QUOTAS.plural]

    def quotas_of(namespace: str) -> list[ResourceQuota]:
        return [stored.obj for stored in quotas.scan(f"{quotas.prefix}{namespace}/")]

    def objects_in(resource: GroupResource, namespace: str) -> tuple[int, Callable[[str], bool]] | None:
        cache = caches.of(resource)
        if cache is None:
            return None
        folder = f"{cache.prefix}{namespace}/"
        return cache.count(folder), lambda name: cache.get(f"{folder}{name}") is not None

    return quotas_of, objects_in


def _open_requests(caches: Caches) -> OpenRequests:
    cache, found = caches["certificatesigningrequests"], OpenRequests()

    def follow_event(event: CacheEvent[CertificateSigningRequest]) -> None:
        found.changed(event.key.removeprefix(cache.prefix), None if event.current is None else event.current.obj)

    cache.on_event(follow_event)
    cache.on_load(lambda: found.load(stored.obj for stored in cache.values()))
    return found


def _open_challenges(caches: Caches) -> OpenChallenges:
    """Followed by key and not as a kind: definitions come and go."""
    found, prefix = OpenChallenges(), f"/registry/{ATTESTATION_CHALLENGES.group}/{ATTESTATION_CHALLENGES.plural}/"

    async def load(values: Mapping[str, bytes]) -> None:
        found.load(each for each in map(_challenge, values.values()) if each is not None)

    def changed(key: str, value: bytes | None) -> None:
        found.changed(key.removeprefix(prefix), None if value is None else _challenge(value))

    caches.tap(Tap(prefix, load, changed))
    return found


def _challenge(value: bytes) -> AttestationChallenge | None:
    """None for what no schema of ours has let in: it counts for nobody."""
    try:
        return json_codec.decode(value, AttestationChallenge)
    except UnmarshalError:
        return None


def _secret_getter(caches: Caches) -> Callable[[str], Secret | None]:
    return _getter(caches, "secrets", f"{wellknown.KUBE_SYSTEM_NAMESPACE}/")


def _namespace_getter(caches: Caches) -> Callable[[str], Namespace | None]:
    return _getter(caches, "namespaces", "")


def _node_getter(caches: Caches) -> Callable[[str], Node | None]:
    return _getter(caches, "nodes", "")
