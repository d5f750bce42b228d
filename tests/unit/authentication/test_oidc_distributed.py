"""Where a claim is to be fetched."""

from typing import Any

import pytest

from kubevouch.authentication.interface import AuthenticationError
from kubevouch.authentication.oidc_distributed import ClaimEndpoint, endpoint_for

SOURCES = {"src1": {"endpoint": "https://i/groups", "access_token": "t"}, "src2": {"JWT": "a.b.c"}}


def claims(names: object, sources: object = SOURCES, **more: Any) -> dict[str, Any]:
    return {"_claim_names": names, "_claim_sources": sources, **more}


def test_the_endpoint_and_its_token() -> None:
    assert endpoint_for(claims({"groups": "src1"}), "groups") == ClaimEndpoint("https://i/groups", "t")
    bare = {"src1": {"endpoint": "https://i/groups"}}
    assert endpoint_for(claims({"groups": "src1"}, bare), "groups") == ClaimEndpoint("https://i/groups")


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"_claim_sources": SOURCES},
        claims({"groups": "src1"}, groups=["own"]),
        claims({"groups": "src1"}, groups=None),
        claims({"roles": "src1"}),
        claims({"groups": "src2"}),  # an aggregated claim
        claims({}),
    ],
)
def test_there_is_nothing_to_fetch(found: dict[str, Any]) -> None:
    assert endpoint_for(found, "groups") is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (claims("src1"), "oidc: error parsing distributed claim names: "),
        (claims({"groups": 1}), "oidc: error parsing distributed claim names: "),
        ({"_claim_names": {"groups": "src1"}}, "oidc: no claim sources"),
        (claims({"groups": "src1"}, []), "oidc: could not parse claim sources: "),
        (claims({"groups": "src1"}, {"src1": {"endpoint": 5}}), "oidc: could not parse claim sources: "),
        (claims({"groups": "src9"}), "id token _claim_names contained a source src9 missing in _claims_sources"),
    ],
)
def test_what_makes_no_sense(found: dict[str, Any], text: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        endpoint_for(found, "groups")
    assert str(caught.value).startswith(f"oidc: could not expand distributed claims: {text}")
