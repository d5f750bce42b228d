"""``make torture``: minutes of work and faults, and what the checker says. ``python -m torture --help``."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from torture import checker
from torture.catalog import BUGS
from torture.history import Header, History, Record, load
from torture.nemeses import NEMESES, OF_LINKS, possible
from torture.run import explain, steps, summary, torture
from torture.systems import SYSTEMS
from torture.violations import Violation

_SHOWN = 5
_FAULTS_A_RUN = 12
_FAULT_SECONDS = 5.0
"""Longer than the Lease of controllers lasts under test."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="torture", description="Work while faults are injected, and a checker after it."
    )
    parser.add_argument("--system", action="append", choices=sorted(SYSTEMS), help="what is tortured; all, without it")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each system")
    parser.add_argument("--seed", type=int, help="what a run with the same seed does again")
    parser.add_argument(
        "--faults", default="", help=f"by commas, of: {', '.join(NEMESES)}; all that are possible, without it"
    )
    parser.add_argument("--into", type=Path, default=Path("torture-results"), help="where histories go")
    parser.add_argument("--bugs", nargs="*", help="find the planted bugs of these names, or all, instead")
    parser.add_argument("--replay", type=Path, help="check a history again, instead")
    asked = parser.parse_args()
    if asked.replay is not None:
        header, records = load(asked.replay)
        print(f"{header.system}, seed {header.seed}: {summary(records)}")
        return _tell(records, checker.check(records))
    asked.into.mkdir(parents=True, exist_ok=True)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1 << 32)
    if asked.bugs is not None:
        return asyncio.run(_find(asked.bugs or list(BUGS), seed))
    failed = 0
    for name in asked.system or list(SYSTEMS):
        failed |= asyncio.run(
            _run(name, seed, asked.seconds, [each for each in asked.faults.split(",") if each], asked.into)
        )
    return failed


async def _run(name: str, seed: int, seconds: float, faults: list[str], into: Path) -> int:
    """As many runs as there is time for: the next seed each, so that each alone can be run again."""
    begun, failed = time.monotonic(), 0
    killed = Counter[str]()
    for number in itertools.count():
        if number and time.monotonic() - begun > seconds:
            for step, count in sorted(killed.items()):
                print(f"  killed {step}: {count}")
            return failed
        chance = random.Random(f"{seed + number} {name}")
        path = into / f"{name}-{seed + number}.jsonl"
        with tempfile.TemporaryDirectory(prefix="kubevouch-torture-") as folder:
            history = History(Header(seed + number, name, "", sys.argv[1:]), path)
            try:
                async with SYSTEMS[name](Path(folder), "mortal") as system:
                    chosen = _chosen(faults or possible(system), chance)
                    started = time.monotonic()
                    found = await torture(system, history, chosen, seconds=_FAULT_SECONDS, examined=True)
            finally:
                history.close()
        print(f"{name}, seed {seed + number}: {', '.join(chosen)}")
        print(f"  {time.monotonic() - started:.0f} s, {summary(history.records)}", flush=True)
        killed.update(steps(history.records))
        failed |= _tell(history.records, found)
        if found:
            print(f"  the history is in {path}; again: --system {name} --seed {seed + number} --seconds 0", flush=True)
        else:
            path.unlink()
    return failed


def _chosen(names: list[str], chance: random.Random) -> list[str]:
    """A third of them with a failing link at the same time."""
    links = [each for each in names if each in OF_LINKS]
    chosen = chance.choices(names, k=_FAULTS_A_RUN)
    return [
        f"{each}+{chance.choice(links)}" if links and each not in OF_LINKS and chance.random() < 1 / 3 else each
        for each in chosen
    ]


async def _find(names: list[str], seed: int) -> int:
    missed = 0
    for name in names:
        bug = BUGS[name]
        with tempfile.TemporaryDirectory(prefix="kubevouch-torture-") as folder:
            history, found = await bug.provoke(name, Path(folder), seed)
        rules = Counter(each.rule for each in found)
        right = sum(rules[each] for each in bug.rules)
        missed += not right
        print(f"{name}: {'found' if right else 'MISSED'}; {dict(rules)}; {summary(history.records)}", flush=True)
    print(f"{len(names) - missed} of {len(names)} found")
    return int(missed > 0)


def _tell(records: list[Record], found: list[Violation]) -> int:
    for each in found[:_SHOWN]:
        print(explain(records, each))
    if found:
        print(f"  {len(found)} violations: {dict(Counter(each.rule for each in found))}", flush=True)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
