"""machinery/text/names.py and generate_name.py: boundaries, and Kubernetes' exact words."""

from __future__ import annotations

import pytest

from kubevouch.machinery.text import generate_name, names
from kubevouch.machinery.text.names import NameRule

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
DNS_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
LONG_LABEL = "must be no more than 63 characters"
LONG_NAME = "must be no more than 253 characters"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("a", []),
        ("1", []),
        ("a-b", []),
        ("a" * 63, []),
        ("a" * 64, [LONG_LABEL]),
        ("", [LABEL]),
        ("-a", [LABEL]),
        ("a-", [LABEL]),
        ("A", [LABEL]),
        ("a_b", [LABEL]),
        ("a\n", [LABEL]),
        ("ä", [LABEL]),
        ("٣", [LABEL]),
        ("a.b", ["must not contain dots"]),
        ("a..b", [LABEL]),
        ("A" * 64, [LONG_LABEL, LABEL]),
        ("ä" * 32, [LONG_LABEL, LABEL]),
    ],
)
def test_dns_label(text: str, messages: list[str]) -> None:
    assert names.dns_label(text) == messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("a", []),
        ("a.b-c.1", []),
        ("a" * 253, []),
        ("a" * 254, [LONG_NAME]),
        ("", [SUBDOMAIN]),
        (".a", [SUBDOMAIN]),
        ("a.", [SUBDOMAIN]),
        ("a..b", [SUBDOMAIN]),
        ("a.-b", [SUBDOMAIN]),
        ("a/b", [SUBDOMAIN]),
        ("a\n", [SUBDOMAIN]),
    ],
)
def test_subdomain(text: str, messages: list[str]) -> None:
    assert names.subdomain(text) == messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [("a1", []), ("1a", [DNS_1035]), ("a" * 64, [LONG_LABEL]), ("", [DNS_1035]), ("a.b", [DNS_1035])],
)
def test_dns_1035_label(text: str, messages: list[str]) -> None:
    assert names.dns_1035_label(text) == messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("a", []),
        ("A_b.c-9", []),
        ("example.com/Key", []),
        ("a" * 63, []),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("", ["name part must be non-empty", f"name part {KEY}"]),
        ("a/", ["name part must be non-empty", f"name part {KEY}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A/a", [f"prefix part {SUBDOMAIN}"]),
        ("_a", [f"name part {KEY}"]),
        ("a\n", [f"name part {KEY}"]),
        (
            "a/b/c",
            [f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
    ],
)
def test_qualified_name(text: str, messages: list[str]) -> None:
    assert names.qualified_name(text) == messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", []), ("a", []), ("A.b_c-1", []), ("a" * 63, []), ("a" * 64, ["must be no more than 63 bytes"]),
        ("-", [VALUE]), ("a b", [VALUE]), ("a\n", [VALUE]),
    ],
)  # fmt: skip
def test_label_value(text: str, messages: list[str]) -> None:
    assert names.label_value(text) == messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("a", []), (".a", []), ("-", []), ("A_b", []), ("a" * 253, []), ("a" * 254, [LONG_NAME]),
        ("", [CONFIG_KEY]), ("a/b", [CONFIG_KEY]), ("a\n", [CONFIG_KEY]), (".", ["must not be '.'"]),
        ("..", ["must not be '..'"]), ("..a", ["must not start with '..'"]),
    ],
)  # fmt: skip
def test_config_map_key(text: str, messages: list[str]) -> None:
    assert names.config_map_key(text) == messages


@pytest.mark.parametrize(
    ("rule", "accepted", "refused"),
    [
        (names.dns_label_name, "prefix-", "prefix.x-"),
        (names.subdomain_name, "a.prefix-", "a..x-"),
        (names.dns_1035_name, "prefix-", "1x-"),
    ],
)
def test_a_prefix_may_end_in_a_dash(rule: NameRule, accepted: str, refused: str) -> None:
    assert rule(accepted, True) == []
    assert rule(accepted, False) != []
    assert rule(refused, True) != []
    assert rule("-", True) != []


@pytest.mark.parametrize(
    ("text", "prefix", "messages"),
    [
        ("Any:thing at all", False, []),
        (".", False, ["may not be '.'"]),
        ("..", False, ["may not be '..'"]),
        (".", True, []),
        ("a/b", False, ["may not contain '/'"]),
        ("a%b/", True, ["may not contain '/'", "may not contain '%'"]),
        ("...", False, []),
    ],
)
def test_path_segment_name(text: str, prefix: bool, messages: list[str]) -> None:
    assert names.path_segment_name(text, prefix) == messages


# ------------------------------------------------------------------ generated names


@pytest.mark.parametrize(
    ("prefix", "kept"), [("a-", "a-"), ("", ""), ("x" * 58, "x" * 58), ("x" * 59, "x" * 58), ("ä" * 30, "ä" * 29)]
)
def test_a_generated_name_fits_a_label(prefix: str, kept: str) -> None:
    made = generate_name.generate_name(prefix, choose=lambda alphabet: alphabet[0])
    assert made == f"{kept}bbbbb"
    assert len(made.encode()) <= 63


def test_letters_are_drawn_one_by_one_from_an_alphabet_without_vowels() -> None:
    drawn = iter("xyz24")
    given: list[str] = []

    def choose(alphabet: str) -> str:
        given.append(alphabet)
        return next(drawn)

    assert generate_name.generate_name("a", choose) == "axyz24"
    assert set(given) == {"bcdfghjklmnpqrstvwxz2456789"}
    assert len({generate_name.generate_name("") for _ in range(20)}) > 1
