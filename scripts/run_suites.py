"""Runs the named suites, each a target of the Makefile, and closes with one line for each: result, tests, seconds.

All of them run even when one fails, so that one run shows everything; the exit status is 1 if any failed. Two run at
once, begun in the order given: some reckon and others wait for processes, so that neither alone keeps the processors
busy. What one prints is shown whole when it has ended.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

_AT_ONCE = 2


class Counts(NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0


class Outcome(NamedTuple):
    suite: str
    succeeded: bool
    seconds: float
    counts: Counts | None
    """None where the suite runs no pytest."""


def run_suite(suite: str, report: Path) -> Outcome:
    print(f"begun: {suite}", flush=True)
    started = time.monotonic()
    # Given as a variable of make, not in the environment, where a pytest started by a test would pick it up.
    command = ["make", "--no-print-directory", suite, f"PYTEST_FLAGS=--junit-xml={report}"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # One write, so that nothing of another suite comes in between.
    sys.stdout.write(f"\n==== {suite}\n{done.stdout}")
    sys.stdout.flush()
    return Outcome(suite, done.returncode == 0, time.monotonic() - started, read_report(report))


def read_report(report: Path) -> Counts | None:
    if not report.exists():
        return None
    totals = [element.attrib for element in ElementTree.parse(report).iter("testsuite")]
    total, failures, errors, skipped = (
        sum(int(attributes[key]) for attributes in totals) for key in ("tests", "failures", "errors", "skipped")
    )
    return Counts(total - failures - errors - skipped, failures + errors, skipped)


def summary(outcomes: Sequence[Outcome]) -> str:
    lines = []
    for suite, succeeded, seconds, counts in outcomes:
        tests = f"{sum(counts):6} tests" if counts else ""
        lines.append(f"{suite:12} {'passed' if succeeded else 'FAILED'} {seconds:7.1f} s {tests}".rstrip())
    all_counts = [outcome.counts for outcome in outcomes if outcome.counts]
    passed, failed, skipped = (sum(column) for column in zip(Counts(), *all_counts, strict=True))
    lines.append(f"tests: {passed} passed, {failed} failed, {skipped} skipped")
    return "\n".join(lines)


def main(suites: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as reports, ThreadPoolExecutor(_AT_ONCE) as pool:
        reported = [Path(reports) / f"{suite}.xml" for suite in suites]
        outcomes = list(pool.map(run_suite, suites, reported))
    print(f"\n{summary(outcomes)}", flush=True)
    return 0 if all(outcome.succeeded for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
