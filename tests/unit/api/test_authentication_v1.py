from __future__ import annotations

import pytest

from kubevouch.api.authentication_v1 import (
    SelfSubjectReview,
    TokenRequest,
    TokenRequestSpec,
    TokenReview,
    default_token_request,
    validate_token_request,
)
from kubevouch.machinery.codec import json_codec


def test_empty_kinds_print_as_in_go() -> None:
    assert json_codec.encode(TokenRequest()) == (
        b'{"metadata":{},"spec":{"audiences":null,"expirationSeconds":null,"boundObjectRef":null},'
        b'"status":{"token":"","expirationTimestamp":null}}'
    )
    assert json_codec.encode(TokenReview()) == b'{"metadata":{},"spec":{},"status":{"user":{}}}'
    assert json_codec.encode(SelfSubjectReview()) == b'{"metadata":{},"status":{"userInfo":{}}}'


def requesting(seconds: int | None) -> TokenRequest:
    return TokenRequest(spec=TokenRequestSpec(expiration_seconds=seconds))


def test_defaults() -> None:
    assert default_token_request(requesting(None)).spec.expiration_seconds == 3600
    zero = requesting(0)
    assert default_token_request(zero) is zero


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (600, []),
        (1 << 32, []),
        (0, ["spec.expirationSeconds: Invalid value: 0: may not specify a duration less than 10 minutes"]),
        (
            (1 << 32) + 1,
            [
                (
                    "spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than "
                    "2^32 seconds"
                )
            ],
        ),
    ],
)
def test_lifetimes(seconds: int, texts: list[str]) -> None:
    assert [str(error) for error in validate_token_request(requesting(seconds))] == texts
