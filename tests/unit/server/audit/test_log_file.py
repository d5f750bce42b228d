"""Rotation of the audit log."""

import datetime as dt
import gzip
import stat
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.server.audit.log_file import LogFile, RotatingFile
from kubevouch.server.audit.options import LogFileOptions
from kubevouch.testing.clock import FakeClock

MEGABYTE = 1024 * 1024
LINE = b"x" * (MEGABYTE // 2 - 1) + b"\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rotating(
    folder: Path, clock: FakeClock, *, backups: int = 0, days: int = 0, compress: bool = False
) -> RotatingFile:
    path = str(folder / "audit.log")
    return RotatingFile(LogFileOptions(path, days, backups, max_size=1, compress=compress), clock.now)


def test_a_file_that_would_grow_too_large_is_put_aside(tmp_path: Path) -> None:
    clock = FakeClock(dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC))
    file = rotating(tmp_path, clock)
    for _ in range(3):
        file.write(LINE)
    file.close()
    assert names(tmp_path) == ["audit-2026-01-31T12-00-00.000.log", "audit.log"]
    assert (tmp_path / "audit-2026-01-31T12-00-00.000.log").read_bytes() == LINE * 2
    assert (tmp_path / "audit.log").read_bytes() == LINE
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_a_restart_goes_on_with_the_file(tmp_path: Path) -> None:
    clock = FakeClock()
    for _ in range(3):
        file = rotating(tmp_path, clock)
        file.write(LINE)
        file.close()
    assert len(names(tmp_path)) == 2


def test_several_processes_share_a_file_and_rotate_it_once(tmp_path: Path) -> None:
    clock = FakeClock()
    files = [rotating(tmp_path, clock, compress=True) for _ in range(3)]
    for turn in range(10):
        for number, file in enumerate(files):
            file.write(LINE[:-3] + b"%d%d\n" % (turn, number))
        clock.advance(1)
    for file in files:
        file.close()
    assert len(names(tmp_path)) == 15
    packed = (gzip.decompress(path.read_bytes()) for path in tmp_path.glob("*.gz"))
    lines = b"".join([*packed, (tmp_path / "audit.log").read_bytes()]).splitlines()
    assert sorted(line[-2:] for line in lines) == [b"%02d" % number for number in range(100) if number % 10 < 3]


def test_the_oldest_backups_go(tmp_path: Path) -> None:
    clock = FakeClock()
    file = rotating(tmp_path, clock, backups=2)
    (tmp_path / "audit-of-somebody-else.log").touch()
    for _ in range(10):
        file.write(LINE)
        clock.advance(1)
    file.close()
    assert len([name for name in names(tmp_path) if "T" in name]) == 2
    assert "audit-of-somebody-else.log" in names(tmp_path)


def test_backups_that_are_too_old_go(tmp_path: Path) -> None:
    clock = FakeClock()
    file = rotating(tmp_path, clock, days=1)
    for _ in range(3):
        file.write(LINE)
    clock.advance(2 * 86400)
    file.write(LINE)
    file.write(LINE)
    file.close()
    assert len(names(tmp_path)) == 2


def test_backups_are_compressed(tmp_path: Path) -> None:
    clock = FakeClock()
    file = rotating(tmp_path, clock, compress=True)
    for _ in range(5):
        file.write(LINE)
    file.close()
    packed = [path for path in tmp_path.iterdir() if path.suffix == ".gz"]
    assert len(packed) == 2
    assert all(gzip.decompress(path.read_bytes()) == LINE * 2 for path in packed)


@async_test
async def test_each_event_is_a_line_in_its_order(tmp_path: Path) -> None:
    lost: list[tuple[str, int]] = []
    log = LogFile(LogFileOptions(str(tmp_path / "audit.log")), FakeClock(), lambda *what: lost.append(what))
    for number in range(2500):
        log.record(str(number).encode())
    await log.close()
    assert (tmp_path / "audit.log").read_text().splitlines() == [str(number) for number in range(2500)]
    assert not lost


def test_a_path_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-folder"):
        LogFile(LogFileOptions(str(tmp_path / "no-folder" / "audit.log")), FakeClock(), print)
