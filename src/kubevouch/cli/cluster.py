"""The cluster that a command speaks to."""

from __future__ import annotations

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

kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Kubeconfig of the cluster.  [default: KUBECONFIG, ~/.kube/config or /etc/kubernetes/admin.conf]",
)


def rest_config_of(kubeconfig: Path | None) -> RESTConfig:
    """Warns of credentials that others can read. Raises ``KubeconfigError``."""
    from kubevouch.agent.own_tpm import know_tpm_of
    from kubevouch.cli.aiohttp_import import load_aiohttp
    from kubevouch.client.kubeconfig import KubeconfigError
    from kubevouch.client.rest_config import rest_config
    from kubevouch.util import logger, logs
    from kubevouch.util.clock import SystemClock

    load_aiohttp()
    if not logger.is_configured():
        logs.configure(SystemClock(), level="warning")
    try:
        config = rest_config(kubeconfig, on_exposed=ui.warning)
    except KubeconfigError:
        if kubeconfig is not None or not ADMIN_FILE.exists():
            raise
        config = rest_config(ADMIN_FILE, on_exposed=ui.warning)
    know_tpm_of(config.tls.private_key)
    return config


@asynccontextmanager
async def connected(config: RESTConfig) -> AsyncIterator[HTTPSClient]:
    """A client whose warnings go to the terminal."""
    async with config.client(component="cli", on_warning=ui.warning) as client:
        yield client
