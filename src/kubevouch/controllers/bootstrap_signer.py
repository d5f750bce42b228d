"""bootstrap-signer-controller: keeps a signature of every valid bootstrap token on cluster-info.

Source: pkg/controller/bootstrap/bootstrapsigner.go (Kubernetes 1.36). A write that fails is not retried, as there, but
here everything is looked at again once a minute, and when a token expires.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap, Secret
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers.bootstrap_secrets import is_token, token_informer
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, RESYNC_SECONDS, Context, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError, loggable
from kubevouch.pki import jws
from kubevouch.records.bootstrap_tokens import TokenRefusedError, accept_for_signing, expiration_of
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import elsewhere

log = get_logger("controllers.bootstrap_signer")

NAME = wellknown.BOOTSTRAP_SIGNER_CONTROLLER

CLUSTER_INFO = Request(wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE)


def signed(cluster_info: ConfigMap, secrets: Iterable[Secret], now: dt.datetime) -> dict[str, str] | None:
    """The entries that cluster-info should have, None when there is no kubeconfig to sign.

    Every key with the prefix of signatures is ours: one that belongs to no valid token goes. The kubeconfig is signed
    whatever it holds.
    """
    kubeconfig = cluster_info.data.get(wellknown.KUBECONFIG_KEY)
    if kubeconfig is None:
        return None
    content = kubeconfig.encode()
    entries = {key: value for key, value in cluster_info.data.items() if not key.startswith(wellknown.JWS_KEY_PREFIX)}
    for secret in secrets:
        try:
            token = accept_for_signing(secret, now)
        except TokenRefusedError as err:
            log.debug("a token does not sign cluster-info", why=str(err))
            continue
        entries[wellknown.JWS_KEY_PREFIX + token.token_id] = jws.sign(content, token.token_id, token.token_secret)
    return entries


def next_expiry(secrets: Iterable[Secret], now: dt.datetime) -> float | None:
    """Seconds until the first of the tokens expires."""
    remaining = [left.total_seconds() for secret in secrets if (left := expiration_of(secret, now).remaining)]
    return min(remaining, default=None)


class BootstrapSigner:
    """Reconciles the one object there is."""

    def __init__(self, client: Client, config_maps: Lister[ConfigMap], secrets: Lister[Secret], clock: Clock) -> None:
        self._client = client
        self._config_maps = config_maps
        self._secrets = secrets
        self._clock = clock

    async def reconcile(self, request: Request) -> Result:
        cluster_info = self._config_maps.get(request.name, request.namespace)
        if cluster_info is None:
            return DONE
        now = self._clock.now()
        tokens = self._tokens()
        # There may be thousands of tokens, and each change of one signs for all.
        entries, expires = await elsewhere(lambda: (signed(cluster_info, tokens, now), next_expiry(tokens, now)))
        if entries is None:
            log.debug("No key in ConfigMap", key=wellknown.KUBECONFIG_KEY)
            return DONE
        if entries != cluster_info.data:
            await self._write(msgspec.structs.replace(cluster_info, data=entries))
        return Result(expires)

    def _tokens(self) -> Sequence[Secret]:
        return self._secrets.list(matches=is_token)

    async def _write(self, cluster_info: ConfigMap) -> None:
        try:
            await self._client.update(CONFIG_MAPS, cluster_info)
        except (APIStatusError, TransportError) as err:
            # Somebody else's write, or the deletion, makes an event of its own.
            if not (isinstance(err, APIStatusError) and err.code in (404, 409)):
                log.warning("Error updating ConfigMap", err=loggable(err))


def _of_cluster_info(config_map: ConfigMap) -> Iterable[Request]:
    return (CLUSTER_INFO,) if request_of(config_map) == CLUSTER_INFO else ()


def _of_secret(secret: Secret) -> Iterable[Request]:
    return (CLUSTER_INFO,) if is_token(secret) else ()


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    config_maps = context.informers.informer(
        CONFIG_MAPS,
        client=client,
        namespace=wellknown.KUBE_PUBLIC_NAMESPACE,
        field_selector=f"metadata.name={wellknown.CLUSTER_INFO_CONFIGMAP}",
    )
    secrets = token_informer(context, client)
    controller = QueueController(
        NAME, BootstrapSigner(client, config_maps.lister, secrets.lister, context.clock), context.clock
    )
    controller.watch(config_maps, on_add=_of_cluster_info, on_update=_of_cluster_info, resync_seconds=RESYNC_SECONDS)
    controller.watch(secrets, on_add=_of_secret, on_update=_of_secret, on_delete=_of_secret, resync_seconds=0)
    return controller
