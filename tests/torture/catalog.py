"""The bugs that the checker has to find: under which work and faults, and what it has to call each."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from torture.history import Header, History
from torture.run import torture
from torture.systems import SYSTEMS
from torture.violations import Violation
from torture.work import Mix

_ATTEMPTS = 4
_OBJECTS = Mix(joiners=0, spenders=0, deciders=0, revokers=0, names=4)
_LISTS = Mix(listers=6, joiners=0, spenders=0, deciders=0, revokers=0)
_WATCHES = Mix(readers=0, listers=0, watchers=6, joiners=0, spenders=0, deciders=0, revokers=0, names=4)
_REQUESTS = Mix(writers=1, readers=0, listers=0, watchers=2, joiners=0, spenders=0, deciders=3, revokers=0)


@dataclass(frozen=True)
class Bug:
    """How a bug of ``torture.planted`` is brought to show itself.

    Args:
        rules: any of them is what the checker may call it.
        writes: that come before, and as many after, the faults.
        examined: it is seen in the files.
        always: looked for in every test run, not only in a long one.
    """

    rules: tuple[str, ...]
    mix: Mix = field(default=_OBJECTS)
    faults: tuple[str, ...] = ()
    writes: int = 60
    always: bool = True
    system: str = "sqlite"
    examined: bool = False

    async def provoke(self, name: str, folder: Path, seed: int) -> tuple[History, list[Violation]]:
        """What the checker finds in a system with the bug ``name``; tried again with others if it is not that.

        Races may be lost on a machine that is busy.
        """
        for attempt in range(_ATTEMPTS):
            history = History(Header(seed + attempt, self.system, name))
            place = folder / f"{name}-{attempt}"
            place.mkdir()
            async with SYSTEMS[self.system](place, name) as system:
                found = await torture(
                    system, history, self.faults, mix=self.mix, between=self.writes, after=self.writes, seconds=0.2,
                    patience=3.0, examined=self.examined,
                )  # fmt: skip
            if {each.rule for each in found} & set(self.rules):
                break
        return history, found


BUGS = {
    "acknowledged-before-commit": Bug(
        ("a lost write", "a stale read", "two changes at one revision", "a revision that went back"),
        faults=("kill",), writes=40,
    ),
    "no-compare-and-swap": Bug(("a lost update",)),
    "conflict-after-the-write": Bug(("a refused write that happened",)),
    "list-does-not-wait": Bug(("a stale list", "a stale read")),
    "revision-of-the-newest-item": Bug(("a stale list",), Mix(2, 0, 6, 0, 0, 0, 0, 0, names=2), always=False),
    "pages-of-different-times": Bug(("not the state of its revision",), _LISTS),
    "events-merged": Bug(("a change that a watch was not told of",), _WATCHES),
    "watch-from-the-version-itself": Bug(("events out of order",), _WATCHES, always=False),
    "gap-instead-of-410": Bug(("a change that a watch was not told of",), _WATCHES, writes=200),
    "slow-watchers-forgotten": Bug(
        ("a watch that stands still", "a change that a watch was not told of"), _WATCHES, always=False
    ),
    "signs-what-is-open": Bug(("a certificate without an approval",), _REQUESTS, writes=60, always=False),
    "signs-what-is-denied": Bug(("a denied request that was signed",), _REQUESTS, writes=60),
    "signs-again": Bug(("two certificates for one request",), _REQUESTS, writes=60, always=False),
    "uses-not-written": Bug(("a token used too often",), Mix(1, 0, 0, 1, 0, 2, 0, 0)),
    "revocations-asked-once": Bug(("a revoked certificate served",), Mix(1, 0, 0, 1, 0, 0, 0, 1)),
    "newest-is-what-was-heard": Bug(
        ("a stale list", "a stale read"), faults=("partition",) * 8, writes=20, always=False, system="pair",
    ),
    "progress-of-an-old-etcd": Bug(
        ("not the state of its revision", "a stale list", "a stale read"), faults=("cut",) * 12, writes=30,
        always=False, system="pair",
    ),
    "writes-sent-again": Bug(
        ("a refused write that happened",), faults=("lose-answers",) * 12, writes=20, always=False, system="pair",
    ),
    "entered-later": Bug(
        ("a certificate without an entry",), _REQUESTS, faults=("kill",) * 3, writes=30, always=False, examined=True,
    ),
}  # fmt: skip
