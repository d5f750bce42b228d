from __future__ import annotations

import msgspec

from kubevouch import wellknown
from kubevouch.admission.joined_names import JoinedNames, shared_names
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject

FIRST, SECOND = (keys.generate(KeyAlgorithm.ECDSA_P256) for _ in range(2))
TOKEN_USER = "system:bootstrap:abcdef"


def _csr(
    name: str,
    key: PrivateKey,
    *,
    node: str = "worker-1",
    user: str = TOKEN_USER,
    signer: str = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    issued: bool = True,
) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=build_request(key, Subject(common_name=f"system:node:{node}", organizations=("system:nodes",))),
        signer_name=signer,
        username=user,
    )
    status = CertificateSigningRequestStatus(certificate=b"x" if issued else b"")
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec, status=status)


def _joined(*csrs: CertificateSigningRequest) -> JoinedNames:
    found = JoinedNames()
    for csr in csrs:
        found.changed(csr.metadata.name, csr)
    return found


def test_another_key_under_the_name_is_another_machine() -> None:
    found = _joined(_csr("a", FIRST))
    assert found.other_machine(_csr("b", SECOND), TOKEN_USER) == "a"
    assert found.other_machine(_csr("b", SECOND), "system:bootstrap:zzzzzz") == "a"


def test_what_is_no_other_machine() -> None:
    found = _joined(_csr("a", FIRST))
    # The same machine asks again; one of another name; a node that rotates; a request nobody has issued.
    assert not found.other_machine(_csr("b", FIRST), TOKEN_USER)
    assert not found.other_machine(_csr("b", SECOND, node="worker-2"), TOKEN_USER)
    assert not found.other_machine(_csr("b", SECOND), "system:node:worker-1")
    assert not found.other_machine(_csr("b", SECOND, signer="kubernetes.io/kubelet-serving"), TOKEN_USER)
    assert not _joined(_csr("a", FIRST, issued=False)).other_machine(_csr("b", SECOND), TOKEN_USER)
    assert not _joined(_csr("a", FIRST, user="system:node:worker-1")).other_machine(_csr("b", SECOND), TOKEN_USER)
    nameless = _csr("b", SECOND, node="")
    assert not _joined(_csr("a", FIRST, node="")).other_machine(nameless, TOKEN_USER)
    broken = msgspec.structs.replace(_csr("b", SECOND), spec=CertificateSigningRequestSpec(request=b"x"))
    assert not found.other_machine(broken, TOKEN_USER)


def test_a_request_that_goes_is_forgotten_and_the_newest_is_named() -> None:
    found = _joined(_csr("a", FIRST), _csr("b", SECOND))
    third = _csr("c", keys.generate(KeyAlgorithm.ECDSA_P256))
    assert found.other_machine(third, TOKEN_USER) == "b"
    found.changed("b", None)
    assert found.other_machine(third, TOKEN_USER) == "a"
    found.changed("a", None)
    found.changed("never seen", None)
    assert not found.other_machine(third, TOKEN_USER)


def test_shared_names() -> None:
    alone = [_csr("a", FIRST), _csr("b", FIRST), _csr("c", SECOND, node="worker-2"), _csr("d", SECOND, issued=False)]
    assert shared_names(alone) == {}
    assert shared_names([*alone, _csr("e", SECOND)]) == {"system:node:worker-1": ["b", "e"]}
