"""config/encryption_config.py: what kube-apiserver's file may say, and in which words it is refused."""

from __future__ import annotations

import pytest

from encryption_world import KEY_1, fixtures
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.encryption_config import load

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
LENGTH = "secret is not of the expected length, got"


def provider(text: str) -> bytes:
    return f"{HEAD}resources: [{{resources: [secrets], providers: [{text}]}}]".encode()


def resources(*lists: str) -> bytes:
    entries = "\n".join(f"- {{resources: {each}, providers: [{{identity: {{}}}}]}}" for each in lists)
    return f"{HEAD}resources:\n{entries}".encode()


def kms(text: str) -> bytes:
    return provider(f"{{kms: {{apiVersion: v2, name: k, endpoint: 'unix:///k', {text}}}}}")


@pytest.mark.parametrize("config", sorted({each.config for each in fixtures()}))
def test_what_a_kube_apiserver_was_started_with(config: bytes) -> None:
    assert load(config).resources


def test_defaults() -> None:
    (entry,) = load(kms("")).resources
    assert entry.providers[0].kms is not None
    assert (entry.providers[0].kms.seconds, entry.providers[0].kms.socket) == (3.0, "/k")


@pytest.mark.parametrize(
    ("endpoint", "path"), [("unix:///run/a%20b.sock", "/run/a b.sock"), ("unix:///@kms", "@kms"), ("UNIX:///k", "/k")]
)
def test_sockets(endpoint: str, path: str) -> None:
    found = (
        load(provider(f"{{kms: {{apiVersion: v2, name: k, endpoint: '{endpoint}'}}}}")).resources[0].providers[0].kms
    )
    assert found is not None and found.socket == path


# Paths in what follows: r is the list of resources, p that of providers.
_MASKED = "error while building transformers: resource {} is masked by earlier rule {}"
_OVERLAP = (
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be "
    "masked"
)
_EVENTS = (
    "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
)
_STAR = "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
_SEVERAL = "more than one provider specified in a single element, should split into different list elements"
_REDACTED = 'Invalid value: "REDACTED"'
_SCHEME = 'unsupported scheme "tcp" for KMS provider, only unix is supported'
_VERSION = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", ["no configuration: expected apiVersion and kind"]),
        (b"kind: EncryptionConfig\napiVersion: v1\n", ['no kind "EncryptionConfig" is registered for version "v1"']),
        (HEAD.encode(), ["resources: Required value: at least one resources is required"]),
        (HEAD.encode() + b"extra: 1", ['strict decoding error: unknown field "extra"']),
        (
            f"{HEAD}resources: [{{}}]".encode(),
            [
                "r: Required value: at least one r is required",
                "p: Required value: at least one p is required",
            ],
        ),
        (
            resources("[secrets, pods, secrets]"),
            ['r: Invalid value: ["secrets","pods","secrets"]: the same resource cannot be specified multiple times'],
        ),
        (resources("[secrets, '*.']"), [f'r: Invalid value: ["secrets","*."]: {_OVERLAP}']),
        (resources("['*.apps', a.apps]"), [f'r: Invalid value: ["*.apps","a.apps"]: {_OVERLAP}']),
        (resources("[pods, '*.*']"), [f'r: Invalid value: ["pods","*.*"]: {_OVERLAP}']),
        (resources("[Secrets]"), ['r[0]: Invalid value: "Secrets": resource name should not contain capital letters']),
        (resources("['*']"), [f'r[0]: Invalid value: "*": {_STAR}']),
        (
            resources("[serviceipallocations]"),
            [
                (
                    'r[0]: Invalid value: "serviceipallocations": resources which do not have REST API/s cannot be '
                    "encrypted"
                ),
            ],
        ),
        (resources("[events.events.k8s.io]"), [f'r[0]: Invalid value: "events.events.k8s.io": {_EVENTS}']),
        (
            resources("[a.extensions]"),
            [
                (
                    "r[0]: Invalid value: \"a.extensions\": 'extensions' group has been removed and cannot be used for "
                    "encryption"
                ),
            ],
        ),
        (
            resources("['secrets.*']"),
            ['r[0]: Invalid value: "secrets.*": encrypting the same resource across groups is not supported'],
        ),
        (resources("['*.']", "[secrets]"), [_MASKED.format('"secrets"', '"*."')]),
        (resources("['*.apps']", "[secrets, a.apps]"), [_MASKED.format('"a.apps"', '"*.apps"')]),
        (resources("['*.*']", "['*.apps']"), [_MASKED.format('"*.apps"', '"*.*"')]),
        (provider("{}"), ["p[0]: Invalid value: {"]),
        (
            provider("{identity: {}, aesgcm: {keys: [{name: a, secret: " + KEY_1 + "}]}}"),
            [f"p[0]: {_REDACTED}: {_SEVERAL}"],
        ),
        (provider("{aescbc: {}}"), ["p[0].aescbc.keys: Required value: at least one keys is required"]),
        (
            provider("{secretbox: {keys: [{}]}}"),
            [
                "p[0].secretbox.keys[0].name: Required value: name is a mandatory field for a key",
                "p[0].secretbox.keys[0].secret: Required value: secret is a mandatory field for a key",
            ],
        ),
        (
            provider("{aesgcm: {keys: [{name: a, secret: 'c2VjcmV0'}]}}"),
            [f"p[0].aesgcm.keys[0].secret: {_REDACTED}: {LENGTH} 6, expected one of [16 24 32]"],
        ),
        (
            provider("{secretbox: {keys: [{name: a, secret: 'c2VjcmV0c2VjcmV0c2VjcmV0'}]}}"),
            [f"p[0].secretbox.keys[0].secret: {_REDACTED}: {LENGTH} 18, expected one of [32]"],
        ),
        (
            provider("{aesgcm: {keys: [{name: a, secret: 'not base64'}]}}"),
            [f"p[0].aesgcm.keys[0].secret: {_REDACTED}: secrets must be base64 encoded"],
        ),
        (kms("cachesize: 1"), ["p[0].kms.cachesize: Invalid value: 1: cachesize is not supported in v2"]),
        (kms("timeout: 0s"), ['p[0].kms.timeout: Invalid value: "0s": timeout should be a positive value']),
        (kms("timeout: soon"), ['p[0].kms.timeout: Invalid value: "soon": time: invalid duration "soon"']),
        (
            provider("{kms: {apiVersion: v2}}"),
            [
                "p[0].kms.name: Required value: name is a mandatory field for a provider",
                'p[0].kms.endpoint: Invalid value: "": endpoint is a mandatory field for a kms',
            ],
        ),
        (
            provider("{kms: {apiVersion: v3, name: 'a:b', endpoint: 'tcp://h'}}"),
            [
                "p[0].kms.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'",
                f'p[0].kms.endpoint: Invalid value: "tcp://h": {_SCHEME}',
                f'p[0].kms.apiVersion: Invalid value: "v3": {_VERSION}',
            ],
        ),
        (
            provider("{kms: {apiVersion: v2, name: k, endpoint: 'unix:///'}}"),
            ['p[0].kms.endpoint: Invalid value: "unix:///": expected the path of a socket'],
        ),
        (
            provider(", ".join(["{kms: {apiVersion: v2, name: k, endpoint: 'unix:///k'}}"] * 2)),
            ['p[1].kms.name: Invalid value: "k": duplicate KMS provider name k, names must be unique'],
        ),
        (
            provider("{kms: {name: k, endpoint: 'unix:///k'}}"),
            ["error while building transformers: KMSv1 is deprecated"],
        ),
    ],
)
def test_what_cannot_be_used(text: bytes, why: list[str]) -> None:
    with pytest.raises(ConfigFileError) as caught:
        load(text)
    said = str(caught.value).replace("resources[0].resources", "r").replace("resources[0].providers", "p")
    assert said.startswith(why[0] if len(why) == 1 else f"[{', '.join(why)}]")


@pytest.mark.parametrize(
    "text",
    [
        "{aesgcm: {keys: [{name: a, secret: @}]}, identity: {}}",
        "{aesgcm: {keys: [{name: a,secret:@}]}}",
        "{aesgcm: {keys: [{name: a, @}]}}",
        "{aesgcm: {keys: [{name: a, secret: '@ %'}]}}",
        "{aesgcm: {keys: [{name: a, secret: [@]}]}}",
        "{aesgcm: {keys: [{name: a, secret: {@: @}}]}}",
        "{aesgcm: {keys: [{name: a, secret: @, secret: @}]}}",
        "{aesgcm: {keys: [{name: a, secret: &x @, y: *z}]}}",
        "{aesgcm: {keys: [{name: a, secret: !!int @}]}}",
        "{aesgcm: {keys: [{name: a, secret: !!binary @@@}]}}",
        "{aesgcm: {keys: [{name: a, secret: !!float @}]}}",
        "{aesgcm: {keys: [{name: a, secret: @",
        "{aesgcm: {keys: @}}",
        "{aesgcm: @}",
        "@",
    ],
)
def test_no_refusal_says_a_secret(text: str) -> None:
    """They are printed in a terminal, and logged."""
    secret = "U2VjcmV0U2VjcmV0U2VjcmV0"  # 18 bytes: no length of a key
    with pytest.raises(ConfigFileError) as caught:
        load(provider(text.replace("@", secret)))
    assert secret[:12] not in str(caught.value) and "Secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_configuration_that_is_printed_says_no_secret() -> None:
    config = load(provider(f"{{aesgcm: {{keys: [{{name: a, secret: {KEY_1}}}]}}}}"))
    assert "Key(name='a', secret=REDACTED)" in repr(config)
    assert KEY_1 not in repr(config)
