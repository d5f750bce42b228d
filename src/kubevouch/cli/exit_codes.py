"""What the exit status of ``kubevouch`` says. 1, 2 and 3 are kubeadm's."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The documented exit codes (docs/reference/exit-codes.md)."""

    DONE = 0
    FAILED = 1
    """It was tried and did not work; the ``error:`` line says why."""
    PREFLIGHT = 2
    """A check before the work found a reason not to begin. Nothing was changed."""
    INVALID = 3
    """A flag, an argument or a file says something that cannot be meant. Nothing was changed."""
    NO_ANSWER = 4
    """The API server did not answer, or not in time."""
    NOT_TRUSTED = 5
    """Something answered that could not be proven to be the right cluster."""
    REFUSED = 6
    """The API server answered and refused."""
    NOT_ENFORCED = 7
    """It was done and is stored, and nothing was seen to enforce it."""
    NOTHING_FOUND = 8
    """It was done, and reaches nothing that is known: who or what was named may have no certificate, or one that nobody
    has written down."""
    INTERRUPTED = 130
    """Control-C."""
