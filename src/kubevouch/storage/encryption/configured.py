"""From an EncryptionConfiguration to the transformers that it asks for."""

from __future__ import annotations

from collections.abc import Callable

from kubevouch.config.encryption_config import (
    EncryptionConfiguration,
    KMSConfiguration,
    ProviderConfiguration,
    parse_group_resource,
)
from kubevouch.machinery.scheme import GroupResource
from kubevouch.storage.encryption.ciphers import IdentityProvider, keyed
from kubevouch.storage.encryption.interface import Provider, TransformRecorder
from kubevouch.storage.encryption.transformers import ResourceTransformers, Transformers


def transformers(
    config: EncryptionConfiguration, recorder: TransformRecorder, plugin: Callable[[KMSConfiguration], Provider]
) -> ResourceTransformers:
    """The transformers of a valid configuration. A resource that several entries name is written by the first.

    Args:
        plugin: makes the provider of a KMS plug-in.

    Raises:
        SecretboxUnavailable
    """
    providers: dict[GroupResource, list[Provider]] = {}
    for entry in config.resources:
        made = [_provider(each, plugin) for each in entry.providers]
        for resource in map(parse_group_resource, entry.resources):
            providers.setdefault(resource, []).extend(made)
    return ResourceTransformers({resource: Transformers(each, recorder) for resource, each in providers.items()})


def _provider(config: ProviderConfiguration, plugin: Callable[[KMSConfiguration], Provider]) -> Provider:
    if config.kms is not None:
        return plugin(config.kms)
    for kind, keys in (("aesgcm", config.aesgcm), ("aescbc", config.aescbc), ("secretbox", config.secretbox)):
        if keys is not None:
            return keyed(kind, [(each.name, each.octets) for each in keys.keys])
    return IdentityProvider()
