"""Our keys as etcd's, under a prefix of their own."""

from __future__ import annotations

import pytest

from kubevouch.storage.etcd.keys import Keys

KEYS = Keys("/elsewhere/two")


def test_keys_go_there_and_back() -> None:
    for key, stored in (
        ("/registry/configmaps/default/ä", "/elsewhere/two/configmaps/default/ä"),
        ("/registry/a", "/elsewhere/two/a"),
    ):
        assert KEYS.of(key) == stored.encode()
        assert KEYS.text(stored.encode()) == key
    assert Keys("/registry").of("/registry/a") == b"/registry/a"


@pytest.mark.parametrize("key", ["", "/", "/registry", "/registryb/a", "/other/a", "registry/a", "/registry/a\0"])
def test_others_are_none_of_ours(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        KEYS.of(key)


@pytest.mark.parametrize("name", [b"secrets/\xff", b"secrets/a\0b", b"\0"])
def test_what_no_server_can_have_written_is_no_key(name: bytes) -> None:
    """A NUL that is listed could be neither read nor deleted nor copied: all who do so to what they find would end."""
    with pytest.raises(ValueError, match=r"without NUL|utf-8"):
        KEYS.text(b"/elsewhere/two/" + name)


@pytest.mark.parametrize(
    ("prefix", "start", "found"),
    [
        ("", "", (b"/elsewhere/two/", b"/elsewhere/two0")),
        ("/registry/", "", (b"/elsewhere/two/", b"/elsewhere/two0")),
        ("/reg", "/a", (b"/elsewhere/two/", b"/elsewhere/two0")),
        ("/registry/a/", "", (b"/elsewhere/two/a/", b"/elsewhere/two/a0")),
        ("/registry/a/", "/registry/a/b\0", (b"/elsewhere/two/a/b\0", b"/elsewhere/two/a0")),
        ("/registry/\U0010ffff", "", ("/elsewhere/two/\U0010ffff".encode(), b"/elsewhere/two0")),
        ("/registry/a/", "/registry/b", None),
        ("/other/", "", None),
        ("/registrya", "", None),
    ],
)
def test_ranges(prefix: str, start: str, found: tuple[bytes, bytes] | None) -> None:
    assert KEYS.range(prefix, start) == found
