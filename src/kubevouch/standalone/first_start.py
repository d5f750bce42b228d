"""What ``up`` makes once, as ``kubeadm init`` does: whatever of it is taken away afterwards stays away."""

from __future__ import annotations

from dataclasses import dataclass

from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.phases import bootstrap_token, cluster_info
from kubevouch.phases.certificates.certs import ControlPlanePKI
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.records.cluster_info import ClusterInfo
from kubevouch.standalone.kubeconfigs import ADMIN_FILE, SUPER_ADMIN_FILE, Kubeconfigs
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.util.clock import Clock


@dataclass(frozen=True, slots=True)
class FirstStart:
    """Called with the server's client while its store is empty. Raises what the client raises, and ``OSError``.

    Args:
        shared: what cluster-info names as the server.
    """

    options: StandaloneOptions
    pki: ControlPlanePKI
    kubeconfigs: Kubeconfigs
    shared: Endpoint
    clock: Clock

    async def __call__(self, client: Client) -> None:
        # The store may be new where the files are not, as in memory: who has removed this file has meant it.
        if not self.kubeconfigs.path(ADMIN_FILE).exists():
            self.kubeconfigs.ensure(SUPER_ADMIN_FILE, SUPER_ADMIN)
        await cluster_info.ensure(client, ClusterInfo(self.shared.url, self.pki.ca_certificate))
        if self.options.token_ttl is not None:
            await bootstrap_token.ensure(client, self.options.token_ttl, now=self.clock.now())
