"""The cluster that a command speaks to."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import ui

if TYPE_CHECKING:
    from kubevouch.client.https import HTTPSClient
    from kubevouch.client.rest_config import RESTConfig

# Where kubeadm and kubevouch leave the operator's kubeconfig; looked at when nothing else is named.
ADMIN_FILE = Path("/etc/kubernetes/admin.conf")

# Reading and writing for group and others.
_OTHERS = 0o066

kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Kubeconfig of the cluster.  [default: KUBECONFIG, ~/.kube/config or /etc/kubernetes/admin.conf]",
)


def rest_config_of(kubeconfig: Path | None) -> RESTConfig:
    """Warns of a kubeconfig that others can read. Raises ``KubeconfigError``."""
    from kubevouch.client.kubeconfig import KubeconfigError
    from kubevouch.client.rest_config import rest_config

    for path in _looked_at(kubeconfig):
        warn_if_loose(path)
    try:
        return rest_config(kubeconfig)
    except KubeconfigError:
        if kubeconfig is not None or not ADMIN_FILE.exists():
            raise
        return rest_config(ADMIN_FILE)


def _looked_at(kubeconfig: Path | None) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    named = [Path(text) for text in os.environ.get("KUBECONFIG", "").split(os.pathsep) if text]
    return named or [Path.home() / ".kube/config"]


def warn_if_loose(path: Path) -> None:
    """A file with a credential is for its owner alone."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_file() and mode & _OTHERS:
            ui.warning(f"{path} can be read by others (mode {mode:04o}); chmod 600 {path}")


@asynccontextmanager
async def connected(config: RESTConfig) -> AsyncIterator[HTTPSClient]:
    """A client whose warnings go to the terminal."""
    async with config.client(component="cli", on_warning=ui.warning) as client:
        yield client
