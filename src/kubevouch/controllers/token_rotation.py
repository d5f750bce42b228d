"""token-rotation-controller: keeps the bootstrap tokens that machines are started with good, or has others take over.

For KubeadmConfigs of Cluster API, and for pools of machines without it, whose tokens say themselves how they are kept.
Beside Cluster API's own bootstrap provider it only renews: what is renewed in time, that one never replaces.
"""

from __future__ import annotations

import datetime as dt
import hmac
from collections.abc import Iterable

from kubevouch import wellknown
from kubevouch.api.catalog import NODES, SECRETS
from kubevouch.api.core_v1 import Node, Secret
from kubevouch.api.core_v1.nodes import READY
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.controllers.bootstrap_secrets import is_token, token_informer
from kubevouch.controllers.cluster_api.kinds import ClusterSeen, Followed, FollowedKinds
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import (
    DONE,
    Context,
    Management,
    ReconcileError,
    Request,
    Result,
    request_of,
)
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.policy.cluster_api import (
    BOOTSTRAP_GROUP,
    GROUP,
    KUBEADM_CONFIGS,
    MACHINE_POOL,
    MACHINE_POOLS,
    MACHINES,
    Bootstrap,
    ClusterFacts,
    bootstrap_of,
    config_of,
    has_nodes,
    node_of,
)
from kubevouch.policy.token_rotation import Action, Decision, Stored, decide, keeping_of
from kubevouch.records import token_pools
from kubevouch.records.bootstrap_tokens import (
    TOKEN_SECRET_KEY,
    BootstrapTokenError,
    Token,
    expiration_of,
    generate_token,
    parse_token,
    secret_name,
)
from kubevouch.records.token_pools import Keeping, TokenPoolError
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.token_rotation")

NAME = wellknown.TOKEN_ROTATION_CONTROLLER
REPLACES_ANNOTATION = wellknown.REPLACES_TOKEN_ANNOTATION
_DATA_KEY = "value"
_RENEWED, _REPLACED = "a bootstrap token is renewed", "a bootstrap token is replaced"


class Tokens:
    """Tokens in the cluster that machines join."""

    def __init__(self, client: Client, secrets: Lister[Secret], clock: Clock) -> None:
        self._client = client
        self._secrets = secrets
        self._clock = clock

    @property
    def now(self) -> dt.datetime:
        return self._clock.now()

    def stored(self, secret: Secret | None) -> Stored | None:
        """What is known of a token's end. One that never ends, or whose end cannot be read, says nothing of it."""
        if secret is None:
            return None
        now = self.now
        remaining = expiration_of(secret, now).remaining
        return Stored(now + remaining if remaining else None)

    async def get(self, token_id: str) -> Secret | None:
        known = self._secrets.get(secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
        if known is not None:
            return known
        # One that a cache does not have yet is none that was lost.
        try:
            return await self._client.get(SECRETS, secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)
        except APIStatusError as err:
            if err.reason != Reason.NOT_FOUND:
                raise
            return None

    async def write(self, secret: Secret) -> None:
        """Unless somebody else has changed it meanwhile. Raises :class:`APIStatusError`, :class:`TransportError`."""
        await self._client.update(SECRETS, secret)

    async def replace(self, former: Secret, expires: dt.datetime) -> Token:
        """Make one more with the same settings."""
        token = generate_token()
        await self._client.create(SECRETS, token_pools.replaced(former, token, expires))
        return token


class PoolTokens:
    """Of pools without Cluster API: the Secret of a token says how it is kept."""

    def __init__(self, tokens: Tokens, secrets: Lister[Secret], nodes: Lister[Node]) -> None:
        self._tokens = tokens
        self._secrets = secrets
        self._nodes = nodes

    async def reconcile(self, request: Request) -> Result:
        secret = self._secrets.get(request.name, request.namespace)
        if secret is None or not is_token(secret):
            return DONE
        try:
            pool = token_pools.pool_of(secret)
        except TokenPoolError as err:
            log.error("a bootstrap token is not kept", secret=request.name, err=str(err))
            return DONE
        if pool is None:
            return DONE
        if _newest(self._of_pool(pool.name)) != secret.metadata.name:
            await self._tokens.write(token_pools.without_pool(secret))
            return DONE
        nodes = (each for each in self._nodes.list() if pool.selector.matches(each.metadata.labels))
        # A machine has become a node when it works; that there are others is enough for a pool.
        counts = (each for each in nodes if pool.keeping is not Keeping.UNTIL_NODES or _is_ready(each))
        found = decide(
            pool.keeping,
            self._tokens.stored(secret),
            has_nodes=any(True for _ in counts),
            ttl=pool.ttl,
            now=self._tokens.now,
        )
        if found.expires is not None and found.action is Action.RENEW:
            await self._tokens.write(token_pools.renewed(secret, found.expires))
            log.info(_RENEWED, pool=pool.name, secret=request.name)
        elif found.expires is not None and found.action is Action.REPLACE:
            token = await self._tokens.replace(secret, found.expires)
            # Whoever is stopped here finds that there is a newer one.
            await self._tokens.write(token_pools.without_pool(secret))
            log.info(_REPLACED, pool=pool.name, secret=request.name, by=token.secret_name)
        return _again(found)

    def _of_pool(self, pool: str) -> Iterable[Secret]:
        return (each for each in self._secrets.list() if each.metadata.labels.get(token_pools.POOL_LABEL) == pool)


def _newest(secrets: Iterable[Secret]) -> str:
    """The name of the token that was made last."""

    def age(secret: Secret) -> tuple[str, str]:
        return str(secret.metadata.creation_timestamp or ""), secret.metadata.name

    return max(secrets, key=age).metadata.name


def _is_ready(node: Node) -> bool:
    conditions = node.status.conditions
    return any(each.type == READY and each.status == wellknown.CONDITION_TRUE for each in conditions)


def _again(decision: Decision) -> Result:
    return Result(None if decision.again is None else decision.again.total_seconds())


class ConfigTokens:
    """Of KubeadmConfigs."""

    def __init__(
        self,
        tokens: Tokens,
        management: Management,
        client: Client,
        kinds: FollowedKinds,
        seen: ClusterSeen,
        nodes: Lister[Node],
    ) -> None:
        """``client`` writes there where Cluster API's objects are."""
        self._tokens = tokens
        self._management = management
        self._client = client
        self._kinds = kinds
        self._seen = seen
        self._nodes = nodes

    async def reconcile(self, request: Request) -> Result:
        cluster = self._seen.facts
        obj = self._kinds.get(BOOTSTRAP_GROUP, KUBEADM_CONFIGS, request.name)
        # A Cluster that cannot be understood is one for which nothing is changed.
        if obj is None or cluster is None or cluster.paused or cluster.attests is None:
            return DONE
        bootstrap = bootstrap_of(obj, cluster)
        if bootstrap is None or bootstrap.paused or not bootstrap.token:
            return DONE
        former = obj.metadata.annotations.get(REPLACES_ANNOTATION, "")
        if former and self._management.replaces_tokens:
            await self._finish(obj, bootstrap, former)
        if not bootstrap.data_secret:
            # What machines start with is still being made, and with it the token.
            return DONE
        is_pool = bootstrap.owner.kind == MACHINE_POOL
        owner = self._kinds.get(GROUP, MACHINE_POOLS if is_pool else MACHINES, bootstrap.owner.name)
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return DONE
        return await self._keep(obj, bootstrap, owner, cluster)

    async def _keep(
        self, obj: CustomObject, bootstrap: Bootstrap, owner: CustomObject, cluster: ClusterFacts
    ) -> Result:
        try:
            token = parse_token(bootstrap.token)
        except BootstrapTokenError as err:
            log.error("the token of a KubeadmConfig is not kept", name=bootstrap.name, err=str(err))
            return DONE
        secret = await self._tokens.get(token.token_id)
        if secret is not None and not _is_same(secret, token):
            # Who may write KubeadmConfigs may not have any token at all renewed by its public half.
            log.error("the token of a KubeadmConfig is another one in the cluster", name=bootstrap.name)
            return DONE
        is_pool, attests = bootstrap.owner.kind == MACHINE_POOL, bool(cluster.attests)
        found = decide(
            keeping_of(is_pool=is_pool, attests=attests),
            self._tokens.stored(secret),
            has_nodes=self._is_node(owner) if attests and not is_pool else has_nodes(owner),
            ttl=self._management.token_ttl,
            now=self._tokens.now,
        )
        if found.action is Action.LOST:
            raise ReconcileError(
                f"the bootstrap token {token.token_id} of the Machine {bootstrap.owner.name} is gone: the machine "
                "cannot join, and has to be replaced"
            )
        if found.action is Action.RENEW and secret is not None and found.expires is not None:
            await self._tokens.write(token_pools.renewed(secret, found.expires))
            log.info(_RENEWED, config=bootstrap.name, secret=token.secret_name)
        elif found.action is Action.REPLACE and found.expires is not None:
            if self._management.replaces_tokens:
                await self._replace(obj, bootstrap, secret, found.expires)
            else:
                log.debug("a bootstrap token is to be replaced by the bootstrap provider", config=bootstrap.name)
        return _again(found)

    def _is_node(self, machine: CustomObject) -> bool:
        """Whether its Node works, and is known to be on that machine: the proposal's end of a token."""
        node = self._nodes.get(node_of(machine))
        return node is not None and _is_ready(node) and bool(node.spec.provider_id)

    async def _replace(
        self, obj: CustomObject, bootstrap: Bootstrap, secret: Secret | None, expires: dt.datetime
    ) -> None:
        """The token, the configuration, what machines start with: one that is stopped between goes on at the second."""
        token = await self._tokens.replace(secret or token_pools.of_a_pool(bootstrap.token), expires)
        resource = self._kinds.resource(BOOTSTRAP_GROUP, "KubeadmConfig")
        assert resource is not None  # it was found by it
        discovery = {"joinConfiguration": {"discovery": {"bootstrapToken": {"token": token.text}}}}
        meta = obj.metadata
        patch = {
            "metadata": {
                "resourceVersion": meta.resource_version,
                "annotations": {REPLACES_ANNOTATION: bootstrap.token},
            },
            "spec": discovery,
        }
        await self._client.patch(resource, meta.name, patch, MERGE_PATCH, meta.namespace)
        log.info(_REPLACED, config=bootstrap.name, by=token.secret_name)

    async def _finish(self, obj: CustomObject, bootstrap: Bootstrap, former: str) -> None:
        """Have machines start with the token that the configuration has by now."""
        meta = obj.metadata
        try:
            # Whoever writes KubeadmConfigs chooses both; no other text is put anywhere for him.
            parse_token(former)
            parse_token(bootstrap.token)
        except BootstrapTokenError as err:
            raise ReconcileError(f"the annotation {REPLACES_ANNOTATION} or the token is none: {err}") from err
        if bootstrap.data_secret:
            data = await self._client.get(SECRETS, bootstrap.data_secret, meta.namespace)
            if all(each.uid != meta.uid for each in data.metadata.owner_references):
                raise ReconcileError(f"the Secret {bootstrap.data_secret} is not that of this KubeadmConfig")
            text = data.data.get(_DATA_KEY, b"")
            if former.encode() in text:
                await self._client.update(SECRETS, token_pools.with_token(data, _DATA_KEY, former, bootstrap.token))
            elif bootstrap.token.encode() not in text:
                raise ReconcileError(
                    f"the Secret {bootstrap.data_secret} has no token that could be replaced: machines that start "
                    "with it cannot join"
                )
        resource = self._kinds.resource(BOOTSTRAP_GROUP, "KubeadmConfig")
        assert resource is not None  # it was found by it
        patch = {"metadata": {"annotations": {REPLACES_ANNOTATION: None}}}
        await self._client.patch(resource, meta.name, patch, MERGE_PATCH, meta.namespace)


def _is_same(secret: Secret, token: Token) -> bool:
    return is_token(secret) and hmac.compare_digest(secret.data.get(TOKEN_SECRET_KEY, b""), token.token_secret.encode())


class TokenRotation:
    """Sends each request to those whom it is about."""

    def __init__(self, pools: PoolTokens, configs: ConfigTokens | None) -> None:
        self._pools = pools
        self._configs = configs

    async def reconcile(self, request: Request) -> Result:
        if request.resource == KUBEADM_CONFIGS:
            return DONE if self._configs is None else await self._configs.reconcile(request)
        return await self._pools.reconcile(request)


def _requests(secret: Secret) -> Iterable[Request]:
    return (request_of(secret),) if token_pools.KEEPING_ANNOTATION in secret.metadata.annotations else ()


def build(context: Context) -> QueueController:
    client, management = context.connect(NAME), context.management
    secrets = token_informer(context, client)
    nodes = context.informers.informer(NODES, client=client)
    tokens = Tokens(client, secrets.lister, context.clock)
    configs: ConfigTokens | None = None
    if management is not None:
        there = management.connect(wellknown.CLUSTER_API_CONTROLLER)

        def look(name: str) -> None:
            controller.queue.add(Request(name, management.namespace, KUBEADM_CONFIGS))

        def cluster_changed(_facts: ClusterFacts | None) -> None:
            for each in kinds.all_of(BOOTSTRAP_GROUP, KUBEADM_CONFIGS):
                look(each.metadata.name)

        def owner_changed(obj: CustomObject, _gone: bool) -> None:
            if name := config_of(obj):
                look(name)

        seen = ClusterSeen(cluster_changed)
        kinds = FollowedKinds(
            management,
            there,
            (
                seen.followed(management),
                Followed(GROUP, MACHINES, owner_changed),
                Followed(GROUP, MACHINE_POOLS, owner_changed),
                Followed(BOOTSTRAP_GROUP, KUBEADM_CONFIGS, lambda obj, _gone: look(obj.metadata.name)),
            ),
        )
        configs = ConfigTokens(tokens, management, there, kinds, seen, nodes.lister)
    rotation = TokenRotation(PoolTokens(tokens, secrets.lister, nodes.lister), configs)
    controller = QueueController(NAME, rotation, context.clock)
    controller.watch(secrets, on_add=_requests, on_update=_requests)
    # Not looked at by what they do: a token that lasts some minutes longer is none the worse.
    controller.watch(nodes)
    return controller
