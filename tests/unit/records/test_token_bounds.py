from __future__ import annotations

import pytest

from kubevouch.machinery.meta import replace_metadata
from kubevouch.records import bootstrap_tokens, token_bounds
from kubevouch.records.bootstrap_tokens import BootstrapToken, TokenSettingsError, parse_token
from kubevouch.records.token_bounds import Bounds, TokenBoundError, TokenBoundsError, covers

KEY = f"sha256:{'ab' * 32}"
OTHER = f"sha256:{'cd' * 32}"
ALL = token_bounds.parse(
    uses=3, node_names=["worker-*", "DB-1"], source_ranges=["192.0.2.0/24", "2001:db8::/32"], public_keys=[KEY.upper()]
)


def test_what_a_person_writes_is_kept_in_one_form() -> None:
    assert (ALL.uses, ALL.node_names, ALL.public_keys) == (3, ("worker-*", "db-1"), (KEY,))
    assert ALL.told() == ["3 uses", "node name worker-* or db-1", "from 192.0.2.0/24 or 2001:db8::/32", f"key {KEY}"]
    assert not token_bounds.NONE and token_bounds.NONE.told() == []
    assert token_bounds.parse(uses=1).told() == ["1 use"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"uses": 0}, "got 0 uses, expected 1 to 500"),
        ({"uses": -1}, "got -1 uses"),
        ({"uses": 501}, "got 501 uses"),
        ({"node_names": [""]}, "expected a DNS name"),
        ({"node_names": ["a b"]}, "expected a DNS name"),
        ({"node_names": ["a,b"]}, "expected a DNS name"),
        ({"source_ranges": ["192.0.2.1/24"]}, "has host bits set"),
        ({"source_ranges": ["everywhere"]}, "expected one such as 192.0.2.0/24"),
        ({"public_keys": ["md5:00"]}, "unknown hash format"),
        ({"public_keys": ["sha256:00"]}, "expected a 32 byte SHA-256 hash"),
    ],
)
def test_bounds_that_no_token_may_have(settings: dict[str, object], text: str) -> None:
    with pytest.raises(TokenBoundsError, match=text.replace("(", r"\(")):
        token_bounds.parse(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("worker-1", "worker-1", True),
        ("worker-1", "worker-11", False),
        ("worker-*", "worker-", False),
        ("worker-*", "worker-1\n", False),
        ("worker-*", "worker-1/../admin", False),
        ("*", "", False),
        ("*", "a\0", False),
        ("worker-*", "worker-7.example.com", True),
        ("worker-*", "my-worker-7", False),
        ("*", "anything", True),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", ".example.com.evil", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "abc", True),
        ("a*b*c", "acb", False),
        ("ab*ba", "aba", False),
        ("a*a", "a", False),
        ("db-[12]", "db-1", False),
        ("db-?", "db-1", False),
    ],
)
def test_node_names(pattern: str, name: str, fits: bool) -> None:
    bounds = Bounds(node_names=(pattern,))
    if fits:
        bounds.verify_request(name, KEY)
    else:
        with pytest.raises(TokenBoundError, match="not for "):
            bounds.verify_request(name, KEY)


def test_many_wild_cards_take_no_time() -> None:
    with pytest.raises(TokenBoundError):
        Bounds(node_names=("*a" * 100 + "*b",)).verify_request("a" * 253, KEY)


def test_keys() -> None:
    Bounds(public_keys=(OTHER, KEY)).verify_request("n1", KEY)
    with pytest.raises(TokenBoundError, match=f"is for the key {OTHER}, got one with {KEY}"):
        Bounds(public_keys=(OTHER,)).verify_request("n1", KEY)


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("192.0.2.7", True),
        ("192.0.3.7", False),
        ("::ffff:192.0.2.7", True),
        ("2001:db8::1", True),
        ("2001:db8::1%eth0", True),
        ("2001:db9::1", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_addresses(address: str, inside: bool) -> None:
    assert covers(ALL.source_ranges, address) is inside


def test_annotations_there_and_back() -> None:
    assert token_bounds.from_annotations(token_bounds.to_annotations(ALL)) == ALL
    assert token_bounds.to_annotations(token_bounds.NONE) == {}
    assert token_bounds.from_annotations({"example.com/x": "y"}) is token_bounds.NONE


@pytest.mark.parametrize("key", token_bounds.ANNOTATIONS)
@pytest.mark.parametrize("value", ["", ",", "0", "-1", "1 ", "x" * 300, "é", "501", "999"])
def test_a_bound_that_cannot_be_read_does_not_become_none(key: str, value: str) -> None:
    if key == token_bounds.NODE_NAMES_ANNOTATION and value in ("0", "501", "999", "1 "):
        assert token_bounds.from_annotations({key: value}).node_names == (value.strip(),)
        return
    with pytest.raises(TokenBoundsError):
        token_bounds.from_annotations({key: value})


def test_the_secret_of_a_bounded_token_is_kubernetes_but_for_annotations() -> None:
    token = parse_token("abc123.0123456789abcdef")
    plain = bootstrap_tokens.to_secret(BootstrapToken(token, usages=("authentication",)))
    bounded = bootstrap_tokens.to_secret(BootstrapToken(token, usages=("authentication",), bounds=ALL))
    assert replace_metadata(bounded, annotations={}) == plain
    assert bootstrap_tokens.from_secret(bounded).bounds == ALL
    broken = replace_metadata(bounded, annotations={token_bounds.USES_ANNOTATION: "many"})
    with pytest.raises(TokenSettingsError, match='got "many"'):
        bootstrap_tokens.from_secret(broken)
