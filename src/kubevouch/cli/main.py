"""``kubevouch``: finds the command, runs it, and turns every failure into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import resource
import sys
from collections.abc import Callable, Sequence

import click

from kubevouch import __version__
from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.util.collector import loading

# A module is loaded when its command is used: the credential plug-in has 150 ms.
COMMANDS: dict[str, tuple[str, str]] = {
    "agent": ("kubevouch.cli.agent:agent", "Keep this machine's certificates fresh."),
    "attestation": (
        "kubevouch.cli.attestation:attestation",
        "Look after what the proofs of machines are held against.",
    ),
    "audit": ("kubevouch.cli.audit:audit", "Show that the ledger is what was written, and what is in it."),
    "bench": ("kubevouch.cli.bench:bench", "Measure an API server from the side of its machines."),
    "ca": ("kubevouch.cli.ca:ca", "Replace a cluster's certificate authority, with nobody locked out."),
    "certs": ("kubevouch.cli.certs:certs", "Check, renew, request and import a control plane's certificates."),
    "init": ("kubevouch.cli.init:init", "Make a control plane's files, and what machines need to join."),
    "reset": ("kubevouch.cli.reset:reset", "Remove what init and join have written on this machine."),
    "controllers": (
        "kubevouch.cli.controllers:controllers",
        "Run controllers against clusters whose API servers run elsewhere.",
    ),
    "manifests": ("kubevouch.cli.manifests:manifests", "Print what to apply to a cluster that exists."),
    "install": (
        "kubevouch.cli.install:install",
        "Put the controllers into a cluster that exists, and look whether they work.",
    ),
    "uninstall": ("kubevouch.cli.uninstall:uninstall", "Take out of a cluster what install has put there."),
    "csr": ("kubevouch.cli.csr:csr", "Look at certificate signing requests and decide about them."),
    "completion": ("kubevouch.cli.completion:completion", "Print what makes a shell complete commands and options."),
    "credential": ("kubevouch.cli.credential:credential", "Print this node's certificate for kubelet and kubectl."),
    "doctor": ("kubevouch.cli.doctor:doctor", "Say why a join or a renewal does not work."),
    "up": ("kubevouch.cli.up:up", "Run a cluster's API server and controllers in this process."),
    "node": ("kubevouch.cli.node:node", "Take machines out of service, and say whose a node's name is."),
    "policy": ("kubevouch.cli.policy:policy", "Try policies for certificate requests before they are applied."),
    "recovery": ("kubevouch.cli.recovery:recovery", "Look at which nodes may come back, and decide about them."),
    "join-status": ("kubevouch.cli.join_status:join_status", "Say how far a machine has come on its way in."),
    "join-phase": ("kubevouch.cli.join_phase:join_phase", "Run one phase of a join alone."),
    "backup": ("kubevouch.cli.backup:backup", "Copy a cluster to one file, also while it runs."),
    "restore": ("kubevouch.cli.backup:restore", "Make a data directory from a backup."),
    "issued": ("kubevouch.cli.issued:issued", "Look at which certificates were issued, to whom and why."),
    "join": ("kubevouch.cli.join:join", "Let this machine join a cluster."),
    "serve": ("kubevouch.cli.serve:serve", "Run one of several API servers of a cluster on etcd, without controllers."),
    "sign": ("kubevouch.cli.sign:sign", "Hold a CA's key apart, and sign what a ledger holds as approved."),
    "status": ("kubevouch.cli.status:status", "Say on one screen how a cluster stands."),
    "revoke": ("kubevouch.cli.revoke:revoke", "Let certificates count no more, and see who learns of it."),
    "signer": ("kubevouch.cli.signer:signer", "Make signers of one's own, and say what each signer does."),
    "store": ("kubevouch.cli.store:store", "Check, copy and look through what a cluster keeps."),
    "version": ("kubevouch.cli.version:version", "Say which version this is, and which the server's."),
    "verify": ("kubevouch.cli.verify:verify", "Check what a cluster has signed, without the cluster."),
    "tpm": ("kubevouch.cli.tpm:tpm", "Look at what this machine's TPM can prove."),
    "token": ("kubevouch.cli.token:token", "Create, list, show, delete and generate bootstrap tokens."),
}
DEBUG = "KUBEVOUCH_DEBUG"


# One word to click, because "kubevouch join HOST:PORT" takes no commands; two to people.
_TWO_WORDS = {"join-phase": "join phase", "join-status": "join status"}


def typed(name: str) -> str:
    """A command's name as a person types it and every help shows it."""
    return _TWO_WORDS.get(name, name)


class LazyGroup(click.Group):
    """A group that knows its commands' names and summaries without importing them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # They are no HOST:PORT, so that nobody can have meant to join them.
        if " ".join(args[:2]) in _TWO_WORDS.values():
            args = ["-".join(args[:2]), *args[2:]]
        name, command, rest = super().resolve_command(ctx, args)
        return typed(name) if name else name, command, rest

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        with loading():
            command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(typed(name), COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", message="kubevouch %(version)s")
@click.option("--core-dumps", is_flag=True, help="Let a crash leave a core file. Keys and tokens are in it.")
def cli(core_dumps: bool) -> None:
    """Decides which machines may join a Kubernetes cluster, and keeps their identities fresh."""
    if not core_dumps:
        _leave_no_core()


def _leave_no_core() -> None:
    """Whatever the command, keys or tokens are in its memory; programs that it starts inherit the limit.

    The limit is enough: systemd-coredump and apport, to which the kernel pipes a core whatever the limit is, keep none
    either when it is 0. PR_SET_DUMPABLE would also take /proc/self/fd, which metrics count, from all but root.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Exits with one of :class:`ExitCode`."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None, prog_name: str = "kubevouch") -> int:
    """One command; returns its exit code. ``prog_name`` is what the person has typed."""
    given = None if arguments is None else list(arguments)
    return guarded(lambda: cli.main(args=given, prog_name=prog_name, standalone_mode=False))


def guarded(work: Callable[[], object]) -> int:
    """Run ``work``; whatever it raises ends as one line and an exit code."""
    try:
        result = work()
    except click.exceptions.NoArgsIsHelpError as err:
        ui.lines(err.format_message().splitlines())
        return ExitCode.INVALID
    except click.UsageError as err:
        message, hint = _misuse(err)
        ui.error(message, hint)
        return ExitCode.INVALID
    except click.ClickException as err:
        ui.error(_sentence(err.format_message()))
        return ExitCode.FAILED
    except (KeyboardInterrupt, click.Abort):
        ui.error("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`); Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except Exception as err:  # noqa: BLE001 - the process boundary
        return _failed(err)
    return int(result) if isinstance(result, int) else ExitCode.DONE


def _failed(err: Exception) -> int:
    if os.environ.get(DEBUG):
        import traceback

        for line in traceback.format_exc().splitlines():
            ui.aside(line)
    from kubevouch.cli.failures import explain

    failure = explain(err)
    if failure is None:
        ui.error(
            f"unexpected {type(err).__name__}: {err}",
            f"this is a defect in kubevouch; {DEBUG}=1 shows where it happened",
        )
        return ExitCode.FAILED
    ui.error(failure.message, failure.hint)
    return failure.code


def _misuse(err: click.UsageError) -> tuple[str, str]:
    """What was wrong, and what may have been meant: click suggests for some words, in a voice of its own."""
    command = err.ctx.command if err.ctx is not None else None
    message, word, known = err.format_message(), "", list[str]()
    if isinstance(err, click.NoSuchOption):
        message, word = err.message, err.option_name
        if command is not None and err.ctx is not None:
            known = [name for each in command.get_params(err.ctx) for name in each.opts]
    elif isinstance(err, click.exceptions.NoSuchCommand):
        message, word = err.message, err.command_name
        listed = command.list_commands(err.ctx) if isinstance(command, click.Group) and err.ctx is not None else []
        known = list(map(typed, listed))
    elif isinstance(err, click.BadParameter) and err.param is not None and isinstance(err.param.type, click.Choice):
        # The exception holds the value in its sentence only.
        word, known = err.message.removeprefix("'").partition("'")[0], list(map(str, err.param.type.choices))
    path = err.ctx.command_path if err.ctx is not None else "kubevouch"
    from kubevouch.util.nearest import meant

    return _sentence(message), meant(word, known, f"see {path} --help")


def _sentence(text: str) -> str:
    """click's sentences in our voice: lower case, no full stop."""
    return (text[:1].lower() + text[1:]).rstrip(".")


if __name__ == "__main__":
    main()
