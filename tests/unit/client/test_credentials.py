"""client/credentials.py: tokens in files that change."""

from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.client.credentials import Credential, FixedCredential, TokenFile, bearer
from kubevouch.client.interface import ClientConfigurationError, CredentialsFailed
from kubevouch.testing.clock import FakeClock


@pytest.mark.parametrize("token", ["", " ", "a b", "a\nb", "a\r\nX: y", "ä", "a\x00"])
def test_a_token_that_cannot_stand_in_a_header(token: str) -> None:
    with pytest.raises(ClientConfigurationError):
        bearer(token)


@async_test
async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "token"
    path.write_text("one\n")
    source = TokenFile(path, clock)
    assert await source.current() == Credential("Bearer one")
    path.write_text("two\n")
    clock.advance(59)
    assert await source.current() == Credential("Bearer one")
    clock.advance(1)
    assert await source.current() == Credential("Bearer two")


@async_test
async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    source = TokenFile(path, FakeClock())
    first = await source.current()
    assert not await source.refused(first), "the file still says the same"
    path.write_text("two")
    assert await source.refused(first)
    assert await source.refused(first), "somebody else has read the new one already"
    assert await source.current() == Credential("Bearer two")


@async_test
async def test_a_file_that_goes_bad_leaves_the_former_token(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "token"
    with pytest.raises(CredentialsFailed, match="cannot be read"):
        await TokenFile(path, clock).current()
    path.write_text("one")
    source = TokenFile(path, clock)
    await source.current()
    for content in ("", "two words", "x" * 70_000):
        path.write_text(content)
        clock.advance(60)
        assert await source.current() == Credential("Bearer one")


@async_test
async def test_the_token_beside_the_file_serves_until_the_file_is_there(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "token"
    source = TokenFile(path, clock, first="zero")
    assert await source.current() == Credential("Bearer zero")
    path.write_text("one")
    assert await source.current() == Credential("Bearer one")


@async_test
async def test_fixed_credentials_have_nothing_else_to_offer() -> None:
    source = FixedCredential.token("t")
    assert not await source.refused(await source.current())
    assert "Bearer" not in repr(await source.current())
