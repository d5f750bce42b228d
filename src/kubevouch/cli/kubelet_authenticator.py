"""``kubelet-authenticator-NAME``: the exec plug-in by the name that the "Kubelet authentication" proposal gives it.

One program for all methods, that reads in its own name which one it is: a method of somebody else's package needs a
link of that name, and no code.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import run

PREFIX = "kubelet-authenticator-"


def main() -> None:
    """The console scripts."""
    program = Path(sys.argv[0]).name
    if not program.startswith(PREFIX):
        ui.error(f"got the program name {program!r}, expected {PREFIX}NAME", hint="name the link after a method")
        sys.exit(ExitCode.INVALID)
    sys.exit(run(["credential", "--provider", program.removeprefix(PREFIX), *sys.argv[1:]], prog_name=program))
