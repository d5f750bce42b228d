"""apiserver.config.k8s.io EncryptionConfiguration: which resources are stored encrypted, and with which keys.

Source: k8s.io/apiserver/pkg/apis/apiserver/{v1/types_encryption.go,validation/validation_encryption.go} and
pkg/server/options/encryptionconfig/config.go (Kubernetes 1.36). No error says a secret, where Kubernetes would print
all of a provider.
"""

from __future__ import annotations

import binascii
import datetime as dt
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from kubevouch.config import config_file
from kubevouch.config.config_file import ConfigFileError
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Int32, Struct, named, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text import gotext

KIND = "EncryptionConfiguration"
ANY = "*"
EVERYTHING = GroupResource(ANY, ANY)
AES_KEY_SIZES = (16, 24, 32)
SECRETBOX_KEY_SIZES = (32,)
DEFAULT_TIMEOUT = "3s"
_REDACTED = "REDACTED"
# The shortest key has 22 characters; of a longer text a YAML parser quotes a part. Kinds end like the alternative.
_KEY_LIKE = re.compile(r"(?<![A-Za-z0-9+/=])(?![A-Za-z]*[Cc]onfig(?:uration)?\b)[A-Za-z0-9+/=]{12,}", re.ASCII)
_NO_API = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")
_KMS_V1 = (
    "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  "
    "kubevouch has version v2 only."
)


class Key(Struct):
    """A key, by name."""

    name: Annotated[str, wire(1, "Stands before each value that it encrypted.")] = ""
    secret: Annotated[str, wire(2, "The key, in base64.")] = ""

    def __repr__(self) -> str:
        return f"Key(name={self.name!r}, secret={_REDACTED})"

    @property
    def octets(self) -> bytes:
        """The key itself. Raises ``ValueError`` unless it is base64 as Go reads it."""
        text = self.secret.replace("\r", "").replace("\n", "")
        try:
            return binascii.a2b_base64(text.encode(), strict_mode=True)
        except binascii.Error as err:
            raise ValueError(str(err)) from None  # the text is a secret


class Keys(Struct):
    """The keys of a provider; the first one encrypts."""

    keys: Annotated[list[Key], wire(1, "The first one encrypts, all decrypt.")] = []


class IdentityConfiguration(Struct):
    """No encryption."""


class KMSConfiguration(Struct):
    """A plug-in that holds the key."""

    api_version: Annotated[str, wire(1, "v2.")] = ""
    name: Annotated[str, wire(2, "Stands before each value that it encrypted.")] = ""
    cache_size: Annotated[Int32 | None, wire(3, "Of version v1.")] = named("cachesize", None)
    endpoint: Annotated[str, wire(4, "Its socket: unix:///PATH.")] = ""
    timeout: Annotated[str | None, wire(5, "Of one call; 3s if it is left out.")] = None

    @property
    def version(self) -> str:
        return self.api_version or "v1"

    @property
    def seconds(self) -> float:
        """How long a call may take. Raises ``ValueError`` for a text that is no duration."""
        return gotext.parse_duration(DEFAULT_TIMEOUT if self.timeout is None else self.timeout).total_seconds()

    @property
    def socket(self) -> str:
        """The path of its socket; with ``@`` in front it is a name in Linux' abstract namespace (kms/pkg/util)."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.endpoint).path)
        return path.removeprefix("/") if path.startswith("/@") else path


class ProviderConfiguration(Struct):
    """One way to encrypt: exactly one of these."""

    aesgcm: Annotated[Keys | None, wire(1, "AES-GCM with random nonces.")] = None
    aescbc: Annotated[Keys | None, wire(2, "AES-CBC with PKCS#7 padding.")] = None
    secretbox: Annotated[Keys | None, wire(3, "XSalsa20 and Poly1305.")] = None
    identity: Annotated[IdentityConfiguration | None, wire(4, "As it is.")] = None
    kms: Annotated[KMSConfiguration | None, wire(5, "A plug-in that holds the key.")] = None


class ResourceConfiguration(Struct):
    """Resources that are encrypted alike."""

    resources: Annotated[list[str], wire(1, "plural, plural.group, *.group or *.*.")] = []
    providers: Annotated[list[ProviderConfiguration], wire(2, "The first one encrypts, all decrypt.")] = []


class EncryptionConfiguration(Struct):
    """The file."""

    resources: Annotated[list[ResourceConfiguration], wire(1, "What is encrypted, and how.")] = []


VERSIONS = {f"{config_file.GROUP}/v1": EncryptionConfiguration}


def load(text: bytes) -> EncryptionConfiguration:
    """The configuration that a file holds.

    Raises:
        ConfigFileError: in Kubernetes' words.
    """
    try:
        config = config_file.decode(text, KIND, VERSIONS)
    except ConfigFileError as err:
        # It may quote what stands where it stumbled, as in {name: key1,secret:MDEy…}. What that was caused by, too.
        raise ConfigFileError(_KEY_LIKE.sub(_REDACTED, str(err))) from None
    errors = validate(config)
    if errors:
        raise ConfigFileError.of(errors)
    why = _fault(config)
    if why:
        raise ConfigFileError(f"error while building transformers: {why}")
    return config


def parse_group_resource(text: str) -> GroupResource:
    """``plural``, ``plural.group`` or a pattern (schema.ParseGroupResource)."""
    resource, _, group = text.partition(".")
    return GroupResource(group, resource)


def plan(config: EncryptionConfiguration) -> dict[GroupResource, bool]:
    """Whether each resource or pattern that a valid configuration names is stored encrypted: by its first provider."""
    found: dict[GroupResource, bool] = {}
    for entry in config.resources:
        for resource in map(parse_group_resource, entry.resources):
            found.setdefault(resource, entry.providers[0].identity is None)
    return found


def weakened(former: Mapping[GroupResource, bool], now: Mapping[GroupResource, bool]) -> list[str]:
    """The resources and patterns that the plan ``former`` stored encrypted, and ``now`` does not."""
    return sorted(shown(each) for each in {*former, *now} if _encrypts(former, each) and not _encrypts(now, each))


def _encrypts(plan: Mapping[GroupResource, bool], resource: GroupResource) -> bool:
    for each in (resource, GroupResource(resource.group, ANY), EVERYTHING):
        if each in plan:
            return plan[each]
    return False


def validate(config: EncryptionConfiguration) -> list[FieldError]:
    """What speaks against a configuration."""
    if not config.resources:
        return [field.required("resources", "at least one resources is required")]
    errors: list[FieldError] = []
    plugins: set[str] = set()
    for index, entry in enumerate(config.resources):
        resources, providers = f"resources[{index}].resources", f"resources[{index}].providers"
        if not entry.resources:
            errors.append(field.required(resources, f"at least one {resources} is required"))
        errors += _overlap_errors(resources, entry.resources)
        for at, name in enumerate(entry.resources):
            why = _name_fault(name)
            if why:
                errors.append(field.invalid(f"{resources}[{at}]", name, why))
        if not entry.providers:
            errors.append(field.required(providers, f"at least one {providers} is required"))
        for at, provider in enumerate(entry.providers):
            errors += _provider_errors(f"{providers}[{at}]", provider, plugins)
    return errors


def _overlap_errors(path: str, resources: list[str]) -> list[FieldError]:
    """Within one list; between entries the later one is refused where it is masked."""
    parsed = [parse_group_resource(each) for each in resources]
    errors = []
    if len(set(parsed)) < len(parsed):
        errors.append(field.invalid(path, resources, "the same resource cannot be specified multiple times"))
    pairs = ((one, other) for i, one in enumerate(parsed) for j, other in enumerate(parsed) if i != j)
    if any(_overlap(one, other) for one, other in pairs):
        why = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they "
        errors.append(field.invalid(path, resources, f"{why}will be masked"))
    return errors


def _overlap(one: GroupResource, other: GroupResource) -> bool:
    return one == EVERYTHING or (one.group == other.group and ANY in (one.resource, other.resource))


def _name_fault(name: str) -> str:
    if name.lower() != name:
        return "resource name should not contain capital letters"
    if name == ANY:
        return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    if name in _NO_API:
        return "resources which do not have REST API/s cannot be encrypted"
    resource = parse_group_resource(name)
    if resource.group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the "
            "config file"
        )
    if resource.group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if resource.group == ANY and resource.resource != ANY:
        return "encrypting the same resource across groups is not supported"
    return ""


def _provider_errors(path: str, provider: ProviderConfiguration, plugins: set[str]) -> list[FieldError]:
    """``plugins`` are the names of all before, and gets that of this one."""
    given = [each for each in (provider.kms, provider.aesgcm, provider.aescbc, provider.secretbox) if each is not None]
    errors = []
    count = len(given) + (provider.identity is not None)
    if not count:
        empty: dict[str, Any] = dict.fromkeys(("AESGCM", "AESCBC", "Secretbox", "Identity", "KMS"))
        why = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
        errors.append(field.invalid(path, empty, why))
    elif count > 1:
        why = "more than one provider specified in a single element, should split into different list elements"
        errors.append(field.invalid(path, _REDACTED, why))
    if provider.kms is not None:
        errors += _kms_errors(f"{path}.kms", provider.kms, plugins)
        plugins.add(provider.kms.name)
    elif provider.aesgcm is not None:
        errors += _key_errors(f"{path}.aesgcm.keys", provider.aesgcm.keys, AES_KEY_SIZES)
    elif provider.aescbc is not None:
        errors += _key_errors(f"{path}.aescbc.keys", provider.aescbc.keys, AES_KEY_SIZES)
    elif provider.secretbox is not None:
        errors += _key_errors(f"{path}.secretbox.keys", provider.secretbox.keys, SECRETBOX_KEY_SIZES)
    return errors


def _key_errors(path: str, keys: list[Key], sizes: Sequence[int]) -> list[FieldError]:
    if not keys:
        return [field.required(path, "at least one keys is required")]
    errors = []
    for at, key in enumerate(keys):
        if not key.name:
            errors.append(field.required(f"{path}[{at}].name", "name is a mandatory field for a key"))
        secret = f"{path}[{at}].secret"
        if not key.secret:
            errors.append(field.required(secret, "secret is a mandatory field for a key"))
            continue
        try:
            size = len(key.octets)
        except ValueError:
            errors.append(field.invalid(secret, _REDACTED, "secrets must be base64 encoded"))
            continue
        if size not in sizes:
            expected = " ".join(map(str, sizes))
            why = f"secret is not of the expected length, got {size}, expected one of [{expected}]"
            errors.append(field.invalid(secret, _REDACTED, why))
    return errors


def _kms_errors(path: str, kms: KMSConfiguration, plugins: set[str]) -> list[FieldError]:
    errors = []
    name = f"{path}.name"
    if not kms.name:
        errors.append(field.required(name, "name is a mandatory field for a provider"))
    if kms.version != "v1" and ":" in kms.name:
        why = f"invalid KMS provider name {kms.name}, must not contain ':'"
        errors.append(field.invalid(name, kms.name, why))
    if kms.version != "v1" and kms.name in plugins:
        why = f"duplicate KMS provider name {kms.name}, names must be unique"
        errors.append(field.invalid(name, kms.name, why))
    try:
        seconds = kms.seconds
    except ValueError as err:
        errors.append(field.invalid(f"{path}.timeout", kms.timeout, str(err)))
    else:
        if seconds <= 0:
            shown = gotext.format_duration(dt.timedelta(seconds=seconds))
            errors.append(field.invalid(f"{path}.timeout", shown, "timeout should be a positive value"))
    errors += _endpoint_errors(f"{path}.endpoint", kms)
    if kms.version != "v1" and kms.cache_size is not None:
        errors.append(field.invalid(f"{path}.cachesize", kms.cache_size, "cachesize is not supported in v2"))
    if kms.version == "v1" and kms.cache_size == 0:
        why = "cachesize should be a positive value, or negative to disable"
        errors.append(field.invalid(f"{path}.cachesize", kms.cache_size, why))
    if kms.version not in ("v1", "v2"):
        why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"
        errors.append(field.invalid(f"{path}.apiVersion", kms.version, why))
    return errors


def _endpoint_errors(path: str, kms: KMSConfiguration) -> list[FieldError]:
    if not kms.endpoint:
        return [field.invalid(path, "", "endpoint is a mandatory field for a kms")]
    try:
        scheme = urllib.parse.urlsplit(kms.endpoint).scheme
    except ValueError as err:
        return [field.invalid(path, kms.endpoint, f"invalid endpoint for kms provider, error: {err}")]
    if scheme != "unix":
        why = f"unsupported scheme {gotext.quote(scheme)} for KMS provider, only unix is supported"
        return [field.invalid(path, kms.endpoint, why)]
    if not kms.socket.strip("/"):
        # Kubernetes finds out when it dials, over and over again.
        return [field.invalid(path, kms.endpoint, "expected the path of a socket: unix:///run/kms.sock")]
    return []


def _fault(config: EncryptionConfiguration) -> str:
    """What Kubernetes finds only when it makes use of a configuration that is valid."""
    earlier: set[GroupResource] = set()
    for entry in config.resources:
        if any(each.kms is not None and each.kms.version == "v1" for each in entry.providers):
            return _KMS_V1
        for resource in map(parse_group_resource, entry.resources):
            for mask in (GroupResource(resource.group, ANY), EVERYTHING):
                if mask in earlier:
                    masked, by = gotext.quote(shown(resource)), gotext.quote(shown(mask))
                    return f"resource {masked} is masked by earlier rule {by}"
            earlier.add(resource)
    return ""


def shown(resource: GroupResource) -> str:
    """As a file names it: the other direction of :func:`parse_group_resource`."""
    return "*." if resource == GroupResource("", ANY) else str(resource)
