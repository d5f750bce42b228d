"""The texts and their order are played from the case files; these are the edges between the cases."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Callable
from typing import Any

import pytest

from kubevouch.pki import policy
from kubevouch.pki.errors import AuthorityError, AuthorityExpiredError, PolicyError
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.wellknown import (
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBE_APISERVER_CLIENT_SIGNER,
    KUBELET_SERVING_SIGNER,
    LEGACY_UNKNOWN_SIGNER,
)

CLIENT = KUBE_APISERVER_CLIENT_KUBELET_SIGNER
SERVING = KUBELET_SERVING_SIGNER
DS_CLIENT = ["digital signature", "client auth"]
DS_SERVER = ["digital signature", "server auth"]
Make = Callable[..., CertificateRequest]

HOUR = dt.timedelta(hours=1)


def refusal(signer: str, request: CertificateRequest, usages: list[str]) -> str:
    with pytest.raises(PolicyError) as raised:
        policy.verify_shape(signer, request, usages)
    return str(raised.value)


def test_the_two_kubelet_signers(make_request: Make) -> None:
    policy.verify_shape(CLIENT, make_request(), DS_CLIENT)
    policy.verify_shape(CLIENT, make_request(), [*DS_CLIENT, "client auth", "key encipherment"])
    policy.verify_shape(SERVING, make_request(dns_names=("d",)), DS_SERVER)


def test_order_of_the_serving_rules(make_request: Make) -> None:
    bad = Subject(common_name="x", organizations=("system:nodes",))
    everything: dict[str, Any] = {"dns_names": ("d",), "email_addresses": ("a@b",), "uris": ("urn:x",)}
    assert refusal(SERVING, make_request(Subject()), []) == "subject organization is not system:nodes"
    assert refusal(SERVING, make_request(bad), []) == "DNS or IP subjectAltName is required"
    assert refusal(SERVING, make_request(bad, **everything), []) == "Email subjectAltNames are not allowed"
    everything.pop("email_addresses")
    assert refusal(SERVING, make_request(bad, **everything), []) == "URI subjectAltNames are not allowed"
    everything.pop("uris")
    expected = "usages did not match [digital signature key encipherment server auth]"
    assert refusal(SERVING, make_request(bad, **everything), []) == expected
    expected = "subject common name does not begin with system:node:"
    assert refusal(SERVING, make_request(bad, **everything), DS_SERVER) == expected


def test_order_of_the_client_rules(make_request: Make) -> None:
    bad = Subject(common_name="x", organizations=("system:nodes",))
    names: dict[str, Any] = {
        "dns_names": ("d",),
        "email_addresses": ("a@b",),
        "ip_addresses": (ipaddress.ip_address("::1"),),
        "uris": ("urn:x",),
    }
    assert refusal(CLIENT, make_request(Subject(), **names), []) == "subject organization is not system:nodes"
    for kind, word in (("dns_names", "DNS"), ("email_addresses", "Email"), ("ip_addresses", "IP"), ("uris", "URI")):
        assert refusal(CLIENT, make_request(bad, **names), []) == f"{word} subjectAltNames are not allowed"
        names.pop(kind)
    assert refusal(CLIENT, make_request(bad), []) == "subject common name does not begin with system:node:"
    good = Subject(common_name="system:node:", organizations=("system:nodes",))
    expected = "usages did not match [client auth digital signature key encipherment]"
    assert refusal(CLIENT, make_request(good), ["signing", "client auth"]) == expected
    assert refusal(CLIENT, make_request(good), DS_CLIENT) == '"" is not a node name'


def test_the_client_signer_looks_at_usages_only(make_request: Make) -> None:
    signer = KUBE_APISERVER_CLIENT_SIGNER
    masters = make_request(Subject(organizations=("system:masters",)), dns_names=("d",))
    policy.verify_shape(signer, masters, ["client auth"])
    assert refusal(signer, masters, ["client auth", "any", "cert sign"]) == "invalid usage for client certificate: any"
    expected = "missing required usage for client certificate: client auth"
    assert refusal(signer, masters, ["digital signature", "key encipherment"]) == expected
    policy.verify_shape(LEGACY_UNKNOWN_SIGNER, masters, ["cert sign"])


def test_unknown_signers(make_request: Make) -> None:
    with pytest.raises(AuthorityError, match=r'unrecognized signerName: "example\.com/x"'):
        policy.verify_shape("example.com/x", make_request(), [])


def test_default_signer_names(make_request: Make) -> None:
    assert policy.default_signer_name(make_request(), DS_CLIENT) == CLIENT
    assert policy.default_signer_name(make_request(dns_names=("d",)), DS_SERVER) == SERVING
    assert policy.default_signer_name(make_request(), []) == LEGACY_UNKNOWN_SIGNER


@pytest.mark.parametrize("signer", sorted(policy.NODE_SIGNERS))
def test_node_signers_never_issue_more_than_a_node(signer: str) -> None:
    node = Subject(common_name="system:node:n", organizations=("system:nodes",))
    policy.verify_no_escalation(signer, node)
    for subject in (
        Subject(common_name="system:node:n", organizations=("system:nodes", "system:masters")),
        Subject(common_name="system:kube-controller-manager", organizations=("system:nodes",)),
        Subject(common_name="alice", organizations=("system:nodes",)),
    ):
        with pytest.raises(PolicyError, match=signer):
            policy.verify_no_escalation(signer, subject)


@pytest.mark.parametrize("signer", policy.KUBERNETES_SIGNERS)
def test_no_signer_issues_masters(signer: str) -> None:
    for groups in (("system:masters",), ("a", "system:masters")):
        with pytest.raises(PolicyError, match="never issues the system:masters group"):
            policy.verify_no_escalation(signer, Subject(common_name="system:node:n", organizations=groups))


def test_the_signer_for_objects_of_old_issues_no_name_of_kubernetes() -> None:
    policy.verify_no_escalation(LEGACY_UNKNOWN_SIGNER, Subject(common_name="jane", organizations=("dev", "systems:x")))
    for subject in (
        Subject(common_name="system:node:n", organizations=("system:nodes",)),
        Subject(common_name="system:kube-controller-manager"),
        Subject(common_name="jane", organizations=("dev", "system:nodes")),
    ):
        with pytest.raises(PolicyError, match="issues no name that begins with system:"):
            policy.verify_no_escalation(LEGACY_UNKNOWN_SIGNER, subject)
        # Programs of the control plane have their certificates from the client signer, approved by a person.
        policy.verify_no_escalation(KUBE_APISERVER_CLIENT_SIGNER, subject)


@pytest.mark.parametrize("signer", sorted(policy.NODE_SIGNERS))
@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "a..b", "-a", "a" * 254, "a/b", "a/../b", "a\nb", "a\0", "worker-1\n"]
)
def test_node_signers_sign_for_names_that_a_node_can_have(make_request: Make, signer: str, name: str) -> None:
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    dns_names, usages = (("n",), DS_SERVER) if signer == SERVING else ((), DS_CLIENT)
    assert refusal(signer, make_request(subject, dns_names=dns_names), usages).endswith("is not a node name")
    with pytest.raises(PolicyError, match="is not a node name"):
        policy.verify_no_escalation(signer, subject)


def test_no_masters() -> None:
    masters = Subject(organizations=("a", "system:masters"))
    with pytest.raises(PolicyError) as raised:
        policy.verify_no_masters(KUBE_APISERVER_CLIENT_SIGNER, masters)
    assert str(raised.value) == (
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )
    policy.verify_no_masters("example.com/x", masters)
    policy.verify_no_masters(KUBE_APISERVER_CLIENT_SIGNER, Subject(organizations=("system:masters ",)))


@pytest.mark.parametrize(
    ("asked", "duration", "granted"),
    [
        (None, HOUR, HOUR),
        (7200, HOUR, HOUR),
        (3600, HOUR, HOUR),
        (1800, HOUR, HOUR / 2),
        (1, HOUR, HOUR / 6),
        (-9, HOUR, HOUR / 6),
    ],
)
def test_lifetime(asked: int | None, duration: dt.timedelta, granted: dt.timedelta) -> None:
    assert policy.lifetime(asked, duration) == granted


def test_the_floor_may_exceed_a_short_signing_duration() -> None:
    assert policy.lifetime(60, HOUR / 12) == HOUR / 6


def test_validity_jumps_at_eight_hours(now: dt.datetime) -> None:
    end = now + 1000 * HOUR
    under = policy.validity(now, 8 * HOUR - dt.timedelta(seconds=1), end)
    at = policy.validity(now, 8 * HOUR, end)
    assert under.not_after - under.not_before == 8 * HOUR + dt.timedelta(minutes=5, seconds=-1)
    assert at.not_after - at.not_before == 8 * HOUR


def test_validity_ends_with_the_authority(now: dt.datetime) -> None:
    end = now + dt.timedelta(seconds=1)
    assert policy.validity(now, HOUR, end) == policy.Validity(now - policy.BACKDATE, end)


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (
            dt.timedelta(),
            "refusing to sign a certificate that expired in the past: NotAfter=2031-03-01 12:00:00 +0000 UTC",
        ),
        (dt.timedelta(minutes=5), "the signer has expired: NotAfter=2031-03-01 11:55:00 +0000 UTC"),
    ],
)
def test_an_authority_that_has_ended(now: dt.datetime, ago: dt.timedelta, text: str) -> None:
    with pytest.raises(AuthorityExpiredError) as raised:
        policy.validity(now, HOUR, now - ago)
    assert str(raised.value) == text


def test_one_bad_name_anywhere_is_seen(make_request: Make) -> None:
    good = tuple(f"n{i}.blue.test" for i in range(5))
    for names in (
        SubjectAltNames(dns_names=good, uris=("urn:x",)),
        SubjectAltNames(dns_names=good, email_addresses=("a@b",)),
    ):
        request = make_request(dns_names=names.dns_names, uris=names.uris, email_addresses=names.email_addresses)
        assert "are not allowed" in refusal(SERVING, request, DS_SERVER)
