from __future__ import annotations

import pytest

from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes
from kubevouch.authorization.messages import forbidden

BOB = UserInfo("bob")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            Attributes(BOB, "list", "", "v1", "secrets", namespace="default"),
            (
                'secrets is forbidden: User "bob" cannot list resource "secrets" in API group "" '
                'in the namespace "default"'
            ),
        ),
        (
            Attributes(BOB, "get", "", "v1", "nodes", name="n"),
            'nodes "n" is forbidden: User "bob" cannot get resource "nodes" in API group "" at the cluster scope',
        ),
        (
            Attributes(BOB, "update", "certificates.k8s.io", "v1", "certificatesigningrequests", "approval", name="n"),
            (
                'certificatesigningrequests.certificates.k8s.io "n" is forbidden: User "bob" cannot update resource '
                '"certificatesigningrequests/approval" in API group "certificates.k8s.io" at the cluster scope'
            ),
        ),
        (Attributes(BOB, "get", path="/metrics"), 'forbidden: User "bob" cannot get path "/metrics"'),
        (
            Attributes(UserInfo("<b>&\"'"), "get", path="/<x>"),
            'forbidden: User "&lt;b&gt;&amp;\\"\'" cannot get path "/&lt;x&gt;"',
        ),
        (Attributes(UserInfo(""), "get", path="/x"), 'forbidden: User "" cannot get path "/x"'),
    ],
)
def test_who_cannot_do_what(attributes: Attributes, message: str) -> None:
    status = forbidden(attributes).status
    assert (status.code, status.reason, status.message) == (403, "Forbidden", message)


def test_details_name_the_resource_without_its_subresource() -> None:
    details = forbidden(Attributes(BOB, "get", "apps", "v1", "deployments", "scale", "default", "web")).status.details
    assert details is not None
    assert (details.name, details.group, details.kind) == ("web", "apps", "deployments")


def test_details_of_a_path_are_empty() -> None:
    details = forbidden(Attributes(BOB, "get", path="/x")).status.details
    assert details is not None
    assert (details.name, details.group, details.kind) == ("", "", "")


def test_reasons_follow_unescaped() -> None:
    message = forbidden(Attributes(BOB, "get", path="/x"), "first <reason>\nsecond").status.message
    assert message == 'forbidden: User "bob" cannot get path "/x": first <reason>\nsecond'
