"""cel/library/formats.py"""

from __future__ import annotations

import pytest

from cel_cases import value_of


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("dns1123Label", "my-label", "My_label"),
        ("dns1123Subdomain", "apiextensions.k8s.io", "a..b"),
        ("dns1035Label", "my-label", "1abc"),
        ("qualifiedName", "apiextensions.k8s.io/v1beta1", "a/b/c"),
        ("dns1123LabelPrefix", "my-label-", "-a"),
        ("dns1123SubdomainPrefix", "mysubdomain.prefix-", "-a"),
        ("dns1035LabelPrefix", "my-label-", "1a-"),
        ("labelValue", "a_b", "a b"),
        ("uri", "http://example.com", "../x"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("byte", "aGVsbG8=", "hello!"),
        ("date", "2021-01-01", "2021-02-30"),
        ("datetime", "2021-01-01T00:00:00Z", "2021-01-01"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert value_of(f"format.{name}().validate('{good}').hasValue()") is False
    assert value_of(f"format.named('{name}').value().validate('{bad}').hasValue()") is True
    errors = value_of(f"format.{name}().validate('{bad}').value()")
    assert isinstance(errors, list) and all(isinstance(text, str) for text in errors)


def test_an_unknown_name_is_no_format() -> None:
    assert value_of("format.named('nope').hasValue()") is False
    assert value_of("format.named('dns1123Label').value().validate(o).orValue([]).size()", "a") == 0
