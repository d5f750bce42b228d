"""From an exception to one sentence, a hint and an exit code."""

from __future__ import annotations

import errno
from typing import NamedTuple

from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.ui import CLIError

_NO_ANSWER = "check that the API server runs, and its address in the kubeconfig"
_REFUSED = {
    401: "the server does not know the kubeconfig's credential, or it has expired; use another kubeconfig",
    403: "use a kubeconfig that may do this; kubevouch up leaves one, admin.conf, in its data directory",
}


_UNREADABLE = (
    "give the server the --encryption-provider-config with the key that this was written with; "
    "kubevouch store inspect shows which one that is"
)


class Failure(NamedTuple):
    message: str
    hint: str
    code: ExitCode


def explain(err: BaseException) -> Failure | None:
    """What to tell the person, or None for an exception that nobody foresaw.

    Imports late: a command that works never loads what only failures need.
    """
    if isinstance(err, CLIError):
        return Failure(str(err), err.hint, err.code)
    from kubevouch.client import interface as client
    from kubevouch.ledger.interface import LedgerError
    from kubevouch.machinery.errors import APIStatusError
    from kubevouch.storage.interface import StoreError

    hint = str(getattr(err, "hint", ""))
    if isinstance(err, client.ClientConfigurationError | client.InvalidName):
        return Failure(str(err), hint, ExitCode.INVALID)
    if isinstance(err, client.TLSFailed | client.NotKubernetes):
        return Failure(str(err), hint, ExitCode.NOT_TRUSTED)
    if isinstance(err, client.TransportError):
        return Failure(str(err), hint or _NO_ANSWER, ExitCode.NO_ANSWER)
    if isinstance(err, APIStatusError):
        hint = _UNREADABLE if str(err).startswith("StorageError: corrupt object") else _REFUSED.get(err.code, "")
        reason = f" ({err.reason})" if err.reason else ""
        return Failure(f"from server{reason}: {err}", hint, ExitCode.REFUSED)
    if isinstance(err, StoreError | LedgerError):
        return Failure(str(err), hint, ExitCode.FAILED)
    if isinstance(err, OSError) and err.errno:
        return _of_system(err, hint)
    # Errors of our own layers carry what to do.
    if hasattr(err, "hint"):
        from kubevouch.agent.interface import SettingsError

        if isinstance(err, SettingsError):
            return Failure(str(err), hint, ExitCode.INVALID)
        return Failure(str(err), hint, ExitCode.FAILED)
    return None


def _of_system(err: OSError, hint: str) -> Failure:
    name = f"{err.filename}: " if err.filename else ""
    words = (err.strerror or str(err)).lower()
    hints = {
        errno.EACCES: "choose a path that this user may write, or run as a user who may",
        errno.ENOSPC: "make room on that file system and try again; nothing was lost",
        errno.EEXIST: "a folder is expected there; move the file away",
        errno.ENOTDIR: "a folder is expected there; move the file away",
        errno.EISDIR: "a file is expected there; move the folder away",
        errno.EROFS: "choose a path on a file system that can be written",
    }
    return Failure(f"{name}{words}", hint or hints.get(err.errno or 0, ""), ExitCode.FAILED)
