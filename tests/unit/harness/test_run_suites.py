import os
import re
import subprocess
import sys
from pathlib import Path

import peers

SCRIPT = peers.ROOT / "scripts" / "run_suites.py"

MAKEFILE = """
good:
	printf 'def test_a(): pass\\ndef test_b(): pass\\n' >test_good.py
	{python} -m pytest -q -p no:kubevouch test_good.py $(PYTEST_FLAGS)
bad:
	printf 'import pytest\\ndef test_a(): assert 0\\n@pytest.mark.skip\\ndef test_b(): pass\\n' >test_bad.py
	{python} -m pytest -q -p no:kubevouch test_bad.py $(PYTEST_FLAGS)
check:
	true
broken:
	false
"""


def run(directory: Path, *suites: str) -> tuple[int, list[str]]:
    (directory / "Makefile").write_text(MAKEFILE.format(python=sys.executable))
    done = subprocess.run(
        [sys.executable, SCRIPT, *suites],
        cwd=directory,
        # The make that runs this suite hands its own variables down.
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [" ".join(line.split()) for line in done.stdout.splitlines()]


def without_seconds(line: str) -> str:
    return re.sub(r" [0-9]+\.[0-9] s", "", line)


def test_all_suites_run_and_are_counted(tmp_path: Path) -> None:
    status, lines = run(tmp_path, "bad", "check", "good")
    assert status == 1
    assert [without_seconds(line) for line in lines[-4:]] == [
        "bad FAILED 2 tests",
        "check passed",
        "good passed 2 tests",
        "tests: 2 passed, 1 failed, 1 skipped",
    ]


def test_suites_without_tests_of_their_own(tmp_path: Path) -> None:
    assert run(tmp_path, "check")[0] == 0
    status, lines = run(tmp_path, "broken")
    assert status == 1
    assert lines[-1] == "tests: 0 passed, 0 failed, 0 skipped"
