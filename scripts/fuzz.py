"""Lets a coverage-guided fuzzer loose on the parsers of tests/fuzz_targets.py.

    scripts/fuzz.py [--seconds N] [TARGET …]

Each target has N seconds and a process of its own. Its corpus stays in .fuzz/TARGET, so that the next run goes on where
this one ended; an input that is a finding lies there as crash-*, timeout-* or oom-*. `make fuzz` brings atheris.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import atheris  # type: ignore[import-untyped]  # only `make fuzz` brings it

# Once for all targets: it takes longer than many of them need to be fuzzed.
with atheris.instrument_imports(include=["kubevouch"]):
    from fuzz_targets import TARGETS, Target

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".fuzz"
MAX_BYTES = 16 * 1024
MAX_WORD = 64  # libFuzzer takes no longer ones
# An input may take no longer, nor more memory.
INPUT_SECONDS = 10
MEMORY_MIB = 2048
FINDINGS = ("crash-*", "timeout-*", "oom-*")


def fuzz(name: str, target: Target, seconds: int) -> None:
    """libFuzzer ends the process, with another status than 0 after a finding."""
    corpus, folder = FOLDER / name / "corpus", FOLDER / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = [f'"{_escaped(word)}"' for word in target.words if 0 < len(word) < MAX_WORD]

    def one(data: bytes) -> None:
        target.run(data)

    limits: dict[str, Any] = {
        "max_total_time": seconds,
        "max_len": MAX_BYTES,
        "timeout": INPUT_SECONDS,
        "rss_limit_mb": MEMORY_MIB,
        "artifact_prefix": f"{folder}/",
        "verbosity": 0,
        "print_final_stats": 1,
    }
    if words:
        # An empty file is an error.
        (folder / "words").write_text("\n".join(words))
        limits["dict"] = folder / "words"
    # libFuzzer and Python each write to the descriptors.
    with (folder / "log").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    atheris.Setup([sys.argv[0], str(corpus), *(f"-{key}={value}" for key, value in limits.items())], one)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def found(name: str) -> set[Path]:
    return {path for pattern in FINDINGS for path in (FOLDER / name).glob(pattern)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    unknown = sorted(set(options.targets) - set(TARGETS))
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    failed = []
    for name in options.targets or TARGETS:
        before = found(name)
        child = os.fork()
        if not child:
            fuzz(name, TARGETS[name], options.seconds)
            os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        log = (FOLDER / name / "log").read_text(errors="replace")
        runs = [line.split()[-1] for line in log.splitlines() if "number_of_executed_units" in line]
        print(f"{name:24} {''.join(runs):>10} inputs  {'a finding' if status else 'fine'}", flush=True)
        if status:
            failed.append(name)
            print(log[-3000:])
            for path in sorted(found(name) - before):
                print(f"  {path.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
