"""The examples of docs/howto/testing.md, each run as the test file that it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "testing.md"


def test_every_example_passes(tmp_path: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", HOWTO.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 4
    tests = 0
    for number, example in enumerate(examples):
        tests += len(re.findall(r"^def test_", example, re.MULTILINE))
        (tmp_path / f"test_example_{number}.py").write_text(example)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", str(tmp_path)]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"{tests} passed" in finished.stdout
