"""The signature of cluster-info vouches for its header too: another header is another signature, even a good one."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from kubevouch.pki import jws
from kubevouch.pki.errors import SignatureError

ID, SECRET, CONTENT = "abcdef", "0123456789abcdef", b"kubeconfig"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(header: bytes) -> str:
    """With this header, as whoever knows the secret signs."""
    message = f"{encoded(header)}.{encoded(CONTENT)}".encode()
    return f"{encoded(header)}..{encoded(hmac.new(SECRET.encode(), message, hashlib.sha256).digest())}"


def test_the_header_that_kubernetes_writes() -> None:
    assert signed(b'{"alg":"HS256","kid":"abcdef"}') == jws.sign(CONTENT, ID, SECRET)


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"none","kid":"abcdef"}', b'{"alg":"HS512","kid":"abcdef"}', b'{"alg":"HS256","kid":"abcdeg"}',
        b'{"alg":"HS256"}', b'{"kid":"abcdef","alg":"HS256"}', b'{"alg": "HS256","kid":"abcdef"}', b"{}", b"",
        b'{"alg":"HS256","kid":"abcdef","crit":["x"]}',
    ],
)  # fmt: skip
def test_another_header_is_refused_however_it_is_signed(header: bytes) -> None:
    right = jws.sign(CONTENT, ID, SECRET)
    for value in (signed(header), f"{encoded(header)}..{right.rpartition('.')[2]}"):
        with pytest.raises(SignatureError):
            jws.verify(value, CONTENT, ID, SECRET)


def test_a_payload_in_the_signature_is_refused() -> None:
    header, _, signature = jws.sign(CONTENT, ID, SECRET).split(".")
    with pytest.raises(SignatureError):
        jws.verify(f"{header}.{encoded(CONTENT)}.{signature}", CONTENT, ID, SECRET)


def test_what_is_no_text_is_a_wrong_signature() -> None:
    with pytest.raises(SignatureError, match="failed to verify JWS signature of received cluster info object"):
        jws.verify("\ud800", CONTENT, ID, SECRET)


def test_a_right_signature_gives_what_is_signed() -> None:
    value = jws.sign(CONTENT, ID, SECRET)
    assert jws.verify(value, CONTENT, ID, SECRET) == CONTENT
    entries = {"kubeconfig": CONTENT.decode(), f"jws-kubeconfig-{ID}": value}
    assert jws.verify_cluster_info(entries, ID, SECRET) == CONTENT.decode()
    texts = {"kubeconfig": "there is no kubeconfig key in ", f"jws-kubeconfig-{ID}": f'token id "{ID}" is '}
    for key, error in texts.items():
        for lacking in ({k: v for k, v in entries.items() if k != key}, entries | {key: ""}):
            with pytest.raises(SignatureError, match=error):
                jws.verify_cluster_info(lacking, ID, SECRET)
