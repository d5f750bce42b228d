from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubevouch.standalone.options import default_data_dir


@pytest.mark.parametrize(
    ("user", "state", "folder"),
    [
        (0, "/state", "/var/lib/kubevouch"),
        (1000, "/state", "/state/kubevouch"),
        (1000, "", "/home/me/.local/state/kubevouch"),
        (1000, "relative", "/home/me/.local/state/kubevouch"),
    ],
)
def test_default_data_dir(monkeypatch: pytest.MonkeyPatch, user: int, state: str, folder: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_STATE_HOME", state)
    assert default_data_dir() == Path(folder)
