"""A running server's own certificates, renewed in the last third of their life as a start would.

Only what this process shows to others. A person's kubeconfig is the person's: ``certs renew``.
"""

from __future__ import annotations

from kubevouch.phases.certificates import certs_renewal, control_plane_files
from kubevouch.phases.certificates.certs import CertsError, ControlPlanePKI, renewal_time
from kubevouch.phases.certificates.certs_renewal import Outcome
from kubevouch.phases.certificates.control_plane_files import Credential, Layout
from kubevouch.pki.control_plane import APISERVER_KUBELET_CLIENT, FRONT_PROXY_CLIENT
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import elsewhere, working_for

log = get_logger("standalone.leaf_renewal")

LOOK_SECONDS = 600.0
RETRY_SECONDS = 3600.0

RENEWED = tuple(
    control_plane_files.credential(name)
    for name in ("apiserver", APISERVER_KUBELET_CLIENT.base_name, FRONT_PROXY_CLIENT.base_name)
)


class LeafRenewal:
    """Looks after the pairs in ``pki/``. Whoever uses one takes the new one in by itself (:mod:`.ca_files`)."""

    def __init__(self, pki: ControlPlanePKI, clock: Clock) -> None:
        self._layout = Layout(pki=pki.folder, kubeconfigs=pki.folder.parent)
        self._clock = clock
        self._again_at: dict[Credential, float] = {}

    async def keep(self) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for credential in RENEWED:
                await self.look(credential)

    async def look(self, credential: Credential) -> None:
        """Renew one if it is time: the same names, the same kind of key. What goes wrong is logged, and tried again."""
        if self._clock.monotonic() < self._again_at.get(credential, 0.0):
            return
        try:
            # A key of some kinds takes a second to make.
            with working_for("leaf renewal"):
                outcome = await elsewhere(lambda: self._renew(credential))
        except (CertsError, OSError) as err:
            log.error("a certificate cannot be renewed", certificate=credential.name, err=str(err))
            self._again_at[credential] = self._clock.monotonic() + RETRY_SECONDS
            return
        if outcome is Outcome.RENEWED:
            log.info("a certificate was renewed", certificate=credential.name)
        elif outcome is Outcome.EXTERNAL:
            log.error("a certificate ends soon, and its authority's key is not here", certificate=credential.name)
            self._again_at[credential] = self._clock.monotonic() + RETRY_SECONDS

    def _renew(self, credential: Credential) -> Outcome | None:
        now = self._clock.now()
        chain = control_plane_files.read_chain(credential, self._layout)
        if chain is None or now < renewal_time(chain[0]):
            return None
        return certs_renewal.renew(credential, self._layout, now=now)
