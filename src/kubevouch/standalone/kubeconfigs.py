"""The kubeconfigs of a data directory: whole, valid and pointing where they pointed, unless a flag says otherwise."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubevouch.client.endpoint import Endpoint
from kubevouch.phases import kubeconfig
from kubevouch.phases.certificates.certs import ControlPlanePKI
from kubevouch.pki.authority import LeafSpec
from kubevouch.pki.control_plane import ADMIN, SUPER_ADMIN
from kubevouch.standalone import addresses
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.util.clock import Clock

ADMIN_FILE = "admin.conf"
SUPER_ADMIN_FILE = "super-admin.conf"


class Moved(msgspec.Struct, frozen=True):
    """``what`` has named ``former`` as its ``key``, empty if nothing, and names ``now``."""

    what: str
    former: str
    now: str
    key: str = "server"


class Kubeconfigs(msgspec.Struct, frozen=True):
    """``here`` is this server."""

    options: StandaloneOptions
    pki: ControlPlanePKI
    here: Endpoint
    clock: Clock

    def path(self, name: str) -> Path:
        return self.options.data_dir / name

    def keep(self, decided: Endpoint | None) -> list[Moved]:
        """Renew what is there, and make ``admin.conf`` if it is missing. Raises ``OSError``."""
        moved = self.ensure(ADMIN_FILE, ADMIN, decided)
        if self.path(SUPER_ADMIN_FILE).exists():
            moved += self.ensure(SUPER_ADMIN_FILE, SUPER_ADMIN, decided)
        return moved

    def ensure(self, name: str, who: LeafSpec, decided: Endpoint | None = None) -> list[Moved]:
        """One of them; where the CA's key is not here, it stays as it is. Raises ``OSError``."""
        if self.pki.signing is None:
            return []
        path = self.path(name)
        former = addresses.recorded(path)
        server = addresses.shared(self.options, self.here, former, decided)
        kubeconfig.ensure(
            path, server.url, self.pki.signing, who, now=self.clock.now(), algorithm=self.options.key_algorithm,
            bundle=self.pki.ca_certificate,
        )  # fmt: skip
        return [] if former in (None, server) else [Moved(name, former.url, server.url)]
