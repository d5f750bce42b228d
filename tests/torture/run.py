"""One run: work, faults, a fence, the checker."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec

from processes import KUBEVOUCH, environment
from torture import checker
from torture.history import Answered, Asked, Damaged, Fault, Fence, History, Issued, Record, Told, of_ops
from torture.nemeses import NEMESES, Stage
from torture.recorder import Client, Recorder
from torture.systems import System
from torture.violations import Violation
from torture.work import MAPS, Mix, Work

FENCE_SECONDS = 20.0
_TRIES = 200
_SHOWN = 40
_STEP = re.compile(
    r" died (?P<when>before|after) (?P<verb>\w+) (?:/registry/)?(?:[\w-]+\.[\w.-]+/)?(?P<resource>\w+(?:/specs)?)"
)


async def torture(
    system: System,
    history: History,
    faults: Iterable[str],
    *,
    mix: Mix | None = None,
    between: int = 100,
    seconds: float = 2.0,
    after: int = 100,
    patience: float = FENCE_SECONDS,
    told: Callable[[str], None] = lambda _: None,
    examined: bool = False,
) -> list[Violation]:
    """Work on ``system`` while ``faults`` come one after the other, or at once (with a plus between); then what the
    checker says.

    Args:
        between: so many acknowledged writes lie before each fault; ``after``: behind the last.
        seconds: how long a fault lasts at most.
        patience: so long an open watch may take to tell of a write, when nothing is wrong any more.
        told: hears of each fault before it comes.
        examined: end everything with kill -9, and look at the files, too.
    """
    recorder = Recorder(history)
    work = Work(recorder, system, history.header.seed, mix or Mix())
    stage = Stage(system, recorder, random.Random(f"{history.header.seed} faults"), seconds)
    stage.steps = stage.chance.randrange(24)
    try:
        await work.prepare()
        work.start()
        for name in faults:
            await recorder.writes(between)
            told(name)
            await asyncio.gather(*(NEMESES[each](stage) for each in name.split("+")))
        await recorder.writes(after)
        await system.heal()
        await work.finish()
        await _fence(work, recorder, patience)
    finally:
        await work.close()
    if examined:
        for process in system.processes:
            await process.end()
        for data_dir in system.data_dirs:
            await _examine(data_dir, recorder)
    return checker.check(history.records)


async def _fence(work: Work, recorder: Recorder, patience: float) -> None:
    """Write once more, read everything through every edge, and wait until every watch knows of that write."""
    system = work.system
    for number, edge in enumerate(system.edges):
        client = system.administrator(recorder, f"fence-{number}", partial(getattr, edge, "url"))
        try:
            for _ in range(_TRIES):
                value = f"fence {recorder.op()}"
                answer = await client.patch(MAPS + "fence", {"data": {"value": value}}, value)
                if answer.code == 404:
                    value = f"fence {recorder.op()}"
                    tree = {"metadata": {"name": "fence"}, "data": {"value": value}}
                    answer = await client.create(MAPS + "fence", tree, value)
                if 200 <= answer.code < 300:
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError(f"nothing can be written any more: {answer}")
            await client.list_(MAPS)
            await _settled(client, recorder.now + patience)
        finally:
            await client.close()
    until = recorder.now + patience
    while recorder.now < until and _behind(recorder.history.records, answer.revision):  # noqa: ASYNC110 - rarely long
        await asyncio.sleep(0.05)
    recorder.add(Fence(recorder.now, answer.revision))


async def _examine(data_dir: Path, recorder: Recorder) -> None:
    checks = [("audit", "verify")] if (data_dir / "ledger.db").exists() else []
    checks += [("store", "verify")] if (data_dir / "kubevouch.db").exists() else []
    for words in checks:
        code, said = await _command(*words, "--data-dir", str(data_dir))
        if code:
            recorder.add(Damaged(recorder.now, f"{' '.join(words)}: {said}"))
    if ("audit", "verify") not in checks:
        return  # it has never led
    flags = ("--kind", "all", "--limit", "1000000", "-o", "json", "--data-dir", str(data_dir))
    _, said = await _command("issued", "list", *flags)
    entries = json.loads(said)["entries"]
    discarded = {each["certificate"] for each in entries if each["kind"] == "discarded"}
    for each in entries:
        if each["kind"] == "issued" and each.get("uid"):
            certificate = hashlib.sha256(base64.b64decode(each["certificate"])).hexdigest()
            counts = each["certificate"] not in discarded
            recorder.add(Issued(recorder.now, data_dir.name, each["uid"], certificate, counts))


async def _command(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *KUBEVOUCH, *words, env=environment(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def _settled(client: Client, until: float) -> None:
    """Until no approved request waits for its certificate; controllers may have died a moment ago."""
    while True:
        answer = await client.list_("certificatesigningrequests/")
        states = [each.request for each in answer.items if each.request is not None]
        waiting = [each for each in states if each.approved and not (each.certificate or each.failed)]
        if (answer.code == 200 and not waiting) or client.recorder.now > until:
            return
        await asyncio.sleep(0.2)


def _behind(records: list[Record], revision: int) -> bool:
    """Whether an open watch has not heard of ``revision``."""
    reached: dict[int, int] = {}
    for record in records:
        if isinstance(record, Asked) and record.verb == "watch" and record.key == MAPS:
            reached[record.op] = 0
        elif isinstance(record, Answered):
            reached.pop(record.op, None)
        elif isinstance(record, Told) and record.op in reached:
            reached[record.op] = record.revision
    return any(each < revision for each in reached.values())


def explain(records: list[Record], violation: Violation) -> str:
    """The violation, and the part of the history that shows it."""
    part = list(of_ops(records, set(violation.ops), set(violation.keys)))
    lines = [msgspec.json.encode(each).decode() for each in part]
    if len(lines) > _SHOWN:
        lines = [*lines[: _SHOWN // 4], f"… {len(lines) - _SHOWN} more", *lines[-_SHOWN * 3 // 4 :]]
    return "\n".join([str(violation), *(f"    {line}" for line in lines)])


def steps(records: list[Record]) -> list[str]:
    """At which writes processes were killed, without the names of objects."""
    return [
        f"{found['when']} {found['verb']} {found['resource']}"
        for record in records
        if isinstance(record, Fault) and (found := _STEP.search(record.what))
    ]


def summary(records: list[Record]) -> str:
    """How much was looked at."""
    kinds = Counter(type(record).__name__ for record in records)
    codes = Counter(record.code for record in records if isinstance(record, Answered))
    shown = ", ".join(f"{count} × {code or 'none'}" for code, count in sorted(codes.items()))
    return f"{kinds['Asked']} requests ({shown}), {kinds['Told']} events, {kinds['Fault']} lines of faults"
