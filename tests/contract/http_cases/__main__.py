"""Play behaviour cases against any Kubernetes API server and compare what comes back.

    cd tests && python -m contract.http_cases --kubeconfig admin.conf --ca-key ca.key [--only 'srv-watch-*'] [--jobs 8]

One line per failing case, then `N passed, N failed, N skipped`; exit status 1 on failures. Use a throw-away server:
cases create and delete objects, and those that list a collection expect to be alone. No controller manager should run.
The server needs client-certificate, bootstrap-token and anonymous authentication, Node and RBAC authorization with the
bootstrap policy, NodeRestriction and the Certificate* admission plug-ins, and a front-proxy CA.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import sys
from pathlib import Path
from typing import Any

from contract.http_cases.case_text import Case, Fixtures, read_cases, shares_nothing, shorten
from contract.http_cases.identities import Identities
from contract.http_cases.player import STATES, Played, Player
from contract.http_cases.run import SkipCase

VECTORS = Path(__file__).parents[2] / "vectors"
_BODY_SHOWN = 200_000

Result = dict[str, Any]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--kubeconfig", required=True, type=Path, help="of a member of system:masters")
    add("--ca-key", type=Path, help="key of the CA whose client certificates the server accepts; else impersonate all")
    add("--ca-cert", type=Path, help="its certificate (default: beside the key, else the kubeconfig's CA)")
    add("--cases", type=Path, default=VECTORS / "server.jsonl")
    add("--fixtures", type=Path, default=VECTORS / "fixtures-server")
    add("--only", action="append", default=[], metavar="GLOB", help="over case ids; may be repeated")
    add("--json", type=Path, help="write every result with what the server answered")
    add("--jobs", type=int, default=1, help="how many cases that share nothing run side by side")
    add("--identity", choices=("auto", "cert", "impersonate"), default="auto", help="how users are played")
    add("--clean", action="store_true", help="delete every CertificateSigningRequest first")
    add("--state", action="append", default=[], choices=STATES, help="also play cases for a server in this state")
    return parser


async def play_all(player: Player, cases: list[Case], jobs: int) -> list[Result]:
    """Results in the order of the cases."""
    results: dict[str, Result] = {}
    gate = asyncio.Semaphore(jobs)

    async def one(case: Case) -> None:
        async with gate:
            results[case["id"]] = await play_one(player, case)

    await asyncio.gather(*(one(case) for case in cases if jobs > 1 and shares_nothing(case)))
    for case in cases:
        if case["id"] not in results:
            await one(case)
    return [results[case["id"]] for case in cases]


async def play_one(player: Player, case: Case) -> Result:
    try:
        played = await player.play(case)
    except SkipCase as err:
        return {"id": case["id"], "outcome": "skipped", "problems": [str(err)]}
    except Exception as err:  # noqa: BLE001 - one case that breaks must not end the others
        problem = f"error: {type(err).__name__}: {shorten(str(err), 600)}"
        print(f"{case['id']}: {problem}", flush=True)  # noqa: T201
        return {"id": case["id"], "outcome": "failed", "problems": [problem]}
    if played.problems:
        print(f"{case['id']}: {'; '.join(played.problems)}", flush=True)  # noqa: T201
    return {
        "id": case["id"],
        "outcome": "failed" if played.problems else "passed",
        "problems": played.problems,
        "got": _answer(played),
    }


def _answer(played: Played) -> Result:
    reply = played.reply
    return {
        "tag": played.tag,
        "status": reply.status,
        "headers": [list(header) for header in reply.headers.items()],
        "body": reply.text[:_BODY_SHOWN],
        "events": reply.events,
        "document": reply.document,
    }


async def main() -> int:
    args = arguments().parse_args()
    fixtures = Fixtures(args.fixtures)
    cases = read_cases(args.cases)
    if args.only:
        cases = [case for case in cases if any(fnmatch.fnmatchcase(case["id"], glob) for glob in args.only)]
    identities = Identities(
        args.kubeconfig, fixtures, ca_key=args.ca_key, ca_certificate=args.ca_cert, mode=args.identity
    )
    player = Player(identities, fixtures, args.state)
    try:
        if args.clean:
            await player.delete_requests()
        results = await play_all(player, cases, args.jobs)
    finally:
        await identities.close()
    if args.json:
        args.json.write_text(json.dumps(results, indent=1, ensure_ascii=False))
    count = {
        outcome: sum(result["outcome"] == outcome for result in results) for outcome in ("passed", "failed", "skipped")
    }
    print(", ".join(f"{number} {outcome}" for outcome, number in count.items()))  # noqa: T201
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
