"""Who is denied when all that is known is a fingerprint and a name."""

from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.api.authorization_v1 import SubjectAccessReviewSpec
from kubevouch.revocation.deny import fingerprints, why
from unit.revocation.test_revocations import NOW, SECOND, holding, revocation

KEY = "authentication.kubernetes.io/credential-id"
ONE, OTHER = "a" * 64, "b" * 64


def asked(*credentials: str, user: str = "system:node:a") -> SubjectAccessReviewSpec:
    return SubjectAccessReviewSpec(user=user, extra={KEY: list(credentials)})


def never(_fingerprint: bytes) -> dt.datetime | None:
    return None


def test_a_fingerprint_that_is_revoked() -> None:
    revocations = holding(revocation(certificates=[ONE]))
    assert why(asked(f"X509SHA256={ONE}"), revocations, never).startswith("client certificate is revoked: r1 ")
    assert why(asked("JTI=7", f"X509SHA256={ONE}", user="somebody"), revocations, never)
    assert not why(asked(f"X509SHA256={OTHER}"), revocations, never)


def test_a_user_of_whose_certificate_nothing_is_known_is_denied_and_a_newer_one_is_not() -> None:
    revocations, shown = holding(revocation(nodes=["a"])), f"X509SHA256={ONE}"
    assert why(asked(shown), revocations, never)
    assert why(asked(shown), revocations, lambda _: NOW) and not why(asked(shown), revocations, lambda _: NOW + SECOND)
    assert not why(asked(shown, user="system:node:b"), revocations, never)


@pytest.mark.parametrize(
    "credentials", [(), ("JTI=1",), ("X509SHA256=",), ("X509SHA256=zz",), (ONE,), (f"x509sha256={ONE}",)]
)
def test_what_is_no_certificate_says_nothing(credentials: tuple[str, ...]) -> None:
    revocations = holding(revocation(certificates=[ONE], nodes=["a"]))
    assert fingerprints(credentials) == [] and not why(asked(*credentials), revocations, never)
