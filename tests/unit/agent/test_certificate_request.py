from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.agent.certificate_request import (
    MAX_ISSUED_BYTES,
    node_client,
    node_serving,
    own_request,
    request_names,
    verify_issued,
)
from kubevouch.agent.interface import AgentError, WrongCertificateError
from kubevouch.pki import authority, keys
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
OTHER_CA = authority.create_authority("ca", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
TEMPLATE = node_client("worker-1")
ANCHORS = TrustAnchors([CA.certificate])


def _issued(
    name: str = "system:node:worker-1",
    groups: tuple[str, ...] = ("system:nodes",),
    purpose: str = "client auth",
    ca: authority.CertificateAuthority = CA,
    key: PrivateKey = KEY,
) -> bytes:
    spec = authority.LeafSpec(common_name=name, organizations=groups, purposes=(purpose,))
    return authority.issue_leaf(ca, spec, key, now=NOW).pem()


def test_what_was_asked_for_is_taken() -> None:
    assert verify_issued(_issued(), KEY, TEMPLATE, ANCHORS, now=NOW)[0].subject.common_name == "system:node:worker-1"


@pytest.mark.parametrize(
    ("step", "text", "now", "why"),
    [
        (1, b"", NOW, "cannot be read"),
        (1, keys.to_pem(KEY), NOW, "cannot be read"),
        (1, _issued() + b"#" * MAX_ISSUED_BYTES, NOW, "at most 262144 are taken"),
        (2, _issued(key=keys.generate(KeyAlgorithm.ECDSA_P256)), NOW, "is for another key"),
        (3, _issued("system:node:worker-2"), NOW, "is for 'system:node:worker-2'"),
        (3, _issued(groups=("system:nodes", "system:masters")), NOW, "system:masters"),
        (4, _issued(ca=OTHER_CA), NOW, "does not come from the cluster's CA"),
        (3, _issued(purpose="server auth"), NOW, "other purposes"),
        (4, _issued(), NOW - dt.timedelta(days=1), "it is 2031-02-28T12:00:00Z here"),
        (4, _issued(), NOW + dt.timedelta(days=400), "it is 2032-04-04T12:00:00Z here"),
    ],
)
def test_what_was_not_asked_for_is_refused(step: int, text: bytes, now: dt.datetime, why: str) -> None:
    with pytest.raises(WrongCertificateError) as refusal:
        verify_issued(text, KEY, TEMPLATE, ANCHORS, now=now)
    assert refusal.value.spent is (step < 4)
    assert why in str(refusal.value)
    assert isinstance(refusal.value, AgentError)


def test_names_follow_from_the_key_and_others_cannot_be_guessed() -> None:
    own = own_request(KEY, TEMPLATE, ())
    names = request_names(KEY, own)
    assert names == request_names(KEY, own)
    assert len(set(names)) == len(names) > 1
    assert all(name.startswith("node-csr-") for name in names)


def test_alternative_names_are_part_of_the_name() -> None:
    serving = node_serving("worker-1", SubjectAltNames(dns_names=("worker-1",)))
    other = node_serving("worker-1", SubjectAltNames(dns_names=("worker-2",)))
    names = [set(request_names(KEY, own_request(KEY, each, ()), each.alt_names)) for each in (serving, other)]
    assert not names[0] & names[1]


def test_a_serving_certificate_has_all_names_that_were_asked_for() -> None:
    wanted = node_serving("worker-1", SubjectAltNames(dns_names=("worker-1",)))
    spec = authority.LeafSpec(
        common_name="system:node:worker-1",
        organizations=("system:nodes",),
        purposes=("server auth",),
        alt_names=SubjectAltNames(dns_names=("worker-1",)),
    )
    assert verify_issued(authority.issue_leaf(CA, spec, KEY, now=NOW).pem(), KEY, wanted, ANCHORS, now=NOW)
    with pytest.raises(WrongCertificateError, match="'worker-1' is missing"):
        verify_issued(_issued(purpose="server auth"), KEY, wanted, ANCHORS, now=NOW)
