"""What ``up`` makes once, as ``kubeadm init`` does: whatever of it is taken away afterwards stays away."""

from __future__ import annotations

import msgspec

from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.config.kubeadm_v1beta4 import APIServerComponent, ClusterConfiguration, InitConfiguration, Networking
from kubevouch.phases import bootstrap_token, cluster_info, cluster_settings, deleted_nodes, upload_config
from kubevouch.phases.certificates.certs import ControlPlanePKI
from kubevouch.phases.cluster_settings import ClusterSettings
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.records.cluster_info import ClusterInfo
from kubevouch.server.version import MAJOR, MINOR, PATCH
from kubevouch.standalone import addresses
from kubevouch.standalone.kubeconfigs import ADMIN_FILE, SUPER_ADMIN_FILE, Kubeconfigs
from kubevouch.standalone.network import default_address
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.util.clock import Clock


class FirstStart(msgspec.Struct, frozen=True):
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
        await cluster_info.ensure(client, ClusterInfo(
            self.shared.url, self.pki.ca_certificate, await cluster_info.cluster_id(client),
            tuple(each.url for each in addresses.others(self.options, self.kubeconfigs.here)),
        ))  # fmt: skip
        await upload_config.upload(client, self._settings())
        await deleted_nodes.settle(client, self.options.identity.lock_out_deleted_nodes, otherwise=True)
        if self.options.token_ttl is not None and self.options.access.bootstrap_token_auth:
            await bootstrap_token.ensure(client, self.options.token_ttl, now=self.clock.now())

    def _settings(self) -> ClusterSettings:
        """For machines that join by kubeadm: with paths of theirs, not of this server."""
        decided = self.options.control_plane_endpoint or self.shared != self.kubeconfigs.here
        shared = self.shared.address if decided else ""
        return cluster_settings.complete(
            ClusterConfiguration(
                control_plane_endpoint=shared,
                networking=Networking(service_subnet=self.options.service_cluster_ip_range),
                api_server=APIServerComponent(cert_sans=list(self.options.extra_names)),
                encryption_algorithm=self.options.key_algorithm.value,
            ),
            InitConfiguration(),
            # Neither is published.
            host_name="control-plane",
            address=default_address(),
            version=f"v{MAJOR}.{MINOR}.{PATCH}",
        )
