"""Secrets are taken out of logs."""

from typing import Any

import pytest

from kubevouch.util.redact import HIDDEN, redact, redact_text

KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"
JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("join with abcdef.0123456789abcdef now", f"join with abcdef.{HIDDEN} now"),
        ("token id abcdef", "token id abcdef"),
        ("abcdef.0123456789abcde is one short", "abcdef.0123456789abcde is one short"),
        (f"got {JWT}", f"got {HIDDEN}"),
        (f"before\n{KEY}\nafter", f"before\n{HIDDEN}\nafter"),
        (KEY[:40], HIDDEN),
        ("/x?a=1&access_token=opaque&b=2", f"/x?a=1&access_token={HIDDEN}&b=2"),
        ("-----BEGIN CERTIFICATE-----\nMIIB", "-----BEGIN CERTIFICATE-----\nMIIB"),
    ],
)
def test_texts(text: str, clean: str) -> None:
    assert redact_text(text) == clean


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("token", "anything", HIDDEN),
        ("bootstrap_token", "anything", HIDDEN),
        ("Authorization", "Basic YTpi", HIDDEN),
        ("private-key", b"bytes", HIDDEN),
        ("password", "", ""),
        ("token_id", "abcdef", "abcdef"),
        ("secretary", "jane", "jane"),
        ("err", "bad token abcdef.0123456789abcdef", f"bad token abcdef.{HIDDEN}"),
        ("count", 3, 3),
    ],
)
def test_fields(key: str, value: Any, shown: Any) -> None:
    assert redact(key, value) == shown
