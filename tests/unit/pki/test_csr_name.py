"""A CSR found under one's own name is one's own only with one's own key; names can be guessed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kubevouch.pki import csr_name, keys
from kubevouch.pki.csr_name import FoundRequest, OwnRequest
from kubevouch.pki.errors import IncompatibleRequestError, NameSquattedError
from kubevouch.pki.x509 import pem, request_builder
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_certificate import Certificate

SIGNER, USER = "kubernetes.io/kube-apiserver-client-kubelet", "system:bootstrap:abcdef"
USAGES = ("digital signature", "client auth")


@pytest.fixture
def own(ec_key: PrivateKey, node: Subject) -> OwnRequest:
    return OwnRequest(
        subject=node, public_key=keys.public_key_of(ec_key), signer_name=SIGNER, usages=USAGES, usernames=(USER,)
    )


@pytest.fixture
def found(ec_key: PrivateKey, node: Subject) -> FoundRequest:
    request = request_builder.build_request(ec_key, node)
    return FoundRequest(request=request, signer_name=SIGNER, usages=USAGES[::-1], username=USER)


def test_ones_own_is_taken(own: OwnRequest, found: FoundRequest, now: dt.datetime) -> None:
    request = csr_name.verify_found(found, own, now=now)
    assert request.public_key.canonical_info == own.public_key.canonical_info
    anybody = msgspec.structs.replace(own, usernames=())
    csr_name.verify_found(msgspec.structs.replace(found, username="somebody", signer_name=""), anybody, now=now)


def test_for_another_key_it_is_somebody_elses(
    own: OwnRequest, found: FoundRequest, other_key: PrivateKey, node: Subject, now: dt.datetime
) -> None:
    squatted = msgspec.structs.replace(found, request=request_builder.build_request(other_key, node))
    with pytest.raises(NameSquattedError, match="it is for another key"):
        csr_name.verify_found(squatted, own, now=now)


def test_with_a_signature_of_another_key_it_is_refused(own: OwnRequest, found: FoundRequest, now: dt.datetime) -> None:
    block = pem.first_block(found.request)
    assert block is not None
    forged = pem.encode(pem.CERTIFICATE_REQUEST, block.contents[:-1] + bytes([block.contents[-1] ^ 1]))
    with pytest.raises(IncompatibleRequestError, match="error validating signature new CSR against old key"):
        csr_name.verify_found(msgspec.structs.replace(found, request=forged), own, now=now)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"request": b"no request"}, "unable to parse original csr: "),
        ({"signer_name": "kubernetes.io/kubelet-serving"}, f'csr signerNames differ: new "{SIGNER}", orig: "kuberne'),
        ({"usages": ("client auth",)}, "csr usages differ: new "),
        ({"username": "system:bootstrap:123456"}, 'csr was posted by "system:bootstrap:123456"'),
        ({"certificate": b"no certificate"}, "error parsing signed certificate for CSR: "),
    ],
)
def test_what_differs_is_refused(
    changed: dict[str, Any], why: str, own: OwnRequest, found: FoundRequest, now: dt.datetime
) -> None:
    with pytest.raises(IncompatibleRequestError) as caught:
        csr_name.verify_found(msgspec.structs.replace(found, **changed), own, now=now)
    assert str(caught.value).startswith(f"retrieved csr is not compatible: {why}")


def test_another_subject_is_refused(own: OwnRequest, found: FoundRequest, now: dt.datetime) -> None:
    for subject in (Subject(common_name=own.subject.common_name), Subject(organizations=own.subject.organizations)):
        with pytest.raises(IncompatibleRequestError, match="csr subjects differ"):
            csr_name.verify_found(found, msgspec.structs.replace(own, subject=subject), now=now)


def test_a_certificate_counts_to_its_last_second(
    own: OwnRequest, found: FoundRequest, now: dt.datetime, make_certificate: Callable[..., Certificate]
) -> None:
    issued = msgspec.structs.replace(found, certificate=make_certificate(not_after=now).pem())
    csr_name.verify_found(issued, own, now=now)
    with pytest.raises(IncompatibleRequestError, match="one of the certificates for the CSR has expired"):
        csr_name.verify_found(issued, own, now=now + dt.timedelta(seconds=1))


def test_names_depend_on_everything_that_is_asked_for(own: OwnRequest, other_key: PrivateKey) -> None:
    mine, theirs = own.public_key.canonical_info, keys.public_key_of(other_key).canonical_info
    name = csr_name.digested_name(mine, own.subject, USAGES)
    assert name.startswith("node-csr-") and len(name) == len("node-csr-") + 43
    others = {
        csr_name.digested_name(theirs, own.subject, USAGES),
        csr_name.digested_name(mine, Subject(common_name="system:node:b", organizations=("system:nodes",)), USAGES),
        csr_name.digested_name(mine, Subject(common_name=own.subject.common_name), USAGES),
        csr_name.digested_name(mine, own.subject, USAGES[::-1]),
        csr_name.other_name(mine, b"salt"),
        csr_name.other_name(mine, b"pepper"),
    }
    assert len(others) == 6 and name not in others
