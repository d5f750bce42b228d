"""The Secrets of bootstrap tokens, and the requests made with them, which controllers read through one cache each."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SECRETS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.client.interface import Client
from kubevouch.controllers.interface import Context
from kubevouch.records.bootstrap_tokens import token_id_of_user

TOKEN_INDEX = "bootstrap-token"
"""Of requests, by the ID of the token that they came with."""


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


def requests_by_token(context: Context, client: Client) -> SharedInformer[CertificateSigningRequest]:
    """All requests, with :data:`TOKEN_INDEX`."""
    informer = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    with suppress(ValueError):  # somebody who shares the cache has added it
        informer.indexer.add_index(TOKEN_INDEX, _token_ids)
    return informer


def _token_ids(csr: CertificateSigningRequest) -> Iterable[str]:
    token_id = token_id_of_user(csr.spec.username)
    return (token_id,) if token_id else ()
