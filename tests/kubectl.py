"""kubectl as a function, against a cluster in this process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import peers
from kubevouch.testing import Cluster

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


def kubectl_of(cluster: Cluster, version: str, **more: str) -> Kubectl:
    """Runs kubectl of that minor version with the arguments it is called with, and ``given`` on its standard input.

    Args:
        more: variables of its environment.
    """
    binary = peers.kubectl(version)
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.folder), **more}

    def run(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [binary, *arguments], env=environment, capture_output=True, text=True, timeout=240, check=False, input=given
        )

    return run
