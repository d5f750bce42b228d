"""The Secrets of bootstrap tokens, which signer and cleaner read through one cache."""

from __future__ import annotations

from kubevouch.api import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.api.core_v1 import Secret
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.client.interface import Client
from kubevouch.controllers.interface import Context


def is_token(secret: Secret) -> bool:
    """By namespace and type alone."""
    here = secret.metadata.namespace == wellknown.KUBE_SYSTEM_NAMESPACE
    return here and secret.type == wellknown.BOOTSTRAP_TOKEN_SECRET


def token_informer(context: Context, client: Client) -> SharedInformer[Secret]:
    """No other Secret ever gets into this process."""
    return context.informers.informer(
        SECRETS,
        client=client,
        namespace=wellknown.KUBE_SYSTEM_NAMESPACE,
        field_selector=f"type={wellknown.BOOTSTRAP_TOKEN_SECRET}",
    )
