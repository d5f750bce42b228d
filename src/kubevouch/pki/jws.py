"""The detached JWS by which a bootstrap token vouches for cluster-info (``cluster-bootstrap/token/jws``, 1.36).

The key is the token's **secret alone**, the message is the kubeconfig's bytes, the algorithm is HS256 whatever a
header says. Verifying is computing it again and comparing: a header with other members, another order or blanks does
not pass, however valid it may be by RFC 7515.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import SignatureError
from kubevouch.wellknown import JWS_KEY_PREFIX, KUBECONFIG_KEY


def sign(content: bytes, token_id: str, token_secret: str) -> str:
    """``<header>..<signature>``: RFC 7515 appendix F, compact, the payload left out."""
    header = _base64url(b'{"alg":"HS256","kid":' + json_codec.encode(token_id) + b"}")
    message = f"{header}.{_base64url(content)}".encode("ascii")
    signature = hmac.new(token_secret.encode(), message, hashlib.sha256).digest()
    return f"{header}..{_base64url(signature)}"


def verify(value: str, content: bytes, token_id: str, token_secret: str) -> bytes:
    """``content``, once ``value`` is what the token signs it with.

    Raises:
        SignatureError: it is not; with kubeadm's text.
    """
    expected = sign(content, token_id, token_secret)
    if not hmac.compare_digest(expected.encode(), value.encode("utf-8", "surrogatepass")):
        raise SignatureError(
            "failed to verify JWS signature of received cluster info object, can't trust this API Server"
        )
    return content


def verify_cluster_info(entries: Mapping[str, str], token_id: str, token_secret: str) -> str:
    """The kubeconfig in the entries of cluster-info, once the token has vouched for it.

    Raises:
        SignatureError: there is no kubeconfig, no signature of this token, or a wrong one; with kubeadm's texts.
    """
    kubeconfig = entries.get(KUBECONFIG_KEY, "")
    if not kubeconfig:
        raise SignatureError(
            "there is no kubeconfig key in the cluster-info ConfigMap. This API Server isn't set up for token "
            "bootstrapping, can't connect"
        )
    value = entries.get(JWS_KEY_PREFIX + token_id, "")
    if not value:
        raise SignatureError(
            f'token id {quote(token_id)} is invalid for this cluster or it has expired. Use "kubeadm token create" '
            "on the control-plane node to create a new valid token"
        )
    verify(value, kubeconfig.encode(), token_id, token_secret)
    return kubeconfig


def _base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")
