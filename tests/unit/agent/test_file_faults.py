from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kubevouch.agent.file_faults import explain


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENOSPC, "make room"), (errno.EROFS, "mount it"), (errno.EBUSY, "")]
)
def test_words_and_hints(number: int, hint: str) -> None:
    words, found = explain(OSError(number, os.strerror(number), "/var/lib/kubelet/pki/x.pem"))
    assert words == f"/var/lib/kubelet/pki/x.pem: {os.strerror(number)}"
    assert found.startswith(hint) and bool(found) == bool(hint)


def test_errors_without_a_file_or_a_number() -> None:
    assert explain(OSError(errno.ENOSPC, "No space left on device"))[0] == "No space left on device"
    assert explain(OSError("in words only")) == ("in words only", "")


def test_whose_file_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)  # being somebody else takes root
    refused = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "missing" / "x"))
    assert explain(refused) == (
        f"{tmp_path}/missing/x: Permission denied; {tmp_path} belongs to user {me}, and this is user {me + 1}",
        f"chown {me + 1} {tmp_path}",
    )


def test_ones_own_file_that_is_refused_has_another_reason(tmp_path: Path) -> None:
    if os.geteuid() != tmp_path.stat().st_uid:
        raise AssertionError("the folder of a test belongs to who runs it")
    refused = PermissionError(errno.EACCES, "Permission denied", str(tmp_path))
    assert explain(refused) == (f"{tmp_path}: Permission denied", "")
