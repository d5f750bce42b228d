from __future__ import annotations

import pytest

from kubevouch.api.core_v1 import Secret, default_secret, validate_secret, validate_secret_update
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta

MIB = 1 << 20
IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"


def faults(secret: Secret) -> list[str]:
    return [str(error) for error in validate_secret(secret)]


def test_json_has_gos_order_and_leaves_out_what_is_empty() -> None:
    secret = Secret(immutable=True, data={"b": b"1", "a": b"<"}, type="Opaque")
    assert json_codec.encode(secret) == (
        b'{"metadata":{},"immutable":true,"data":{"a":"PA==","b":"MQ=="},"type":"Opaque"}'
    )
    assert json_codec.encode(Secret()) == b'{"metadata":{}}'


def test_defaults() -> None:
    secret = default_secret(Secret(data={"a": b"1", "k": b"0"}, string_data={"a": "ä"}))
    assert secret == Secret(type="Opaque", data={"a": "ä".encode(), "k": b"0"})
    typed = Secret(type="x/y")
    assert default_secret(typed) is typed


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        (".", ["data[.]: Invalid value: \".\": must not be '.'"]),
        ("..", ["data[..]: Invalid value: \"..\": must not be '..'"]),
        ("..a", ["data[..a]: Invalid value: \"..a\": must not start with '..'"]),
        (".dockercfg", []),
        ("A_b-c.1", []),
        ("k" * 253, []),
        ("k" * 254, [f'data[{"k" * 254}]: Invalid value: "{"k" * 254}": must be no more than 253 characters']),
        (
            "a\n",
            [
                (
                    'data[a\n]: Invalid value: "a\\n": a valid config key must consist of alphanumeric characters, '
                    "'-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
                    "'[-._a-zA-Z0-9]+')"
                )
            ],
        ),
    ],
)
def test_keys(key: str, texts: list[str]) -> None:
    assert faults(Secret(data={key: b""})) == texts


def test_size_counts_the_values_of_all_keys() -> None:
    assert faults(Secret(data={"a": b"x" * (MIB - 1), "b": b"y"})) == []
    assert faults(Secret(data={"a": b"x" * MIB, "b": b"y"})) == ["data: Too long: may not be more than 1048576 bytes"]


@pytest.mark.parametrize(
    ("secret", "texts"),
    [
        (Secret(type="bootstrap.kubernetes.io/token", data={"token-id": b"!"}), []),
        (Secret(type="example.com/own"), []),
        (
            Secret(type="kubernetes.io/service-account-token"),
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
        (
            Secret(
                type="kubernetes.io/service-account-token",
                metadata=ObjectMeta(annotations={"kubernetes.io/service-account.name": "sa"}),
            ),
            [],
        ),
        (Secret(type="kubernetes.io/tls"), ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        (Secret(type="kubernetes.io/tls", data={"tls.crt": b"", "tls.key": b""}), []),
        (
            Secret(type="kubernetes.io/basic-auth"),
            ["data[username]: Required value", "data[password]: Required value"],
        ),
        (Secret(type="kubernetes.io/basic-auth", data={"password": b""}), []),
        (
            Secret(type="kubernetes.io/ssh-auth", data={"ssh-privatekey": b""}),
            ["data[ssh-privatekey]: Required value"],
        ),
        (Secret(type="kubernetes.io/dockercfg"), ["data[.dockercfg]: Required value"]),
        (Secret(type="kubernetes.io/dockercfg", data={".dockercfg": b"{}"}), []),
        (Secret(type="kubernetes.io/dockercfg", data={".dockercfg": b"null"}), []),
        (
            Secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": b"{"}),
            [
                'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": unexpected end of JSON input',
            ],
        ),
        (
            Secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": b"[]"}),
            [
                (
                    'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": json: cannot unmarshal '
                    "array into Go value of type map[string]interface {}"
                ),
            ],
        ),
    ],
)
def test_types_and_their_keys(secret: Secret, texts: list[str]) -> None:
    assert faults(secret) == texts


@pytest.mark.parametrize(
    ("text", "kind"), [(b"true", "bool"), (b'"x"', "string"), (b"1", "number"), (b"1.5", "number")]
)
def test_what_stands_where_an_object_is_due(text: bytes, kind: str) -> None:
    [problem] = faults(Secret(type="kubernetes.io/dockercfg", data={".dockercfg": text}))
    assert problem.endswith(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")


def test_update() -> None:
    old = Secret(type="a/b", immutable=True, data={"k": b"1"})
    new = Secret(type="c/d", data={"k": b"2"})
    assert [str(error) for error in validate_secret_update(new, old)] == [
        'type: Invalid value: "c/d": field is immutable',
        f"immutable: {IMMUTABLE}",
        f"data: {IMMUTABLE}",
    ]
    assert validate_secret_update(old, old) == []
    assert validate_secret_update(old, Secret(type="a/b", data={"k": b"0"})) == []
