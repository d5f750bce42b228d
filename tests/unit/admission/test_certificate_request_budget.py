"""Undecided requests by requester and key."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from kubevouch.admission.certificate_request_budget import CertificateRequestBudget, OpenRequests
from kubevouch.admission.interface import Operation, Request
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
    is_undecided,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import GroupResource
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION

FIXTURES = Path(__file__).parents[2] / "vectors" / "fixtures-server"
REQUEST, OTHER = ((FIXTURES / f"csr-client-worker-{n}.pem").read_bytes() for n in (7, 8))
SIGNER = "kubernetes.io/kube-apiserver-client"


def csr(name: str, user: str = "jane", request: bytes = REQUEST, signer: str = SIGNER) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(request=request, username=user, signer_name=signer)
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)


def decided(obj: CertificateSigningRequest, **status: object) -> CertificateSigningRequest:
    return msgspec.structs.replace(obj, status=CertificateSigningRequestStatus(**status))  # type: ignore[arg-type]


def opened(*objects: CertificateSigningRequest) -> OpenRequests:
    found = OpenRequests()
    found.load(objects)
    return found


@pytest.mark.parametrize("kind", ["Approved", "Denied", "Failed"])
def test_a_condition_or_a_certificate_closes_a_request(kind: str) -> None:
    assert is_undecided(csr("a"))
    assert not is_undecided(decided(csr("a"), conditions=[CertificateSigningRequestCondition(type=kind)]))
    assert not is_undecided(decided(csr("a"), certificate=b"x"))
    assert is_undecided(decided(csr("a"), conditions=[CertificateSigningRequestCondition(type="JoinStuck")]))


def test_counting_follows_what_happens() -> None:
    found = opened(csr("a"), csr("b", user="joe"), decided(csr("c"), certificate=b"x"))
    assert (found.count("jane"), found.count("joe"), found.count("nobody")) == (1, 1, 0)
    found.changed("d", csr("d"))
    found.changed("d", csr("d"))
    assert found.count("jane") == 2
    found.changed("a", decided(csr("a"), certificate=b"x"))
    found.changed("d", None)
    found.changed("never seen", None)
    assert found.count("jane") == 0


def test_the_same_key_is_the_same_public_key_signer_and_requester() -> None:
    found = opened(csr("a"), csr("b"))
    assert found.same_key(csr("new"), "jane") == "a"
    assert found.same_key(csr("new", request=REQUEST + b"\n"), "jane") == "a"
    assert found.same_key(csr("new", request=OTHER), "jane") == ""
    assert found.same_key(csr("new", signer="example.com/x"), "jane") == ""
    assert found.same_key(csr("new"), "joe") == ""
    found.changed("a", None)
    assert found.same_key(csr("new"), "jane") == "b"


def test_requests_that_cannot_be_read_are_told_apart_by_their_bytes() -> None:
    found = opened(csr("a", request=b"one"))
    assert found.same_key(csr("new", request=b"one"), "jane") == "a"
    assert found.same_key(csr("new", request=b"two"), "jane") == ""


def admit(user: UserInfo, found: OpenRequests, new: CertificateSigningRequest | None = None) -> list[str]:
    resource = catalog.CERTIFICATE_SIGNING_REQUESTS
    new = new or csr("new", request=OTHER)
    request = Request(user, Operation.CREATE, resource.group_resource, resource.gvk, "", "", "new", new, None)
    asyncio.run(CertificateRequestBudget(found, node=2, default=3).validate(request))
    return request.warnings


@pytest.mark.parametrize(("groups", "budget"), [(("system:nodes",), 2), ((), 3), (("system:masters",), 100)])
def test_budgets(groups: tuple[str, ...], budget: int) -> None:
    user, found = UserInfo("jane", groups=groups), OpenRequests()
    for number in range(min(budget, 5)):
        assert admit(user, found) == []
        found.changed(str(number), csr(str(number)))
    if budget == 100:
        return
    with pytest.raises(APIStatusError) as caught:
        admit(user, found)
    assert caught.value.code == 429
    assert admit(UserInfo("joe", groups=groups), found) == []


def test_a_pending_request_for_the_same_key_is_named() -> None:
    [warning] = admit(UserInfo("jane"), opened(csr("a", request=OTHER)))
    assert "'a'" in warning


def test_a_machine_that_joins_hears_of_another_with_its_name() -> None:
    """Of which request, and for how long: see ``test_joined_names``."""
    token, node = "system:bootstrap:abcdef", Subject(common_name="system:node:a", organizations=("system:nodes",))
    first, second = (build_request(keys.generate(KeyAlgorithm.ECDSA_P256), node) for _ in range(2))
    kubelet = "kubernetes.io/kube-apiserver-client-kubelet"
    found = opened(decided(csr("a", token, first, kubelet), certificate=b"x"))
    [warning] = admit(UserInfo(token), found, csr("new", token, second, kubelet))
    assert warning.startswith("another machine, with another key, has joined under this node name") and "'a'" in warning
    assert admit(UserInfo(token), found, csr("new", token, first, kubelet)) == []
    found.load([])
    assert admit(UserInfo(token), found, csr("new", token, second, kubelet)) == []


def test_only_creations_of_requests_count() -> None:
    plugin, csrs = CertificateRequestBudget(OpenRequests()), catalog.CERTIFICATE_SIGNING_REQUESTS.group_resource
    assert plugin.handles(Operation.CREATE, csrs, "")
    assert not plugin.handles(Operation.UPDATE, csrs, "")
    assert not plugin.handles(Operation.UPDATE, csrs, "approval")
    assert not plugin.handles(Operation.CREATE, GroupResource("", "secrets"), "")


def from_token(name: str, source: str, *conditions: str, token: str = "abcdef") -> CertificateSigningRequest:
    obj = decided(
        csr(name, user=f"system:bootstrap:{token}"),
        conditions=[CertificateSigningRequestCondition(type=each) for each in conditions],
    )
    metadata = ObjectMeta(name=name, annotations={SOURCE_ADDRESS_ANNOTATION: source})
    return msgspec.structs.replace(obj, metadata=metadata)


def denied_once_more(found: OpenRequests, source: str, token: str = "abcdef") -> None:
    new = from_token("new", source, token=token)
    user = UserInfo(name=new.spec.username, groups=("system:bootstrappers",))
    resource = catalog.CERTIFICATE_SIGNING_REQUESTS
    request = Request(user, Operation.CREATE, resource.group_resource, resource.gvk, "", "", "new", new, None)
    asyncio.run(CertificateRequestBudget(found, refused=3, refused_source=2).validate(request))


def test_a_token_that_is_denied_again_and_again_fills_no_store() -> None:
    found = opened(from_token("a", "192.0.2.1", "Denied"), from_token("b", "192.0.2.1", "Approved", "Failed"))
    with pytest.raises(APIStatusError, match=r"has 2 .* from 192.0.2.1 that were denied or have failed") as caught:
        denied_once_more(found, "192.0.2.1")
    assert caught.value.code == 429
    # Whoever came with another token, or from another address, is not the one.
    denied_once_more(found, "192.0.2.1", token="other1")
    denied_once_more(found, "192.0.2.2")

    found.changed("c", from_token("c", "192.0.2.9", "Denied"))
    with pytest.raises(APIStatusError, match="system:bootstrap:abcdef has 3 certificate"):
        denied_once_more(found, "192.0.2.2")
    found.changed("c", None)
    found.changed("a", None)
    denied_once_more(found, "192.0.2.1")


def test_what_was_issued_or_came_from_a_person_is_no_refusal() -> None:
    found = opened(*(from_token(f"i{n}", "192.0.2.1", "Approved") for n in range(4)))
    found.changed("p", decided(csr("p"), conditions=[CertificateSigningRequestCondition(type="Denied")]))
    denied_once_more(found, "192.0.2.1")
