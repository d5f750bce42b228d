"""Nothing is left out of a run: what cannot run where it is fails, and what takes long has a make target of its own."""

from __future__ import annotations

import re

import peers

# This file, and one whose example is a suite with a skip in it.
EXAMPLES = {"test_skips.py", "test_run_suites.py"}
LEAVES_OUT = re.compile(r"mark\.skip|pytest\.skip|importorskip|SkipTest")


def test_no_test_is_skipped() -> None:
    sources = [path for path in (peers.ROOT / "tests").rglob("*.py") if path.name not in EXAMPLES]
    assert [str(path) for path in sources if LEAVES_OUT.search(path.read_text())] == []
