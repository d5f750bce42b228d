from __future__ import annotations

from collections.abc import Callable

import pytest

from kubevouch.pki import recognizers
from kubevouch.pki.recognizers import NODE_CLIENT, SELF_NODE_CLIENT
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER

USAGES = ("digital signature", "client auth")


@pytest.mark.parametrize(
    ("username", "expected"),
    [
        ("system:node:worker-7", (SELF_NODE_CLIENT, NODE_CLIENT)),
        ("system:node:worker-8", (NODE_CLIENT,)),
        ("system:bootstrap:abcdef", (NODE_CLIENT,)),
    ],
)
def test_a_renewal_is_asked_for_as_oneself_first(
    make_request: Callable[..., CertificateRequest], username: str, expected: tuple[recognizers.Recognition, ...]
) -> None:
    assert (
        recognizers.recognize(KUBE_APISERVER_CLIENT_KUBELET_SIGNER, make_request(), USAGES, username=username)
        == expected
    )


def test_what_is_not_recognised(make_request: Callable[..., CertificateRequest]) -> None:
    node = "system:node:worker-7"
    assert recognizers.recognize(KUBELET_SERVING_SIGNER, make_request(), USAGES, username=node) == ()
    odd = make_request(dns_names=("d",))
    assert recognizers.recognize(KUBE_APISERVER_CLIENT_KUBELET_SIGNER, odd, USAGES, username=node) == ()


def test_not_approved() -> None:
    assert recognizers.not_approved("csr-1", (SELF_NODE_CLIENT, NODE_CLIENT)) == (
        'recognized csr "csr-1" as [selfnodeclient nodeclient] but subject access review was not approved'
    )
