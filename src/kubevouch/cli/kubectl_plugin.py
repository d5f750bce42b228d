"""``kubectl vouch …``: every command of kubevouch as a kubectl plug-in, and its completion by kubectl.

kubectl finds both programs by their names on PATH; the second one is asked for what may follow
(k8s.io/kubectl plugin_completion.go, Kubernetes 1.26 and later).
"""

from __future__ import annotations

import sys

from kubevouch.cli import ui
from kubevouch.cli.main import cli, run

PROGRAM = "kubectl vouch"
# cobra's ShellCompDirectiveNoFileComp and ShellCompDirectiveDefault.
_NO_FILES, _FILES = 4, 0


def main() -> None:
    """The console script ``kubectl-vouch``."""
    sys.exit(run(prog_name=PROGRAM))


def complete() -> None:
    """The console script ``kubectl_complete-vouch``; its arguments are the words so far, the last one unfinished."""
    ui.raw(completions(sys.argv[1:]))


def completions(words: list[str]) -> str:
    """What may stand for the last of ``words``, as cobra's programs answer."""
    from click.shell_completion import ShellComplete

    *before, incomplete = words or [""]
    found = ShellComplete(cli, {}, PROGRAM, "").get_completions(before, incomplete)
    plain = [item for item in found if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in plain]
    directive = _NO_FILES if len(plain) == len(found) else _FILES
    return "".join(f"{line}\n" for line in [*lines, f":{directive}"])
