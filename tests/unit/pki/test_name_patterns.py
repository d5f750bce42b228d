"""pki/name_patterns.py: what a pattern permits, and what it must not."""

from __future__ import annotations

import pytest

from kubevouch.pki.name_patterns import MAX_PATTERN, Kind, PatternError, Patterns


@pytest.mark.parametrize(
    ("pattern", "permitted", "refused"),
    [
        ("*.example.com", ["a.example.com", "A.Example.COM"],
         ["example.com", ".example.com", "evilexample.com", "a.b.example.com", "a.example.com.evil", "a.example.comx",
          "*.example.com", "a.example.com\n", "a\n.example.com.", "a/example.com"]),
        ("**.example.com", ["a.example.com", "a.b.example.com"],
         ["example.com", "evilexample.com", "*.a.example.com", "a.example.com."]),
        ("web-*.example.com", ["web-1.example.com"], ["web-.example.com", "web-1.2.example.com", "xweb-1.example.com"]),
        ("example.com", ["EXAMPLE.com"], ["a.example.com", "examplexcom", "example.com "]),
        ("*", ["a", "web-7"], ["a.b", "", "*"]),
        ("**", ["a", "a.b", "a/b"], ["", "*", "*.a"]),
    ],
)  # fmt: skip
def test_dns_names(pattern: str, permitted: list[str], refused: list[str]) -> None:
    patterns = Patterns([pattern], Kind.DNS)
    assert [name for name in permitted if not patterns.permit(name)] == []
    assert [name for name in refused if patterns.permit(name)] == []


def test_names_with_a_wildcard_only_where_they_are_wanted() -> None:
    patterns = Patterns(["*.example.com", "x.example.net"], Kind.DNS, wildcards=True)
    assert patterns.permit("*.example.com") and patterns.permit("a.example.com")
    assert not patterns.permit("*.example.net") and not patterns.permit("*.a.example.com")


def test_only_the_domain_of_an_address_is_without_case() -> None:
    patterns = Patterns(["Jane@example.com", "*@example.org"], Kind.EMAIL)
    assert patterns.permit("Jane@EXAMPLE.com") and patterns.permit("anybody@Example.org")
    assert not patterns.permit("jane@example.com") and not patterns.permit("a@b@example.org")


def test_uris_part_by_part() -> None:
    patterns = Patterns(["spiffe://example.com/ns/*/sa/*", "urn:team:**"])
    assert patterns.permit("spiffe://example.com/ns/web/sa/api") and patterns.permit("urn:team:a:b")
    assert not patterns.permit("spiffe://example.com/ns/web/x/sa/api")
    assert not patterns.permit("spiffe://example.com/ns/web/sa/api/more")
    assert not patterns.permit("spiffe://example.com.evil/ns/web/sa/api") and not patterns.permit("URN:team:a")


def test_no_pattern_permits_nothing_and_any_of_several_is_enough() -> None:
    assert not Patterns([]).permit("") and not Patterns([])
    assert Patterns(["a", "b"]).permit("b")


@pytest.mark.parametrize("pattern", ["", "*a", "a**b", "**a", "***", "a.**.b", "x" * (MAX_PATTERN + 1)])
def test_patterns_that_would_surprise_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Patterns([pattern])


def test_a_match_is_one_walk_over_the_name() -> None:
    """With a backtracking star this would take until the end of days."""
    assert not Patterns(["*.*.*.*.*.*.*.*.*.*.*.*.x"]).permit("a." * 4000 + "y")
    assert not Patterns(["**" + ".*" * 100 + ".x"]).permit("a." * 150 + "y")
