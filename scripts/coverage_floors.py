"""How much of each package its own unit tests reach, against the floors in pyproject.toml (`tool.kubevouch.coverage`).

    scripts/coverage_floors.py [PACKAGE …]

Of each package only `tests/unit/PACKAGE` is run: what an integration test happens to pass through is not tested by it.
Ends with 1 if a package is below its floor, or one that has none is named.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import coverage

ROOT = Path(__file__).parents[1]


def floors() -> Mapping[str, int]:
    """Per cent of lines and branches, by package."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: dict[str, int] = settings["tool"]["kubevouch"]["coverage"]
    return found


def reached(package: str) -> float:
    """Per cent of the lines and branches of a package that its unit tests reach.

    Raises:
        SystemExit: a test has failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        tests = ["-m", "pytest", "-q", "-n", "0", f"tests/unit/{package}"]
        command = [sys.executable, "-m", "coverage", "run", f"--data-file={data}", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\nerror: the unit tests of {package} fail")
        measured = coverage.Coverage(data_file=str(data), config_file=str(ROOT / "pyproject.toml"))
        measured.load()
        return measured.report(include=[f"{ROOT}/src/kubevouch/{package}/*"], file=io.StringIO())


def main(names: Sequence[str]) -> int:
    wanted = floors()
    if unknown := sorted(set(names) - set(wanted)):
        sys.exit(f"error: no floor for {', '.join(unknown)}; there is one for {', '.join(wanted)}")
    low = 0
    for package in names or wanted:
        share = reached(package)
        verdict = "" if share >= wanted[package] else f"  below its floor of {wanted[package]} %"
        low += bool(verdict)
        print(f"{package:24} {share:6.1f} %{verdict}", flush=True)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
