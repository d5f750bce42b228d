"""``make demo-attest``: by real programs, whom a cluster lets in and whom not."""

from __future__ import annotations

import sys

import peers
from processes import run

REASONS = (
    "ProofMissing: request created, and nobody has decided: machines prove here what they are",
    "AttestationRefused, message: name-taken: node rack-1 is tpm sha256:",
    "AttestationRefused, message: name-taken: node cloud-1 is aws 111122223333/eu-west-1/i-0abc00000000000a",
    "Denied: AttestationRefused: challenge-used:",
)


def test_machines_join_and_thieves_are_refused_with_the_reason() -> None:
    tests = peers.ROOT / "tests"
    done = run(sys.executable, peers.ROOT / "scripts" / "demo_attest.py", cwd=tests, PYTHONPATH=str(tests))
    assert done.code == 0, done.stdout + done.stderr
    for name in ("rack-1", "edge-1", "cloud-1"):
        assert f"this machine has joined as system:node:{name}" in done.stdout
    assert done.stdout.count("its key stays in the TPM: kubevouch agent speaks with it") == 1
    places = [done.stdout.find(each) for each in REASONS]
    assert -1 not in places and places == sorted(places), (places, done.stdout)
    # Nobody has taken anything over.
    shown = done.stdout.split("$ kubevouch node identities")
    first, last = (
        [line.split()[-1] for line in each.splitlines() if "claimed" in line] for each in (shown[1], shown[2])
    )
    assert len(first) == 3 and first == last
