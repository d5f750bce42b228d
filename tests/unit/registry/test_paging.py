from __future__ import annotations

import base64

import pytest

from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.registry.paging import MAX_TOKEN_BYTES, ContinueToken, decode

VERSION = "meta.k8s.io/v1"


def token(**fields: object) -> str:
    return (
        base64.urlsafe_b64encode(json_codec.encode({"v": VERSION, "rv": 7, "start": "a\0"} | fields))
        .decode()
        .rstrip("=")
    )


def raw(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def test_token_is_kubernetes_own() -> None:
    text = ContinueToken(7, "default/web\0").encode()
    padded = text + "=" * (-len(text) % 4)
    assert base64.urlsafe_b64decode(padded) == b'{"v":"meta.k8s.io/v1","rv":7,"start":"default/web\\u0000"}'


@pytest.mark.parametrize("start", ["a\0", "default/web\0", "default/ü\0", "default/..a\0", "x" * 500])
@pytest.mark.parametrize("revision", [1, -1, 2**63 - 1])
def test_round_trip(start: str, revision: int) -> None:
    assert decode(ContinueToken(revision, start).encode()) == ContinueToken(revision, start)


def test_token_of_the_watch_cache_has_a_leading_slash() -> None:
    assert decode(token(start="/default/web\0")) == ContinueToken(7, "default/web\0")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (token(v="meta.k8s.io/v2"), "server does not recognize this encoded version meta.k8s.io/v2"),
        (token(v=None), "server does not recognize this encoded version "),
        (token(v=1), "server does not recognize this encoded version "),
        (token(rv=0), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        (
            raw(b'{"v":"meta.k8s.io/v1","start":"a"}'),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (token(start=""), "encoded start key empty (version meta.k8s.io/v1)"),
        (token(start="../secrets/kube-system/x"), "../secrets/kube-system/x"),
        (token(start="/../secrets"), "/../secrets"),
        (token(start="default/../../secrets"), "default/../../secrets"),
        (token(start="default//web"), "default//web"),
        (token(start="//default/web"), "//default/web"),
        (token(start="default/."), "default/."),
        (token(start="default/"), "default/"),
        (token(rv="7"), "json: cannot unmarshal"),
        (token(rv=True), "json: cannot unmarshal"),
        (token(rv=1.5), "json: cannot unmarshal"),
        (token(start=["a"]), "json: cannot unmarshal"),
        (raw(b"[]"), "json: cannot unmarshal into Go value of type storage.continueToken"),
        ("!", "illegal base64 data at input byte 0"),
        ("abc!", "illegal base64 data at input byte 3"),
        ("abcde", "illegal base64 data at input byte 4"),
        ("x" * (MAX_TOKEN_BYTES + 1), "too long"),
    ],
)
def test_what_is_no_token(text: str, why: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        decode(text)
    assert caught.value.code == 400
    assert caught.value.status.message == f"invalid continue token: continue key is not valid: {why}"


@pytest.mark.parametrize("text", ["", raw(b"{"), raw(b"\xff\xfe"), raw(b'{"v":"meta.k8s.io/v1"} x')])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(APIStatusError, match="invalid continue token: continue key is not valid: "):
        decode(text)
