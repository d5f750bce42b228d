"""The examples of README.md and docs/howto/testing.md, each run as the test file that it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ((ROOT / "README.md", 1), (ROOT / "docs" / "howto" / "testing.md", 4))


@pytest.mark.parametrize(("page", "count"), PAGES, ids=lambda value: value.name if isinstance(value, Path) else "")
def test_every_example_passes(tmp_path: Path, page: Path, count: int) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == count
    tests = 0
    for number, example in enumerate(examples):
        tests += len(re.findall(r"^def test_", example, re.MULTILINE))
        (tmp_path / f"test_example_{number}.py").write_text(example)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", str(tmp_path)]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"{tests} passed" in finished.stdout
